"""The server of a program that names none: one on this machine's processor, for as long as the program runs.

It is a process of its own that reads from a pipe; the program holds the pipe's other end and writes nothing.
When the program ends, however it does, and the children that it forked, the pipe ends and the server stops.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from aclnn.addresses import open_socket
from aclnn_client.pytorch.setup_error import SetupError

DEVICES = "ACLNN_LOCAL_DEVICES"
"""How many devices the server shows; one where it is not set."""
_REACH_SECONDS = 10.0
_SERVER_VARIABLES = "ACLNN_SERVE_"


@dataclass(frozen=True)
class LocalServer:
    """A server that was started, and runs while its pipe is open anywhere."""

    address: str
    process_id: int
    pipe: int
    """File descriptor; closing it stops the server."""


def start() -> LocalServer:
    """Starts a server that ends when this process does; returns when it listens.

    Raises:
        SetupError: it does not start.
    """
    address = f"unix:{_folder() / f'{os.getpid()}-{secrets.token_hex(4)}'}"
    devices = ",".join(map(str, range(_device_count())))
    # The settings of this shell's own servers are not for this one.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_SERVER_VARIABLES)}
    stdin, pipe = os.pipe()
    output, stdout = os.pipe()
    process_id = os.posix_spawn(
        sys.executable,
        (
            *(sys.executable, "-m", "aclnn_server", "serve", "--stop-at-eof"),
            *("--listen", address, "--device", devices, "--log-level", "error"),
        ),
        kept,
        file_actions=((os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1)),
        setsid=True,  # Ctrl-C is for the program
    )
    os.close(stdin)
    os.close(stdout)
    with open(output, encoding="utf-8") as lines:
        banner = lines.readline()
    if " listening on " not in banner:
        os.close(pipe)
        _, status = os.waitpid(process_id, 0)
        raise SetupError(
            f"the local server did not start (exit code {os.waitstatus_to_exitcode(status)}); pip install "
            f"'aclnn-serve[server]' brings what it needs, or ACLNN_SERVER names one that runs"
        )
    return LocalServer(address, process_id, pipe)


def check(address: str) -> None:
    """Tries whether anything listens at the address of a server.

    Raises:
        SetupError: nothing does, or the address is none.
    """
    try:
        open_socket(address, _REACH_SECONDS).close()
    except ValueError:
        raise SetupError(
            f"ACLNN_SERVER is {address!r}; it must be HOST:PORT or unix:PATH"
        ) from None
    except OSError as error:
        raise SetupError(
            f"ACLNN_SERVER is {address!r}, and no server answers there: {error.strerror or error}; "
            f"aclnn-serve serve starts one, and without ACLNN_SERVER a program starts its own"
        ) from None


def _device_count() -> int:
    text = os.environ.get(DEVICES, "1")
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise SetupError(f"{DEVICES} is {text!r}; it must be a number from 1 to 64")
    return int(text)


def _folder() -> Path:
    """A folder for sockets that nobody else may enter."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    parent = Path(runtime) if runtime and Path(runtime).is_dir() else Path("/tmp")
    folder = parent / f"aclnn-serve-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SetupError(f"{folder} must be a folder that is this user's alone")
    return folder
