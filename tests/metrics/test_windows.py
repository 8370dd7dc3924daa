"""Rates are of the time that they say they are of."""

from __future__ import annotations

import numpy as np
import pytest

from aclnn_server.metrics.windows import (
    KEEP_SECONDS,
    LONGEST_SECONDS,
    WINDOW_SECONDS,
    Sample,
    Windows,
    quantile,
)
from aclnn_server.sessions.meters import SUM, Tally


def sample(calls: int) -> Sample:
    return Sample(calls=calls)


def test_the_first_look_is_at_the_servers_whole_life() -> None:
    windows = Windows(started=100.0)
    seconds, since = windows.look(160.0, {"server": sample(600)})
    assert seconds == 60.0
    assert since["server"].activity(seconds).calls_per_second == 10.0


def test_later_looks_are_at_the_last_ten_seconds() -> None:
    windows = Windows(started=0.0)
    spans = []
    for second in range(100, 160, 2):
        seconds, since = windows.look(float(second), {"server": sample(7 * second)})
        spans.append((seconds, since["server"].calls / seconds))
    assert spans[0] == (100.0, 7.0)
    assert spans[1] == (2.0, 7.0)
    assert set(spans[6:]) == {(WINDOW_SECONDS, 7.0)}


def test_after_a_pause_a_look_is_at_the_pause_and_after_a_long_one_at_everything() -> None:
    windows = Windows(started=0.0)
    windows.look(1000.0, {"server": sample(10)})
    seconds, since = windows.look(1030.0, {"server": sample(40)})
    assert (seconds, since["server"].calls) == (30.0, 30)
    seconds, since = windows.look(1030.0 + LONGEST_SECONDS + 1, {"server": sample(45)})
    assert (seconds, since["server"].calls) == (1030.0 + LONGEST_SECONDS + 1, 45)


def test_two_who_look_at_once_do_not_see_a_window_of_nothing() -> None:
    windows = Windows(started=0.0)
    windows.look(100.0, {"server": sample(100)})
    windows.look(100.0 + KEEP_SECONDS, {"server": sample(110)})
    seconds, since = windows.look(100.001 + KEEP_SECONDS, {"server": sample(110)})
    assert seconds == pytest.approx(KEEP_SECONDS + 0.001)
    assert since["server"].calls == 10


def test_what_is_new_is_counted_from_nothing() -> None:
    windows = Windows(started=0.0)
    windows.look(10.0, {})
    _, since = windows.look(12.0, {"context": sample(5)})
    assert since["context"].calls == 5


def test_activity_is_what_the_tally_says() -> None:
    tally = Tally()
    for run in (1000, 2000, 3000, 10**6):
        tally.note_run("aclnnAdd", 10, 20, run, 30)
    tally.failures["aclnnAdd", "INTERNAL", 561000] += 2
    tally.methods["execute"] += 8
    tally.errors["execute", ("aclnnAdd", "INTERNAL", 561000)] += 4
    tally.received, tally.sent = 4096, 1024
    activity = Sample.of(tally).activity(2.0)
    rates = (
        activity.calls_per_second,
        activity.runs_per_second,
        activity.errors_per_second,
        activity.received_per_second,
        activity.sent_per_second,
    )
    assert rates == (4.0, 3.0, 2.0, 2048.0, 512.0)
    latency = activity.latency
    assert latency.runs == 4
    assert latency.run_seconds == pytest.approx((6000 + 10**6) / 4 / 1e9)
    others = [latency.queue_seconds, latency.copy_in_seconds, latency.copy_out_seconds]
    assert others == pytest.approx([1e-8, 2e-8, 3e-8])


def test_nothing_has_no_latency() -> None:
    assert Sample().activity(1.0).latency.p99_seconds == 0.0


@pytest.mark.parametrize("fraction", [0.01, 0.5, 0.9, 0.99])
def test_quantiles_are_exact_to_a_factor_of_two(fraction: float) -> None:
    times = np.random.default_rng(8).lognormal(12, 2, 5000).astype(np.int64) + 1
    tally = Tally()
    for nanoseconds in times.tolist():
        tally.note_run("aclnnAdd", 0, 0, nanoseconds, 0)
    told = quantile(tally.cells["aclnnAdd"][:SUM], fraction)
    exact = float(np.quantile(times, fraction)) / 1e9
    assert exact / 2 <= told <= exact * 2
