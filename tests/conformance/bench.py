"""A server in the hands of whoever tries a client: kernels that are held up, failures on demand, connections
that break, time that is moved.

As a program it does the same for tests in another language: it prints one line of JSON with its address, then
takes commands as lines of JSON on standard input and answers each with one line.

    python -m tests.conformance.bench [SETTING=VALUE ...]

A command is an object with the name of a method of :class:`Bench` as ``do``, and its arguments. The answer
has what it returned as ``ok``, or ``error``. The program ends with its standard input.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from unittest import mock

from aclnn import errors
from aclnn.errors import AclnnError
from aclnn_server.backends.base import Check, DeviceStream, Plan, Shapes, Storage, Value
from aclnn_server.backends.host import Array
from aclnn_server.backends.numpy import NumpyBackend, NumpyDevice
from aclnn_server.config import ServerConfig
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.products import product
from aclnn_server.server import Server
from tests.chaos.proxy import Proxy

PATIENCE = 30.0
"""Seconds after which a wait counts as hung."""
SECRET = "/srv/secret/kernel.bin at 0x7f00dead"
"""Text of an unexpected failure: must stay on the server."""


class Hold:
    """A place where kernels wait while they are held up."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held = False
        self._waiting = 0

    def hold(self) -> None:
        """Holds up every kernel that comes from now on."""
        self._held = True

    def release(self) -> None:
        """Lets everyone through."""
        with self._changed:
            self._held = False
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Waits until so many kernels stand here."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._waiting >= count, PATIENCE)
        if not came:
            raise TimeoutError(f"{self._waiting} kernels came, and not {count}")

    def pass_through(self) -> None:
        """The kernel's side."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._held, PATIENCE)
            self._waiting -= 1


class Faults:
    """Failures to come, by the place where they do."""

    def __init__(self) -> None:
        self._next: dict[str, Exception] = {}

    def plant(self, where: str, error: Exception) -> None:
        """Lets the next one who comes by fail."""
        self._next[where] = error

    def raise_at(self, where: str) -> None:
        """The side of the one who comes by."""
        error = self._next.pop(where, None)
        if error is not None:
            raise error


class TriedDevice(NumpyDevice):
    """The host's processor, whose kernels can be held up and whose calls can fail."""

    shares_plans = False  # so that every phase one comes by here

    def __init__(self, hold: Hold, faults: Faults) -> None:
        super().__init__(Threads(1), product("reference"))
        self.runs: list[str] = []
        self._hold = hold
        self._faults = faults

    def create_stream(self, check: Check | None = None) -> DeviceStream:
        """The first thing that is made in a context that is opened."""
        self._faults.raise_at("open")
        return super().create_stream(check)

    def plan(
        self,
        operator: str,
        arguments: Sequence[Value],
        storages: Sequence[Storage] = (),
        *,
        repeatable: bool = False,
    ) -> Plan:
        """Plans, unless it is to fail."""
        self._faults.raise_at("plan")
        return super().plan(operator, arguments, storages, repeatable=repeatable)

    def run(
        self,
        plan: Plan,
        storages: Sequence[Storage],
        workspace: Array | None,
        stream: DeviceStream,
    ) -> Shapes | None:
        """Runs when it is let through, unless it is to fail."""
        self.runs.append(plan.operator)
        self._hold.pass_through()
        self._faults.raise_at("run")
        return super().run(plan, storages, workspace, stream)


class TriedBackend(NumpyBackend):
    """The catalogue of the numpy backend on such a device."""

    def __init__(self, hold: Hold, faults: Faults) -> None:
        super().__init__(threads=1)
        super().close()
        self._devices = (TriedDevice(hold, faults),)

    @property
    def device(self) -> TriedDevice:
        """The one device."""
        found = self._devices[0]
        assert isinstance(found, TriedDevice)
        return found


