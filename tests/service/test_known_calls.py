"""Calls that are recognised by their bytes end as those that are decoded and planned step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from aclnn import dtypes, wire
from aclnn.arguments import TensorArgument, encode
from aclnn.dtypes import DType
from aclnn.signatures import Kind, Parameter
from aclnn.tensors import TensorSpec
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn.v1 import tensor_pb2 as t
from aclnn_server.config import ServerConfig
from aclnn_server.operators.catalogue import built_in
from aclnn_server.operators.definition import Operator
from aclnn_server.server import Server
from aclnn_server.service.known_calls import KnownCalls
from tests.operators.samples import sample
from tests.service.requests import floats, inline, number, real, tensor
from tests.service.submitting import NAME, Submit, loss, refusal, returned, submitting

SHAPE = (2, 3)
QUOTA = 1 << 16
OPERATORS = list(built_in().values())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(ServerConfig(listen="127.0.0.1:0", max_context_bytes=QUOTA)) as running:
        yield running


@pytest.fixture
def submit(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Submit]:
    with submitting(server, monkeypatch) as submit:
        yield submit


# --- what is recognised gives the same ---------------------------------------------------------------


def _argument(row: Parameter, value: Any) -> t.Argument:  # noqa: ANN401
    if isinstance(value, np.ndarray):
        if row.output and row.name != "selfRef":
            spec = TensorSpec.contiguous(value.shape, dtypes.dtype(value.dtype))
            return encode(row, TensorArgument(spec))
        return inline(value)
    if row.kind is Kind.TENSOR_LIST and value is not None:
        return t.Argument(tensor_list=t.TensorList(tensors=[inline(v).tensor for v in value]))
    return encode(row, value)


def _dtype(operator: Operator) -> DType:
    rows = [row for row in operator.signature.parameters if row.kind.holds_tensors]
    names = [row.name for row in rows if row.name != "condition"]
    allowed = operator.dtypes.get(names[0], (dtypes.FLOAT,))
    return dtypes.FLOAT if dtypes.FLOAT in allowed else allowed[0]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
@pytest.mark.parametrize("shape", [SHAPE, (0, 3)], ids=["some", "none"])
def test_every_operator_answers_the_same_when_it_is_recognised(
    submit: Submit, operator: Operator, shape: tuple[int, ...]
) -> None:
    values = sample(operator, shape, _dtype(operator)).values
    rows = operator.signature.parameters
    arguments = [_argument(row, values[row.name]) for row in rows]
    submit.applier.known = KnownCalls()  # what other contexts did is forgotten
    first = submit.both(arguments, operator.name)
    assert submit.recognised == [False]
    for _ in range(2):  # by what stands in the arguments, and by all bytes
        assert submit.both(arguments, operator.name) == first
    failed = first[0].HasField("error")
    lists = any(row.kind is Kind.TENSOR_LIST for row in rows)
    shaped = any(row.shaped_by_data for row in rows)
    in_place = any(row.name == "selfRef" and values[row.name] is not None for row in rows)
    known = not (failed or lists or in_place or shaped)
    assert submit.recognised == [False, known, known]


def test_new_bytes_give_a_new_result(submit: Submit) -> None:
    submit.both(loss(0, 1, 2, 3))
    _, ran = submit.both(loss(5, 0.5, 1, -7))
    assert submit.recognised[-1]
    assert returned(ran) == [1.0, -0.5, 0.0, -1.0]


@pytest.mark.parametrize("beta", [-0.0, float("nan"), 2.0, -1.0])
def test_another_number_is_another_call(submit: Submit, beta: float) -> None:
    submit.both(loss(0, 1))
    submit.both(loss(0, 1))
    assert submit.recognised[-1]
    submit.both(loss(0, 1, beta=beta))
    assert not submit.recognised[-1]


def test_buffers_are_found_anew_at_every_call(submit: Submit) -> None:
    for buffer_id, value in ((1, 3.0), (200, 5.0), (70_000, 0.5)):
        submit.buffer(buffer_id, np.full(4, value, np.float32).tobytes())

    def call(source: int, target: int, offset: int = 0) -> pb.Result:
        here = tensor([2], buffer_id=source, buffer_offset=offset)
        there = tensor([2], buffer_id=target)
        arguments = [floats(1, 1), here, floats(0, 0), number(0), real(1.0), there]
        return submit.both(arguments)[1]

    for source, target, offset in ((1, 200, 8), (1, 200, 8), (70_000, 1, 0), (70_000, 1, 0)):
        assert call(source, target, offset) == pb.Result(execute=op.ExecuteResponse())
    assert submit.recognised[-3:] == [True, False, True]
    assert submit.read(200) == [1.0, 1.0, 5.0, 5.0]
    assert submit.read(1) == [0.5, 0.5, 3.0, 3.0]


def test_a_workspace_of_the_client_is_used(submit: Submit) -> None:
    submit.buffer(1, bytes(512))
    mean = [floats(1, 2), floats(0, 0), number(1), real(1.0), tensor([])]
    workspace = op.Workspace(buffer_id=1, bytes=512)
    results = [submit.both(mean, "aclnnSmoothL1Loss", workspace=workspace) for _ in range(2)]
    assert submit.recognised == [False, True]
    assert results[0] == results[1]
    assert returned(results[1][1]) == [1.0]
    assert results[1][0].get_workspace_size.workspace_bytes == 512


def test_no_workspace_may_be_given_as_null(submit: Submit) -> None:
    results = [submit.both(loss(0, 1), workspace=op.Workspace()) for _ in range(2)]
    assert submit.recognised[-1]
    assert returned(results[1][1]) == [-1.0, 0.0]


@pytest.fixture
def repeated(submit: Submit) -> Iterator[Submit]:
    """A repeatable executor 50 of y = slope(x - 0), x in buffer 1, y in buffer 2; buffers 3 and 4 besides."""
    for buffer_id, value in ((1, 0.5), (2, 0.0), (3, 5.0), (4, 0.0)):
        submit.buffer(buffer_id, np.full(4, value, np.float32).tobytes())
    x, y = tensor([4], buffer_id=1), tensor([4], buffer_id=2)
    zeros, ones = floats(0, 0, 0, 0), floats(1, 1, 1, 1)
    plan = op.GetWorkspaceSizeRequest(
        operator=NAME,
        executor_id=50,
        arguments=[ones, x, zeros, number(0), real(1.0), y],
        repeatable=True,
    )
    (planned,) = submit.send(pb.Command(get_workspace_size=plan))
    assert planned.HasField("get_workspace_size")
    yield submit
    submit.send(pb.Command(destroy_executor=op.DestroyExecutorRequest(executor_id=50)))


def again(submit: Submit, *bindings: op.Binding, **rest: Any) -> pb.Result:  # noqa: ANN401
    request = op.ExecuteRequest(executor_id=50, bindings=bindings, asynchronous=True, **rest)
    command = pb.Command(execute=request).SerializeToString()
    at_once = submit.applier.known.run_again(submit.call, command)
    submit.recognised.append(at_once is not None)
    if at_once is not None:
        return pb.Result.FromString(at_once)
    (result,) = submit.send(pb.Command(execute=request))
    return result


def test_a_repeatable_executor_is_run_at_once(repeated: Submit) -> None:
    done = pb.Result(execute=op.ExecuteResponse())
    assert again(repeated) == done
    assert repeated.read(2) == [0.5] * 4
    to_four = op.Binding(argument=5, buffer_id=4)
    assert again(repeated, op.Binding(argument=1, buffer_id=3), to_four) == done
    assert again(repeated, to_four, workspace=op.Workspace()) == done
    assert repeated.recognised == [True, True, True]
    assert repeated.read(4) == [0.5] * 4
    assert repeated.read(2) == [0.5] * 4


def test_what_is_run_again_is_counted_without_phase_one(repeated: Submit) -> None:
    context = repeated.context
    assert context.meter is not None
    for _ in range(3):
        before = context.meter.total()
        again(repeated)
        after = context.meter.total()
        grown = {name: after.methods[name] - before.methods[name] for name in after.methods}
        assert {name: count for name, count in grown.items() if count} == {"execute": 1}
        assert after.runs == before.runs + 1
    assert repeated.recognised == [True] * 3


@pytest.mark.parametrize(
    ("binding", "reason"),
    [
        (op.Binding(argument=1, buffer_id=9), "HANDLE_NOT_FOUND"),
        (op.Binding(argument=1, buffer_id=3, buffer_offset=4), "INVALID_PARAMETER"),
        (op.Binding(argument=3, buffer_id=3), "INVALID_PARAMETER"),
        (op.Binding(argument=1, element=1, buffer_id=3), "INVALID_PARAMETER"),
        (op.Binding(argument=99, buffer_id=3), "INVALID_PARAMETER"),
    ],
)
def test_a_binding_that_cannot_be_is_refused(
    repeated: Submit, binding: op.Binding, reason: str
) -> None:
    assert refusal(again(repeated, binding))[0] == reason
    assert repeated.recognised == [False]


def test_a_repeatable_executor_whose_buffer_was_freed(repeated: Submit) -> None:
    assert again(repeated).HasField("execute")
    repeated.send(pb.Command(free=pb.FreeRequest(buffer_id=1)))
    assert refusal(again(repeated))[0] == "HANDLE_NOT_FOUND"
    assert again(repeated, op.Binding(argument=1, buffer_id=3)).HasField("execute")


# --- what is refused is refused as before ------------------------------------------------------------


def test_a_freed_buffer_and_one_that_is_too_small_are_refused(submit: Submit) -> None:
    for buffer_id, size in ((1, 8), (2, 8), (3, 4)):
        submit.buffer(buffer_id, bytes(size))

    def call(source: int) -> pb.Result:
        there = tensor([2], buffer_id=2)
        here = tensor([2], buffer_id=source)
        return submit.both([floats(1, 1), here, floats(0, 0), number(0), real(1.0), there])[0]

    call(1)
    call(1)
    assert submit.recognised == [False, True]
    assert refusal(call(3)) == (
        "INVALID_PARAMETER",
        161002,
        f"{NAME}: self takes bytes 0 to 8 of buffer 3, which has 4",
    )
    submit.send(pb.Command(free=pb.FreeRequest(buffer_id=1)))
    assert refusal(call(1))[:2] == ("HANDLE_NOT_FOUND", 107017)
    assert refusal(call(9))[:2] == ("HANDLE_NOT_FOUND", 107017)


def test_a_workspace_that_there_is_no_room_for_is_refused(submit: Submit) -> None:
    mean = [floats(1, 2), floats(0, 0), number(1), real(1.0), tensor([])]
    submit.both(mean, "aclnnSmoothL1Loss")
    submit.context.default_session.destroy()  # its workspace with it
    planned, ran = submit.both(mean, "aclnnSmoothL1Loss")
    assert not submit.recognised[-1]
    assert planned.HasField("get_workspace_size")
    assert refusal(ran)[0] == "STREAM_DESTROYED"


def test_an_executor_is_spent(submit: Submit) -> None:
    submit.both(loss(0, 1))
    submit.both(loss(0, 1), executor_id=77)
    assert submit.recognised[-1]
    (again,) = submit.send(pb.Command(execute=op.ExecuteRequest(executor_id=77)))
    assert refusal(again)[:2] == ("EXECUTOR_USED", 200005)


def test_an_id_that_is_taken_is_refused(submit: Submit) -> None:
    submit.both(loss(0, 1))
    plan = op.GetWorkspaceSizeRequest(operator=NAME, executor_id=5, arguments=loss(1, 2, 3))
    submit.send(pb.Command(get_workspace_size=plan))
    planned, _ = submit.both(loss(0, 1), executor_id=5)
    assert refusal(planned)[:2] == ("HANDLE_EXISTS", 107017)
    assert not submit.recognised[-1]


def test_the_quota_holds(submit: Submit) -> None:
    submit.both(loss(0, 1))
    submit.buffer(1, bytes(QUOTA - 31))
    planned, ran = submit.both(loss(0, 1))
    assert not submit.recognised[-1]
    assert refusal(ran)[:2] == ("OUT_OF_MEMORY", 207001)
    assert planned.HasField("get_workspace_size")


def test_what_is_returned_is_waited_for(submit: Submit) -> None:
    submit.both(loss(0, 1))
    for asynchronous in (False, True):
        _, ran = submit.both(loss(3, 1), asynchronous=asynchronous)
        assert submit.recognised[-1]
        assert returned(ran) == [1.0, 0.0]


@pytest.mark.parametrize(
    "unusual",
    [
        pytest.param(lambda encoded: encoded + b"\xf8\x07\x01", id="unknown-field"),
        pytest.param(lambda encoded: b"\x12\x02\x08\x01" + encoded, id="split-message"),
    ],
)
def test_what_is_written_in_another_way_is_decoded(submit: Submit, unusual: Any) -> None:  # noqa: ANN401
    submit.both(loss(0, 1))
    arguments = [a.SerializeToString() for a in loss(0, 1)]
    arguments[1] = unusual(arguments[1])
    body = b"".join(
        wire.field_head(op.GetWorkspaceSizeRequest, "arguments", len(a)) + a for a in arguments
    )
    head = op.GetWorkspaceSizeRequest(operator=NAME, executor_id=900).SerializeToString()
    for executor_id in (900, 901):
        plan = op.GetWorkspaceSizeRequest.FromString(head + body)
        plan.executor_id = executor_id
        encoded = plan.SerializeToString()
        command = wire.field_head(pb.Command, "get_workspace_size", len(encoded)) + encoded
        run = pb.Command(execute=op.ExecuteRequest(executor_id=executor_id))
        batch = wire.RawBatch("", 0, [command, run.SerializeToString()])
        answer = submit.answer(batch)
        assert returned(pb.SubmitResponse.FromString(answer).results[1]) == [-1.0, 0.0]


@pytest.mark.parametrize("repeatable", [False, True])
def test_a_command_that_cannot_be_read_is_refused_after_a_call_that_is_known(
    submit: Submit, repeatable: bool
) -> None:
    plan = op.GetWorkspaceSizeRequest(
        operator=NAME, executor_id=900, arguments=loss(0, 1), repeatable=repeatable
    )
    run = pb.Command(execute=op.ExecuteRequest(executor_id=901)).SerializeToString()
    for second, kind in ((run, "execute"), (run[:-1], "error"), (run[:1] + b"\xff\xff", "error")):
        plan.executor_id += 1
        first = pb.Command(get_workspace_size=plan).SerializeToString()
        answer = submit.answer(wire.RawBatch("", 0, [first, second]))
        results = pb.SubmitResponse.FromString(answer).results
        assert results[0].WhichOneof("result") == "get_workspace_size"
        assert results[1].WhichOneof("result") == kind
        if kind == "error":
            assert results[1].error.reason == "INVALID_PARAMETER"
            assert results[1].error.parameter == "command"
    for left in range(901, 904):
        submit.send(pb.Command(destroy_executor=op.DestroyExecutorRequest(executor_id=left)))


def test_bytes_of_what_is_remembered_are_bounded(
    submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = KnownCalls()
    submit.applier.known = known
    submit.both(loss(0, 1))
    (layout,) = next(iter(known._layouts.values()))
    size = sum(map(len, layout.heads))
    assert known._bytes == size
    monkeypatch.setattr("aclnn_server.service.known_calls.KEPT_BYTES", 2 * size)
    for beta in range(1, 9):
        submit.both(loss(0, 1, beta=float(beta)))
        kept = [each for row in known._layouts.values() for each in row]
        assert sum(len(head) for each in kept for head in each.heads) == known._bytes <= 2 * size
    monkeypatch.setattr("aclnn_server.service.known_calls.KEPT_BYTES", size - 1)
    submit.both(loss(0, 1, beta=9.0))
    assert known._bytes <= 2 * size


def test_what_is_remembered_is_bounded(submit: Submit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aclnn_server.service.known_calls.CAPACITY", 3)
    known = KnownCalls()
    submit.applier.known = known
    for length in range(1, 9):
        submit.both(loss(*range(length)))
    assert len(known._layouts) <= 3
    for beta in range(40):
        submit.both(loss(0, 1, beta=float(beta)))
    assert sum(map(len, known._layouts.values())) <= 3 * 8
