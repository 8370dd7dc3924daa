"""Where shared memory is offered, where it is not, and the socket where clients get it."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aclnn.errors import AclnnError, UnsupportedError
from aclnn.v1 import device_service_pb2 as pb
from aclnn_server.access.listening import ListenError
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from aclnn_server.sessions.handover import Handover
from tests.service.calling import Caller, RemoteCaller, Stubs, Unary, refused
from tests.service.conftest import Serve
from tests.service.gated import GatedBackend


def is_offered(stubs: Stubs) -> bool:
    """Whether a server tells that it offers shared memory."""
    return "shared-memory" in stubs.device.GetServerInfo(pb.GetServerInfoRequest()).features


def refusal(stubs: Stubs) -> AclnnError:
    """The error of attaching."""
    client: RemoteCaller = Unary(stubs)
    request = pb.AttachSharedMemoryRequest(bytes=1)
    error = refused(client, request, UnsupportedError, parameter="", says=["offers no shared"])
    client.close()
    return error


def test_it_is_told_where_it_is_offered(stubs: Stubs) -> None:
    assert is_offered(stubs)


def test_it_can_be_switched_off(serve: Serve) -> None:
    stubs = serve(shared_memory=False)
    assert not is_offered(stubs)
    refusal(stubs)


def test_a_device_may_have_no_such_memory(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.service.gated.CountingDevice.shares_memory", False)
    stubs = serve()
    assert not is_offered(stubs)
    refusal(stubs)


def test_a_machine_may_give_no_such_memory(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, backend: GatedBackend
) -> None:
    def refuse(self: object, size: int) -> None:
        raise UnsupportedError("this machine gives no memory that can be shared")

    monkeypatch.setattr("tests.service.gated.CountingDevice.share", refuse)
    request = pb.AttachSharedMemoryRequest(bytes=1)
    refused(caller, request, UnsupportedError, parameter="", says=["this machine gives"])


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose path leaves room for the name of a socket, which has 107 bytes in all."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def test_a_directory_that_is_asked_for_must_do(serve: Serve, tmp_path: Path) -> None:
    for directory in (tmp_path / "none", tmp_path / ("x" * 100)):
        with pytest.raises(ListenError, match="cannot hand over shared memory in"):
            serve(shared_memory_dir=str(directory))


def test_without_a_directory_none_is_offered(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aclnn_server.access.sharing._COMMON", tmp_path / "none")
    assert not is_offered(serve())


def test_the_directory_of_a_unix_socket_comes_first(
    backend: GatedBackend, short_path: Path
) -> None:
    config = ServerConfig(listen=f"unix:{short_path}/s")
    with Server(config, backend=backend) as server:
        context = server.registry.create_context(None, 60.0)
        assert Path(context.segments.attach(1).path).parent == short_path
    assert [path.name for path in short_path.iterdir()] in ([], ["s"])


def test_sockets_that_were_left_behind_are_removed(short_path: Path) -> None:
    first, second = Handover(), Handover()
    first.open([short_path])
    old = short_path / f"aclnn-memory-{'0' * 32}"
    young = short_path / f"aclnn-memory-{'1' * 32}"
    other = short_path / "aclnn-memory-of-somebody"
    for path in (old, young, other):
        with contextlib.closing(Handover()) as handover:
            handover.open([short_path])
            assert handover.path is not None
            os.link(handover.path, path)
    assert first.path is not None
    for path in (old, first.path, other):
        os.utime(path, (time.time() - 61,) * 2)
    second.open([short_path])
    assert set(short_path.iterdir()) == {young, other, first.path, second.path}
    first.close()
    second.close()


def test_the_socket_is_for_its_user_alone(caller: Caller, serve: Serve, short_path: Path) -> None:
    segment = caller(pb.AttachSharedMemoryRequest(bytes=1))
    mode = Path(segment.path).stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    other = Unary(serve(shared_memory_dir=str(short_path), socket_mode="660"))
    path = Path(other(pb.AttachSharedMemoryRequest(bytes=1)).path)
    other.close()
    assert path.parent == short_path
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
