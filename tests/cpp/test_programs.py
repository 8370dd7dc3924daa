"""The C++ test programs of client/cpp/tests, each against a server that it needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.cpp import building
from tests.service.gated import GatedBackend


@pytest.fixture
def gated() -> Iterator[Server]:
    """A server whose operators wait, fail and count; after the test nothing may be left in it."""
    backend = GatedBackend(devices=2)
    with Server(ServerConfig(listen="127.0.0.1:0"), backend=backend) as server:
        yield server
    backend.check_clean()


def run(name: str, address: str, *arguments: str, workspace: str = "") -> None:
    program = building.built_test(name)
    printed = building.run((str(program), *arguments), address, ACLNN_WORKSPACE=workspace)
    assert printed == ""


def test_meta() -> None:
    run("meta_test", "127.0.0.1:1")  # nobody is asked


def test_meta_in_a_program_with_an_allocator_of_its_own() -> None:
    """AddressSanitizer brings one, and tells where what one allocated is given back to another."""
    source = building.LIBRARY / "tests/meta_test.cc"
    program = building.program(source, "-fsanitize=address")
    assert building.run((str(program),), "127.0.0.1:1") == ""


def test_two_phase(gated: Server) -> None:
    run("two_phase_test", gated.address)


def test_workspace_of_the_caller(gated: Server) -> None:
    run("two_phase_test", gated.address, "caller", workspace="caller")
