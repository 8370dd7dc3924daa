"""Element types: one table of protocol number, ACL number, size and NumPy dtype.

Source of ACL's names and numbers: ``aclDataType`` in the public header ``acl/acl_base_rt.h``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

Kind = Literal["float", "signed", "unsigned", "bool", "complex", "other"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type; there is one object of each. Obtain it with :func:`dtype`."""

    name: str
    """ACL's name without the prefix ``ACL_``, for example ``"FLOAT"`` or ``"BF16"``."""
    number: int
    """Number in the protocol's ``DataType``."""
    acl: int
    """Number in ACL's ``aclDataType``."""
    bits: int
    """Bits of an element in a storage; below 8 elements are packed, first in the lowest bits."""
    kind: Kind
    """What arithmetic it takes part in."""
    numpy: np.dtype[np.generic] | None
    """NumPy dtype that holds its values, one per item also for packed types, or ``None``."""

    @property
    def itemsize(self) -> int:
        """Bytes of one element; 0 for types that are packed or have no fixed size."""
        return self.bits // 8

    @property
    def packed(self) -> bool:
        """Whether several elements share a byte of the storage."""
        return 0 < self.bits < 8

    def storage_bytes(self, elements: int) -> int:
        """Bytes that `elements` elements take in a storage."""
        return (elements * self.bits + 7) // 8

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dtype, (self.name,)


def _row(
    name: str, number: int, acl: int, bits: int, kind: Kind, numpy: npt.DTypeLike | None
) -> DType:
    return DType(name, number, acl, bits, kind, None if numpy is None else np.dtype(numpy))


FLOAT = _row("FLOAT", 1, 0, 32, "float", np.float32)
FLOAT16 = _row("FLOAT16", 2, 1, 16, "float", np.float16)
INT8 = _row("INT8", 3, 2, 8, "signed", np.int8)
INT32 = _row("INT32", 4, 3, 32, "signed", np.int32)
UINT8 = _row("UINT8", 5, 4, 8, "unsigned", np.uint8)
INT16 = _row("INT16", 6, 6, 16, "signed", np.int16)
UINT16 = _row("UINT16", 7, 7, 16, "unsigned", np.uint16)
UINT32 = _row("UINT32", 8, 8, 32, "unsigned", np.uint32)
INT64 = _row("INT64", 9, 9, 64, "signed", np.int64)
UINT64 = _row("UINT64", 10, 10, 64, "unsigned", np.uint64)
DOUBLE = _row("DOUBLE", 11, 11, 64, "float", np.float64)
BOOL = _row("BOOL", 12, 12, 8, "bool", np.bool_)
STRING = _row("STRING", 13, 13, 0, "other", None)
COMPLEX64 = _row("COMPLEX64", 14, 16, 64, "complex", np.complex64)
COMPLEX128 = _row("COMPLEX128", 15, 17, 128, "complex", np.complex128)
BF16 = _row("BF16", 16, 27, 16, "float", ml_dtypes.bfloat16)
INT4 = _row("INT4", 17, 29, 4, "signed", ml_dtypes.int4)
UINT1 = _row("UINT1", 18, 30, 1, "unsigned", None)
COMPLEX32 = _row("COMPLEX32", 19, 33, 32, "complex", None)
HIFLOAT8 = _row("HIFLOAT8", 20, 34, 8, "float", None)
FLOAT8_E5M2 = _row("FLOAT8_E5M2", 21, 35, 8, "float", ml_dtypes.float8_e5m2)
FLOAT8_E4M3FN = _row("FLOAT8_E4M3FN", 22, 36, 8, "float", ml_dtypes.float8_e4m3fn)
FLOAT8_E8M0 = _row("FLOAT8_E8M0", 23, 37, 8, "float", ml_dtypes.float8_e8m0fnu)
FLOAT6_E3M2 = _row("FLOAT6_E3M2", 24, 38, 6, "float", ml_dtypes.float6_e3m2fn)
FLOAT6_E2M3 = _row("FLOAT6_E2M3", 25, 39, 6, "float", ml_dtypes.float6_e2m3fn)
FLOAT4_E2M1 = _row("FLOAT4_E2M1", 26, 40, 4, "float", ml_dtypes.float4_e2m1fn)
FLOAT4_E1M2 = _row("FLOAT4_E1M2", 27, 41, 4, "float", None)

ALL: tuple[DType, ...] = tuple(value for value in list(globals().values()) if type(value) is DType)
"""Every element type, by protocol number."""

_BY_NUMBER = {row.number: row for row in ALL}
_BY_ACL = {row.acl: row for row in ALL}
_BY_NAME = {row.name: row for row in ALL}
_BY_NUMPY = {row.numpy: row for row in ALL if row.numpy is not None}


def dtype(value: object) -> DType:
    """Finds an element type.

    Args:
        value: a :class:`DType`, ACL's name (``"FLOAT"``, ``"ACL_BF16"``), a NumPy dtype, its type
            or its name (``"float32"``, ``np.float16``, ``ml_dtypes.bfloat16``, ``"bfloat16"``), or ACL's
            number (0 for ``ACL_FLOAT``).

    Raises:
        TypeError: nothing of the kind is known, or ACL has no such type.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value.removeprefix("ACL_") in _BY_NAME:
        return _BY_NAME[value.removeprefix("ACL_")]
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return _numbered(int(value))
    try:
        found = _BY_NUMPY.get(_numpy_dtype(value))
    except (TypeError, ValueError, SyntaxError):  # all three come from NumPy for odd text
        found = None
    if found is None:
        names = ", ".join(row.name for row in ALL)
        raise TypeError(f"{value!r} is no element type of ACL; known are NumPy's names of {names}")
    return found


def _numbered(acl: int) -> DType:
    found = _BY_ACL.get(acl)
    if found is None:
        numbers = ", ".join(f"{row.acl} {row.name}" for row in ALL)
        raise TypeError(f"{acl} is no number of an element type of ACL; known are {numbers}")
    return found


def _numpy_dtype(value: object) -> np.dtype[np.generic]:
    if value is None:
        raise TypeError("None is no dtype")
    if isinstance(value, str) and hasattr(ml_dtypes, value):
        value = getattr(ml_dtypes, value)
    found: np.dtype[np.generic] = np.dtype(value)  # type: ignore[call-overload]
    return found.newbyteorder("=") if found.byteorder == ">" else found


def from_number(number: int) -> DType | None:
    """Finds an element type by its number in the protocol; ``None`` where the number is unknown."""
    return _BY_NUMBER.get(number)


def from_acl(number: int) -> DType | None:
    """Finds an element type by its number in ACL; ``None`` where the number is unknown."""
    return _BY_ACL.get(number)
