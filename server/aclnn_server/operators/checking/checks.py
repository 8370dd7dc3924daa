"""The checks of phase one, each raising the vendor's code with the parameter and value at fault.

Every check is a small object: called, it checks a call; :attr:`rule` is its line in the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from aclnn import codes
from aclnn.dtypes import DType
from aclnn.errors import NullPointerError
from aclnn.promotion import can_cast, promote
from aclnn_server.operators.definition import Call
from aclnn_server.operators.engines.shapes import Shape, ShapeMismatchError, broadcast

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotNull:
    """Pointers are not null."""

    names: Names
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_NULLPTR

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        for name in self.names:
            if call[name] is None:
                raise call.invalid(name, f"{name} is a null pointer", NullPointerError)

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{_and(self.names)} are not null"


@dataclass(frozen=True, slots=True)
class TypeIn:
    """Element types are in a list, shortened by what the product lacks."""

    names: Names
    allowed: tuple[DType, ...]
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    @property
    def dtypes(self) -> dict[str, tuple[DType, ...]]:
        """Element types that the reference allows, by parameter."""
        return dict.fromkeys(self.names, self.allowed)

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        allowed = call.product.allowed(self.allowed)
        for name, spec in zip(self.names, call.tensors(self.names), strict=True):
            if spec.dtype not in allowed:
                where = "" if spec.dtype not in self.allowed else f" on {call.product.title}"
                raise call.invalid(
                    name, f"{name} is {spec.dtype}; allowed{where} are {_list(allowed)}"
                )

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"the types of {_and(self.names)} are among {_list(self.allowed)}"


@dataclass(frozen=True, slots=True)
class RankUpTo:
    """Tensors have at most so many dimensions."""

    names: Names
    maximum: int = 8
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        for name, spec in zip(self.names, call.tensors(self.names), strict=True):
            if len(spec.shape) > self.maximum:
                raise call.invalid(
                    name,
                    f"{name} has {len(spec.shape)} dimensions; allowed are at most {self.maximum}",
                )

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{_and(self.names)} have at most {self.maximum} dimensions"


@dataclass(frozen=True, slots=True)
class OneOf:
    """A number is one of several, each with a name."""

    name: str
    choices: Mapping[str, int]
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        if call[self.name] not in self.choices.values():
            raise call.invalid(
                self.name, f"{self.name} is {call[self.name]}; allowed are {self._choices}"
            )

    @property
    def _choices(self) -> str:
        return ", ".join(f"{number} ({name})" for name, number in self.choices.items())

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{self.name} is one of {self._choices}"


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A number is at least another; NaN is not."""

    name: str
    minimum: float
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        if not call[self.name] >= self.minimum:
            raise call.invalid(
                self.name,
                f"{self.name} is {call[self.name]}; allowed are numbers of at least {self.minimum:g}",
            )

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{self.name} is at least {self.minimum:g}"


@dataclass(frozen=True, slots=True)
class Promotes:
    """Element types of the inputs meet in one, which casts to the output's."""

    names: Names
    to: str
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        types = [spec.dtype for spec in call.tensors(self.names)]
        promoted = promote(*types)
        if promoted is None:
            raise call.invalid(
                self.names[-1],
                f"{_and(self.names)} are {_and(types)}, which meet in no common type",
            )
        if not can_cast(promoted, call.tensor(self.to).dtype):
            raise call.invalid(
                self.to,
                f"{self.to} is {call.tensor(self.to).dtype}, to which {promoted}, the common type "
                f"of {_and(self.names)}, does not cast",
            )

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{_and(self.names)} meet in a common type, which casts to that of {self.to}"


@dataclass(frozen=True, slots=True)
class Broadcasts:
    """Shapes of the inputs broadcast together, to that of the output where one is named."""

    names: Names
    to: str = ""
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        shape = broadcast_shape(call, self.names)
        if self.to:
            _check_shape(call, self.to, shape, self.names)

    @property
    def rule(self) -> str:
        """What must hold."""
        to = f" to exactly the shape of {self.to}" if self.to else ""
        return f"{_and(self.names)} broadcast together{to}"


