"""What contexts need of their server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aclnn.errors import AclnnError
from aclnn_server.sessions.batches import KeptAnswers
from aclnn_server.sessions.blocks import Blocks
from aclnn_server.sessions.data_port import DataPort
from aclnn_server.sessions.handover import Handover
from aclnn_server.sessions.limits import Limits
from aclnn_server.sessions.meters import Meters
from aclnn_server.sessions.streams import Workers
from aclnn_server.sessions.traces import Traces


@dataclass(frozen=True, slots=True)
class Environment:
    """What a context needs of its server."""

    limits: Limits
    workers: Workers
    clock: Callable[[], float]
    """Seconds, for leases."""
    unexpected: Callable[[BaseException], AclnnError]
    """Logs an unexpected failure and gives the error that the client sees."""
    meters: Meters | None = None
    """Counts what is done, where it is to be counted."""
    kept_answers: KeptAnswers = field(default_factory=KeptAnswers)
    """Room for the answers that contexts keep."""
    handover: Handover | None = None
    """Gives clients of this machine segments of shared memory, where that is offered."""
    blocks: Blocks = field(default_factory=Blocks)
    """Memory that contexts have freed, for a while."""
    data_port: DataPort | None = None
    """Where clients make data connections, where that is offered."""
    traces: Traces | None = None
    """Is told of calls that somebody follows, where that is collected."""

    def told(self, error: BaseException) -> AclnnError:
        """What the client is told of a failure."""
        return error if isinstance(error, AclnnError) else self.unexpected(error)
