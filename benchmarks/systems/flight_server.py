"""The server of Arrow Flight: computes each batch, with the same NumPy as the other systems."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from pyarrow import flight

from benchmarks.computation import gradient
from benchmarks.systems.flight import SMALL, arrays, batch, schema
from benchmarks.systems.process import say_ready

RESULT = schema("gradInput")


class Server(flight.FlightServerBase):  # type: ignore[misc,unused-ignore]
    """Answers every batch of an exchange with one."""

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ANN401
        writer.begin(RESULT)
        if descriptor.command == SMALL:
            _answer(reader, writer.write_batch)
        else:
            _answer_from_second_thread(reader, writer)


def _answer(reader: Any, answer: Callable[[Any], object]) -> None:  # noqa: ANN401
    for received in _batches(reader):
        answer(batch(RESULT, gradient(*arrays(received))))


def _batches(reader: Any) -> Iterator[Any]:  # noqa: ANN401
    while True:
        try:
            yield reader.read_chunk().data
        except StopIteration:
            return


def _answer_from_second_thread(reader: Any, writer: Any) -> None:  # noqa: ANN401
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def write() -> None:
        while (result := results.get()) is not None:
            writer.write_batch(result)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        _answer(reader, results.put)
    finally:
        results.put(None)
        writing.join()


def main() -> None:
    """Serves until the process is ended."""
    server = Server("grpc://127.0.0.1:0")
    say_ready(f"127.0.0.1:{server.port}")
    server.serve()


if __name__ == "__main__":
    main()
