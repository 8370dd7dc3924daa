"""What a context does, said in a few lines of Python: the model that random schedules are compared with.

One stream, buffers of one int64 each, and one operator that appends a decimal digit. While the stream is held
by a kernel that stands at a gate, what comes is queued, and is done when the gate opens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from tests.service.requests import digit, run

NUMBER_BYTES = 8
GATE_BYTES = 2**21
"""Bytes of the buffer that a kernel at a gate writes: as many as are left to a worker."""
GATE_INLINE = 8
"""Bytes that its input takes."""


@dataclass
class Number:
    """A buffer's content."""

    value: int = 0
    freed: bool = False
    uses: int = 0
    """Commands that are queued and use it."""

    @property
    def counted(self) -> bool:
        """Whether its memory has not gone back."""
        return not self.freed or self.uses > 0

    def append(self, value: int) -> None:
        """Appends a digit, in 64 bits."""
        whole = (self.value * 10 + value) % 2**64
        self.value = whole - 2**64 if whole >= 2**63 else whole


@dataclass
class Plan:
    """An executor."""

    digit: int
    buffer: int
    number: Number
    repeatable: bool


Expected = str | int
"""What a command answers: ``ok``, the reason of its failure, or the number that was read."""


@dataclass
class Command:
    """One command, as it is sent."""

    kind: str
    id: int = 1
    buffer: int = 1
    value: int = 1
    repeatable: bool = False

    def encode(self, stream_id: str) -> pb.Command:
        """The message; what writes is ordered by the stream."""
        if self.kind == "malloc":
            return pb.Command(malloc=pb.MallocRequest(buffer_id=self.buffer, bytes=NUMBER_BYTES))
        if self.kind == "free":
            return pb.Command(free=pb.FreeRequest(buffer_id=self.buffer))
        if self.kind == "write":
            data = np.int64(self.value).tobytes()
            write = pb.WriteBufferRequest(buffer_id=self.buffer, data=data, stream_id=stream_id)
            return pb.Command(write_buffer=write)
        if self.kind == "plan":
            planned = digit(self.value, self.buffer, executor=self.id, repeatable=self.repeatable)
            return pb.Command(get_workspace_size=planned)
        if self.kind == "run":
            return pb.Command(execute=run(self.id))
        if self.kind == "destroy":
            return pb.Command(destroy_executor=op.DestroyExecutorRequest(executor_id=self.id))
        read = pb.ReadBufferRequest(buffer_id=self.buffer, bytes=NUMBER_BYTES)
        return pb.Command(read_buffer=read)


def answered(result: pb.Result) -> Expected:
    """What a command answered."""
    kind = result.WhichOneof("result")
    if kind == "error":
        return result.error.reason
    if kind == "read_buffer":
        return int(np.frombuffer(result.read_buffer.data, np.int64)[0])
    assert kind is not None
    return "ok"


@dataclass
class Model:
    """One context."""

    lease: float
    seen: float
    """When its client was last heard of."""
    numbers: dict[int, Number] = field(default_factory=dict)
    plans: dict[int, Plan] = field(default_factory=dict)
    spent: set[int] = field(default_factory=set)
    streams: int = 1
    held: bool = False
    every: list[Number] = field(default_factory=list)
    """All numbers that ever were."""
    _queue: list[tuple[Number, Callable[[], None]]] = field(default_factory=list)

    def apply(self, command: Command) -> Expected:
        """Does a command, and gives what it answers."""
        answer: Expected = getattr(self, f"_{command.kind}")(command)
        return answer

    def _malloc(self, command: Command) -> Expected:
        if command.buffer not in self.numbers:
            self.numbers[command.buffer] = Number()
            self.every.append(self.numbers[command.buffer])
        return "ok"

    def _free(self, command: Command) -> Expected:
        number = self.numbers.pop(command.buffer, None)
        if number is None:
            return "HANDLE_NOT_FOUND"
        number.freed = True
        return "ok"

    def _write(self, command: Command) -> Expected:
        number = self.numbers.get(command.buffer)
        if number is None:
            return "HANDLE_NOT_FOUND"
        self._do(number, lambda: setattr(number, "value", command.value))
        return "ok"

    def _plan(self, command: Command) -> Expected:
        known, number = self.plans.get(command.id), self.numbers.get(command.buffer)
        if known is not None:
            asked = (command.value, command.buffer, command.repeatable)
            same = (known.digit, known.buffer, known.repeatable) == asked
            return "ok" if same else "HANDLE_EXISTS"
        if number is None:
            return "HANDLE_NOT_FOUND"
        self.plans[command.id] = Plan(command.value, command.buffer, number, command.repeatable)
        self.spent.discard(command.id)
        return "ok"

    def _run(self, command: Command) -> Expected:
        plan = self.plans.get(command.id)
        if plan is None:
            return "EXECUTOR_USED" if command.id in self.spent else "HANDLE_NOT_FOUND"
        if not plan.repeatable:
            self.spend(command.id)
        if plan.number.freed:
            return "HANDLE_NOT_FOUND"
        self._do(plan.number, lambda: plan.number.append(plan.digit))
        return "ok"

    def _destroy(self, command: Command) -> Expected:
        return "HANDLE_NOT_FOUND" if self.plans.pop(command.id, None) is None else "ok"

    def _read(self, command: Command) -> Expected:
        number = self.numbers.get(command.buffer)
        return "HANDLE_NOT_FOUND" if number is None else number.value

    def spend(self, plan: int) -> None:
        """Takes a one-shot executor."""
        del self.plans[plan]
        self.spent.add(plan)

    def _do(self, number: Number, effect: Callable[[], None]) -> None:
        if self.held:
            number.uses += 1
            self._queue.append((number, effect))
        else:
            effect()

    def queue_nothing(self, plan: int) -> None:
        """Queues a run whose caller goes away: it takes its place in the queue, and does nothing."""
        number = self.plans[plan].number
        if not self.plans[plan].repeatable:
            self.spend(plan)
        number.uses += 1
        self._queue.append((number, lambda: None))

    def release(self) -> None:
        """Opens the gate: what was queued is done, in order."""
        self.held = False
        for number, effect in self._queue:
            effect()
            number.uses -= 1
        self._queue.clear()

    @property
    def usage(self) -> dict[str, int]:
        """What the server counts for it."""
        numbers = sum(number.counted for number in self.every)
        gate = GATE_BYTES + GATE_INLINE if self.held else 0
        return {
            "contexts": 1,
            "streams": self.streams,
            "executors": len(self.plans),
            "buffers": numbers + self.held,
            "bytes": NUMBER_BYTES * numbers + gate,
            "events": 0,
            "queued_commands": len(self._queue) + self.held,
        }
