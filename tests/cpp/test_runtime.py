"""The C library's runtime: its test programs (client/cpp/tests), against a gated server.

``SANITIZERS="address thread"`` in the environment runs them under these sanitizers too.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from aclnn_server.cli.server_process import ServerProcess
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.chaos.proxy import Fault, Kind, Proxy, Way
from tests.cpp import building
from tests.cpp.driving import Act, drive, soon
from tests.service.gated import GatedBackend

SUPPRESSIONS = building.LIBRARY / "tests/thread_sanitizer.supp"
OPTIONS = {
    "TSAN_OPTIONS": f"suppressions={SUPPRESSIONS} ignore_noninstrumented_modules=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@pytest.fixture
def backend() -> Iterator[GatedBackend]:
    """Two devices whose kernels wait at gates; everything has come back when the test is over."""
    backend = GatedBackend(devices=2)
    yield backend
    backend.check_clean()


@pytest.fixture
def server(backend: GatedBackend) -> Iterator[Server]:
    """A server of them that holds few commands of a stream."""
    config = ServerConfig(listen="127.0.0.1:0", max_queued_commands=200)
    server = Server(config, backend=backend).start()
    yield server
    backend.gates.open_all()
    server.stop(0)


@pytest.fixture(params=["", *os.environ.get("SANITIZERS", "").split()])
def sanitizer(request: pytest.FixtureRequest) -> str:
    """What the library and its tests are built with; empty for nothing."""
    return str(request.param)


def variables(address: str, **more: str) -> dict[str, str]:
    """Variables for a sanitized program, which finds its library by itself."""
    mine = {k: v for k, v in os.environ.items() if not k.startswith("ACLNN_")}
    library = {"LD_LIBRARY_PATH": ""}
    return {**mine, **library, **OPTIONS, "ACLNN_SERVER": address, **more}


def run(
    program: Path,
    address: str,
    acts: Mapping[str, Act],
    *arguments: str,
    says: str = "",
    **more: str,
) -> None:
    """Runs a program that must succeed, and print nothing but `says` on standard error."""
    lines, errors = drive(program, variables(address, **more), acts, *arguments)
    assert (lines, errors) == ([], says)


def gate_acts(backend: GatedBackend) -> dict[str, Act]:
    """What programs may ask of the gates."""

    def open_gate(number: str) -> None:
        backend.gates[int(number)].open()

    def await_gate(number: str) -> None:
        backend.gates[int(number)].wait_entered()

    return {"open soon": soon(open_gate), "open": open_gate, "await": await_gate}


@pytest.mark.parametrize("name", ["memory_test", "meta_test", "stream_test", "two_phase_test"])
def test_program(name: str, sanitizer: str, server: Server, backend: GatedBackend) -> None:
    run(building.sanitized(name, sanitizer), server.address, gate_acts(backend))


def test_workspace_of_the_caller(sanitizer: str, server: Server) -> None:
    program = building.sanitized("two_phase_test", sanitizer)
    run(program, server.address, {}, "caller", ACLNN_WORKSPACE="caller")


# --- the process as a whole -------------------------------------------------------------------------


@pytest.fixture
def program(sanitizer: str) -> Path:
    """The program whose tests are processes of their own."""
    return building.sanitized("process_test", sanitizer)


@pytest.mark.parametrize(
    "name",
    [
        "acl_starts_and_ends",
        "a_configuration_is_read",
        "a_process_that_just_ends_leaves_nothing_behind",
        "a_child_may_connect_where_its_parent_has_not",
        "a_child_of_a_process_that_is_connected_is_refused",
    ],
)
def test_process(name: str, program: Path, server: Server, backend: GatedBackend) -> None:
    # What the parent's threads hold looks like a leak in a child, which has none of them.
    leaks = {"ASAN_OPTIONS": "detect_leaks=0"} if name.startswith("a_child") else {}
    run(program, server.address, {}, name, **leaks)
    backend.check_clean()


def test_the_library_tells_what_it_is(program: Path, server: Server) -> None:
    named = {"ACLNN_CANN_VERSION": "8.3.RC1", "ACLNN_SOC_NAME": "Ascend910B2"}
    says = "[WARNING] function (file.cc:12): 3 of these\n"
    log = {"ASCEND_GLOBAL_LOG_LEVEL": "2"}
    run(program, server.address, {}, "the_library_tells_what_it_is", says=says, **named, **log)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


BAD_ADDRESS = "; it must be host:port, [IPv6]:port or unix:path"


@pytest.mark.parametrize(
    ("address", "code", "text"),
    [
        ("", 207004, "ACLNN_SERVER is not set; it names the server: host:port or unix:path"),
        ("somewhere", 100000, f"ACLNN_SERVER is 'somewhere' (no port){BAD_ADDRESS}"),
        ("host:0", 100000, f"ACLNN_SERVER is 'host:0' (no port of 1 to 65535){BAD_ADDRESS}"),
        (
            "::1:5",
            100000,
            f"ACLNN_SERVER is '::1:5' (an IPv6 address without brackets){BAD_ADDRESS}",
        ),
        ("http://a:5", 100000, "(a URL; leave out what is before the host)"),
        ("unix:", 100000, f"ACLNN_SERVER is 'unix:' (no path of a socket){BAD_ADDRESS}"),
        ("unix:/nowhere/socket", 507901, "there is no such socket"),
        ("PORT", 507901, "connection refused; nothing listens there"),
    ],
)
def test_there_is_no_server(address: str, code: int, text: str, program: Path) -> None:
    address = address.replace("PORT", f"127.0.0.1:{free_port()}")
    arguments = ("there_is_no_server", str(code), text)
    lines, errors = drive(program, variables(address), {}, *arguments)
    assert lines == []
    assert errors.count("\n") == 1, "one line, however many calls fail"
    assert errors.startswith("aclnn: ")
    assert text in errors
    assert code != 507901 or address in errors


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("ACLNN_SERVE_TOKEN", "two words", "the token has other than printable ASCII characters"),
        (
            "ACLNN_SERVE_TOKEN_FILE",
            "/nowhere",
            "ACLNN_SERVE_TOKEN_FILE is '/nowhere', which cannot",
        ),
        (
            "ACLNN_SERVE_TLS_CA",
            "/nowhere",
            "ACLNN_SERVE_TLS_CA is '/nowhere', which cannot be read",
        ),
        ("ACLNN_SERVE_TLS_KEY", __file__, "a client proves itself with both"),
    ],
)
def test_a_setting_cannot_be(variable: str, value: str, text: str, program: Path) -> None:
    code = "100003" if value == "/nowhere" else "100000"
    settings = variables("127.0.0.1:1", **{variable: value})
    _, errors = drive(program, settings, {}, "there_is_no_server", code, text)
    assert errors.count("\n") == 1
    assert text in errors


def test_the_server_is_killed(program: Path) -> None:
    with ServerProcess() as server:

        def kill() -> None:
            os.kill(server._process.pid, signal.SIGKILL)
            server._process.wait()

        settings = variables(server.address)
        lines, errors = drive(program, settings, {"kill": kill}, "the_server_is_killed")
    assert lines == []
    assert errors.splitlines() == [  # of the attempt to connect again
        f"aclnn: {server.address}: no answer from the server while opening a context: "
        "connection refused; nothing listens there"
    ]


# --- connections that break -------------------------------------------------------------------------


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A proxy before the server."""
    with Proxy(server.address) as proxy:
        yield proxy


def break_acts(proxy: Proxy) -> dict[str, Act]:
    """What programs may ask of the connection."""

    def fault(kind: Kind, way: Way, count: str) -> None:
        proxy.plan(Fault(kind, way, int(count)))

    return {"fault": fault, "cut": proxy.cut}


def test_a_server_that_is_slow_to_greet(program: Path, proxy: Proxy) -> None:
    """As one is that is far away, or busy: the connection is waited for."""
    proxy.plan(Fault("delay", "down", 0, seconds=0.5))
    run(program, proxy.address, {}, "a_process_that_just_ends_leaves_nothing_behind")


@pytest.mark.parametrize(
    "name",
    [
        "everything_is_applied_once_over_broken_connections",
        "threads_go_on_over_broken_connections",
    ],
)
def test_broken_connections(name: str, program: Path, proxy: Proxy, backend: GatedBackend) -> None:
    run(program, proxy.address, break_acts(proxy), name)
    assert proxy.connections > 2
    assert backend.device.runs.count("aclnnDigit") == 36
