"""The faults of docs/faults.md, brought about one by one with a real client and a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from aclnn.v1 import device_service_pb2 as pb
from aclnn_client import Context, Tensor, connect, execute, get_workspace_size, requests
from aclnn_client.connection import Connection
from aclnn_client.pending import Pending
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.access.conftest import TokenFile
from tests.chaos.proxy import Proxy
from tests.service.gated import GatedBackend
from tests.waiting import until


class Scene:
    """Servers whose kernels do as they are told."""

    def __init__(self, patch: pytest.MonkeyPatch, tokens: TokenFile) -> None:
        self.patch, self.tokens = patch, tokens
        self.backend = GatedBackend()
        self.look: Callable[[Server], object] = lambda server: None
        """What is done before a server is stopped."""

    @contextmanager
    def server(self, **settings: object) -> Iterator[Server]:
        """A server of these settings."""
        config = ServerConfig(listen="127.0.0.1:0", metrics_listen="127.0.0.1:0", **settings)  # type: ignore[arg-type]
        with Server(config, backend=self.backend) as server:
            try:
                yield server
            finally:
                if not config.tokens:  # which the metrics' port would ask for
                    self.look(server)
                self.backend.gates.open_all()

    @contextmanager
    def client(self, **settings: object) -> Iterator[Context]:
        """A client of such a server."""
        with self.server(**settings) as server:
            context = connect(server.address)
            try:
                yield context
            finally:
                self.backend.gates.open_all()
                context.close()


def failing(context: Context, code: int) -> Tensor:
    """What a kernel that fails was to write."""
    out = context.empty((1,), "int8")
    get_workspace_size("aclnnFail", (code, out))[1].run()
    return out


def standing(context: Context) -> None:
    """Queues work that stands at a gate; it is large, so that no call has to wait for it."""
    source, out = context.tensor(np.zeros(1 << 20, np.int8)), context.empty((1 << 20,), "int8")
    get_workspace_size("aclnnPass", (source, 1, out))[1].run()
    context.commands.submitter.send_lingering()


# --- each raises what the client gets ---------------------------------------------------------------


def nobody_there(scene: Scene) -> None:
    with scene.server() as server:
        address = server.address
    connect(address)


def gone_for_long(scene: Scene) -> None:
    scene.patch.setattr(requests, "RESUME_SECONDS", 0.3)
    with scene.server() as server, Proxy(server.address) as proxy:
        context = connect(proxy.address, timeout=30)
        tensor = context.tensor([1])
        tensor.numpy()
        proxy.broken = True
        proxy.cut()
        try:
            tensor.numpy()
        finally:
            proxy.broken = False
            context.close()


def no_answer(scene: Scene) -> None:
    with scene.server() as server:
        context = connect(server.address, timeout=0.3)
        standing(context)
        try:
            context.synchronize()
        finally:
            scene.backend.gates.open_all()
            context.close()


def restarted(scene: Scene) -> None:
    with scene.server() as first, Proxy(first.address) as proxy:
        context = connect(proxy.address)
        tensor = context.tensor([1])
        tensor.numpy()
        with scene.server() as second:
            proxy.server = second.address
            proxy.cut()
            try:
                tensor.numpy()
            finally:
                context.close()


def stopping(scene: Scene) -> None:
    with scene.server() as server:
        server._server_calls.draining = True
        connect(server.address)


def silent(scene: Scene) -> None:
    with scene.server(lease_seconds=0.3) as server:
        context = connect(server.address)  # idle: no open call keeps its lease
        until(lambda: server.registry.usage.contexts == 0)
        try:
            context.usage()
        finally:
            context.close()


def operator_fails(scene: Scene) -> None:
    with scene.client() as context:
        failing(context, 3).numpy()


def unexpected(scene: Scene) -> None:
    with scene.client() as context:
        failing(context, -1).numpy()


def out_of_memory(scene: Scene) -> None:
    with scene.client(max_context_bytes=4096) as context:
        context.empty((8192,), "int8").numpy()


def too_many(scene: Scene) -> None:
    with scene.client(max_streams=2) as context:
        streams = [context.create_stream() for _ in range(3)]
        assert not streams


def too_fast(scene: Scene) -> None:
    with scene.server(client_context_rate=0.01) as server:
        for _ in range(50):
            connect(server.address).close()


def unknown_id(scene: Scene) -> None:
    with scene.client() as context:
        buffer = context.malloc(8)
        assert buffer is not None
        request = pb.FreeRequest(buffer_id=buffer.buffer_id + 1)
        context.drive(context.commands.ask(Pending("free", request)))


def executor_used(scene: Scene) -> None:
    with scene.client() as context:
        out = context.empty((4,), "int64")
        _, executor = get_workspace_size("aclnnPass", (context.tensor(np.arange(4)), 0, out))
        executor.run()
        executor.run()
        context.synchronize()


def workspace_missing(scene: Scene) -> None:
    with scene.client() as context:
        out = context.empty((1,), "int8")
        source = context.tensor(np.zeros(1, np.int8))
        size, executor = get_workspace_size("aclnnScratch", (source, 64, 0, out))
        execute("aclnnScratch", None, size, executor)
        context.synchronize()


def wait_over(scene: Scene) -> None:
    with scene.client() as context:
        standing(context)
        context.default_stream.synchronize(timeout=0.05)


def invalid(scene: Scene) -> None:
    with scene.client() as context:
        context.ops.add(np.zeros(3, np.float32), np.zeros(2, np.float32))


def no_such_operator(scene: Scene) -> None:
    with scene.client() as context:
        context.operator("aclnnNothing")


def not_of_the_schema(scene: Scene) -> None:
    with scene.client() as context:
        context.drive(context.commands.ask(Pending("free", [b"\xff\xff"])))


def too_old(scene: Scene) -> None:
    with scene.server() as server:
        connection = Connection(server.address)
        try:
            request = pb.CreateContextRequest(protocol_version=99)
            connection.call(connection.devices.CreateContext, request, doing="opening")
        finally:
            connection.close()


def no_token(scene: Scene) -> None:
    scene.tokens.put("alice")
    with scene.server(tokens=str(scene.tokens.path)) as server:
        connect(server.address)


def wrong_token(scene: Scene) -> None:
    scene.tokens.put("alice")
    with scene.server(tokens=str(scene.tokens.path)) as server:
        connect(server.address, token="x" * 43)


def no_shared_memory(scene: Scene) -> None:
    with scene.server(shared_memory=False) as server:
        connect(server.address, shared_memory=True)


FAULTS: dict[str, Callable[[Scene], None]] = {
    "Nobody listens at the address": nobody_there,
    "The server cannot be reached for 10 seconds": gone_for_long,
    "No answer within the client's time limit": no_answer,
    "The server was started anew": restarted,
    "The server is stopping": stopping,
    "The client was silent for longer than its lease": silent,
    "An operator fails while it runs": operator_fails,
    "A failure that nobody foresaw": unexpected,
    "Memory is used up": out_of_memory,
    "As many objects as allowed": too_many,
    "New contexts come too fast": too_fast,
    "An id that does not exist, or is another's": unknown_id,
    "A one-shot executor is run again": executor_used,
    "The workspace is missing": workspace_missing,
    "A wait is over before its work": wait_over,
    "An argument that cannot be": invalid,
    "The server has no such operator": no_such_operator,
    "Bytes that are not of the schema": not_of_the_schema,
    "Another version of the protocol": too_old,
    "No token": no_token,
    "A wrong or withdrawn token": wrong_token,
    "Shared memory is a must and not offered": no_shared_memory,
}
