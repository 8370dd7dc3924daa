"""Products of matrices and vectors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from aclnn import dtypes
from aclnn.errors import InvalidParameterError, NullPointerError, UnsupportedError
from aclnn.tensors import Scalar, TensorSpec
from tests.operators.calling import Array, call, device
from tests.operators.test_reductions import numbers

TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
TOLERANCES = {
    np.dtype(np.float32): 1e-5,
    np.dtype(np.float16): 1e-3,
    np.dtype(ml_dtypes.bfloat16): 8e-3,
}
KEEP, DOWN, HALF = 0, 1, 2
Shape = tuple[int, ...]


def close(got: Array, want: Array, left: Array, right: Array) -> None:
    """The error is within the rounding of the sums and of the result."""
    scale = np.matmul(np.abs(left).astype(np.float64), np.abs(right).astype(np.float64))
    error = np.abs(got.astype(np.float64) - want)
    assert (error <= 1e-6 * scale + TOLERANCES[got.dtype] * np.abs(want) + 1e-30).all()


def multiplied(
    operator: str, left: Array, right: Array, how: int = KEEP, out: npt.DTypeLike | None = None
) -> Array:
    shape = np.matmul(np.zeros(left.shape), np.zeros(right.shape)).shape
    result: Array = np.full(shape, 7, left.dtype if out is None else out)
    call(operator, left, right, result, how, on=device(2))
    return result


@TYPES
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((2, 3, 4), (4,)),
        ((3, 0), (0, 5)),
        ((300, 400), (400, 200)),
    ],
    ids=str,
)
def test_matmul_is_that_of_numpy(left: Shape, right: Shape, dtype: npt.DTypeLike) -> None:
    a, b = numbers(left, dtype), numbers(right, dtype, seed=1)
    want = np.matmul(a.astype(np.float64), b.astype(np.float64))
    close(multiplied("aclnnMatmul", a, b), want, a, b)


@TYPES
@pytest.mark.parametrize("spread", ["rows", "columns", "gaps", "backwards"])
def test_strides_of_every_operand(dtype: npt.DTypeLike, spread: str) -> None:
    a, b = numbers((6, 7), dtype), numbers((7, 5), dtype, seed=1)
    want = a.astype(np.float64) @ b.astype(np.float64)
    left, right, out = (_spread(x, spread) for x in (a, b, np.full((6, 5), 7, dtype)))
    call("aclnnMm", left, right, out, KEEP)
    close(out, want, a, b)


def _spread(x: Array, how: str) -> Array:
    room: Array = np.zeros((3 * len(x), 2 * x.shape[1]), x.dtype)
    views = {
        "rows": room[: len(x), : x.shape[1]],
        "columns": np.zeros(x.shape[::-1], x.dtype).T,
        "gaps": room[::3, ::2],
        "backwards": np.zeros(x.shape, x.dtype)[::-1, ::-1],
    }
    views[how][...] = x
    return views[how]


@TYPES
def test_batches(dtype: npt.DTypeLike) -> None:
    for batch in (1, 4):
        a, b = numbers((4, 3, 5), dtype), numbers((batch, 5, 2), dtype, seed=1)
        want = np.matmul(a.astype(np.float64), b.astype(np.float64))
        close(multiplied("aclnnBatchMatMul", a, b), want, a, b)


@TYPES
def test_vectors(dtype: npt.DTypeLike) -> None:
    a, b = numbers((6, 40), dtype), numbers((40,), dtype, seed=1)
    close(multiplied("aclnnMv", a, b), a.astype(np.float64) @ b.astype(np.float64), a, b)


def test_the_output_may_be_a_factor() -> None:
    a, b = numbers((4, 4), np.float32), numbers((4, 4), np.float32, seed=1)
    want = a.astype(np.float64) @ b.astype(np.float64)
    call("aclnnMm", a, b, a, KEEP)
    np.testing.assert_allclose(a, want, rtol=1e-5, atol=1e-5)


def test_results_are_rounded_once() -> None:
    a, b = numbers((3, 50), np.float16), numbers((50, 4), np.float16, seed=1)
    got = multiplied("aclnnMm", a, b, out=np.float32)
    np.testing.assert_allclose(
        got, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4
    )


def test_use_fp16_rounds_the_factors() -> None:
    a, b = numbers((3, 4), np.float32), numbers((4, 5), np.float32, seed=1)
    got = multiplied("aclnnMm", a, b, HALF)
    want = a.astype(np.float16).astype(np.float64) @ b.astype(np.float16).astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@TYPES
@pytest.mark.parametrize("added", [(5,), (3, 5), (3, 1), (1,)], ids=str)
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.5, 2), (0, 1)])
def test_addmm(added: Shape, beta: float, alpha: float, dtype: npt.DTypeLike) -> None:
    c, a, b = numbers(added, dtype), numbers((3, 4), dtype, seed=1), numbers((4, 5), dtype, seed=2)
    kept = c.copy()
    out = np.full((3, 5), 7, dtype)
    call("aclnnAddmm", c, a, b, Scalar(beta, "FLOAT"), Scalar(alpha, "FLOAT"), out, KEEP)
    product = alpha * (a.astype(np.float64) @ b.astype(np.float64))
    want = beta * c.astype(np.float64) + product
    tolerance = TOLERANCES[np.dtype(dtype)]
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=tolerance, atol=tolerance * 4)
    np.testing.assert_array_equal(c, kept)


def test_addmm_may_write_to_what_it_adds() -> None:
    c, a, b = (numbers((3, 3), np.float32, seed=seed) for seed in range(3))
    want = c + a @ b
    one = Scalar(1, "FLOAT")
    call("aclnnAddmm", c, a, b, one, one, c, KEEP)
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-5)


def test_beta_zero_does_not_read_what_it_would_add() -> None:
    c, a = np.full((2, 2), np.nan, np.float32), np.eye(2, dtype=np.float32)
    out = np.empty((2, 2), np.float32)
    call("aclnnAddmm", c, a, a, Scalar(0, "FLOAT"), Scalar(1, "FLOAT"), out, KEEP)
    np.testing.assert_array_equal(out, a)


def test_sums_of_nothing_leave_what_is_added() -> None:
    c, out = numbers((5,), np.float32), np.empty((3, 5), np.float32)
    a, b = np.empty((3, 0), np.float32), np.empty((0, 5), np.float32)
    call("aclnnAddmm", c, a, b, Scalar(2, "FLOAT"), Scalar(1, "FLOAT"), out, KEEP)
    np.testing.assert_array_equal(out, np.broadcast_to(2 * c, (3, 5)))


@pytest.mark.parametrize("count", [0, 1, 8191, 8192, 100001])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_dot(count: int, dtype: npt.DTypeLike) -> None:
    a, b = numbers((count,), dtype), numbers((count,), dtype, seed=1)
    out = np.full((), 7, dtype)
    call("aclnnDot", a, b, out)
    close(out, np.asarray(np.dot(a.astype(np.float64), b.astype(np.float64))), a, b)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_dot_of_integers_overflows(dtype: npt.DTypeLike) -> None:
    a = np.arange(9000).astype(dtype)
    out = np.full((), 7, dtype)
    call("aclnnDot", a, a, out)
    assert out == np.dot(a.astype(np.int64), a.astype(np.int64)).astype(dtype)


def test_dot_of_strided_vectors() -> None:
    a = numbers((20,), np.float32)
    out = np.empty((), np.float32)
    call("aclnnDot", a[::2], a[1::2], out)
    np.testing.assert_allclose(out, np.dot(a[::2], a[1::2]), rtol=1e-5)


def _plan(operator: str, *arguments: object, soc: str = "reference") -> int:
    specs = [
        TensorSpec.contiguous(row[1], row[0]) if isinstance(row, tuple) else row
        for row in arguments
    ]
    return device(soc=soc).plan(operator, specs).workspace_bytes  # type: ignore[arg-type]


F, H = dtypes.FLOAT, dtypes.FLOAT16


@pytest.mark.parametrize(
    ("operator", "arguments", "parameter"),
    [
        ("aclnnMatmul", ((F, (3, 4)), (F, (5, 4)), (F, (3, 4)), 0), "mat2"),
        ("aclnnMatmul", ((F, ()), (F, (4,)), (F, ()), 0), "mat2"),
        ("aclnnMatmul", ((F, (2, 3, 4)), (F, (3, 4, 5)), (F, (3, 3, 5)), 0), "mat2"),
        ("aclnnMatmul", ((F, (3, 4)), (F, (4, 5)), (F, (3, 4)), 0), "out"),
        ("aclnnMatmul", ((F, (3, 4)), (F, (4, 5)), (H, (3, 5)), 0), "out"),
        ("aclnnMatmul", ((F, (3, 4)), (F, (4, 5)), (F, (3, 5)), 5), "cubeMathType"),
        ("aclnnMatmul", ((dtypes.DOUBLE, (3, 4)), (F, (4, 5)), (F, (3, 5)), 0), "self"),
        ("aclnnMm", ((F, (1, 3, 4)), (F, (4, 5)), (F, (1, 3, 5)), 0), "self"),
        ("aclnnBatchMatMul", ((F, (3, 4)), (F, (4, 5)), (F, (3, 5)), 0), "self"),
        ("aclnnMv", ((F, (3, 4)), (F, (3,)), (F, (3,)), 0), "vec"),
        ("aclnnMv", ((F, (3, 4)), (H, (4,)), (F, (3,)), 0), "out"),
        ("aclnnDot", ((F, (3,)), (F, (4,)), (F, ())), "tensor"),
        ("aclnnDot", ((F, (3,)), (F, (3,)), (F, (1,))), "out"),
    ],
)
def test_what_is_refused(operator: str, arguments: tuple[object, ...], parameter: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        _plan(operator, *arguments)
    assert (caught.value.code, caught.value.parameter) == (161002, parameter)


@pytest.mark.parametrize("added", [(), (4,), (1, 3, 5)], ids=str)
def test_addmm_refuses_what_does_not_broadcast(added: Shape) -> None:
    one = Scalar(1, "FLOAT")
    with pytest.raises(InvalidParameterError) as caught:
        _plan("aclnnAddmm", (F, added), (F, (3, 4)), (F, (4, 5)), one, one, (F, (3, 5)), 0)
    assert caught.value.parameter == "self"


def test_null_pointers_come_first() -> None:
    with pytest.raises(NullPointerError) as caught:
        _plan("aclnnAddmm", (F, ()), (F, (3, 4)), (F, (4, 5)), None, None, (F, (3, 5)), 9)
    assert caught.value.parameter == "beta"


def test_products_have_their_types() -> None:
    bf16 = dtypes.BF16
    arguments = ((bf16, (3, 4)), (bf16, (4, 5)), (bf16, (3, 5)), 0)
    assert _plan("aclnnMm", *arguments) > 0
    with pytest.raises(InvalidParameterError, match="BF16"):
        _plan("aclnnMm", *arguments, soc="ascend910")
    with pytest.raises(UnsupportedError):
        _plan("aclnnMm", *arguments, soc="ascend310b")


def test_floats_that_lie_well_take_no_workspace() -> None:
    assert _plan("aclnnMm", (F, (3, 4)), (F, (4, 5)), (F, (3, 5)), DOWN) == 0
    assert _plan("aclnnMm", (H, (3, 4)), (H, (4, 5)), (H, (3, 5)), DOWN) == 3 * 512
