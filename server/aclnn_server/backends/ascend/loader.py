"""Finds an installed CANN and opens its libraries; everything that was tried is in the report.

Source of the places and their order: the vendor's ``set_env.sh``, and how its PyTorch adapter looks
operators up.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aclnn_server.backends.ascend.acl import load

HOME_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
"""Variables of the environment that name the installation, the first one first."""
DEFAULT_HOMES = (
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/nnrt/latest",
    "~/Ascend/cann",
    "~/Ascend/ascend-toolkit/latest",
)
"""Folders that the vendor's installers choose."""
RUNTIME_LIBRARIES = ("libascendcl.so", "libacl_rt.so")
"""The ACL runtime: the older library, which newer versions still have, or the newer one."""
BASE_LIBRARY = "libnnopbase.so"
SPLIT_OPERATORS = (
    "libopapi_math.so",
    "libopapi_nn.so",
    "libopapi_cv.so",
    "libopapi_transformer.so",
)
"""The operators' libraries, in the order in which they need each other; others may follow."""
WHOLE_OPERATORS = "libopapi.so"
"""All operators in one library: the vendor forbids to use it together with the split ones."""
OLD_OPERATORS = (
    "libaclnn_ops_infer.so",
    "libaclnn_ops_train.so",
    "libaclnn_math.so",
    "libaclnn_sparse.so",
    "libaclnn_fft.so",
    "libaclnn_rand.so",
)
CUSTOM_LIBRARY = Path("op_api/lib/libcust_opapi.so")
CUSTOM_HEADERS = Path("op_api/include")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One thing that was tried."""

    what: str
    where: str
    result: str = ""
    """Why it failed; empty where it worked."""

    def __str__(self) -> str:
        return f"{self.what}: {self.where}: {self.result or 'found'}"


class CannNotFoundError(OSError):
    """No usable CANN; the text tells all that was tried."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self.attempts = tuple(attempts)
        tried = "\n".join(f"  {attempt}" for attempt in attempts)
        super().__init__(
            "no usable CANN was found. Install CANN (toolkit and ops of your chip), or set "
            f"{HOME_VARIABLES[0]} to where it is; aclnn-serve doctor tells more. Tried:\n{tried}"
        )


@dataclass(frozen=True, slots=True)
class Package:
    """A package of custom operators."""

    root: Path
    how: str
    """What led to it."""

    @property
    def library(self) -> Path:
        """Its library."""
        return self.root / CUSTOM_LIBRARY

    @property
    def headers(self) -> Path:
        """Folder of its headers."""
        return self.root / CUSTOM_HEADERS


@dataclass(slots=True)
class Cann:
    """An installation with its libraries, open."""

    home: Path | None
    """Its folder; ``None`` where the system's loader knew the libraries."""
    how: str
    """What led to it."""
    attempts: list[Attempt]
    runtime: ctypes.CDLL
    base: ctypes.CDLL
    operators: list[ctypes.CDLL] = field(default_factory=list)
    """Libraries of operators, in the order in which a name is looked up: custom ones first."""
    headers: list[Path] = field(default_factory=list)
    """Folders of operators' headers, in the same order."""

    def find(self, name: str) -> Any:  # noqa: ANN401 - a function of ctypes
        """Finds a function of the runtime or of tensors, for :class:`Acl`.

        Raises:
            AttributeError: no library has it.
        """
        return _first((self.base, self.runtime, *self.operators), name)

    def find_operator(self, name: str) -> Any:  # noqa: ANN401 - a function of ctypes
        """Finds a phase of an operator; errors as :meth:`find`."""
        return _first(self.operators, name)

    def lacks(self, operator: str) -> str:
        """Why an operator cannot be called; empty where both its phases are there."""
        for name in (f"{operator}GetWorkspaceSize", operator):
            if not any(hasattr(library, name) for library in self.operators):
                return f"the installed CANN has no function {name}"
        return ""


def _first(libraries: Iterable[ctypes.CDLL], name: str) -> Any:  # noqa: ANN401 - a function of ctypes
    for library in libraries:
        if hasattr(library, name):
            return getattr(library, name)
    raise AttributeError(name)


def open_cann(environment: Mapping[str, str] = os.environ) -> Cann:
    """Opens the first installation that has all that is needed.

    Raises:
        CannNotFoundError: there is none.
    """
    attempts: list[Attempt] = []
    for home, how in homes(environment):
        cann = _open_at(home, how, attempts, environment)
        if cann is not None:
            return cann
    raise CannNotFoundError(attempts)


def homes(environment: Mapping[str, str]) -> Iterator[tuple[Path | None, str]]:
    """Places where CANN may be, with what led to each; the last one is the system's loader."""
    for variable in HOME_VARIABLES:
        if environment.get(variable):
            yield Path(environment[variable]), variable
    for folder in DEFAULT_HOMES:
        yield Path(folder).expanduser(), "default folder"
    yield None, "system's loader"


