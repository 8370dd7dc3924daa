"""What a server and a context may hold."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB, GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True)
class Limits:
    """Limits, on by default."""

    message_bytes: int = 64 * MIB
    """Bytes of one gRPC message."""
    tensor_bytes: int = 16 * GIB
    """Bytes of one tensor's storage, and so of one buffer."""
    context_bytes: int = 16 * GIB
    """Bytes of device memory of one context."""
    contexts: int = 1024
    """Contexts of the server."""
    streams: int = 256
    """Streams of one context."""
    executors: int = 65536
    """Executors of one context."""
    queued_commands: int = 65536
    """Commands queued in one stream."""
    buffers: int = 65536
    """Buffers of one context."""
    events: int = 65536
    """Events of one context."""
    submit_calls: int = 1024
    """Open Submit calls of the server."""
    queued_bytes: int = 256 * MIB
    """Bytes of writes that are queued in one stream, unless it is a single one."""

    @property
    def bulk_bytes(self) -> int:
        """Bytes of tensors or of a buffer in one message, which leaves the rest for everything else."""
        return max(1, self.message_bytes - 1024)


@dataclass(slots=True)
class Usage:
    """What a server or a context holds now."""

    contexts: int = 0
    streams: int = 0
    executors: int = 0
    buffers: int = 0
    bytes: int = 0
    events: int = 0
    queued_commands: int = 0

    def add(self, other: Usage) -> None:
        """Adds another's counts to these."""
        self.contexts += other.contexts
        self.streams += other.streams
        self.executors += other.executors
        self.buffers += other.buffers
        self.bytes += other.bytes
        self.events += other.events
        self.queued_commands += other.queued_commands
