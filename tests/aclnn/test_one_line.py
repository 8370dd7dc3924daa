"""One-line forms as text, as a server's catalogue has them."""

from __future__ import annotations

import json

import pytest

from aclnn import dtypes, one_line
from aclnn.errors import InvalidParameterError, UnsupportedError
from aclnn.pythonic import Pythonic, Result
from aclnn.tensors import TensorSpec
from aclnn_client.ops import PYTHONIC

FORM = Pythonic(
    "scale",
    "aclnnScale",
    ("x",),
    {"factor": 2.0, "mode": "up", "pad": (1, 2), "bound": float("inf"), "dims": None},
    {"out": Result("same", "given", scalars=("factor",))},
    {"mode": {"up": 1}},
)


def test_a_form_comes_back_as_it_was() -> None:
    found = one_line.decode(one_line.encode(FORM), "aclnnScale")
    assert found is not None
    assert dict(found.attributes) | {"pad": (1, 2)} == FORM.attributes
    assert (found.name, found.inputs, found.outputs, found.choices) == (
        FORM.name,
        FORM.inputs,
        FORM.outputs,
        FORM.choices,
    )


@pytest.mark.parametrize("form", PYTHONIC.values(), ids=lambda form: form.name)
def test_every_form_of_this_distribution_can_be_told(form: Pythonic) -> None:
    found = one_line.decode(one_line.encode(form), form.operator)
    assert found is not None
    assert (found.inputs, found.outputs) == (form.inputs, form.outputs)


def test_what_a_later_version_adds_is_ignored() -> None:
    row = json.loads(one_line.encode(FORM))
    row["later"] = 1
    row["outputs"]["out"]["later"] = 2
    assert one_line.decode(json.dumps(row), "aclnnScale") == one_line.decode(
        one_line.encode(FORM), "aclnnScale"
    )


@pytest.mark.parametrize("rule", [Result("folded"), Result("same", "widest")])
def test_a_rule_of_a_later_version_is_refused_when_it_is_needed(rule: Result) -> None:
    form = Pythonic("scale", "aclnnScale", ("x",), {}, {"out": rule})
    told = one_line.decode(one_line.encode(form), "aclnnScale")
    assert told == form
    with pytest.raises(UnsupportedError, match=r"aclnnScale: its result follows the rule '\w+'"):
        told.results([TensorSpec.contiguous((2,), dtypes.FLOAT)], {})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "1", "{}", '{"name": "x"}', '{"name": 1, "inputs": 2}', "null"]
)
def test_no_form(text: str) -> None:
    assert one_line.decode(text, "aclnnScale") is None


@pytest.mark.parametrize(
    ("shapes", "parameter"),
    [
        (((2, 3), (4,), (3,)), "self"),
        (((2, 3), (3,), (5, 1, 2)), "target"),
        (((), (2,), (3,)), "target"),
    ],
)
def test_the_first_input_that_does_not_fit_is_named(
    shapes: tuple[tuple[int, ...], ...], parameter: str
) -> None:
    form = PYTHONIC["smooth_l1_loss_backward"]
    specs = [TensorSpec.contiguous(shape, dtypes.FLOAT) for shape in shapes]
    with pytest.raises(InvalidParameterError, match="do not broadcast together") as caught:
        form.results(specs, {"reduction": 0, "beta": 1.0})
    assert (caught.value.parameter, caught.value.code) == (parameter, 161002)
    assert caught.value.operator == "aclnnSmoothL1LossBackward"
