"""Storage formats: one table of protocol number and ACL number.

Source of ACL's names and numbers: ``aclFormat`` in the public header ``acl/acl_base_rt.h``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """Physical arrangement of a storage."""

    name: str
    """ACL's name without the prefix ``ACL_FORMAT_``, for example ``"ND"`` or ``"NCHW"``."""
    number: int
    """Number in the protocol's ``Format``."""
    acl: int
    """Number in ACL's ``aclFormat``."""

    @property
    def plain(self) -> bool:
        """Whether elements lie in C order of the storage shape."""
        return "C0" not in self.name and "FRACTAL" not in self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return format_of, (self.name,)


ND = Format("ND", 1, 2)
NCHW = Format("NCHW", 2, 0)
NHWC = Format("NHWC", 3, 1)
NC1HWC0 = Format("NC1HWC0", 4, 3)
FRACTAL_Z = Format("FRACTAL_Z", 5, 4)
NC1HWC0_C04 = Format("NC1HWC0_C04", 6, 12)
HWCN = Format("HWCN", 7, 16)
NDHWC = Format("NDHWC", 8, 27)
FRACTAL_NZ = Format("FRACTAL_NZ", 9, 29)
NCDHW = Format("NCDHW", 10, 30)
NDC1HWC0 = Format("NDC1HWC0", 11, 32)
FRACTAL_Z_3D = Format("FRACTAL_Z_3D", 12, 33)
NC = Format("NC", 13, 35)
NCL = Format("NCL", 14, 47)
FRACTAL_NZ_C0_16 = Format("FRACTAL_NZ_C0_16", 15, 50)
FRACTAL_NZ_C0_32 = Format("FRACTAL_NZ_C0_32", 16, 51)
FRACTAL_NZ_C0_2 = Format("FRACTAL_NZ_C0_2", 17, 52)
FRACTAL_NZ_C0_4 = Format("FRACTAL_NZ_C0_4", 18, 53)
FRACTAL_NZ_C0_8 = Format("FRACTAL_NZ_C0_8", 19, 54)

ALL: tuple[Format, ...] = tuple(row for row in list(globals().values()) if type(row) is Format)
"""Every format, by protocol number."""

_BY_NUMBER = {row.number: row for row in ALL} | {0: ND}
_BY_NAME = {row.name: row for row in ALL}


def format_of(value: object) -> Format:
    """Finds a format by ACL's name (``"ND"``, ``"ACL_FORMAT_NCHW"``).

    Raises:
        ValueError: the name is unknown.
    """
    if isinstance(value, Format):
        return value
    found = _BY_NAME.get(str(value).removeprefix("ACL_").removeprefix("FORMAT_"))
    if found is None:
        raise ValueError(f"{value!r} is no format; known are {', '.join(_BY_NAME)}")
    return found


def from_number(number: int) -> Format | None:
    """Finds a format by its number in the protocol, 0 being ND; ``None`` where it is unknown."""
    return _BY_NUMBER.get(number)
