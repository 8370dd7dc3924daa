"""Calls into the sessions, as the tests make them."""

from __future__ import annotations

import numpy as np

from aclnn import dtypes
from aclnn.arguments import TensorArgument
from aclnn.tensors import TensorSpec
from aclnn_server.sessions.context import Context, Session
from aclnn_server.sessions.execution import Binding, Execution, execute
from aclnn_server.sessions.executors import Executor
from aclnn_server.sessions.planning import plan
from aclnn_server.sessions.registry import Registry
from tests.service.gated import GatedBackend

LARGE = 2**21
"""Bytes of a buffer whose work goes to a worker."""
_OPERATORS = GatedBackend().operators
_PAIR = TensorSpec.contiguous((2,), dtypes.FLOAT)
_VALUES = np.array([7, 8], np.float32).tobytes()


def into(buffer_id: int | None) -> TensorArgument:
    """The output of a call: two floats in a large buffer, or returned."""
    if buffer_id is None:
        return TensorArgument(_PAIR)
    spec = TensorSpec(dtypes.FLOAT, (2,), (1,), 0, (LARGE // 4,))
    return TensorArgument(spec, None, buffer_id)


def passing(
    session: Session,
    gate: int,
    *,
    buffer_id: int | None = None,
    executor_id: int = 0,
    repeatable: bool = False,
) -> Executor:
    """Plans a copy of [7, 8] that waits at a gate."""
    signature = _OPERATORS["aclnnPass"].signature
    arguments = (TensorArgument(_PAIR, _VALUES), gate, into(buffer_id))
    return plan(session, executor_id, signature, arguments, repeatable=repeatable)


def scratch(session: Session, size: int, gate: int, *, buffer_id: int | None = None) -> Executor:
    """Plans a copy of [7, 8] that takes a workspace and waits at a gate."""
    signature = _OPERATORS["aclnnScratch"].signature
    arguments = (TensorArgument(_PAIR, _VALUES), size, gate, into(buffer_id))
    return plan(session, 0, signature, arguments, repeatable=False)


def run(
    session: Session,
    executor: Executor,
    *,
    wait: bool | None = None,
    bindings: tuple[Binding, ...] = (),
) -> Execution:
    """Runs an executor; waits where it returns something."""
    return execute(session, executor.id, None, bindings, wait=wait)


def occupy(context: Context, gate: int, *, buffer_id: int = 1) -> None:
    """Leaves a kernel at a gate, on a worker; it writes a buffer that it makes."""
    context.add_buffer(buffer_id, LARGE)
    session = context.default_session
    run(session, passing(session, gate, buffer_id=buffer_id), wait=False)


def values(execution: Execution) -> list[float]:
    """The floats that came back."""
    (output,) = execution.outputs
    found: list[float] = np.frombuffer(output.data, np.float32).tolist()
    return found


def totals(registry: Registry) -> dict[str, int]:
    """What all contexts hold together, by kind."""
    usage = registry.usage
    return {name: getattr(usage, name) for name in usage.__slots__}


NOTHING = dict.fromkeys(
    ("contexts", "streams", "executors", "buffers", "bytes", "events", "queued_commands"), 0
)
