"""Complex numbers made of their parts."""

from __future__ import annotations

from dataclasses import replace

from aclnn import dtypes
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import (
    Broadcasts,
    Holds,
    NotNull,
    RankUpTo,
    SameType,
    TypeIn,
)
from aclnn_server.operators.definition import Call, Family, Work
from aclnn_server.operators.engines.copies import copy, movement

COMPLEX_PARTS = Family()

_PARTS = ("real", "imag")
_WHOLES = {dtypes.FLOAT: dtypes.COMPLEX64, dtypes.DOUBLE: dtypes.COMPLEX128}


def _check_whole(call: Call) -> None:
    real, out = call.tensors(("real", "out"))
    if out.dtype is not _WHOLES[real.dtype]:
        raise call.invalid(
            "out", f"out is {out.dtype}; of parts of {real.dtype} it must be {_WHOLES[real.dtype]}"
        )


def _part(spec: TensorSpec, place: int) -> TensorSpec:
    """The real (0) or imaginary (1) parts of complex elements, as a view of the same storage."""
    part = dtypes.FLOAT if spec.dtype is dtypes.COMPLEX64 else dtypes.DOUBLE
    return replace(
        spec,
        dtype=part,
        strides=tuple(2 * stride for stride in spec.strides),
        offset=2 * spec.offset + place,
        storage_shape=(2 * spec.storage_elements,),
    )


@COMPLEX_PARTS.operator(
    """
    aclnnStatus aclnnComplexGetWorkspaceSize(
        const aclTensor* real, const aclTensor* imag, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull((*_PARTS, "out")),
        TypeIn(_PARTS, tuple(_WHOLES)),
        SameType(("imag",), "real"),
        TypeIn(("out",), tuple(_WHOLES.values())),
        Holds("out is COMPLEX64 of FLOAT, COMPLEX128 of DOUBLE", _check_whole),
        RankUpTo(_PARTS),
        Broadcasts(_PARTS, to="out"),
    ),
)
def complex_(call: Call) -> Work:
    """Complex numbers of real and imaginary parts.

    $$out = real + i \\cdot imag$$

    The parts broadcast, and may be strided, as out may.

    Source: the public documentation of aclnnComplex (hicann/ops-math, math).
    """
    real, imag, out = call.tensors((*_PARTS, "out"))
    steps = [
        copy((name, part), ("out", _part(out, place)))
        for place, (name, part) in enumerate(zip(_PARTS, (real, imag), strict=True))
    ]
    return movement("out", out, steps)
