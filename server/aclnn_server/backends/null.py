"""The backend that computes nothing: it shows what the service itself costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from aclnn_server.backends.base import (
    Backend,
    DeviceStream,
    OperatorInfo,
    Plan,
    Storage,
    Value,
)
from aclnn_server.backends.host import Array, HostDevice
from aclnn_server.backends.numpy import operator_info
from aclnn_server.operators.catalogue import lookup, operators
from aclnn_server.operators.products import REFERENCE


class NullBackend(Backend):
    """One device with memory, on which every operator of the catalogue does nothing."""

    name = "null"

    def __init__(self) -> None:
        self._devices = (NullDevice(),)
        self._operators = MappingProxyType(
            {name: operator_info(operator, REFERENCE) for name, operator in operators().items()}
        )

    @property
    def operators(self) -> Mapping[str, OperatorInfo]:
        """The whole catalogue."""
        return self._operators

    @property
    def devices(self) -> Sequence[NullDevice]:
        """The one device."""
        return self._devices


class NullDevice(HostDevice):
    """Accepts any arguments, and leaves outputs as they are."""

    def plan(
        self,
        operator: str,
        arguments: Sequence[Value],
        storages: Sequence[Storage] = (),
        *,
        repeatable: bool = False,
    ) -> Plan:
        """Accepts the call, if the catalogue has the operator."""
        return Plan(lookup(operator).name, tuple(arguments), 0)

    def run(
        self,
        plan: Plan,
        storages: Sequence[Storage],
        workspace: Array | None,
        stream: DeviceStream,
    ) -> None:
        """Does nothing."""