@dataclass(frozen=True, slots=True)
class ShapeIsBroadcast:
    """The output has the shape of the inputs' broadcast, where nothing is reduced."""

    name: str
    names: Names
    reduction: str = "reduction"
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        if call[self.reduction] == 0:
            _check_shape(call, self.name, broadcast_shape(call, self.names), self.names)

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{self.name} has the broadcast shape of {_and(self.names)}, for {self.reduction} 0"


@dataclass(frozen=True, slots=True)
class OneElement:
    """The output has one element, where all is reduced to one."""

    name: str
    reduction: str = "reduction"
    code: ClassVar[int] = codes.ACLNN_ERR_INNER_NULLPTR

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        spec = call.tensor(self.name)
        if call[self.reduction] != 0 and spec.elements != 1:
            raise call.invalid(
                self.name,
                f"{self.name} has shape {list(spec.shape)}; for {self.reduction} "
                f"{call[self.reduction]} it must have one element",
                code=self.code,
            )

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{self.name} has one element, for any other {self.reduction}"


@dataclass(frozen=True, slots=True)
class SameType:
    """Tensors have the element type of another."""

    names: Names
    like: str
    code: int = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        expected = call.tensor(self.like).dtype
        for name, spec in zip(self.names, call.tensors(self.names), strict=True):
            if spec.dtype is not expected:
                raise call.invalid(
                    name,
                    f"{name} is {spec.dtype}; it must be {expected}, as {self.like} is",
                    code=self.code,
                )

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{_and(self.names)} have the type of {self.like}"


@dataclass(frozen=True, slots=True)
class SameShape:
    """Tensors have the shape of another."""

    names: Names
    like: str
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        expected = call.tensor(self.like).shape
        for name, spec in zip(self.names, call.tensors(self.names), strict=True):
            if spec.shape != expected:
                raise call.invalid(
                    name,
                    f"{name} has shape {list(spec.shape)}; it must have {list(expected)}, "
                    f"as {self.like} has",
                )

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{_and(self.names)} have the shape of {self.like}"


@dataclass(frozen=True, slots=True)
class PlainFormat:
    """Tensors have no private format."""

    names: Names
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        for name, spec in zip(self.names, call.tensors(self.names), strict=True):
            if not spec.format.plain:
                raise call.invalid(name, f"{name} has the private format {spec.format}")

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{_and(self.names)} have no private format"


@dataclass(frozen=True, slots=True)
class Holds:
    """A rule of a few operators only: a function that raises the error where it does not hold."""

    rule: str
    """What must hold, as the end of the sentence "The call is refused unless …"."""
    check: Callable[[Call], None]
    code: int = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        self.check(call)


def broadcast_shape(call: Call, names: Names) -> Shape:
    """Broadcasts the shapes of several tensors, from left to right.

    Raises:
        InvalidParameterError: 161002, one does not fit those before it.
    """
    shape = call.tensor(names[0]).shape
    for position, name in enumerate(names[1:], 1):
        spec = call.tensor(name)
        try:
            shape = broadcast(shape, spec.shape)
        except ShapeMismatchError:
            raise call.invalid(
                name,
                f"{name} has shape {list(spec.shape)}, which does not broadcast with "
                f"{list(shape)} of {_and(names[:position])}",
            ) from None
    return shape


def _check_shape(call: Call, name: str, shape: Shape, names: Names) -> None:
    found = call.tensor(name).shape
    if found != shape:
        raise call.invalid(
            name,
            f"{name} has shape {list(found)}; it must have {list(shape)}, the broadcast shape of "
            f"{_and(names)}",
        )


def _list(items: tuple[object, ...]) -> str:
    return ", ".join(map(str, items))


def _and(items: tuple[object, ...] | list[DType]) -> str:
    *head, last = map(str, items)
    return f"{', '.join(head)} and {last}" if head else last
