"""Calls of the test backend's operators, and how often the client asked and waited for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from aclnn_client import Context, Executor, Scalar, Tensor, get_workspace_size


def passing(context: Context, gate: int = 0) -> tuple[Tensor, Tensor, Executor]:
    """A planned call of aclnnPass: source, output, executor."""
    source, out = context.tensor(np.arange(4)), context.empty((4,), "int64")
    size, executor = get_workspace_size("aclnnPass", (source, gate, out))
    assert size == 0
    return source, out, executor


def echo(context: Context, **changes: object) -> tuple[Any, ...]:
    """Arguments of aclnnEcho, in order, some of them changed."""
    values = {
        "self": np.array([1, 2], np.int8),
        "tensors": [context.tensor(np.int16(3)), np.array([4], np.uint8)],
        "scalar": 5,
        "scalars": [True, 6, 7.5, 1j, np.float64(8), Scalar(9, "bfloat16")],
        "ints": (1, np.int64(2)),
        "floats": [0.5, 2],
        "bools": [True, np.False_],
        "text": "half_to_even",
        "wide": -(2**63),
        "word": -(2**31),
        "small": -128,
        "natural": 2**64 - 1,
        "flag": True,
        "real": 0.1,
        "single": 0.5,
        "dtype": "float16",
        "out": context.empty((32,), "uint8"),
    }
    return tuple((values | changes).values())


def counts(context: Context) -> tuple[int, int]:
    """Requests sent and results waited for."""
    submitter = context.commands.submitter
    return submitter.requests_sent, submitter.responses_waited
