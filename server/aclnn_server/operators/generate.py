"""Writes what follows from the catalogue: the clients' functions and the operators' documentation.

usage: ``python -m aclnn_server.operators.generate [--check]``

With ``--check`` nothing is written; files that differ are named and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from aclnn_server.operators import document, typed_functions, typescript, typescript_tables
from aclnn_server.operators.catalogue import built_in

ROOT = Path(__file__).parents[3]
OPS = Path("client/aclnn_client/ops.py")
NODE = Path("client/node/src/generated")
DOCS = Path("docs/operators")


def generated() -> Mapping[Path, str]:
    """Every generated file, by its path from the project's root."""
    catalogue = tuple(built_in().values())
    pages = {DOCS / f"{operator.name}.md": document.page(operator) for operator in catalogue}
    return {
        OPS: typed_functions.module(catalogue),
        NODE / "ops.ts": typescript.functions(catalogue),
        NODE / "operators.ts": typescript.one_line(catalogue),
        NODE / "catalogue.ts": typescript.catalogue(catalogue),
        NODE / "errors.ts": typescript_tables.error_classes(),
        NODE / "tables.ts": typescript_tables.tables(),
        DOCS / "README.md": document.table(catalogue),
        **pages,
    }


def stale(root: Path, files: Mapping[Path, str]) -> list[Path]:
    """Paths whose files under `root` are missing, differ or ought not to be there."""
    differing = [path for path, text in files.items() if _read(root / path) != text]
    pages = (path.relative_to(root) for path in (root / DOCS).glob("*.md"))
    return differing + sorted(path for path in pages if path not in files)


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _write(root: Path, files: Mapping[Path, str]) -> None:
    for path in stale(root, files):
        if path in files:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(files[path], encoding="utf-8")
        else:
            (root / path).unlink()
        print(path)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="aclnn_server.operators.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    options = parser.parse_args(arguments)
    files = generated()
    if not options.check:
        _write(options.root, files)
        return 0
    for path in (found := stale(options.root, files)):
        print(f"{path} is not what the catalogue says; run this command without --check")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
