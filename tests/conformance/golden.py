"""The golden vectors of tests/data, one case after the other, as a client gives and gets them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.tensors import Scalar

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"

Array = npt.NDArray[Any]
Value = Array | list[Array] | Scalar | dtypes.DType | None | Any
"""An input: an array, a list of them, a scalar, an element type, null, or a number or list of numbers."""


@dataclass(frozen=True)
class Golden:
    """A case: inputs by parameter, and what comes out."""

    operator: str
    name: str
    inputs: Mapping[str, Value]
    outputs: Mapping[str, Array | list[Array]]
    """What is in each output afterwards, or in each tensor of a list."""
    tolerance: float
    """Relative and absolute; 0 is equality."""


def golden_cases() -> Iterator[Golden]:
    """Every case: six losses first, which have files of their own, then all else."""
    for row in _rows("index.json"):
        yield _golden(row, _loss_arrays(row["operator"]), row["case"])
    for row in _rows("operators.json"):
        yield _golden(row, _arrays(), f"{row['operator']}/{row['case']}")


def _rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((GOLDEN / name).read_text("utf-8"))
    return rows


def _golden(row: Mapping[str, Any], arrays: Mapping[str, Array], prefix: str) -> Golden:
    given, results = row["parameters"], row["outputs"]
    return Golden(
        row["operator"],
        row["case"],
        {name: _value(arrays, f"{prefix}/{name}", value) for name, value in given.items()},
        {
            name: _result(arrays, f"{prefix}/{name}{'.after' if name in given else ''}", value)
            for name, value in results.items()
        },
        row["rtol"],
    )


def _value(arrays: Mapping[str, Array], key: str, given: Mapping[str, Any]) -> Value:
    match given["kind"]:
        case "tensor":
            return _array(arrays, key, given)
        case "list":
            return [_array(arrays, f"{key}.{n}", row) for n, row in enumerate(given["rows"])]
        case "scalars":
            return [Scalar(row["value"], row["dtype"]) for row in given["rows"]]
        case "scalar":
            return Scalar(given["value"], given["dtype"])
        case "type":
            return dtypes.dtype(given["value"])
        case "none":
            return None
    return given["value"]


def _result(
    arrays: Mapping[str, Array], key: str, described: Mapping[str, Any]
) -> Array | list[Array]:
    if "rows" in described:
        return [_array(arrays, f"{key}.{n}", row) for n, row in enumerate(described["rows"])]
    return _array(arrays, key, described)


def _array(arrays: Mapping[str, Array], key: str, described: Mapping[str, Any]) -> Array:
    dtype = np.dtype(dtypes.dtype(described["dtype"]).numpy)
    stored = np.ascontiguousarray(arrays[key]).reshape(-1)
    array: Array = stored.view(dtype).reshape(described["shape"])
    return array


@cache
def _arrays() -> Mapping[str, Array]:
    with np.load(GOLDEN / "operators.npz") as packed:
        parts = np.split(packed["data"], packed["ends"][:-1])
        return dict(zip(packed["names"].tolist(), parts, strict=True))


@cache
def _loss_arrays(operator: str) -> Mapping[str, Array]:
    with np.load(GOLDEN / f"{operator}.npz") as arrays:
        return dict(arrays)
