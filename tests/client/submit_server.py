"""A gRPC server that speaks only Submit and answers as the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import grpc

from aclnn.errors import AclnnError
from aclnn.status import to_status
from aclnn.v1 import device_service_pb2 as pb
from aclnn_client.pending import Pending
from aclnn_client.submit import Submitter
from aclnn_client.submit_call import DirectCall, PublicCall, SubmitCall

PATIENCE = 30.0
"""Seconds after which a wait counts as hung."""
CALLS: dict[str, type[DirectCall] | type[PublicCall]] = {"direct": DirectCall, "public": PublicCall}
"""The two ways to carry Submit."""


def malloc(number: int, size: int = 1) -> Pending:
    """A command that answers `number`; 13 fails."""
    return Pending("malloc", pb.MallocRequest(buffer_id=number, bytes=size))


def number(pending: Pending) -> int:
    """Waits for a malloc and gives the number that it answered."""
    pending.wait()
    return int(pending.result().buffer_id)


async def ask(submitter: Submitter, pending: Pending) -> int:
    """Sends a malloc, and gives the number that it answers."""
    submitter.submit([pending])
    return int((await pending).buffer_id)


def answer(command: pb.Command) -> pb.Result:
    """What the server answers to one command."""
    name = str(command.WhichOneof("command"))
    if name == "read_buffer":
        size = command.read_buffer.bytes
        data = bytes([command.read_buffer.buffer_id % 256]) * size
        return pb.Result(read_buffer=pb.ReadBufferResponse(data=data))
    if name == "malloc" and command.malloc.buffer_id == 13:
        return pb.Result(error=AclnnError("unlucky").to_proto())
    if name == "malloc":
        return pb.Result(malloc=pb.MallocResponse(buffer_id=command.malloc.buffer_id))
    return pb.Result(**{name: getattr(pb.Result(), name)})


def answer_all(request: pb.SubmitRequest) -> pb.SubmitResponse:
    """What the server answers to one request."""
    results = [answer(command) for command in request.commands]
    return pb.SubmitResponse(sequence=request.sequence, results=results)


class SubmitServer:
    """Answers each request with `respond`, once :attr:`gate` is open."""

    def __init__(
        self,
        respond: Callable[[pb.SubmitRequest], pb.SubmitResponse | AclnnError | None] = answer_all,
    ) -> None:
        self.requests: list[pb.SubmitRequest] = []
        self.metadata: list[dict[str, str | bytes]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Semaphore(0)
        """Released for each request."""
        self._respond = respond
        self._grpc = grpc.server(
            ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)]
        )
        handler = grpc.stream_stream_rpc_method_handler(
            self._submit, pb.SubmitRequest.FromString, pb.SubmitResponse.SerializeToString
        )
        self._grpc.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("aclnn.v1.DeviceService", {"Submit": handler})]
        )
        port = self._grpc.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self._channels: list[grpc.Channel] = []
        self.anew: list[bool] = []
        """Of each call that was opened, whether it was to be over another connection."""

    def _submit(
        self, requests: Iterator[pb.SubmitRequest], rpc: grpc.ServicerContext
    ) -> Iterator[pb.SubmitResponse]:
        self.metadata.append(dict(rpc.invocation_metadata()))
        for request in requests:
            self.requests.append(request)
            self.arrived.release()
            assert self.gate.wait(PATIENCE)
            response = self._respond(request)
            if response is None:
                return
            if isinstance(response, AclnnError):
                rpc.abort_with_status(to_status(response))
            else:
                yield response

    def submitter(self, way: str = "direct", timeout: float | None = None) -> Submitter:
        """An engine that talks to this server."""
        channel = grpc.insecure_channel(self.address, [("grpc.max_receive_message_length", -1)])
        self._channels.append(channel)

        def open_call(*, anew: bool) -> SubmitCall:
            self.anew.append(anew)
            return CALLS[way](channel, (("who", "me"),))

        return Submitter(open_call, "context-1", timeout)

    def stop(self) -> None:
        """Ends the server at once."""
        self._grpc.stop(0).wait()

    def __enter__(self) -> Self:
        self._grpc.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.gate.set()
        self.stop()
        for channel in self._channels:
            channel.close()
