"""Results against those of another implementation, see tests/data/README.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aclnn import dtypes
from aclnn.tensors import Scalar
from aclnn_server.backends.base import Device
from tests.operators.calling import (
    BACKWARD,
    DATA,
    FORWARD,
    Argument,
    Array,
    call,
    device,
    load_json,
    parameter_names,
)

Case = dict[str, Any]
Arrays = Mapping[str, Array]

COUNTS = {
    BACKWARD: 761,
    FORWARD: 174,
    "aclnnL1Loss": 54,
    "aclnnL1LossBackward": 189,
    "aclnnMseLoss": 54,
    "aclnnMseLossBackward": 189,
}
MADE = Counter(case["operator"] for case in load_json("golden/operators.json"))


@cache
def cases(file: str, operator: str) -> tuple[Case, ...]:
    return tuple(case for case in load_json(file) if case["operator"] == operator)


@pytest.mark.parametrize(("operator", "count"), COUNTS.items())
def test_every_case_is_within_its_tolerance(operator: str, count: int) -> None:
    found = cases("golden/index.json", operator)
    with np.load(DATA / "golden" / f"{operator}.npz") as arrays:
        assert not _failures(found, arrays)
    assert len(found) == count


@cache
def _made_arrays() -> Arrays:
    with np.load(DATA / "golden" / "operators.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("operator", MADE)
def test_every_made_case_is_within_its_tolerance(operator: str) -> None:
    prefix = f"{operator}/"
    arrays = {
        name.removeprefix(prefix): array
        for name, array in _made_arrays().items()
        if name.startswith(prefix)
    }
    assert not _failures(cases("golden/operators.json", operator), arrays)


def _failures(found: tuple[Case, ...], arrays: Arrays) -> str:
    on = device()
    problems = (_compare(case, arrays, on) for case in found)
    return "\n".join(problem for problem in problems if problem)


def _compare(case: Case, arrays: Arrays, on: Device) -> str:
    rows = case["parameters"] | {
        name: {"kind": "output", **row} for name, row in case["outputs"].items()
    }
    values = {name: _value(case, name, row, arrays) for name, row in rows.items()}
    call(case["operator"], *(values[name] for name in parameter_names(case["operator"])), on=on)
    for name, row in case["outputs"].items():
        expected = _array(arrays[f"{case['case']}/{name}"], row["dtype"])
        try:
            np.testing.assert_allclose(
                _wide(values[name]), _wide(expected), rtol=case["rtol"], atol=case["atol"]
            )
        except AssertionError as error:
            return f"{case['case']}: {error}"
    return ""


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _value(case: Case, name: str, row: Case, arrays: Arrays) -> Argument:
    if row["kind"] == "tensor":
        return _array(arrays[f"{case['case']}/{name}"], row["dtype"]).copy()
    if row["kind"] == "output":
        filling = 1 if row["dtype"] == "BOOL" else -77
        return np.full(row["shape"], filling, dtypes.dtype(row["dtype"]).numpy)
    if row["kind"] == "scalar":
        return Scalar(row["value"], row["dtype"])
    value = row.get("value")
    return tuple(value) if isinstance(value, list) else value


def _array(stored: Array, dtype: str) -> Array:
    return stored.view(ml_dtypes.bfloat16) if dtype == "BF16" else stored
