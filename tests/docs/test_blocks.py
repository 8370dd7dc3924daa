"""What the documents show is run, and what they link to exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from aclnn_server.cli import main
from aclnn_server.cli.entry import build_parser
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server

DOCUMENTED_ADDRESS = "localhost:50051"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        yield server.address


def blocks(path: Path) -> list[tuple[str, str]]:
    """Language and text of each fenced block, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)
    assert found
    return found


def matches(text: str, documented: str) -> bool:
    """Whether the text is as documented, where … stands for anything in a line."""
    pattern = re.escape(documented.rstrip()).replace("…", ".+")
    return re.fullmatch(pattern, text.rstrip()) is not None


def test_python_blocks_of_the_readme_print_what_it_says(
    project: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In order, as one program; a text block is what the block before it prints."""
    names: dict[str, object] = {}
    ran = 0
    for (language, code), (following, text) in pairwise([*blocks(project / "README.md"), ("", "")]):
        if language != "python":
            continue
        exec(compile(code.replace(DOCUMENTED_ADDRESS, address), "README.md", "exec"), names)
        printed = capsys.readouterr().out
        assert printed == (text if following == "text" else "")
        ran += 1
    assert ran >= 2


def test_console_blocks_of_the_readme_answer_what_it_says(
    project: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    console = [text for language, text in blocks(project / "README.md") if language == "console"]
    commands = [part for text in console for part in re.split(r"^\$ ", text, flags=re.M)[1:]]
    assert len(commands) >= 3
    for part in commands:
        line, _, documented = part.partition("\n")
        program, *arguments = shlex.split(line.replace(DOCUMENTED_ADDRESS, address))
        assert program == "aclnn-serve"
        assert main(arguments) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert matches(out, documented), out


def test_commands_of_shell_blocks_exist(project: Path) -> None:
    targets = re.findall(r"^(\w+):", (project / "Makefile").read_text(), re.MULTILINE)
    shell = [text for language, text in blocks(project / "README.md") if language == "sh"]
    seen = set()
    for line in "".join(shell).splitlines():
        program, *arguments = shlex.split(line, comments=True)
        seen.add(program)
        if program == "make":
            assert set(arguments) <= set(targets)
        elif program == "aclnn-serve":
            build_parser().parse_args(arguments)
    assert seen == {"make", "pip", "aclnn-serve"}


def test_commands_in_tables_exist(project: Path) -> None:
    named = re.findall(r"^\| `aclnn-serve (\w+)", (project / "README.md").read_text(), re.MULTILINE)
    assert len(named) >= 6
    for name in named:
        with pytest.raises(SystemExit) as end:
            build_parser().parse_args([name, "--help"])
        assert end.value.code == 0


def test_links_lead_somewhere(project: Path) -> None:
    documents = [*project.glob("*.md"), *project.glob("docs/**/*.md")]
    broken = [
        f"{document.relative_to(project)}: {link}"
        for document in documents
        for link in re.findall(r"\]\(([^)#\s]+)", document.read_text())
        if "://" not in link and not (document.parent / link).exists()
    ]
    assert len(documents) >= 5
    assert broken == []
