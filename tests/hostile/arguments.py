"""Arguments that no program would give: valid calls of every operator, changed in a few random places."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from aclnn import arguments as encoding
from aclnn import dtypes
from aclnn.arguments import TensorArgument
from aclnn.signatures import Kind, Parameter
from aclnn.tensors import TensorSpec
from aclnn.v1 import operator_service_pb2 as op
from aclnn.v1 import tensor_pb2 as t
from aclnn_server.operators.definition import Operator
from tests.operators.samples import sample

BUFFER, BUFFER_BYTES = 1, 1 << 16
"""A buffer that the context has."""
SHAPES = ((2, 3), (), (4,), (0, 3), (1, 2, 3, 4), (33, 65))
TYPES = ("FLOAT", "FLOAT16", "BF16", "INT32", "INT64", "BOOL", "DOUBLE", "UINT8")
INT64S = (
    0,
    1,
    -1,
    2,
    3,
    7,
    8,
    9,
    63,
    64,
    -(2**31),
    2**31 - 1,
    2**31,
    2**32,
    2**62,
    2**63 - 1,
    -(2**63),
)
REALS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    float("nan"),
    float("inf"),
    float("-inf"),
    5e-324,
    3e38,
    -1e300,
    1e-30,
)


def call_of(operator: Operator, choose: random.Random) -> op.GetWorkspaceSizeRequest:
    """Phase one of a call that the operator may take, of a random shape and type."""
    allowed = {dtype.name for row in operator.dtypes.values() for dtype in row} or {"FLOAT"}
    name = choose.choice([name for name in TYPES if name in allowed] or ["FLOAT"])
    try:
        values = sample(operator, choose.choice(SHAPES), dtypes.dtype(name)).arguments
    except Exception:  # the samples do not know every shape of every operator
        values = sample(operator, (2, 3), dtypes.dtype("FLOAT")).arguments
    request = op.GetWorkspaceSizeRequest(operator=operator.name)
    for row, value in zip(operator.signature.parameters, values, strict=True):
        request.arguments.append(encoding.encode(row, _travelling(row, value), operator.name))
    return request


def _travelling(row: Parameter, value: Any) -> Any:  # noqa: ANN401 - what the kind takes
    if isinstance(value, list):
        return tuple(_travelling(row, item) for item in value)
    if not isinstance(value, np.ndarray):
        return value
    spec = TensorSpec.contiguous(value.shape, dtypes.dtype(value.dtype))
    returned = row.output and row.name != "selfRef"
    return TensorArgument(spec, None if returned else np.ascontiguousarray(value).tobytes())


def spoil(request: op.GetWorkspaceSizeRequest, choose: random.Random, changes: int) -> None:
    """Changes a call in so many places."""
    for _ in range(changes):
        if not request.arguments or choose.random() < 0.05:
            _spoil_list(request, choose)
        else:
            _spoil_argument(choose.choice(request.arguments), choose)


def _spoil_list(request: op.GetWorkspaceSizeRequest, choose: random.Random) -> None:
    given = list(request.arguments)
    if given and choose.random() < 0.5:
        given.pop(choose.randrange(len(given)))
    else:
        given.insert(choose.randint(0, len(given)), _anything(choose))
    del request.arguments[:]
    request.arguments.extend(given)


def _spoil_argument(argument: t.Argument, choose: random.Random) -> None:
    if choose.random() < 0.08:
        argument.CopyFrom(_anything(choose))
        return
    kind = argument.WhichOneof("value")
    if kind == "tensor":
        _spoil_tensor(argument.tensor, choose)
    elif kind == "tensor_list":
        _spoil_items(argument.tensor_list.tensors, _spoil_tensor, choose)
    elif kind == "scalar":
        _spoil_scalar(argument.scalar, choose)
    elif kind == "scalar_list":
        _spoil_items(argument.scalar_list.scalars, _spoil_scalar, choose)
    elif kind in ("int_array", "float_array", "bool_array"):
        _spoil_numbers(getattr(argument, kind).values, kind, choose)
    elif kind is not None:
        argument.CopyFrom(_of_kind(Kind(kind) if kind != "null" else Kind.TENSOR, choose))


def _spoil_items(
    items: Any,  # noqa: ANN401 - of tensors or of scalars
    spoil_one: Callable[[Any, random.Random], None],
    choose: random.Random,
) -> None:
    what = choose.random()
    if items and what < 0.6:
        spoil_one(choose.choice(items), choose)
    elif items and what < 0.8:
        items.append(items[0])
    elif items and what < 0.9:
        del items[-1]
    else:
        items.add()


def _spoil_tensor(tensor: t.Tensor, choose: random.Random) -> None:
    choose.choice(_TENSOR)(tensor, choose)


def _dimension(tensor: t.Tensor, choose: random.Random) -> None:
    _spoil_numbers(tensor.shape, "int_array", choose)


def _strides(tensor: t.Tensor, choose: random.Random) -> None:
    del tensor.strides[:]
    count = len(tensor.shape) if choose.random() < 0.8 else choose.randrange(10)
    tensor.strides.extend(choose.choice((*range(-3, 9), integer(choose))) for _ in range(count))


def _room(tensor: t.Tensor, choose: random.Random) -> None:
    """Strides and a storage that fit together: views that are allowed, however odd."""
    del tensor.storage_shape[:]
    tensor.storage_shape.append(choose.choice((1, 64, 4096)))
    _strides(tensor, choose)
    tensor.offset = choose.choice((0, 1, 32, 63))
    if tensor.HasField("data"):
        tensor.data = choose.randbytes(choose.choice((4, 8, 64, 256, 512)))


def _storage_shape(tensor: t.Tensor, choose: random.Random) -> None:
    _spoil_numbers(tensor.storage_shape, "int_array", choose)


def _offset(tensor: t.Tensor, choose: random.Random) -> None:
    tensor.offset = integer(choose)


def _type(tensor: t.Tensor, choose: random.Random) -> None:
    tensor.data_type = choose.randrange(-1, 30)  # type: ignore[assignment]


def _format(tensor: t.Tensor, choose: random.Random) -> None:
    tensor.format = choose.randrange(-1, 22)  # type: ignore[assignment]


def _size(tensor: t.Tensor, choose: random.Random) -> None:
    data = bytearray(tensor.data)
    tensor.data = bytes(
        data[: choose.randint(0, len(data))] + choose.randbytes(choose.choice((0, 1, 8)))
    )


def _values(tensor: t.Tensor, choose: random.Random) -> None:
    """Any bits: NaN, indexes out of range, other values than 0 and 1 in a BOOL."""
    tensor.data = choose.randbytes(len(tensor.data))


def _buffer(tensor: t.Tensor, choose: random.Random) -> None:
    tensor.buffer_id = choose.choice((BUFFER, BUFFER, BUFFER, 0, 2, 2**64 - 1))
    tensor.buffer_offset = choose.choice((0, 0, 1, 64, BUFFER_BYTES - 1, BUFFER_BYTES, 2**64 - 1))


def _no_storage(tensor: t.Tensor, choose: random.Random) -> None:
    tensor.ClearField("data")
    tensor.ClearField("buffer_id")


_TENSOR = (
    *(_dimension, _dimension, _strides, _room, _storage_shape, _offset, _type, _format),
    *(_size, _values, _values, _buffer, _buffer, _no_storage),
)


def _spoil_scalar(scalar: t.Scalar, choose: random.Random) -> None:
    if choose.random() < 0.4:
        scalar.data_type = choose.randrange(-1, 30)  # type: ignore[assignment]
    if choose.random() < 0.7:
        scalar.value = choose.choice(
            (
                choose.randbytes(choose.choice((0, 1, 2, 4, 8, 8, 16, 17))),
                struct.pack("<d", choose.choice(REALS)),
                struct.pack("<f", choose.choice((float("nan"), float("inf"), 1e38))),
                struct.pack("<q", integer(choose)),
            )
        )


def _spoil_numbers(values: Any, kind: str, choose: random.Random) -> None:  # noqa: ANN401
    made = _NUMBERS[kind]
    what = choose.random()
    if len(values) and what < 0.6:
        values[choose.randrange(len(values))] = made(choose)
    elif len(values) and what < 0.75:
        del values[choose.randrange(len(values))]
    elif what < 0.97:
        values.append(made(choose))
    else:
        values.extend(made(choose) for _ in range(choose.choice((10, 1000))))


def integer(choose: random.Random) -> int:
    """An int64_t: mostly one at the edge of something."""
    return choose.choice(INT64S) if choose.random() < 0.7 else choose.randint(-4, 40)


def real(choose: random.Random) -> float:
    """A float."""
    return choose.choice(REALS)


def _anything(choose: random.Random) -> t.Argument:
    if choose.random() < 0.4:
        return t.Argument(null=t.Null())
    return _of_kind(choose.choice(list(Kind)), choose)


def _of_kind(kind: Kind, choose: random.Random) -> t.Argument:
    """An argument of a kind, out of any context."""
    argument = t.Argument()
    if kind in _PLAIN:
        setattr(argument, kind.value, _PLAIN[kind](choose))
        return argument
    getattr(argument, kind.value).SetInParent()
    if kind is Kind.TENSOR:
        argument.tensor.data_type = choose.randint(1, 27)  # type: ignore[assignment]
        argument.tensor.shape.extend(choose.randint(0, 3) for _ in range(choose.randint(0, 9)))
    else:
        _spoil_argument(argument, choose)
    return argument


def _text(choose: random.Random) -> str:
    return "".join(chr(choose.randint(1, 0xD7FF)) for _ in range(choose.choice((0, 3, 5000))))


def _flag(choose: random.Random) -> bool:
    return choose.random() < 0.5


_NUMBERS: dict[str, Callable[[random.Random], float]] = {
    "int_array": integer,
    "float_array": real,
    "bool_array": _flag,
}
_PLAIN: dict[Kind, Callable[[random.Random], object]] = {
    Kind.TEXT: _text,
    Kind.INT64: integer,
    Kind.INT32: lambda choose: max(-(2**31), min(2**31 - 1, integer(choose))),
    Kind.INT8: lambda choose: max(-129, min(128, integer(choose))),
    Kind.UINT64: lambda choose: integer(choose) % 2**64,
    Kind.BOOL: _flag,
    Kind.DOUBLE: real,
    Kind.FLOAT: real,
    Kind.DATA_TYPE: lambda choose: choose.randrange(-1, 30),
}
