"""Operators that only a server knows, by their names in C: pairs of functions made when asked for.

``ops.aclnnXxxGetWorkspaceSize`` of an operator that this distribution has no function of, a plug-in's or
one that an installed CANN alone has, is made here. The prototype comes from the server at the first call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from aclnn_client.two_phase import execute, get_workspace_size

_NAME = re.compile(r"(aclnn[A-Za-z0-9]\w*?)(GetWorkspaceSize)?")


def function(name: str) -> Callable[..., Any]:
    """Makes phase one or phase two of an operator, by its name in C.

    Phase one takes the arguments of the C prototype, by position or by name, then `repeatable` and
    `context`; see :func:`~aclnn_client.two_phase.get_workspace_size`. Phase two takes workspace,
    workspaceSize, executor and stream.

    Raises:
        AttributeError: it is no such name.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise AttributeError(f"{name!r} is no function of an operator; those begin with aclnn")
    made = _phase_one(found[1]) if found[2] else _phase_two(found[1])
    made.__name__ = made.__qualname__ = name
    return made


def _phase_one(operator: str) -> Callable[..., Any]:
    def phase_one(
        *arguments: Any,  # noqa: ANN401
        repeatable: bool = False,
        context: Any = None,  # noqa: ANN401
        **named: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 - for asyncio an awaitable
        """Phase one: validates the arguments, plans the computation, and sizes the workspace."""
        return get_workspace_size(
            operator, arguments, named=named, repeatable=repeatable, context=context
        )

    return phase_one


def _phase_two(operator: str) -> Callable[..., Any]:
    def phase_two(
        workspace: Any,  # noqa: ANN401
        workspaceSize: int,  # noqa: N803 - the prototype's name
        executor: Any,  # noqa: ANN401
        stream: Any = None,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 - for asyncio an awaitable
        """Phase two: queues the computation on a stream."""
        return execute(operator, workspace, workspaceSize, executor, stream)

    return phase_two
