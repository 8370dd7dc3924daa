"""The gradient of a table from which rows were looked up."""

from __future__ import annotations

import numpy as np

from aclnn_server.operators.checking.checks import Holds, NotNull, RankUpTo, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import INDEXES, HasShape
from aclnn_server.operators.definition import Call, Family, Work
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.staging import Arrays, in_blocks, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.movement.indexing import places_of
from aclnn_server.operators.networks.matmul import FLOATS
from aclnn_server.operators.products import ASCEND310B

EMBEDDING_GRADIENT = Family()


def _check_grad(call: Call) -> None:
    grad, index = call.tensor("grad").shape, call.tensor("indices").shape
    if not grad or grad[:-1] != index:
        raise call.invalid(
            "grad",
            f"grad has shape {list(grad)}; it must have {list(index)}, the shape of indices, and one "
            "dimension more",
        )


def _table(call: Call) -> Shape:
    return call["numWeights"], call.tensor("grad").shape[-1]


@EMBEDDING_GRADIENT.operator(
    """
    aclnnStatus aclnnEmbeddingDenseBackwardGetWorkspaceSize(
        const aclTensor* grad, const aclTensor* indices, uint64_t numWeights, uint64_t paddingIdx,
        bool scaleGradByFreq, const aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("grad", "indices", "out")),
        TypeIn(("grad", "out"), FLOATS),
        SameType(("out",), "grad"),
        TypeIn(("indices",), INDEXES),
        RankUpTo(("grad", "indices", "out")),
        Holds("grad has the shape of indices and one dimension more", _check_grad),
        HasShape("out", "numWeights rows of the columns of grad", _table),
    ),
)
def embedding_dense_backward(call: Call) -> Work:
    """Gradient of a table from which rows were looked up.

    $$out_i = \\sum_{indices_j = i} grad_j$$

    - Row paddingIdx stays 0; a number that is no row, as -1 in 64 bits without a sign, means none.
    - With scaleGradByFreq, each row is divided by how often it was looked up.
    - An index outside of 0 to numWeights - 1 makes the execution fail, before anything is written.
    - FLOAT16 and BF16 are added in FLOAT, and rounded once.
    - Deterministic, at any number of threads: rows are added in the order of the indexes.

    Source: the public documentation of aclnnEmbeddingDenseBackward (hicann/ops-nn,
    index/embedding_dense_grad_v2); the order of checks is not documented.
    """
    name = call.signature.name
    rows, padding, scaled = call["numWeights"], call["paddingIdx"], bool(call["scaleGradByFreq"])

    def compute(arrays: Arrays, threads: Threads) -> None:
        places = places_of(arrays["indices"], rows, name).reshape(-1)
        out = arrays["out"]
        grad = arrays["grad"].reshape(len(places), out.shape[1])
        order = np.argsort(places, kind="stable")
        found, starts, counts = np.unique(places[order], return_index=True, return_counts=True)
        divisors = counts.astype(np.float32)[:, np.newaxis]

        def columns(cut: slice) -> None:
            out[:, cut] = 0
            if not len(places):
                return
            sums = np.add.reduceat(grad[order, cut], starts, axis=0)
            out[found, cut] = sums / divisors if scaled else sums
            if padding < rows:
                out[padding, cut] = 0

        in_blocks(threads, out.shape[1], max(len(places), rows), columns)

    return staged(call, compute, ("grad", "indices"), ("out",), raw=("indices",))
