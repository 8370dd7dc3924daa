"""Dropout: elements set to 0 at random, by masks of a bit for each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn_server.operators.checking.axis_checks import GivenTypeIn
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.definition import Call, Check, Family, Work, prototype
from aclnn_server.operators.engines.random_numbers import generator
from aclnn_server.operators.engines.staging import Arrays, in_blocks, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.engines.tiling import BLOCK
from aclnn_server.operators.networks.matmul import FLOATS
from aclnn_server.operators.products import (
    ASCEND310B,
    ASCEND310P,
    ASCEND910,
    ASCEND910_93,
    ASCEND910B,
)

Array = npt.NDArray[Any]

DROPOUT = Family()

_ALIGNED = 128
"""Elements to which masks are filled up."""
_BITS = 8


# --- masks ------------------------------------------------------------------------------------------


def _mask_bytes(elements: int) -> int:
    return -(-elements // _ALIGNED) * _ALIGNED // _BITS


def _draw(mask: Array, drop: float, seed: int, offset: int, threads: Threads) -> None:
    """Writes bits that are 0 with probability `drop`; those of a block have a generator of their own."""

    def block(cut: slice) -> None:
        source = generator(seed, offset, cut.start // (BLOCK // _BITS))
        kept = source.random((cut.stop - cut.start) * _BITS, np.float32) >= drop
        mask[cut] = np.packbits(kept, bitorder="little")

    in_blocks(threads, len(mask), _BITS, block)


def _apply(x: Array, mask: Array, scale: float, out: Array, threads: Threads) -> None:
    """Multiplies the elements whose bit is 1 by `scale`; the others become 0."""
    x, out, bits = x.reshape(-1), out.reshape(-1), mask.reshape(-1)
    factor = np.float32(scale)

    def block(cut: slice) -> None:
        part = slice(cut.start * _BITS, min(cut.stop * _BITS, len(x)))
        kept = np.unpackbits(bits[cut], bitorder="little")[: part.stop - part.start].view(np.int8)
        np.multiply(x[part], factor, out=out[part])
        # By the bits, because NumPy's copy with a mask takes a branch for each element.
        words = out[part].view(np.int32)
        np.bitwise_and(words, np.negative(kept), out=words)

    in_blocks(threads, -(-len(x) // _BITS), _BITS, block)


# --- checks -----------------------------------------------------------------------------------------


def _probability(name: str) -> Check:
    def check(call: Call) -> None:
        if not 0 <= call[name] <= 1:
            raise call.invalid(name, f"{name} is {call[name]}; allowed are numbers from 0 to 1")

    return Holds(f"{name} is from 0 to 1", check)


def _mask_of(mask: str, tensor: str) -> Check:
    def check(call: Call) -> None:
        needed, found = _mask_bytes(call.tensor(tensor).elements), call.tensor(mask).elements
        if found != needed:
            raise call.invalid(
                mask,
                f"{mask} has {found} bytes; it must have {needed}: a bit for each element of {tensor}, "
                f"filled up to a multiple of {_ALIGNED}",
            )

    return Holds(f"{mask} has a bit for each element of {tensor}, filled up to 128", check)


def _check_shape(call: Call) -> None:
    if any(size < 0 for size in call["shape"]):
        raise call.invalid(
            "shape", f"shape is {list(call['shape'])}; allowed are numbers of at least 0"
        )
    needed, found = _mask_bytes(math.prod(call["shape"])), call.tensor("out").elements
    if found != needed:
        raise call.invalid(
            "out",
            f"out has {found} bytes; it must have {needed}: a bit for each element of shape, filled up to a "
            f"multiple of {_ALIGNED}",
        )


def _check_offset(call: Call) -> None:
    if call["offset"] % 4:
        raise call.invalid("offset", f"offset is {call['offset']}; allowed are multiples of 4")


_ORDER = (
    "A mask has a bit for each element in C order, 1 where it is kept, the lowest of a byte first; the bits "
    "behind them are drawn as well."
)
_DRAWN = "seed and offset determine the bits, at any number of threads; a device's generator draws others."


# --- operators --------------------------------------------------------------------------------------


@DROPOUT.operator(
    """
    aclnnStatus aclnnDropoutV3GetWorkspaceSize(
        const aclTensor* input, const aclTensor* optionalNoiseShape, double p, int64_t seed,
        int64_t offset, aclTensor* out, aclTensor* maskOut, uint64_t* workspaceSize,
        aclOpExecutor** executor)
    """,
    outputs=("out", "maskOut"),
    missing_on=(ASCEND310B, ASCEND310P, ASCEND910, ASCEND910B, ASCEND910_93),
    checks=(
        NotNull(("input", "out", "maskOut")),
        TypeIn(("input", "out"), FLOATS),
        TypeIn(("maskOut",), (dtypes.UINT8,)),
        _probability("p"),
        RankUpTo(("input",)),
        SameShape(("out",), "input"),
        Holds("offset is a multiple of 4", _check_offset),
        _mask_of("maskOut", "input"),
    ),
)
def dropout_v3(call: Call) -> Work:
    """Sets each element to 0 with a probability, and divides the others by that of being kept.

    $$out = \\frac{input \\cdot mask}{1 - p}$$

    - maskOut has a bit for each element in C order, 1 where it is kept, the lowest of a byte first; the
      bits behind them are drawn as well. Where p is 0 or 1 it is left as it is.
    - seed and offset determine the bits, at any number of threads; a device's generator draws others.
    - optionalNoiseShape is not read.
    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.

    Source: the public documentation of aclnnDropoutV3 (hicann/ops-math, random/drop_out_v3); the order of
    checks and of bits is not documented.
    """
    drop, seed, offset = float(call["p"]), call["seed"], call["offset"]

    def compute(arrays: Arrays, threads: Threads) -> None:
        if drop in (0, 1):
            np.multiply(arrays["input"], np.float32(1 - drop), out=arrays["out"])
            if drop == 1:
                arrays["out"].fill(0)
            return
        mask = np.empty(arrays["maskOut"].size, np.uint8)
        _draw(mask, drop, seed, offset, threads)
        _apply(arrays["input"], mask, 1 / (1 - drop), arrays["out"], threads)
        np.copyto(arrays["maskOut"], mask.reshape(arrays["maskOut"].shape))

    return staged(call, compute, ("input",), ("out", "maskOut"), raw=("maskOut",))


def _plan_mask(call: Call) -> Work:
    drop, seed, offset = float(call["prob"]), call["seed"], call["offset"]

    def compute(arrays: Arrays, threads: Threads) -> None:
        mask = np.empty(arrays["out"].size, np.uint8)
        _draw(mask, drop, seed, offset, threads)
        np.copyto(arrays["out"], mask.reshape(arrays["out"].shape))

    return staged(call, compute, (), ("out",), raw=("out",))


_MASK_CHECKS: tuple[Check, ...] = (
    NotNull(("shape", "out")),
    TypeIn(("out",), (dtypes.UINT8,)),
    _probability("prob"),
    Holds("out has a bit for each element of shape, filled up to 128", _check_shape),
)
_MASK_TEXT = """\
A mask for dropout: bits that are 0 with a probability.

