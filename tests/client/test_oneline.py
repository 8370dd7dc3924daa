"""Operators in one line: arrays in, array out, in one round trip."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aclnn_client import (
    Context,
    InvalidParameterError,
    OperatorNotFoundError,
    OutOfMemoryError,
    Tensor,
    connect,
)
from aclnn_client.arrays import Array, ArrayLike
from aclnn_client.commands import INLINE_BYTES
from aclnn_client.travelling import Template
from aclnn_client.values import written
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.service import known_calls
from aclnn_server.sessions import at_once
from tests.client.calls import counts

RNG = np.random.default_rng(7)
GRAD, X, TARGET = (RNG.normal(0, 2, (4, 2)).astype(np.float32) for _ in range(3))


def reference(grad: ArrayLike, x: ArrayLike, target: ArrayLike, beta: float = 1) -> Array:
    return np.asarray(grad * np.clip((x - target) / beta, -1, 1))


def test_one_line_is_one_round_trip(context: Context) -> None:
    for _ in range(3):
        requests, waits = counts(context)
        got = context.ops.smooth_l1_loss_backward(GRAD, X, TARGET, reduction="none", beta=1.0)
        assert counts(context) == (requests + 1, waits + 1)
        assert type(got) is np.ndarray
        assert got.flags.writeable
        np.testing.assert_allclose(got, reference(GRAD, X, TARGET), rtol=1e-6)


@pytest.mark.parametrize("usual", [True, False])
def test_results_are_read_where_servers_write_them_and_wherever_else_they_stand(
    monkeypatch: pytest.MonkeyPatch, *, usual: bool
) -> None:
    read, found = Template.read, []

    def reading(template: Template, ran: bytes | memoryview) -> list[Array] | None:
        found.append(read(template, ran if usual else bytes(ran) + b"\x7a\0"))
        return found[-1]

    monkeypatch.setattr(Template, "read", reading)
    with (
        Server(ServerConfig(listen="127.0.0.1:0")) as server,
        connect(server.address, shared_memory=False) as context,
    ):
        for x in (X, X[:0], X[0, 0], np.arange(30_000, dtype=np.float32)):
            for _ in range(3):
                np.testing.assert_array_equal(context.ops.neg(x), -x)
        for _ in range(3):
            values, places = context.ops.max_dim(X, 1)
            np.testing.assert_array_equal(values, X.max(1))
            np.testing.assert_array_equal(places, X.argmax(1))
    assert [results is not None for results in found] == [usual] * 15


def test_a_call_that_carries_as_much_as_it_may_is_one_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server makes it in one step, once it knows it."""
    made: list[object] = []
    run = at_once.run_at_once

    def run_at_once(*arguments: Any) -> Any:  # noqa: ANN401
        made.append(run(*arguments))
        return made[-1]

    monkeypatch.setattr(known_calls, "run_at_once", run_at_once)
    x = RNG.normal(0, 2, INLINE_BYTES // 8).astype(np.float32)
    with (
        Server(ServerConfig(listen="127.0.0.1:0")) as server,
        connect(server.address, shared_memory=False) as context,
    ):
        for known in range(3):
            requests, waits = counts(context)
            np.testing.assert_array_equal(context.ops.neg(x), -x)
            assert counts(context) == (requests + 1, waits + 1)
            assert len(made) == known
    assert None not in made


@pytest.mark.parametrize("reduction", ["none", "mean", "sum", 0, 1, 2])
def test_arguments_by_position_name_and_default(context: Context, reduction: str | int) -> None:
    function = context.ops.smooth_l1_loss_backward
    scale = 1 / 8 if reduction in ("mean", 1) else 1
    for got in (
        function(GRAD, X, TARGET, reduction, 0.5),
        function(GRAD, X, target=TARGET, beta=0.5, reduction=reduction),
        function(gradOutput=GRAD, self=X, target=TARGET, reduction=reduction, beta=0.5),
    ):
        np.testing.assert_allclose(got, reference(GRAD, X, TARGET, 0.5) * scale, rtol=1e-6)
    if scale != 1:
        np.testing.assert_array_equal(
            function(GRAD, X, TARGET), function(GRAD, X, TARGET, reduction, 1.0)
        )


@pytest.mark.parametrize("columns", [1, 200, 100_000, 700_000])
def test_results_do_not_depend_on_the_way_that_the_data_takes(
    context: Context, columns: int
) -> None:
    grad, x, target = (RNG.normal(0, 2, (3, columns)).astype(np.float32) for _ in range(3))
    got = context.ops.smooth_l1_loss_backward(grad, x, target, "none")
    np.testing.assert_allclose(got, reference(grad, x, target), rtol=1e-6)
    del got  # which may be a view of shared memory
    assert context.usage().buffers == 0


@pytest.mark.parametrize("columns", [2, 100_000])
def test_views_and_broadcasts(context: Context, columns: int) -> None:
    x = RNG.normal(0, 2, (columns, 3, 2)).astype(np.float32)[::-1, ::2].T
    target = np.asfortranarray(RNG.normal(0, 2, (2, 2, columns)).astype(np.float32))
    got = context.ops.smooth_l1_loss_backward(np.float32(2), x, target, "none")
    assert got.shape == (2, 2, columns)
    assert got.flags.c_contiguous
    np.testing.assert_allclose(got, reference(2, x, target), rtol=1e-6)


def test_a_small_view_of_a_large_array_travels_alone(context: Context) -> None:
    large = np.zeros((1000, 1000), np.float32)
    requests = counts(context)[0]
    context.ops.smooth_l1_loss_backward(large[:2, :2], large[0, :2], large[5, 0], "none")
    assert counts(context)[0] == requests + 1


def test_lists_numbers_and_other_dtypes(context: Context) -> None:
    half = np.array([0.5, 3], np.float16)
    got = context.ops.smooth_l1_loss(half, np.array([[1], [2]], np.float32), reduction="none")
    assert got.dtype == np.float32
    assert got.shape == (2, 2)
    got = context.ops.smooth_l1_loss(half, half * 2, "sum")
    assert got.dtype == np.float16
    assert got.shape == ()
    brain = half.astype(ml_dtypes.bfloat16)
    assert context.ops.smooth_l1_loss(brain, brain).dtype == ml_dtypes.bfloat16


def test_numbers_of_python_are_FLOAT_like_scalars(context: Context) -> None:
    got = context.ops.smooth_l1_loss([1.0, 2], (1.0, 3.0))
    assert (got.dtype, got.shape, got) == (np.float32, (), 0.25)
    assert context.ops.add(1.0, GRAD).dtype == np.float32
    assert context.ops.add([1.0], np.ones(1)).dtype == np.float64


def test_empty_arrays(context: Context) -> None:
    got = context.ops.smooth_l1_loss_backward(GRAD[:0], X[:0], TARGET[:0])
    assert got.shape == (0, 2)


# --- tensors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [2, 100_000])
def test_tensors_in_give_a_tensor_that_stays(context: Context, columns: int) -> None:
    grad, x, target = (RNG.normal(0, 2, (3, columns)).astype(np.float32) for _ in range(3))
    resident = context.tensor(x)
    stream = context.create_stream()
    got = context.ops.smooth_l1_loss_backward(grad, resident, target, "none", stream=stream)
    assert isinstance(got, Tensor)
    assert got.buffer.stream is stream
    np.testing.assert_allclose(got.numpy(), reference(grad, x, target), rtol=1e-6)
    waits = counts(context)[1]
    again = context.ops.smooth_l1_loss_backward(grad, got, target, "none", stream=stream)
    once_more = context.ops.smooth_l1_loss_backward(grad, again, target, "none", stream=stream)
    if columns == 2:  # an upload may have to wait until it is sent
        assert counts(context)[1] == waits
    assert once_more.shape == (3, columns)
    context.synchronize()
    del got, again, once_more
    assert context.usage().buffers == 1


def test_tensors_of_another_context_are_refused(context: Context, server: Server) -> None:
    with connect(server.address) as other:
        theirs = other.tensor(X)
        with pytest.raises(InvalidParameterError, match="self belongs to another context"):
            context.ops.smooth_l1_loss(theirs, TARGET)


# --- failures ---------------------------------------------------------------------------------------


def test_wrong_calls_are_type_errors(context: Context) -> None:
    function = context.ops.smooth_l1_loss
    with pytest.raises(TypeError, match="misses target"):
        function(X)
    with pytest.raises(TypeError, match="takes 4 arguments, and got 5"):
        function(X, X, "none", 1.0, 5)
    with pytest.raises(TypeError, match="has no argument 'gamma'"):
        function(X, X, gamma=2)
    with pytest.raises(TypeError, match="two values for argument 'target'"):
        function(X, X, target=X)


def test_impossible_values_are_refused(context: Context) -> None:
    function = context.ops.smooth_l1_loss
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((X, TARGET, "average"), "reduction is 'average'; allowed are 'none', 'mean', 'sum'"),
        ((X, TARGET[:3]), "broadcast"),
        ((X, TARGET.astype(np.uint16)), "meet in none"),
        ((X, "text"), "target is a str"),
        ((X, None), "target is a NoneType"),
        ((X, TARGET, "none", "a"), "beta is 'a', which is no float"),
    ]
    for arguments, words in cases:
        with pytest.raises(InvalidParameterError, match=words):
            function(*arguments)
    assert context.usage().executors == 0


