"""Arguments of phase one: Python values to the wire and back, by kind of C parameter."""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from aclnn import dtypes, formats
from aclnn.dtypes import DType
from aclnn.errors import InvalidParameterError, NullPointerError
from aclnn.signatures import Kind, Parameter, Signature
from aclnn.tensors import MAX_DIMENSIONS, Scalar, TensorSpec, contiguous_strides
from aclnn.v1 import tensor_pb2 as pb


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor as it travels: its spec, and its storage as bytes, as a buffer or not at all."""

    spec: TensorSpec
    data: bytes | memoryview | None = None
    """The storage's bytes."""
    buffer_id: int | None = None
    """Buffer that holds the storage."""
    buffer_offset: int = 0
    """Bytes from the start of the buffer to the storage's first byte."""


ArgumentValue = (
    TensorArgument
    | tuple[TensorArgument, ...]
    | Scalar
    | tuple[Scalar, ...]
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple[bool, ...]
    | str
    | int
    | float
    | bool
    | DType
    | None
)
"""One argument, by kind of parameter; ``None`` is a null pointer."""


# --- to the wire ----------------------------------------------------------------------------------


def encode(parameter: Parameter, value: Any, operator: str = "") -> pb.Argument:  # noqa: ANN401
    """Encodes one argument.

    Args:
        parameter: the parameter that it is for.
        value: :data:`ArgumentValue`; numbers and sequences of them may be anything that converts exactly.
        operator: name for error messages.

    Raises:
        InvalidParameterError: 161002, the value does not fit the parameter's C type.
    """
    if value is None and parameter.kind.pointer:
        return pb.Argument(null=pb.Null())
    try:
        return _ENCODERS[parameter.kind](value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidParameterError(
            f"{parameter.name} is {_short(value)}, which is no {parameter.c_type}",
            operator=operator,
            parameter=parameter.name,
        ) from error


def encode_tensor(tensor: TensorArgument) -> pb.Tensor:
    """Encodes a tensor; strides and storage shape are left out where they are the default."""
    if not isinstance(tensor, TensorArgument):
        raise TypeError(f"{type(tensor).__name__} is no tensor")
    spec = tensor.spec
    message = pb.Tensor(
        data_type=spec.dtype.number,  # type: ignore[arg-type]
        format=spec.format.number,  # type: ignore[arg-type]
        shape=spec.shape,
        offset=spec.offset,
        buffer_offset=tensor.buffer_offset,
    )
    if spec.strides != contiguous_strides(spec.shape):
        message.strides.extend(spec.strides)
    if spec.storage_shape != spec.shape:
        message.storage_shape.extend(spec.storage_shape or (1,))  # empty would mean the shape
    if tensor.buffer_id is not None:
        message.buffer_id = tensor.buffer_id
    elif tensor.data is not None:
        message.data = bytes(tensor.data)
    return message


def _scalar(value: Any) -> pb.Scalar:  # noqa: ANN401
    if not isinstance(value, Scalar):
        raise TypeError(f"{type(value).__name__} is no Scalar")
    return pb.Scalar(data_type=value.dtype.number, value=value.to_bytes())  # type: ignore[arg-type]


def _integer(value: Any) -> int:  # noqa: ANN401
    return operators.index(value)


def _integers(values: Iterable[Any]) -> pb.IntArray:
    return pb.IntArray(values=[operators.index(value) for value in values])


def _text(value: Any) -> str:  # noqa: ANN401
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is no text")
    return value


def _boolean(value: Any) -> bool:  # noqa: ANN401
    if value not in (0, 1):
        raise TypeError(f"{value!r} is no bool")
    return bool(value)


def _number(value: Any) -> float:  # noqa: ANN401
    if isinstance(value, str):
        raise TypeError("text is no number")
    return float(value)


def _int8(value: Any) -> int:  # noqa: ANN401
    number = operators.index(value)
    if not -128 <= number <= 127:
        raise OverflowError(f"{number} does not fit int8_t")
    return number


_ENCODERS: dict[Kind, Callable[[Any], pb.Argument]] = {
    Kind.TENSOR: lambda v: pb.Argument(tensor=encode_tensor(v)),
    Kind.TENSOR_LIST: lambda v: pb.Argument(
        tensor_list=pb.TensorList(tensors=[encode_tensor(t) for t in v])
    ),
    Kind.SCALAR: lambda v: pb.Argument(scalar=_scalar(v)),
    Kind.SCALAR_LIST: lambda v: pb.Argument(
        scalar_list=pb.ScalarList(scalars=[_scalar(s) for s in v])
    ),
    Kind.INT_ARRAY: lambda v: pb.Argument(int_array=_integers(v)),
    Kind.FLOAT_ARRAY: lambda v: pb.Argument(
        float_array=pb.FloatArray(values=[_number(x) for x in v])
    ),
    Kind.BOOL_ARRAY: lambda v: pb.Argument(
        bool_array=pb.BoolArray(values=[_boolean(x) for x in v])
    ),
    Kind.TEXT: lambda v: pb.Argument(text=_text(v)),
    Kind.INT64: lambda v: pb.Argument(int64_value=_integer(v)),
    Kind.INT32: lambda v: pb.Argument(int32_value=_integer(v)),
    Kind.INT8: lambda v: pb.Argument(int8_value=_int8(v)),
    Kind.UINT64: lambda v: pb.Argument(uint64_value=_integer(v)),
    Kind.BOOL: lambda v: pb.Argument(bool_value=_boolean(v)),
    Kind.DOUBLE: lambda v: pb.Argument(double_value=_number(v)),
    Kind.FLOAT: lambda v: pb.Argument(float_value=_number(v)),
    Kind.DATA_TYPE: lambda v: pb.Argument(data_type=dtypes.dtype(v).number),  # type: ignore[arg-type]
}


# --- from the wire --------------------------------------------------------------------------------


def decode_all(signature: Signature, arguments: Iterable[pb.Argument]) -> tuple[ArgumentValue, ...]:
    """Decodes and checks the arguments of one call, in the prototype's order.

    Raises:
        InvalidParameterError: 161002, too few or too many, of the wrong kind, an unknown data type or
            format, impossible dimensions, or inline bytes of another size than the storage.
    """
    arguments = tuple(arguments)
    parameters = signature.parameters
    if len(arguments) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters)
        raise InvalidParameterError(
            f"got {len(arguments)} arguments; it takes {len(parameters)}: {names}",
            operator=signature.name,
            parameter=parameters[len(arguments)].name if len(arguments) < len(parameters) else "",
        )
    return tuple(
        decode(parameter, argument, signature.name)
        for parameter, argument in zip(parameters, arguments, strict=True)
    )


