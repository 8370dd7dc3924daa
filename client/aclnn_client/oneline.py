"""Operators in one line: arrays in, array out, one round trip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aclnn.errors import InvalidParameterError
from aclnn.pythonic import Pythonic
from aclnn.signatures import Kind
from aclnn.tensors import TensorSpec
from aclnn_client.arrays import Array, as_array, data_type
from aclnn_client.context import AnyContext
from aclnn_client.executors import plan
from aclnn_client.plans import CAPACITY
from aclnn_client.stream import AnyStream
from aclnn_client.tensor import AnyTensor
from aclnn_client.travelling import Template, call_inline, template
from aclnn_client.two_phase import place
from aclnn_client.values import PLAIN, in_order, results_of, told_apart

_Context = AnyContext[Any, Any, Any, Any]


class Operators:
    """The operators of :data:`aclnn_client.ops.PYTHONIC`, and any more that the server has one-line forms
    of, as functions of a context.

    ``context.ops.smooth_l1_loss_backward(grad, x, target, reduction="mean", beta=1.0)`` takes arrays
    and gives an array. Where an input is a tensor of the context, it gives a tensor, and does not wait
    for the computation.
    """

    def __init__(self, context: _Context) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from aclnn_client.ops import PYTHONIC

        if name.startswith("_"):
            raise AttributeError(name)
        form = PYTHONIC.get(name)
        served = form is None
        function = _served(self._context, name) if form is None else _function(self._context, form)
        if not served or self._context.commands.blocking:
            setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        from aclnn_client.ops import PYTHONIC

        return sorted(PYTHONIC)


def _function(context: _Context, form: Pythonic) -> Callable[..., Any]:
    known: dict[_Key, Template] = {}

    def function(*values: Any, stream: AnyStream | None = None, **named: Any) -> Any:  # noqa: ANN401
        key = None if stream is not None else _key(form, values, named)
        prepared = None if key is None else known.get(key)
        if prepared is not None:
            arrays = values[: len(form.inputs)]
            return context.drive(call_inline(context, prepared, arrays, context.default_stream))
        inputs, attributes = _bind(form, values, named)
        return context.drive(_call(context, form, inputs, attributes, stream, _Known(known, key)))

    names = [*form.inputs, *(f"{name}={value!r}" for name, value in form.attributes.items())]
    function.__name__ = function.__qualname__ = form.name
    function.__doc__ = f"{form.name}({', '.join(names)}, *, stream=None), by {form.operator}."
    return function


_Key = tuple[object, ...]
"""Everything about a call but the elements of its arrays."""


def _key(form: Pythonic, values: Sequence[Any], named: dict[str, Any]) -> _Key | None:
    """The key of a call on arrays that has nothing to look at twice; ``None`` of any other."""
    count = len(form.inputs)
    if len(values) < count:
        return None
    parts: list[object] = []
    for value in values[:count]:
        if type(value) is not np.ndarray:
            return None
        parts += value.dtype, value.shape
    for name, value in (*enumerate(values[count:]), *named.items()):
        kind = type(value)
        if kind not in PLAIN:
            return None
        parts += name, kind, told_apart(value)
    return tuple(parts)


class _Known:
    """Where the template of a call is remembered, so that the next one like it only fills it in."""

    def __init__(self, templates: dict[_Key, Template], key: _Key | None) -> None:
        self._templates = templates
        self._key = key

    def remember(self, prepared: Template) -> None:
        """Remembers it, if the call has a key; when there are too many, all are forgotten."""
        if self._key is not None:
            if len(self._templates) >= CAPACITY:
                self._templates.clear()
            self._templates[self._key] = prepared


def _served(context: _Context, name: str) -> Callable[..., Any]:
    """The function of an operator that only the server knows."""
    if context.commands.blocking:
        return _function(context, context.drive(context.find_form(name)))

    def function(*values: Any, stream: AnyStream | None = None, **named: Any) -> Any:  # noqa: ANN401
        return context.drive(_call_served(context, name, values, named, stream))

    function.__name__ = function.__qualname__ = name
    return function


async def _call_served(
    context: _Context,
    name: str,
    values: Sequence[Any],
    named: dict[str, Any],
    stream: AnyStream | None,
) -> Any:  # noqa: ANN401 - as of _call
    form = await context.find_form(name)
    return await _call(context, form, *_bind(form, values, named), stream, _Known({}, None))


def _bind(
    form: Pythonic, values: Sequence[Any], named: dict[str, Any]
) -> tuple[list[Any], dict[str, object]]:
    """Sorts the arguments of a call by the form's names; attributes as numbers."""
    names = (*form.inputs, *form.attributes)
    if len(values) > len(names):
        raise TypeError(f"{form.name}() takes {len(names)} arguments, and got {len(values)}")
    given = dict(zip(names, values, strict=False))
    for name, value in named.items():
        if name not in names or name in given:
            problem = "got two values for" if name in given else "has no"
            raise TypeError(f"{form.name}() {problem} argument {name!r}")
        given[name] = value
    missing = [name for name in form.inputs if name not in given]
    if missing:
        raise TypeError(f"{form.name}() misses {', '.join(missing)}")
    inputs = [given[name] for name in form.inputs]
    attributes = {
        name: form.number(name, given.get(name, default))
        for name, default in form.attributes.items()
    }
    return inputs, attributes


