"""Says of a refused call which check failed, where it can be known.

CANN tells a code and, with luck, a line of its own sources. The catalogue has the same checks in the same
order, so the first of them that fails with the same code says what it was, of which parameter, and the value;
that a view stays inside its storage can be checked for every operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aclnn import codes
from aclnn.errors import AclnnError
from aclnn.signatures import Signature
from aclnn.tensors import TensorSpec
from aclnn_server.backends.base import Value
from aclnn_server.operators.catalogue import operators
from aclnn_server.operators.definition import Call
from aclnn_server.operators.products import Product

EXPLAINED = (
    codes.ACLNN_ERR_PARAM_NULLPTR,
    codes.ACLNN_ERR_PARAM_INVALID,
    codes.ACLNN_ERR_INNER_NULLPTR,
)
"""Codes of refusals that checks can explain."""


def explained(
    error: AclnnError, signature: Signature, arguments: Sequence[Value], product: Product
) -> AclnnError:
    """The error with the reason in front, if it can be found; else the error itself.

    Args:
        error: what phase one was refused with.
        signature: of the operator.
        arguments: of the call.
        product: kind of chip.
    """
    if error.parameter or error.code not in EXPLAINED:
        return error
    for reason in _refusals(signature, arguments, product):
        if reason.code == error.code:
            return _joined(reason, error)
    return error


def _refusals(
    signature: Signature, arguments: Sequence[Value], product: Product
) -> Iterator[AclnnError]:
    """What the catalogue's first check that fails says, and of each view that leaves its storage."""
    definition = operators().get(signature.name)
    if definition is not None and len(definition.signature.parameters) == len(arguments):
        call = Call(definition.signature, arguments, product)
        try:
            for check in definition.checks:
                check(call)
        except AclnnError as reason:
            yield reason
    for parameter, value in zip(signature.parameters, arguments, strict=False):
        for spec in value if isinstance(value, tuple) else (value,):
            try:
                if isinstance(spec, TensorSpec):
                    spec.check_reach(operator=signature.name, parameter=parameter.name)
            except AclnnError as reason:
                yield reason


def _joined(reason: AclnnError, error: AclnnError) -> AclnnError:
    detail = reason.message.removeprefix(f"{reason.operator}: ")
    told = error.message.removeprefix(f"{error.operator}: ")
    return type(error)(
        f"{detail}; {told}",
        operator=reason.operator,
        parameter=reason.parameter,
        code=error.code,
    )
