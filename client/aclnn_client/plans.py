"""What is known of a call before the server is asked: its signature, and its workspace if planned before."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aclnn.signatures import Signature, parse
from aclnn_client.tensor import AnyTensor
from aclnn_client.values import Call, Key, Slot, encode

CAPACITY = 1024
"""Calls that a context remembers; the one that was not used for longest is forgotten first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of a call that was planned before, whatever its memory."""

    workspace_size: int
    """In bytes."""
    signature: Signature
    arguments: tuple[bytes, ...] = ()
    """As they stand in a request; empty for a tensor, and all of a call whose key is not plain."""
    slots: tuple[Slot, ...] = ()
    """Of the tensors, in order."""

    @classmethod
    def of(cls, call: Call, workspace_size: int) -> Plan:
        """The plan of a call."""
        if not call.plain or call.others:
            return cls(workspace_size, call.signature)
        arguments = [
            b"" if (position, 0) in call.tensors else argument
            for position, argument in enumerate(call.arguments)
        ]
        return cls(workspace_size, call.signature, tuple(arguments), tuple(call.tensors))

    def fill(self, key: Key, tensors: Sequence[AnyTensor[Any]]) -> Call:
        """The call on these tensors."""
        arguments = [*self.arguments]
        for (position, _), tensor in zip(self.slots, tensors, strict=True):
            arguments[position] = tensor.argument
        return Call(
            self.signature,
            arguments,
            key,
            plain=True,
            workspace_size=self.workspace_size,
            tensors=dict(zip(self.slots, tensors, strict=True)),
        )


class Plans:
    """Calls that were planned before. Thread-safe.

    A call is known by its operator, the specs of its tensors and the values of its other arguments: equal
    calls are planned alike. The server validates each one nevertheless.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._plans: OrderedDict[Key, Plan] = OrderedDict()

    def find(self, key: Key) -> Plan | None:
        """The plan of a call, where it is known."""
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
            return plan

    def recall(self, key: Key, tensors: Sequence[AnyTensor[Any]]) -> Call | None:
        """A call that is known by what :func:`plain_key` gives for it; ``None`` of any other."""
        plan = self.find(key)
        return plan.fill(key, tensors) if plan is not None and plan.arguments else None

    def prepare(self, signature: Signature, values: Sequence[object]) -> Call:
        """Encodes a call; arguments and errors as of :func:`encode`."""
        call = encode(signature, values)
        plan = self.find(call.key)
        if plan is not None:
            call.workspace_size = plan.workspace_size
        return call

    def keep(self, call: Call, workspace_size: int) -> None:
        """Remembers the plan of a call, which needs so many bytes of workspace."""
        with self._lock:
            self._plans[call.key] = Plan.of(call, workspace_size)
            if len(self._plans) > self._capacity:
                self._plans.popitem(last=False)

    def __len__(self) -> int:
        return len(self._plans)


@functools.cache
def known_signature(operator: str) -> Signature | None:
    """The signature of an operator of this distribution; ``None`` for any other."""
    from aclnn_client.ops import SHAPED_BY_DATA, SIGNATURES

    row = SIGNATURES.get(operator)
    if row is None:
        return None
    prototype, outputs, optional = row
    shaped = SHAPED_BY_DATA.get(operator, ())
    return parse(prototype, outputs=outputs, optional=optional, shaped_by_data=shaped)