class Bench:
    """A server, and a proxy in front of it."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - of the server's configuration
        self._settings = settings
        self._hold = Hold()
        self._faults = Faults()
        self._passed = 0.0
        self._server = self._start()
        self._proxy = Proxy(self._server.address)

    @property
    def address(self) -> str:
        """Where clients connect to: the proxy's address."""
        return self._proxy.address

    def _start(self) -> Server:
        self._backend = TriedBackend(self._hold, self._faults)
        return Server(
            ServerConfig(listen="127.0.0.1:0", log_level="error", **self._settings),
            backend=self._backend,
            clock=lambda: time.monotonic() + self._passed,
        ).start()

    # --- kernels ----------------------------------------------------------------------------------

    def hold(self) -> None:
        """Holds up every kernel from now on; to be tried with tensors of more than 1 MiB, whose work has
        a thread of its own."""
        self._hold.hold()

    def wait_held(self, count: int = 1) -> None:
        """Waits until so many kernels are held up."""
        self._hold.wait_for(count)

    def release(self) -> None:
        """Lets all kernels go on."""
        self._hold.release()

    def runs(self) -> list[str]:
        """The operators that were run, in the order in which their runs began."""
        return self._backend.device.runs

    def fail(self, where: str, reason: str) -> None:
        """Lets the next "open" of a context, "plan" or "run" fail, with a reason of aclnn.errors.

        INTERNAL is a failure that nobody foresaw, and the client gets one fixed sentence.
        """
        self._faults.plant(where, failure(reason))

    # --- connections and time ---------------------------------------------------------------------

    def cut(self) -> None:
        """Breaks all connections."""
        self._proxy.cut()

    def cut_after(self, up: int | None = None, down: int | None = None) -> None:
        """Breaks the connections after so many more bytes to the server, or from it."""
        self._proxy.cut_after(up=up, down=down)

    def block(self) -> None:
        """Breaks all connections, and every one that is made from now on."""
        self._proxy.broken = True
        self._proxy.cut()

    def unblock(self) -> None:
        """Lets new connections through again."""
        self._proxy.broken = False

    def connections(self) -> int:
        """How many connections were made."""
        return self._proxy.connections

    def end_leases(self) -> int:
        """Lets so much time pass that every lease ends; tells how many contexts ended."""
        self._passed += self._server.config.lease_seconds + 1
        return self._server.registry.reap()

    def end_all_leases(self) -> None:
        """The same until there is no context left: calls that are being broken off still hold theirs."""
        until = time.monotonic() + PATIENCE
        while self.contexts() and time.monotonic() < until:
            self.end_leases()
            time.sleep(0.005)

    def contexts(self) -> int:
        """How many contexts there are."""
        return self._server.registry.usage.contexts

    def restart(self) -> None:
        """Stops the server, breaks the connections and starts another one at the same address."""
        old = self._server
        self._server = self._start()
        self._proxy.server = self._server.address
        self._proxy.cut()
        old.stop(0)

    def stop_server(self) -> None:
        """Stops the server, and nobody listens at its address any more."""
        self._server.stop(0)
        self._proxy.close_door()

    def speak(self, version: int) -> None:
        """Lets the server speak another version of the protocol."""
        self._speaking = mock.patch("aclnn_server.service.server_calls.PROTOCOL_VERSION", version)
        self._speaking.start()

    # --- life -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._proxy.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._hold.release()
        self._proxy.__exit__(kind, error, traceback)
        self._server.stop(0)
        mock.patch.stopall()

    def do(self, command: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever the method returns
        """Runs a command: a method's name as ``do``, and its arguments."""
        arguments = {name: value for name, value in command.items() if name != "do"}
        return getattr(self, str(command["do"]))(**arguments)


class FutureError(AclnnError):
    """An error that only a later version knows."""

    reason, default_code, status = "FROM_THE_FUTURE", 999_999, 9


def failure(reason: str) -> Exception:
    """An error of a reason."""
    if reason == "INTERNAL":
        return RuntimeError(SECRET)
    kind: type[AclnnError] = errors.BY_REASON.get(reason, FutureError)
    return kind(f"a planted {reason} grüße 你好", parameter="planted")


def main(arguments: Sequence[str]) -> None:
    """Runs the program."""
    settings = dict(argument.split("=", 1) for argument in arguments)
    logging.disable()  # what fails does so on demand
    with Bench(**{name: json.loads(value) for name, value in settings.items()}) as bench:
        print(json.dumps({"address": bench.address}), flush=True)
        for line in sys.stdin:
            try:
                answer = {"ok": bench.do(json.loads(line))}
            except Exception as error:  # told to the one who asked
                answer = {"error": repr(error)}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
