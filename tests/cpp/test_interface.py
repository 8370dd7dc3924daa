"""What programs compile and link against: headers for C and C++, and exactly the functions they declare."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from aclnn_server.operators.catalogue import built_in
from tests.cpp import building
from tests.cpp.symbols import INCLUDE, declared, exported

HEADERS = sorted(str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.h"))
INTERNAL = re.compile(r"^_ZNK?5aclnn4meta|^aclnnServe")
"""What the libraries offer each other, and this project's own entry."""


@pytest.mark.parametrize(
    "compiler",
    [("cc", "-std=c99"), ("cc", "-std=c17"), ("c++", "-std=c++11"), ("c++", "-std=c++20")],
    ids=lambda compiler: compiler[1][5:],
)
def test_headers_are_whole_and_clean(compiler: tuple[str, ...], tmp_path: Path) -> None:
    building.libraries()
    source = tmp_path / ("all.c" if compiler[0] == "cc" else "all.cc")
    # Twice, so that what guards a header from itself is tried too.
    source.write_text("".join(f'#include "{name}"\n' for name in HEADERS * 2), "utf-8")
    command = [*compiler, *building.WARNINGS, "-Wpedantic", "-fsyntax-only", f"-I{INCLUDE}"]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_each_header_needs_no_other_before_it(tmp_path: Path) -> None:
    building.libraries()
    ours = [name for name in HEADERS if not name.startswith("aclnnop/")]
    for name in (*ours, "aclnnop/aclnn_add.h"):
        source = tmp_path / "one.c"
        source.write_text(f'#include "{name}"\n', "utf-8")
        command = ["cc", *building.WARNINGS, "-fsyntax-only", f"-I{INCLUDE}", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), name


def test_operators_that_are_exported() -> None:
    functions = {f"{name}{phase}" for name in built_in() for phase in ("", "GetWorkspaceSize")}
    found = exported("libopapi.so")
    assert {name for name in found if not INTERNAL.match(name)} == functions
    assert {name for name in found if INTERNAL.match(name)} == {
        "aclnnServeGetWorkspaceSize",
        "aclnnServeExecute",
    }


def test_functions_of_tensors_and_executors_that_are_exported() -> None:
    functions = set(declared("aclnn/acl_meta.h", "aclnn/aclnn_base.h"))
    assert {"aclCreateTensor", "AclSetTensorAddr", "aclnnInit"} <= functions
    found = exported("libnnopbase.so")
    assert {name for name in found if not INTERNAL.match(name)} == functions


def test_sonames_are_the_vendor_s() -> None:
    for name in ("libascendcl.so", "libnnopbase.so", "libopapi.so"):
        path = str(building.libraries() / name)
        done = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True)
        assert re.findall(r"SONAME.*\[(.*)\]", done.stdout) == [name]
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", done.stdout))
        # Of ours only those before it, and of the system's only the C library's parts.
        system = {row for row in needed if re.match(r"(libc|libm|ld-linux.*|libgcc_s)\.so", row)}
        ours = {row for row in needed if re.match(r"lib(ascendcl|nnopbase)\.so", row)}
        assert needed == system | ours, needed
