"""``aclnn-serve serve``: listens until a signal asks to stop."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import queue
import signal
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from aclnn_server.cli import logs, supervisor
from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.parsing import PROGRAM, Commands, Parser, add_command, append_help
from aclnn_server.config import (
    ENVIRONMENT_PREFIX,
    ConfigError,
    ServerConfig,
    add_arguments,
    load,
    unknown_variables,
)
from aclnn_server.freed_memory import keep_freed_memory

if TYPE_CHECKING:
    from aclnn_server.server import Server

_LOG = logging.getLogger(__name__)


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "serve",
        run,
        summary="serve devices",
        details=f"""
            Serves devices until SIGTERM or SIGINT (Ctrl-C), then gives running work --grace-seconds; a second
            signal stops at once. The first line on standard output says what listens where; the log goes to
            standard error, one JSON object a line.

            Every flag is an environment variable too: --lease-seconds is {ENVIRONMENT_PREFIX}LEASE_SECONDS.
            A flag beats the variable. Where systemd started it (NOTIFY_SOCKET), it says when it is ready and
            when it stops.
            """,
        examples=f"""
            {PROGRAM} serve
            {PROGRAM} serve --listen 127.0.0.1:0 --soc ascend910b
            {PROGRAM} serve --listen unix:/run/aclnn.sock --log-level debug
            {ENVIRONMENT_PREFIX}LISTEN=127.0.0.1:50052 {PROGRAM} serve
            """,
    )
    parser.add_argument(
        "--stop-at-eof",
        action="store_true",
        help="stop when standard input ends too: as part of the program that holds its other end",
    )
    add_arguments(parser)
    exits = (Exit.DONE, Exit.USAGE, Exit.CANNOT_LISTEN, Exit.NO_BACKEND, Exit.CUT_SHORT)
    append_help(parser, describe_exits(*exits, DONE="stopped as asked"))


def run(options: argparse.Namespace) -> int:
    """Serves until a signal comes."""
    with StopSignals() as signals:
        if options.stop_at_eof:
            signals.watch(0)
        try:
            config = load(vars(options))
        except ConfigError as error:
            raise CommandError(str(error)) from None
        logs.start(config.log_level)
        keep_freed_memory()
        for told in unknown_variables():
            _LOG.warning("%s", told)
        server = _start(config)
        try:
            print(server.banner(), flush=True)
            supervisor.ready(server.banner())
            reason = signals.wait()
            supervisor.stopping(config.grace_seconds)
            _LOG.info("%s: stopping within %g seconds", reason, config.grace_seconds)
        except BaseException:
            server.stop(0)
            raise
        server.stop()
        _LOG.info("stopped")
    return Exit.DONE


def _start(config: ServerConfig) -> Server:
    """A server that listens.

    Raises:
        CommandError: a setting cannot be, the backend cannot be opened, or the address is not free.
    """
    from aclnn.errors import AclnnError
    from aclnn_server.access.listening import ListenError
    from aclnn_server.backends import BackendError, UnknownBackendError
    from aclnn_server.server import Server

    try:
        server = Server(config)
    except (UnknownBackendError, ValueError) as error:  # a ConfigError is a ValueError
        raise CommandError(str(error)) from None
    except (BackendError, AclnnError) as error:
        raise CommandError(str(error), Exit.NO_BACKEND) from None
    try:
        return server.start()
    except ListenError as error:
        raise CommandError(str(error), Exit.CANNOT_LISTEN) from None


class StopSignals:
    """Waits for SIGTERM, SIGINT or the end of a file; a second signal ends the process at once."""

    def __init__(self) -> None:
        # A queue that may be put to from inside a signal's own code, whatever the thread was doing.
        self._received: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._asked = False
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            signal.signal(number, self._receive)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def watch(self, descriptor: int) -> None:
        """Takes the end of a file as a signal too."""
        threading.Thread(
            target=self._read, args=(descriptor,), name="aclnn-stop-at-eof", daemon=True
        ).start()

    def wait(self) -> str:
        """Waits for the first reason to stop, which may have come already; gives its name."""
        return self._received.get()

    def _read(self, descriptor: int) -> None:
        with contextlib.suppress(OSError):
            while os.read(descriptor, 4096):
                pass
        self._received.put("end of standard input")

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self._asked:
            os.write(2, f"{PROGRAM}: second signal: stopped at once\n".encode())
            os._exit(Exit.CUT_SHORT)
        self._asked = True
        self._received.put(signal.Signals(number).name)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
