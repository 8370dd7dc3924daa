"""The catalogue: every operator that is defined, by C name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from aclnn.errors import OperatorNotFoundError
from aclnn_server.operators.definition import Operator


@cache
def operators() -> Mapping[str, Operator]:
    """Every operator, by C name with the aclnn prefix, in order of names."""
    from aclnn_server.operators.losses import LOSSES

    found: dict[str, Operator] = {}
    for family in (LOSSES,):
        for operator in family.operators:
            if operator.name in found:
                raise ValueError(f"{operator.name} is defined twice")
            found[operator.name] = operator
    return MappingProxyType(dict(sorted(found.items())))


def lookup(name: str) -> Operator:
    """Finds an operator by its C name.

    Raises:
        OperatorNotFoundError: 100024, there is none.
    """
    operator = operators().get(name)
    if operator is None:
        raise OperatorNotFoundError(f"no operator {name!r} is defined", operator=name)
    return operator
