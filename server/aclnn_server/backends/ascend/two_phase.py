"""The two-phase call, written once for every operator.

CANN notes the addresses of tensors at phase one. So a call is planned where its tensors lie, as far as that
is known, and planned again before it is run where they turned out to lie elsewhere; the addresses of a
repeatable executor are set instead, where CANN lets them be.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from ctypes import byref, c_uint64, c_void_p
from dataclasses import dataclass, field
from functools import cached_property

from aclnn import codes
from aclnn.errors import (
    AclnnError,
    ExecutionFailedError,
    ExecutorUsedError,
    InvalidParameterError,
    OperatorNotFoundError,
)
from aclnn.signatures import Kind, Signature
from aclnn_server.backends.ascend.acl import Acl, Find, Function
from aclnn_server.backends.ascend.arguments import (
    ALIGNMENT,
    Arguments,
    Converter,
    Makers,
    Tensors,
)
from aclnn_server.backends.ascend.handles import Executor
from aclnn_server.backends.base import Value

WORKSPACE_ALIGNMENT = 64
"""Bytes of which a workspace's address must be a multiple."""

_SETTERS = {
    (False, False): "aclSetInputTensorAddr",
    (False, True): "aclSetOutputTensorAddr",
    (True, False): "aclSetDynamicInputTensorAddr",
    (True, True): "aclSetDynamicOutputTensorAddr",
}
"""Functions that set an address: by whether of a list, and whether of an output."""

