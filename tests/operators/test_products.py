"""The rules that --soc selects."""

from __future__ import annotations

import itertools

import pytest

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.errors import InvalidParameterError, UnsupportedError
from aclnn.tensors import TensorSpec
from aclnn_server.backends.numpy import NumpyBackend
from aclnn_server.operators.products import PRODUCTS, product
from tests.operators.calling import BACKWARD, FORWARD, device

WITH_BF16 = ("reference", "ascend950", "ascend910_93", "ascend910b")
WITHOUT_BF16 = ("ascend910", "ascend310p")
FLOATS = (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16)


def _refused(soc: str, types: tuple[DType, ...]) -> str:
    """Parameter that a product refuses, for the types of gradOutput, self, target and gradInput."""
    grad, x, y, out = (TensorSpec.contiguous((2,), dtype) for dtype in types)
    try:
        device(soc=soc).plan(BACKWARD, [grad, x, y, 0, 1.0, out])
    except InvalidParameterError as error:
        return f"{error.parameter} {error.code}"
    return ""


@pytest.mark.parametrize("soc", WITH_BF16)
def test_products_with_bf16_take_every_mixture(soc: str) -> None:
    for types in itertools.product(FLOATS, repeat=4):
        assert _refused(soc, types) == ""


@pytest.mark.parametrize("soc", WITHOUT_BF16)
def test_products_without_bf16_refuse_the_first_parameter_that_has_it(soc: str) -> None:
    names = ("gradOutput", "self", "target", "gradInput")
    for types in itertools.product(FLOATS, repeat=4):
        refused = [name for name, dtype in zip(names, types, strict=True) if dtype is dtypes.BF16]
        assert _refused(soc, types) == (f"{refused[0]} 161002" if refused else "")


@pytest.mark.parametrize("soc", WITHOUT_BF16)
def test_refusal_names_the_product(soc: str) -> None:
    spec = TensorSpec.contiguous((2,), dtypes.BF16)
    with pytest.raises(InvalidParameterError, match=PRODUCTS[soc].title):
        device(soc=soc).plan(FORWARD, [spec, spec, 0, 1.0, spec])


@pytest.mark.parametrize("operator", [BACKWARD, FORWARD])
def test_product_without_the_operator_refuses_it(operator: str) -> None:
    backend = NumpyBackend(threads=1, soc="ascend310b")
    assert "Atlas 200I/500 A2" in backend.operators[operator].refused_because
    with pytest.raises(UnsupportedError, match="not available on Atlas 200I/500 A2") as caught:
        backend.devices[0].plan(operator, [])
    assert caught.value.operator == operator


def test_catalogue_lists_the_types_of_the_product() -> None:
    listed = NumpyBackend(threads=1, soc="ascend910").operators[BACKWARD]
    assert listed.dtypes is not None
    assert listed.dtypes["self"] == (dtypes.FLOAT, dtypes.FLOAT16)
    assert listed.refused_because == ""


def test_names_are_found_in_any_case() -> None:
    assert product("Ascend910B") is PRODUCTS["ascend910b"]


def test_unknown_product_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'ascend9000'.*reference.*ascend310b"):
        NumpyBackend(soc="ascend9000")
