"""The measurement of what counting costs."""

from __future__ import annotations

import pytest

from aclnn_server.sessions import meters
from benchmarks import metering


def test_it_measures_calls_that_are_made_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metering, "ROUNDS", 2)
    side = metering.Side(metering=True)
    side.measure(1)
    side.measure(1 + metering.CALLS)
    context = side._call.submitted
    assert context is not None
    tally = context.default_session.tally
    assert tally is not None
    # The first call of all is planned step by step, and remembered.
    assert sum(tally.at_once[metering.OPERATOR][: meters.SUM]) == 2 * metering.CALLS - 1
    assert 0 < side.best < float("inf")
    assert metering.main() == 0
    assert capsys.readouterr().out.count("µs") == 2
