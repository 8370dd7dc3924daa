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
from aclnn.arguments import TensorArgument, encode_tensor
from aclnn.errors import AclnnError
from aclnn.pythonic import Pythonic
from aclnn.signatures import Signature
from aclnn.tensors import TensorSpec, little_endian, pack
from aclnn.v1 import operator_service_pb2 as pb
from aclnn.v1 import tensor_pb2
from aclnn.v1.device_service_pb2 import Result
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
from aclnn_client.tracing import follow
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
    converted: bool
    """Whether the bytes of an input are not those of its array."""
    heads: tuple[bytes, ...]
    """The result of phase two as servers write it, cut where the results' bytes belong."""
    traffic: int
    """Bytes of all arrays."""
    answer_bytes: int
    """Bytes of the results."""

    def fill(self, arrays: Sequence[Array]) -> list[bytes]:
        """The request of phase one but for its executor_id, in parts."""
        if self.converted:
            pairs = zip(arrays, self.inputs, strict=True)
            stored = [_bytes(array, spec) for array, spec in pairs]
        else:
            stored = [array.tobytes() for array in arrays]
        parts = [self.segments[0]]
        for data, segment in zip(stored, self.segments[1:], strict=True):
            parts += data, segment
        return parts

    def read(self, ran: bytes | memoryview) -> list[Array] | None:
        """The results in the result of phase two; ``None`` where it is not written as usual."""
        results: list[Array] = []
        end = 0
        for head, spec in zip(self.heads, self.results, strict=True):
            begin = end + len(head)
            if ran[end:begin] != head:
                return None
            end = begin + spec.storage_bytes
            results.append(_array(ran[begin:end], spec))
        return results if end == len(ran) else None


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
    answered = sum(spec.storage_bytes for spec in results)
    return Template(
        form.operator,
        _segments(form.operator, encoded, sizes),
        inputs,
        results,
        any(spec.dtype.packed for spec in inputs)
        or any(dtype.byteorder == ">" for dtype, _ in key.arrays),
        _heads([signature.index(name) for name in form.outputs], results),
        sum(spec.storage_bytes for spec in inputs) + answered,
        answered,
    )


def _heads(positions: Sequence[int], specs: Sequence[TensorSpec]) -> tuple[bytes, ...]:
    """What stands before the bytes of each result, in the result of phase two."""
    whole = []
    for position, spec in zip(positions, specs, strict=True):
        tensor = encode_tensor(TensorArgument(spec, bytes(spec.storage_bytes)))
        output = pb.Output(argument=position, tensor=tensor)
        whole.append(pb.ExecuteResponse(outputs=[output]).SerializeToString())
    heads = []
    head = wire.field_head(Result, "execute", sum(map(len, whole)))
    for encoded, spec in zip(whole, specs, strict=True):
        heads.append(head + encoded[: len(encoded) - spec.storage_bytes])
        head = b""
    return tuple(heads)


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


class _Travelling(BothPhases):
    """A call whose arrays travel with it."""

    __slots__ = ("_template", "results")

    def __init__(self, template: Template, plan: list[bytes], run: list[bytes]) -> None:
        super().__init__(plan, run, answer_bytes=template.answer_bytes)
        self._template = template
        self.results: list[Array] | None = None

    def read_run(self, ran: bytes | memoryview) -> None:
        """Takes the arrays out of what is written as usual."""
        self.results = self._template.read(ran)
        if self.results is None:
            super().read_run(ran)


async def call_inline(
    context: AnyContext[Any, Any, Any, Any],
    template: Template,
    arrays: Sequence[Array],
    stream: AnyStream,
) -> Array | tuple[Array, ...]:
    """Makes the call: both phases in one request, and the results in its answer.

    Raises:
        AclnnError: what the first phase that failed did.
    """
    commands = context.commands
    executor_id = commands.next_id()
    plan = [executor_field(executor_id), *template.fill(arrays)]
    run = phase_two(
        on_stream(stream.stream_id, stream.report_timing), executor_id, asynchronous=False
    )
    with follow(template.operator) as followed:
        call = _Travelling(template, [*plan, *followed.phase_one], [*run, *followed.phase_two])
        commands.submit(call, hold=commands.blocking)
        try:
            answer = await call
        except AclnnError as error:
            raise (commands.failures.take(CONTEXT) or error) from None
    results = call.results
    if results is None:
        stream.note_timing(answer)
        pairs = zip(answer.outputs, template.results, strict=True)
        results = [_array(output.tensor.data, spec) for output, spec in pairs]
    return results[0] if len(results) == 1 else tuple(results)


def _bytes(array: Array, spec: TensorSpec) -> bytes:
    stored = pack(array, spec.dtype) if spec.dtype.packed else little_endian(array)
    return stored.tobytes()


def _array(data: bytes | memoryview, spec: TensorSpec) -> Array:
    array: Array = np.frombuffer(data, spec.numpy_dtype()).reshape(spec.shape).copy()
    return array
