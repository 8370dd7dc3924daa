"""Operators over lists of tensors: one computation for each place of the lists.

A place is planned like a call of its own, whose tensors and numbers are those of the place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt

from aclnn import codes
from aclnn.dtypes import DType
from aclnn.signatures import Kind
from aclnn.tensors import TensorSpec
from aclnn_server.operators.definition import Call, Memory, Planner, Work
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.engines.views import sliced

Array = npt.NDArray[Any]
Names = tuple[str, ...]

_LISTS = (Kind.TENSOR_LIST, Kind.SCALAR_LIST)


@dataclass(frozen=True, slots=True)
class ListTypeIn:
    """Element types of the tensors of lists are in a list, shortened by what the product lacks."""

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
        for name in self.names:
            for place, spec in enumerate(call[name]):
                if spec.dtype not in allowed:
                    raise call.invalid(
                        name,
                        f"{name}[{place}] is {spec.dtype}; allowed are {', '.join(map(str, allowed))}",
                    )

    @property
    def rule(self) -> str:
        """What must hold."""
        types = ", ".join(map(str, self.allowed))
        return f"the types of the tensors of {' and '.join(self.names)} are among {types}"


@dataclass(frozen=True, slots=True)
class ListsAlike:
    """Lists are as long as the first, and what is at one place has the shape and type of the first's."""

    names: Names
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        first, *others = self.names
        for name in others:
            if len(call[name]) != len(call[first]):
                raise call.invalid(
                    name,
                    f"{name} has {len(call[name])} tensors; it must have {len(call[first])}, as {first}",
                )
            for place, (like, spec) in enumerate(zip(call[first], call[name], strict=True)):
                if (spec.shape, spec.dtype) != (like.shape, like.dtype):
                    raise call.invalid(
                        name,
                        f"{name}[{place}] is {spec.dtype} of shape {list(spec.shape)}; it must be "
                        f"{like.dtype} of {list(like.shape)}, as {first}[{place}]",
                    )

    @property
    def rule(self) -> str:
        """What must hold."""
        first, *others = self.names
        return f"{' and '.join(others)} have as many tensors as {first}, each of its shape and type"


@dataclass(frozen=True, slots=True)
class Each:
    """The works of all places, one after the other."""

    works: tuple[Work, ...]
    lists: frozenset[str]
    """Parameters whose memory is that of a list."""
    workspace_bytes: int

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Computes the places in order."""
        own = dict(memory)
        lists = [(name, memory[name]) for name in self.lists]
        with threads.kept() as kept:
            for place, work in enumerate(self.works):
                for name, storages in lists:
                    own[name] = storages[place]
                work.run(own, workspace, kept)


def each(plan: Planner, lists: str, split: str = "") -> Planner:
    """Plans a work for each place of the lists.

    Args:
        plan: plans one place: of its call, lists are the tensor or number at the place.
        lists: the list that tells how many places there are.
        split: a tensor with an element for each place, or one for all.
    """

    def plan_all(call: Call) -> Work:
        rows = call.signature.parameters
        works = tuple(plan(_at(call, place, split)) for place in range(len(call[lists])))
        return Each(
            works,
            frozenset(row.name for row in rows if row.kind is Kind.TENSOR_LIST),
            max((work.workspace_bytes for work in works), default=0),
        )

    return plan_all


def _at(call: Call, place: int, split: str) -> Call:
    arguments = []
    for row in call.signature.parameters:
        value = call[row.name]
        if row.kind in _LISTS:
            value = value[place]
        elif row.name == split:
            value = _element(value, place)
        arguments.append(value)
    return Call(call.signature, arguments, call.product)


def _element(spec: TensorSpec, place: int) -> TensorSpec:
    """The view of one element of a tensor that has one for each place, or one for all."""
    return sliced(spec, 0, place, 1) if spec.elements > 1 else spec
