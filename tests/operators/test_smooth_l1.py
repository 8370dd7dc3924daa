"""Values of the smooth L1 loss and its gradient that the documentation promises, one by one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.operators.calling import BACKWARD, FORWARD, Array, backward, call, forward

INF, NAN = np.inf, np.nan


def singles(*values: float) -> Array:
    return np.array(values, np.float32)


class TestGradient:
    def test_documented_sample(self) -> None:
        ones = np.ones((4, 2), np.float32)
        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        assert backward(ones, x, ones).ravel().tolist() == [-1, 0, 1, 1, 1, 1, 1, 1]

    @pytest.mark.parametrize("reduction", [0, 1, 2])
    def test_beta_0_at_equal_inputs_is_0(self, reduction: int) -> None:
        x = singles(1, -2, 0, 3e38)
        assert backward(singles(5), x, x, reduction=reduction, beta=0.0).tolist() == [0, 0, 0, 0]

    def test_beta_0_is_the_sign(self) -> None:
        x = singles(-3, -1e-45, -0.0, 0, 1e-45, 3, INF, -INF, NAN)
        np.testing.assert_array_equal(
            backward(singles(2), x, singles(0), beta=0.0),
            singles(-2, -2, 0, 0, 2, 2, 2, -2, NAN),
        )

    def test_beta_minus_0_is_0(self) -> None:
        assert backward(singles(1), singles(2, 0), singles(0), beta=-0.0).tolist() == [1, 0]

    def test_tiny_beta_is_divided_by_not_padded(self) -> None:
        (value,) = backward(singles(1), singles(5e-8), singles(0), beta=1e-7)
        assert abs(value - np.float32(0.5)) <= np.spacing(np.float32(0.5))

    def test_beta_2(self) -> None:
        x = singles(-3, -2, -1, 1, 2, 3)
        assert backward(singles(1), x, singles(0), beta=2.0).tolist() == [-1, -1, -0.5, 0.5, 1, 1]

    def test_division_is_exact_not_by_the_reciprocal(self) -> None:
        x = np.linspace(-3, 3, 1001, dtype=np.float32)
        beta = np.float32(3.1)
        np.testing.assert_array_equal(
            backward(singles(1), x, singles(0), beta=float(beta)), x / beta
        )

    def test_infinite_beta(self) -> None:
        x = singles(1, -3e38, INF, -INF, NAN)
        np.testing.assert_array_equal(
            backward(singles(2), x, singles(0), beta=INF), singles(0, 0, 2, -2, NAN)
        )

    def test_beta_beyond_float_is_infinite(self) -> None:
        assert backward(singles(2), singles(1, INF), singles(0), beta=1e300).tolist() == [0, 2]

    def test_nan_and_infinity(self) -> None:
        result = backward(singles(1), singles(NAN, 1, INF, INF), singles(0, 0, INF, 0))
        np.testing.assert_array_equal(result, singles(NAN, 1, NAN, 1))

    def test_nan_and_infinity_in_grad_output(self) -> None:
        result = backward(singles(NAN, INF, INF), singles(1, 1, 0), singles(0))
        np.testing.assert_array_equal(result, singles(NAN, INF, NAN))

    def test_mean_divides_by_the_elements_of_the_broadcast_shape(self) -> None:
        grad, x = np.ones((2, 1, 1), np.float32), np.full((5, 1), 3, np.float32)
        result = backward(grad, x, np.zeros((1, 4), np.float32), reduction=1)
        np.testing.assert_array_equal(result, np.full((2, 5, 4), np.float32(1 / 40)))

    def test_sum_is_as_none(self) -> None:
        x = singles(-3, -0.25, 0.5)
        none, total = (backward(singles(2), x, singles(0), reduction=r) for r in (0, 2))
        assert none.tolist() == total.tolist() == [-2, -0.5, 1]

    def test_half_self_meets_float_target_without_loss(self) -> None:
        # 2049 is no float16: it is 2048 when it comes.
        result = backward(singles(1), np.array([2049], np.float16), singles(2048.5), out=np.float32)
        assert result.tolist() == [-0.5]

    def test_half_and_bfloat16_meet_in_float_and_are_rounded_once(self) -> None:
        generator = np.random.default_rng(1)
        grad = generator.standard_normal(500, np.float32)
        x = generator.standard_normal(500).astype(np.float16)
        y = generator.standard_normal(500).astype(ml_dtypes.bfloat16)
        exact = np.clip(x.astype(np.float32) - y.astype(np.float32), -1, 1) * grad
        result = backward(grad, x, y, out=np.float16)
        np.testing.assert_array_equal(result, exact.astype(np.float16))

    def test_result_has_the_precision_of_the_common_type(self) -> None:
        x = np.array([0.1, 0.3], np.float16)
        grad = np.array([0.7], np.float16)
        result = backward(grad, x, np.zeros(2, np.float16), out=np.float32)
        product = x.astype(np.float32) * np.float32(grad[0])
        np.testing.assert_array_equal(result, product.astype(np.float16).astype(np.float32))

    def test_mean_of_many_halves_is_subnormal_not_0(self) -> None:
        x = np.where(np.arange(70_000) % 2, 3, -3).astype(np.float16)
        one = np.ones(1, np.float16)
        result = backward(one, x, np.zeros(1, np.float16), reduction=1)
        expected = np.float16(np.float32(1 / 70_000))
        assert 1.42e-5 < expected < 1.44e-5
        np.testing.assert_array_equal(result, np.where(x > 0, expected, -expected))

    @pytest.mark.parametrize("reduction", [0, 1, 2])
    def test_empty(self, reduction: int, capfd: pytest.CaptureFixture[str]) -> None:
        empty = np.empty((0, 3), np.float32)
        out = np.empty((0, 3), np.float32)
        plan = call(BACKWARD, empty, empty, empty, reduction, 1.0, out)
        assert (plan.workspace_bytes, out.shape) == (0, (0, 3))
        assert capfd.readouterr() == ("", "")

    def test_scalars_without_dimensions(self) -> None:
        x, y, grad = (np.array(value, np.float32) for value in (3.0, 0.0, 4.0))
        assert backward(grad, x, y, reduction=1).item() == 4

    def test_plain_call_needs_no_workspace(self) -> None:
        x = np.ones((64, 64), np.float32)
        assert call(BACKWARD, x, x, x, 0, 1.0, np.empty_like(x)).workspace_bytes == 0


class TestLoss:
    def test_both_branches(self) -> None:
        x = singles(-3, -1, -0.5, 0, 0.5, 1, 3)
        assert forward(x, singles(0)).tolist() == [2.5, 0.5, 0.125, 0, 0.125, 0.5, 2.5]

    def test_beta_2(self) -> None:
        assert forward(singles(-4, -2, 1), singles(0), beta=2.0).tolist() == [3, 1, 0.25]

    def test_beta_0_is_the_distance(self) -> None:
        assert forward(singles(-4, 0, 1e-45), singles(0), beta=0.0).tolist() == [
            4,
            0,
            float(np.float32(1e-45)),
        ]

    def test_infinite_beta(self) -> None:
        result = forward(singles(-4, 3e38, INF, NAN), singles(0), beta=INF)
        np.testing.assert_array_equal(result, singles(0, 0, NAN, NAN))

    def test_extreme_beta_does_not_overflow(self) -> None:
        result = forward(singles(1e10, 3e38, INF), singles(0), beta=1e-38)
        np.testing.assert_allclose(result, singles(1e10, 3e38, INF), rtol=1e-6)
        result = forward(singles(1e38, -1e20), singles(0), beta=3e38)
        np.testing.assert_allclose(result, [0.5 * 1e38 * (1e38 / 3e38), 0.5e40 / 3e38], rtol=1e-6)

    @pytest.mark.parametrize(("reduction", "expected"), [(1, 1.25), (2, 5.0)])
    def test_reductions(self, reduction: int, expected: float) -> None:
        x = singles(-3, 0, 3, 0)
        assert forward(x, singles(0), reduction=reduction).item() == expected

    def test_mean_divides_by_the_elements_of_the_broadcast_shape(self) -> None:
        x, y = np.full((5, 1), 3, np.float32), np.zeros((1, 4), np.float32)
        assert forward(x, y, reduction=2).item() == 50
        assert forward(x, y, reduction=1).item() == 2.5

    @pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
    def test_result_of_a_reduction_has_any_rank(self, shape: tuple[int, ...]) -> None:
        result = np.zeros(shape, np.float32)
        plan = call(FORWARD, singles(-3, 3), singles(0, 0), 2, 1.0, result)
        assert result.item() == 5
        assert plan.workspace_bytes == 512

    @pytest.mark.parametrize(("reduction", "expected"), [(1, NAN), (2, 0)])
    def test_empty_reductions(
        self, reduction: int, expected: float, capfd: pytest.CaptureFixture[str]
    ) -> None:
        empty = np.empty((0, 3), np.float32)
        np.testing.assert_equal(forward(empty, empty, reduction=reduction).item(), expected)
        assert capfd.readouterr() == ("", "")

    def test_empty_without_reduction(self) -> None:
        empty = np.empty((0, 3), np.float32)
        assert forward(empty, empty).shape == (0, 3)

    @pytest.mark.parametrize("out", [np.float64, np.complex64, np.complex128, np.float16])
    def test_result_of_any_type_that_floats_cast_to(self, out: type) -> None:
        result = forward(singles(0.1, -3), singles(0), out=out)
        expected = np.array([np.float32(0.005), 2.5])
        np.testing.assert_allclose(result, expected.astype(out), rtol=1e-3)
        assert result.dtype == out

    def test_sum_of_halves_beyond_their_range_is_infinite(self) -> None:
        x = np.full(70_000, 3, np.float16)
        assert forward(x, np.zeros(1, np.float16), reduction=2).item() == INF
        assert forward(x, np.zeros(1, np.float16), reduction=2, out=np.float64).item() == INF

    def test_mean_of_many_is_accurate(self) -> None:
        x = np.full(3_000_000, 0.1, np.float32)
        single = 0.5 * float(np.float32(0.1)) ** 2
        mean = forward(x, singles(0), reduction=1).item()
        np.testing.assert_allclose(mean, single, rtol=5e-7)

    def test_reduction_plans_a_workspace_for_its_blocks(self) -> None:
        x = np.zeros(5_000_000, np.float32)
        plan = call(FORWARD, x, x, 1, 1.0, np.zeros(1, np.float32))
        assert plan.workspace_bytes > 0
        assert plan.workspace_bytes % 512 == 0
