"""Steps of optimisers, and of the scale of losses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.cases.case import ELEMENTS, Array, Case, f, floats


def cases() -> Iterator[Case]:
    yield _adam_w()
    yield from _adam_w_after_steps()
    yield _scale()


def _moments(first: Array, second: Array, grad: Array) -> tuple[Array, Array]:
    return f(0.9) * first + f(0.1) * grad, f(0.999) * second + f(0.001) * grad * grad


def _adam_w() -> Case:
    var, m, v, grad = floats(ELEMENTS, count=4)
    one, two = f(0.9**3), f(0.999**3)
    numbers = (one, two, f(1e-2), f(0.1), f(0.9), f(0.999), f(1e-6))

    def expression() -> object:
        first, second = _moments(m, v, grad)
        step = first / (np.sqrt(second / (1 - two * f(0.999))) + f(1e-6))
        return var * f(1 - 1e-3) - f(1e-2) / (1 - one * f(0.9)) * step, first, second

    tensors = [np.array([number]) for number in numbers]
    ours = (var.copy(), m.copy(), v.copy())
    return Case("ApplyAdamW", (*ours, *tensors, grad, None, False, False), expression)


def _adam_w_after_steps() -> Iterator[Case]:
    var, m, v, largest, grad = floats(ELEMENTS, count=5)
    root, rate = f(np.sqrt(1 - 0.999**4)), f(1e-2 / (1 - 0.9**4))
    numbers = (np.full((), 3, f), 1e-2, 0.9, 0.999, 0.1, 1e-6)

    def step(first: Array, second: Array) -> Array:
        return var * f(1 - 1e-3) - rate * first / (np.sqrt(second) / root + f(1e-6))

    def plain() -> object:
        first, second = _moments(m, v, grad)
        return step(first, second), first, second

    def bounded() -> object:
        first, second = _moments(m, v, grad)
        most = np.maximum(largest, second)
        return step(first, most), first, second, most

    ours, others = ((var.copy(), m.copy(), v.copy()) for _ in range(2))
    yield Case("ApplyAdamWV2", (*ours, None, grad, *numbers, False, False), plain)
    limited = (*others, largest.copy(), grad, *numbers, True, False)
    yield Case("ApplyAdamWV2", limited, bounded, "amsgrad")


def _scale() -> Case:
    scale, found, good = np.full(1, 1024, f), np.zeros(1, f), np.full(1, 7, np.int32)

    def expression() -> object:
        if found[0]:
            return scale * f(0.5), np.zeros_like(good)
        grows = good + 1 == 2000
        return np.where(grows, scale * 2, scale), np.where(grows, 0, good + 1)

    arguments = (scale, good, found, 2.0, 0.5, 2000, np.empty(1, f), np.empty(1, np.int32))
    return Case("AmpUpdateScale", arguments, expression)
