"""Rates: how many at once, how many on average, and of whom."""

from __future__ import annotations

import pytest

from aclnn.errors import LimitExceededError
from aclnn_server.sessions.rates import BURST_SECONDS, REMEMBERED_CLIENTS, Arrivals, Rate
from tests.sessions.conftest import Clock


def test_a_burst_then_the_rate(clock: Clock) -> None:
    rate = Rate(4.0, 3, clock)
    assert [rate.take() for _ in range(3)] == [0.0, 0.0, 0.0]
    assert rate.take() == pytest.approx(0.25)
    clock.advance(0.1)
    assert rate.take() == pytest.approx(0.15)  # what is refused does not count
    clock.advance(0.15)
    assert rate.take() == 0.0
    assert rate.take() == pytest.approx(0.25)


def test_a_rest_earns_no_more_than_the_burst(clock: Clock) -> None:
    rate = Rate(10.0, 2, clock)
    clock.advance(1000)
    assert [rate.take() for _ in range(2)] == [0.0, 0.0]
    assert rate.take() == pytest.approx(0.1)


@pytest.mark.parametrize("per_second", [0.001, 0.3, 7.0, 1e6])
def test_what_keeps_the_interval_is_never_refused(per_second: float, clock: Clock) -> None:
    rate = Rate(per_second, 1, clock)
    for _ in range(1000):
        assert rate.take() == 0.0
        clock.advance(1 / per_second)


def test_each_client_has_its_rate_and_the_server_one_for_all(clock: Clock) -> None:
    arrivals = Arrivals(1.0, 0.5, clock)
    for _ in range(int(0.5 * BURST_SECONDS)):
        arrivals.admit("one")
    with pytest.raises(LimitExceededError, match=r"the 0\.5 a second that this client") as caught:
        arrivals.admit("one")
    assert (caught.value.code, caught.value.retry_after_ms) == (207012, 2000)
    for _ in range(5):
        arrivals.admit("two")
    with pytest.raises(LimitExceededError, match="the 1 a second that the server may") as caught:
        arrivals.admit("three")
    assert caught.value.retry_after_ms == 1000
    clock.advance(1)
    for _ in range(2):  # what the server refused has not counted for the client
        arrivals.admit("three")
        clock.advance(1)


def test_a_rate_of_its_own_takes_the_place_of_that_of_every_client(clock: Clock) -> None:
    arrivals = Arrivals(0, 100.0, clock)
    own = Rate(1.0, 1, clock)
    arrivals.admit("one", own)
    with pytest.raises(LimitExceededError, match="the 1 a second that this client"):
        arrivals.admit("one", own)


def test_no_rates_are_no_limit(clock: Clock) -> None:
    arrivals = Arrivals(0, 0, clock)
    for _ in range(100_000):
        arrivals.admit("one")


def test_many_clients_take_no_more_memory_than_some(clock: Clock) -> None:
    arrivals = Arrivals(0, 1.0, clock)
    for client in range(3 * REMEMBERED_CLIENTS):
        arrivals.admit(str(client))
    assert len(arrivals._clients) == REMEMBERED_CLIENTS
