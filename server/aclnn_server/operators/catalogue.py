"""The catalogue: every operator that is defined, by C name.

Besides this package's own there are those of installed plug-ins: packages with an entry point in the
group ``aclnn_serve.operators`` that names a :class:`~aclnn_server.operators.definition.Family`::

    [project.entry-points."aclnn_serve.operators"]
    example = "example_operators:FAMILY"
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from aclnn.errors import OperatorNotFoundError
from aclnn_server.operators.definition import Family, Operator

PLUG_INS = "aclnn_serve.operators"
"""Group of the entry points."""

FAMILIES = (
    "losses.losses:LOSSES",
    "losses.more_losses:MORE_LOSSES",
    "losses.summed_losses:SUMMED_LOSSES",
    "losses.nll_loss:NLL_LOSS",
    "elementwise.arithmetic:ARITHMETIC",
    "elementwise.arithmetic_forms:ARITHMETIC_FORMS",
    "elementwise.remainders:REMAINDERS",
    "elementwise.bitwise:BITWISE",
    "elementwise.masking:MASKING",
    "elementwise.unary:UNARY",
    "elementwise.activations:ACTIVATIONS",
    "elementwise.further_activations:FURTHER_ACTIVATIONS",
    "elementwise.comparison:COMPARISON",
    "elementwise.more_unary:MORE_UNARY",
    "elementwise.in_place:IN_PLACE",
    "reductions.reductions:REDUCTIONS",
    "reductions.statistics:STATISTICS",
    "reductions.extremes:EXTREMES",
    "reductions.norms:NORMS",
    "networks.softmax:SOFTMAX",
    "networks.matmul:MATMUL",
    "networks.added_products:ADDED_PRODUCTS",
    "networks.normalization:NORMALIZATION",
    "networks.batch_norm:BATCH_NORM",
    "networks.norm_gradients:NORM_GRADIENTS",
    "networks.group_norm:GROUP_NORM",
    "networks.convolution:CONVOLUTION",
    "networks.dropout:DROPOUT",
    "networks.resampling:RESAMPLING",
    "networks.grid_sampling:GRID_SAMPLING",
    "networks.recurrent:RECURRENT",
    "networks.distances:DISTANCES",
    "elementwise.prelu:PRELU",
    "networks.pooling:POOLING",
    "networks.mean_pooling:MEAN_POOLING",
    "networks.attention:ATTENTION",
    "networks.embedding_gradient:EMBEDDING_GRADIENT",
    "training.optimizers:OPTIMIZERS",
    "training.adam_steps:ADAM_STEPS",
    "training.foreach:FOREACH",
    "training.gradient_scaling:GRADIENT_SCALING",
    "elementwise.complex_parts:COMPLEX_PARTS",
    "movement.movement:MOVEMENT",
    "movement.indexing:INDEXING",
    "movement.scattering:SCATTERING",
    "movement.scatter_forms:SCATTER_FORMS",
    "movement.advanced_indexing:ADVANCED_INDEXING",
    "movement.ordering:ORDERING",
    "movement.rearranging:REARRANGING",
    "movement.making:MAKING",
    "reductions.counting:COUNTING",
    "movement.selecting:SELECTING",
    "movement.drawing:DRAWING",
    "movement.joining:JOINING",
    "movement.creation:CREATION",
    "movement.triangles:TRIANGLES",
)
"""This package's own families: module and name."""


class PlugInError(Exception):
    """An installed package's operators cannot be served."""


@cache
def operators() -> Mapping[str, Operator]:
    """Every operator, by C name with the aclnn prefix, in order of names.

    Raises:
        PlugInError: a plug-in cannot be loaded, or defines an operator that there is already.
    """
    found = dict(built_in())
    for entry in sorted(entry_points(group=PLUG_INS), key=lambda entry: entry.name):
        for operator in _load(entry).operators:
            if operator.name in found:
                raise PlugInError(
                    f"{_described(entry)} defines {operator.name}, which there is already"
                )
            found[operator.name] = operator
    return MappingProxyType(dict(sorted(found.items())))


@cache
def built_in() -> Mapping[str, Operator]:
    """The operators of this package, by C name with the aclnn prefix, in order of names."""
    return MappingProxyType(by_name(operator for row in _families() for operator in row.operators))


def by_name(defined: Iterable[Operator]) -> dict[str, Operator]:
    """Sorts operators by name.

    Raises:
        ValueError: two have the same.
    """
    found: dict[str, Operator] = {}
    for operator in defined:
        if operator.name in found:
            raise ValueError(f"{operator.name} is defined twice")
        found[operator.name] = operator
    return dict(sorted(found.items()))


def lookup(name: str) -> Operator:
    """Finds an operator by its C name.

    Raises:
        OperatorNotFoundError: 100024, there is none.
    """
    operator = operators().get(name)
    if operator is None:
        raise OperatorNotFoundError(f"no operator {name!r} is defined", operator=name)
    return operator


def _families() -> Iterator[Family]:
    for row in FAMILIES:
        module, _, name = row.partition(":")
        family: Family = getattr(importlib.import_module(f"{__package__}.{module}"), name)
        yield family


def _load(entry: EntryPoint) -> Family:
    try:
        family = entry.load()
    except Exception as error:
        raise PlugInError(f"{_described(entry)} cannot be loaded: {error}") from error
    if not isinstance(family, Family):
        raise PlugInError(f"{_described(entry)} is a {type(family).__name__}; it must be a Family")
    return family


def _described(entry: EntryPoint) -> str:
    package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    return f"the plug-in {entry.name!r}{package} ({entry.value})"
