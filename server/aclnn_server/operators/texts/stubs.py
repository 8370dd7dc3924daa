"""Text of a module with typed functions of operators that the client package does not know."""

from __future__ import annotations

from collections.abc import Sequence

from aclnn.pythonic import Pythonic
from aclnn_server.operators.texts.typed_functions import Described, names_used, pair, python_type

_HEADER = '''"""Typed functions of operators that the server at {address} has, and aclnn_client has not.

Written by ``aclnn-serve stubs {address}``. Each operator has the pair of functions that
``aclnn_client.ops`` has of others and, where it has a one-line form, that one with a context as its first
argument.
"""

from __future__ import annotations
{imports}
from typing import TYPE_CHECKING, Any

from aclnn_client.two_phase import execute, get_workspace_size

if TYPE_CHECKING:
    from aclnn_client.two_phase import {names}

'''


def module(address: str, operators: Sequence[Described]) -> str:
    """The whole module.

    Args:
        address: of the server, for the text.
        operators: what to write functions of.
    """
    functions = "\n\n".join(text for operator in operators for text in _functions(operator))
    names = sorted(["Buffer", "Context", "Executor", "Stream", *names_used(functions)])
    imports = "\nfrom collections.abc import Sequence" if "Sequence[" in functions else ""
    return (
        _HEADER.format(address=address, imports=imports, names=", ".join(names)) + "\n" + functions
    )


def _functions(operator: Described) -> list[str]:
    form = operator.python
    return [pair(operator), *([_one_line(operator, form)] if form is not None else [])]


def _one_line(operator: Described, form: Pythonic) -> str:
    parameters = {row.name: row for row in operator.signature.parameters}
    arguments = [f"{name}: {python_type(parameters[name])}" for name in form.inputs]
    for name, default in form.attributes.items():
        kind = python_type(parameters[name]) + (" | str" if name in form.choices else "")
        optional = " | None" if default is None and not kind.endswith("None") else ""
        arguments.append(f"{name}: {kind}{optional} = {_literal(default)}")
    lines = "".join(f"    {argument},\n" for argument in ("context: Context", *arguments))
    given = ", ".join([*form.inputs, *form.attributes])
    return f'''def {form.name}(
{lines}    *,
    stream: Stream | None = None,
) -> Any:
    """{operator.summary} By {operator.name}, in one line: arrays in, array out."""
    return context.ops.{form.name}({given}, stream=stream)
'''


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
