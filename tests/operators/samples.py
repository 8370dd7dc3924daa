"""A call of every operator that a suite can make at any shape and element type."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.signatures import Kind, Parameter
from aclnn.tensors import Scalar, TensorSpec
from aclnn_server.backends.base import Device
from aclnn_server.operators.definition import Operator
from tests.operators.calling import Argument, Array, call
from tests.operators.further_samples import FURTHER
from tests.operators.network_samples import NETWORK
from tests.operators.special_samples import SPECIAL, Making, numbers

Shape = tuple[int, ...]
Values = dict[str, Argument]


@dataclass(frozen=True)
class Sample:
    """Arguments of a call by name; outputs are filled with values that no result has."""

    operator: Operator
    values: Values

    @property
    def outputs(self) -> dict[str, Array]:
        """What is written, by name; of a list each tensor, by name and place."""
        found: dict[str, Array] = {}
        for row in self.operator.signature.outputs:
            value = self.values[row.name]
            if isinstance(value, list):
                found |= {f"{row.name}[{place}]": array for place, array in enumerate(value)}
            elif value is not None:
                found[row.name] = value
        return found

    def run(self, on: Device | None = None) -> dict[str, Array]:
        """Makes the call, and gives the outputs."""
        call(self.operator.name, *self.arguments, on=on)
        return self.outputs

    @property
    def arguments(self) -> list[Argument]:
        return [self.values[row.name] for row in self.operator.signature.parameters]

    def with_arrays(self, change: Callable[[Array], Array]) -> Sample:
        """The same call on other arrays."""

        def changed(value: Argument) -> Argument:
            if isinstance(value, list):
                return [change(array) for array in value]
            return change(value) if isinstance(value, np.ndarray) else value

        return Sample(self.operator, {name: changed(row) for name, row in self.values.items()})


def sample(operator: Operator, shape: Shape, dtype: DType) -> Sample:
    """Makes a call whose tensors have a shape and a type; results lie away from steps and poles."""
    # crc32 instead of hash: the same numbers in every process.
    generator = np.random.default_rng(zlib.crc32(operator.name.encode()))
    values: Values = {}
    for row in operator.signature.parameters:
        values[row.name] = _value(operator, row, shape, dtype, generator)
    if special := (SPECIAL | FURTHER | NETWORK).get(operator.name.removeprefix("aclnn")):
        more = special(Making(shape, dtype, generator))
        values |= {name: value for name, value in more.items() if name in values}
    for row in operator.signature.outputs:
        if values[row.name] is None and not row.optional:
            values[row.name] = _output(operator, values, shape, dtype)
    return Sample(operator, values)


def _value(
    operator: Operator, row: Parameter, shape: Shape, dtype: DType, generator: np.random.Generator
) -> Argument:
    if row.kind is Kind.TENSOR:
        in_place = row.name in ("selfRef", "self", "inputRef")
        if row.optional or (row.output and not in_place):
            return None
        if row.name == "condition":
            return numbers(shape, dtypes.BOOL, generator)
        return numbers(shape, _fitting(operator, row.name, dtype), generator)
    if row.kind is Kind.SCALAR:
        return _scalar(dtype)
    return _PLAIN.get(row.kind)


def _scalar(dtype: DType) -> Scalar:
    if dtype.kind == "bool":
        return Scalar(True, "BOOL")
    return Scalar(2, "INT32") if dtype.kind in _WHOLE else Scalar(0.5, "FLOAT")


def _fitting(operator: Operator, name: str, dtype: DType) -> DType:
    allowed = operator.dtypes.get(name, ())
    return dtype if not allowed or dtype in allowed else allowed[0]


def _output(operator: Operator, values: Values, shape: Shape, dtype: DType) -> Array:
    """An output as the one-line form describes it, or like the inputs."""
    form = operator.python
    if form is None:
        assert dtype.numpy is not None
        return np.full(shape, 7, dtype.numpy)
    specs = [_spec(values[name]) for name in form.inputs]
    attributes = {name: values[name] for name in form.attributes}
    (result,) = form.results(specs, attributes)
    return np.full(result.shape, 7, result.dtype.numpy)


def _spec(array: Array) -> TensorSpec:
    return TensorSpec.contiguous(array.shape, dtypes.dtype(array.dtype))


_WHOLE = ("signed", "unsigned", "bool")
_PLAIN: Mapping[Kind, Argument] = {
    Kind.INT64: 0,
    Kind.INT32: 0,
    Kind.INT8: 0,
    Kind.UINT64: 0,
    Kind.BOOL: False,
    Kind.DOUBLE: 1.0,
    Kind.FLOAT: 1.0,
}
