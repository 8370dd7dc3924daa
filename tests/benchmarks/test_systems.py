"""Every system of the benchmarks gives the right answer, at a tiny size."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.computation import expected, gradient, random_inputs, steep_inputs
from benchmarks.lineup import Lineup, check
from benchmarks.socket_bytes import Traffic
from benchmarks.systems import SYSTEMS
from benchmarks.systems.base import InPlace, NotOffered, Pipelines, System, TwoPhases


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.key)
def test_a_system_answers_right(system: System) -> None:
    if system.key == "flight":
        pytest.importorskip("pyarrow")
    inputs = random_inputs(1000)
    with system.serve() as served:
        try:
            client = system.connect(served.address)
        except NotOffered as reason:
            pytest.skip(str(reason))
        with client:
            for elements in (8, 300_000):
                check(system, client, elements)
            if isinstance(client, TwoPhases):
                client.two_phases(inputs)()
            if isinstance(client, Pipelines):
                client.pipeline(inputs, 20)
            if isinstance(client, InPlace):
                np.testing.assert_allclose(client.in_place(inputs)(), expected(inputs), rtol=1e-5)
            check(system, client)


@pytest.mark.parametrize("key", ["first-draft", "tcp", "in-process"])
def test_a_chain_feeds_each_result_into_the_next(key: str) -> None:
    inputs = steep_inputs(100)
    slope = expected(inputs) / inputs.grad
    with Lineup([key]) as lineup:
        for running in lineup.take().values():
            for count in (1, 3):
                result = running.client.chain(inputs, count)
                np.testing.assert_allclose(result, inputs.grad * slope**count, rtol=1e-6)


def test_the_kernel_of_the_others_is_right_beyond_one_block() -> None:
    inputs = random_inputs(70_000)
    np.testing.assert_allclose(gradient(*inputs.arrays), expected(inputs), rtol=1e-5, atol=1e-6)


def test_a_wrong_answer_is_noticed() -> None:
    with Lineup(["in-process"]) as lineup:
        client = lineup.take()["in-process"].client
        client.call = lambda inputs: inputs.grad  # type: ignore[method-assign]
        with pytest.raises(AssertionError):
            check(SYSTEMS[-1], client)


def test_a_system_that_cannot_be_measured_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(address: str) -> None:
        raise NotOffered("not on Tuesdays")

    broken = System("broken", "Broken", SYSTEMS[-1].serve, refuse)  # type: ignore[arg-type]
    monkeypatch.setattr("benchmarks.lineup.SYSTEMS", (broken, SYSTEMS[-1]))
    with Lineup() as lineup:
        assert list(lineup.take()) == ["in-process"]
        assert lineup.skipped == {"Broken": "not on Tuesdays"}


def test_bytes_are_counted_at_the_socket() -> None:
    inputs = random_inputs(10_000)
    with Lineup(["ping-pong"]) as lineup:
        running = lineup.take()["ping-pong"]
        running.client.call(inputs)
        port = int(running.served.address.rpartition(":")[2])
        before = Traffic.with_port(port)
        running.client.call(inputs)
        moved = Traffic.with_port(port) - before
    assert 0 <= moved.sent - 3 * inputs.grad.nbytes < 1000
    assert 0 <= moved.received - inputs.grad.nbytes < 1000


def test_bytes_are_counted_at_all_of_a_server_s_ports() -> None:
    inputs = random_inputs(400_000)  # more than goes in messages
    with Lineup(["tcp"]) as lineup:
        running = lineup.take()["tcp"]
        before = Traffic.with_server(running.served.pid)
        running.client.call(inputs)
        moved = Traffic.with_server(running.served.pid) - before
    assert 0 <= moved.sent - 3 * inputs.grad.nbytes < 5000
    assert 0 <= moved.received - inputs.grad.nbytes < 5000
