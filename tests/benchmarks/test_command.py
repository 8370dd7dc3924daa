"""The command as a whole, on the two cheapest questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.client_process import KINDS, ClientProcesses
from benchmarks.lineup import Lineup
from benchmarks.measuring import Effort
from benchmarks.questions import QUESTIONS, chain
from benchmarks.questions.base import NotAsked, Question
from benchmarks.results import Figure, Results


def test_a_run_writes_json_and_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--quick", "--only", "small-calls", "--systems", "in-process", "tcp"]
    assert command.main([*arguments, "--out", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "[1/1] How long does a small call take?" in told.err
    assert "| what | reach | measured | verdict |" in told.out
    results = Results.load(tmp_path)
    assert {row.subject for row in results.figures} == {"in-process", "tcp"}
    assert all(value > 0 for row in results.figures for value in row.rounds)
    assert "aclnn-serve, TCP" in (tmp_path / "results.md").read_text()
    (tmp_path / "results.md").unlink()
    assert command.main(["--report", "--out", str(tmp_path)]) == 0
    assert "aclnn-serve, TCP" in (tmp_path / "results.md").read_text()


def test_one_question_that_fails_does_not_keep_others_from_being_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(lineup: Lineup, effort: Effort) -> list[Figure]:
        raise ZeroDivisionError

    def decline(lineup: Lineup, effort: Effort) -> list[Figure]:
        raise NotAsked("it is raining")

    def answer(lineup: Lineup, effort: Effort) -> list[Figure]:
        return [Figure("start", "tcp", "import", "time", "s", (1.0,))]

    asked = [
        Question(name, f"{name}?", "", ask)
        for name, ask in (("fails", fail), ("declines", decline), ("start", answer))
    ]
    monkeypatch.setattr(command, "QUESTIONS", asked)
    assert command.main(["--out", str(tmp_path)]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    results = Results.load(tmp_path)
    assert len(results.figures) == 1
    assert results.skipped == {"fails?": "failed", "declines?": "it is raining"}


def test_a_chain_moves_its_payload_once() -> None:
    with Lineup(["tcp"]) as lineup:
        figures = {
            (row.subject, row.measure): row.value for row in chain.ask(lineup, Effort(quick=True))
        }
    assert 1 <= figures["tcp", "both"] / figures["payload", "both"] < 1.05


def test_many_clients_all_get_through() -> None:
    with Lineup(["tcp"]) as lineup:
        address = lineup.take()["tcp"].served.address
        with ClientProcesses("tcp", address, clients=4, processes=2) as clients:
            for kind in KINDS:
                rates = clients.run(kind, 0.05).rates
                assert len(rates) == 4
                assert min(rates) > 0


def test_questions_have_keys_of_their_own() -> None:
    assert len({question.key for question in QUESTIONS}) == len(QUESTIONS)
