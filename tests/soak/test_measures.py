"""What a long run is judged by finds what it is to find, and nothing else."""

from __future__ import annotations

import math

import pytest

from tests.soak.measures import Latencies, growth

MIB = 1 << 20


@pytest.mark.parametrize("rate", [0, 64, 4096, -512])
def test_growth_is_found_below_what_comes_and_goes(rate: int) -> None:
    spikes = (0, 3 * MIB, 70 * MIB, 0, MIB)
    samples = [(at / 10, 200 * MIB + rate * at + spikes[at % 5]) for at in range(3001)]
    assert growth(samples) == pytest.approx(3000 * rate, rel=0.02, abs=1)


def test_quantiles() -> None:
    now = 0.0
    latencies = Latencies(lambda: now)
    for millisecond in range(1, 101):
        with latencies.timed("small"):
            now += millisecond / 1000
    assert latencies.count("small") == 100
    assert latencies.quantile("small", 0.5) == pytest.approx(0.050, rel=0.05)
    assert latencies.quantile("small", 0.99) == pytest.approx(0.099, rel=0.05)
    assert latencies.count("large") == 0
    assert math.isnan(latencies.quantile("large", 0.5))
    assert latencies.table().splitlines()[1].split()[:2] == ["small", "100"]
