"""Does the kit's steps with the Python client; see README.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aclnn import dtypes
from aclnn.tensors import Scalar
from aclnn_client import AclnnError, Context, connect, execute, ops

Json = Any


class Adapter:
    """The context, and what has a name in it."""

    def __init__(self) -> None:
        self._context: Context | None = None
        self._named: dict[str, Any] = {}

    @property
    def context(self) -> Context:
        """The open context."""
        assert self._context is not None
        return self._context

    def hello(self) -> Json:
        """Tells what the client is."""
        return {"client": "aclnn-client-python"}

    def connect(self, address: str) -> None:
        """Opens a context."""
        self._context = connect(address)

    def close(self) -> None:
        """Closes the context, if one is open, and forgets every name."""
        self._named.clear()
        if self._context is not None:
            self._context.close()
            self._context = None

    def stream(self, name: str) -> None:
        """Creates a stream."""
        self._named[name] = self.context.create_stream()

    def event(self, name: str) -> None:
        """Creates an event."""
        self._named[name] = self.context.create_event()

    def buffer(self, name: str, bytes: int) -> None:
        """Allocates bytes."""
        self._named[name] = self.context.malloc(bytes)

    def tensor(self, name: str, dtype: str, shape: list[int], **layout: Any) -> None:  # noqa: ANN401
        """Creates a tensor; its storage has the bytes given, or zeros."""
        data = layout.pop("data", None)
        tensor = self.context.create_tensor(shape, dtype, **layout)
        if data is not None:
            tensor.buffer.write(_bytes(data))
        self._named[name] = tensor

    def read(self, tensor: str, into: str) -> None:
        """Writes the elements of a view to a file."""
        Path(into).write_bytes(np.ascontiguousarray(self._named[tensor].numpy()).tobytes())

    def free(self, tensor: str) -> None:
        """Frees a tensor's memory."""
        self._named[tensor].free()

    def plan(
        self, name: str, operator: str, arguments: list[Json], repeatable: bool = False
    ) -> Json:
        """Phase one."""
        phase_one = getattr(ops, f"{operator}GetWorkspaceSize")
        values = [self._value(argument) for argument in arguments]
        size, executor = phase_one(*values, repeatable=repeatable, context=self.context)
        self._named[name] = executor
        return {"workspace_bytes": size}

    def execute(
        self, executor: str, stream: str | None = None, bindings: dict[str, str] | None = None
    ) -> None:
        """Phase two, with a workspace of its own."""
        planned = self._named[executor]
        size = planned.workspace_size
        bound = {key: self._named[name] for key, name in (bindings or {}).items()}
        on = self._named[stream] if stream else None
        workspace = self.context.malloc(size)
        execute(planned.operator, workspace, size, planned, on, bindings=bound)

    def destroy_executor(self, executor: str) -> None:
        """Ends a repeatable executor."""
        self._named[executor].destroy()

    def synchronize(self, stream: str | None = None, timeout_ms: float | None = None) -> None:
        """Waits for a stream, or for all."""
        on = self._named[stream] if stream else self.context
        on.synchronize(None if timeout_ms is None else timeout_ms / 1000)

    def record(self, event: str, stream: str) -> None:
        """Records an event."""
        self._named[event].record(self._named[stream])

    def wait_event(self, event: str, stream: str) -> None:
        """Lets a stream wait for an event."""
        self._named[stream].wait(self._named[event])

    def query_event(self, event: str) -> Json:
        """Asks whether an event was passed."""
        return {"complete": self._named[event].query()}

    def elapsed(self, start: str, end: str) -> Json:
        """Asks for the time between two events."""
        return {"milliseconds": self._named[start].elapsed_time(self._named[end])}

    def _value(self, argument: Json) -> Any:  # noqa: ANN401
        (kind, value), *rest = argument.items()
        match kind:
            case "tensor":
                return self._named[value]
            case "tensors":
                return [self._named[name] for name in value]
            case "scalar":
                dtype = dtypes.dtype(rest[0][1])
                return Scalar(_parsed(value, dtype.kind), dtype)
            case "ints":
                return [int(item) for item in value]
            case "int":
                return int(value)
            case "null":
                return None
        return value


def _parsed(text: str, kind: str) -> complex | float | int | bool:
    if kind == "bool":
        return text == "True"
    if kind == "complex":
        return complex(text)
    return float(text) if kind == "float" else int(text)


def _bytes(data: Json) -> bytes:
    with Path(data["file"]).open("rb") as file:
        file.seek(data["offset"])
        return file.read(data["bytes"])


def answer(adapter: Adapter, step: Json) -> Json:
    """Does one step."""
    fields = {("name" if key == "as" else key): v for key, v in step.items() if key != "do"}
    act: Callable[..., Json] = getattr(adapter, step["do"])
    try:
        return {"ok": act(**fields) or {}}
    except AclnnError as error:
        told = {key: getattr(error, key) for key in ("code", "name", "operator", "parameter")}
        return {"error": {**told, "reason": error.reason, "message": error.message}}


def main() -> None:
    """Runs the program."""
    adapter = Adapter()
    for line in sys.stdin:
        print(json.dumps(answer(adapter, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