def _open_at(
    home: Path | None, how: str, attempts: list[Attempt], environment: Mapping[str, str]
) -> Cann | None:
    if home is not None and not home.is_dir():
        attempts.append(Attempt(how, str(home), "there is no such folder"))
        return None
    opener = _Opener(home, attempts)
    runtime = opener.first(RUNTIME_LIBRARIES)
    base = opener.first((BASE_LIBRARY,)) if runtime else None
    if runtime is None or base is None:
        return None
    cann = Cann(home, how, attempts, runtime, base)
    for package in packages(home, environment, attempts):
        library = opener.open(package.library, f"custom operators ({package.how})")
        if library is not None:
            cann.operators.append(library)
            cann.headers.append(package.headers)
    own = opener.operators()
    cann.operators += own
    cann.headers += header_folders(home)
    return cann if own else None


class _Opener:
    """Opens libraries of one installation and writes down what it tried."""

    def __init__(self, home: Path | None, attempts: list[Attempt]) -> None:
        self._attempts = attempts
        self._folders = [None] if home is None else library_folders(home)

    def first(self, names: Iterable[str]) -> ctypes.CDLL | None:
        """The first of several libraries that opens."""
        for name in names:
            for folder in self._folders:
                library = self.open(Path(name) if folder is None else folder / name, "library")
                if library is not None:
                    return library
        return None

    def open(self, path: Path, what: str) -> ctypes.CDLL | None:
        """Opens one library; ``None`` where it cannot be."""
        if path.is_absolute() and not path.is_file():
            self._attempts.append(Attempt(what, str(path), "there is no such file"))
            return None
        try:
            library = load(str(path))
        except OSError as error:
            self._attempts.append(Attempt(what, str(path), f"it does not open: {error}"))
            return None
        self._attempts.append(Attempt(what, str(path)))
        return library

    def operators(self) -> list[ctypes.CDLL]:
        """The libraries of operators: the split ones, else the whole one, else the old ones."""
        for names in (self._split(), (WHOLE_OPERATORS,), OLD_OPERATORS):
            found = [library for name in names if (library := self.first((name,))) is not None]
            if found:
                return found
        return []

    def _split(self) -> tuple[str, ...]:
        there = {
            path.name
            for folder in self._folders
            if folder is not None
            for path in folder.glob("libopapi_*.so")
            if path.is_file()
        }
        if self._folders == [None]:
            return SPLIT_OPERATORS
        known = [name for name in SPLIT_OPERATORS if name in there]
        return (*known, *sorted(there.difference(known)))


def library_folders(home: Path) -> list[Path]:
    """Folders of an installation that may hold libraries."""
    return [home / "lib64", home / f"{platform.machine()}-linux" / "lib64"]


def header_folders(home: Path | None) -> list[Path]:
    """Folders of an installation that hold headers of operators."""
    if home is None:
        return []
    includes = (home / "include", home / f"{platform.machine()}-linux" / "include")
    folders = [include / "aclnnop" / level for include in includes for level in ("", "level2")]
    return [folder for folder in folders if folder.is_dir()]


# --- packages of custom operators -----------------------------------------------------------------


def packages(
    home: Path | None, environment: Mapping[str, str], attempts: list[Attempt] | None = None
) -> Iterator[Package]:
    """Packages of custom operators that may be loaded, in the order in which names are looked up."""
    for package in _named_packages(home, environment):
        refused = _refused_owner(package.library) if package.library.is_file() else ""
        if not refused and package.library.is_file():
            yield package
        elif attempts is not None:
            what = f"custom operators ({package.how})"
            reason = refused or "there is no such file"
            attempts.append(Attempt(what, str(package.library), reason))


def _named_packages(home: Path | None, environment: Mapping[str, str]) -> Iterator[Package]:
    for folder in environment.get("ASCEND_CUSTOM_OPP_PATH", "").split(":"):
        if folder:
            yield Package(Path(folder), "ASCEND_CUSTOM_OPP_PATH")
    vendors = opp_folder(home, environment) / "vendors"
    for vendor in _vendors(vendors / "config.ini"):
        yield Package(vendors / vendor, "vendors/config.ini")


def opp_folder(home: Path | None, environment: Mapping[str, str]) -> Path:
    """Folder of the operators' packages: of kernels, and of vendors."""
    if environment.get("ASCEND_OPP_PATH"):
        return Path(environment["ASCEND_OPP_PATH"])
    return (home or Path()) / "opp"


def _vendors(config: Path) -> list[str]:
    try:
        lines = config.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "load_priority":
            return [name.strip() for name in value.split(",") if name.strip()]
    return []


def _refused_owner(library: Path) -> str:
    """Why a library may not be loaded: somebody else could have written it."""
    owner = library.stat().st_uid
    if owner in (0, os.geteuid()):
        return ""
    return f"it belongs to user {owner}, who is neither root nor the one that runs the server"


def set_environment(cann: Cann, environment: dict[str, str] | os._Environ[str]) -> None:
    """Sets what CANN's own libraries ask the environment for, where ``set_env.sh`` was not sourced."""
    if cann.home is None:
        return
    environment.setdefault("ASCEND_HOME_PATH", str(cann.home))
    environment.setdefault("ASCEND_TOOLKIT_HOME", str(cann.home))
    for variable, folder in (
        ("ASCEND_OPP_PATH", cann.home / "opp"),
        ("ASCEND_AICPU_PATH", cann.home),
    ):
        if folder.is_dir():
            environment.setdefault(variable, str(folder))
