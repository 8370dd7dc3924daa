"""The one-line form of an operator as text, in which a server's catalogue tells it.

The text is a JSON object with the fields of :class:`~aclnn.pythonic.Pythonic`; what a later version adds
to it, an earlier one ignores.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from aclnn.pythonic import Pythonic, Result

_RESULT = {row.name for row in fields(Result)}


def encode(form: Pythonic) -> str:
    """Writes a form as text; its operator's name stands beside it in the catalogue."""
    return json.dumps(
        {
            "name": form.name,
            "inputs": form.inputs,
            "attributes": dict(form.attributes),
            "outputs": {name: asdict(rule) for name, rule in form.outputs.items()},
            "choices": {name: dict(rows) for name, rows in form.choices.items()},
        }
    )


def decode(text: str, operator: str) -> Pythonic | None:
    """Reads the form of an operator; ``None`` where the text is empty, or no form that can be used.

    Args:
        text: what :func:`encode` wrote.
        operator: C name, with the aclnn prefix.
    """
    try:
        row = json.loads(text)
        return Pythonic(
            str(row["name"]),
            operator,
            tuple(row["inputs"]),
            dict(row["attributes"]),
            {name: _result(rule) for name, rule in row["outputs"].items()},
            row.get("choices", {}),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _result(rule: dict[str, Any]) -> Result:
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in rule.items()
        if name in _RESULT
    }
    return Result(**known)
