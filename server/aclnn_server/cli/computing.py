"""One operator computed on a server, with arguments that the command line gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aclnn.signatures import Signature
from aclnn_client import Context, Tensor
from aclnn_client.two_phase import execute, get_workspace_size
from aclnn_server.cli.values import Array, Output


@dataclass(frozen=True, slots=True)
class Result:
    """One output."""

    name: str
    """Its parameter; of a list with the position."""
    output: Output
    array: Array


def compute(context: Context, signature: Signature, arguments: Sequence[Any]) -> list[Result]:
    """Runs both phases and downloads the outputs.

    Args:
        context: on the server.
        signature: of the operator.
        arguments: in the prototype's order, as :func:`aclnn_server.cli.call.read_arguments` gives them.

    Raises:
        AclnnError: the operator refused them, or failed.
    """
    sent = [_send(context, argument) for argument in arguments]
    size, executor = get_workspace_size(signature.name, sent, context=context)
    execute(signature.name, context.malloc(size), size, executor)
    context.synchronize()
    return list(_download(signature, arguments, sent))


def _send(context: Context, argument: Any) -> Any:  # noqa: ANN401 - by kind of parameter
    """The argument with its arrays on the device."""
    if isinstance(argument, Output):
        return context.tensor(argument.initial)
    if isinstance(argument, np.ndarray):
        return context.tensor(argument)
    if isinstance(argument, tuple):
        return tuple(_send(context, element) for element in argument)
    return argument


def _download(
    signature: Signature, arguments: Sequence[Any], sent: Sequence[Any]
) -> Iterator[Result]:
    for parameter, argument, tensor in zip(signature.parameters, arguments, sent, strict=True):
        if not parameter.output or argument is None:
            continue
        if not isinstance(argument, tuple):
            yield Result(parameter.name, argument, tensor.numpy())
            continue
        pairs: Iterator[tuple[Output, Tensor]] = zip(argument, tensor, strict=True)
        for index, (output, element) in enumerate(pairs):
            yield Result(f"{parameter.name}[{index}]", output, element.numpy())
