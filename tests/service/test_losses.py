"""A real operator through the server: what phase one refuses, and what phase two computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest

from aclnn.errors import (
    AclnnError,
    InvalidParameterError,
    NullPointerError,
    ViewOutsideStorageError,
)
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn.v1 import tensor_pb2 as t
from aclnn_server.backends import open_backend
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.ascend import building
from tests.service.calling import Caller, Stubs, refused
from tests.service.requests import (
    FLOAT,
    INT64,
    bytes_of,
    inline,
    null,
    number,
    outputs,
    plan,
    real,
    run,
    tensor,
)

NAME = "aclnnSmoothL1LossBackward"
GRAD, SELF, TARGET, REDUCTION, BETA, OUT = range(6)


@pytest.fixture(scope="module", params=["numpy", "ascend"])
def loss_stubs(request: pytest.FixtureRequest) -> Iterator[Stubs]:
    """A server with the operator: of the host's CPU, and of the double of CANN."""
    options = building.options() if request.param == "ascend" else {"threads": 1}
    backend = open_backend(request.param, **options)
    with (
        Server(ServerConfig(listen="127.0.0.1:0"), backend=backend) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        yield Stubs(channel)


@pytest.fixture
def client(
    way: Callable[[Stubs], Caller], loss_stubs: Stubs, capfd: pytest.CaptureFixture[str]
) -> Iterator[Caller]:
    """A client of each kind; its test leaves nothing behind, and nothing on standard error."""
    client = way(loss_stubs)
    yield client
    client.close()
    assert set(loss_stubs.usage().values()) == {0}
    assert capfd.readouterr().err == ""


def arguments() -> list[t.Argument]:
    """A call that is right."""
    x = np.array([[0, 1], [2, 3]], np.float32)
    return [inline(x / 4), inline(x), inline(x[::-1]), number(0), real(1.0), tensor([2, 2])]


def planned(given: list[t.Argument], **rest: object) -> op.GetWorkspaceSizeRequest:
    return plan(NAME, *given, **rest)  # type: ignore[arg-type]


def with_(index: int, argument: t.Argument) -> op.GetWorkspaceSizeRequest:
    """The call with one argument replaced."""
    given = arguments()
    given[index] = argument
    return planned(given)


def test_a_call_that_is_right(client: Caller) -> None:
    client(planned(arguments(), executor=1))
    assert outputs(client(run(1))) == [[-0.0, -0.25, 0.5, 0.75]]


@pytest.mark.parametrize(
    ("index", "name"),
    [(GRAD, "gradOutput"), (SELF, "self"), (TARGET, "target"), (OUT, "gradInput")],
)
def test_null_tensors(client: Caller, index: int, name: str) -> None:
    says = [NAME, f"{name} is a null pointer"]
    error = refused(client, with_(index, null()), NullPointerError, parameter=name, says=says)
    assert (error.code, error.name) == (161001, "ACLNN_ERR_PARAM_NULLPTR")


def ints(*shape: int) -> t.Argument:
    return inline(np.zeros(shape, np.int32))


def zeros(*shape: int) -> t.Argument:
    return inline(np.zeros(shape, np.float32))


NAN, INFINITY = float("nan"), float("inf")
INVALID = [
    (GRAD, ints(2, 2), "gradOutput", ["INT32", "FLOAT, FLOAT16, BF16"]),
    (SELF, inline(np.zeros((2, 2), np.float64)), "self", ["DOUBLE"]),
    (OUT, tensor([2, 2], INT64), "gradInput", ["INT64"]),
    (SELF, zeros(*[1] * 9), "self", ["9 dimensions", "at most 8"]),
    (REDUCTION, number(3), "reduction", ["reduction is 3", "0 (none), 1 (mean), 2 (sum)"]),
    (REDUCTION, number(-1), "reduction", ["reduction is -1"]),
    (REDUCTION, number(2**63 - 1), "reduction", [str(2**63 - 1)]),
    (BETA, real(-0.5), "beta", ["beta is -0.5", "at least 0"]),
    (BETA, real(NAN), "beta", ["beta is nan"]),
    (BETA, real(-INFINITY), "beta", ["beta is -inf"]),
    (TARGET, zeros(3, 2), "target", ["[3, 2]", "[2, 2]", "does not broadcast"]),
    (SELF, zeros(2, 0), "self", ["[2, 0]", "does not broadcast"]),
    (OUT, tensor([2]), "gradInput", ["[2]", "[2, 2]"]),
    (OUT, tensor([2, 2, 1]), "gradInput", ["[2, 2, 1]", "[2, 2]"]),
    (OUT, tensor([]), "gradInput", ["[]", "[2, 2]"]),
]


@pytest.mark.parametrize(("index", "argument", "name", "says"), INVALID)
def test_invalid_parameters(
    client: Caller, index: int, argument: t.Argument, name: str, says: list[str]
) -> None:
    request = with_(index, argument)
    error = refused(client, request, InvalidParameterError, parameter=name, says=[NAME, *says])
    assert (error.code, error.name) == (161002, "ACLNN_ERR_PARAM_INVALID")
    assert error.operator == NAME


@pytest.mark.parametrize("index", [GRAD, SELF, TARGET, OUT])
@pytest.mark.parametrize(
    "view",
    [
        {"offset": 1},
        {"strides": [3, 1]},
        {"strides": [-2, 1]},
        {"strides": [-2, -1], "offset": 2},
        {"strides": [2, 1], "offset": -1},
        {"storage_shape": [3]},
    ],
)
def test_views_outside_their_storage(client: Caller, index: int, view: dict[str, object]) -> None:
    bytes_needed = 12 if "storage_shape" in view else 16
    argument = tensor([2, 2], FLOAT, data=bytes(bytes_needed), **view)
    name = ("gradOutput", "self", "target", "", "", "gradInput")[index]
    error = refused(
        client,
        with_(index, argument),
        ViewOutsideStorageError,
        parameter=name,
        says=[name, "reaches"],
    )
    assert error.code == 561103


def test_negative_strides_inside_the_storage(client: Caller) -> None:
    """A view that goes backwards computes as the array that it shows."""
    given = arguments()
    given[SELF] = tensor([2, 2], strides=[-2, -1], offset=3, data=bytes_of(0, 1, 2, 3))
    client(planned(given, executor=1))
    given[SELF] = inline(np.array([[3, 2], [1, 0]], np.float32))
    client(planned(given, executor=2))
    assert outputs(client(run(1))) == outputs(client(run(2))) == [[0.0, -0.25, 0.5, -0.75]]


@pytest.mark.parametrize("beta", [0.0, 1e-45, INFINITY])
@pytest.mark.parametrize("extreme", [NAN, INFINITY, -INFINITY, 3.4e38, 0.0])
def test_extreme_values_warn_nobody(client: Caller, beta: float, extreme: float) -> None:
    given = arguments()
    given[SELF] = inline(np.array([[extreme, 1], [2, -extreme]], np.float32))
    given[BETA] = real(beta)
    for reduction in (0, 1, 2):
        given[REDUCTION] = number(reduction)
        client(planned(given, executor=1))
        (values,) = outputs(client(run(1)))
        assert len(values) == 4
        assert np.isnan(values[0]) == np.isnan(extreme)


def test_an_empty_call(client: Caller) -> None:
    given = [zeros(0, 2), zeros(0, 2), zeros(0, 2), number(1), real(1.0), tensor([0, 2])]
    planned_ = client(planned(given, executor=1))
    assert planned_.workspace_bytes == 0
    assert outputs(client(run(1))) == [[]]


def test_the_first_of_several_mistakes_is_told(client: Caller) -> None:
    """In the vendor's order: null, types, dimensions, values, shapes, and the view's reach last."""
    given = arguments()
    given[OUT] = tensor([2], INT64, offset=100, data=bytes(16))
    given[BETA] = real(-1)
    given[REDUCTION] = number(9)
    given[SELF] = null()
    expected: list[tuple[type[AclnnError], str]] = [
        (NullPointerError, "self"),
        (InvalidParameterError, "gradInput"),
        (InvalidParameterError, "reduction"),
        (InvalidParameterError, "beta"),
        (InvalidParameterError, "gradInput"),
        (ViewOutsideStorageError, "gradInput"),
    ]
    repairs = [
        (SELF, arguments()[SELF]),
        (OUT, tensor([2], offset=100, data=bytes_of(0, 0))),
        (REDUCTION, number(0)),
        (BETA, real(1)),
        (OUT, tensor([2, 2], offset=100, data=bytes_of(0, 0, 0, 0))),
    ]
    for (kind, name), repair in zip(expected, [*repairs, None], strict=True):
        refused(client, planned(given), kind, parameter=name)
        if repair is not None:
            given[repair[0]] = repair[1]


def test_large_work_of_two_streams(client: Caller) -> None:
    """Buffers, two streams, an event between them: what one computes the other goes on with."""
    size = 2**18
    data = np.linspace(-3, 3, size, dtype=np.float32)
    for buffer in (1, 2, 3, 4):
        client(pb.MallocRequest(buffer_id=buffer, bytes=4 * size))
    client(pb.WriteBufferRequest(buffer_id=1, data=data.tobytes()))
    client(pb.CreateEventRequest(event_id=1))
    second = client(pb.CreateStreamRequest()).stream_id
    buffers = [tensor([size], buffer_id=buffer) for buffer in (1, 2, 3, 4)]
    ones = inline(np.ones(1, np.float32))
    first_call = [ones, buffers[0], buffers[1], number(0), real(1.0), buffers[2]]
    second_call = [ones, buffers[2], buffers[1], number(0), real(0.5), buffers[3]]
    client(run(client(planned(first_call)).executor_id, asynchronous=True))
    client(pb.RecordEventRequest(event_id=1))
    client(pb.WaitEventRequest(event_id=1, stream_id=second))
    executor = client(planned(second_call, stream=second)).executor_id
    client(run(executor, stream=second, asynchronous=True))
    client(pb.SynchronizeStreamRequest())
    result = np.frombuffer(
        client(pb.ReadBufferRequest(buffer_id=4, bytes=4 * size)).data, np.float32
    )
    once = np.clip(data, -1, 1)
    np.testing.assert_array_equal(result, np.clip(once / np.float32(0.5), -1, 1))
