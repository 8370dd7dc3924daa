"""Promotion and casting of element types, as aclnn does both.

Source: the table ``kPromoteTypesLookup`` and ``CanCast`` of the public header
``opdev/data_type_utils.h`` (hicann/opbase).
"""

from __future__ import annotations

from functools import cache

from aclnn import dtypes
from aclnn.dtypes import DType

_INTEGERS = (
    dtypes.BOOL,
    dtypes.UINT8,
    dtypes.INT8,
    dtypes.INT16,
    dtypes.INT32,
    dtypes.INT64,
)
_WIDE_UNSIGNED = (dtypes.UINT16, dtypes.UINT32, dtypes.UINT64)
_FLOATS = (dtypes.FLOAT16, dtypes.BF16, dtypes.FLOAT, dtypes.DOUBLE)
_COMPLEX = (dtypes.COMPLEX32, dtypes.COMPLEX64, dtypes.COMPLEX128)
_NUMBERS = _INTEGERS + _FLOATS + _COMPLEX


def promote(*types: DType) -> DType | None:
    """Finds the element type in which operands of several types meet, from left to right.

    Equal types stay. Integers give way to floats and floats to complex, of whatever width; unequal
    floats meet in FLOAT (also FLOAT16 with BF16), or in DOUBLE where that is one of them.

    Returns:
        The type, or ``None`` where aclnn defines none: the unsigned types of 16 bits and more, and
        those of 8 bits and fewer that are no integers, meet nothing but themselves and, the former,
        complex numbers.
    """
    found: DType | None = types[0]
    for other in types[1:]:
        if found is None:
            return None
        found = _promote(found, other)
    return found


@cache
def _promote(left: DType, right: DType) -> DType | None:
    if left is right:
        return left
    if left in _WIDE_UNSIGNED or right in _WIDE_UNSIGNED:
        return _promote_wide_unsigned(left, right)
    if left not in _NUMBERS or right not in _NUMBERS:
        return None
    low, high = sorted((left, right), key=_NUMBERS.index)
    if low in _INTEGERS:
        return dtypes.INT16 if (low, high) == (dtypes.UINT8, dtypes.INT8) else high
    if high in _FLOATS:
        return dtypes.DOUBLE if high is dtypes.DOUBLE else dtypes.FLOAT
    return _promote_complex(low, high)


def _promote_wide_unsigned(left: DType, right: DType) -> DType | None:
    for unsigned, other in ((left, right), (right, left)):
        if unsigned in _WIDE_UNSIGNED and other in _COMPLEX[1:]:
            return dtypes.COMPLEX128 if unsigned is dtypes.UINT64 else other
    return None


def _promote_complex(low: DType, high: DType) -> DType:
    """Promotes a float or a complex type with a complex one that is not lower."""
    if low is dtypes.DOUBLE:
        return dtypes.COMPLEX128
    if low in (dtypes.BF16, dtypes.FLOAT) and high is dtypes.COMPLEX32:
        return dtypes.COMPLEX64
    return high


_KINDS = ("bool", "integer", "float", "complex")


def promote_scalar(tensor: DType, scalar: DType) -> DType | None:
    """Finds the element type of a tensor combined with an aclScalar.

    The scalar counts only where it is of a higher kind (BOOL, integer, float, complex) than the tensor;
    then a float counts as FLOAT and a complex number as COMPLEX64, or as COMPLEX128 beside DOUBLE.

    Returns:
        The type, or ``None`` where aclnn defines none.
    """
    if _rank(scalar) <= _rank(tensor):
        return tensor
    if scalar.kind == "complex":
        return dtypes.COMPLEX128 if tensor is dtypes.DOUBLE else dtypes.COMPLEX64
    return promote(tensor, dtypes.FLOAT if scalar.kind == "float" else scalar)


def promote_float(dtype: DType) -> DType:
    """The type in which a function of real numbers is computed: FLOAT for integers and BOOL."""
    return dtypes.FLOAT if dtype.kind in ("bool", "signed", "unsigned") else dtype


def _rank(dtype: DType) -> int:
    kind = "integer" if dtype.kind in ("signed", "unsigned") else dtype.kind
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def can_cast(source: DType, target: DType) -> bool:
    """Tells whether aclnn casts `source` to `target`.

    It refuses complex to anything else, float to integer, and anything but BOOL to BOOL; it does
    allow a cast to a narrower type of the same kind.
    """
    if source.kind == "complex" and target.kind != "complex":
        return False
    if source.kind == "float" and target.kind in ("signed", "unsigned"):
        return False
    return target.kind != "bool" or source.kind == "bool"
