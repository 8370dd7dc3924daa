"""No file of code grows without a limit."""

from __future__ import annotations

import re
from pathlib import Path

LIMIT = 500
CODE = {".py", ".pyi", ".c", ".cc", ".cpp", ".h", ".hpp", ".go", ".js", ".mjs", ".ts", ".sh"}
# Each kind of generator leaves one of these words in the first lines of what it writes.
SEAL = re.compile(r"generated (by|from|protocol)|do not edit", re.IGNORECASE)


def is_generated(text: str) -> bool:
    return SEAL.search("\n".join(text.splitlines()[:8])) is not None


def test_no_code_file_is_longer_than_the_limit(project: Path, project_files: list[Path]) -> None:
    """A schema is no code: it is the specification, read from top to bottom."""
    code = {path: path.read_text("utf-8") for path in project_files if path.suffix in CODE}
    assert code
    lines = {path: text.count("\n") for path, text in code.items() if not is_generated(text)}
    assert {str(path.relative_to(project)): n for path, n in lines.items() if n > LIMIT} == {}