def decode(parameter: Parameter, argument: pb.Argument, operator: str = "") -> ArgumentValue:
    """Decodes and checks one argument; errors as :func:`decode_all`."""
    kind = argument.WhichOneof("value")
    wanted, decoder = _DECODERS[parameter.kind]
    if kind != wanted:
        if kind == "null" and parameter.kind.pointer:
            return None
        if kind == "null":
            raise NullPointerError(
                f"{parameter.name} is null; a {parameter.c_type} cannot be",
                operator=operator,
                parameter=parameter.name,
            )
        given = "nothing" if kind is None else f"a {kind}"
        raise InvalidParameterError(
            f"{parameter.name} is {given}; a {parameter.c_type} takes a {parameter.kind.value}",
            operator=operator,
            parameter=parameter.name,
        )
    value: ArgumentValue = decoder(argument, parameter.name, operator)
    return value


def decode_tensor(message: pb.Tensor, parameter: str = "", operator: str = "") -> TensorArgument:
    """Decodes and checks a tensor; errors as :func:`decode_all`."""
    _check_lengths(message, parameter, operator)
    spec = _spec(
        _data_type(message.data_type, parameter, operator),
        _format(message.format, parameter, operator),
        tuple(message.shape),
        tuple(message.strides),
        message.offset,
        tuple(message.storage_shape),
    )
    if not spec.dtype.bits:
        _refuse(
            f"{parameter} is of {spec.dtype}, of which no tensor can be served", parameter, operator
        )
    spec.check(operator=operator, parameter=parameter)
    storage = message.WhichOneof("storage")
    if storage == "buffer_id":
        return TensorArgument(spec, None, message.buffer_id, message.buffer_offset)
    if storage is None:
        return TensorArgument(spec)
    data = message.data
    if len(data) != spec.storage_bytes:
        _refuse(
            f"{parameter} has {len(data)} bytes; storage shape {list(spec.storage_shape)} of {spec.dtype} "
            f"needs {spec.storage_bytes}",
            parameter,
            operator,
        )
    return TensorArgument(spec, data)


