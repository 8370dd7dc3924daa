"""Results against those of another implementation, see tests/data/README.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.tensors import Scalar
from aclnn_server.backends.base import Device
from aclnn_server.operators.catalogue import built_in
from tests.operators.calling import (
    BACKWARD,
    DATA,
    FORWARD,
    Argument,
    Array,
    call,
    device,
    load_json,
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


@cache
def _by_operator(file: str) -> Mapping[str, tuple[Case, ...]]:
    found: dict[str, list[Case]] = {}
    for case in load_json(file):
        found.setdefault(case["operator"], []).append(case)
    return {operator: tuple(rows) for operator, rows in found.items()}


def cases(file: str, operator: str) -> tuple[Case, ...]:
    return _by_operator(file)[operator]


MADE = tuple(_by_operator("golden/operators.json"))
"""Operators with vectors that are made with PyTorch."""


@pytest.mark.parametrize(("operator", "count"), COUNTS.items())
def test_every_case_is_within_its_tolerance(operator: str, count: int) -> None:
    found = cases("golden/index.json", operator)
    with np.load(DATA / "golden" / f"{operator}.npz") as arrays:
        assert not _failures(found, arrays)
    assert len(found) == count


WITHOUT_VECTORS: Mapping[str, str] = dict.fromkeys(
    (
        "aclnnBernoulli",
        "aclnnBernoulliTensor",
        "aclnnDropoutGenMask",
        "aclnnDropoutGenMaskV2",
        "aclnnDropoutV3",
        "aclnnInplaceBernoulli",
        "aclnnInplaceBernoulliTensor",
        "aclnnInplaceNormal",
        "aclnnInplaceRandom",
        "aclnnInplaceUniform",
        "aclnnMultinomial",
        "aclnnRandperm",
    ),
    "random numbers, of another generator",
)
"""Reason of each built-in operator that has none."""


def test_every_built_in_operator_has_vectors_or_a_reason() -> None:
    assert {*COUNTS, *MADE, *WITHOUT_VECTORS} == set(built_in())
    assert not {*COUNTS, *MADE} & set(WITHOUT_VECTORS)
    assert all(WITHOUT_VECTORS.values())


def test_vectors_have_every_float_type_that_an_operator_allows() -> None:
    found = {(operator, dtype) for operator in MADE for dtype in _types(operator)}
    allowed = {
        (operator, dtype.name)
        for operator in MADE
        for dtype in {*chain(*built_in()[operator].dtypes.values())}
        if dtype in (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16)
    }
    assert allowed <= found


def _types(operator: str) -> Iterator[str]:
    for case in cases("golden/operators.json", operator):
        for row in (*case["parameters"].values(), *case["outputs"].values()):
            for tensor in row.get("rows", [row]):
                yield tensor.get("dtype", "")


@cache
def _made_arrays() -> Arrays:
    with np.load(DATA / "golden" / "operators.npz") as packed:
        parts = np.split(packed["data"], packed["ends"][:-1])
        return dict(zip(packed["names"].tolist(), parts, strict=True))


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
    given, outputs = case["parameters"], case["outputs"]
    rows = {name: {"kind": "output", **row} for name, row in outputs.items()} | given
    values = {name: _value(f"{case['case']}/{name}", row, arrays) for name, row in rows.items()}
    parameters = built_in()[case["operator"]].signature.parameters
    # What may be null may be left out of a case.
    optional = {row.name: None for row in parameters if row.optional}
    arguments = ((optional | values)[row.name] for row in parameters)
    call(case["operator"], *arguments, on=on)
    for name, row in outputs.items():
        key = f"{case['case']}/{name}{'.after' if name in given else ''}"
        for place, (found, part) in enumerate(_parts(values[name], row)):
            expected = _array(arrays[f"{key}.{place}" if "rows" in row else key], part)
            try:
                _assert_close(found, expected, case["rtol"], case["atol"])
            except AssertionError as error:
                return f"{case['case']}, {name}: {error}"
    return ""


def _parts(found: Argument, row: Case) -> list[tuple[Array, Case]]:
    """The arrays of an output with their descriptions: several of a list."""
    return list(zip(found, row["rows"], strict=True)) if "rows" in row else [(found, row)]


def _assert_close(found: Array, expected: Array, rtol: float, atol: float) -> None:
    if rtol == atol == 0:
        np.testing.assert_array_equal(_text(found), _text(expected))
    else:
        np.testing.assert_allclose(_wide(found), _wide(expected), rtol=rtol, atol=atol)


def _text(array: Array) -> list[str]:
    """The elements so that zeros differ by their sign, and NaN from nothing."""
    return [str(element).replace("-nan", "nan") for element in array.ravel().tolist()]


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _value(key: str, row: Case, arrays: Arrays) -> Argument:
    match row["kind"]:
        case "tensor":
            return _array(arrays[key], row)
        case "list":
            return [_array(arrays[f"{key}.{i}"], part) for i, part in enumerate(row["rows"])]
        case "output" if "rows" in row:
            return [_value(key, {"kind": "output", **part}, arrays) for part in row["rows"]]
        case "output":
            filling = 1 if row["dtype"] == "BOOL" else 77 if row["dtype"] == "UINT8" else -77
            return np.full(row["shape"], filling, dtypes.dtype(row["dtype"]).numpy)
        case "scalars":
            return tuple(Scalar(part["value"], part["dtype"]) for part in row["rows"])
        case "scalar":
            return Scalar(row["value"], row["dtype"])
        case "type":
            return dtypes.dtype(row["value"])
    value = row.get("value")
    return tuple(value) if isinstance(value, list) else value


def _array(stored: Array, row: Case) -> Array:
    """An array of its own, from one that is stored as it is, or as its bits or bytes."""
    dtype = dtypes.dtype(row["dtype"]).numpy
    assert dtype is not None
    return stored.view(dtype).reshape(row["shape"]).copy()
