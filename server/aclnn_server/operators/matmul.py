"""Products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.pythonic import Result
from aclnn.tensors import Scalar
from aclnn_server.operators.axis_checks import WhereNotEmpty
from aclnn_server.operators.blocks import Nothing
from aclnn_server.operators.checks import (
    Holds,
    NotNull,
    OneOf,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.definition import Call, Check, Family, OneLine, Work, prototype
from aclnn_server.operators.layout_checks import HasShape
from aclnn_server.operators.matrices import DotProduct, Factor, Product
from aclnn_server.operators.products import ASCEND310B
from aclnn_server.operators.shapes import Shape, ShapeMismatchError, broadcast
from aclnn_server.operators.staging import Arrays, staged
from aclnn_server.operators.threads import Threads

Array = npt.NDArray[Any]

MATMUL = Family()

FLOATS = (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16)
CUBE_MATH_TYPES = {
    "KEEP_DTYPE": 0,
    "ALLOW_FP32_DOWN_PRECISION": 1,
    "USE_FP16": 2,
    "USE_HF32": 3,
    "USE_FP32_ADD": 4,
}
"""Names and numbers of cubeMathType."""
_SINGLE = np.dtype(np.float32)
_EMPTY = np.empty(0, np.uint8)
_CHUNK = 1 << 13
"""Elements of a dot product that are added in their own type."""


# --- planning ---------------------------------------------------------------------------------------


def _product(call: Call, left: str, right: str, added: str | None = None) -> Work:
    """Plans the product of two parameters, with what is added to it."""
    output = call.tensor("out")
    if output.elements == 0:
        return Nothing()
    factors = [
        Factor.of(name, call.tensor(name), _used_type(call, (left, right), name))
        for name in (left, right)
    ]
    if added is None:
        return Product(factors[0], factors[1], output)
    alpha, beta = (_number(call[name]) for name in ("alpha", "beta"))
    own = call.tensor(added)
    row = Factor.of(added, own, own.dtype, copied=beta != 1) if beta != 0 else None
    return Product(factors[0], factors[1], output, row, alpha, beta)


def _used_type(call: Call, factors: Sequence[str], name: str) -> DType:
    """Type that a factor is rounded to before it is multiplied."""
    if call["cubeMathType"] == CUBE_MATH_TYPES["USE_FP16"]:
        return dtypes.FLOAT16
    return call.tensor(name).dtype


def _number(scalar: Scalar) -> float:
    return float(scalar.value.real)


# --- checks -----------------------------------------------------------------------------------------


def _check_keeps(call: Call) -> None:
    kept = call["cubeMathType"] == CUBE_MATH_TYPES["KEEP_DTYPE"]
    if (
        kept
        and call.tensor("self").dtype is dtypes.FLOAT
        and call.tensor("out").dtype is dtypes.FLOAT16
    ):
        raise call.invalid("out", "out is FLOAT16 and self FLOAT, which KEEP_DTYPE does not allow")


_KEEP = {"cubeMathType": "KEEP_DTYPE"}
_CHOICES = {"cubeMathType": CUBE_MATH_TYPES}
_CUBE = OneOf("cubeMathType", CUBE_MATH_TYPES)
_KEEPS = Holds("out is not FLOAT16 where self is FLOAT, for KEEP_DTYPE", _check_keeps)


def _of_rank(names: tuple[str, ...], rank: int) -> Check:
    def check(call: Call) -> None:
        for name in names:
            shape = call.tensor(name).shape
            if len(shape) != rank:
                raise call.invalid(
                    name, f"{name} has shape {list(shape)}; it must have {rank} dimensions"
                )

    return Holds(f"{' and '.join(names)} have {rank} dimensions", check)


def product_shape(left: Shape, right: Shape) -> Shape:
    """Shape of the product of matrices, vectors or batches of matrices.

    Raises:
        ShapeMismatchError: they do not fit.
    """
    if not left or not right:
        raise ShapeMismatchError("one has no dimensions")
    inner = right[-2] if len(right) > 1 else right[0]
    if left[-1] != inner:
        raise ShapeMismatchError(f"{left[-1]} and {inner}, along which is summed, are unequal")
    batch = broadcast(left[:-2], right[:-2])
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _fit(left: str, right: str) -> Check:
    def check(call: Call) -> None:
        shapes = call.tensor(left).shape, call.tensor(right).shape
        try:
            product_shape(*shapes)
        except ShapeMismatchError as error:
            raise call.invalid(
                right,
                f"{right} has shape {list(shapes[1])}, which does not fit {list(shapes[0])} of {left}: "
                f"{error}",
            ) from None

    return Holds(f"{left} and {right} can be multiplied", check)


def _out_fits(left: str, right: str) -> Check:
    def shape(call: Call) -> Shape:
        return product_shape(call.tensor(left).shape, call.tensor(right).shape)

    return HasShape("out", f"the shape of the product of {left} and {right}", shape)


_SEMANTICS = """\
- Factors that are not FLOAT are multiplied and added in FLOAT; the result is rounded once, to the type
  of out.
