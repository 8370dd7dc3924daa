"""Phase one: which check fails first, its code, and what its text tells."""

from __future__ import annotations

from typing import Any

import pytest

from aclnn import dtypes, formats
from aclnn.dtypes import DType
from aclnn.errors import AclnnError, InvalidParameterError, OperatorNotFoundError
from aclnn.tensors import TensorSpec
from tests.operators.calling import BACKWARD, FORWARD, Argument, device, parameter_names

SHAPE = (4, 2)
WRONG_TYPE = TensorSpec.contiguous(SHAPE, dtypes.DOUBLE)
NINE = TensorSpec.contiguous((1,) * 7 + SHAPE, dtypes.FLOAT)
EIGHT = TensorSpec.contiguous((1,) * 6 + SHAPE, dtypes.FLOAT)


def tensor(*shape: int, dtype: DType = dtypes.FLOAT) -> TensorSpec:
    return TensorSpec.contiguous(shape, dtype)


def backward(**changed: Argument) -> list[Any]:
    """Arguments of a call that passes, with some changed."""
    good = tensor(*SHAPE)
    values = dict.fromkeys(parameter_names(BACKWARD), good) | {"reduction": 0, "beta": 1.0}
    assert values.keys() >= changed.keys()
    return list((values | changed).values())


def forward(**changed: Argument) -> list[Any]:
    good = tensor(*SHAPE)
    values = dict.fromkeys(parameter_names(FORWARD), good) | {"reduction": 0, "beta": 1.0}
    assert values.keys() >= changed.keys()
    return list((values | changed).values())


def failure(operator: str, arguments: list[Any]) -> tuple[int, str, str]:
    with pytest.raises(AclnnError) as caught:
        device().plan(operator, arguments)
    error = caught.value
    assert error.operator == operator
    assert error.message.startswith(f"{operator}: ")
    return error.code, error.parameter, error.message


GRADIENT_ORDER: list[tuple[dict[str, Any], int, str]] = [
    ({"gradOutput": None}, 161001, "gradOutput"),
    ({"self": None}, 161001, "self"),
    ({"target": None}, 161001, "target"),
    ({"gradInput": None}, 161001, "gradInput"),
    ({"gradOutput": WRONG_TYPE}, 161002, "gradOutput"),
    ({"self": WRONG_TYPE}, 161002, "self"),
    ({"target": WRONG_TYPE}, 161002, "target"),
    ({"gradInput": WRONG_TYPE}, 161002, "gradInput"),
]
"""Failures in the order in which they win over each other, one parameter each."""


@pytest.mark.parametrize("first", range(len(GRADIENT_ORDER)))
def test_gradient_the_first_failure_wins(first: int) -> None:
    changed, code, parameter = GRADIENT_ORDER[first]
    later: dict[str, Any] = {"reduction": 3, "beta": -1.0}
    for other, _, _ in reversed(GRADIENT_ORDER[first:]):
        later |= other
    assert failure(BACKWARD, backward(**(later | changed)))[:2] == (code, parameter)


def test_gradient_scalars_and_shapes_in_order() -> None:
    wrong: dict[str, Any] = {
        "gradOutput": NINE,
        "reduction": 3,
        "beta": -1.0,
        "target": tensor(3, 3),
        "gradInput": tensor(5),
    }
    for name in ("gradOutput", "reduction", "beta", "target", "gradInput"):
        assert failure(BACKWARD, backward(**wrong))[:2] == (161002, name)
        del wrong[name]
    device().plan(BACKWARD, backward(**wrong))


def test_loss_in_order() -> None:
    steps: list[tuple[dict[str, Any], int, str]] = [
        ({"self": None}, 161001, "self"),
        ({"target": None}, 161001, "target"),
        ({"result": None}, 161001, "result"),
        ({"self": WRONG_TYPE}, 161002, "self"),
        ({"target": WRONG_TYPE}, 161002, "target"),
        ({"result": tensor(5, dtype=dtypes.INT32)}, 161002, "result"),
        ({"reduction": 3}, 161002, "reduction"),
        ({"self": NINE}, 161002, "self"),
        ({"target": NINE}, 161002, "target"),
        ({"target": tensor(3, 3)}, 161002, "target"),
        ({"result": tensor(5)}, 161002, "result"),
        ({"beta": -1.0}, 161002, "beta"),
    ]
    for position, (_, code, parameter) in enumerate(steps):
        changed: dict[str, Any] = {}
        for other, _, _ in reversed(steps[position:]):
            changed |= other
        assert failure(FORWARD, forward(**changed))[:2] == (code, parameter)


