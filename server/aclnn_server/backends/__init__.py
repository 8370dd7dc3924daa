"""Backends: what runs the operators, each loaded only when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aclnn_server.backends.base import Backend

BACKENDS: Mapping[str, tuple[str, str]] = {
    "numpy": ("aclnn_server.backends.numpy", "NumpyBackend"),
    "null": ("aclnn_server.backends.null", "NullBackend"),
    "ascend": ("aclnn_server.backends.ascend", "AscendBackend"),
}
"""Module and class of every backend that is known, by name."""


class BackendError(Exception):
    """A backend cannot be opened."""


class UnknownBackendError(BackendError):
    """There is no backend of that name."""


class BackendNotInstalledError(BackendError):
    """The backend is known, but this installation does not have it, or not what it needs."""


class BackendUnusableError(BackendError):
    """The backend is installed, but cannot work on this host."""


def open_backend(name: str, **options: Any) -> Backend:  # noqa: ANN401 - the backend's own
    """Opens a backend.

    Args:
        name: a key of :data:`BACKENDS`.
        options: what the backend's class takes, for example ``threads`` and ``soc`` of numpy.

    Raises:
        UnknownBackendError: there is no such backend.
        BackendNotInstalledError: it, or a package that it needs, is not installed.
        BackendUnusableError: it does not work on this host.
    """
    if name not in BACKENDS:
        raise UnknownBackendError(f"{name!r} is no backend; known are {', '.join(BACKENDS)}")
    backend_class = _load(name)
    from aclnn_server.operators.catalogue import PlugInError

    try:
        backend: Backend = backend_class(**options)
    except OSError as error:
        raise BackendUnusableError(
            f"the backend {name!r} is installed, but cannot be used on this host: {error}"
        ) from error
    except PlugInError as error:
        raise BackendUnusableError(f"the backend {name!r} cannot be opened: {error}") from error
    return backend


def _load(name: str) -> type[Backend]:
    module, class_name = BACKENDS[name]
    try:
        loaded = importlib.import_module(module)
        if not hasattr(loaded, class_name):
            raise ImportError(f"{module} has no {class_name}")
    except ImportError as error:
        raise BackendNotInstalledError(
            f"the backend {name!r} is known, but not installed here: {error}"
        ) from error
    backend_class: type[Backend] = getattr(loaded, class_name)
    return backend_class
