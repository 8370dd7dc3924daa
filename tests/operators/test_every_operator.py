"""What holds for each operator of the catalogue."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.signatures import Kind, parse
from aclnn.tensors import TensorSpec
from aclnn_client import ops
from aclnn_server.operators.catalogue import operators
from aclnn_server.operators.definition import Operator
from tests.operators.calling import call, load_json

EVERY = pytest.mark.parametrize("operator", operators().values(), ids=lambda op: op.name)
SHAPES = [(3,), (2, 3), (), (0, 3)]


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
    assert first.code == 161001
    tensors = [row for row in operator.signature.parameters if row.kind is Kind.TENSOR]
    for row in tensors:
        assert row.optional or row.name in first.rule
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
    assert parse(text, outputs=outputs, optional=optional) == operator.signature
    assert callable(getattr(ops, operator.name))
    if operator.python:
        assert ops.PYTHONIC[operator.python.name] == operator.python


@EVERY
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_line_form_describes_results_that_pass_the_checks(
    operator: Operator, shape: tuple[int, ...]
) -> None:
    form = operator.python
    if form is None:
        pytest.skip("no one-line form")
    arrays = [np.ones(shape, np.float32) for _ in form.inputs]
    specs = [TensorSpec.contiguous(shape, dtypes.FLOAT) for _ in form.inputs]
    attributes = {name: form.number(name, value) for name, value in form.attributes.items()}
    results = [np.full(spec.shape, 7, spec.dtype.numpy) for spec in form.results(specs, attributes)]
    values = dict(zip(form.inputs, arrays, strict=True)) | attributes
    values |= dict(zip(form.outputs, results, strict=True))
    call(operator.name, *(values[row.name] for row in operator.signature.parameters))
    assert all(math.prod(shape) == 0 or (result != 7).all() for result in results)
