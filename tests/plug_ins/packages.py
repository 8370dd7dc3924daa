"""Packages as an installer leaves them behind, made in a folder for one test."""

from __future__ import annotations

from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plug_in" / "scale_operator.py"


def install(folder: Path, module: str, text: str, entry: str) -> None:
    """Puts a module and its package's metadata into a folder that is, or will be, on Python's path.

    Args:
        folder: where to.
        module: the module's name.
        text: what is in it.
        entry: the object that the entry point names.
    """
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{module}.py").write_text(text, encoding="utf-8")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8"
    )
    (info / "entry_points.txt").write_text(
        f"[aclnn_serve.operators]\n{module} = {module}:{entry}\n", "utf-8"
    )
