"""Calls in one line and what the Python client makes of them, for clients in other languages to do the same.

    python -m tests.conformance.one_lines ADDRESS

Prints a line of JSON per call: the form's name, inputs, attributes and results, or the code
with which it was refused. An array is its element type,
shape and bytes in hexadecimal; a scalar is its value and type.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import numpy as np

from aclnn import dtypes
from aclnn.pythonic import Pythonic
from aclnn.tensors import Scalar
from aclnn_client import AclnnError, Context, connect
from aclnn_client.ops import PYTHONIC
from tests.conformance.golden import golden_cases

CASES_OF_EACH = 3


def main(address: str) -> None:
    """Makes the calls."""
    forms = {form.operator: form for form in PYTHONIC.values()}
    seen: Counter[str] = Counter()
    with connect(address) as context:
        for case in golden_cases():
            form = forms.get(case.operator)
            if form is None or seen[form.name] == CASES_OF_EACH:
                continue
            if any(case.inputs.get(name) is None for name in form.inputs):
                continue
            seen[form.name] += 1
            inputs = [case.inputs[name] for name in form.inputs]
            given = {name: case.inputs[name] for name in form.attributes if name in case.inputs}
            # With the attributes' defaults too, whether they fit or not.
            for attributes in (given, {}) if given and seen[form.name] == 1 else (given,):
                print(json.dumps(_called(context, form, inputs, attributes)))


def _called(
    context: Context, form: Pythonic, inputs: list[Any], attributes: dict[str, Any]
) -> dict[str, Any]:
    call = {
        "name": form.name,
        "inputs": [_told(value) for value in inputs],
        "attributes": {name: _told(value) for name, value in attributes.items()},
    }
    try:
        results = getattr(context.ops, form.name)(*inputs, **attributes)
    except AclnnError as error:
        return {**call, "refused": error.code}
    return {**call, "results": [_told(row) for row in _listed(results)]}


def _listed(results: Any) -> list[Any]:  # noqa: ANN401
    return list(results) if isinstance(results, tuple) else [results]


def _told(value: Any) -> Any:  # noqa: ANN401 - as JSON has it
    if isinstance(value, np.ndarray):
        dtype = dtypes.dtype(value.dtype).name
        return {"dtype": dtype, "shape": list(value.shape), "hex": value.tobytes().hex()}
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [_told(item) for item in value]
    if isinstance(value, Scalar):
        return {"scalar": value.value, "dtype": value.dtype.name}
    if isinstance(value, dtypes.DType):
        return value.name
    return value


if __name__ == "__main__":
    main(sys.argv[1])