- cubeMathType 0 keeps types; 2 rounds the factors to FLOAT16 first; 1 and 3 permit a lower precision and
  4 demands additions in FLOAT, which here makes no difference.
- Where nothing is summed, the result is 0. An empty out plans no workspace and computes nothing.
- Deterministic for a given number of threads of the processor's library of linear algebra."""


# --- operators --------------------------------------------------------------------------------------


_ROWS: tuple[tuple[str, str, str, str, tuple[Check, ...], str], ...] = (
    (
        "aclnnMatmul",
        "matmul",
        "Product of matrices, vectors or batches of matrices.",
        "Vectors are a row on the left and a column on the right, and this dimension is left out of the "
        "result; dimensions before the last two broadcast. Some products allow 6 dimensions, Atlas A2 "
        "and A3 allow 8.",
        (RankUpTo(("self", "mat2")),),
        "mat_mul_v3",
    ),
    (
        "aclnnMm",
        "mm",
        "Product of two matrices.",
        "",
        (_of_rank(("mat2", "self", "out"), 2),),
        "mat_mul_v3",
    ),
    (
        "aclnnBatchMatMul",
        "batch_matmul",
        "Products of the matrices of two batches.",
        "A batch of one matrix is repeated.",
        (_of_rank(("self", "mat2", "out"), 3),),
        "batch_mat_mul_v3",
    ),
)


def _plan_product(call: Call) -> Work:
    return _product(call, "self", "mat2")


for _name, _python, _summary, _more, _ranks, _folder in _ROWS:
    MATMUL.add(
        prototype(
            _name,
            "const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType",
        ),
        _plan_product,
        "\n\n".join(
            (
                _summary,
                "$$out = self \\cdot mat2$$",
                *([_more] if _more else ()),
                _SEMANTICS,
                f"Source: host code of {_name} (hicann/ops-nn, matmul/{_folder}).",
            )
        ),
        outputs=("out",),
        missing_on=(ASCEND310B,),
        checks=(
            NotNull(("self", "mat2", "out")),
            TypeIn(("self", "mat2", "out"), FLOATS),
            _CUBE,
            _KEEPS,
            *_ranks,
            _fit("self", "mat2"),
            _out_fits("self", "mat2"),
        ),
        python=OneLine(_python, _KEEP, _CHOICES, Result("product")),
    )


def _check_added(call: Call) -> None:
    own = call.tensor("self").shape
    expected = product_shape(call.tensor("mat1").shape, call.tensor("mat2").shape)
    try:
        fits = len(own) in (1, 2) and broadcast(own, expected) == expected
    except ShapeMismatchError:
        fits = False
    if not fits:
        raise call.invalid(
            "self",
            f"self has shape {list(own)}, which with 1 or 2 dimensions must broadcast to "
            f"{list(expected)}, the shape of the product",
        )