# --- the three ways that the data can take ----------------------------------------------------------


async def _call(
    context: _Context,
    form: Pythonic,
    given: list[Any],
    attributes: dict[str, object],
    stream: AnyStream | None,
    known: _Known,
) -> Any:  # noqa: ANN401 - one array or tensor, or a tuple of them
    stream = context.default_stream if stream is None else stream
    _check_contexts(context, form, given, stream)
    signature = await context.find_signature(form.operator)
    lists = {row.name for row in signature.parameters if row.kind is Kind.TENSOR_LIST}
    if not lists.isdisjoint(form.inputs):
        return _single(await _listed(context, form, given, attributes, stream, lists))
    arrays = [
        as_array(value, parameter=name)
        for name, value in zip(form.inputs, given, strict=True)
        if not isinstance(value, AnyTensor)
    ]
    if len(arrays) < len(given):
        return _single(await _resident(context, form, given, attributes, stream))
    prepared = template(form, signature, arrays, attributes)
    if prepared.traffic <= context.inline_bytes:
        known.remember(prepared)
        return await call_inline(context, prepared, arrays, stream)
    return _single(await _large(context, form, arrays, attributes, stream))


def _check_contexts(context: _Context, form: Pythonic, given: list[Any], stream: AnyStream) -> None:
    for name, value in zip((*form.inputs, "stream"), (*given, stream), strict=True):
        items = value if isinstance(value, list | tuple) else (value,)
        if any(
            isinstance(item, AnyTensor | AnyStream) and item.context is not context
            for item in items
        ):
            raise InvalidParameterError(
                f"{name} belongs to another context", operator=form.operator, parameter=name
            )


def _single(results: list[Any]) -> Any:  # noqa: ANN401
    return results[0] if len(results) == 1 else tuple(results)


async def _large(
    context: _Context,
    form: Pythonic,
    arrays: list[Array],
    attributes: dict[str, object],
    stream: AnyStream,
) -> list[Array]:
    """Upload, both phases and download in one flight: for large arrays."""
    inputs = await context.present(arrays)
    outputs = await _run(context, form, inputs, attributes, stream, wait=False)
    for tensor in inputs:
        if tensor.buffer.shared is None:  # else others may have it, and it goes with its last view
            tensor.free()
    del inputs
    return await _fetched(outputs, stream)


async def _fetched(outputs: list[AnyTensor[Any]], stream: AnyStream) -> list[Array]:
    """The results of a call as arrays: views of shared memory, or downloads."""
    results = []
    settled = False
    for output in outputs:
        if output.buffer.shared is None or output.spec.dtype.packed:
            results.append(await output.download())
            output.free()
            continue
        if not settled:  # one wait is enough: they are of one call
            await output.buffer.settle()
            settled = True
        results.append(output.view())
    if stream.report_timing:
        await stream.ask_timing()
    return results


async def _resident(
    context: _Context,
    form: Pythonic,
    given: list[Any],
    attributes: dict[str, object],
    stream: AnyStream,
) -> list[AnyTensor[Any]]:
    """Both phases on tensors that stay on the device; a small array goes with the call."""
    pairs = zip(form.inputs, given, strict=True)
    inputs = [await place(context, value, name) for name, value in pairs]
    return await _run(context, form, inputs, attributes, stream, wait=True)


async def _listed(
    context: _Context,
    form: Pythonic,
    given: list[Any],
    attributes: dict[str, object],
    stream: AnyStream,
    lists: set[str],
) -> list[Any]:
    """A call with lists of tensors or arrays: arrays come back where no tensor was given."""
    inputs: list[Any] = []
    resident = False
    for name, value in zip(form.inputs, given, strict=True):
        items = list(value) if name in lists else [value]
        resident = resident or any(isinstance(item, AnyTensor) for item in items)
        placed = [await place(context, item, name) for item in items]
        inputs.append(placed if name in lists else placed[0])
    outputs = await _run(context, form, inputs, attributes, stream, wait=resident)
    if resident:
        return outputs
    return await _fetched(outputs, stream)


async def _run(
    context: _Context,
    form: Pythonic,
    inputs: list[Any],
    attributes: dict[str, object],
    stream: AnyStream,
    *,
    wait: bool,
) -> list[AnyTensor[Any]]:
    flat = [item for value in inputs for item in (value if isinstance(value, list) else [value])]
    specs = [
        value.spec
        if isinstance(value, AnyTensor)
        else TensorSpec.contiguous(value.shape, data_type(value.dtype))
        for value in flat
    ]
    outputs = [
        context.uninitialized(TensorSpec.contiguous(spec.shape, spec.dtype))
        for spec in results_of(form, specs, attributes)
    ]
    signature = await context.find_signature(form.operator)
    values = in_order(form, signature, inputs, attributes, outputs)
    _, executor = await plan(context, context.plans.prepare(signature, values), wait=wait)
    # Who does not wait for the plan asks for the results next: one request, however busy the machine is.
    await executor.execute(stream, hold=not wait and context.commands.blocking)
    return outputs