@pytest.mark.parametrize("reduction", [1, 2])
def test_loss_result_of_a_reduction_has_one_element(reduction: int) -> None:
    code, parameter, text = failure(FORWARD, forward(reduction=reduction))
    assert (code, parameter) == (561103, "result")
    assert "[4, 2]" in text


@pytest.mark.parametrize("dtype", [dtypes.INT32, dtypes.UINT8, dtypes.BOOL])
def test_loss_result_is_no_integer(dtype: DType) -> None:
    result = tensor(*SHAPE, dtype=dtype)
    assert failure(FORWARD, forward(result=result))[:2] == (161002, "result")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"self": None}, ["self is a null pointer"]),
        ({"self": WRONG_TYPE}, ["self is DOUBLE", "FLOAT, FLOAT16, BF16"]),
        ({"target": NINE}, ["target has 9 dimensions", "at most 8"]),
        ({"reduction": 3}, ["reduction is 3", "0 (none), 1 (mean), 2 (sum)"]),
        ({"reduction": -1}, ["reduction is -1"]),
        ({"beta": -0.5}, ["beta is -0.5", "at least 0"]),
        ({"beta": float("nan")}, ["beta is nan", "at least 0"]),
        ({"self": tensor(3, 2)}, ["self has shape [3, 2]", "[4, 2] of gradOutput"]),
        ({"gradInput": tensor(4)}, ["gradInput has shape [4]", "[4, 2]"]),
        ({"gradInput": tensor(1, 4, 2)}, ["gradInput has shape [1, 4, 2]", "[4, 2]"]),
    ],
)
def test_text_names_parameter_value_and_what_is_allowed(
    changed: dict[str, Any], words: list[str]
) -> None:
    text = failure(BACKWARD, backward(**changed))[2]
    assert all(word in text for word in words), text


@pytest.mark.parametrize("beta", [0.0, -0.0, float("inf"), 1e-45])
def test_beta_that_is_allowed(beta: float) -> None:
    device().plan(BACKWARD, backward(beta=beta))
    device().plan(FORWARD, forward(beta=beta))


def test_eight_dimensions_are_allowed() -> None:
    device().plan(BACKWARD, backward(self=EIGHT, gradInput=EIGHT))


def test_no_dimensions_are_allowed() -> None:
    scalar = tensor()
    device().plan(BACKWARD, [scalar, scalar, scalar, 1, 1.0, scalar])


@pytest.mark.parametrize("name", ["gradOutput", "self", "target", "gradInput"])
def test_private_formats_are_refused_after_the_vendors_checks(name: str) -> None:
    private = TensorSpec.contiguous(SHAPE, dtypes.FLOAT, format=formats.FRACTAL_NZ)
    code, parameter, text = failure(BACKWARD, backward(**{name: private}))
    assert (code, parameter) == (561103, name)
    assert "FRACTAL_NZ" in text
    assert failure(BACKWARD, backward(**{name: private}, reduction=3))[:2] == (161002, "reduction")


@pytest.mark.parametrize("format", [f for f in formats.ALL if f.plain])
def test_plain_formats_are_all_alike(format: formats.Format) -> None:
    spec = TensorSpec.contiguous(SHAPE, dtypes.FLOAT, format=format)
    device().plan(BACKWARD, backward(self=spec, gradInput=spec))


@pytest.mark.parametrize("strides", [(0, 1), (2, 0), (1, 1), (0, 0)])
def test_output_that_overlaps_itself_is_refused(strides: tuple[int, int]) -> None:
    overlapping = TensorSpec(dtypes.FLOAT, SHAPE, strides, 0, (8,))
    code, parameter, text = failure(BACKWARD, backward(gradInput=overlapping))
    assert (code, parameter) == (161002, "gradInput")
    assert str(list(strides)) in text


def test_input_that_overlaps_itself_is_allowed() -> None:
    expanded = TensorSpec(dtypes.FLOAT, SHAPE, (0, 0), 0, (1,))
    device().plan(BACKWARD, backward(gradOutput=expanded))


def test_result_type_without_arrays_is_refused_clearly() -> None:
    result = tensor(*SHAPE, dtype=dtypes.COMPLEX32)
    code, parameter, text = failure(FORWARD, forward(result=result))
    assert (code, parameter) == (207000, "result")
    assert "COMPLEX32" in text


def test_unknown_operator() -> None:
    with pytest.raises(OperatorNotFoundError) as caught:
        device().plan("aclnnNoSuchThing", [])
    assert caught.value.code == 100024
    assert "aclnnNoSuchThing" in caught.value.message


def test_errors_are_of_the_class_of_their_reason() -> None:
    with pytest.raises(InvalidParameterError):
        device().plan(BACKWARD, backward(beta=-1.0))
