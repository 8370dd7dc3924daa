"""Codes of phase one against those that the vendor's unit tests expect."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from aclnn import dtypes, formats
from aclnn.errors import AclnnError
from aclnn.tensors import Scalar, TensorSpec, contiguous_strides
from aclnn_server.operators.catalogue import built_in
from aclnn_server.operators.products import REFERENCE
from tests.operators.calling import DATA, Argument, Json, device, load_json

CASES = [case for case in load_json("vendor_status.json") if case["operator"] in built_in()]
LARGEST_SHARE = 0.02
"""Share of the cases that may deviate."""


@cache
def _deviations() -> dict[str, str]:
    lines = (DATA / "vendor_deviations.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return {identifier: reason for identifier, _, reason in rows}


def _status(case: dict[str, Any]) -> int:
    on = device(soc=REFERENCE.name)
    try:
        on.plan(case["operator"], [_argument(value) for value in case["arguments"].values()])
    except AclnnError as error:
        return error.code
    return 0


def _argument(value: Json) -> Argument:
    if not isinstance(value, dict):
        return value
    if "shape" in value:
        return _tensor(value)
    for kind, make in _KINDS.items():
        if kind in value:
            return make(value)
    return dtypes.dtype(value["dtype"])


def _tensor(value: dict[str, Any]) -> TensorSpec:
    shape = tuple(value["shape"])
    strides = tuple(value.get("strides", ()))
    return TensorSpec(
        dtypes.dtype(value["dtype"]),
        shape,
        # A few cases have no strides for their dimensions.
        strides if len(strides) == len(shape) else contiguous_strides(shape),
        value.get("offset", 0),
        tuple(value.get("storage_shape", shape)) or shape,
        formats.format_of(value.get("format", "ND")),
    )


_KINDS: dict[str, Callable[[Json], Argument]] = {
    "scalar": lambda value: Scalar(value["scalar"], value["dtype"]),
    "ints": lambda value: tuple(value["ints"]),
    "bools": lambda value: tuple(value["bools"]),
    "tensors": lambda value: tuple(map(_tensor, value["tensors"])),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['operator']}-{case['id']}")
def test_phase_one_returns_the_vendors_code(case: dict[str, Any]) -> None:
    agrees = _status(case) == case["status"]
    assert agrees == (case["id"] not in _deviations())


def test_deviations_are_cases_and_have_reasons() -> None:
    identifiers = {case["id"] for case in CASES}
    assert all(identifier in identifiers and reason for identifier, reason in _deviations().items())


def test_few_cases_deviate() -> None:
    assert len(_deviations()) <= LARGEST_SHARE * len(CASES)
