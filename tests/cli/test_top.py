"""``top``: one look, look after look, and on a terminal."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import numpy as np
import pytest

from aclnn import __version__
from aclnn.overview import (
    Activity,
    ContextOverview,
    DeviceInfo,
    DeviceOverview,
    Latency,
    OperatorOverview,
    Overview,
    StreamOverview,
    Usage,
)
from aclnn_client import connect
from aclnn_server.cli import top
from aclnn_server.cli.exits import Exit
from aclnn_server.cli.top_frame import age, frame, number, printable
from aclnn_server.cli.top_frame import time as time_text
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.cli.running import Command

ONES = np.ones((4, 2), np.float32)
PATIENCE = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that nobody else uses."""
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        yield server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look follows the first at once."""
    monkeypatch.setattr(top, "FIRST_LOOK_SECONDS", 0.01)


@pytest.mark.usefixtures("quick")
def test_one_look(command: Command, server: Server) -> None:
    with connect(server.address) as context:
        context.ops.add(ONES, ONES)
        answer = command("top", server.address, "--once")
    assert (answer.code, answer.err) == (0, "")
    assert answer.lines[0].startswith(f"aclnn-serve {__version__} at {server.address}: serving, ")
    assert any(line.split()[:2] == [context.label, "-"] for line in answer.lines)
    assert any(line.split()[0] == "aclnnAdd" for line in answer.lines if line.split())


@pytest.mark.usefixtures("quick")
def test_one_look_as_json_is_what_the_browser_gets(command: Command, server: Server) -> None:
    told = json.loads(command("top", server.address, "--once", "--json").out)
    assert list(told) == [field.name for field in dataclasses.fields(Overview)]
    assert (told["ready"], told["counted"], told["version"]) == (True, True, __version__)


def test_nobody_there(command: Command) -> None:
    answer = command("top", "127.0.0.1:1", "--once")
    assert (answer.code, answer.out) == (Exit.NO_ANSWER, "")
    assert "127.0.0.1:1: connection refused; nothing listens there" in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(("flags", "lines"), [((), 2), (("--json",), 2)])
def test_look_after_look_where_there_is_no_terminal(
    flags: tuple[str, ...], lines: int, server: Server
) -> None:
    command = [sys.executable, "-m", "aclnn_server", "top", server.address, "--interval", "0.01"]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = 0
        while seen < lines:
            line = process.stdout.readline()
            seen += line.startswith(("aclnn-serve ", "{"))
        process.kill()
    assert seen == lines


# --- on a terminal ----------------------------------------------------------------------------------


class Terminal:
    """``top`` on a terminal of its own."""

    def __init__(self, address: str, height: int = 24, width: int = 100) -> None:
        self.shown = ""
        """Everything that was written to it."""
        self._end, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.before = termios.tcgetattr(other)
        command = [sys.executable, "-m", "aclnn_server", "top", address, "--interval", "0.05"]
        environment = {k: v for k, v in os.environ.items() if k not in ("LINES", "COLUMNS")}
        self.process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, env=environment
        )
        self._other = other

    def wait_for(self, text: str) -> None:
        """Waits until a text is shown that was not shown before."""
        until = time.monotonic() + PATIENCE
        seen = ""
        while text not in seen:
            assert time.monotonic() < until, self.shown
            read = os.read(self._end, 65536).decode()
            seen += read
            self.shown += read

    def press(self, key: str) -> None:
        """Presses a key."""
        os.write(self._end, key.encode())

    @property
    def settings(self) -> object:
        """How the terminal is set."""
        return termios.tcgetattr(self._other)

    def close(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.wait()
        os.close(self._end)
        os.close(self._other)


@pytest.fixture
def terminal(server: Server) -> Iterator[Terminal]:
    """``top`` of a server that has something to show."""
    terminal = Terminal(server.address)
    yield terminal
    terminal.close()


def test_it_keeps_up_and_leaves_the_terminal_as_it_was(server: Server, terminal: Terminal) -> None:
    terminal.wait_for("no client is connected")
    with connect(server.address) as context:
        terminal.wait_for(context.label)
    terminal.wait_for("no client is connected")
    terminal.press("q")
    terminal.wait_for("\x1b[?1049l")
    assert terminal.process.wait(PATIENCE) == 0
    assert terminal.settings == terminal.before
    assert terminal.shown.startswith("\x1b[?1049h\x1b[?25l\x1b[H")


def test_ctrl_c_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    terminal.wait_for("no client is connected")
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait_for("\x1b[?1049l")
    assert terminal.process.wait(PATIENCE) == Exit.INTERRUPTED
    assert terminal.settings == terminal.before


def test_it_says_when_the_server_is_gone() -> None:
    server = Server(ServerConfig(listen="127.0.0.1:0")).start()
    terminal = Terminal(server.address)
    terminal.wait_for("no client is connected")
    server.stop(0)
    terminal.wait_for("no answer from the server")
    terminal.close()


# --- what a look shows ------------------------------------------------------------------------------

LATENCY = Latency(10, 1e-6, 0.0, 2.5e-3, 1.25, 2e-3, 4.0)
OVERVIEW = Overview(
    version="1.2.3",
    backend="numpy",
    ready=True,
    counted=True,
    uptime=3 * 3600 + 61,
    window=10.0,
    usage=Usage(contexts=1, streams=2, buffers=3, bytes=4 * 2**20, queued_commands=5),
    submit_calls=1,
    calls_in_hand=0,
    activity=Activity(1234.5, 12.34, 0.0, 2**20, 1024.0, LATENCY),
    devices=(
        DeviceOverview(DeviceInfo(0, "Ascend910B", 2**36, 2**35, 1), Usage(bytes=4 * 2**20)),
        DeviceOverview(DeviceInfo(1, "Ascend910B", 0, 0, 0)),
    ),
    contexts=(
        ContextOverview(
            label="0a1b2c3d",
            owner="alice",
            client_name="c\x1b[2Jlient",
            silent=3.2,
            usage=Usage(streams=2, executors=1, buffers=3, bytes=4 * 2**20, queued_commands=5),
            activity=Activity(1000.0, 12.34, latency=LATENCY),
            streams=(
                StreamOverview("4e5f6071", 5, Activity(runs_per_second=12.34, latency=LATENCY)),
                StreamOverview("8293a4b5"),
            ),
        ),
    ),
    operators=(
        OperatorOverview("aclnnAdd", 1000, 2, Activity(runs_per_second=12.34, latency=LATENCY)),
    ),
)
SHOWN = """\
aclnn-serve 1.2.3 at host:1: serving, backend numpy, up 3 h 1 min
  1234 calls/s, 12.3 runs/s, 0 errors/s in the last 10 s
  run: half within 2 ms, 99 of 100 within 4 s; in 1 MiB/s, out 1 KiB/s
  1 contexts, 2 streams, 5 commands queued, 4 MiB in 3 buffers; 1 open Submit calls, 0 calls in hand

  device  name        contexts  in use  free    total   queue  runs/s  busy
       0  Ascend910B         1  4 MiB   32 GiB  64 GiB      0  0       0 %
       1  Ascend910B         0  0 B     ?       ?           0  0       0 %

