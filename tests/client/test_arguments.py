"""Arguments of phase one: what arrives for values of every kind, and what is refused."""
# ruff: noqa: ANN401 - wrong values are given on purpose

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aclnn import dtypes
from aclnn_client import (
    Context,
    InvalidParameterError,
    OperatorNotFoundError,
    Scalar,
    connect,
    execute,
    get_workspace_size,
    ops,
)
from aclnn_server.server import Server
from tests.client.calls import echo
from tests.service.gated import GatedBackend


def run_echo(context: Context, backend: GatedBackend, **changes: Any) -> tuple[Any, ...]:
    """Runs aclnnEcho and gives the arguments that arrived."""
    size, executor = get_workspace_size("aclnnEcho", echo(context, **changes), context=context)
    execute("aclnnEcho", None, size, executor)
    context.synchronize()
    return backend.device.given[-1]


def test_arguments_of_every_kind_arrive(gated: Context, backend: GatedBackend) -> None:
    given = run_echo(gated, backend)
    assert [spec.dtype for spec in given[1]] == [dtypes.INT16, dtypes.UINT8]
    assert given[2] == Scalar(5, "INT64")
    assert given[3] == (
        Scalar(True, "BOOL"),
        Scalar(6, "INT64"),
        Scalar(7.5, "FLOAT"),
        Scalar(1j, "COMPLEX64"),
        Scalar(8.0, "DOUBLE"),
        Scalar(9.0, "BF16"),
    )
    assert given[4:8] == ((1, 2), (0.5, 2.0), (True, False), "half_to_even")
    assert given[8:12] == (-(2**63), -(2**31), -128, 2**64 - 1)
    assert given[12:16] == (True, 0.1, 0.5, dtypes.FLOAT16)


@pytest.mark.parametrize(
    ("given", "arrives"),
    [(0, dtypes.FLOAT), (np.int64(27), dtypes.BF16), ("ACL_INT8", dtypes.INT8)],
)
def test_an_element_type_may_be_given_as_in_C(
    gated: Context, backend: GatedBackend, given: object, arrives: dtypes.DType
) -> None:
    assert run_echo(gated, backend, dtype=given)[15] is arrives


def test_the_bytes_of_tensors_arrive(gated: Context, backend: GatedBackend) -> None:
    out = gated.empty((32,), "uint8")
    run_echo(gated, backend, out=out)
    assert out.numpy()[:5].tolist() == [1, 2, 3, 0, 4]


@pytest.mark.parametrize("name", ["scalar", "scalars", "ints", "floats", "bools", "text"])
def test_none_is_a_null_pointer(gated: Context, backend: GatedBackend, name: str) -> None:
    given = run_echo(gated, backend, **{name: None})
    names = ["self", "tensors", "scalar", "scalars", "ints", "floats", "bools", "text"]
    assert given[names.index(name)] is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("self", "text", "self is 'text', which is no tensor"),
        ("tensors", 5, "tensors is 5, which is no sequence"),
        ("tensors", "ab", "tensors is 'ab', which is no sequence"),
        ("tensors", [None], "tensors is None, which is no tensor"),
        ("scalar", "5", "scalar is '5', which is no number or Scalar"),
        ("scalars", [None], "scalars is None, which is no number"),
        ("ints", [1.5], "ints is .*, which is no const aclIntArray"),
        ("floats", ["a"], "floats is .*, which is no const aclFloatArray"),
        ("bools", [2], "bools is .*, which is no const aclBoolArray"),
        ("text", 5, "text is 5, which is no const char"),
        ("wide", 2**63, "wide is 9223372036854775808, which is no int64_t"),
        ("wide", 1.5, "wide is 1.5, which is no int64_t"),
        ("wide", None, "wide is None, which is no int64_t"),
        ("small", 128, "small is 128, which is no int8_t"),
        ("natural", -1, "natural is -1, which is no uint64_t"),
        ("flag", "yes", "flag is 'yes', which is no bool"),
        ("real", "1", "real is '1', which is no double"),
        ("dtype", "float31", "dtype is 'float31', which is no aclDataType"),
        ("out", np.zeros(4), "out is a ndarray; an output must be a tensor of the context"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    gated: Context, name: str, value: Any, words: str
) -> None:
    with pytest.raises(InvalidParameterError, match=words) as caught:
        get_workspace_size("aclnnEcho", echo(gated, **{name: value}), context=gated)
    assert (caught.value.operator, caught.value.parameter) == ("aclnnEcho", name)


@pytest.mark.parametrize(("count", "missing"), [(0, "self"), (5, "floats"), (18, "")])
def test_the_number_of_arguments_is_checked(gated: Context, count: int, missing: str) -> None:
    arguments = (*echo(gated), 1)[:count]
    with pytest.raises(
        InvalidParameterError, match=f"got {count} arguments; it takes 17: self, tensors"
    ) as caught:
        get_workspace_size("aclnnEcho", arguments, context=gated)
    assert caught.value.parameter == missing


def test_the_context_is_that_of_the_tensors(gated: Context, gated_server: Server) -> None:
    with connect(gated_server.address) as other:
        mine, theirs = gated.tensor([1]), other.tensor([1])
        for arguments, named in (((mine, 0, theirs), None), ((mine, 0, mine), other)):
            with pytest.raises(InvalidParameterError, match="different contexts") as caught:
                get_workspace_size("aclnnPass", arguments, context=named)
            assert caught.value.parameter == "context"
        with pytest.raises(InvalidParameterError, match="name one with context="):
            get_workspace_size("aclnnPass", (1, 0, None))
        _, executor = get_workspace_size("aclnnPass", (mine, 0, mine), context=gated)
        with pytest.raises(InvalidParameterError, match="stream belongs to another context"):
            executor.run(other.default_stream)


def test_an_operator_that_the_server_lacks(context: Context) -> None:
    with pytest.raises(OperatorNotFoundError, match="aclnnNothing") as caught:
        get_workspace_size("aclnnNothing", (), context=context)
    assert caught.value.code == 100024


def test_an_operator_of_the_distribution_that_the_server_lacks(gated: Context) -> None:
    out = gated.empty((2,), "float32")
    with pytest.raises(OperatorNotFoundError, match="aclnnSmoothL1Loss"):
        ops.aclnnSmoothL1LossGetWorkspaceSize([1.0, 2.0], [1.0, 2.0], 0, 1.0, out)


def test_calls_are_equal_where_their_requests_are(gated: Context, backend: GatedBackend) -> None:
    for value in (5, np.array(5), np.int64(5)):
        assert run_echo(gated, backend, wide=value)[8] == 5
    assert len(gated.plans) == 1
