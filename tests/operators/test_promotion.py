"""The whole table of promotion, and the rules of casting."""

from __future__ import annotations

import itertools

import pytest

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.promotion import can_cast, promote

ORDER = "BOOL UINT8 INT8 INT16 INT32 INT64 FLOAT16 BF16 FLOAT DOUBLE COMPLEX32 COMPLEX64 COMPLEX128"
SHORT = {
    "b1": "BOOL",
    "u1": "UINT8",
    "i1": "INT8",
    "i2": "INT16",
    "i4": "INT32",
    "i8": "INT64",
    "f2": "FLOAT16",
    "bf": "BF16",
    "f4": "FLOAT",
    "f8": "DOUBLE",
    "c4": "COMPLEX32",
    "c8": "COMPLEX64",
    "cc": "COMPLEX128",
}
# The upper triangle, row by row in ORDER, from the diagonal on; numbers are bytes.
TABLE = """
b1 u1 i1 i2 i4 i8 f2 bf f4 f8 c4 c8 cc
u1 i2 i2 i4 i8 f2 bf f4 f8 c4 c8 cc
i1 i2 i4 i8 f2 bf f4 f8 c4 c8 cc
i2 i4 i8 f2 bf f4 f8 c4 c8 cc
i4 i8 f2 bf f4 f8 c4 c8 cc
i8 f2 bf f4 f8 c4 c8 cc
f2 f4 f4 f8 c4 c8 cc
bf f4 f8 c8 c8 cc
f4 f8 c8 c8 cc
f8 cc cc cc
c4 c8 cc
c8 cc
cc
"""


def _expected() -> dict[tuple[str, str], str]:
    names = ORDER.split()
    rows = [line.split() for line in TABLE.strip().splitlines()]
    table = {
        (names[i], names[i + j]): SHORT[cell]
        for i, row in enumerate(rows)
        for j, cell in enumerate(row)
    }
    wide = {("UINT16", c): c for c in ("COMPLEX64", "COMPLEX128")}
    wide |= {("UINT32", c): c for c in ("COMPLEX64", "COMPLEX128")}
    wide |= {("UINT64", c): "COMPLEX128" for c in ("COMPLEX64", "COMPLEX128")}
    table |= wide | {(row.name, row.name): row.name for row in dtypes.ALL}
    return table | {(b, a): found for (a, b), found in table.items()}


def test_every_pair() -> None:
    expected = _expected()
    for left, right in itertools.product(dtypes.ALL, repeat=2):
        found = promote(left, right)
        assert (found and found.name) == expected.get((left.name, right.name)), (left, right)


def test_several_from_left_to_right() -> None:
    assert promote(dtypes.FLOAT16, dtypes.BF16, dtypes.FLOAT16) is dtypes.FLOAT
    assert promote(dtypes.INT8, dtypes.UINT8, dtypes.BF16) is dtypes.BF16
    assert promote(dtypes.INT8, dtypes.STRING, dtypes.STRING) is None
    assert promote(dtypes.BF16) is dtypes.BF16


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        (dtypes.FLOAT, dtypes.FLOAT16, True),
        (dtypes.DOUBLE, dtypes.BF16, True),
        (dtypes.FLOAT, dtypes.DOUBLE, True),
        (dtypes.FLOAT, dtypes.COMPLEX64, True),
        (dtypes.INT64, dtypes.INT8, True),
        (dtypes.INT64, dtypes.FLOAT16, True),
        (dtypes.BOOL, dtypes.BOOL, True),
        (dtypes.BOOL, dtypes.INT8, True),
        (dtypes.FLOAT, dtypes.INT32, False),
        (dtypes.BF16, dtypes.UINT8, False),
        (dtypes.FLOAT, dtypes.BOOL, False),
        (dtypes.INT8, dtypes.BOOL, False),
        (dtypes.COMPLEX64, dtypes.FLOAT, False),
        (dtypes.COMPLEX128, dtypes.COMPLEX64, True),
    ],
)
def test_casts(source: DType, target: DType, allowed: bool) -> None:
    assert can_cast(source, target) == allowed
