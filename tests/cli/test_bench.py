"""``aclnn-serve bench``."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator

import pytest

from aclnn_client import data_connection
from aclnn_client.connection import Connection
from aclnn_client.data_connection import DATA_BYTES
from aclnn_server.cli import bench, bench_measures
from aclnn_server.cli.exits import Exit
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.cli.running import Command


@pytest.fixture(autouse=True)
def _little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Works on a busy machine too: which sizes are left out depends on its speed."""
    monkeypatch.setattr(bench_measures, "IN_FLIGHT", 20)
    monkeypatch.setattr(bench_measures, "SIZES", (1 << 10, 1 << 14))


def test_bench_as_text(command: Command, server: Server) -> None:
    answer = command("bench", server.address, "--seconds", 0.3)
    assert (answer.code, answer.err) == (0, "")
    assert f"at {server.address}, backend numpy, device 0" in answer.lines[0]
    assert answer.lines[1] == "aclnnSmoothL1LossBackward, FLOAT, 8 elements"
    assert [line.split("  ")[1] for line in answer.lines[4:7]] == [
        "one line",
        "two phases and synchronize",
        "two phases, 20 in flight",
    ]
    assert answer.lines[8].split() == ["transfer", "up", "MiB/s", "down", "MiB/s", "by"]
    assert (*answer.lines[9].split()[:2], answer.lines[9].split()[-1]) == ("1", "KiB", "tcp")


def test_bench_as_json(command: Command, server: Server) -> None:
    told = json.loads(command("bench", server.address, "--seconds", 3, "--json").out)
    assert told["operator"] == "aclnnSmoothL1LossBackward"
    for calls in (told["one_line"], told["two_phases"]):
        assert 0 < calls["p50_seconds"] <= calls["p99_seconds"]
        assert calls["calls_per_second"] > 0
        assert calls["count"] >= bench_measures.FEWEST
    assert told["in_flight"] > 0
    assert [row["bytes"] for row in told["transfers"]] == [2**10, 2**14]
    assert all(row["upload_bytes_per_second"] > 0 for row in told["transfers"])
    assert all(row["download_bytes_per_second"] > 0 for row in told["transfers"])


@pytest.fixture(scope="module")
def remote() -> Iterator[Server]:
    """A server that shares no memory, as one on another machine."""
    with Server(ServerConfig(listen="127.0.0.1:0", shared_memory=False)) as server:
        yield server


@pytest.fixture
def _a_large_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_measures, "SIZES", (DATA_BYTES,))  # the first is never left out


@pytest.mark.usefixtures("_a_large_tensor")
def test_bench_tells_what_tensors_go_by(
    command: Command, remote: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_connection, "DIAL_SECONDS", 30.0)
    answer = command("bench", remote.address, "--seconds", 0.1)
    assert [line.split("  ")[-1] for line in answer.lines[9:]] == ["data connection"]


@pytest.mark.usefixtures("_a_large_tensor")
def test_bench_tells_of_a_data_port_that_is_closed(
    command: Command, remote: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dial(connection: Connection, port: int, timeout: float) -> socket.socket:
        assert port == remote._data_port.number
        raise TimeoutError

    monkeypatch.setattr(Connection, "dial", dial)
    answer = command("bench", remote.address, "--seconds", 0.1)
    assert answer.lines[9].split("  ")[-1] == "tcp"
    assert "\n".join(answer.lines[10:]) == "\n" + bench.NOT_CONNECTED


@pytest.mark.usefixtures("_a_large_tensor")
def test_bench_says_nothing_where_no_data_connections_are_offered(command: Command) -> None:
    config = ServerConfig(listen="127.0.0.1:0", shared_memory=False, data_port="off")
    with Server(config) as server:
        answer = command("bench", server.address, "--seconds", 0.1)
        told = json.loads(command("bench", server.address, "--seconds", 0.1, "--json").out)
    assert [line.split("  ")[-1] for line in answer.lines[9:]] == ["tcp"]
    assert [row["transport"] for row in told["transfers"]] == ["tcp"]
    assert "data-connection" not in told["features"]


def test_bench_leaves_nothing_behind(command: Command) -> None:
    with Server(ServerConfig(listen="127.0.0.1:0", backend="null")) as server:
        assert command("bench", server.address, "--seconds", 0.1).code == Exit.DONE
        assert server.registry.usage.contexts == 0


def test_sizes_that_would_take_too_long_are_left_out(
    command: Command, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_measures, "SIZES", (1 << 10, 1 << 50))
    told = json.loads(command("bench", server.address, "--seconds", 0.1, "--json").out)
    assert [row["bytes"] for row in told["transfers"]] == [1 << 10]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("127.0.0.1:1",), Exit.NO_ANSWER, "connection refused"),
        (("nowhere",), Exit.USAGE, "address is 'nowhere' (no port)"),
        (("x:1", "--seconds", "0"), Exit.USAGE, "--seconds: it is '0'"),
    ],
)
def test_what_bench_refuses(
    arguments: tuple[str, ...], code: Exit, told: str, refusal: Callable[..., str]
) -> None:
    assert told in refusal("bench", *arguments, code=code)


def test_bench_on_a_device_that_is_not_there(refusal: Callable[..., str], server: Server) -> None:
    assert "the server has devices 0 to 0" in refusal(
        "bench", server.address, "--device", 7, code=Exit.NO
    )