$$P(out_i = 0) = prob$$

- {0}
- {1}
- The mask of equal seed and offset is that of aclnnDropoutV3.{2}

Source: the public documentation of {3} (hicann/ops-math, random/dsa_gen_bit_mask); the order of bits is not
documented."""

DROPOUT.add(
    prototype(
        "aclnnDropoutGenMask",
        "const aclIntArray* shape, double prob, int64_t seed, int64_t offset, aclTensor* out",
    ),
    _plan_mask,
    _MASK_TEXT.format(_ORDER, _DRAWN, "", "aclnnDropoutGenMask"),
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=_MASK_CHECKS,
)
DROPOUT.add(
    prototype(
        "aclnnDropoutGenMaskV2",
        "const aclIntArray* shape, double prob, int64_t seed, int64_t offset, "
        "aclDataType probDataType, aclTensor* out",
    ),
    _plan_mask,
    _MASK_TEXT.format(
        _ORDER,
        _DRAWN,
        " probDataType, a type of floats, makes no difference.",
        "aclnnDropoutGenMaskV2",
    ),
    outputs=("out",),
    missing_on=(ASCEND310B, ASCEND310P, ASCEND910),
    checks=(*_MASK_CHECKS, GivenTypeIn("probDataType", FLOATS)),
)


def _applied(tensor: str) -> tuple[Check, ...]:
    return (
        NotNull((tensor, "mask", "out")),
        TypeIn((tensor, "out"), FLOATS),
        SameType(("out",), tensor),
        TypeIn(("mask",), (dtypes.UINT8,)),
        RankUpTo((tensor,)),
        SameShape(("out",), tensor),
        _mask_of("mask", tensor),
    )


@DROPOUT.operator(
    prototype(
        "aclnnDropoutDoMask",
        "const aclTensor* self, const aclTensor* mask, double prob, aclTensor* out",
    ),
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(*_applied("self"), _probability("prob")),
)
def dropout_do_mask(call: Call) -> Work:
    """Sets the elements to 0 whose bit of a mask is 0, and divides the others by 1 - prob.

    $$out = \\frac{self \\cdot mask}{1 - prob}$$

    - mask has a bit for each element in C order, the lowest of a byte first. It is not read where prob is
      0 or 1: all elements are kept or none.
    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.

    Source: the public documentation of aclnnDropoutDoMask (hicann/ops-math, random/drop_out_do_mask); the
    order of checks and of bits is not documented.
    """
    drop = float(call["prob"])

    def compute(arrays: Arrays, threads: Threads) -> None:
        mask = np.full_like(arrays["mask"], 0xFF if drop == 0 else 0)
        if drop not in (0, 1):
            mask = arrays["mask"]
        scale = 1 / (1 - drop) if drop < 1 else 0
        _apply(arrays["self"], mask, scale, arrays["out"], threads)

    return staged(call, compute, ("self", "mask"), ("out",), raw=("mask",))


@DROPOUT.operator(
    prototype(
        "aclnnDropoutBackward",
        "const aclTensor* gradOutput, const aclTensor* mask, double scale, aclTensor* out",
    ),
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=_applied("gradOutput"),
)
def dropout_backward(call: Call) -> Work:
    """Gradient of dropout: 0 where the bit of a mask is 0, else scaled.

    $$out = gradOutput \\cdot mask \\cdot scale$$

    - mask has a bit for each element in C order, the lowest of a byte first. It is not read where scale is
      1, for dropout that keeps all, or 0.
    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.

    Source: the public documentation of aclnnDropoutBackward (hicann/ops-math, random/drop_out_do_mask); the
    order of checks and of bits is not documented.
    """
    scale = float(call["scale"])

    def compute(arrays: Arrays, threads: Threads) -> None:
        mask = arrays["mask"]
        if scale in (0, 1):
            mask = np.full_like(mask, 0xFF if scale == 1 else 0)
        _apply(arrays["gradOutput"], mask, scale, arrays["out"], threads)

    return staged(call, compute, ("gradOutput", "mask"), ("out",), raw=("mask",))
