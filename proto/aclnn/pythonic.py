"""How an operator looks when Python calls it in one line, with the results made for the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aclnn import dtypes, moved_shapes, reduced_shapes
from aclnn.dtypes import DType
from aclnn.errors import InvalidParameterError, UnsupportedError
from aclnn.promotion import promote, promote_float, promote_scalar
from aclnn.tensors import Scalar, TensorSpec

REDUCTIONS: Mapping[str, int] = {"none": 0, "mean": 1, "sum": 2}
"""Names of a loss's reductions and their numbers."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a result follows from the inputs."""

    shape: str = "broadcast"
    """``"broadcast"`` of the inputs; ``"reduced"`` is the same for reduction 0 and ``()`` otherwise; or a
    key of :data:`aclnn.moved_shapes.SHAPES` or :data:`aclnn.reduced_shapes.SHAPES`."""
    dtype: str = "promoted"
    """``"promoted"``: the type in which the inputs meet, so that nothing is rounded twice;
    ``"floating"`` is the same with FLOAT for integers and BOOL; ``"bool"``; ``"first"``: that of the first
    input; ``"given"``: the attribute `dtype`, or that of the first input if it is ``None``;
    ``"index"``: INT64; ``"single"``: FLOAT; ``"range"``: FLOAT or INT64, as the attributes are."""
    scalars: tuple[str, ...] = ()
    """Attributes that the inputs meet with, as aclScalars."""


@dataclass(frozen=True, slots=True)
class Pythonic:
    """The Python form of an operator: ``name(*inputs, *attributes) -> outputs``."""

    name: str
    """Name in Python, for example ``"smooth_l1_loss"``."""
    operator: str
    """C name, with the aclnn prefix."""
    inputs: tuple[str, ...]
    """Tensors to give, in order."""
    attributes: Mapping[str, object]
    """Further parameters in order, each with its default."""
    outputs: Mapping[str, Result]
    """Results in order."""
    choices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Names that an attribute may be given by, and the numbers that they stand for."""

    def number(self, attribute: str, value: object) -> object:
        """Translates the name of a choice to its number; anything else is passed through.

        Raises:
            InvalidParameterError: 161002, a text that names no choice.
        """
        choices = self.choices.get(attribute)
        if choices is None or not isinstance(value, str):
            return value
        if value not in choices:
            raise InvalidParameterError(
                f"{attribute} is {value!r}; allowed are {', '.join(map(repr, choices))}",
                operator=self.operator,
                parameter=attribute,
            )
        return choices[value]

    def results(
        self, inputs: Sequence[TensorSpec], attributes: Mapping[str, object]
    ) -> tuple[TensorSpec, ...]:
        """Describes the results of a call, contiguous.

        Args:
            inputs: the tensors in the order of :attr:`inputs`.
            attributes: value of each attribute, as a number.

        Raises:
            InvalidParameterError: 161002, the inputs do not fit each other.
            UnsupportedError: 207000, a later version's server told a rule that is not known here.
        """
        return tuple(
            TensorSpec.contiguous(
                self._shape(rule, inputs, attributes), self._dtype(rule, inputs, attributes)
            )
            for rule in self.outputs.values()
        )

    def _shape(
        self, rule: Result, inputs: Sequence[TensorSpec], attributes: Mapping[str, object]
    ) -> tuple[int, ...]:
        if rule.shape in _SHAPES:
            return _SHAPES[rule.shape](self, inputs, attributes)
        rules = moved_shapes.SHAPES | reduced_shapes.SHAPES
        if rule.shape not in rules:
            raise self._unknown(rule.shape)
        try:
            return rules[rule.shape](inputs, attributes)
        except (IndexError, TypeError, ValueError, ZeroDivisionError) as error:
            given = ", ".join(f"{name} = {value!r}" for name, value in attributes.items())
            shapes = _list(list(spec.shape) for spec in inputs)
            raise InvalidParameterError(
                f"{given} does not fit the shapes {shapes} of {_list(self.inputs)}: {error}",
                operator=self.operator,
            ) from None

    def _dtype(
        self, rule: Result, inputs: Sequence[TensorSpec], attributes: Mapping[str, object]
    ) -> DType:
        match rule.dtype:
            case "first":
                return inputs[0].dtype
            case "given":
                given = attributes["dtype"]
                return inputs[0].dtype if given is None else dtypes.dtype(given)
            case "index":
                return dtypes.INT64
            case "single":
                return dtypes.FLOAT
            case "range":
                bounds = [_scalar_type(value) for value in attributes.values()]
                return dtypes.FLOAT if any(row.kind == "float" for row in bounds) else dtypes.INT64
        if rule.dtype not in _DTYPES:
            raise self._unknown(rule.dtype)
        return _DTYPES[rule.dtype](self._meeting(inputs, attributes, rule.scalars))

    def _unknown(self, rule: str) -> UnsupportedError:
        """The error of a rule that only a later version, which the server may be of, knows."""
        return UnsupportedError(
            f"its result follows the rule {rule!r}, which this version does not know",
            operator=self.operator,
        )

    def _meeting(
        self, inputs: Sequence[TensorSpec], attributes: Mapping[str, object], scalars: Sequence[str]
    ) -> DType:
        found = promote(*(spec.dtype for spec in inputs))
        for name in scalars:
            if found is not None and attributes[name] is not None:
                found = promote_scalar(found, _scalar_type(attributes[name]))
        if found is None:
            raise InvalidParameterError(
                f"{_list(self.inputs)} have the types {_list(spec.dtype for spec in inputs)}, "
                "which meet in none",
                operator=self.operator,
            )
        return found

    def _broadcast(
        self, inputs: Sequence[TensorSpec], attributes: Mapping[str, object]
    ) -> tuple[int, ...]:
        shape: tuple[int, ...] = ()
        for name, spec in zip(self.inputs, inputs, strict=True):
            try:
                shape = np.broadcast_shapes(shape, spec.shape)
            except ValueError:
                shapes = _list(list(spec.shape) for spec in inputs)
                raise InvalidParameterError(
                    f"{_list(self.inputs)} have the shapes {shapes}, which do not broadcast together",
                    operator=self.operator,
                    parameter=name,
                ) from None
        return shape

    def _reduced(
        self, inputs: Sequence[TensorSpec], attributes: Mapping[str, object]
    ) -> tuple[int, ...]:
        return self._broadcast(inputs, attributes) if attributes["reduction"] == 0 else ()


def _scalar_type(value: object) -> DType:
    """Element type of what Python gives for an aclScalar."""
    if isinstance(value, Scalar):
        return value.dtype
    if isinstance(value, np.generic):
        return dtypes.dtype(value.dtype)
    kinds = ((bool, dtypes.BOOL), (int, dtypes.INT64), (float, dtypes.FLOAT))
    return next((dtype for kind, dtype in kinds if isinstance(value, kind)), dtypes.COMPLEX64)


def _list(items: object) -> str:
    return ", ".join(map(str, items))  # type: ignore[call-overload]


_SHAPES: Mapping[
    str, Callable[[Pythonic, Sequence[TensorSpec], Mapping[str, object]], tuple[int, ...]]
] = {"broadcast": Pythonic._broadcast, "reduced": Pythonic._reduced}
_DTYPES: Mapping[str, Callable[[DType], DType]] = {
    "promoted": lambda meeting: meeting,
    "floating": promote_float,
    "bool": lambda _meeting: dtypes.BOOL,
}
