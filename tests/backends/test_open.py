"""Opening a backend by name, and the three ways in which that fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from types import ModuleType

import pytest

from aclnn_server import backends
from aclnn_server.backends import (
    BackendError,
    BackendNotInstalledError,
    BackendUnusableError,
    UnknownBackendError,
    open_backend,
)


@pytest.mark.parametrize("name", ["numpy", "null"])
def test_opens(name: str) -> None:
    backend = open_backend(name)
    assert backend.name == name
    backend.close()


def test_options_reach_the_backend() -> None:
    backend = open_backend("numpy", threads=1, soc="ascend910")
    assert len(backend.devices) == 1
    with pytest.raises(ValueError, match="'x'"):
        open_backend("numpy", soc="x")
    with pytest.raises(TypeError):
        open_backend("null", threads=1)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownBackendError, match=r"'cuda' is no backend; known are .*ascend"):
        open_backend("cuda")


def _known(monkeypatch: pytest.MonkeyPatch, rows: Mapping[str, tuple[str, str]]) -> None:
    monkeypatch.setattr(backends, "BACKENDS", rows)


@pytest.mark.parametrize(
    ("module", "class_name"),
    [("aclnn_server.backends.absent", "Backend"), ("aclnn_server.backends", "Absent")],
)
def test_known_but_not_installed(
    monkeypatch: pytest.MonkeyPatch, module: str, class_name: str
) -> None:
    _known(monkeypatch, {"absent": (module, class_name)})
    with pytest.raises(BackendNotInstalledError, match="'absent' is known, but not installed"):
        open_backend("absent")


def test_installed_but_not_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("libascendcl.so: cannot open shared object file")

    module = ModuleType("broken_backend")
    module.Broken = Broken  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "broken_backend", module)
    _known(monkeypatch, {"broken": ("broken_backend", "Broken")})
    with pytest.raises(BackendUnusableError, match=r"cannot be used on this host: libascendcl"):
        open_backend("broken")


def test_all_failures_are_of_one_class() -> None:
    for error in (UnknownBackendError, BackendNotInstalledError, BackendUnusableError):
        assert issubclass(error, BackendError)


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    script = (
        "import sys, aclnn_server.backends\n"
        "assert not [n for n in sys.modules if n.startswith('aclnn_server.backends.')]\n"
        "assert not [n for n in sys.modules if n.startswith('aclnn_server.operators')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
