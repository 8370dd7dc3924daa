"""Faults are told as docs/faults.md says, to the program and to the server's operator."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from aclnn.errors import AclnnError
from aclnn_server.server import Server
from tests.access.conftest import TokenFile
from tests.docs.faults import FAULTS, Scene
from tests.metrics.asking import Scrape

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
NOTHING = "—"


def table(name: str) -> dict[str, list[str]]:
    """A table of the page: the rest of each row by its first cell."""
    (part,) = re.findall(rf"<!-- {name} -->\n(.*?)<!-- End -->", PAGE.read_text(), re.DOTALL)
    rows = [re.split(r" \| ", line.strip("| \n")) for line in part.strip().splitlines()[2:]]
    return {first: [cell.strip("`") for cell in rest] for first, *rest in rows}


CALLER, OPERATOR = table("Caller"), table("Operator")


def matches(text: str, documented: str) -> bool:
    """Whether a text is as documented, where … stands for anything."""
    return re.fullmatch(re.escape(documented).replace("…", ".*"), text) is not None


def test_every_fault_has_its_row() -> None:
    assert list(CALLER) == list(FAULTS)
    assert set(OPERATOR) <= set(FAULTS)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_as_it_says(
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    scene = Scene(monkeypatch, TokenFile(tmp_path / "tokens.toml"))
    kind, code, message = CALLER[fault]
    log, metric = OPERATOR.get(fault, [NOTHING, NOTHING])
    counted: list[float] = []

    def look(server: Server) -> None:
        family, label, reason = re.findall(r"\w+", metric)
        samples = Scrape(server).all(family).items()
        counted.extend(value for labels, value in samples if (label, reason) in labels)

    if metric != NOTHING:
        scene.look = look
    with caplog.at_level(logging.INFO), pytest.raises(AclnnError) as caught:
        FAULTS[fault](scene)
    error = caught.value
    assert (type(error).__name__, str(error.code)) == (kind, code)
    assert matches(error.message, message), error.message
    told = [record.getMessage() for record in caplog.records]
    failures = [line for line in told if "unexpectedly" in line or "refused" in line]
    assert log == NOTHING or any(matches(line, log) for line in told), told
    assert log != NOTHING or not failures, failures
    assert metric == NOTHING or sum(counted) >= 1, f"{metric} counts nothing"
