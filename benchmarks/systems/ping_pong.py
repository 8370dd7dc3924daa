"""Bare gRPC: bytes there and a third of them back, over one open call. It computes nothing.

The floor: what any client and server in Python pay that use this grpc library by its public API.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np

from benchmarks.computation import Array, Inputs
from benchmarks.systems.base import Client, System
from benchmarks.systems.process import ServerProcess, say_ready

METHOD = "/benchmarks.PingPong/Exchange"
CHUNK = 1 << 20
"""Bytes of the largest message: fastest on loopback."""
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class PingPongClient(Client):
    """Sends the inputs' bytes, in messages of up to a chunk, and joins what comes back."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, UNLIMITED)
        self._messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        method: grpc.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(METHOD)
        self._answers = method(iter(self._messages.get, None))

    def call(self, inputs: Inputs) -> Array:
        if 12 * len(inputs) <= CHUNK:
            self._messages.put(_joined(inputs))
            return np.frombuffer(next(self._answers), np.float32)
        return self._in_chunks(inputs)

    def _in_chunks(self, inputs: Inputs) -> Array:
        step = CHUNK // 12
        starts = range(0, len(inputs), step)
        for start in starts:
            part = slice(start, start + step)
            self._messages.put(_joined(inputs, part))
        result = np.empty_like(inputs.grad)
        for start in starts:
            answer = np.frombuffer(next(self._answers), np.float32)
            result[start : start + len(answer)] = answer
        return result

    def pipeline(self, inputs: Inputs, count: int) -> None:
        for _ in range(count):
            self._messages.put(_joined(inputs))
        for _ in range(count):
            next(self._answers)

    def close(self) -> None:
        self._messages.put(None)
        for _ in self._answers:
            pass
        self._channel.close()


def _joined(inputs: Inputs, part: slice = slice(None)) -> bytes:
    return b"".join(array[part].data for array in inputs.arrays)


def _exchange(messages: Iterator[bytes], rpc: grpc.ServicerContext) -> Iterator[bytes]:
    for message in messages:
        yield message[: len(message) // 3]


def main() -> None:
    """Serves until the process is ended."""
    server = grpc.server(ThreadPoolExecutor(128), options=[("grpc.so_reuseport", 0), *UNLIMITED])
    service, _, name = METHOD[1:].partition("/")
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        name: grpc.stream_stream_rpc_method_handler(_exchange)
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    say_ready(f"127.0.0.1:{port}")
    server.wait_for_termination()


SYSTEM = System(
    "ping-pong",
    "bare gRPC ping-pong",
    lambda: ServerProcess("benchmarks.systems.ping_pong"),
    PingPongClient,
    computes=False,
)

if __name__ == "__main__":
    main()
