"""Writes the Python code of the schema beside it: messages, services and their type stubs.

    python proto/generate.py           # write
    python proto/generate.py --check   # compare only; exits 1 and names the files that differ

Needs grpcio-tools and mypy-protobuf in the versions that pyproject.toml pins. Nothing is edited
afterwards: the schema's path is its package and its import path, so protoc's imports are right as
they come.
"""

from __future__ import annotations

import argparse
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent
GENERATED = "*_pb2*.py*"


class GenerationError(Exception):
    """Protoc refused the schema; its own words are on stderr already."""


def schema_files(root: Path) -> list[Path]:
    """Returns the schema's files, relative to ``root``, by name."""
    return sorted(path.relative_to(root) for path in root.glob("aclnn/**/*.proto"))


def holds_service(path: Path) -> bool:
    """Tells whether the file declares a service; others would get empty ``_pb2_grpc`` files."""
    return re.search(r"^service\s", path.read_text("utf-8"), re.MULTILINE) is not None


def generate(root: Path, into: Path) -> None:
    """Writes the code of the schema under ``root`` to the same paths under ``into``."""
    every = schema_files(root)
    with_service = [path for path in every if holds_service(root / path)]
    _protoc(root, every, [f"--python_out={into}", f"--mypy_out=quiet:{into}"])
    _protoc(root, with_service, [f"--grpc_python_out={into}", f"--mypy_grpc_out=quiet:{into}"])


def _protoc(root: Path, schema: Iterable[Path], outputs: Iterable[str]) -> None:
    # By full path: the plugins are found without an activated environment too.
    scripts = Path(sysconfig.get_path("scripts"))
    plugins = [f"--plugin={scripts / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    includes = [f"-I{root}", f"-I{files('grpc_tools') / '_proto'}"]
    if protoc.main(["protoc", *includes, *plugins, *outputs, *map(str, schema)]) != 0:
        raise GenerationError


def generated_files(root: Path) -> set[Path]:
    """Returns the generated files under ``root``, relative to it."""
    found = root.glob(f"aclnn/**/{GENERATED}")
    return {path.relative_to(root) for path in found if path.parent.name != "__pycache__"}


def stale_files(root: Path, fresh: Path) -> list[Path]:
    """Returns the generated files that are missing, differ, or have no schema any more, by name.

    Both folders hold generated files; those under ``fresh`` are the right ones.
    """
    return sorted(
        path
        for path in generated_files(root) | generated_files(fresh)
        if _content(root / path) != _content(fresh / path)
    )


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def replace(root: Path, fresh: Path, stale: Iterable[Path]) -> None:
    """Makes the ``stale`` files under ``root`` what they are under ``fresh``."""
    for path in stale:
        content = _content(fresh / path)
        if content is None:
            (root / path).unlink()
        else:
            (root / path).write_bytes(content)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code: 0 done or current, 1 stale or refused."""
    parser = argparse.ArgumentParser(description="Generate the Python code of the schema.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 when stale")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder that holds aclnn/")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        fresh = Path(directory)
        try:
            generate(options.root, fresh)
        except GenerationError:
            return 1
        stale = stale_files(options.root, fresh)
        if not options.check:
            replace(options.root, fresh, stale)
    for path in stale:
        print(f"stale: {path}; run `make generate`" if options.check else f"wrote {path}")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
