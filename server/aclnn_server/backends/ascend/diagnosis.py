"""What of CANN is where on this machine, what is missing, and what to do about it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aclnn_server.backends.ascend import loader
from aclnn_server.backends.ascend.headers import Headers, read_headers
from aclnn_server.backends.ascend.probe import Probe, probe

_VERSION = re.compile(r"^\s*\[?(?:\w*_)?version\s*=\s*\[?([\w.+-]+)", re.IGNORECASE | re.MULTILINE)
_VERSION_FILES = {
    "toolkit": ("*-linux/ascend_toolkit_install.info", "version.cfg"),
    "ops": ("*-linux/ascend_ops_install.info",),
    "runtime": ("*-linux/ascend_nnrt_install.info", "runtime/version.info"),
    "opp": ("opp/version.info",),
}
"""Files that tell the version of each part, below the installation's folder."""
_NODES = ("davinci_manager", "devmm_svm", "hisi_hdc")
"""Device nodes that every container with an NPU needs, besides davinci0 and so on."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something missing, and what to do about it."""

    what: str
    advice: str


@dataclass(slots=True)
class Diagnosis:
    """What was found."""

    home: Path | None = None
    how: str = ""
    """What led to the installation."""
    attempts: list[loader.Attempt] = field(default_factory=list)
    """Everything that was tried."""
    versions: dict[str, str] = field(default_factory=dict)
    """Version of each part."""
    packages: list[Path] = field(default_factory=list)
    """Packages of custom operators."""
    headers: Headers = field(default_factory=Headers)
    driver: str = ""
    """Version of the driver; empty where it is not there."""
    nodes: list[str] = field(default_factory=list)
    """Device nodes of NPUs."""
    probe: Probe | None = None
    """What came of opening the backend; ``None`` where no CANN was found."""
    problems: list[Problem] = field(default_factory=list)

    @property
    def can_serve(self) -> bool:
        """Whether the ascend backend can serve."""
        return self.probe is not None and not self.probe.error


def diagnose(
    environment: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
    ask: Callable[[Mapping[str, str]], Probe] = probe,
) -> Diagnosis:
    """Looks at everything.

    Args:
        environment: of the server.
        root: folder of the whole file system.
        ask: opens the backend.
    """
    found = Diagnosis()
    _look_at_driver(found, root)
    home = next(_homes(environment), None)
    if home is None:
        found.attempts = [
            loader.Attempt(how, str(path), "there is no such folder")
            for path, how in loader.homes(environment)
            if path is not None
        ]
    else:
        found.home, found.how = home
        _look_at_cann(found, found.home, environment)
    if found.home is not None or _system_has_cann():
        found.probe = ask(environment)
        found.versions |= found.probe.versions
    found.problems = list(_problems(found, environment))
    return found


def _homes(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    for path, how in loader.homes(environment):
        if path is not None and path.is_dir():
            yield path, how


def _system_has_cann() -> bool:
    from ctypes.util import find_library

    names = (name.removeprefix("lib").removesuffix(".so") for name in loader.RUNTIME_LIBRARIES)
    return any(find_library(name) for name in names)


def _look_at_driver(found: Diagnosis, root: Path) -> None:
    found.driver = _version_in(root / "usr/local/Ascend/driver/version.info")
    found.nodes = sorted(path.name for path in (root / "dev").glob("davinci[0-9]*"))
    if found.nodes:
        found.nodes += [name for name in _NODES if (root / "dev" / name).exists()]


def _look_at_cann(found: Diagnosis, home: Path, environment: Mapping[str, str]) -> None:
    for part, patterns in _VERSION_FILES.items():
        files = (path for pattern in patterns for path in sorted(home.glob(pattern)))
        version = next(filter(None, map(_version_in, files)), "")
        if version:
            found.versions[part] = version
    packages = list(loader.packages(home, environment, found.attempts))
    found.packages = [package.root for package in packages]
    folders = [package.headers for package in packages] + loader.header_folders(home)
    found.headers = read_headers(folders)


def _version_in(path: Path) -> str:
    try:
        match = _VERSION.search(path.read_text("utf-8", "replace"))
    except OSError:
        return ""
    return match[1] if match else ""


# --- what is missing ------------------------------------------------------------------------------


def _problems(found: Diagnosis, environment: Mapping[str, str]) -> Iterator[Problem]:
    if not found.can_serve:
        yield from _problems_of_driver(found)
    if found.probe is None:
        yield Problem(
            "no CANN",
            "install the toolkit and the ops package of the chip, or set ASCEND_HOME_PATH to where they are",
        )
    else:
        yield from _problems_of_cann(found, found.probe, environment)


def _problems_of_driver(found: Diagnosis) -> Iterator[Problem]:
    if not found.nodes:
        yield Problem(
            "no NPU: there is no /dev/davinci0",
            "on a machine with a card, install its driver and firmware; in a container, pass the devices in",
        )
        return
    if missing := [name for name in _NODES if name not in found.nodes]:
        yield Problem(
            f"no {', '.join(f'/dev/{name}' for name in missing)}",
            "pass these into the container too, beside /dev/davinci0",
        )
    if not found.driver:
        yield Problem(
            "no driver: there is no /usr/local/Ascend/driver/version.info",
            "in a container, mount /usr/local/Ascend/driver read-only; else install the driver",
        )


def _problems_of_cann(
    found: Diagnosis, opened: Probe, environment: Mapping[str, str]
) -> Iterator[Problem]:
    if found.home is not None and not found.headers.files:
        yield Problem(
            "no headers of operators: there is no include/aclnnop",
            "install the toolkit, not only the runtime; until then only the catalogue's operators are served",
        )
    opp = loader.opp_folder(found.home, environment)
    if not opp.is_dir():
        yield Problem(
            f"no operator packages: there is no {opp}", "install the ops package of the chip"
        )
    libraries = [folder for folder in _search_path(environment) if folder.name == "lib64"]
    if found.home is not None and not libraries:
        script = found.home / "set_env.sh"
        yield Problem(
            "LD_LIBRARY_PATH does not name CANN's libraries, which some of them need to find others",
            f"source {script} before starting the server",
        )
    if opened.error:
        yield Problem("the ascend backend does not work", opened.error)


def _search_path(environment: Mapping[str, str]) -> list[Path]:
    return [Path(part) for part in environment.get("LD_LIBRARY_PATH", "").split(":") if part]
