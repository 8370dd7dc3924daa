"""``serve`` as a process: its banner, its signals, its exit codes.

A start costs half a second, so that the tests share processes where they can.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import aclnn_client
from aclnn import __version__
from aclnn_client import connect, ops
from aclnn_server.cli.exits import Exit
from tests.cli.running import Command
from tests.deploy.draining import drain

Start = Callable[..., "Process"]


class Process:
    """``aclnn-serve serve``, started."""

    def __init__(self, *flags: str, stdin: int | None = None, **environment: str) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-m", "aclnn_server", "serve", *flags),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )

    def banner(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def address(self) -> str:
        return self.banner().split("listening on ")[1].split(" ")[0]

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Its exit code, and what it had still to say on both outputs."""
        out, err = self._process.communicate(timeout=30)
        return self._process.returncode, out, err

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(*flags: str, stdin: int | None = None, **environment: str) -> Process:
            process = Process(*flags, stdin=stdin, **environment)
            stack.callback(process.kill)
            return process

        yield begin


def test_banner_log_and_sigterm(start: Start) -> None:
    process = start(
        *("--listen", "127.0.0.1:0", "--log-level", "info", "--soc", "ascend910b"),
        ACLNN_SERVE_LEASE_SECOND="10",
    )
    banner = process.banner()
    assert banner.startswith(f"aclnn-serve {__version__} listening on 127.0.0.1:")
    assert "(backend numpy, devices 0: " in banner
    address = banner.split("listening on ")[1].split(" ")[0]
    with connect(address) as context:
        assert context.info().soc == "ascend910b"
        process.send(signal.SIGTERM)
        code, out, err = process.end()
    assert (code, out) == (Exit.DONE, "")
    told = [json.loads(line) for line in err.splitlines()]
    assert [line["message"] for line in told if line["logger"] == "aclnn_server.cli.serve"] == [
        "ACLNN_SERVE_LEASE_SECOND is no setting and has no effect; "
        "did you mean ACLNN_SERVE_LEASE_SECONDS?",
        "SIGTERM: stopping within 10 seconds",
        "stopped",
    ]


def test_port_in_use_and_settings_that_cannot_be(start: Start, tmp_path: Path) -> None:
    serving = start(ACLNN_SERVE_LISTEN=f"unix:{tmp_path}/socket")
    taken = start("--listen", "127.0.0.1:0")
    address = taken.address()
    refused = {
        "in use": start("--listen", address),
        "open to all": start("--listen", "0.0.0.0:0"),
        "no such backend": start("--backend", "numbers"),
        "no such product": start("--soc", "ascend911"),
    }
    ends = {name: process.end() for name, process in refused.items()}
    assert {name: (end[0], end[1]) for name, end in ends.items()} == {
        "in use": (Exit.CANNOT_LISTEN, ""),
        "open to all": (Exit.USAGE, ""),
        "no such backend": (Exit.USAGE, ""),
        "no such product": (Exit.USAGE, ""),
    }
    lines = {name: end[2] for name, end in ends.items()}
    assert all(text.count("\n") == 1 for text in lines.values()), lines
    assert lines["in use"].startswith(f"aclnn-serve: cannot listen on {address}: it is in use")
    assert "allow it with --allow-insecure" in lines["open to all"]
    assert "'numbers' is no backend; known are" in lines["no such backend"]
    assert "'ascend911' is no product; known are" in lines["no such product"]

    # The one whose address was in the environment listens on a socket file.
    assert serving.address() == f"unix:{tmp_path}/socket"
    with connect(f"unix:{tmp_path}/socket") as context:
        assert context.device == 0
    for process in (serving, taken):
        process.send(signal.SIGINT)
        assert process.end()[0] == Exit.DONE


@pytest.mark.parametrize("name", ["{}/notify", "@aclnn-serve-test-{}"])
def test_it_tells_systemd_when_it_is_ready_and_when_it_stops(
    start: Start, tmp_path: Path, name: str
) -> None:
    address = name.format(tmp_path if name[0] == "{" else tmp_path.name + str(os.getpid()))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.settimeout(30)
        supervisor.bind(address.replace("@", "\0"))
        process = start(
            *("--listen", "127.0.0.1:0", "--grace-seconds", "2.5"), NOTIFY_SOCKET=address
        )
        banner = process.banner().rstrip("\n")
        assert supervisor.recv(4096).decode() == f"READY=1\nSTATUS={banner}"
        process.send(signal.SIGTERM)
        assert supervisor.recv(4096).decode() == "STOPPING=1\nEXTEND_TIMEOUT_USEC=12500000"
    assert process.end()[0] == Exit.DONE


