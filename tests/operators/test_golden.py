"""Results against those of another implementation, see tests/data/README.md."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aclnn_server.backends.base import Device
from tests.operators.calling import (
    BACKWARD,
    DATA,
    FORWARD,
    NUMPY_TYPES,
    Argument,
    Array,
    call,
    device,
    load_json,
    parameter_names,
)

Case = dict[str, Any]
Arrays = Mapping[str, Array]


@cache
def cases(operator: str) -> tuple[Case, ...]:
    return tuple(c for c in load_json("golden/index.json") if c["operator"] == operator)


@pytest.mark.parametrize(("operator", "count"), [(BACKWARD, 761), (FORWARD, 174)])
def test_every_case_is_within_its_tolerance(operator: str, count: int) -> None:
    on = device()
    with np.load(DATA / "golden" / f"{operator}.npz") as arrays:
        failures = [
            problem
            for case in cases(operator)
            for problem in (_compare(case, arrays, on),)
            if problem
        ]
    assert not failures, "\n".join(failures)
    assert len(cases(operator)) == count


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
                values[name].astype(np.float64),
                expected.astype(np.float64),
                rtol=case["rtol"],
                atol=case["atol"],
            )
        except AssertionError as error:
            return f"{case['case']}: {error}"
    return ""


def _value(case: Case, name: str, row: Case, arrays: Arrays) -> Argument:
    if row["kind"] == "tensor":
        return _array(arrays[f"{case['case']}/{name}"], row["dtype"])
    if row["kind"] == "output":
        return np.full(row["shape"], -77, NUMPY_TYPES[row["dtype"]])
    return row["value"]


def _array(stored: Array, dtype: str) -> Array:
    return stored.view(ml_dtypes.bfloat16) if dtype == "BF16" else stored
