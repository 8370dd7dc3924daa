"""Losses at their edges: empty tensors, reductions, weights, classes that do not exist."""

from __future__ import annotations

import numpy as np
import pytest

from aclnn.errors import AclnnError, ExecutionFailedError
from tests.operators.calling import Argument, Array, call

NAN = float("nan")


def run(name: str, *arguments: Argument, out: Array) -> Array:
    call(f"aclnn{name}", *arguments, out)
    return out


def single(*values: float) -> Array:
    return np.array(values, np.float32)


@pytest.mark.parametrize("name", ["L1Loss", "MseLoss", "SoftMarginLoss"])
def test_of_no_elements_the_mean_is_nan_and_the_sum_0(name: str) -> None:
    x = np.zeros((0, 3), np.float32)
    assert np.isnan(run(name, x, x, 1, out=single(7)))
    assert run(name, x, x, 2, out=single(7)) == 0


def test_batch_mean_divides_by_the_first_size() -> None:
    x, y = np.full((2, 3), -1, np.float32), np.full((2, 3), 0.5, np.float32)
    each = 0.5 * (np.log(0.5) + 1)
    np.testing.assert_allclose(run("KlDiv", x, y, 3, False, out=single(7)), [3 * each], rtol=1e-6)
    np.testing.assert_allclose(run("KlDiv", x, y, 1, False, out=single(7)), [each], rtol=1e-6)


def test_targets_of_zero_and_below() -> None:
    x, y = single(-1, -1, -1), single(0, -0.5, 1)
    found = run("KlDiv", x, y, 0, False, out=single(7, 7, 7))
    np.testing.assert_array_equal(found, [0, NAN, 1])
    found = run("KlDivTargetBackward", single(1), x, y, 0, False, out=single(7, 7, 7))
    np.testing.assert_array_equal(found, [0, NAN, 2])


def test_gradient_of_a_target_that_was_broadcast_is_summed() -> None:
    grad, x, y = (
        np.ones((3, 1), np.float32),
        np.zeros((3, 5), np.float32),
        np.ones((3, 1), np.float32),
    )
    found = run("KlDivTargetBackward", grad, x, y, 0, False, out=np.zeros((3, 1), np.float32))
    np.testing.assert_array_equal(found, np.full((3, 1), 5))
    found = run("KlDivTargetBackward", grad, x, single(1), 0, False, out=single(7))
    assert found.tolist() == [15]


@pytest.mark.parametrize(("reduction", "expected"), [(1, [5, 10]), (2, [10, 20])])
def test_out_form_reduces_the_first_dimension(reduction: int, expected: list[float]) -> None:
    x, y = single(1, 2, 3, 4).reshape(2, 2), np.zeros((2, 2), np.float32)
    found = run("MseLossOut", x, y, reduction, out=single(7, 7))
    assert found.tolist() == expected
    with pytest.raises(AclnnError, match="out has shape"):
        run("MseLossOut", x, y, reduction, out=np.zeros((2, 2), np.float32))
    assert run("MseLossOut", x, y, 0, out=np.zeros_like(x)).tolist() == [[1, 4], [9, 16]]


def test_cross_entropy_is_finite_at_certainty() -> None:
    x, y = single(0, 1, 0, 1), single(0, 1, 1, 0)
    found = run("BinaryCrossEntropy", x, y, None, 0, out=single(7, 7, 7, 7))
    assert found.tolist() == [0, 0, 100, 100]


def test_cross_entropy_of_large_logits() -> None:
    x, y = single(-200, 200, 200), single(0, 1, 0)
    given = (x, y, None, None, 0)
    found = run("BinaryCrossEntropyWithLogits", *given, out=single(7, 7, 7))
    assert found.tolist() == [0, 0, 200]


def test_weights_are_optional_one_by_one() -> None:
    x, y, weight = single(0.5), single(1), single(3)
    plain = run("BinaryCrossEntropyWithLogits", x, y, None, None, 0, out=single(7))
    for weights in ((weight, None), (None, weight)):
        found = run("BinaryCrossEntropyWithLogits", x, y, *weights, 0, out=single(7))
        np.testing.assert_allclose(found, 3 * plain, rtol=1e-6)
    square, wrong = np.ones((2, 2), np.float32), np.ones((2, 3), np.float32)
    with pytest.raises(AclnnError, match="weightOptional has shape"):
        run("BinaryCrossEntropyWithLogits", square, y, wrong, None, 0, out=square)


def test_a_weight_does_not_enlarge_the_loss() -> None:
    x, weight = np.ones((1, 2), np.float32), np.ones((3, 2), np.float32)
    for reduction, out in ((0, x), (1, single(7))):
        with pytest.raises(
            AclnnError, match=r"weight has shape \[3, 2\], which does not broadcast to"
        ):
            run("BinaryCrossEntropy", x, x, weight, reduction, out=out)


def test_mean_of_integers_is_rounded_to_0() -> None:
    x, y = np.array([1, 4], np.int64), np.array([0, 0], np.int64)
    assert run("L1Loss", x, y, 1, out=np.zeros((), np.int64)) == 2


def test_classes_that_do_not_exist_fail_the_execution() -> None:
    x, weight = np.zeros((2, 3), np.float32), np.ones(3, np.float32)
    for target in ([0, 3], [-1, 0]):
        with pytest.raises(ExecutionFailedError, match="there are the classes 0 to 2"):
            call("aclnnNLLLoss", x, np.array(target), weight, 0, -100, single(7, 7), single(7))


def test_ignored_rows_have_no_loss_and_no_weight() -> None:
    x, weight = -np.arange(6, dtype=np.float32).reshape(2, 3), single(1, 2, 4)
    target, out, total = np.array([9, 2]), single(7, 7), single(7)
    call("aclnnNLLLoss", x, target, weight, 0, 9, out, total)
    assert (out.tolist(), total.tolist()) == ([0, 20], [7])
    mean = np.zeros((), np.float32)
    call("aclnnNLLLoss", x, target, weight, 1, 9, mean, total)
    assert mean == 5
    assert total.tolist() == [4]
    slope = np.full((2, 3), 7, np.float32)
    call("aclnnNLLLossBackward", single(2).reshape(()), x, target, weight, 1, 9, total, slope)
    assert slope.tolist() == [[0, 0, 0], [0, 0, -2]]


def test_of_no_rows_the_mean_is_nan_and_the_weight_0() -> None:
    x, weight = np.zeros((0, 3), np.float32), np.ones(3, np.float32)
    mean, total = single(7), single(7)
    call("aclnnNLLLoss", x, np.zeros(0, np.int64), weight, 1, -100, mean, total)
    assert np.isnan(mean)
    assert total == 0
