"""Batches of one context, served without gRPC; and whether their calls were recognised by their bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from aclnn import wire
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn.v1 import tensor_pb2 as t
from aclnn_server.server import Server
from aclnn_server.service.applying import Applier, Applying
from aclnn_server.service.calls import Call
from aclnn_server.service.known_calls import KnownCalls
from aclnn_server.service.seen_calls import SeenCalls
from aclnn_server.sessions.context import Context
from tests.service.requests import floats, number, real, tensor

NAME = "aclnnSmoothL1LossBackward"


class Submit:
    """Batches of one context, served without gRPC."""

    def __init__(self, server: Server, context: Context) -> None:
        self.server = server
        self.context = context
        self.call = Call(server.registry, context, seen=SeenCalls())
        self.recognised: list[bool] = []
        """Of each pair of phases, whether it was made at once."""
        self._ids = itertools.count(1)

    def send(self, *commands: pb.Command) -> list[pb.Result]:
        batch = pb.SubmitRequest(commands=commands).SerializeToString()
        answer = self.answer(wire.split_request(batch))
        return list(pb.SubmitResponse.FromString(answer).results)

    def answer(self, batch: wire.RawBatch) -> bytes:
        applying = Applying(self.applier, self.call, batch)
        assert applying.go_on()
        return applying.answer()

    @property
    def applier(self) -> Applier:
        return self.server._service._submit_calls._applier

    def both(
        self,
        arguments: Sequence[t.Argument],
        operator: str = NAME,
        executor_id: int | None = None,
        **run: Any,  # noqa: ANN401
    ) -> tuple[pb.Result, pb.Result]:
        """Both phases in one batch."""
        number = next(self._ids) if executor_id is None else executor_id
        planned, ran = self.send(
            pb.Command(
                get_workspace_size=op.GetWorkspaceSizeRequest(
                    operator=operator, executor_id=number, arguments=arguments
                )
            ),
            pb.Command(execute=op.ExecuteRequest(executor_id=number, **run)),
        )
        if planned.WhichOneof("result") == "get_workspace_size":
            assert planned.get_workspace_size.executor_id == number
            planned.get_workspace_size.executor_id = 0
        return planned, ran

    def buffer(self, buffer_id: int, content: bytes) -> None:
        write = pb.WriteBufferRequest(buffer_id=buffer_id, data=content)
        malloc = pb.MallocRequest(buffer_id=buffer_id, bytes=len(content))
        results = self.send(pb.Command(malloc=malloc), pb.Command(write_buffer=write))
        assert [result.WhichOneof("result") for result in results] == ["malloc", "write_buffer"]

    def read(self, buffer_id: int) -> list[float]:
        read = pb.ReadBufferRequest(buffer_id=buffer_id, bytes=16)
        (result,) = self.send(pb.Command(read_buffer=read))
        return list(np.frombuffer(result.read_buffer.data, np.float32))


@contextmanager
def submitting(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Submit]:
    """A context of the server, which nothing is left of at the end."""
    submit = Submit(server, server.registry.create_context(0, 60.0))
    whole = KnownCalls.run

    def run(self: KnownCalls, *arguments: Any, quick: bool) -> tuple[bytes, bytes] | None:  # noqa: ANN401
        both = whole(self, *arguments, quick=quick)
        if pb.Command.FromString(bytes(arguments[1])).HasField("get_workspace_size"):
            submit.recognised.append(both is not None)
        return both

    monkeypatch.setattr(KnownCalls, "run", run)
    yield submit
    assert len(submit.context.executors) == 0
    server.registry.destroy_context(submit.context)
    assert submit.context.account.used == 0


def loss(*x: float, beta: float = 1.0, out: t.Argument | None = None) -> list[t.Argument]:
    ones = floats(*[1.0] * len(x))
    return [ones, floats(*x), ones, number(0), real(beta), out or tensor([len(x)])]


def returned(result: pb.Result) -> list[float]:
    (output,) = result.execute.outputs
    return list(np.frombuffer(output.tensor.data, np.float32))


def refusal(result: pb.Result) -> tuple[str, int, str]:
    error = result.error
    return error.reason, error.acl_code, error.message