"""


def test_a_frame() -> None:
    lines = frame(OVERVIEW, "host:1")
    assert "\n".join(lines[:9]) + "\n" == SHOWN
    assert lines[10].split()[:9] == [
        *("0a1b2c3d", "alice", "0", "2", "1", "3", "4", "MiB", "5"),
    ]
    assert lines[10].endswith("c?[2Jlient")
    assert [line.split()[:2] for line in lines[11:13]] == [
        ["4e5f6071", "stream"],
        ["8293a4b5", "stream"],
    ]
    assert lines[-1].split() == [
        *("aclnnAdd", "1000", "2", "12.3", "1", "us", "-", "2.5", "ms", "1.25", "s", "2", "ms"),
        *("4", "s"),
    ]


@pytest.mark.parametrize("height", [20, 24, 40])
def test_a_frame_fits_the_terminal(height: int) -> None:
    many = dataclasses.replace(
        OVERVIEW,
        contexts=OVERVIEW.contexts * 30,
        operators=OVERVIEW.operators * 50,
        devices=OVERVIEW.devices,
    )
    lines = frame(many, "host:1", height)
    assert len(lines) <= height
    assert sum("… and" in line for line in lines) == 2
    assert len(frame(many, "host:1")) > 100


def test_a_server_that_drains_and_does_not_count() -> None:
    told = frame(dataclasses.replace(OVERVIEW, ready=False, counted=False, operators=()), "host:1")
    assert ": draining, " in told[0]
    assert told[1].endswith("; calls are not counted: --no-metering")
    assert told[-1] == "  nothing was run yet"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3600, "1 h 0 min"), (90061, "1 d 1 h")],
)
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "-"), (1.5e-6, "1.5 us"), (999.9e-6, "1e+03 us"), (0.0123, "12.3 ms"), (12, "12 s")],
)
def test_times(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_numbers_and_names() -> None:
    assert [number(value) for value in (0, 0.25, 12.345, 99.99, 12345.6)] == [
        *("0", "0.25", "12.3", "100", "12346"),
    ]
    assert printable("a\nb\x1b[31m\u202eç") == "a?b?[31m?ç"
