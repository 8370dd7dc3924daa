"""The commands that a document shows."""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: Path, language: str = "sh") -> dict[str, list[str]]:
    """The blocks of a language, by the heading that they stand under."""
    found: dict[str, list[str]] = {}
    for section in re.split(r"^(?=##+ )", page.read_text("utf-8"), flags=re.MULTILINE):
        heading = section.splitlines()[0].lstrip("# ")
        texts = [text for name, text in _BLOCK.findall(section) if name == language]
        if texts:
            found[heading] = texts
    return found
