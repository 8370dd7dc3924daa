"""Checks of outputs that a list of booleans asks for: the gradients of an operator with several inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from aclnn import codes
from aclnn.dtypes import DType
from aclnn_server.operators.checking.checks import Names, NotNull, TypeIn
from aclnn_server.operators.definition import Call
from aclnn_server.operators.engines.shapes import Shape


@dataclass(frozen=True, slots=True)
class GivenWhereAsked:
    """Outputs are not null where a mask with an element for each asks for them."""

    outputs: Names
    mask: str = "outputMask"
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_NULLPTR

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        if len(call[self.mask]) != len(self.outputs):
            raise call.invalid(
                self.mask,
                f"{self.mask} has {len(call[self.mask])} elements; it must have {len(self.outputs)}",
            )
        NotNull(asked(call, self.outputs, self.mask))(call)

    @property
    def rule(self) -> str:
        """What must hold."""
        return (
            f"{self.mask} has {len(self.outputs)} elements, and {', '.join(self.outputs)} are not null "
            "where theirs is true"
        )


@dataclass(frozen=True, slots=True)
class OutputsHave:
    """Outputs that a mask asks for have types of a list, and shapes that follow from the call."""

    outputs: Names
    types: tuple[DType, ...]
    shapes: tuple[Callable[[Call], Shape], ...]
    mask: str = "outputMask"
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        wanted = asked(call, self.outputs, self.mask)
        TypeIn(wanted, self.types)(call)
        for name, shape in zip(self.outputs, self.shapes, strict=True):
            if name in wanted and call.tensor(name).shape != shape(call):
                raise call.invalid(
                    name,
                    f"{name} has shape {list(call.tensor(name).shape)}; it must have "
                    f"{list(shape(call))}, that of what it is the gradient of",
                )

    @property
    def rule(self) -> str:
        """What must hold."""
        return (
            f"{', '.join(self.outputs)} have the shapes of what they are gradients of, and types among "
            f"{', '.join(map(str, self.types))}, where {self.mask} asks for them"
        )


def asked(call: Call, outputs: Names, mask: str = "outputMask") -> Names:
    """The outputs that a mask asks for."""
    return tuple(name for name, flag in zip(outputs, call[mask], strict=True) if flag)
