"""Checks of where elements lie: dimensions, formats, and shapes that follow from other arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from aclnn import codes, dtypes
from aclnn.dtypes import DType
from aclnn_server.operators.checking.checks import Names
from aclnn_server.operators.definition import Call
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.products import ASCEND950, REFERENCE

INDEXES = (dtypes.INT32, dtypes.INT64)
"""Element types of indexes."""
WIDE_UNSIGNED = (dtypes.UINT16, dtypes.UINT32, dtypes.UINT64)
BASIC = (
    dtypes.FLOAT,
    dtypes.FLOAT16,
    dtypes.BF16,
    dtypes.DOUBLE,
    dtypes.INT8,
    dtypes.INT16,
    dtypes.INT32,
    dtypes.INT64,
    dtypes.UINT8,
    dtypes.BOOL,
)
"""Element types that all data movement takes but the narrowest."""
COMPLEX = (dtypes.COMPLEX64, dtypes.COMPLEX128)
ALL = BASIC + WIDE_UNSIGNED + COMPLEX
"""Element types of the widest lists. Ascend 950 adds 8-bit floats, which are not served."""


@dataclass(frozen=True, slots=True)
class OnlyOn950:
    """Some element types are allowed on Ascend 950, and in the reference, only."""

    names: Names
    types: tuple[DType, ...]
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        if call.product in (REFERENCE, ASCEND950):
            return
        for name, spec in zip(self.names, call.tensors(self.names), strict=True):
            if spec.dtype in self.types:
                raise call.invalid(
                    name, f"{name} is {spec.dtype}, which {call.product.title} does not take"
                )

    @property
    def rule(self) -> str:
        """What must hold."""
        return (
            f"{', '.join(map(str, self.types))} are for {ASCEND950.title} only, as the type of "
            f"{' and '.join(self.names)}"
        )


@dataclass(frozen=True, slots=True)
class SameFormat:
    """Two tensors have the same storage format."""

    names: Names
    unless_nd: bool = False
    """Whether the first may be ND whatever the second is."""
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        first, second = (spec.format for spec in call.tensors(self.names))
        if first is not second and not (self.unless_nd and first.name == "ND"):
            raise call.invalid(
                self.names[1],
                f"{self.names[1]} has format {second.name}; it must be {first.name}, as that of "
                f"{self.names[0]}",
            )

    @property
    def rule(self) -> str:
        """What must hold."""
        unless = f", or {self.names[0]} has ND" if self.unless_nd else ""
        return f"{self.names[0]} and {self.names[1]} have the same format{unless}"


@dataclass(frozen=True, slots=True)
class DimOf:
    """A number names a dimension of a tensor, from the front or, below 0, from the end."""

    name: str
    tensor: str
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        dimension(call, self.name, len(call.tensor(self.tensor).shape), self.tensor)

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{self.name} is a dimension of {self.tensor}; of one without any, 0 or -1"


@dataclass(frozen=True, slots=True)
class HasShape:
    """A tensor has a shape that follows from the other arguments."""

    name: str
    says: str
    """How it follows."""
    expected: Callable[[Call], Shape | None]
    """The shape; ``None`` where any is allowed."""
    code: int = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        found, expected = call.tensor(self.name).shape, self.expected(call)
        if expected is not None and found != expected:
            raise call.invalid(
                self.name,
                f"{self.name} has shape {list(found)}; it must have {list(expected)}: {self.says}",
                code=self.code,
            )

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{self.name} has {self.says}"


def dimension(call: Call, name: str, rank: int, tensor: str) -> int:
    """Finds which dimension a parameter names, counted from the front.

    Args:
        call: the call.
        name: the parameter.
        rank: dimensions that there are; of a tensor without any, 0 and -1 name a single one.
        tensor: whose, for the error.

    Raises:
        InvalidParameterError: 161002, it names none.
    """
    dim: int = call[name]
    count = max(rank, 1)
    if not -count <= dim < count:
        raise call.invalid(
            name,
            f"{name} is {dim}; {tensor} allows {-count} to {count - 1}, having {rank} dimensions",
        )
    return dim % count
