"""What an installed CANN's headers declare: a signature of every operator, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aclnn.signatures import Signature, SignatureError, header_prototypes, parse

_NAME = re.compile(r"\b(aclnn\w+)GetWorkspaceSize\b")


@dataclass(slots=True)
class Headers:
    """What was read."""

    operators: dict[str, Signature] = field(default_factory=dict)
    """Signatures by name of the operator."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why an operator has none, by its name."""
    files: int = 0
    """Headers read."""

    @property
    def count(self) -> int:
        """Operators declared, refused ones included."""
        return len(self.operators) + len(self.refused)


def read_headers(folders: Iterable[Path]) -> Headers:
    """Reads the headers of operators that lie in folders; of the same operator the first one counts."""
    found = Headers()
    for folder in folders:
        for path in sorted(folder.glob("*.h")):
            _read(path, found)
    _forget_repaired(found)
    return found


def read_tree(root: Path) -> Headers:
    """Reads every header of operators below a folder, of an installation or of a source tree."""
    found = Headers()
    for path in sorted(_operator_headers(root)):
        _read(path, found)
    _forget_repaired(found)
    return found


def _operator_headers(root: Path) -> Iterator[Path]:
    skipped = {"tests", "experimental", "build"}
    for path in root.rglob("aclnn*.h"):
        if not skipped.intersection(path.relative_to(root).parts):
            yield path


def _read(path: Path, found: Headers) -> None:
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return
    found.files += 1
    for prototype in header_prototypes(text):
        name = _NAME.search(prototype)
        if name is None or name[1] in found.operators:
            continue
        try:
            found.operators[name[1]] = parse(prototype)
        except SignatureError as error:
            found.refused.setdefault(name[1], f"{path.name}: {error}")


def _forget_repaired(found: Headers) -> None:
    """Of an operator that several headers declare, one that can be read is enough."""
    for name in found.refused.keys() & found.operators.keys():
        del found.refused[name]