@pytest.mark.parametrize("columns", [2, 100_000])
@pytest.mark.parametrize("resident", [False, True], ids=["arrays", "a tensor"])
def test_the_servers_refusal_is_told(context: Context, columns: int, resident: bool) -> None:
    x = np.zeros((3, columns), np.int32)
    given = context.tensor(x) if resident else x
    with pytest.raises(InvalidParameterError) as caught:
        context.ops.smooth_l1_loss(given, x)
    assert caught.value.operator == "aclnnSmoothL1Loss"
    assert context.usage().executors == 0
    context.synchronize()
    good = np.ones((3, columns), np.float32)
    assert context.ops.smooth_l1_loss(good, good) == 0


def test_a_server_without_the_operator_says_so(gated: Context) -> None:
    with pytest.raises(OperatorNotFoundError, match="aclnnSmoothL1Loss"):
        gated.ops.smooth_l1_loss(X, TARGET)


def test_no_memory_for_a_large_call_is_told() -> None:
    config = ServerConfig(listen="127.0.0.1:0", max_context_bytes=1 << 20)
    with Server(config) as server, connect(server.address) as small:
        large = np.zeros(1 << 20, np.float32)
        with pytest.raises(OutOfMemoryError, match="4194304"):
            small.ops.smooth_l1_loss(large, large)
        small.synchronize()
        assert small.ops.smooth_l1_loss(X, X) == 0


