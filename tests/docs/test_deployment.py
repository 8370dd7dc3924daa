"""The pages for those who run a server: commands, flags, variables and files that they name are there."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from aclnn_server.cli.entry import build_parser
from aclnn_server.config import CLIENT_VARIABLES, ENVIRONMENT_PREFIX, ServerConfig
from tests.deploy.pages import blocks
from tests.deploy.tools import complaints

PROJECT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("operations.md", "ascend.md", "deploy/*.md")
    for path in (PROJECT / "docs").glob(pattern)
)
# What the commands use besides the project's own.
PROGRAMS = {
    *(
        "apt-get",
        "chmod",
        "chown",
        "cp",
        "docker",
        "git",
        "install",
        "journalctl",
        "kubectl",
        "make",
    ),
    *(
        "mkdir",
        "pip",
        "python3",
        "rm",
        "source",
        "sudo",
        "systemctl",
        "systemd-sysusers",
        "userdel",
    ),
}
# Flags of other programs that the text speaks of.
OTHERS = {"--group-add", "--health-cmd", "--volumes", "--headers"}


def lines(page: Path) -> list[list[str]]:
    """Every command of a page's shell blocks, in words; a pipe or `&&` parts two."""
    found = []
    for texts in blocks(page).values():
        for line in "".join(texts).replace("\\\n", " ").splitlines():
            words = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
            words.whitespace_split = True
            command: list[str] = []
            for word in words:
                if word in ("|", "&&", ";", "(", ")"):
                    found.append(command)
                    command = []
                else:
                    command.append(word)
            found.append(command)
    return [command for command in found if command]


def own(command: list[str]) -> list[str] | None:
    """The arguments of `aclnn-serve` in a command, be it in a container or not."""
    names = [
        i for i, word in enumerate(command[:-1]) if re.search(r"\baclnn-serve(-ascend)?$", word)
    ]
    known = set(build_parser()._subparsers._group_actions[0].choices)  # type: ignore[union-attr, arg-type]
    for at in names:
        if command[at + 1] in known and command[at - 1] not in ("-t", "--name", "cp"):
            rest = command[at + 1 :]
            return rest[: rest.index(">")] if ">" in rest else rest
    return None


def test_the_pages_are_there() -> None:
    assert [page.name for page in PAGES] == [
        *("ascend.md", "bare-metal.md", "compose.md", "docker.md", "kubernetes.md"),
        "operations.md",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_understood(page: Path) -> None:
    asked = 0
    for command in lines(page):
        program = re.sub(r"^(/opt/aclnn-serve/bin/|\w+=.*)", "", command[0])
        if program and program != "aclnn-serve":
            assert program in PROGRAMS or (PROJECT / program).is_file(), command
        arguments = own(command)
        if arguments is not None:
            build_parser().parse_args(arguments)
            asked += 1
    assert asked >= 1 or page.stem in ("compose", "kubernetes")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_commands_use_exist(page: Path) -> None:
    for command in lines(page):
        for word in command:
            if word.startswith(("deploy/", "docs/", "tests/")):
                assert (PROJECT / word).exists(), command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_flags_of_the_text_exist(page: Path) -> None:
    known = {f"--{name.replace('_', '-')}" for name in ServerConfig.__dataclass_fields__}
    text = page.read_text("utf-8")
    spoken = set(re.findall(r"`(--[a-z][a-z-]*[a-z])[^`]*`", text))
    commands = " ".join(word for command in lines(page) for word in command)
    negated = {f"--no-{flag[2:]}" for flag in known}
    missing = {
        flag
        for flag in spoken - known - negated - OTHERS
        if not re.search(rf"{flag}\b", commands)  # another program's, shown in a block
    }
    assert missing == set()


def test_variables_are_settings(project_files: list[Path]) -> None:
    known = {ENVIRONMENT_PREFIX + name.upper() for name in ServerConfig.__dataclass_fields__}
    folders = [PROJECT / "docs", PROJECT / "deploy", PROJECT / "README.md", PROJECT / "Dockerfile"]
    named = 0
    for path in project_files:
        if path.is_relative_to(PROJECT / "docs/clients") or path.suffix == ".png":
            continue  # clients in other languages have variables of their own
        if any(path.is_relative_to(folder) for folder in folders):
            found = set(re.findall(rf"{ENVIRONMENT_PREFIX}[A-Z_]*[A-Z]", path.read_text("utf-8")))
            assert found <= known | set(CLIENT_VARIABLES), path
            named += len(found)
    assert named > 40


def slug(heading: str) -> str:
    """A heading's name in links, as Git hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def test_links_lead_to_headings(project: Path) -> None:
    followed = 0
    for document in [*project.glob("*.md"), *project.glob("docs/**/*.md")]:
        for link, fragment in re.findall(
            r"\]\(([^)#\s]*)#([^)\s]+)\)", document.read_text("utf-8")
        ):
            if "://" in link:
                continue
            target = (document.parent / link) if link else document
            headings = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.MULTILINE)
            assert fragment in {slug(heading) for heading in headings}, (document, link, fragment)
            followed += 1
    assert followed >= 15


def test_tables_are_current() -> None:
    assert complaints(sys.executable, str(PROJECT / "docs/generate.py"), "--check") == ""


def test_a_table_that_is_not_current_is_noticed(tmp_path: Path) -> None:
    page = (PROJECT / "docs/operations.md").read_text("utf-8")
    (tmp_path / "page.md").write_text(page.replace("| `--grace-seconds`", "| `--mercy-seconds`"))
    script = (sys.executable, str(PROJECT / "docs/generate.py"), "--page", f"{tmp_path}/page.md")
    assert "is not what settings and alerts say" in complaints(*script, "--check")
    assert complaints(*script) == ""
    assert (tmp_path / "page.md").read_text("utf-8") == page
