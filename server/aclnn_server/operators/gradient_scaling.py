"""What trains with scaled losses needs: gradients scaled back, and whether any of them overflowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn_server.operators.blocks import Nothing
from aclnn_server.operators.checks import Holds, NotNull, TypeIn
from aclnn_server.operators.copies import cast
from aclnn_server.operators.definition import Call, Family, Memory, Work, prototype
from aclnn_server.operators.lists import ListTypeIn, each
from aclnn_server.operators.pointwise import FLOATS, described
from aclnn_server.operators.threads import Scratch, Threads, scratch_bytes
from aclnn_server.operators.tiling import Operand, Tiling, lay_out

Array = npt.NDArray[Any]

GRADIENT_SCALING = Family()

_SINGLE = np.dtype(np.float32)
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
            wide, work = scratch.take(part.shape, _SINGLE), scratch.take(part.shape, _SINGLE)
            cast(part, wide, scratch)
            np.multiply(wide, 0, out=work)
            if work.any():  # infinity times 0 is NaN, which is not 0
                found[0] = 1
            np.multiply(wide, factor, out=work)
            cast(work, part, scratch)

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


def _check_numbers(call: Call) -> None:
    for name in _NUMBERS:
        spec = call.tensor(name)
        if spec.elements != 1:
            raise call.invalid(
                name, f"{name} has shape {list(spec.shape)}; it must have one element, of any rank"
            )


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
        Holds("foundInf and invScale have one element each", _check_numbers),
    ),
)
