"""What the built libraries offer and need, and what the headers declare."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache

from tests.cpp import building

INCLUDE = building.LIBRARY / "include"
UNSUPPORTED = building.LIBRARY / "symbols/unsupported.txt"
Kind = str
"""What a function returns: code, pointer, number or void."""


@cache
def exported(library: str) -> frozenset[str]:
    """Functions and objects that a library offers."""
    return frozenset(line.split()[2] for line in _nm(library, "--defined-only"))


def needed(library: str) -> Iterator[str]:
    """Functions and objects that a library takes from others, with the version where it has one."""
    return (line.split()[1] for line in _nm(library, "--undefined-only"))


def _nm(library: str, which: str) -> list[str]:
    return tool("nm", "--dynamic", "--with-symbol-versions", which, library).splitlines()


def tool(*command: str) -> str:
    """What a program of binutils prints of a library, the last word of its command."""
    *words, library = command
    path = str(building.libraries() / library)
    return subprocess.run([*words, path], capture_output=True, text=True, check=True).stdout


def declared(*headers: str) -> dict[str, Kind]:
    """Functions that headers declare, and what they return."""
    found: dict[str, Kind] = {}
    for header in headers:
        text = (INCLUDE / header).read_text("utf-8")
        text = re.sub(r"/\*.*?\*/|^\s*#[^\n]*(?:\\\n[^\n]*)*", "", text, flags=re.DOTALL | re.M)
        pattern = r"^\s*(?:ACL_FUNC_VISIBILITY\s+|ACLNN_API\s+)?([A-Za-z][\w ]*?[ *]+)(\w+)\s*\([^()]*\)\s*;"
        found |= {name: _kind(type_.strip()) for type_, name in re.findall(pattern, text, re.M)}
    return found


def _kind(type_: str) -> Kind:
    if type_.endswith("*"):
        return "pointer"
    kinds = {"void": "void", "aclError": "code", "aclnnStatus": "code", "float": "float"}
    return kinds.get(type_, "number")


def listed() -> dict[str, Kind]:
    """Functions of symbols/unsupported.txt."""
    rows = [line.split() for line in UNSUPPORTED.read_text("utf-8").splitlines()]
    return {row[1]: row[0] for row in rows if len(row) == 2 and row[0] != "#"}


@cache
def written() -> frozenset[str]:
    """Functions that the library's source defines: those that are done."""
    text = "".join(
        path.read_text("utf-8") for path in sorted((building.LIBRARY / "src").rglob("*.cc"))
    )
    return frozenset(re.findall(r"^[A-Za-z][\w* ]*?[ *](\w+)\(", text, flags=re.M))
