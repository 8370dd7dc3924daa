"""How an operator looks when Python calls it in one line, with the results made for the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aclnn.dtypes import DType
from aclnn.errors import InvalidParameterError
from aclnn.promotion import promote
from aclnn.tensors import TensorSpec

REDUCTIONS: Mapping[str, int] = {"none": 0, "mean": 1, "sum": 2}
"""Names of a loss's reductions and their numbers."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a result follows from the inputs."""

    shape: str = "broadcast"
    """``"broadcast"`` of the inputs; ``"reduced"`` is the same for reduction 0 and ``()`` otherwise."""
    dtype: str = "promoted"
    """``"promoted"``: the type in which the inputs meet, so that nothing is rounded twice."""


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
        """
        return tuple(
            TensorSpec.contiguous(
                _SHAPES[rule.shape](self, inputs, attributes), _DTYPES[rule.dtype](self, inputs)
            )
            for rule in self.outputs.values()
        )

    def _promoted(self, inputs: Sequence[TensorSpec]) -> DType:
        found = promote(*(spec.dtype for spec in inputs))
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
        try:
            return np.broadcast_shapes(*(spec.shape for spec in inputs))
        except ValueError:
            shapes = _list(list(spec.shape) for spec in inputs)
            raise InvalidParameterError(
                f"{_list(self.inputs)} have the shapes {shapes}, which do not broadcast together",
                operator=self.operator,
            ) from None

    def _reduced(
        self, inputs: Sequence[TensorSpec], attributes: Mapping[str, object]
    ) -> tuple[int, ...]:
        return self._broadcast(inputs, attributes) if attributes["reduction"] == 0 else ()


def _list(items: object) -> str:
    return ", ".join(map(str, items))  # type: ignore[call-overload]


_SHAPES: Mapping[
    str, Callable[[Pythonic, Sequence[TensorSpec], Mapping[str, object]], tuple[int, ...]]
] = {"broadcast": Pythonic._broadcast, "reduced": Pythonic._reduced}
_DTYPES: Mapping[str, Callable[[Pythonic, Sequence[TensorSpec]], DType]] = {
    "promoted": Pythonic._promoted
}
