"""How a segment of shared memory gets from the server to the client's process, as both must agree on it.

AttachSharedMemory names a Unix socket (of sequenced packets) and a secret. The client connects and sends
the secret as one packet; the answer is one packet of one byte, with the segment's open file (SCM_RIGHTS).
The secret is good once; to any other the server hangs up. The client keeps the connection open for as long
as it maps the segment.
"""

from __future__ import annotations

import re

NAME = "aclnn-memory-{}"
"""Name of the socket's file, with 32 hexadecimal digits that nobody can guess."""
SECRET_BYTES = 32
"""Bytes of a secret."""
ANSWER = b"\1"
"""What comes with the file."""

_NAME = re.compile(NAME.format("[0-9a-f]{32}"))


def fits(name: str) -> bool:
    """Whether a file can be such a socket: a client connects to no other that a server names."""
    return _NAME.fullmatch(name) is not None