def test_a_supervisor_that_is_gone_keeps_nothing_from_working(start: Start) -> None:
    process = start("--listen", "127.0.0.1:0", NOTIFY_SOCKET="/nowhere")
    process.banner()
    process.send(signal.SIGTERM)
    code, _, err = process.end()
    assert code == Exit.DONE
    assert "NOTIFY_SOCKET is '/nowhere', which takes no messages" in err


def test_sigterm_lets_running_work_end(start: Start) -> None:
    """New contexts are refused, health says so, what is under way is done and answered, and the code is 0."""
    process = start("--listen", "127.0.0.1:0", "--grace-seconds", "55")
    drain(process.address(), lambda: process.send(signal.SIGTERM))
    code, _, err = process.end()
    assert code == Exit.DONE
    assert json.loads(err.splitlines()[-1])["message"] == "stopped"


def test_a_second_signal_stops_at_once(start: Start, command: Command) -> None:
    process = start("--listen", "127.0.0.1:0", "--grace-seconds", "600")
    address = process.address()
    context = connect(address)
    queue_much(context)
    assert command("health", address).code == 0
    process.send(signal.SIGTERM)
    # It has taken note of the first signal when it tells so by its health, and works on.
    while (answer := command("health", address)).code == 0:
        pass
    assert (answer.code, answer.out) == (Exit.NO, "NOT_SERVING\n")
    assert command("health", address, "--service", "liveness").code == 0
    with pytest.raises(aclnn_client.ServerUnavailable, match="stopping"):
        connect(address)
    process.send(signal.SIGTERM)
    code, _, err = process.end()
    assert code == Exit.CUT_SHORT
    assert err.splitlines()[-1] == "aclnn-serve: second signal: stopped at once"
    context.close()


def queue_much(context: aclnn_client.Context) -> None:
    """Queues work of many seconds."""
    x = context.tensor(np.ones(1 << 23, np.float32))
    out = context.empty(x.shape, "float32")
    _, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
        x, x, x, 0, 1.0, out, repeatable=True
    )
    for _ in range(1000):
        executor.run()


@pytest.mark.skipif(Path("/dev/davinci_manager").exists(), reason="here it can be opened")
def test_a_backend_that_cannot_be_opened(start: Start) -> None:
    code, out, err = start("--listen", "127.0.0.1:0", "--backend", "ascend").end()
    assert (code, out) == (Exit.NO_BACKEND, "")
    first, *tried = err.splitlines()
    assert first.startswith("aclnn-serve: the backend 'ascend' is ")
    assert len(first) < 300
    assert len(tried) >= 3
    assert all(line.startswith("  ") for line in tried)


def test_ctrl_c_ends_a_command_quietly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            (sys.executable, "-m", "aclnn_server", "info", address, "--timeout", "50"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        connection, _ = silent.accept()  # it waits for an answer now
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        connection.close()
    assert (process.returncode, out, err) == (Exit.INTERRUPTED, b"", b"")


def test_a_closed_pipe_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        (sys.executable, "-m", "aclnn_server", "ops"),
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (Exit.CLOSED_PIPE, b"")


def test_it_stops_when_its_standard_input_ends(start: Start) -> None:
    reading, writing = os.pipe()
    process = start(
        *("--listen", "127.0.0.1:0", "--log-level", "info", "--stop-at-eof"), stdin=reading
    )
    os.close(reading)
    with connect(process.address()) as context:
        assert context.device == 0
    os.write(writing, b"what is written is not minded")
    os.close(writing)
    code, _, err = process.end()
    assert code == Exit.DONE
    stops = [json.loads(line)["message"] for line in err.splitlines()][-2:]
    assert stops == ["end of standard input: stopping within 10 seconds", "stopped"]
