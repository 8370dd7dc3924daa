"""docs/clients/cpp.md: its program prints what it says, and its commands are as they have to be."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

from aclnn_server.cli.entry import build_parser
from tests.cpp import building

PAGE = building.PROJECT / "docs/clients/cpp.md"
EXAMPLES = building.PROJECT / "examples/cpp/README.md"


def blocks(path: Path) -> list[tuple[str, str]]:
    """Language and text of each fenced block, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def test_the_page_begins_with_a_program_that_runs(address: str, tmp_path: Path) -> None:
    (language, code), (following, printed) = next(pairwise(blocks(PAGE)))
    assert (language, following) == ("cpp", "text")
    source = tmp_path / "program.cpp"
    source.write_text(code, "utf-8")
    assert building.run((str(building.program(source)),), address) == printed


def test_every_file_that_is_named_exists() -> None:
    for page in (PAGE, EXAMPLES):
        text = page.read_text("utf-8")
        links = re.findall(r"\]\(([^)#]+)\)", text)
        assert links
        for link in links:
            assert (page.parent / link).exists(), link


def test_commands_are_those_that_there_are() -> None:
    seen = set()
    for page in (PAGE, EXAMPLES):
        shell = "".join(text for language, text in blocks(page) if language == "sh")
        for line in shell.replace("\\\n", " ").splitlines():
            words = shlex.split(line.rstrip(" &"), comments=True)
            program = next(word for word in words if "=" not in word)
            seen.add(program)
            if program == "aclnn-serve":
                build_parser().parse_args(words[1:])
            if program == "g++":
                assert {*building.LINK} <= set(words)
                assert {"client/cpp/include", "client/cpp/build/lib"} <= set(words)
    assert seen == {"apt-get", "make", "g++", "aclnn-serve", "./program", "./two_phase"}


def test_every_variable_is_named() -> None:
    """And no other: those that the library asks the environment for."""
    asked: set[str] = set()
    for path in (building.LIBRARY / "src").rglob("*.cc"):
        text = path.read_text("utf-8")
        asked |= set(re.findall(r'(?:variable|getenv|read_file)\("(ACLNN_\w+)"', text))
    named = set(re.findall(r"`(ACLNN_\w+)", PAGE.read_text("utf-8").split("## What is there")[0]))
    assert named == asked
