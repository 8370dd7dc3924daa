"""Arguments of a prototype: what callers give, as it travels, and what a plan is remembered by."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from aclnn.arguments import ArgumentValue, TensorArgument
from aclnn.dtypes import BOOL, COMPLEX64, FLOAT, INT64, DType
from aclnn.errors import InvalidParameterError
from aclnn.pythonic import Pythonic
from aclnn.signatures import Kind, Parameter, Signature
from aclnn.tensors import Scalar, TensorSpec, describe
from aclnn_client.arrays import ArrayLike, as_array, tight
from aclnn_client.phases import described, plain_argument
from aclnn_client.tensor import AnyTensor

TensorLike = AnyTensor[Any] | ArrayLike
"""A tensor; for an input also what an array can be made of; ``None`` is a null pointer."""
ScalarLike = Scalar | complex | float | int | bool | np.generic | None
"""A :class:`Scalar`, or a number: INT64 for an int, FLOAT for a float, BOOL for a bool, COMPLEX64 for a
complex, its own dtype for a NumPy scalar. ``None`` is a null pointer."""


Slot = tuple[int, int]
"""Position of a tensor: of its argument, and in the list if that is one."""


Key = tuple[Hashable, ...]
"""What equal calls have in common."""


@dataclass(slots=True)
class Call:
    """The arguments of one call, encoded."""

    signature: Signature
    arguments: list[bytes] = field(default_factory=list)
    """One per parameter, in order, as they stand in a request."""
    key: Key = ()
    plain: bool = False
    """Whether its key is that of :func:`plain_key`."""
    workspace_size: int | None = None
    """Bytes, where an equal call was planned before."""
    tensors: dict[Slot, AnyTensor[Any]] = field(default_factory=dict)
    """Tensors with a buffer."""
    others: dict[Slot, TensorSpec] = field(default_factory=dict)
    """Specs of tensors without a buffer, and of those that a run may give another shape."""
    shaped: tuple[Slot, ...] = ()
    """The outputs that a run gives their shape."""

    @property
    def specs(self) -> dict[Slot, TensorSpec]:
        """Specs of all tensors."""
        return {slot: tensor.spec for slot, tensor in self.tensors.items()} | self.others


_EXACT = (
    bool,
    int,
    float,
    complex,
    str,
    type(None),
    np.generic,
    np.dtype,
    type,
    DType,
    Scalar,
)
PLAIN = frozenset((bool, int, float, str, type(None), DType))
"""Types of values that :func:`told_apart` can tell apart."""


def told_apart(value: object) -> Hashable:
    """What only the same values of a type in :data:`PLAIN` have in common: 0.0 and -0.0 are equal."""
    return value if value or type(value) is not float else str(value)


def written(value: object) -> str | None:
    """A value as text that only equal values have; ``None`` where its text may be shortened.

    Unlike the values, it tells 1 from 1.0 and 0.0 from -0.0.
    """
    if isinstance(value, tuple | list):
        parts = [written(item) for item in value]
        return None if None in parts else f"[{', '.join(map(str, parts))}]"
    return repr(value) if isinstance(value, _EXACT) else None


def plain_key(
    operator: str, values: Sequence[object]
) -> tuple[list[Hashable], list[AnyTensor[Any]]] | None:
    """The key of a call whose arguments are tensors with a buffer, numbers and the like.

    Returns:
        The parts of the key, and the tensors, in order; ``None`` of any other call.
    """
    key: list[Any] = [operator]
    tensors: list[AnyTensor[Any]] = []
    for value in values:
        if isinstance(value, AnyTensor):
            key.append(value.plan_key)
            tensors.append(value)
        elif (kind := type(value)) in PLAIN:
            key.append(kind)
            key.append(told_apart(value))
        elif (text := written(value)) is not None:
            key.append(kind)
            key.append(text)
        else:
            return None
    return key, tensors


def tensors_of(values: Iterable[object]) -> Iterator[AnyTensor[Any]]:
    """The tensors among the arguments of a call, those in lists too."""
    for value in values:
        if isinstance(value, AnyTensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, AnyTensor))


def check_count(signature: Signature, values: Sequence[object]) -> None:
    """Checks that there is one value per parameter.

    Raises:
        InvalidParameterError: 161002, there are more or fewer; the text names the parameters.
    """
    parameters = signature.parameters
    if len(values) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters)
        missing = parameters[len(values)].name if len(values) < len(parameters) else ""
        raise InvalidParameterError(
            f"got {len(values)} arguments; it takes {len(parameters)}: {names}",
            operator=signature.name,
            parameter=missing,
        )


def encode(signature: Signature, values: Sequence[object]) -> Call:
    """Encodes the arguments of a call.

    Args:
        signature: of the operator.
        values: one per parameter, in order: tensors, arrays, numbers, sequences, ``None``.

    Raises:
        InvalidParameterError: 161002, a value does not fit its parameter.
    """
    check_count(signature, values)
    call = Call(signature)
    key: list[Hashable] = [signature.name]
    for position, (parameter, given) in enumerate(zip(signature.parameters, values, strict=True)):
        if isinstance(given, AnyTensor) and parameter.kind is Kind.TENSOR:
            call.tensors[position, 0] = given
            if parameter.shaped_by_data:
                call.others[position, 0] = given.spec
                call.shaped += ((position, 0),)
            call.arguments.append(given.argument)
            key.append(given.plan_key)
            continue
        value = _convert(call, position, parameter, given)
        encoded = plain_argument(parameter, value, signature.name)
        call.arguments.append(encoded)
        key.append((_key(value) if parameter.kind.holds_tensors else encoded,))
    plain = plain_key(signature.name, values)
    call.plain = plain is not None
    call.key = tuple(key if plain is None else plain[0])
    return call


def _convert(call: Call, position: int, parameter: Parameter, given: Any) -> ArgumentValue:  # noqa: ANN401
    if given is None:
        return None
    name = call.signature.name
    match parameter.kind:
        case Kind.TENSOR:
            return _tensor(call, (position, 0), parameter, given)
        case Kind.TENSOR_LIST:
            items = enumerate(_items(parameter, given, name))
            return tuple(_tensor(call, (position, i), parameter, item) for i, item in items)
        case Kind.SCALAR:
            return _scalar(parameter, given, name)
        case Kind.SCALAR_LIST:
            items = enumerate(_items(parameter, given, name))
            return tuple(_scalar(parameter, item, name) for _, item in items)
        case Kind.INT_ARRAY | Kind.FLOAT_ARRAY | Kind.BOOL_ARRAY:
            return _items(parameter, given, name)
    value: ArgumentValue = given
    return value


def _tensor(
    call: Call,
    slot: tuple[int, int],
    parameter: Parameter,
    given: Any,  # noqa: ANN401
) -> TensorArgument:
    if isinstance(given, AnyTensor):
        call.tensors[slot] = given
        return given.as_argument()
    if isinstance(given, TensorArgument):
        call.others[slot] = given.spec
        return given
    operator = call.signature.name
    if given is None or isinstance(given, str):
        _refuse(parameter, f"{given!r}, which is no tensor", operator)
    if parameter.output:
        _refuse(
            parameter,
            f"a {type(given).__name__}; an output must be a tensor of the context, for example "
            "context.empty(shape, dtype)",
            operator,
        )
    spec, storage = describe(tight(as_array(given, parameter=parameter.name)))
    call.others[slot] = spec
    return TensorArgument(spec, storage.tobytes())


def in_order(
    form: Pythonic,
    signature: Signature,
    inputs: Sequence[object],
    attributes: Mapping[str, object],
    outputs: Sequence[TensorArgument | AnyTensor[Any]],
) -> list[object]:
    """The arguments of a one-line call in the order of the prototype.

    An element type that is ``None`` is that of the first output.
    """
    values = {
        **dict(zip(form.inputs, inputs, strict=True)),
        **attributes,
        **dict(zip(form.outputs, outputs, strict=True)),
    }
    for parameter in signature.parameters:
        if parameter.kind is Kind.DATA_TYPE and values[parameter.name] is None:
            values[parameter.name] = outputs[0].spec.dtype
    return [
        values.get(row.name) if row.optional else values[row.name] for row in signature.parameters
    ]


def results_of(
    form: Pythonic, inputs: Sequence[TensorSpec], attributes: Mapping[str, object]
) -> tuple[TensorSpec, ...]:
    """Describes the results of a one-line call.

    Raises:
        InvalidParameterError: 161002, the arguments do not fit each other.
    """
    try:
        return form.results(inputs, attributes)
    except TypeError as error:
        raise InvalidParameterError(str(error), operator=form.operator) from None


def _items(parameter: Parameter, given: Any, operator: str) -> tuple[Any, ...]:  # noqa: ANN401
    if isinstance(given, str | bytes | AnyTensor):
        _refuse(parameter, f"{given!r}, which is no sequence", operator)
    try:
        return tuple(given)
    except TypeError:
        _refuse(parameter, f"{given!r}, which is no sequence", operator)


def _scalar(parameter: Parameter, given: Any, operator: str) -> Scalar:  # noqa: ANN401
    if isinstance(given, Scalar):
        return given
    if isinstance(given, np.generic):
        return Scalar(given.item(), given.dtype)
    dtype = next((dtype for kind, dtype in _SCALARS if isinstance(given, kind)), None)
    if dtype is None:
        _refuse(parameter, f"{given!r}, which is no number or Scalar", operator)
    return Scalar(given, dtype)


_SCALARS: tuple[tuple[type[complex | float | int | bool], DType], ...] = (
    (bool, BOOL),
    (int, INT64),
    (float, FLOAT),
    (complex, COMPLEX64),
)


def _refuse(parameter: Parameter, what: str, operator: str) -> NoReturn:
    raise InvalidParameterError(
        f"{parameter.name} is {what}", operator=operator, parameter=parameter.name
    )


def _key(value: ArgumentValue) -> Hashable:
    if isinstance(value, TensorArgument):
        return described(value.spec), value.buffer_id is not None
    if isinstance(value, tuple):
        return tuple(_key(item) for item in value)
    return value
