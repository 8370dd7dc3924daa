"""The one-line forms: names of choices, and the results' shapes and types."""

from __future__ import annotations

import pytest

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.errors import InvalidParameterError
from aclnn.pythonic import Pythonic
from aclnn.tensors import TensorSpec
from aclnn_client.ops import PYTHONIC

GRADIENT = PYTHONIC["smooth_l1_loss_backward"]
LOSS = PYTHONIC["smooth_l1_loss"]


def specs(*shapes: tuple[int, ...], types: tuple[DType, ...] = ()) -> list[TensorSpec]:
    chosen = types or (dtypes.FLOAT,) * len(shapes)
    return [TensorSpec.contiguous(s, t) for s, t in zip(shapes, chosen, strict=True)]


def test_forms() -> None:
    assert GRADIENT.inputs == ("gradOutput", "self", "target")
    assert GRADIENT.attributes == {"reduction": "mean", "beta": 1.0}
    assert list(GRADIENT.outputs) == ["gradInput"]
    assert LOSS.operator == "aclnnSmoothL1Loss"


@pytest.mark.parametrize(("name", "number"), [("none", 0), ("mean", 1), ("sum", 2), (2, 2)])
def test_choices_are_given_by_name_or_number(name: object, number: int) -> None:
    assert GRADIENT.number("reduction", name) == number


def test_other_attributes_are_passed_through() -> None:
    assert GRADIENT.number("beta", 0.5) == 0.5


def test_unknown_choice_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InvalidParameterError, match=r"'average'.*'none', 'mean', 'sum'") as caught:
        GRADIENT.number("reduction", "average")
    assert (caught.value.operator, caught.value.parameter) == (GRADIENT.operator, "reduction")


def test_gradient_has_the_broadcast_shape_and_the_common_type() -> None:
    types = (dtypes.BF16, dtypes.FLOAT16, dtypes.FLOAT16)
    inputs = specs((1,), (2, 1), (3,), types=types)
    (result,) = GRADIENT.results(inputs, {"reduction": 1, "beta": 1.0})
    assert result == TensorSpec.contiguous((2, 3), dtypes.FLOAT)


@pytest.mark.parametrize(("reduction", "shape"), [(0, (2, 3)), (1, ()), (2, ())])
def test_reduced_loss_has_no_dimensions(reduction: int, shape: tuple[int, ...]) -> None:
    (result,) = LOSS.results(specs((2, 3), (3,)), {"reduction": reduction, "beta": 1.0})
    assert result.shape == shape


@pytest.mark.parametrize(
    ("form", "inputs", "words"),
    [
        (LOSS, specs((2,), (3,)), r"self, target have the shapes \[2\], \[3\]"),
        (
            LOSS,
            specs((2,), (2,), types=(dtypes.FLOAT, dtypes.UINT32)),
            "self, target have the types FLOAT, UINT32",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    form: Pythonic, inputs: list[TensorSpec], words: str
) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        form.results(inputs, {"reduction": 0, "beta": 1.0})
