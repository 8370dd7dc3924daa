"""One-line calls on small arrays, which travel inside of the call: one request and its answer.

Most of such a request follows from dtypes, shapes and attributes. It is made once and kept as a template,
into which a call puts nothing but its bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aclnn import wire
from aclnn.arguments import TensorArgument
from aclnn.errors import AclnnError
from aclnn.pythonic import Pythonic
from aclnn.signatures import Signature
from aclnn.tensors import TensorSpec, little_endian, pack
from aclnn.v1 import operator_service_pb2 as pb
from aclnn.v1 import tensor_pb2
from aclnn_client.arrays import Array, data_type
from aclnn_client.context import AnyContext
from aclnn_client.pending import CONTEXT
from aclnn_client.phases import (
    BothPhases,
    argument_field,
    executor_field,
    on_stream,
    phase_two,
)
from aclnn_client.plans import CAPACITY
from aclnn_client.stream import AnyStream
from aclnn_client.tracing import Followed, follow
from aclnn_client.values import encode, in_order, results_of, written


@dataclass(frozen=True, slots=True)
class Template:
    """A call that lacks only the bytes of its inputs."""

    operator: str
    """C name."""
    segments: tuple[bytes, ...]
    """The request of phase one without its executor_id, cut where the inputs' bytes belong."""
    inputs: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]

    @property
    def traffic(self) -> int:
        """Bytes of all arrays."""
        return sum(spec.storage_bytes for spec in self.inputs) + self.answer_bytes

    @property
    def answer_bytes(self) -> int:
        """Bytes of the results."""
        return sum(spec.storage_bytes for spec in self.results)


@dataclass(frozen=True, slots=True)
class _Key:
    """What calls have in common that share a template."""

    identity: int
    """Of the signature, which the key keeps alive."""
    arrays: tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]
    written: str
    """The attributes as text: unlike the values, it tells 1 from 1.0 and 0.0 from -0.0."""
    signature: Signature = field(compare=False)
    form: Pythonic = field(compare=False)
    attributes: dict[str, object] = field(compare=False)


def template(
    form: Pythonic,
    signature: Signature,
    arrays: Sequence[Array],
    attributes: dict[str, object],
) -> Template:
    """Finds or makes the template of a call.

    Raises:
        InvalidParameterError: 161002, the arguments do not fit the operator.
    """
    described = tuple((array.dtype, array.shape) for array in arrays)
    text = written(tuple(attributes.values()))
    key = _Key(id(signature), described, text or "", signature, form, attributes)
    return _template.__wrapped__(key) if text is None else _template(key)


@functools.lru_cache(CAPACITY)
def _template(key: _Key) -> Template:
    form = key.form
    signature = key.signature
    inputs = tuple(TensorSpec.contiguous(shape, data_type(dtype)) for dtype, shape in key.arrays)
    results = results_of(form, inputs, key.attributes)
    values = in_order(
        form,
        signature,
        [TensorArgument(spec) for spec in inputs],
        key.attributes,
        [TensorArgument(spec) for spec in results],
    )
    encoded = encode(signature, values).arguments
    sizes = {
        signature.index(name): spec.storage_bytes
        for name, spec in zip(form.inputs, inputs, strict=True)
    }
    return Template(form.operator, _segments(form.operator, encoded, sizes), inputs, results)


def _segments(
    operator: str, encoded: Sequence[bytes], sizes: Mapping[int, int]
) -> tuple[bytes, ...]:
    """Encodes a request and cuts it behind the head of each inline tensor's data.

    Args:
        operator: C name.
        encoded: the arguments, in order; inline tensors without their data.
        sizes: bytes of the data of each inline tensor, by position.
    """
    segments = []
    segment = pb.GetWorkspaceSizeRequest(operator=operator).SerializeToString()
    for position, argument in enumerate(encoded):
        size = sizes.get(position, 0)
        segment += _with_data(argument, size) if size else argument
        if position in sizes:
            segments.append(segment)
            segment = b""
    return *segments, segment


def _with_data(argument: bytes, size: int) -> bytes:
    """The argument of an inline tensor, up to where the `size` bytes of its data follow."""
    request = pb.GetWorkspaceSizeRequest.FromString(argument)
    body = request.arguments[0].tensor.SerializeToString()
    body += wire.field_head(tensor_pb2.Tensor, "data", size)
    body = wire.field_head(tensor_pb2.Argument, "tensor", len(body) + size) + body
    return argument_field(body, size)


async def call_inline(
    context: AnyContext[Any, Any, Any, Any],
    template: Template,
    arrays: Sequence[Array],
    stream: AnyStream,
) -> list[Array]:
    """Makes the call: both phases in one request, and the results in its answer.

    Raises:
        AclnnError: what the first phase that failed did.
    """
    with follow(template.operator) as followed:
        return await _called(context, template, arrays, stream, followed)


async def _called(
    context: AnyContext[Any, Any, Any, Any],
    template: Template,
    arrays: Sequence[Array],
    stream: AnyStream,
    followed: Followed,
) -> list[Array]:
    commands = context.commands
    executor_id = commands.next_id()
    planned = _filled(template, arrays, executor_id)
    request = phase_two(
        on_stream(stream.stream_id, stream.report_timing), executor_id, asynchronous=False
    )
    call = BothPhases(
        [*planned, *followed.phase_one],
        [*request, *followed.phase_two],
        answer_bytes=template.answer_bytes,
    )
    commands.submit(call, hold=commands.blocking)
    try:
        answer = await call
    except AclnnError as error:
        raise (commands.failures.take(CONTEXT) or error) from None
    stream.note_timing(answer)
    return [
        _array(output.tensor.data, spec)
        for output, spec in zip(answer.outputs, template.results, strict=True)
    ]


def _filled(template: Template, arrays: Sequence[Array], executor_id: int) -> list[bytes]:
    parts = [executor_field(executor_id), template.segments[0]]
    for spec, array, segment in zip(template.inputs, arrays, template.segments[1:], strict=True):
        parts += _bytes(array, spec), segment
    return parts


def _bytes(array: Array, spec: TensorSpec) -> bytes:
    stored = pack(array, spec.dtype) if spec.dtype.packed else little_endian(array)
    return stored.tobytes()


def _array(data: bytes, spec: TensorSpec) -> Array:
    array: Array = np.frombuffer(data, spec.numpy_dtype()).reshape(spec.shape).copy()
    return array