def _check_lengths(message: pb.Tensor, parameter: str, operator: str) -> None:
    # Before anything is computed of them or kept: a message has room for millions.
    lengths = (("shape", message.shape), ("storage shape", message.storage_shape))
    for label, dims in lengths:
        if len(dims) > MAX_DIMENSIONS:
            _refuse(
                f"{parameter} has {len(dims)} dimensions in its {label}; at most {MAX_DIMENSIONS} can be",
                parameter,
                operator,
            )
    if len(message.strides) > MAX_DIMENSIONS:
        _refuse(
            f"{parameter} has {len(message.strides)} strides for {len(message.shape)} dimensions",
            parameter,
            operator,
        )


@lru_cache(maxsize=8192)
def _spec(
    dtype: DType,
    format: formats.Format,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    storage_shape: tuple[int, ...],
) -> TensorSpec:
    # Calls repeat: an equal tensor gets the same spec, with all that was computed of it before.
    strides = strides or contiguous_strides(shape)
    return TensorSpec(dtype, shape, strides, offset, storage_shape or shape, format)


def _data_type(number: int, parameter: str, operator: str) -> DType:
    found = dtypes.from_number(number)
    if found is None:
        given = "no data type" if number == 0 else f"data type number {number}"
        _refuse(f"{parameter} has {given}; known are 1 to {len(dtypes.ALL)}", parameter, operator)
    return found


def _format(number: int, parameter: str, operator: str) -> formats.Format:
    found = formats.from_number(number)
    if found is None:
        _refuse(
            f"{parameter} has format number {number}; known are 0 to {len(formats.ALL)}",
            parameter,
            operator,
        )
    return found


def _decode_scalar(message: pb.Scalar, parameter: str, operator: str) -> Scalar:
    dtype = _data_type(message.data_type, parameter, operator)
    if dtype.numpy is None:
        _refuse(f"{parameter} is of {dtype}, of which no scalar can be served", parameter, operator)
    if len(message.value) != dtype.numpy.itemsize:
        _refuse(
            f"{parameter} has {len(message.value)} bytes; a scalar of {dtype} has {dtype.numpy.itemsize}",
            parameter,
            operator,
        )
    return Scalar.from_bytes(message.value, dtype)


def _decode_int8(argument: pb.Argument, parameter: str, operator: str) -> int:
    value = argument.int8_value
    if not -128 <= value <= 127:
        _refuse(f"{parameter} is {value}; int8_t holds -128 to 127", parameter, operator)
    return value


_BY_KIND: dict[Kind, Callable[[pb.Argument, str, str], Any]] = {
    Kind.TENSOR: lambda a, p, o: decode_tensor(a.tensor, p, o),
    Kind.TENSOR_LIST: lambda a, p, o: tuple(
        decode_tensor(tensor, f"{p}[{index}]", o)
        for index, tensor in enumerate(a.tensor_list.tensors)
    ),
    Kind.SCALAR: lambda a, p, o: _decode_scalar(a.scalar, p, o),
    Kind.SCALAR_LIST: lambda a, p, o: tuple(
        _decode_scalar(scalar, f"{p}[{index}]", o)
        for index, scalar in enumerate(a.scalar_list.scalars)
    ),
    Kind.INT_ARRAY: lambda a, p, o: tuple(a.int_array.values),
    Kind.FLOAT_ARRAY: lambda a, p, o: tuple(a.float_array.values),
    Kind.BOOL_ARRAY: lambda a, p, o: tuple(a.bool_array.values),
    Kind.TEXT: lambda a, p, o: a.text,
    Kind.INT64: lambda a, p, o: a.int64_value,
    Kind.INT32: lambda a, p, o: a.int32_value,
    Kind.INT8: _decode_int8,
    Kind.UINT64: lambda a, p, o: a.uint64_value,
    Kind.BOOL: lambda a, p, o: a.bool_value,
    Kind.DOUBLE: lambda a, p, o: a.double_value,
    Kind.FLOAT: lambda a, p, o: a.float_value,
    Kind.DATA_TYPE: lambda a, p, o: _data_type(a.data_type, p, o),
}
_DECODERS = {kind: (kind.value, decoder) for kind, decoder in _BY_KIND.items()}
"""Name of the field in ``Argument``, and its decoder."""


def _refuse(detail: str, parameter: str, operator: str) -> NoReturn:
    raise InvalidParameterError(detail, operator=operator, parameter=parameter)


def _short(value: Any) -> str:  # noqa: ANN401
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