def test_the_catalogue_of_lines(context: Context) -> None:
    assert "smooth_l1_loss_backward" in dir(context.ops)
    function = context.ops.smooth_l1_loss_backward
    assert function.__name__ == "smooth_l1_loss_backward"
    assert "reduction='mean', beta=1.0" in str(function.__doc__)
    with pytest.raises(AttributeError, match="there is no operator 'nothing'"):
        context.ops.nothing  # noqa: B018


def test_attributes_that_differ_little_are_told_apart(context: Context) -> None:
    x = np.array([2.0], np.float32)
    for beta in (1, 1.0, np.float32(1.0), True, 4.0, np.array(4.0)):
        expected = float(x[0] - 0.5 * float(beta)) if float(beta) < 2 else 0.5
        got = context.ops.smooth_l1_loss(x, x * 0, "none", beta)
        assert got.item() == pytest.approx(expected)
    long = np.arange(2000)
    shuffled = long.copy()
    shuffled[[500, 501]] = shuffled[[501, 500]]
    grid = np.zeros((1,) * 3, np.float32)
    assert written((long,)) is None
    assert written((0.0,)) != written((-0.0,))
    assert written(([1, 2],)) == "[[1, 2]]"
    assert context.ops.smooth_l1_loss(grid, grid, reduction=0).shape == (1, 1, 1)


def test_calls_that_are_alike_are_told_from_those_that_only_seem_so(context: Context) -> None:
    """The first of a kind is looked at; those after it are only filled in."""
    x = np.array([[-2.5, 1.5], [3.5, -0.5]], np.float32)
    given: list[Any] = [
        x, x + 1, x.astype(np.float16), x.astype(">f4"), x.T, x[:, ::-1], x[0], x.view(np.recarray),
        np.asfortranarray(x), x.tolist(), x[:0],
    ]  # fmt: skip
    for _ in range(3):
        for array in given:
            plain = np.asarray(array, None if isinstance(array, np.ndarray) else np.float32)
            zero = np.zeros(plain.shape, plain.dtype.newbyteorder("="))
            found = context.ops.smooth_l1_loss(array, zero, "none")
            distance = np.abs(plain)
            expected = np.where(distance < 1, distance * distance / 2, distance - 0.5)
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == zero.dtype
            assert type(found) is np.ndarray


@pytest.mark.parametrize("rounds", [3])
def test_attributes_of_calls_that_are_alike(context: Context, rounds: int) -> None:
    x = np.array([1.0, 4.0], np.float32)
    zero = np.zeros(2, np.float32)
    for _ in range(rounds):
        assert context.ops.smooth_l1_loss(x, zero, reduction="sum").tolist() == 4.0
        assert context.ops.smooth_l1_loss(x, zero, "sum").tolist() == 4.0
        assert context.ops.smooth_l1_loss(x, zero, "none").tolist() == [0.5, 3.5]
        assert context.ops.smooth_l1_loss(x, zero, reduction=2, beta=2.0).tolist() == 3.25
        assert context.ops.smooth_l1_loss(x, target=zero, reduction=2).tolist() == 4.0
        with pytest.raises(TypeError):
            context.ops.smooth_l1_loss(x, zero, "sum", reduction="sum")


def test_only_so_many_kinds_of_calls_are_remembered(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aclnn_client.oneline.CAPACITY", 2)
    for length in (1, 2, 3, 4, 1, 2):
        x = np.arange(length, dtype=np.float32)
        assert context.ops.smooth_l1_loss(x, x, "none").tolist() == [0.0] * length
    cells = context.ops.smooth_l1_loss.__closure__ or ()
    (templates,) = (cell.cell_contents for cell in cells if isinstance(cell.cell_contents, dict))
    assert 0 < len(templates) <= 2


def test_lines_give_arrays_for_arrays_and_tensors_for_tensors() -> None:
    array = np.array([[0.25, 4.0], [1.0, 9.0]], np.float32)
    with (
        Server(ServerConfig(listen="127.0.0.1:0")) as server,
        connect(server.address) as context,
    ):
        for name in ("abs", "exp", "tanh", "sqrt"):
            line = getattr(context.ops, name)
            np.testing.assert_array_equal(line(array), line(context.tensor(array)).numpy())
        assert context.ops.eq(array, array).dtype == np.bool_
        with pytest.raises(InvalidParameterError, match="no element type"):
            context.ops.cast(array, dtype="float31")
        assert context.ops.cast(array, dtype="float16").dtype == np.float16