@MATMUL.operator(
    """
    aclnnStatus aclnnAddmmGetWorkspaceSize(
        const aclTensor* self, const aclTensor* mat1, const aclTensor* mat2, const aclScalar* beta,
        const aclScalar* alpha, aclTensor* out, int8_t cubeMathType,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("self", "mat1", "mat2", "beta", "alpha", "out")),
        TypeIn(("mat1", "mat2", "self", "out"), FLOATS),
        _CUBE,
        _of_rank(("mat1", "mat2"), 2),
        _fit("mat1", "mat2"),
        Holds("self has 1 or 2 dimensions and broadcasts to the product", _check_added),
        _out_fits("mat1", "mat2"),
    ),
    python=OneLine("addmm", {"beta": 1.0, "alpha": 1.0, **_KEEP}, _CHOICES, Result("product")),
)
def addmm(call: Call) -> Work:
    """Product of two matrices, scaled, added to a scaled matrix.

    $$out = beta \\cdot self + alpha \\cdot (mat1 \\cdot mat2)$$

    - self is a matrix, or a row, that broadcasts to the product. It is not read where beta is 0.
    - Everything is computed in FLOAT; the result is rounded once, to the type of out.
    - cubeMathType 0 keeps types; 2 rounds mat1 and mat2 to FLOAT16 first; 1 and 3 permit a lower
      precision and 4 demands additions in FLOAT, which here makes no difference.
    - Where nothing is summed, the product is 0. An empty out plans no workspace and computes nothing.
    - Deterministic for a given number of threads of the processor's library of linear algebra.

    Source: host code of aclnnAddmm (hicann/ops-nn, matmul/mat_mul_v3).
    """
    return _product(call, "mat1", "mat2", "self")


def _added_to(shape: Callable[[Call], Shape]) -> Check:
    def check(call: Call) -> None:
        own, expected = call.tensor("self").shape, shape(call)
        try:
            fits = broadcast(own, expected) == expected
        except ShapeMismatchError:
            fits = False
        if not fits:
            raise call.invalid(
                "self",
                f"self has shape {list(own)}, which does not broadcast to {list(expected)}, the shape of "
                "the product",
            )

    return Holds("self broadcasts to the product", check)


def _check_pairs(call: Call) -> None:
    first, second = call.tensor("batch1").shape, call.tensor("batch2").shape
    if first[0] != second[0] or first[2] != second[1]:
        raise call.invalid(
            "batch2", f"batch2 has shape {list(second)}, which does not fit {list(first)} of batch1"
        )


def _batch_product(call: Call) -> Shape:
    return product_shape(call.tensor("batch1").shape, call.tensor("batch2").shape)


@MATMUL.operator(
    """
    aclnnStatus aclnnBaddbmmGetWorkspaceSize(
        const aclTensor* self, const aclTensor* batch1, const aclTensor* batch2, const aclScalar* beta,
        const aclScalar* alpha, aclTensor* out, int8_t cubeMathType,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("self", "batch1", "batch2", "beta", "alpha", "out")),
        TypeIn(("self", "batch1", "batch2", "out"), FLOATS),
        _CUBE,
        _of_rank(("batch1", "batch2"), 3),
        _fit("batch1", "batch2"),
        _added_to(_batch_product),
        _out_fits("batch1", "batch2"),
    ),
)
def baddbmm(call: Call) -> Work:
    """Products of the matrices of two batches, scaled, added to scaled matrices.

    $$out = beta \\cdot self + alpha \\cdot (batch1 \\cdot batch2)$$

    - self broadcasts to the products. It is not read where beta is 0.
    - Everything is computed in FLOAT; the result is rounded once, to the type of out.
    - cubeMathType is as for aclnnMm. Where nothing is summed, the products are 0.
    - Deterministic for a given number of threads of the processor's library of linear algebra.

    Source: the public documentation of aclnnBaddbmm (hicann/ops-nn, matmul/batch_mat_mul_v3); the order of
    checks is that of aclnnAddmm.
    """
    return _product(call, "batch1", "batch2", "self")


def _batch_sum_shape(call: Call) -> Shape:
    return call.tensor("batch1").shape[1], call.tensor("batch2").shape[2]


