"""Requests as the tests write them: short, and no shorter than what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.v1 import operator_service_pb2 as op
from aclnn.v1 import tensor_pb2 as t

Array = npt.NDArray[Any]

FLOAT, INT64, UINT8 = t.DATA_TYPE_FLOAT, t.DATA_TYPE_INT64, t.DATA_TYPE_UINT8


def inline(array: Array) -> t.Argument:
    """A tensor that carries its bytes."""
    return t.Argument(
        tensor=t.Tensor(
            data_type=dtypes.dtype(array.dtype).number,  # type: ignore[arg-type]
            shape=array.shape,
            data=array.tobytes(),
        )
    )


def bytes_of(*values: float) -> bytes:
    """The bytes of float32 numbers."""
    return np.array(values, np.float32).tobytes()


def floats(*values: float) -> t.Argument:
    """A float32 tensor of one dimension that carries its bytes."""
    return inline(np.array(values, np.float32))


def tensor(shape: Sequence[int], data_type: int = FLOAT, **rest: Any) -> t.Argument:  # noqa: ANN401
    """A tensor as described; without `data` and `buffer_id` it has no storage."""
    described = t.Tensor(data_type=data_type, shape=shape, **rest)  # type: ignore[arg-type]
    return t.Argument(tensor=described)


def number(value: int) -> t.Argument:
    """An int64_t."""
    return t.Argument(int64_value=value)


def real(value: float) -> t.Argument:
    """A float."""
    return t.Argument(float_value=value)


def null() -> t.Argument:
    """A null pointer."""
    return t.Argument(null=t.Null())


def plan(
    operator: str,
    *arguments: t.Argument,
    executor: int = 0,
    repeatable: bool = False,
    stream: str = "",
) -> op.GetWorkspaceSizeRequest:
    """Phase one."""
    return op.GetWorkspaceSizeRequest(
        operator=operator,
        arguments=arguments,
        executor_id=executor,
        repeatable=repeatable,
        stream_id=stream,
    )


def run(
    executor: int,
    *,
    stream: str = "",
    workspace: op.Workspace | None = None,
    bindings: Sequence[op.Binding] = (),
    asynchronous: bool = False,
    timing: bool = False,
) -> op.ExecuteRequest:
    """Phase two."""
    return op.ExecuteRequest(
        executor_id=executor,
        stream_id=stream,
        workspace=workspace,
        bindings=bindings,
        asynchronous=asynchronous,
        report_timing=timing,
    )


def plus(value: int = 1, *data: float, **rest: Any) -> op.GetWorkspaceSizeRequest:  # noqa: ANN401
    """Phase one of `data` + `value`, answered inline."""
    data = data or (1.0, 2.0)
    return plan("aclnnPlus", floats(*data), number(value), tensor([len(data)]), **rest)


def passing(gate: int, buffer: int = 0, **rest: Any) -> op.GetWorkspaceSizeRequest:  # noqa: ANN401
    """Phase one of a copy of [7, 8] that waits at a gate; into a buffer, or answered inline."""
    into = {"buffer_id": buffer} if buffer else {}
    return plan("aclnnPass", floats(7, 8), number(gate), tensor([2], **into), **rest)


def digit(value: int, buffer: int, **rest: Any) -> op.GetWorkspaceSizeRequest:  # noqa: ANN401
    """Phase one of appending a decimal digit to the int64 number in a buffer."""
    return plan("aclnnDigit", number(value), tensor([1], INT64, buffer_id=buffer), **rest)


def failing(value: int, buffer: int, **rest: Any) -> op.GetWorkspaceSizeRequest:  # noqa: ANN401
    """Phase one of a kernel that fails; unexpectedly where `value` is negative."""
    return plan("aclnnFail", number(value), tensor([1], INT64, buffer_id=buffer), **rest)


def scratch(size: int, gate: int = 0, **rest: Any) -> op.GetWorkspaceSizeRequest:  # noqa: ANN401
    """Phase one of a copy of [7, 8] that takes `size` bytes of workspace and waits at a gate."""
    return plan("aclnnScratch", floats(7, 8), number(size), number(gate), tensor([2]), **rest)


def outputs(response: op.ExecuteResponse, dtype: npt.DTypeLike = np.float32) -> list[list[Any]]:
    """The values that came back."""
    return [np.frombuffer(o.tensor.data, dtype).tolist() for o in response.outputs]
