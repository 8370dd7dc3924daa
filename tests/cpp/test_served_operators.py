"""Operators that only the server knows, called from C by what ``aclnn-serve headers`` writes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aclnn_server.cli.server_process import ServerProcess
from tests.cpp import building
from tests.plug_ins.packages import EXAMPLE, install

FOLDER = Path(__file__).resolve().parent
OPERATORS = {
    "scale_operator": EXAMPLE,
    "every_kind_operator": FOLDER / "every_kind_operator.py",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server with two operators of packages. This process does not have them."""
    site = tmp_path_factory.mktemp("site")
    for name, path in OPERATORS.items():
        install(site, name, path.read_text("utf-8"), "FAMILY")
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(site), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        with ServerProcess() as server:
            yield server.address


@pytest.fixture(scope="module")
def served(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the headers, and with a library made by the command that was told."""
    building.libraries()
    root = tmp_path_factory.mktemp("served")
    told = _run([sys.executable, "-m", "aclnn_server", "headers", address, str(root)])
    *written, command = told.splitlines()
    assert written == [
        str(root / "include/aclnnop/aclnn_every_kind.h"),
        str(root / "include/aclnnop/aclnn_scale.h"),
        str(root / "src/served_operators.c"),
    ]
    # The command names the C library as it lies in the project, and its own output in the current folder.
    words = command.replace("libcust_opapi.so", str(root / "libcust_opapi.so")).split()
    _run([*words[:1], *building.WARNINGS, *words[1:]])
    return root


def _run(command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=building.PROJECT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def _print(name: str, served: Path, address: str) -> str:
    flags = (f"-I{served / 'include'}", f"-L{served}", "-lcust_opapi", f"-Wl,-rpath,{served}")
    program = building.program(FOLDER / "programs" / name, *flags)
    return building.run((str(program),), address)


def test_scale(served: Path, address: str) -> None:
    result, code, text = _print("scale.c", served, address).splitlines()
    assert (result, code) == ("1.5 3 4.5", "161001")
    assert "aclnnScale: x is a null pointer" in text


EVERYTHING = """\
tensor=BF16 NCHW (2, 3) (1, -2) 50 (100,)
tensors=[INT8 ND (2, 3) (3, 1) 0 (2, 3), DOUBLE NHWC () () 1 (100,), FLOAT ND (0, 5) (5, 1) 0 (0, 5), \
COMPLEX64 ND () () 0 ()]
scalar=DOUBLE -0.1
scalars=[INT64 -9223372036854775808, BOOL True, FLOAT16 1.5, COMPLEX128 (1.5-2.5j)]
integers=[0, -1, 9223372036854775807, -9223372036854775808, 127, 128]
floats=[0.0, -0.0, 1.5, inf]
flags=[True, False, True]
text='mean ü'
i64=-9223372036854775808
i32=-2147483648
i8=-128
u64=18446744073709551615
flag=True
f64=-0.0
f32=0.10000000149011612
type=BF16
"""

NOTHING = """\
tensor=None
tensors=None
scalar=None
scalars=None
integers=None
floats=None
flags=None
text=None
i64=0
i32=0
i8=0
u64=0
flag=False
f64=0.0
f32=0.0
type=FLOAT
"""

REFUSED = [
    (161002, "text is no UTF-8"),
    (161002, "type has data type 5, which ACL has not"),
    (161002, "type has no data type"),
    (161002, "tensor has format 99, which ACL has not"),
    (161002, "tensor has a storage of 4000 bytes; 2000 are left in the allocation"),
    (161001, "tensor has no storage: its data address is null"),
    (161002, "tensor is no aclTensor: it was destroyed"),
]


def test_every_kind_of_argument(served: Path, address: str) -> None:
    everything, nothing, refused = _print("every_kind.c", served, address).split("---\n")
    assert everything == EVERYTHING
    assert nothing == NOTHING
    lines = refused.splitlines()
    for line, (code, text) in zip(lines, REFUSED, strict=True):
        assert line.startswith(f"{code} ")
        assert text in line
