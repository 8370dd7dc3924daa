"""Products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.pythonic import Result
from aclnn.tensors import Scalar
from aclnn_server.operators.checking.axis_checks import WhereNotEmpty
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    OneOf,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import HasShape
from aclnn_server.operators.definition import Call, Check, Family, OneLine, Work, prototype
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.matrices import DotProduct, Factor, Product
from aclnn_server.operators.engines.shapes import Shape, ShapeMismatchError, broadcast
from aclnn_server.operators.products import ASCEND310B

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


def product(call: Call, left: str, right: str, added: str | None = None) -> Work:
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
    alpha, beta = (as_float(call[name]) for name in ("alpha", "beta"))
    own = call.tensor(added)
    row = Factor.of(added, own, own.dtype, copied=beta != 1) if beta != 0 else None
    return Product(factors[0], factors[1], output, row, alpha, beta)


def _used_type(call: Call, factors: Sequence[str], name: str) -> DType:
    """Type that a factor is rounded to before it is multiplied."""
    if call["cubeMathType"] == CUBE_MATH_TYPES["USE_FP16"]:
        return dtypes.FLOAT16
    return call.tensor(name).dtype


def as_float(scalar: Scalar) -> float:
    """The real part of a number."""
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
CUBE = OneOf("cubeMathType", CUBE_MATH_TYPES)
"""Check that cubeMathType is one of those."""
_KEEPS = Holds("out is not FLOAT16 where self is FLOAT, for KEEP_DTYPE", _check_keeps)


def of_rank(names: tuple[str, ...], rank: int) -> Check:
    """Checks that tensors have so many dimensions."""

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


def fit(left: str, right: str) -> Check:
    """Checks that two factors can be multiplied."""

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


def out_fits(left: str, right: str) -> Check:
    """Checks that out has the shape of a product."""

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
        (of_rank(("mat2", "self", "out"), 2),),
        "mat_mul_v3",
    ),
    (
        "aclnnBatchMatMul",
        "batch_matmul",
        "Products of the matrices of two batches.",
        "A batch of one matrix is repeated.",
        (of_rank(("self", "mat2", "out"), 3),),
        "batch_mat_mul_v3",
    ),
)


def _plan_product(call: Call) -> Work:
    return product(call, "self", "mat2")


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
            CUBE,
            _KEEPS,
            *_ranks,
            fit("self", "mat2"),
            out_fits("self", "mat2"),
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
        CUBE,
        of_rank(("mat1", "mat2"), 2),
        fit("mat1", "mat2"),
        Holds("self has 1 or 2 dimensions and broadcasts to the product", _check_added),
        out_fits("mat1", "mat2"),
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
    return product(call, "mat1", "mat2", "self")


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
        CUBE,
        of_rank(("self",), 2),
        of_rank(("vec", "out"), 1),
        fit("self", "vec"),
        out_fits("self", "vec"),
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
    return product(call, "self", "vec")


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
        of_rank(("self", "tensor"), 1),
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
