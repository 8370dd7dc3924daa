"""Meters lose nothing: whatever ends while it is counted, and whoever looks meanwhile."""

from __future__ import annotations

import threading

import pytest

from aclnn.errors import InvalidParameterError
from aclnn_server.sessions.meters import (
    COPY_IN,
    COPY_OUT,
    QUEUE,
    RUN,
    SUM,
    WHOLE,
    Meters,
    Tally,
    failure_of,
)


@pytest.mark.parametrize(
    ("nanoseconds", "exponent"),
    [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10), (1025, 11), (2**40, 40), (2**62, 62)],
)
def test_a_time_is_counted_up_to_the_next_power_of_two(nanoseconds: int, exponent: int) -> None:
    tally = Tally()
    tally.note_run("aclnnAdd", 1, 0, nanoseconds, 0)
    run = tally.cells["aclnnAdd"][RUN : RUN + SUM]
    assert [index for index, count in enumerate(run) if count] == [exponent]
    assert tally.cells["aclnnAdd"][RUN + SUM] == nanoseconds


def test_a_run_is_counted_whole_and_in_parts() -> None:
    tally = Tally()
    tally.note_run("aclnnAdd", 10, 20, 30, 40)
    tally.note_run("aclnnAdd", 0, 0, 5, 0)
    cell = tally.cells["aclnnAdd"]
    counts = {part: sum(cell[part : part + SUM]) for part in (WHOLE, QUEUE, COPY_IN, RUN, COPY_OUT)}
    assert counts == {WHOLE: 2, QUEUE: 2, COPY_IN: 1, RUN: 2, COPY_OUT: 1}
    sums = [cell[part + SUM] for part in (WHOLE, QUEUE, COPY_IN, RUN, COPY_OUT)]
    assert sums == [105, 10, 20, 35, 40]
    assert tally.runs == 2


def test_a_call_made_in_one_step_is_two_calls_and_a_run_that_waited_for_nothing() -> None:
    tally, total = Tally(), Tally()
    tally.note_at_once("aclnnAdd", 1000)
    tally.note_at_once("aclnnAdd", 2000)
    tally.note_run("aclnnAdd", 10, 0, 30, 0)
    tally.note_failure_at_once("aclnnAdd", InvalidParameterError("no"))
    total.add(tally)
    total.add(Tally())
    cell = total.cells["aclnnAdd"]
    counts = [sum(cell[part : part + SUM]) for part in (WHOLE, QUEUE, COPY_IN, RUN, COPY_OUT)]
    sums = [cell[part + SUM] for part in (WHOLE, QUEUE, COPY_IN, RUN, COPY_OUT)]
    assert (counts, sums) == ([3, 3, 0, 3, 0], [3040, 10, 0, 3030, 0])
    assert dict(total.methods) == {"get_workspace_size": 3, "execute": 3}
    assert dict(total.failures) == {("aclnnAdd", "INVALID_PARAMETER", 161002): 1}


def test_errors_of_ours_keep_their_reason_and_others_are_internal() -> None:
    assert failure_of(InvalidParameterError("no"), "aclnnAdd") == (
        "aclnnAdd",
        "INVALID_PARAMETER",
        161002,
    )
    assert failure_of(ZeroDivisionError("no"), "aclnnAdd") == ("aclnnAdd", "INTERNAL", 561000)


def test_what_a_context_has_done_outlives_it() -> None:
    meters = Meters()
    meter = meters.open(1, "alice")
    stream, call = meter.open(), meter.open()
    stream.note_run("aclnnAdd", 1, 0, 2, 0)
    call.methods["Execute"] += 1
    call.received += 7
    meter.close(stream)
    meter.note_call("Malloc")
    meter.note_bytes(11, 13)
    meters.end(meter, "lease")
    meter.note_error("Execute", ("aclnnAdd", "NOT_FOUND", 107017))  # counted late, and not lost
    meters.end(meter, "stop")

    assert meters.contexts_opened == {(1, "alice"): 1}
    assert meters.contexts_ended == {((1, "alice"), "lease"): 1}
    total = meters.totals()[1, "alice"]
    assert total.runs == 1
    assert dict(total.methods) == {"Execute": 1, "Malloc": 1}
    assert (total.received, total.sent) == (18, 13)
    assert dict(total.errors) == {("Execute", ("aclnnAdd", "NOT_FOUND", 107017)): 1}


def test_every_count_is_seen_once_while_tallies_come_and_go() -> None:
    meters = Meters()
    seen: list[int] = []
    done = threading.Event()

    def work() -> None:
        for _ in range(30):
            meter = meters.open(0, "")
            for _ in range(3):
                tally = meter.open()
                for _ in range(7):
                    tally.note_run("aclnnAdd", 1, 0, 2, 0)
                meter.close(tally)
            meters.end(meter, "closed")

    def look() -> None:
        while not done.is_set():
            seen.append(meters.totals()[0, ""].runs)

    watcher = threading.Thread(target=look)
    workers = [threading.Thread(target=work) for _ in range(4)]
    watcher.start()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    done.set()
    watcher.join()

    assert seen == sorted(seen)
    assert meters.totals()[0, ""].runs == 4 * 30 * 3 * 7
    assert meters.contexts_ended == {((0, ""), "closed"): 120}
