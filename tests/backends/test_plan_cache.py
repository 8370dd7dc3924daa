"""Equal calls share a plan; calls that differ in anything that is computed with do not."""

from __future__ import annotations

import math

import pytest

from aclnn import dtypes, formats
from aclnn.errors import InvalidParameterError
from aclnn.tensors import TensorSpec
from aclnn_server.backends import numpy as backend
from aclnn_server.backends.numpy import NumpyBackend, NumpyDevice

NAME = "aclnnSmoothL1LossBackward"
SPEC = TensorSpec.contiguous((4, 2), dtypes.FLOAT)
BASE = (SPEC, SPEC, SPEC, 1, 1.0, SPEC)


@pytest.fixture
def device() -> NumpyDevice:
    return NumpyBackend(threads=1).devices[0]


def test_equal_calls_share_a_plan(device: NumpyDevice) -> None:
    equal = TensorSpec.contiguous((4, 2), dtypes.FLOAT)
    again = (equal, equal, equal, 1, 1.0, equal)
    assert device.plan(NAME, BASE) is device.plan(NAME, again)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, TensorSpec.contiguous((4, 2), dtypes.FLOAT16)),
        (0, TensorSpec.contiguous((4, 1), dtypes.FLOAT)),
        (0, TensorSpec(dtypes.FLOAT, (4, 2), (1, 4), 0, (4, 2))),
        (0, TensorSpec(dtypes.FLOAT, (4, 2), (2, 1), 1, (9,))),
        (0, TensorSpec.contiguous((4, 2), dtypes.FLOAT, format=formats.NCHW)),
        (3, 0),
        (4, 0.5),
        (4, math.inf),
    ],
    ids=["dtype", "shape", "strides", "offset", "format", "integer", "float", "infinity"],
)
def test_what_differs_is_planned_by_itself(
    device: NumpyDevice, position: int, value: object
) -> None:
    other = (*BASE[:position], value, *BASE[position + 1 :])
    assert device.plan(NAME, BASE) is not device.plan(NAME, other)  # type: ignore[arg-type]


def test_the_sign_of_zero_counts(device: NumpyDevice) -> None:
    plans = [device.plan(NAME, (*BASE[:4], beta, SPEC)) for beta in (0.0, -0.0)]
    assert plans[0] is not plans[1]


def test_a_refusal_is_not_kept(device: NumpyDevice) -> None:
    for _ in range(2):
        with pytest.raises(InvalidParameterError):
            device.plan(NAME, (*BASE[:4], math.nan, SPEC))
    assert device.plan(NAME, BASE).operator == NAME


def test_plans_are_bounded(device: NumpyDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "KEPT_PLANS", 8)
    for size in range(1, 50):
        spec = TensorSpec.contiguous((size,), dtypes.FLOAT)
        device.plan(NAME, (spec, spec, spec, 1, 1.0, spec))
        assert len(device._plans) <= 8


def test_numbers_of_plans_are_bounded(device: NumpyDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "KEPT_NUMBERS", 100)
    for count in (*range(1, 30), 200):
        spec = TensorSpec.contiguous((1,), dtypes.FLOAT)
        joined = TensorSpec.contiguous((count,), dtypes.FLOAT)
        plan = device.plan("aclnnCat", ((spec,) * count, 0, joined))
        numbers = [
            backend._numbers(value) for kept in device._plans.values() for value in kept.arguments
        ]
        assert sum(numbers) == device._kept_numbers <= 100
        assert (plan in device._plans.values()) == (
            sum(map(backend._numbers, plan.arguments)) <= 100
        )
