"""Executors: planned calls, with the memory that each tensor of the call lies in."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aclnn.arguments import ArgumentValue, TensorArgument
from aclnn.errors import HandleNotFoundError, InvalidParameterError, NullPointerError
from aclnn.signatures import Kind, Parameter, Signature
from aclnn_server.backends.base import Memory, Plan, Storage, Value
from aclnn_server.sessions.handles import unknown
from aclnn_server.sessions.memory import Account, Buffer


@dataclass(slots=True)
class Slot:
    """One tensor of a call, and where its storage is."""

    argument: int
    """Position of the argument in the prototype."""
    element: int
    """Position inside a tensor list; 0 for a plain tensor."""
    parameter: Parameter
    tensor: TensorArgument
    buffer: Buffer | None = None
    """Buffer that holds the storage."""
    memory: Memory | None = None
    """The storage, where it is in a buffer or came inline."""
    owned_bytes: int = 0
    """Bytes of the account that end with the executor: those of an inline storage."""

    def over(self, tensor: TensorArgument, memory: Memory | None = None) -> Slot:
        """The same tensor of the call over another storage."""
        return Slot(self.argument, self.element, self.parameter, tensor, None, memory)

    @property
    def returned(self) -> bool:
        """Whether the response carries the storage's bytes."""
        return self.parameter.output and self.buffer is None

    def check_not_freed(self, operator: str) -> None:
        """Checks that the tensor's buffer was not freed since phase one.

        Raises:
            HandleNotFoundError: it was.
        """
        if self.buffer is not None and self.buffer.freed:
            raise HandleNotFoundError(
                f"{self.parameter.name} lies in buffer {self.buffer.id}, which was freed after phase one",
                operator=operator,
                parameter=self.parameter.name,
            )


@dataclass(slots=True)
class Executor:
    """A planned call."""

    id: int
    signature: Signature
    arguments: tuple[ArgumentValue, ...]
    plan: Plan
    slots: list[Slot]
    repeatable: bool
    stream_id: str
    """Session that holds it."""
    copy_in_ns: int = 0
    """Time that it took to take in what came inline; for the first run's figures."""
    known: Any = None
    """What :mod:`~aclnn_server.sessions.at_once` keeps of a repeatable one from run to run."""
    shaped_by_data: bool = field(init=False)
    """Whether only a run tells the shape of an output."""
    _runs: int = 0
    _ended: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.shaped_by_data = any(row.shaped_by_data for row in self.signature.parameters)

    def begin_run(self) -> Executor:
        """Keeps the plan and what came inline until :meth:`end_run`; gives the executor itself.

        Raises:
            HandleNotFoundError: it was destroyed meanwhile.
        """
        with self._lock:
            if self._ended:
                raise unknown(f"executor {self.id}", "executor_id")
            self._runs += 1
        return self

    def end_run(self, account: Account) -> None:
        """Ends a run; the last one of a destroyed executor gives everything back."""
        with self._lock:
            self._runs -= 1
            last = self._ended and self._runs == 0
        if last:
            self._release(account)

    def end(self, account: Account) -> None:
        """Destroys the executor: it is run no more, and goes when the runs in hand are over."""
        with self._lock:
            last = self._runs == 0 and not self._ended
            self._ended = True
        if last:
            self._release(account)

    def _release(self, account: Account) -> None:
        owned = [(slot.memory, slot.owned_bytes) for slot in self.slots if slot.owned_bytes]
        for slot in self.slots:
            if slot.owned_bytes:
                slot.memory, slot.owned_bytes = None, 0
        try:  # what fails to go keeps nothing else from going
            account.release_all(owned)
        finally:
            account.device.discard(self.plan)


def storages_of(
    signature: Signature, arguments: tuple[ArgumentValue, ...], slots: Iterable[Slot]
) -> list[Storage]:
    """Memory of each argument; ``None`` for a tensor that has none yet."""
    result: list[Any] = [
        [] if value is not None and parameter.kind is Kind.TENSOR_LIST else None
        for parameter, value in zip(signature.parameters, arguments, strict=True)
    ]
    for slot in slots:
        held = result[slot.argument]
        if isinstance(held, list):
            held.append(slot.memory)
        else:
            result[slot.argument] = slot.memory
    return [tuple(held) if isinstance(held, list) else held for held in result]


def values_of(arguments: tuple[ArgumentValue, ...]) -> tuple[Value, ...]:
    """What a backend plans with: the arguments with specs in place of tensors."""
    return tuple(
        argument.spec
        if isinstance(argument, TensorArgument)
        else tuple(t.spec if isinstance(t, TensorArgument) else t for t in argument)  # type: ignore[misc]
        if isinstance(argument, tuple)
        else argument
        for argument in arguments
    )


def slots_of(signature: Signature, arguments: tuple[ArgumentValue, ...]) -> Iterator[Slot]:
    """The tensors of a call, in the prototype's order; null tensors have no slot."""
    for position, parameter in enumerate(signature.parameters):
        value = arguments[position]
        if isinstance(value, TensorArgument):
            yield Slot(position, 0, parameter, value)
        elif parameter.kind is Kind.TENSOR_LIST and isinstance(value, tuple):
            for element, tensor in enumerate(value):
                assert isinstance(tensor, TensorArgument)
                yield Slot(position, element, parameter, tensor)


def check_storage(slot: Slot, operator: str, *, repeatable: bool) -> None:
    """Checks what phase one checks last: the view inside its storage, the storage somewhere.

    Raises:
        ViewOutsideStorageError: 561103.
        NullPointerError: 161001, an input that has elements has no storage.
    """
    name = slot.parameter.name
    spec = slot.tensor.spec
    spec.check_reach(operator=operator, parameter=name)
    has_storage = slot.buffer is not None or slot.tensor.data is not None
    if not (has_storage or slot.parameter.output or repeatable) and spec.elements:
        raise NullPointerError(
            f"{name} has no storage: its data address is null", operator=operator, parameter=name
        )


def check_bytes(slot: Slot, limit: int, operator: str) -> None:
    """Checks that the storage is no larger than a tensor may be.

    Raises:
        InvalidParameterError: 161002.
    """
    size = slot.tensor.spec.storage_bytes
    if size > limit:
        raise InvalidParameterError(
            f"{slot.parameter.name} has a storage of {size} bytes; at most {limit} are allowed",
            operator=operator,
            parameter=slot.parameter.name,
        )
