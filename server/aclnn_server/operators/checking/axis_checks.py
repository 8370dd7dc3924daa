"""Checks of reductions: lists of dimensions, the shape that is left, and rules that empty tensors skip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from aclnn import codes
from aclnn.dtypes import DType
from aclnn_server.operators.checking.checks import Names
from aclnn_server.operators.checking.layout_checks import DimOf
from aclnn_server.operators.definition import Call, Check
from aclnn_server.operators.engines.axes import Axes, positive, reduced_shape
from aclnn_server.operators.engines.shapes import Shape


@dataclass(frozen=True, slots=True)
class DimsOf:
    """Numbers of a list name dimensions of a tensor; null, where it is allowed, names all."""

    name: str
    tensor: str
    repeated: bool = False
    """Whether a dimension may be named twice."""
    nonzero: bool = False
    """Whether the dimensions must have elements."""
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        shape = call.tensor(self.tensor).shape
        count, seen = max(len(shape), 1), set()
        for dim in call[self.name] or ():
            if not -count <= dim < count:
                raise self._error(
                    call, dim, f"{self.tensor} has those from {-count} to {count - 1}"
                )
            place = dim % count
            if place in seen and not self.repeated:
                raise self._error(call, dim, f"it names dimension {place} twice")
            if self.nonzero and shape and shape[place] == 0:
                raise self._error(call, dim, f"{self.tensor} has no elements along it")
            seen.add(place)

    def _error(self, call: Call, dim: int, problem: str) -> Exception:
        return call.invalid(self.name, f"{self.name} {list(call[self.name])} has {dim}; {problem}")

    @property
    def rule(self) -> str:
        """What must hold."""
        twice = "" if self.repeated else ", each once"
        zero = ", and of size other than 0" if self.nonzero else ""
        return f"{self.name} names dimensions of {self.tensor}{twice}{zero}"


@dataclass(frozen=True, slots=True)
class TypeIsGiven:
    """An output has the element type that a parameter names."""

    name: str
    dtype: str = "dtype"
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        found = call.tensor(self.name).dtype
        if found is not call[self.dtype]:
            raise call.invalid(
                self.name,
                f"{self.name} is {found}; it must be {call[self.dtype]}, as {self.dtype} says",
            )

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{self.name} has the type {self.dtype}"


@dataclass(frozen=True, slots=True)
class GivenTypeIn:
    """A parameter names an element type of a list, shortened by what the product lacks."""

    name: str
    allowed: tuple[DType, ...]
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        allowed = call.product.allowed(self.allowed)
        if call[self.name] not in allowed:
            raise call.invalid(
                self.name,
                f"{self.name} is {call[self.name]}; allowed are {', '.join(map(str, allowed))}",
            )

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{self.name} is among {', '.join(map(str, self.allowed))}"


@dataclass(frozen=True, slots=True)
class WhereNotEmpty:
    """A check that is left out where one of several tensors has no elements."""

    tensors: Names
    check: Check

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        if all(spec.elements for spec in call.tensors(self.tensors)):
            self.check(call)

    @property
    def dtypes(self) -> dict[str, tuple[DType, ...]]:
        """Element types that the reference allows, by parameter."""
        found: dict[str, tuple[DType, ...]] = getattr(self.check, "dtypes", {})
        return found

    @property
    def code(self) -> int:
        """Code of the failure."""
        return self.check.code

    @property
    def rule(self) -> str:
        """What must hold."""
        verb = "has" if len(self.tensors) == 1 else "have"
        return f"{self.check.rule}, where {' and '.join(self.tensors)} {verb} elements"


@dataclass(frozen=True, slots=True)
class WhereEmpty:
    """A check that holds only where one of several tensors has no elements."""

    tensors: Names
    check: Check

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        if not all(spec.elements for spec in call.tensors(self.tensors)):
            self.check(call)

    @property
    def code(self) -> int:
        """Code of the failure."""
        return self.check.code

    @property
    def rule(self) -> str:
        """What must hold."""
        return f"{self.check.rule}, where {' or '.join(self.tensors)} has no elements"


@dataclass(frozen=True, slots=True)
class WhereGiven:
    """Checks of single optional parameters, each left out where its parameter is null."""

    names: Names
    check: Callable[[str], Check]
    """Makes the check of one parameter."""

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        for name in self.names:
            if call[name] is not None:
                self.check(name)(call)

    @property
    def dtypes(self) -> dict[str, tuple[DType, ...]]:
        """Element types that the reference allows, by parameter."""
        found: dict[str, tuple[DType, ...]] = {}
        for name in self.names:
            found |= getattr(self.check(name), "dtypes", {})
        return found

    @property
    def code(self) -> int:
        """Code of the failure."""
        return self.check(self.names[0]).code

    @property
    def rule(self) -> str:
        """What must hold."""
        return "; ".join(f"{self.check(name).rule}, where it is not null" for name in self.names)


@dataclass(frozen=True, slots=True)
class ShapeIsReduced:
    """An output has the shape that is left of a tensor."""

    name: str
    tensor: str
    axes: Callable[[Call], Axes]
    keep: Callable[[Call], bool]
    lenient: bool = False
    """Whether a tensor without dimensions and one of shape [1] are the same."""
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        found = call.tensor(self.name).shape
        shape = call.tensor(self.tensor).shape
        expected = reduced_shape(shape, self.axes(call), keep=self.keep(call))
        if found == expected or (self.lenient and _one(found) and _one(expected)):
            return
        raise call.invalid(
            self.name,
            f"{self.name} has shape {list(found)}; it must have {list(expected)}, what is left of "
            f"{list(shape)} of {self.tensor}",
        )

    @property
    def rule(self) -> str:
        """What must hold."""
        either = "; [] and [1] are the same" if self.lenient else ""
        return f"{self.name} has the shape that is left of {self.tensor}{either}"


def _one(shape: Shape) -> bool:
    return shape in ((), (1,))


def axes_of(tensor: str, dims: str) -> Callable[[Call], Axes]:
    """Dimensions that a parameter names, one or a list; all where the list is empty or null."""

    def axes(call: Call) -> Axes:
        rank = len(call.tensor(tensor).shape)
        named = call[dims]
        if isinstance(named, int):
            return positive([named], rank)
        return positive(named or range(rank), rank)

    return axes


DIM_OF_SELF = DimOf("dim", "self")
"""dim is a dimension of self."""
