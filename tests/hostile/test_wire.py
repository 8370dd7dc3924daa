"""Random and damaged bytes in every method: the server answers all of it, and goes on as if nothing were."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor

from aclnn import wire
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.cli.server_process import ServerProcess
from aclnn_server.service.rpc import SERVICES
from tests.held import check_flat, settled
from tests.hostile import length
from tests.hostile.judging import check_error, check_in_band
from tests.hostile.messages import damaged, message_of
from tests.service.calling import DEADLINE, Stubs, Submitting, checked
from tests.service.requests import floats, outputs, plan, run, tensor

pytestmark = pytest.mark.timeout(120 + 2 * length.LONG_SECONDS)

METHODS = [method for service in SERVICES for method in service.methods]
ROUNDS = 30
"""Rounds in the short form."""
BATCHES = 10
"""Submit calls of each round, of up to ten batches each."""
AGAIN = 15
"""Rounds between the two moments whose memory is compared."""
TOLERATED_BYTES = 2 << 20
"""Growth of the resident memory: a leak of 3 KiB with each call is more."""
FILES = 64
"""Open files that the server may have when its clients are gone."""


def path(method: MethodDescriptor) -> str:
    """gRPC's name of a method."""
    return f"/{method.containing_service.full_name}/{method.name}"


class Sender:
    """Sends bytes as they are, as calls of a context that exists."""

    def __init__(self, stubs: Stubs) -> None:
        self.stubs = stubs
        self._begin()

    def _begin(self) -> None:
        created = self.stubs.create_context()
        self.known = {
            "context_id": created.context_id,
            "stream_id": created.stream_id,
            "operator": "aclnnAbs",
        }
        request = pb.MallocRequest(context_id=created.context_id, buffer_id=1, bytes=4096)
        self.stubs.device.Malloc(request, timeout=DEADLINE)

    def encoded(self, kind: Any, choose: random.Random) -> bytes:  # noqa: ANN401 - a Descriptor
        """A damaged message of a kind."""
        return damaged(message_of(kind, choose, self.known).SerializeToString(), choose)

    def call(self, method: MethodDescriptor, choose: random.Random) -> None:
        """Makes one call, and checks how it ends."""
        messages = [self.encoded(method.input_type, choose)]
        if method.client_streaming:
            messages += [
                self.encoded(method.input_type, choose) for _ in range(choose.randrange(3))
            ]
        kind = ("unary", "stream")
        made: Callable[..., Any] = getattr(
            self.stubs.channel,
            f"{kind[method.client_streaming]}_{kind[method.server_streaming]}",
        )(path(method))
        given = iter(messages) if method.client_streaming else messages[0]
        try:
            answered = made(given, timeout=DEADLINE)
            if method.server_streaming:
                list(answered)
        except grpc.RpcError as error:
            check_error(checked(error), b"".join(messages))

    def renew(self) -> None:
        """Ends the context, where it still is, and begins another one."""
        request = pb.DestroyContextRequest(context_id=self.known["context_id"])
        self.stubs.device.DestroyContext.future(request, timeout=DEADLINE).exception()
        self._begin()


class Batches:
    """Sends bytes as batches of one Submit call after the other."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def send(self, choose: random.Random) -> None:
        """Opens a call, sends some batches and checks what comes back."""
        head = pb.SubmitRequest(context_id=self._sender.known["context_id"]).SerializeToString()
        requests = [
            head,
            *(self._batch(choose) for _ in range(choose.randint(1, 10))),
        ]
        if choose.random() < 0.1:
            requests.insert(choose.randint(0, 1), choose.randbytes(20))
        channel = self._sender.stubs.channel
        made: Callable[..., Any] = channel.stream_stream("/aclnn.v1.DeviceService/Submit")
        sent = b"".join(requests)
        try:
            for answer in made(iter(requests), timeout=DEADLINE):
                for result in pb.SubmitResponse.FromString(answer).results:
                    assert result.WhichOneof("result") is not None
                    if result.HasField("error"):
                        check_in_band(result.error, sent)
        except grpc.RpcError as error:
            check_error(checked(error), sent)

    def _batch(self, choose: random.Random) -> bytes:
        commands = []
        for _ in range(choose.randint(1, 4)):
            field = choose.choice(pb.Command.DESCRIPTOR.fields)
            encoded = self._sender.encoded(field.message_type, choose)
            commands.append(b"".join(map(bytes, wire.encode_command(field.name, [encoded]))))
        batch = bytes(wire.join_request("", 0, commands, 0))
        return damaged(batch, choose) if choose.random() < 0.2 else batch


@pytest.fixture
def sender(stubs: Stubs) -> Sender:
    """Sends to that server."""
    return Sender(stubs)


def check_good_call(stubs: Stubs) -> None:
    """Makes a call that is right, and checks its result."""
    client = Submitting(stubs)
    request = plan("aclnnAbs", floats(-3, 2), tensor([2]), executor=1)
    assert outputs(client.batch([request, run(1)])[1]) == [[3.0, 2.0]]
    client.close()


def every_method(sender: Sender, seeds: Iterable[int]) -> None:
    """Calls of every method, batches, and a new context now and then."""
    batches = Batches(sender)
    for seed in seeds:
        if seed % 10 == 0:
            sender.renew()
        for method in METHODS:
            choose = random.Random(f"{method.name} {seed}")
            _told(method.name, seed, partial(sender.call, method, choose))
        for place in range(BATCHES):
            choose = random.Random(f"Submit {seed} {place}")
            _told("batches", seed, partial(batches.send, choose))


def _told(what: str, seed: int, act: Callable[[], None]) -> None:
    """Does it; a failure names its case."""
    try:
        act()
    except AssertionError as error:
        pytest.fail(f"{what}, seed {seed}: {error}")


def test_every_message_is_answered(sender: Sender) -> None:
    every_method(sender, length.seeds(ROUNDS))
    check_good_call(sender.stubs)


def test_messages_leave_nothing_behind(sender: Sender, process: ServerProcess) -> None:
    """The same ones again; what clients did not end ends with their leases."""
    every_method(sender, range(AGAIN))
    before = settled(process.address, process._process.pid, FILES)
    every_method(sender, range(AGAIN))
    check_flat(before, settled(process.address, process._process.pid, FILES), TOLERATED_BYTES)
