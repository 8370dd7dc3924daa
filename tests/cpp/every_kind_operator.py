"""An operator with a parameter of every kind, which writes down what it was given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aclnn.dtypes import DType
from aclnn.tensors import Scalar, TensorSpec
from aclnn_server.operators.checking.checks import NotNull
from aclnn_server.operators.definition import Array, Call, Family, Memory, Work
from aclnn_server.operators.engines.threads import Threads

FAMILY = Family()
ROOM = 2000
"""Bytes of the output: ``name=value`` lines in UTF-8."""


@dataclass(frozen=True)
class Writing:
    """Writes a text."""

    text: bytes
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes it into the output's storage."""
        memory["out"][: len(self.text)] = np.frombuffer(self.text, np.uint8)


@FAMILY.operator(
    """aclnnStatus aclnnEveryKindGetWorkspaceSize(const aclTensor* tensor,
    const aclTensorList* tensors, const aclScalar* scalar, const aclScalarList* scalars,
    const aclIntArray* integers, const aclFloatArray* floats, const aclBoolArray* flags,
    const char* text, int64_t i64, int32_t i32, int8_t i8, uint64_t u64, bool flag, double f64,
    float f32, aclDataType type, aclTensor* out, uint64_t* workspaceSize,
    aclOpExecutor** executor)""",
    outputs=("out",),
    optional=("tensor", "tensors", "scalar", "scalars", "integers", "floats", "flags", "text"),
    checks=(NotNull(("out",)),),
)
def every_kind(call: Call) -> Work:
    """Writes down its arguments. Source: this project's tests."""
    rows = [row.name for row in call.signature.parameters if row.name != "out"]
    lines = [f"{name}={_told(call[name])}\n" for name in rows]
    return Writing("".join(lines).encode().ljust(ROOM, b"\0"))


def _told(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_told, value)) + "]"
    if isinstance(value, TensorSpec):
        return (
            f"{value.dtype} {value.format} {value.shape} {value.strides} {value.offset} "
            f"{value.storage_shape}"
        )
    if isinstance(value, Scalar):
        return f"{value.dtype} {value.value!r}"
    return str(value) if isinstance(value, DType) else repr(value)
