"""Says of a refused call which check failed, where the catalogue knows the operator's checks.

CANN tells a code and, with luck, a line of its own sources. The catalogue has the same checks in the same
order, so the first of them that fails with the same code says what it was, of which parameter, and the value.
"""

from __future__ import annotations

from collections.abc import Sequence

from aclnn import codes
from aclnn.errors import AclnnError
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
    error: AclnnError, operator: str, arguments: Sequence[Value], product: Product
) -> AclnnError:
    """The error with the reason in front, if it can be found; else the error itself.

    Args:
        error: what phase one was refused with.
        operator: C name.
        arguments: of the call.
        product: kind of chip.
    """
    definition = operators().get(operator)
    if definition is None or error.parameter or error.code not in EXPLAINED:
        return error
    if len(arguments) != len(definition.signature.parameters):
        return error
    call = Call(definition.signature, arguments, product)
    for check in definition.checks:
        try:
            check(call)
        except AclnnError as reason:
            return _joined(reason, error) if reason.code == error.code else error
    return error


def _joined(reason: AclnnError, error: AclnnError) -> AclnnError:
    detail = reason.message.removeprefix(f"{reason.operator}: ")
    told = error.message.removeprefix(f"{error.operator}: ")
    return type(error)(
        f"{detail}; {told}",
        operator=reason.operator,
        parameter=reason.parameter,
        code=error.code,
    )
