"""The table of operators beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from aclnn_server.backends.numpy import NumpyBackend
from aclnn_server.operators.catalogue import built_in
from benchmarks import operators
from benchmarks.cases import cases
from benchmarks.cases.case import Case


def test_every_operator_has_a_case_and_every_note_belongs_to_one() -> None:
    found = [(case.operator, case.title) for case in cases()]
    assert {f"aclnn{name}" for name, _ in found} == set(built_in())
    titles = [title for _, title in found]
    assert len(set(titles)) == len(titles)
    assert set(titles) >= operators.NOTES.keys()


def test_a_case_gives_what_its_expression_gives() -> None:
    x, y, out = np.arange(4, dtype=np.float32), np.ones(4, np.float32), np.empty(4, np.float32)
    case = Case("Mul", (x, y, out), lambda: x * y)
    row = operators.measured(case, NumpyBackend(threads=1).devices, rounds=1)
    np.testing.assert_array_equal(out, case.expression())
    assert row.plain > 0
    assert len(row.ours) == 1


def test_the_limit_holds_for_the_worst_number_of_threads() -> None:
    case = Case("Mul", (), lambda: None, "of two")
    fast, slow = operators.Row(case, (1.0, 1.5), 1.0), operators.Row(case, (1.6, 1.0), 1.0)
    assert (fast.slow, slow.slow) == (False, True)
    assert str(slow).startswith("Mul of two ")
    assert str(slow).endswith("slow")


def test_the_command_prints_one_operator(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["operators", "Erf", "--threads", "1", "--rounds", "1"])
    assert operators.main() == 0  # an order of magnitude below the limit
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["Erf"]
