"""What a server is, and what it can run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Self, TypeVar

from google.protobuf.message import Message

from aclnn import dtypes, one_line
from aclnn.dtypes import DType
from aclnn.overview import DeviceInfo, Usage
from aclnn.pythonic import Pythonic
from aclnn.signatures import Signature, parse
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as operator_pb
from aclnn_client.connection import Connection
from aclnn_client.tls import Tls

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _Dataclass = TypeVar("_Dataclass", bound=DataclassInstance)

SHARED_MEMORY = "shared-memory"
"""Name of the feature."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server or a context may hold; 0 is: no limit."""

    message_bytes: int = 0
    """Bytes of one message."""
    tensor_bytes: int = 0
    """Bytes of one tensor's storage, and so of one buffer."""
    context_bytes: int = 0
    """Bytes of device memory of one context."""
    contexts: int = 0
    """Contexts of the server."""
    streams: int = 0
    """Streams of one context."""
    executors: int = 0
    """Executors of one context."""
    queued_commands: int = 0
    """Commands queued in one stream."""
    buffers: int = 0
    """Buffers of one context."""
    events: int = 0
    """Events of one context."""
    submit_calls: int = 0
    """Clients' open command calls."""
    queued_bytes: int = 0
    """Bytes of writes that are queued in one stream."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server is."""

    version: str
    """Version of aclnn-serve."""
    protocol: tuple[int, int]
    """Oldest and newest protocol version that it speaks."""
    epoch: str
    """Changes with every start of the server."""
    backend: str
    """What computes: ``"numpy"``, ``"null"`` or ``"ascend"``."""
    soc: str
    """Product whose dtype rules are enforced, for example ``"reference"``."""
    operator_count: int
    """Operators that it can run."""
    default_lease_seconds: float
    """Seconds that the context of a silent client lives."""
    features: tuple[str, ...]
    """Optional features, for example ``"shared-memory"``."""
    limits: Limits
    """Limits in force."""
    usage: Usage
    """What all contexts hold together."""
    devices: tuple[DeviceInfo, ...]
    """Its devices, by index."""


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """One parameter of an operator's phase one."""

    name: str
    """Name in the C prototype."""
    c_type: str
    """C type, for example ``"const aclTensor*"``."""
    output: bool = False
    """Whether the operator writes to it."""
    optional: bool = False
    """Whether null is allowed."""
    dtypes: tuple[DType, ...] = ()
    """Element types allowed on the server, for tensors; empty where not known."""
    shaped_by_data: bool = False
    """Whether it is an output that is given as large as it may become, and takes its shape from the run."""


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """An operator as a server knows it."""

    name: str
    """C name, with the aclnn prefix."""
    parameters: tuple[ParameterInfo, ...]
    """Parameters of phase one, without workspaceSize and executor."""
    summary: str = ""
    """One sentence."""
    description: str = field(default="", repr=False)
    """Formula, semantics, source; empty in a list of operators."""
    backends: tuple[str, ...] = ()
    """Backends of the server that run it."""
    refused_because: str = ""
    """Why it cannot be served; empty where it can."""
    python: Pythonic | None = None
    """The one-line Python form, where there is one."""

    @classmethod
    def from_proto(cls, message: operator_pb.OperatorInfo) -> Self:
        """Reads the message of the protocol."""
        return cls(
            message.name,
            tuple(_parameter(parameter) for parameter in message.parameters),
            message.summary,
            message.description,
            tuple(message.backends),
            message.refused_because,
            one_line.decode(message.one_line, message.name),
        )

    def signature(self) -> Signature:
        """The C prototype, parsed."""
        arguments = [f"{parameter.c_type} {parameter.name}" for parameter in self.parameters]
        arguments += ["uint64_t* workspaceSize", "aclOpExecutor** executor"]
        return parse(
            f"aclnnStatus {self.name}GetWorkspaceSize({', '.join(arguments)});",
            outputs=[parameter.name for parameter in self.parameters if parameter.output],
            optional=[parameter.name for parameter in self.parameters if parameter.optional],
            shaped_by_data=[row.name for row in self.parameters if row.shaped_by_data],
        )


def _parameter(message: operator_pb.Parameter) -> ParameterInfo:
    known = (dtypes.from_number(number) for number in message.data_types)
    allowed = tuple(dtype for dtype in known if dtype is not None)
    return ParameterInfo(
        message.name,
        message.c_type,
        message.output,
        message.optional,
        allowed,
        message.shaped_by_data,
    )


# --- asking -----------------------------------------------------------------------------------------


def server_info(
    address: str,
    *,
    token: str | None = None,
    tls: bool | Tls | None = None,
    timeout: float | None = None,
) -> ServerInfo:
    """Asks a server what it is, without opening a context. Arguments as of ``connect``.

    Raises:
        ServerUnavailable: no answer.
    """
    connection = Connection(address, token=token, tls=tls, timeout=timeout)
    try:
        return ask_info(connection)
    finally:
        connection.close()


def ask_info(connection: Connection) -> ServerInfo:
    """Asks the server of a connection what it is."""
    stub = connection.devices
    info = connection.call(
        stub.GetServerInfo, pb.GetServerInfoRequest(), doing="asking what it is", repeatable=True
    )
    devices = connection.call(
        stub.ListDevices,
        pb.ListDevicesRequest(),
        doing="asking for its devices",
        repeatable=True,
    )
    return ServerInfo(
        version=info.version,
        protocol=(info.protocol_min, info.protocol_max),
        epoch=info.epoch,
        backend=info.backend,
        soc=info.soc,
        operator_count=info.operator_count,
        default_lease_seconds=info.default_lease.ToNanoseconds() / 1e9,
        features=tuple(info.features),
        limits=read_fields(Limits, info.limits),
        usage=read_fields(Usage, info.usage),
        devices=tuple(read_fields(DeviceInfo, device) for device in devices.devices),
    )


def ask_operators(connection: Connection, prefix: str = "") -> list[OperatorInfo]:
    """Asks for the catalogue: every operator whose name begins with `prefix`, without description."""
    answer = connection.call(
        connection.operators.ListOperators,
        operator_pb.ListOperatorsRequest(prefix=prefix),
        doing="asking for its operators",
        repeatable=True,
    )
    return [OperatorInfo.from_proto(message) for message in answer.operators]


def ask_operator(connection: Connection, name: str) -> OperatorInfo:
    """Asks for one operator.

    Raises:
        OperatorNotFoundError: 100024, the server has no such operator.
    """
    answer = connection.call(
        connection.operators.GetOperator,
        operator_pb.GetOperatorRequest(operator=name),
        doing=f"asking for {re.sub('[^A-Za-z0-9_]', '?', name)[:100]}",
        repeatable=True,
    )
    return OperatorInfo.from_proto(answer.operator)


def read_fields(kind: type[_Dataclass], message: Message) -> _Dataclass:
    """Reads a dataclass whose fields are called as the message's."""
    return kind(**{row.name: getattr(message, row.name) for row in fields(kind)})
