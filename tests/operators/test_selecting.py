"""Operators whose results are as large as their elements make them, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from aclnn_server.backends.base import OperatorInfo
from aclnn_server.backends.null import NullBackend
from aclnn_server.operators.catalogue import built_in
from aclnn_server.operators.definition import Operator
from tests.operators.calling import Array, call, shapes
from tests.operators.test_movement import numbers, refusal, views


def flags(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(8).random(shape) < 0.4


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.uint8, np.bool_])
def test_masked_select_tells_how_many_there_are(dtype: npt.DTypeLike) -> None:
    x, mask = numbers((40, 50), dtype), flags((40, 50))
    for source in views(x):
        for chosen in (*views(mask), mask.astype(np.uint8)):
            out = np.ones(2000, dtype)
            assert shapes("aclnnMaskedSelect", source, chosen, out) == {"out": (mask.sum(),)}
            np.testing.assert_array_equal(out[: mask.sum()], x[mask])
            assert (out[mask.sum() :] == 1).all()


def test_masked_select_broadcasts_and_casts() -> None:
    x, mask = numbers((3, 1, 4)), flags((5, 1))
    out = np.full(2 * 60, -1, np.int32)[::2]
    expected = np.broadcast_to(x, (3, 5, 4))[np.broadcast_to(mask, (3, 5, 4))]
    assert shapes("aclnnMaskedSelect", x, mask, out) == {"out": expected.shape}
    np.testing.assert_array_equal(out[: expected.size], expected.astype(np.int32))
    assert (out[expected.size :] == -1).all()


def test_masked_select_may_write_where_it_reads() -> None:
    x, mask = numbers((30,)), flags((30,))
    expected = x[mask]
    call("aclnnMaskedSelect", x, mask, x)
    np.testing.assert_array_equal(x[: expected.size], expected)


@pytest.mark.parametrize("shape", [(7,), (4, 5), (3, 1, 6), (0, 3)])
def test_nonzero_gives_positions_as_rows_or_columns(shape: tuple[int, ...]) -> None:
    x = np.where(flags(shape), np.float32(np.nan), np.float32(-0.0))
    expected = np.argwhere(flags(shape))
    out = np.full((x.size, len(shape)), -1, np.int64)
    assert shapes("aclnnNonzero", x, out) == {"out": expected.shape}
    np.testing.assert_array_equal(out[: len(expected)], expected)
    assert (out[len(expected) :] == -1).all()
    turned = np.full((len(shape), x.size), -1, np.int64)
    assert shapes("aclnnNonzeroV2", x, turned) == {"out": expected.T.shape}
    np.testing.assert_array_equal(turned.reshape(-1)[: expected.size], expected.T.reshape(-1))


@pytest.mark.parametrize(("value", "count"), [(0, 0), (3, 1)])
def test_nonzero_of_no_dimensions(value: int, count: int) -> None:
    x, out = np.array(value, np.int8), np.zeros((1, 0), np.int64)
    assert shapes("aclnnNonzero", x, out) == {"out": (count, 0)}
    assert shapes("aclnnNonzeroV2", x, out) == {"out": (0, count)}


def test_refusals() -> None:
    x, mask, out = numbers((2, 3)), flags((2, 3)), np.zeros(6, np.float32)
    assert refusal("aclnnMaskedSelect", x, mask[:, :2], out) == (161002, "mask")
    assert refusal("aclnnMaskedSelect", x, mask, out[:5]) == (161002, "out")
    assert refusal("aclnnMaskedSelect", x, mask, out.reshape(2, 3)) == (161002, "out")
    assert refusal("aclnnMaskedSelect", x, mask.astype(np.int32), out) == (161002, "mask")
    assert refusal("aclnnNonzero", x, np.zeros((5, 2), np.int64)) == (161002, "out")
    assert refusal("aclnnNonzero", x, np.zeros((6, 2), np.int32)) == (161002, "out")


def shaped(operator: Operator | OperatorInfo) -> tuple[str, ...]:
    """The outputs whose shape only the run tells."""
    return tuple(row.name for row in operator.signature.parameters if row.shaped_by_data)


def test_the_catalogue_names_outputs_that_are_shaped_by_data() -> None:
    marked = {name: shaped(row) for name, row in built_in().items() if shaped(row)}
    assert marked.items() >= {"aclnnMaskedSelect": ("out",), "aclnnNonzero": ("out",)}.items()
    told = NullBackend().operators
    assert {name: shaped(told[name]) for name in marked} == marked


@pytest.mark.parametrize(
    "operator", [row for row in built_in().values() if shaped(row)], ids=lambda row: row.name
)
def test_marked_outputs_exist(operator: Operator) -> None:
    outputs = {row.name for row in operator.signature.outputs}
    assert set(shaped(operator)) <= outputs
