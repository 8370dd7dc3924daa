"""The libraries share a process with others: they offer what is documented, and are replaced by nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cpp import building
from tests.cpp.symbols import INCLUDE, declared, exported, listed, needed, tool

PROGRAMS = Path(__file__).resolve().parent / "programs"
LOADED_BY_NAME = ("hccl", "ge_runner", "graph", "acl_op_compiler", "acl_tdt_channel")
LIBRARIES = ("libascendcl.so", "libnnopbase.so", "libopapi.so")
ALL = (*LIBRARIES, *(f"lib{name}.so" for name in LOADED_BY_NAME))
RUNTIME = re.compile(r"_ZN5aclnn7runtime2v1\w+")
"""What libascendcl offers the other two libraries."""
NEEDS = re.compile(r".*@(GLIBC|GCC)_[\d.]+$")


def built() -> set[str]:
    return {path.name for path in building.libraries().glob("*.so")}


def test_all_libraries_are_looked_at() -> None:
    assert built() == set(ALL)


def test_functions_of_the_runtime_that_are_exported() -> None:
    headers = [str(path.relative_to(INCLUDE)) for path in INCLUDE.glob("acl/*.h")]
    public = {name for name in exported("libascendcl.so") if not RUNTIME.fullmatch(name)}
    assert public == declared(*headers).keys() | listed().keys()


@pytest.mark.parametrize("name", LOADED_BY_NAME)
def test_libraries_that_are_there_for_their_name_are_empty(name: str) -> None:
    assert exported(f"lib{name}.so") == set()


@pytest.mark.parametrize("library", ALL)
def test_nothing_of_others_is_taken(library: str) -> None:
    """Neither of gRPC, protobuf, abseil and OpenSSL, nor of C++: only of the C library, and of each other."""
    ours = set().union(*(exported(other) for other in LIBRARIES if other != library))
    assert {name for name in needed(library) if not NEEDS.match(name)} <= ours


@pytest.mark.parametrize("library", LIBRARIES)
def test_nothing_can_be_replaced(library: str) -> None:
    """What a library defines itself it finds in itself, whatever else the process has loaded."""
    relocations = tool("readelf", "--relocs", "--wide", library).splitlines()
    named = {line.split()[4].split("@")[0] for line in relocations if len(line.split()) > 4}
    assert not named & exported(library)
    assert "SYMBOLIC" in tool("readelf", "--dynamic", library)


# --- two copies of gRPC in one process --------------------------------------------------------------


def test_beside_a_grpc_that_the_program_brings(address: str) -> None:
    """The program is linked with the system's gRPC and protobuf, and its symbols come first."""
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "grpc++", "protobuf"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    program = building.program(PROGRAMS / "beside_grpc.cc", *flags)
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libgrpc++.so" in linked
    expected = "its own gRPC: OK\nthe C library: 11 22\n" * 2
    assert building.run((str(program), address), address) == expected


def test_beside_the_grpc_of_python(address: str) -> None:
    program = (sys.executable, str(PROGRAMS / "beside_grpcio.py"), address)
    python_path = os.pathsep.join(filter(None, sys.path))
    printed = building.run(program, address, PYTHONPATH=python_path)
    assert printed == "grpcio: [2.0, 4.0]\nthe C library: [11.0, 22.0]\n" * 2
