"""Words that have no place in the project, wherever they would come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

# Each pattern is written so that it does not find itself.
FORBIDDEN = {
    "a path of somebody's machine": r"(?<![\w.$}~-])/(wor[k]|roo[t]|hom[e]/\w+)/",
    "a path outside the project": r"\.\./share[d]\b",
    "a package registry": r"\b(pyp[i]|npmj[s]|pythonhoste[d])\.(org|com)\b",
    "a merge that was not finished": r"^(<{7}|>{7}) ",
    "work that was left for later": r"\b(TOD[O]|FIXM[E]|XX[X])\b",
}
# Names under which everything and nothing is kept.
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler", "handlers"}


def text_of(path: Path) -> str:
    """The file's text; empty where it is no text."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        return ""


@pytest.fixture(scope="module")
def texts(project: Path, project_files: list[Path]) -> dict[str, str]:
    return {str(path.relative_to(project)): text_of(path) for path in project_files}


@pytest.mark.parametrize("reason", FORBIDDEN)
def test_no_file_holds(reason: str, texts: dict[str, str]) -> None:
    pattern = re.compile(FORBIDDEN[reason], re.MULTILINE)
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for name, text in texts.items()
        for match in pattern.finditer(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    "sample",
    [
        "see /wor" + "k/main",
        "../share" + "d/x",
        "https://pyp" + "i.org/simple",
        "<" * 7 + " HEAD",
        "# TOD" + "O: later",
    ],
)
def test_the_patterns_find_what_they_are_for(sample: str) -> None:
    assert [p for p in FORBIDDEN.values() if re.search(p, sample, re.MULTILINE)] != []


def test_product_modules_have_telling_names(project: Path, project_files: list[Path]) -> None:
    roots = [project / name for name in ("proto", "server", "client")]
    product = [path for path in project_files if any(path.is_relative_to(r) for r in roots)]
    assert product
    assert [
        str(path.relative_to(project))
        for path in product
        if VAGUE & {path.stem, *(parent.name for parent in path.relative_to(project).parents)}
    ] == []
