"""What holds for the definition of each operator: header, documentation, checks, client."""

from __future__ import annotations

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.signatures import Kind, parse
from aclnn.tensors import TensorSpec
from aclnn_client import ops
from aclnn_server.operators.catalogue import built_in, operators
from aclnn_server.operators.definition import Operator
from tests.operators.calling import load_json
from tests.operators.samples import sample

EVERY = pytest.mark.parametrize("operator", built_in().values(), ids=lambda op: op.name)


def test_catalogue_is_in_order_of_names() -> None:
    assert list(operators()) == sorted(operators())
    assert all(name == operator.name for name, operator in operators().items())


@EVERY
def test_types_are_those_of_the_vendors_header(operator: Operator) -> None:
    expected = load_json("header_types.json")[operator.name]
    assert [row.c_type for row in operator.signature.parameters] == expected


@EVERY
def test_says_what_it_does_and_where_that_is_from(operator: Operator) -> None:
    assert operator.summary.endswith(".")
    assert "Source: " in operator.description


@EVERY
def test_checks_cover_every_tensor(operator: Operator) -> None:
    first = operator.checks[0]
    # A few of the vendor's report a null pointer as an internal one.
    assert first.code in (161001, 561103)
    rules = " ".join(check.rule for check in operator.checks if check.code == first.code)
    tensors = [row for row in operator.signature.parameters if row.kind is Kind.TENSOR]
    for row in tensors:
        assert row.optional or row.name in rules
    assert all(check.rule and check.code for check in operator.checks)


@EVERY
def test_checks_name_parameters_that_exist(operator: Operator) -> None:
    names = {row.name for row in operator.signature.parameters}
    for check in operator.checks:
        named = {
            *getattr(check, "names", ()),
            getattr(check, "name", None),
            getattr(check, "to", None),
        }
        assert named - {None, ""} <= names


@EVERY
def test_client_has_it_as_it_is_here(operator: Operator) -> None:
    text, outputs, optional = ops.SIGNATURES[operator.name]
    shaped = ops.SHAPED_BY_DATA.get(operator.name, ())
    found = parse(text, outputs=outputs, optional=optional, shaped_by_data=shaped)
    assert found == operator.signature
    assert callable(getattr(ops, operator.name))
    if operator.python:
        assert ops.PYTHONIC[operator.python.name] == operator.python


@EVERY
def test_one_line_form_describes_results_that_pass_the_checks(operator: Operator) -> None:
    form = operator.python
    if form is None:
        pytest.skip("no one-line form")
    made = sample(operator, (2, 3), dtypes.FLOAT)
    given = (made.values[name] for name in form.inputs)
    arrays = [item for value in given for item in (value if isinstance(value, list) else [value])]
    specs = [TensorSpec.contiguous(array.shape, dtypes.dtype(array.dtype)) for array in arrays]
    attributes = {name: made.values[name] for name in form.attributes}
    for name, spec in zip(form.outputs, form.results(specs, attributes), strict=True):
        made.values[name] = np.full(spec.shape, 7, spec.dtype.numpy)
    made.run()
