"""Inputs that change while a kernel reads them: results may be anything, but nothing else is touched.

Another stream may write them, or a client that shares the memory. Here they are overwritten before every
line of the kernels' code, with numbers that no check would let pass.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import aclnn_server.operators as package
from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.errors import AclnnError
from aclnn_server.operators.catalogue import built_in
from aclnn_server.operators.definition import Operator
from aclnn_server.operators.movement.indexing import places_of
from tests.operators.calling import Array, device
from tests.operators.samples import Sample, sample
from tests.operators.test_every_operator import NOT_FOR

KERNELS = str(Path(package.__file__).parent)
FILLS = (0x7F, 0x80, 0xFF, 0x00, 0x3C)
"""Bytes of integers far outside on either side, of numbers that are none, of 0, and of small ones."""
GUARD = 4096
SHAPE = (6, 7)
CASES = [
    pytest.param(operator, dtype, id=f"{operator.name}-{dtype}")
    for operator in built_in().values()
    for dtype in (dtypes.FLOAT, dtypes.INT64, dtypes.BOOL)
    if dtype in next(iter(operator.dtypes.values()), (dtypes.FLOAT,))
    and dtype.name not in NOT_FOR.get(operator.name, ())
]


def guarded(array: Array, guards: list[Array]) -> Array:
    """An equal array between two guards, which nobody may touch."""
    room = np.full(array.nbytes + 2 * GUARD, 0x5A, np.uint8)
    guards += [room[:GUARD], room[-GUARD:]]
    inside: Array = room[GUARD : GUARD + array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return inside


def inputs_of(made: Sample) -> list[Array]:
    """The tensors that the call only reads."""
    found: list[Array] = []
    for row in made.operator.signature.parameters:
        value = made.values[row.name]
        if not row.output and isinstance(value, list | np.ndarray):
            found += value if isinstance(value, list) else [value]
    return found


@contextlib.contextmanager
def before_every_line(act: Callable[[], None]) -> Iterator[None]:
    """Calls `act` before every line of the kernels that this thread runs."""

    def trace(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401 - as settrace has it
        if not frame.f_code.co_filename.startswith(KERNELS):
            return None
        act()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize(("operator", "dtype"), CASES)
def test_every_operator_stays_inside_its_memory(operator: Operator, dtype: DType) -> None:
    guards: list[Array] = []
    made = sample(operator, SHAPE, dtype).with_arrays(lambda array: guarded(array, guards))
    inputs, fills = inputs_of(made), cycle(FILLS)
    on = device(1)
    made.run(on)  # so that the plan is known, and only the kernel is traced
    lines = 0

    def overwrite() -> None:
        nonlocal lines
        lines += 1
        value = next(fills)
        for array in inputs:
            array.reshape(-1).view(np.uint8).fill(value)

    with before_every_line(overwrite), contextlib.suppress(AclnnError):
        made.run(on)
    assert lines
    assert all((guard == 0x5A).all() for guard in guards)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5)], ids=str)
@pytest.mark.parametrize("negative", [False, True])
def test_what_is_checked_of_indexes_is_a_copy(
    shape: tuple[int, ...], dtype: npt.DTypeLike, negative: bool
) -> None:
    index: Array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype) % 9
    views = [index, index.T, index[..., ::-1] if shape else index]
    if negative:
        index -= 9 * (index % 2)
    for view in views:
        expected = view % 9
        places = places_of(view, 9, "aclnnGatherV2", negative=negative)
        assert not np.may_share_memory(places, index)
        np.testing.assert_array_equal(places, expected)
