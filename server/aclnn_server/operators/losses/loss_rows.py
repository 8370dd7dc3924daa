"""What the rows of the tables of losses have in common: checks, prototype, documentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from aclnn.dtypes import DType
from aclnn.pythonic import REDUCTIONS, Result
from aclnn_server.operators.checking.checks import (
    Broadcasts,
    Holds,
    NotNull,
    OneElement,
    OneOf,
    RankUpTo,
    ShapeIsBroadcast,
    TypeIn,
    broadcast_shape,
)
from aclnn_server.operators.definition import Call, Check, Family, OneLine, Work, prototype
from aclnn_server.operators.engines.blocks import Kernel, Types, elementwise, reduction
from aclnn_server.operators.engines.common_type import CommonType, Meets
from aclnn_server.operators.engines.pointwise import (
    BROADCAST,
    FLOATS,
    HOST_CODE,
    ROUNDED,
    described,
)
from aclnn_server.operators.engines.shapes import Shape

Names = tuple[str, ...]

BATCH_MEAN = 3
WITH_BATCH_MEAN: Mapping[str, int] = {**REDUCTIONS, "batchmean": BATCH_MEAN}

_REDUCED = (
    "out is the loss of each element (reduction 0, none), their mean (1) or their sum (2); the latter two "
    "have one element, of any rank. Sums are in DOUBLE over blocks of a fixed size. Of no elements, the "
    "mean is NaN and the sum 0."
)
_SCALED = (
    "With reduction 1 (mean) it is divided by the number of elements of the broadcast shape. Nothing is "
    "summed, whatever the reduction."
)
_TOGETHER = "Inputs broadcast together, and may be strided, as the output may."
_WEIGHTS_FIT = "weights broadcast to the shape of the other inputs"
_BATCH = "Reduction 3 (batchmean) divides the sum by the first size of the broadcast shape."


@dataclass(frozen=True, slots=True)
class Row:
    """A loss, or the gradient of one."""

    name: str
    """C name without the aclnn prefix."""
    summary: str
    formula: str
    """Of one element, before the reduction."""
    kernel: Callable[[Call, np.dtype[np.generic], float], Kernel]
    """Makes the kernel from the call, the type that is computed in and the factor of a gradient."""
    inputs: Names
    source: str
    """Repository and folder of the host code."""
    optional: Names = ()
    """Inputs after those, which may be null."""
    out: str = "out"
    types: tuple[DType, ...] = FLOATS
    reductions: Mapping[str, int] = field(default_factory=lambda: REDUCTIONS)
    flag: str = ""
    """A bool of the prototype, behind the reduction."""
    python: str = ""
    """Name in Python; inputs that may be null are left out there."""
    gradient: bool = False
    """Whether it is a gradient: nothing is summed."""
    notes: Names = ()

    def used(self, call: Call) -> Names:
        """The inputs that are not null."""
        return self.inputs + tuple(name for name in self.optional if call[name] is not None)

    def checks(self) -> tuple[Check, ...]:
        """What phase one checks."""
        names = (*self.inputs, *self.optional)
        return (
            NotNull((*self.inputs, self.out)),
            _Used(self, self._typed, TypeIn(names, self.types)),
            _Used(self, self._meets, self._meets(names)),
            OneOf("reduction", self.reductions),
            _Used(self, RankUpTo, RankUpTo(names)),
            *self._shapes(),
        )

    def _typed(self, names: Names) -> TypeIn:
        return TypeIn(names, self.types)

    def _meets(self, names: Names) -> Meets:
        return Meets(CommonType(names), self.out)

    def _shapes(self) -> tuple[Check, ...]:
        names = (*self.inputs, *self.optional)
        if self.gradient:
            return (_Used(self, self._fills, self._fills(names)),)
        return (
            _Used(self, Broadcasts, Broadcasts(names)),
            *([Holds(_WEIGHTS_FIT, self._check_weights)] if self.optional else []),
            ShapeIsBroadcast(self.out, self.inputs),
            OneElement(self.out),
        )

    def _check_weights(self, call: Call) -> None:
        shape = broadcast_shape(call, self.inputs)
        for name in self.used(call)[len(self.inputs) :]:
            if broadcast_shape(call, (*self.inputs, name)) != shape:
                raise call.invalid(
                    name,
                    f"{name} has shape {list(call.tensor(name).shape)}, which does not broadcast to "
                    f"{list(shape)}",
                )

    def _fills(self, names: Names) -> Broadcasts:
        return Broadcasts(names, to=self.out)

    def plan(self, call: Call) -> Work:
        """Plans the work."""
        inputs = self.used(call)
        shape = broadcast_shape(call, inputs)
        types = Types.of(CommonType(inputs).known(call))
        chosen = call["reduction"]
        if self.gradient:
            kernel = self.kernel(call, types.computed, 1 / divisor(chosen, shape))
            return elementwise(call, kernel, inputs, self.out, shape, types)
        kernel = self.kernel(call, types.computed, 1.0)
        if chosen == REDUCTIONS["none"]:
            return elementwise(call, kernel, inputs, self.out, shape, types)
        batch = shape[0] if chosen == BATCH_MEAN and shape else None
        mean = chosen != REDUCTIONS["sum"]
        return reduction(
            call, kernel, inputs, self.out, shape, mean=mean, divisor=batch, types=types
        )

    def text(self) -> str:
        """The documentation."""
        batch = [_BATCH] if BATCH_MEAN in self.reductions.values() else []
        source = HOST_CODE.format(f"aclnn{self.name}", self.source)
        what = _SCALED if self.gradient else _REDUCED
        shapes = BROADCAST if self.gradient else _TOGETHER
        notes = (*self.notes, what, *batch, ROUNDED, shapes)
        return described(self.summary, self.formula, *notes, source=source)

    def declaration(self) -> str:
        """The C parameters."""
        rows = [f"const aclTensor* {name}" for name in (*self.inputs, *self.optional)]
        rows += ["int64_t reduction", *([f"bool {self.flag}"] if self.flag else [])]
        return ", ".join([*rows, f"aclTensor* {self.out}"])

    def define(self, family: Family) -> None:
        """Adds the operator to a family."""
        defaults = {"reduction": "mean", **({self.flag: False} if self.flag else {})}
        result = Result("broadcast" if self.gradient else "reduced")
        family.add(
            prototype(f"aclnn{self.name}", self.declaration()),
            self.plan,
            self.text(),
            outputs=(self.out,),
            checks=self.checks(),
            optional=self.optional,
            python=OneLine(self.python, defaults, {"reduction": self.reductions}, result),
        )


@dataclass(frozen=True, slots=True)
class _Used:
    """A check of those inputs that are not null."""

    row: Row
    make: Callable[[Names], Check]
    """Makes the check of the inputs."""
    all: Check
    """The check of all inputs, which says the rule."""

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        self.make(self.row.used(call))(call)

    @property
    def rule(self) -> str:
        """What must hold."""
        return self.all.rule

    @property
    def code(self) -> int:
        """Code of the failure."""
        return self.all.code

    @property
    def dtypes(self) -> dict[str, tuple[DType, ...]]:
        """Element types that the reference allows, by parameter."""
        found: dict[str, tuple[DType, ...]] = getattr(self.all, "dtypes", {})
        return found


def divisor(chosen: int, shape: Shape) -> int:
    """What the gradient of a reduction divides by."""
    if chosen == REDUCTIONS["mean"]:
        return max(math.prod(shape), 1)
    return max(shape[0], 1) if chosen == BATCH_MEAN and shape else 1
