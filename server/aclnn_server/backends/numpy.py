"""The backend that computes with NumPy on the host's processor, in place on its memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType

from aclnn.errors import (
    AclnnError,
    InvalidParameterError,
    OutOfMemoryError,
    UnsupportedError,
    ViewOutsideStorageError,
)
from aclnn.signatures import Parameter, Signature
from aclnn.tensors import Scalar, TensorSpec
from aclnn_server.backends.base import (
    Backend,
    Check,
    DeviceStream,
    OperatorInfo,
    Plan,
    Shapes,
    Storage,
    Value,
)
from aclnn_server.backends.host import Array, HostDevice
from aclnn_server.operators.catalogue import lookup, operators
from aclnn_server.operators.definition import Operator
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.products import REFERENCE, Product, product

KEPT_PLANS = 4096
"""Plans that are kept for equal calls; they are forgotten together when there are more."""
KEPT_NUMBERS = 1 << 20
"""Numbers that the arguments of the kept plans may have in all, of at most 100 bytes each."""


class NumpyBackend(Backend):
    """The host's processor as one device or several, and every operator of the catalogue.

    Args:
        threads: threads that compute a large operator, the calling one included; ``None`` takes one per
            processor that this process may use.
        soc: product whose rules phase one enforces, see :mod:`aclnn_server.operators.products`.
        device_count: devices that the processor stands for, for programs that use several; they share its
            threads and its memory.

    Raises:
        ValueError: there is no such product.
    """

    name = "numpy"

    def __init__(
        self, threads: int | None = None, soc: str = REFERENCE.name, device_count: int = 1
    ) -> None:
        rules = product(soc)
        shared = Threads(threads)
        self._devices = tuple(NumpyDevice(shared, rules, index) for index in range(device_count))
        self._operators = MappingProxyType(
            {name: operator_info(operator, rules) for name, operator in operators().items()}
        )

    @property
    def operators(self) -> Mapping[str, OperatorInfo]:
        """The whole catalogue; what the product lacks is marked."""
        return self._operators

    @property
    def devices(self) -> Sequence[NumpyDevice]:
        """The devices; one unless asked for more."""
        return self._devices


class NumpyDevice(HostDevice):
    """The host's processor as a device of a product, computing with NumPy."""

    def __init__(self, threads: Threads, rules: Product, index: int = 0) -> None:
        super().__init__(index)
        self._threads = threads
        self._product = rules
        self._plans: dict[Hashable, Plan] = {}
        self._kept_numbers = 0

    def plan(
        self,
        operator: str,
        arguments: Sequence[Value],
        storages: Sequence[Storage] = (),
        *,
        repeatable: bool = False,
    ) -> Plan:
        """Checks as the operator says, then that NumPy can read and write the tensors' storages.

        A call that equals an earlier one in all that is checked has the same plan.
        """
        key = (operator, *map(_exactly, arguments))
        known = self._plans.get(key)
        if known is None:
            found = lookup(operator)
            work = found.plan(arguments, self._product)
            check_storages(found.signature, arguments)
            known = Plan(operator, tuple(arguments), work.workspace_bytes, work)
            self._keep(key, known)
        return known

    def _keep(self, key: Hashable, plan: Plan) -> None:
        numbers = sum(map(_numbers, plan.arguments))
        if numbers > KEPT_NUMBERS:
            return
        if len(self._plans) >= KEPT_PLANS or self._kept_numbers + numbers > KEPT_NUMBERS:
            self._plans.clear()
            self._kept_numbers = 0
        self._plans[key] = plan
        self._kept_numbers += numbers

    def run(
        self,
        plan: Plan,
        storages: Sequence[Storage],
        workspace: Array | None,
        stream: DeviceStream,
    ) -> Shapes | None:
        """Computes before it returns, in the calling thread and, for large tensors, in others."""
        parameters = lookup(plan.operator).signature.parameters
        memory = {row.name: storage for row, storage in zip(parameters, storages, strict=True)}
        try:
            shapes: Shapes | None = plan.prepared.run(memory, workspace, stream or self._threads)
        except MemoryError:
            raise OutOfMemoryError(
                "the host has no room for the blocks in work", operator=plan.operator
            ) from None
        return shapes

    def create_stream(self, check: Check | None = None) -> DeviceStream:
        """The threads, asking `check` between the blocks of a computation."""
        return self._threads.asking(check) if check is not None else None

    def close(self) -> None:
        """Ends the threads."""
        self._threads.close()


def _exactly(value: Value) -> Hashable:
    """What tells a value from every other one: -0.0 equals 0.0, and NaN not even itself."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Scalar):
        return value.dtype, repr(value.value)
    if isinstance(value, tuple):
        return tuple(map(_exactly, value))
    return value


def _numbers(value: Value) -> int:
    """How many numbers make up a value, about."""
    if isinstance(value, tuple):
        return 1 + sum(map(_numbers, value))
    if isinstance(value, TensorSpec):
        return 3 * len(value.shape) + 1
    return len(value) if isinstance(value, str) else 1


def operator_info(operator: Operator, rules: Product) -> OperatorInfo:
    """Describes an operator as a product has it."""
    return OperatorInfo(
        operator.signature,
        operator.summary,
        operator.description,
        {name: rules.allowed(types) for name, types in operator.dtypes.items()},
        operator.refused_because(rules),
        python=operator.python,
    )


def check_storages(signature: Signature, arguments: Sequence[Value]) -> None:
    """Checks what NumPy needs of tensors beyond the operator's own rules.

    Raises:
        ViewOutsideStorageError: 561103, a private format.
        InvalidParameterError: 161002, an output two of whose elements are the same memory.
        UnsupportedError: 207000, an element type that NumPy has no arrays of.
    """
    for parameter, argument in zip(signature.parameters, arguments, strict=True):
        for spec in argument if isinstance(argument, tuple) else (argument,):
            if isinstance(spec, TensorSpec):
                _check_storage(signature.name, parameter, spec)


def _check_storage(operator: str, parameter: Parameter, spec: TensorSpec) -> None:
    for error, problem in _problems(parameter, spec):
        raise error(f"{parameter.name} {problem}", operator=operator, parameter=parameter.name)


def _problems(parameter: Parameter, spec: TensorSpec) -> Iterator[tuple[type[AclnnError], str]]:
    if not spec.format.plain:
        yield (
            ViewOutsideStorageError,
            f"has the private format {spec.format}, which this backend does not read",
        )
    if spec.dtype.numpy is None or spec.dtype.packed:
        yield UnsupportedError, f"is {spec.dtype}, of which this backend has no arrays"
    if parameter.output and spec.overlaps_itself:
        yield (
            InvalidParameterError,
            f"with shape {list(spec.shape)} and strides {list(spec.strides)} has elements that are "
            "the same memory, which an output must not",
        )
