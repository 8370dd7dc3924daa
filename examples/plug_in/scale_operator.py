"""An operator of one's own, served like built-in ones once its package is installed."""

import numpy as np

from aclnn import dtypes
from aclnn_server.operators.checking.checks import NotNull, RankUpTo, SameShape, SameType, TypeIn
from aclnn_server.operators.definition import Call, Family, OneLine, Work
from aclnn_server.operators.engines.blocks import elementwise

FAMILY = Family()


@FAMILY.operator(
    """aclnnStatus aclnnScaleGetWorkspaceSize(const aclTensor* x, double factor, aclTensor* out,
       uint64_t* workspaceSize, aclOpExecutor** executor)""",
    outputs=("out",),
    checks=(
        NotNull(("x", "out")),
        TypeIn(("x", "out"), (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16)),
        SameType(("out",), "x"),
        RankUpTo(("x",)),
        SameShape(("out",), "x"),
    ),
    python=OneLine("scale", {"factor": 2.0}),
)
def scale(call: Call) -> Work:
    """Multiplies every element by one factor. Source: this example."""
    factor = np.float32(call["factor"])
    return elementwise(
        call,
        lambda x, out, scratch: np.multiply(x, factor, out=out),
        ("x",),
        "out",
        call.tensor("x").shape,
    )