@MATMUL.operator(
    """
    aclnnStatus aclnnAddbmmGetWorkspaceSize(
        const aclTensor* self, const aclTensor* batch1, const aclTensor* batch2, const aclScalar* beta,
        const aclScalar* alpha, aclTensor* out, int8_t cubeMathType,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("self", "batch1", "batch2", "beta", "alpha", "out")),
        TypeIn(("self", "batch1", "batch2", "out"), FLOATS),
        _CUBE,
        _of_rank(("batch1", "batch2"), 3),
        Holds("batch1 and batch2 have as many matrices, which can be multiplied", _check_pairs),
        _added_to(_batch_sum_shape),
        HasShape("out", "the shape of one product", _batch_sum_shape),
    ),
)
def addbmm(call: Call) -> Work:
    """Sum of the products of the matrices of two batches, scaled, added to a scaled matrix.

    $$out = beta \\cdot self + alpha \\cdot \\sum_b (batch1_b \\cdot batch2_b)$$

    - self broadcasts to one product. It is not read where beta is 0.
    - Everything is computed in FLOAT; the result is rounded once, to the type of out.
    - cubeMathType 2 (USE_FP16) rounds the factors to FLOAT16 first; all else makes no difference here.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnAddbmm (hicann/ops-nn, matmul/batch_mat_mul_v3); the order of
    checks is that of aclnnAddmm.
    """
    alpha, beta = (np.float32(_number(call[name])) for name in ("alpha", "beta"))

    def compute(arrays: Arrays, threads: Threads) -> None:
        total = np.tensordot(arrays["batch1"], arrays["batch2"], ((0, 2), (0, 1))) * alpha
        added = arrays["self"] * beta if beta != 0 else np.float32(0)
        np.add(total, added, out=arrays["out"])

    half = call["cubeMathType"] == CUBE_MATH_TYPES["USE_FP16"]
    names = ("batch1", "batch2", "self")
    return staged(call, compute, names, ("out",), via=dtypes.FLOAT16 if half else None)


def _rows_of_mat(call: Call) -> Shape:
    return call.tensor("mat").shape[:1]


@MATMUL.operator(
    """
    aclnnStatus aclnnAddmvGetWorkspaceSize(
        const aclTensor* self, const aclTensor* mat, const aclTensor* vec, const aclScalar* alpha,
        const aclScalar* beta, aclTensor* out, int8_t cubeMathType,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("self", "mat", "vec", "alpha", "beta", "out")),
        TypeIn(("self", "mat", "vec", "out"), FLOATS),
        _CUBE,
        _of_rank(("mat",), 2),
        _of_rank(("vec",), 1),
        _fit("mat", "vec"),
        _added_to(_rows_of_mat),
        _out_fits("mat", "vec"),
    ),
)
def addmv(call: Call) -> Work:
    """Product of a matrix and a vector, scaled, added to a scaled vector.

    $$out = beta \\cdot self + alpha \\cdot (mat \\cdot vec)$$

    - self broadcasts to the product. It is not read where beta is 0.
    - Everything is computed in FLOAT; the result is rounded once, to the type of out.
    - cubeMathType is as for aclnnMm. Where nothing is summed, the product is 0.
    - Deterministic for a given number of threads of the processor's library of linear algebra.

    Source: the public documentation of aclnnAddmv (hicann/ops-nn, matmul/addmv); the order of checks is that
    of aclnnAddmm.
    """
    return _product(call, "mat", "vec", "self")


# --- vectors ----------------------------------------------------------------------------------------


@MATMUL.operator(
    """
    aclnnStatus aclnnMvGetWorkspaceSize(
        const aclTensor* self, const aclTensor* vec, aclTensor* out, int8_t cubeMathType,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("self", "vec", "out")),
        SameType(("out",), "vec"),
        WhereNotEmpty(("self",), SameType(("self",), "vec")),
        TypeIn(("self", "vec", "out"), FLOATS),
        _CUBE,
        _of_rank(("self",), 2),
        _of_rank(("vec", "out"), 1),
        _fit("self", "vec"),
        _out_fits("self", "vec"),
    ),
    python=OneLine("mv", _KEEP, _CHOICES, Result("product")),
)
def mv(call: Call) -> Work:
    """Product of a matrix and a vector.

    $$out = self \\cdot vec$$

    - Factors that are not FLOAT are multiplied and added in FLOAT; the result is rounded once, to the
      type of out.
    - cubeMathType is as for aclnnMm.
    - Where nothing is summed, the result is 0. An empty out plans no workspace and computes nothing.
    - Deterministic for a given number of threads of the processor's library of linear algebra.

    Source: host code of aclnnMv (hicann/ops-nn, matmul/mv).
    """
    return _product(call, "self", "vec")


_DOT = (*FLOATS, dtypes.INT8, dtypes.INT32, dtypes.UINT8)


def _scalar_shape(call: Call) -> Shape:
    return ()


@MATMUL.operator(
    """
    aclnnStatus aclnnDotGetWorkspaceSize(
        const aclTensor* self, const aclTensor* tensor, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("self", "tensor", "out")),
        SameType(("tensor", "out"), "self"),
        TypeIn(("self",), _DOT),
        _of_rank(("self", "tensor"), 1),
        SameShape(("tensor",), "self"),
        HasShape("out", "no dimensions", _scalar_shape),
    ),
    python=OneLine("dot", result=Result("product")),
)
def dot(call: Call) -> Work:
    """Sum of the products of the elements of two vectors.

    $$out = \\sum_i self_i \\cdot tensor_i$$

    - Floats are multiplied and added in FLOAT, parts of 8192 of them in DOUBLE; integers overflow.
    - Of empty vectors, 0.
    - Deterministic.

    Source: host code of aclnnDot (hicann/ops-math, math/dot).
    """
    left, right, out = call.tensors(("self", "tensor", "out"))
    return DotProduct(left, right, out)
