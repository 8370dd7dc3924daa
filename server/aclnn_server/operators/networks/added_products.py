"""Products of matrices and vectors that are added to others: of batches, their sum, and of a vector."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aclnn import dtypes
from aclnn_server.operators.checking.checks import Holds, NotNull, TypeIn
from aclnn_server.operators.checking.layout_checks import HasShape
from aclnn_server.operators.definition import Call, Check, Family, Work
from aclnn_server.operators.engines.shapes import Shape, ShapeMismatchError, broadcast
from aclnn_server.operators.engines.staging import Arrays, in_blocks, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.networks.matmul import (
    CUBE,
    CUBE_MATH_TYPES,
    FLOATS,
    as_float,
    fit,
    of_rank,
    out_fits,
    product,
    product_shape,
)
from aclnn_server.operators.products import ASCEND310B

ADDED_PRODUCTS = Family()


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


@ADDED_PRODUCTS.operator(
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
        CUBE,
        of_rank(("batch1", "batch2"), 3),
        fit("batch1", "batch2"),
        _added_to(_batch_product),
        out_fits("batch1", "batch2"),
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
    return product(call, "batch1", "batch2", "self")


def _batch_sum_shape(call: Call) -> Shape:
    return call.tensor("batch1").shape[1], call.tensor("batch2").shape[2]


@ADDED_PRODUCTS.operator(
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
        CUBE,
        of_rank(("batch1", "batch2"), 3),
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
    alpha, beta = (np.float32(as_float(call[name])) for name in ("alpha", "beta"))

    def compute(arrays: Arrays, threads: Threads) -> None:
        first, second, out = (arrays[name] for name in ("batch1", "batch2", "out"))
        added = np.broadcast_to(arrays["self"], out.shape)

        def rows(cut: slice) -> None:
            total = np.zeros_like(out[cut])
            for left, right in zip(first, second, strict=True):
                np.add(total, left[cut] @ right, out=total)
            np.multiply(total, alpha, out=total)
            np.add(total, added[cut] * beta if beta != 0 else np.float32(0), out=out[cut])

        in_blocks(threads, len(out), second[0].size // 8 if len(second) else 1, rows)

    half = call["cubeMathType"] == CUBE_MATH_TYPES["USE_FP16"]
    names = ("batch1", "batch2", "self")
    return staged(call, compute, names, ("out",), via=dtypes.FLOAT16 if half else None)


def _rows_of_mat(call: Call) -> Shape:
    return call.tensor("mat").shape[:1]


@ADDED_PRODUCTS.operator(
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
        CUBE,
        of_rank(("mat",), 2),
        of_rank(("vec",), 1),
        fit("mat", "vec"),
        _added_to(_rows_of_mat),
        out_fits("mat", "vec"),
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
    return product(call, "mat", "vec", "self")
