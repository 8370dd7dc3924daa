"""Operators that fill a tensor where a mask is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn_server.operators.checking.checks import (
    Broadcasts,
    Holds,
    NotNull,
    RankUpTo,
    TypeIn,
    broadcast_shape,
)
from aclnn_server.operators.definition import Call, Family, Work
from aclnn_server.operators.engines.blocks import Kernel, Types, elementwise
from aclnn_server.operators.engines.copies import constant
from aclnn_server.operators.engines.pointwise import FLOATS, select
from aclnn_server.operators.engines.threads import Scratch

Array = npt.NDArray[Any]

MASKING = Family()

_FILLABLE = (*FLOATS, dtypes.INT8, dtypes.INT32, dtypes.INT64, dtypes.BOOL)
_TENSORS = ("selfRef", "mask")


def _check_one_value(call: Call) -> None:
    shape = call.tensor("value").shape
    if shape not in ((), (1,)):
        raise call.invalid("value", f"value has shape {list(shape)}; it must have one element")


def _fill(call: Call, kernel: Kernel, *more: str) -> Work:
    own = call.tensor("selfRef").dtype.numpy
    assert own is not None
    types = Types(own, own, first=np.dtype(np.bool_))
    shape = broadcast_shape(call, _TENSORS)
    return elementwise(call, kernel, ("mask", "selfRef", *more), "selfRef", shape, types)


def _from_tensor(mask: Array, own: Array, value: Array, *, out: Array, scratch: Scratch) -> None:
    select(mask, value, own, out=out, scratch=scratch)


@MASKING.operator(
    """
    aclnnStatus aclnnInplaceMaskedFillScalarGetWorkspaceSize(
        aclTensor* selfRef, const aclTensor* mask, const aclScalar* value,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("selfRef",),
    checks=(
        NotNull((*_TENSORS, "value")),
        TypeIn(("selfRef",), _FILLABLE),
        TypeIn(("mask",), (dtypes.BOOL,)),
        RankUpTo(_TENSORS),
        Broadcasts(_TENSORS, to="selfRef"),
    ),
)
def inplace_masked_fill_scalar(call: Call) -> Work:
    """Fills a tensor with a number where a mask is true.

    $$selfRef_i = value \\quad \\text{where } mask_i$$

    - value is cast to the type of selfRef; mask broadcasts to its shape.
    - selfRef is input and output; a mask that shares memory with it is copied first.

    Source: host code of aclnnInplaceMaskedFillScalar (hicann/ops-math, conversion/masked_fill).
    """
    value = constant(call["value"], call.tensor("selfRef").dtype).reshape(1)

    def kernel(mask: Array, own: Array, *, out: Array, scratch: Scratch) -> None:
        select(mask, value, own, out=out, scratch=scratch)

    return _fill(call, kernel)


@MASKING.operator(
    """
    aclnnStatus aclnnInplaceMaskedFillTensorGetWorkspaceSize(
        aclTensor* selfRef, const aclTensor* mask, const aclTensor* value,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("selfRef",),
    checks=(
        NotNull((*_TENSORS, "value")),
        TypeIn(("selfRef", "value"), _FILLABLE),
        TypeIn(("mask",), (dtypes.BOOL,)),
        RankUpTo(_TENSORS),
        Holds("value has no dimensions, or one of size 1", _check_one_value),
        Broadcasts(_TENSORS, to="selfRef"),
    ),
)
def inplace_masked_fill_tensor(call: Call) -> Work:
    """Fills a tensor with the one element of another where a mask is true.

    $$selfRef_i = value \\quad \\text{where } mask_i$$

    - value is cast to the type of selfRef; mask broadcasts to its shape.
    - selfRef is input and output; inputs that share memory with it are copied first.

    Source: the public documentation of aclnnInplaceMaskedFillTensor (hicann/ops-math,
    conversion/masked_fill).
    """
    return _fill(call, _from_tensor, "value")
