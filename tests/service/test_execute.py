"""Phase two: the workspace, bindings and repeatable executors, and what it answers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from aclnn.errors import (
    AclnnError,
    ExecutorUsedError,
    HandleNotFoundError,
    InvalidParameterError,
    NullPointerError,
    OutOfMemoryError,
)
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from tests.service.calling import Caller, Unary
from tests.service.conftest import Serve
from tests.service.gated import GatedBackend
from tests.service.requests import (
    bytes_of,
    digit,
    failing,
    floats,
    number,
    outputs,
    passing,
    plan,
    plus,
    run,
    scratch,
    tensor,
)


def not_run(
    caller: Caller,
    request: op.ExecuteRequest,
    kind: type[AclnnError],
    *,
    parameter: str,
    says: list[str],
    code: int | None = None,
) -> None:
    """Phase two is refused, names the operator at fault, and the one-shot executor is freed by it."""
    with pytest.raises(kind) as caught:
        caller(request)
    error = caught.value
    assert error.code == (code or kind.default_code)
    assert error.parameter == parameter
    for text in says:
        assert text in error.message
    with pytest.raises(ExecutorUsedError):
        caller(run(request.executor_id))


@pytest.fixture
def tidy(caller: Caller, backend: GatedBackend) -> Iterator[Caller]:
    """A client with buffer 1 of 100 bytes; what the test refuses leaves nothing else, and ran nothing."""
    caller(pb.MallocRequest(buffer_id=1, bytes=100))
    yield caller
    assert backend.device.runs == []
    usage = caller(pb.RenewContextRequest()).usage
    assert (usage.bytes, usage.buffers, usage.executors, usage.queued_commands) == (100, 1, 0, 0)


# --- workspace ------------------------------------------------------------------------------------


def test_a_workspace_that_is_null(tidy: Caller) -> None:
    tidy(scratch(64, executor=1))
    request = run(1, workspace=op.Workspace(bytes=64))
    says = ["aclnnScratch", "workspace is null", "64"]
    not_run(tidy, request, NullPointerError, parameter="workspace", says=says)


@pytest.mark.parametrize(("buffer_id", "size"), [(0, 0), (1, 0), (1, 63)])
def test_a_workspace_that_is_too_small(tidy: Caller, buffer_id: int, size: int) -> None:
    tidy(scratch(64, executor=1))
    request = run(1, workspace=op.Workspace(buffer_id=buffer_id, bytes=size))
    says = [f"workspaceSize is {size}", "planned 64"]
    not_run(tidy, request, InvalidParameterError, parameter="workspaceSize", says=says)


@pytest.mark.parametrize(("offset", "size"), [(0, 101), (37, 64), (101, 64), (2**64 - 1, 64)])
def test_a_workspace_outside_its_buffer(tidy: Caller, offset: int, size: int) -> None:
    tidy(scratch(64, executor=1))
    request = run(1, workspace=op.Workspace(buffer_id=1, offset=offset, bytes=size))
    says = [f"bytes {offset} to {offset + size} of buffer 1", "100"]
    not_run(tidy, request, InvalidParameterError, parameter="workspace", says=says)


def test_a_workspace_in_a_buffer_that_does_not_exist(tidy: Caller) -> None:
    tidy(scratch(64, executor=1))
    request = run(1, workspace=op.Workspace(buffer_id=2, bytes=64))
    not_run(tidy, request, HandleNotFoundError, parameter="workspace", says=["buffer 2"])


def test_a_workspace_that_is_large_enough(caller: Caller) -> None:
    caller(pb.MallocRequest(buffer_id=1, bytes=100))
    for workspace in (
        op.Workspace(buffer_id=1, offset=36, bytes=64),
        op.Workspace(buffer_id=1, bytes=100),
        None,
    ):
        planned = caller(scratch(64))
        assert planned.workspace_bytes == 64
        assert outputs(caller(run(planned.executor_id, workspace=workspace))) == [[7.0, 8.0]]
    for workspace in (op.Workspace(), op.Workspace(buffer_id=1), None):
        planned = caller(scratch(0))
        assert planned.workspace_bytes == 0
        assert outputs(caller(run(planned.executor_id, workspace=workspace))) == [[7.0, 8.0]]


def test_the_lent_workspace_grows_and_is_shared(caller: Caller, backend: GatedBackend) -> None:
    sizes = []
    for size in (100, 50, 200, 100):
        caller(run(caller(scratch(size)).executor_id))
        sizes.append(caller(pb.RenewContextRequest()).usage.bytes)
    assert sizes == [100, 100, 200, 200]
    # It is the session's, not the client's.
    assert caller(pb.RenewContextRequest()).usage.buffers == 0

    stream = caller(pb.CreateStreamRequest()).stream_id
    caller(run(caller(scratch(70)).executor_id, stream=stream))
    assert caller(pb.RenewContextRequest()).usage.bytes == 270
    caller(pb.DestroyStreamRequest(stream_id=stream))
    assert caller(pb.RenewContextRequest()).usage.bytes == 200


def test_the_lent_workspace_grows_behind_work_that_uses_it(
    caller: Caller, backend: GatedBackend
) -> None:
    caller(pb.MallocRequest(buffer_id=1, bytes=2**21))
    out = tensor([2], storage_shape=[2**19], buffer_id=1)
    for gate, size in ((1, 100), (0, 300), (0, 200)):
        request = plan("aclnnScratch", floats(7, 8), number(size), number(gate), out)
        caller(run(caller(request).executor_id, asynchronous=True))
    backend.gates[1].wait_entered()
    assert caller(pb.RenewContextRequest()).usage.bytes == 2**21 + 3 * 8 + 100 + 300
    backend.gates[1].open()
    caller(pb.SynchronizeStreamRequest())
    assert caller(pb.RenewContextRequest()).usage.bytes == 2**21 + 300


def test_growing_a_workspace_needs_room_for_the_new_one_only(serve: Serve) -> None:
    client = Unary(serve(max_context_bytes=1000))
    for size in (600, 900):
        assert outputs(client(run(client(scratch(size)).executor_id))) == [[7.0, 8.0]]
    client(scratch(999, executor=1))
    says = ["context has 992 free of its 1000"]
    not_run(client, run(1), OutOfMemoryError, parameter="", says=says)
    assert outputs(client(run(client(scratch(900)).executor_id))) == [[7.0, 8.0]]


# --- answers --------------------------------------------------------------------------------------


def test_an_output_that_is_returned_cannot_be_asynchronous(stubs_caller: Unary) -> None:
    stubs_caller(plus(executor=1))
    request = run(1, asynchronous=True)
    says = ["asynchronous is set", "no buffer"]
    not_run(stubs_caller, request, InvalidParameterError, parameter="asynchronous", says=says)


@pytest.fixture
def stubs_caller(serve: Serve) -> Unary:
    """A client of unary calls."""
    return Unary(serve())


def test_an_output_comes_back_as_it_was_described(caller: Caller) -> None:
    out = tensor([2], strides=[2], offset=1, storage_shape=[4], data=bytes_of(0, 1, 2, 3))
    caller(plan("aclnnPlus", floats(10, 20), number(1), out, executor=1))
    (output,) = caller(run(1)).outputs
    assert (output.argument, output.element) == (2, 0)
    found = output.tensor
    assert (list(found.shape), list(found.strides), found.offset) == ([2], [2], 1)
    assert list(found.storage_shape) == [4]
    assert np.frombuffer(found.data, np.float32).tolist() == [0.0, 11.0, 2.0, 21.0]


def test_empty_tensors(caller: Caller) -> None:
    for source in (tensor([0]), tensor([0], data=b"")):
        caller(plan("aclnnPlus", source, number(1), tensor([0]), executor=1))
        (output,) = caller(run(1)).outputs
        assert (list(output.tensor.shape), output.tensor.data) == ([0], b"")


def test_timing_is_told_where_asked(caller: Caller) -> None:
    caller(plus(executor=1, repeatable=True))
    assert not caller(run(1)).HasField("timing")
    bound = [op.Binding(argument=0, data=bytes_of(5, 6))]
    timing = caller(run(1, bindings=bound, timing=True)).timing
    assert timing.run_ns > 0
    assert timing.queue_ns >= 0
    assert timing.copy_in_ns > 0
    assert timing.copy_out_ns > 0


# --- repeatable executors -------------------------------------------------------------------------


@pytest.fixture
def repeatable(caller: Caller) -> Caller:
    """A client with repeatable executor 1, which adds 1 to [1, 2], and buffers 1 and 2 of 16 bytes."""
    caller(plus(executor=1, repeatable=True))
    caller(pb.MallocRequest(buffer_id=1, bytes=16))
    caller(pb.MallocRequest(buffer_id=2, bytes=16))
    caller(pb.WriteBufferRequest(buffer_id=1, data=bytes_of(10, 20, 30, 40)))
    return caller


def test_it_runs_until_it_is_destroyed(repeatable: Caller) -> None:
    for _ in range(3):
        assert outputs(repeatable(run(1))) == [[2.0, 3.0]]
    assert repeatable(pb.RenewContextRequest()).usage.executors == 1
    repeatable(op.DestroyExecutorRequest(executor_id=1))
    usage = repeatable(pb.RenewContextRequest()).usage
    assert (usage.executors, usage.bytes) == (0, 32)
    with pytest.raises(HandleNotFoundError):
        repeatable(run(1))


def test_inputs_and_outputs_are_bound_for_one_run(repeatable: Caller) -> None:
    inline = op.Binding(argument=0, data=bytes_of(5, 6))
    assert outputs(repeatable(run(1, bindings=[inline]))) == [[6.0, 7.0]]
    buffer = op.Binding(argument=0, buffer_id=1, buffer_offset=8)
    assert outputs(repeatable(run(1, bindings=[buffer]))) == [[31.0, 41.0]]
    into = op.Binding(argument=2, buffer_id=2, buffer_offset=4)
    assert outputs(repeatable(run(1, bindings=[buffer, into]))) == []
    data = repeatable(pb.ReadBufferRequest(buffer_id=2, bytes=16)).data
    assert np.frombuffer(data, np.float32).tolist() == [0.0, 31.0, 41.0, 0.0]
    assert outputs(repeatable(run(1))) == [[2.0, 3.0]]  # as planned
    assert repeatable(pb.RenewContextRequest()).usage.bytes == 32 + 8


def test_tensors_without_a_storage_are_bound_later(caller: Caller) -> None:
    caller(plan("aclnnPlus", tensor([2]), number(1), tensor([2]), executor=1, repeatable=True))
    with pytest.raises(NullPointerError, match="self has no storage"):
        caller(run(1))
    bound = [op.Binding(argument=0, data=bytes_of(5, 6))]
    assert outputs(caller(run(1, bindings=bound))) == [[6.0, 7.0]]


def test_an_output_in_a_buffer_is_bound_to_the_response(caller: Caller) -> None:
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    out = tensor([2], buffer_id=1)
    caller(plan("aclnnPlus", floats(1, 2), number(1), out, executor=1, repeatable=True))
    assert outputs(caller(run(1, bindings=[op.Binding(argument=2)]))) == [[2.0, 3.0]]
    assert caller(pb.ReadBufferRequest(buffer_id=1, bytes=8)).data == bytes(8)


BAD_BINDINGS = [
    (op.Binding(argument=1, data=bytes(8)), "bindings", ["tensor 0 of argument 1"]),
    (op.Binding(argument=3, data=bytes(8)), "bindings", ["argument 3"]),
    (op.Binding(argument=2**32 - 1, data=bytes(8)), "bindings", [str(2**32 - 1)]),
    (op.Binding(argument=0, element=1, data=bytes(8)), "bindings", ["tensor 1 of argument 0"]),
    (op.Binding(argument=0, data=bytes(7)), "self", ["7 bytes", "needs 8"]),
    (op.Binding(argument=2, data=b""), "out", ["0 bytes", "needs 8"]),
    (op.Binding(argument=0, buffer_id=1, buffer_offset=9), "self", ["bytes 9 to 17", "16"]),
    (op.Binding(argument=2, buffer_id=1, buffer_offset=2**64 - 1), "out", ["16"]),
]


@pytest.mark.parametrize(("binding", "parameter", "says"), BAD_BINDINGS)
def test_bindings_that_do_not_fit(
    repeatable: Caller, binding: op.Binding, parameter: str, says: list[str]
) -> None:
    before = repeatable.usage()
    good = op.Binding(argument=0, data=bytes(8))
    for bindings in ([binding], [good, binding]):
        with pytest.raises(InvalidParameterError) as caught:
            repeatable(run(1, bindings=bindings))
        assert (caught.value.parameter, caught.value.operator) == (parameter, "aclnnPlus")
        assert all(text in caught.value.message for text in says)
        assert repeatable.usage() == before
    assert outputs(repeatable(run(1))) == [[2.0, 3.0]]


def test_bindings_to_buffers_that_do_not_exist(repeatable: Caller) -> None:
    for argument, parameter in ((0, "self"), (2, "out")):
        with pytest.raises(HandleNotFoundError, match="buffer 3 does not exist") as caught:
            repeatable(run(1, bindings=[op.Binding(argument=argument, buffer_id=3)]))
        assert caught.value.parameter == parameter


def test_inputs_bound_to_nothing(repeatable: Caller) -> None:
    with pytest.raises(NullPointerError, match="self has no storage"):
        repeatable(run(1, bindings=[op.Binding(argument=0)]))


def test_one_shot_executors_take_no_bindings(tidy: Caller) -> None:
    tidy(plus(executor=1))
    request = run(1, bindings=[op.Binding(argument=0, data=bytes(8))])
    says = ["not repeatable"]
    not_run(tidy, request, InvalidParameterError, parameter="bindings", says=says)


def test_destroyed_while_its_work_is_queued(caller: Caller, backend: GatedBackend) -> None:
    """What it brought inline lives as long as the work that it queued."""
    caller(pb.MallocRequest(buffer_id=1, bytes=2**21))
    out = tensor([2], storage_shape=[2**19], buffer_id=1)
    caller(passing(1, buffer=1, executor=1))
    caller(plan("aclnnPlus", floats(1, 2), number(1), out, executor=2, repeatable=True))
    request = plan("aclnnPass", floats(7, 8), number(1), out, executor=3, repeatable=True)
    caller(request)
    for executor in (3, 2):
        caller(run(executor, asynchronous=True))
        caller(op.DestroyExecutorRequest(executor_id=executor))
    backend.gates[1].wait_entered()
    assert caller(pb.RenewContextRequest()).usage.bytes == 2**21 + 3 * 8

    backend.gates[1].open()
    caller(pb.SynchronizeStreamRequest())
    data = caller(pb.ReadBufferRequest(buffer_id=1, bytes=8)).data
    assert np.frombuffer(data, np.float32).tolist() == [2.0, 3.0]
    assert caller(pb.RenewContextRequest()).usage.bytes == 2**21 + 8


def test_its_stream_destroyed_while_it_runs_in_another(
    caller: Caller, backend: GatedBackend
) -> None:
    caller(pb.MallocRequest(buffer_id=1, bytes=2**21))
    stream = caller(pb.CreateStreamRequest()).stream_id
    out = tensor([2], storage_shape=[2**19], buffer_id=1)
    arguments = ("aclnnPass", floats(7, 8), number(1), out)
    caller(plan(*arguments, executor=1, repeatable=True, stream=stream))
    caller(run(1, asynchronous=True))
    backend.gates[1].wait_entered()
    caller(pb.DestroyStreamRequest(stream_id=stream))
    with pytest.raises(HandleNotFoundError):
        caller(run(1))
    backend.gates[1].open()
    caller(pb.SynchronizeStreamRequest())
    data = caller(pb.ReadBufferRequest(buffer_id=1, bytes=8)).data
    assert np.frombuffer(data, np.float32).tolist() == [7.0, 8.0]


def test_a_failed_run_leaves_it_as_it_was(caller: Caller) -> None:
    caller(pb.MallocRequest(buffer_id=1, bytes=8))
    caller(failing(3, 1, executor=1, repeatable=True))
    for _ in range(2):
        caller(run(1, asynchronous=True))
        with pytest.raises(AclnnError, match="failed with 3"):
            caller(pb.SynchronizeStreamRequest())
    caller(digit(4, 1, executor=2))
    caller(run(2))
    data = caller(pb.ReadBufferRequest(buffer_id=1, bytes=8)).data
    assert np.frombuffer(data, np.int64).tolist() == [4]