_HANDLES = frozenset(kind for kind in Kind if kind.pointer and kind is not Kind.TEXT)
"""Kinds of arguments that may be inputs of a kernel, and so have a number there."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bound:
    """An operator with its two C functions."""

    signature: Signature
    plan: Function
    run: Function
    makers: Makers

    @cached_property
    def positions(self) -> tuple[tuple[int, bool, bool, int], ...]:
        """Tensor parameters: position, whether a list, whether an output, number among its likes."""
        counts = {True: 0, False: 0}
        found = []
        for position, parameter in enumerate(self.signature.parameters):
            if parameter.kind.holds_tensors:
                is_list = parameter.kind is Kind.TENSOR_LIST
                found.append((position, is_list, parameter.output, counts[parameter.output]))
                counts[parameter.output] += 1
        return tuple(found)

    @cached_property
    def takes_addresses(self) -> bool:
        """Whether a repeatable executor can be told new addresses, whatever kind of executor it is.

        Not where a tensor is both read and written, which is two tensors for some executors; nor where the
        number of a tensor depends on whether scalars, arrays and the elements of lists are counted.
        """
        parameters = self.signature.parameters
        inputs = [row.kind for row in parameters if row.kind in _HANDLES and not row.output]
        outputs = {row.kind for row in self.signature.outputs}
        read = {kind for kind in inputs if kind.holds_tensors}
        first = inputs[: sum(kind.holds_tensors for kind in inputs)]
        in_order = all(kind.holds_tensors for kind in first)
        return in_order and max(len(read), len(outputs)) <= 1 and not self._updates_in_place

    @property
    def _updates_in_place(self) -> bool:
        names = [row.name for row in self.signature.outputs]
        return "Inplace" in self.signature.name or any(name.endswith("Ref") for name in names)


@dataclass(slots=True, eq=False)
class PlannedCall:
    """A planned call: the executor, and what it holds."""

    bound: Bound
    values: tuple[Value, ...]
    repeatable: bool
    """Whether the caller wants to run it more than once."""
    places: tuple[object, ...] = ()
    """Addresses that the executor knows."""
    workspace_bytes: int = 0
    arguments: Arguments = field(default_factory=Arguments)
    executor: Executor | None = None
    """``None`` where phase two has taken it."""
    stays: bool = False
    """Whether phase two leaves the executor."""
    over: bool = False
    """Whether it cannot be run any more."""

    @property
    def name(self) -> str:
        """The operator."""
        return self.bound.signature.name


class TwoPhase:
    """Plans and runs operators; for the device's thread."""

    def __init__(self, acl: Acl, tensors: Tensors, find: Find) -> None:
        self._acl = acl
        self._tensors = tensors
        self._find = find
        self._converter = Converter(acl, tensors)
        self._bound: dict[str, Bound] = {}
        self._planned: set[PlannedCall] = set()
        self._lock = threading.Lock()
        self._size = c_uint64()
        self._size_out = byref(self._size)

    # --- phase one --------------------------------------------------------------------------------

    def plan(
        self,
        signature: Signature,
        values: Sequence[Value],
        places: tuple[object, ...],
        repeatable: bool,
    ) -> PlannedCall:
        """Phase one.

        Args:
            signature: of the operator.
            values: arguments, by parameter.
            places: addresses, see :func:`~aclnn_server.backends.ascend.arguments.addresses`.
            repeatable: whether it is to be run more than once.

        Raises:
            AclnnError: what CANN refused the call with; nothing is left behind.
        """
        bound = self._bound.get(signature.name) or self._bind(signature)
        call = PlannedCall(bound, tuple(values), repeatable)
        self._prepare(call, places)
        self._planned.add(call)
        return call

    def _bind(self, signature: Signature) -> Bound:
        try:
            functions = self._acl.operator(self._find, signature)
        except AttributeError:
            raise OperatorNotFoundError(
                "the installed CANN has no such function", operator=signature.name
            ) from None
        makers = self._converter.makers(signature)
        bound = self._bound[signature.name] = Bound(signature, *functions, makers)
        return bound

    def _prepare(self, call: PlannedCall, places: tuple[object, ...]) -> None:
        bound = call.bound
        call.arguments = self._converter.convert(call.name, bound.makers, call.values, places)
        try:
            call.executor = self._phase_one(bound, call.arguments)
        except BaseException:
            call.arguments.release(self._tensors, self._acl)
            raise
        call.workspace_bytes = self._size.value
        call.places = places
        call.stays = call.repeatable and self._make_repeatable(call.executor)

    def _phase_one(self, bound: Bound, arguments: Arguments) -> Executor:
        executor = c_void_p()
        bound.plan(*arguments.values, self._size_out, byref(executor))
        if executor.value is None:
            raise ExecutionFailedError("phase one made no executor", operator=bound.signature.name)
        return Executor(self._acl, executor.value)

    def _make_repeatable(self, executor: Executor) -> bool:
        """Whether CANN lets the executor be run more than once."""
        if not self._acl.has("aclSetAclOpExecutorRepeatable"):
            return False
        try:
            self._acl.aclSetAclOpExecutorRepeatable(executor.value)
        except AclnnError as error:
            _LOG.debug("the executor is planned again for every run: %s", error)
            return False
        return True

    # --- phase two --------------------------------------------------------------------------------

    def begin(self, call: PlannedCall, workspace: tuple[int, int]) -> None:
        """Checks that a call can be run; one that is not repeatable is over then. On any thread.

        Args:
            call: of :meth:`plan`.
            workspace: address and size in bytes; (0, 0) is none.

        Raises:
            ExecutorUsedError: it is over.
            InvalidParameterError: 161002, the workspace is too small, or lies at an odd address.
        """
        address, size = workspace
        if size < call.workspace_bytes:
            raise InvalidParameterError(
                f"workspaceSize is {size}; phase one planned {call.workspace_bytes}",
                operator=call.name,
                parameter="workspaceSize",
            )
        if address % WORKSPACE_ALIGNMENT:
            raise InvalidParameterError(
                f"workspace begins {address % WORKSPACE_ALIGNMENT} bytes behind a multiple of "
                f"{WORKSPACE_ALIGNMENT}; CANN takes multiples only",
                operator=call.name,
                parameter="workspace",
            )
        with self._lock:
            over, call.over = call.over, not call.repeatable
        if over:
            call.over = True
            raise ExecutorUsedError("the executor was run before", operator=call.name)

    def run(
        self,
        call: PlannedCall,
        places: tuple[object, ...],
        workspace: tuple[int, int],
        stream: int | None,
    ) -> None:
        """Phase two of a call that :meth:`begin` was asked for: queues the work in a stream.

        Args:
            call: the call.
            places: addresses of the tensors, now all that have elements.
            workspace: as in :meth:`begin`.
            stream: aclrtStream.

        Raises:
            AclnnError: what CANN failed with.
        """
        address, size = workspace
        try:
            if call.executor is None or not self._settle_places(call, places):
                self._plan_again(call, places, size)
            assert call.executor is not None
            try:
                call.bound.run(address or None, size, call.executor.value, stream)
            finally:
                if not call.stays:
                    call.executor.forget()  # phase two frees it, on failure too
        finally:
            if not call.stays:
                self._drop(call)
            if not call.repeatable:
                self._planned.discard(call)

    def _plan_again(self, call: PlannedCall, places: tuple[object, ...], room: int) -> None:
        planned = call.workspace_bytes
        self._drop(call)
        self._prepare(call, places)
        if call.workspace_bytes > max(planned, room):
            raise ExecutionFailedError(
                f"planned again for the addresses of this run, it needs {call.workspace_bytes} bytes of "
                f"workspace, and {planned} before",
                operator=call.name,
                code=codes.ACLNN_ERR_INNER,
            )

    # --- addresses of repeatable executors --------------------------------------------------------

    def _settle_places(self, call: PlannedCall, places: tuple[object, ...]) -> bool:
        """Whether the executor knows these addresses, or could be told."""
        if places == call.places:
            return True
        if not call.stays or not call.bound.takes_addresses:
            return False
        changes = []
        for position, is_list, output, number in call.bound.positions:
            if call.values[position] is None:
                return False  # whether a null tensor counts in the numbers differs by operator
            before, now = call.places[position], places[position]
            if before != now and not _both_aligned(before, now):
                return False
            if before != now:
                changes.append((is_list, output, number, call.arguments.values[position], now))
        call.arguments.moved = True
        try:
            for change in changes:
                self._set_address(call, *change)
        except AclnnError as error:
            _LOG.debug("planned again, because an address could not be set: %s", error)
            return False
        call.places = places
        return True

    def _set_address(
        self, call: PlannedCall, is_list: bool, output: bool, number: int, handle: int, now: object
    ) -> None:
        assert call.executor is not None
        executor = call.executor.value
        set_address: Function = getattr(self._acl, _SETTERS[is_list, output])
        if isinstance(now, tuple):
            for element, address in enumerate(now):
                set_address(executor, number, element, handle, address)
        else:
            set_address(executor, number, handle, now)

    # --- the end ----------------------------------------------------------------------------------

    def discard(self, call: PlannedCall) -> None:
        """Ends a planned call, run or not."""
        call.over = True
        self._drop(call)
        self._planned.discard(call)

    def _drop(self, call: PlannedCall) -> None:
        """Destroys the executor, where there is one, and then what it held."""
        if call.executor is not None:
            call.executor.close()
            call.executor = None
        call.arguments.release(self._tensors, self._acl)
        call.stays = False

    def close(self) -> None:
        """Ends every planned call that is left."""
        for call in list(self._planned):
            self.discard(call)


def _both_aligned(before: object, now: object) -> bool:
    """Whether addresses, or tuples of them, are known and such that an executor can be told them."""
    for places in (before, now):
        for address in places if isinstance(places, tuple) else (places,):
            if not address or address % ALIGNMENT:
                return False
    return True
