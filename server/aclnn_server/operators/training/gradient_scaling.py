"""What trains with scaled losses needs: gradients scaled back, and whether any of them overflowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import Holds, NotNull, TypeIn
from aclnn_server.operators.definition import Call, Check, Family, Memory, Work, prototype
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.lists import ListTypeIn, each
from aclnn_server.operators.engines.pointwise import FLOATS, described
from aclnn_server.operators.engines.threads import Scratch, Threads, scratch_bytes
from aclnn_server.operators.engines.tiling import Operand, Tiling, lay_out
from aclnn_server.operators.training.optimizers import as_single, store

Array = npt.NDArray[Any]

GRADIENT_SCALING = Family()

_BOOL = np.dtype(np.bool_)
_NUMBERS = ("foundInf", "invScale")


@dataclass(frozen=True, slots=True)
class Unscale:
    """One tensor times a number, in place, a block at a time; a mark where any of it is not finite."""

    grads: Operand
    found: Operand
    factor: Operand
    tiling: Tiling
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Scales, and sets the mark; it is never cleared."""
        grads = self.grads.array(memory[self.grads.name])
        found = self.found.array(memory[self.found.name])
        factor = self.factor.array(memory[self.factor.name])[0]

        def compute(scratch: Scratch, number: int) -> None:
            part = grads[self.grads.part(self.tiling.index(number))]
            wide, finite = as_single(scratch, part), scratch.take(part.shape, _BOOL)
            if not np.isfinite(wide, out=finite).all():
                found[0] = 1
            np.multiply(wide, factor, out=wide)
            store(scratch, (part,), (wide,))

        threads.run(compute, self.tiling.blocks, 3 * scratch_bytes(self.tiling.largest * 4))


def _unscale(call: Call) -> Work:
    spec = call.tensor("scaledGrads")
    if not spec.elements:
        return Nothing()
    tiling, (grads,) = lay_out(spec.shape, [("scaledGrads", spec)], along_last=True)
    found, factor = (
        Operand(name, own.dtype, (1,), (1,), own.offset)
        for name, own in ((name, call.tensor(name)) for name in _NUMBERS)
    )
    return Unscale(grads, found, factor, tiling)


def _single(*names: str) -> Check:
    """That each of the tensors has one element."""

    def check(call: Call) -> None:
        for name in names:
            spec = call.tensor(name)
            if spec.elements != 1:
                shape = list(spec.shape)
                raise call.invalid(
                    name, f"{name} has shape {shape}; it must have one element, of any rank"
                )

    return Holds(f"{' and '.join(names)} have one element each", check)


GRADIENT_SCALING.add(
    prototype(
        "aclnnForeachNonFiniteCheckAndUnscale",
        "const aclTensorList* scaledGrads, const aclTensor* foundInf, const aclTensor* invScale",
    ),
    each(_unscale, "scaledGrads"),
    described(
        "Scales gradients back in place, and marks where any of them is infinite or NaN.",
        "scaledGrads_i = scaledGrads_i \\cdot invScale",
        "foundInf becomes 1 where an element of any tensor is infinite or NaN before it is scaled, and "
        "stays as it is otherwise.",
        "FLOAT16 and BF16 are computed in FLOAT and rounded once.",
        source="the public documentation of aclnnForeachNonFiniteCheckAndUnscale (hicann/ops-nn, foreach)",
    ),
    outputs=("scaledGrads", "foundInf"),
    checks=(
        NotNull(("scaledGrads", *_NUMBERS)),
        ListTypeIn(("scaledGrads",), FLOATS),
        TypeIn(_NUMBERS, (dtypes.FLOAT,)),
        _single(*_NUMBERS),
    ),
)


@dataclass(frozen=True, slots=True)
class UpdateScale:
    """The scale and the count of good steps after one more step; a few numbers."""

    specs: dict[str, TensorSpec]
    growth: np.float32
    backoff: np.float32
    interval: int
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes both; they may be the memory of what they were before."""
        views = {name: spec.view(memory[name]) for name, spec in self.specs.items()}
        scale, good = np.float32(views["currentScale"].item()), int(views["growthTracker"].item())
        with np.errstate(all="ignore"):
            if views["foundInf"].item():
                scale, good = scale * self.backoff, 0
            elif good + 1 == self.interval:
                larger = scale * self.growth
                scale, good = larger if np.isfinite(larger) else scale, 0
            else:
                good += 1
        views["updatedScaleOut"][...] = scale
        views["updatedGrowthTrackerOut"][...] = good


_BEFORE = ("currentScale", "growthTracker", "foundInf")
_AFTER = ("updatedScaleOut", "updatedGrowthTrackerOut")


def _update_scale(call: Call) -> Work:
    specs = {name: call.tensor(name) for name in (*_BEFORE, *_AFTER)}
    growth, backoff = np.float32(call["growthFactor"]), np.float32(call["backoffFactor"])
    return UpdateScale(specs, growth, backoff, call["growthInterval"])


GRADIENT_SCALING.add(
    prototype(
        "aclnnAmpUpdateScale",
        "const aclTensor* currentScale, const aclTensor* growthTracker, const aclTensor* foundInf, "
        "double growthFactor, double backoffFactor, int64_t growthInterval, "
        "const aclTensor* updatedScaleOut, const aclTensor* updatedGrowthTrackerOut",
    ),
    _update_scale,
    described(
        "The factor of scaled losses: smaller after an overflow, larger after many good steps.",
        "updatedScale = \\begin{cases} currentScale \\cdot backoffFactor & foundInf \\ne 0 \\\\ "
        "currentScale \\cdot growthFactor & growthTracker + 1 = growthInterval \\\\ "
        "currentScale & \\text{otherwise} \\end{cases}",
        "updatedGrowthTrackerOut is growthTracker + 1 in the last case, and 0 in the others.",
        "A scale that would be infinite is not increased. Outputs may be the memory of the inputs.",
        source="the public documentation of aclnnAmpUpdateScale (hicann/ops-math)",
    ),
    outputs=_AFTER,
    checks=(
        NotNull((*_BEFORE, *_AFTER)),
        TypeIn(("currentScale", "foundInf", "updatedScaleOut"), (dtypes.FLOAT,)),
        TypeIn(("growthTracker", "updatedGrowthTrackerOut"), (dtypes.INT32,)),
        _single(*_BEFORE, *_AFTER),
    ),
)
