"""Arrow Flight, DoExchange: one call a record batch, one column a tensor; the answer is a batch as well.

Tuned, so as to be a fair opponent; each choice was measured here, on two cores over loopback:

- An exchange stays open for all calls.
- Columns and results wrap NumPy's memory, both ways, so that no side copies more than gRPC does.
- Up to 256 Ki elements go as one batch. More go in batches of as many, written by a thread of the client
  and answered by a second thread of the server, so that sending, computing and answering overlap
  (16 Mi elements: 150 ms in place of 440 ms as one batch).
- gRPC reads 16 MiB ahead (a third less than with its default, for 16 Mi elements).
"""

from __future__ import annotations

import importlib.util
import queue
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.computation import Array, Inputs
from benchmarks.systems.base import Client, NotOffered, System
from benchmarks.systems.process import ServerProcess

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1 << 18
"""Elements of the largest batch."""
SMALL, LARGE = b"small", b"large"
COLUMNS = ("gradOutput", "self", "target")
OPTIONS = [("grpc.http2.lookahead_bytes", 1 << 24)]


class FlightClient(Client):
    """Exchanges batches over two open calls: one whose batches are whole calls, one for large tensors."""

    def __init__(self, address: str) -> None:
        _check_installed()
        from pyarrow import flight

        self._client = flight.FlightClient(f"grpc://{address}", generic_options=OPTIONS)
        self._schema = schema(*COLUMNS)
        self._writer, self._reader = self._exchange(SMALL)
        self._large: Any = None
        self._writing: threading.Thread | None = None
        self._bulk: queue.SimpleQueue[Iterator[Any] | None] = queue.SimpleQueue()

    def _exchange(self, way: bytes) -> tuple[Any, Any]:
        from pyarrow import flight

        writer, reader = self._client.do_exchange(flight.FlightDescriptor.for_command(way))
        writer.begin(self._schema)
        return writer, reader

    def call(self, inputs: Inputs) -> Array:
        if len(inputs) > BATCH:
            return self._in_batches(inputs)
        self._writer.write_batch(batch(self._schema, *inputs.arrays))
        return arrays(self._reader.read_chunk().data)[0]

    def _in_batches(self, inputs: Inputs) -> Array:
        parts = [slice(start, start + BATCH) for start in range(0, len(inputs), BATCH)]
        batches = (batch(self._schema, *(array[part] for array in inputs.arrays)) for part in parts)
        reader = self._bulk_reader()
        self._bulk.put(batches)
        result = np.empty_like(inputs.grad)
        for part in parts:
            result[part] = arrays(reader.read_chunk().data)[0]
        return result

    def _bulk_reader(self) -> Any:  # noqa: ANN401 - no types
        """The exchange for large tensors; the first use opens it and starts the thread that writes."""
        if self._large is None:
            writer, self._large = self._exchange(LARGE)
            self._writing = threading.Thread(target=self._write, args=(writer,))
            self._writing.start()
        return self._large

    def _write(self, writer: Any) -> None:  # noqa: ANN401 - no types
        while (batches := self._bulk.get()) is not None:
            for each in batches:
                writer.write_batch(each)
        writer.close()

    def pipeline(self, inputs: Inputs, count: int) -> None:
        reading = threading.Thread(target=self._read, args=(count,))
        reading.start()
        for _ in range(count):
            self._writer.write_batch(batch(self._schema, *inputs.arrays))
        reading.join()

    def _read(self, count: int) -> None:
        for _ in range(count):
            self._reader.read_chunk()

    def close(self) -> None:
        if self._writing is not None:
            self._bulk.put(None)
            self._writing.join()
        self._writer.close()
        self._client.close()


def schema(*names: str) -> pa.Schema:
    """Columns of float32."""
    import pyarrow as pa

    return pa.schema([(name, pa.float32()) for name in names])


def batch(layout: pa.Schema, *columns: Array) -> pa.RecordBatch:
    """A batch over the arrays' own memory."""
    import pyarrow as pa

    wrapped = [
        pa.Array.from_buffers(pa.float32(), len(column), [None, pa.py_buffer(column)])
        for column in columns
    ]
    return pa.RecordBatch.from_arrays(wrapped, schema=layout)


def arrays(received: pa.RecordBatch) -> list[Array]:
    """The columns, as views of the batch's memory."""
    return [column.to_numpy(zero_copy_only=True) for column in received.columns]


def _check_installed() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise NotOffered("pyarrow is not installed")


SYSTEM = System(
    "flight",
    "Arrow Flight DoExchange",
    lambda: ServerProcess("benchmarks.systems.flight_server"),
    FlightClient,
)
