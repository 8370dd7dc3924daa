"""The programs of examples/cpp, compiled and linked as a user does, and what they print."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cpp import building

EXAMPLES = building.PROJECT / "examples/cpp"


def run(name: str, address: str, *arguments: str, timeout: float = 50.0) -> list[str]:
    program = building.program(EXAMPLES / name)
    return building.run((str(program), *arguments), address, timeout=timeout).splitlines()


def test_two_phase(address: str) -> None:
    eight = [-1, 0, 1, 1, 1, 1, 1, 1]
    assert run("two_phase.cpp", address) == [f"gradInput[{i}] = {v}" for i, v in enumerate(eight)]


def test_plain_c(address: str) -> None:
    assert run("plain_c.c", address) == ["6 7 8 14 15 16 "]


def test_from_python(address: str) -> None:
    command = (sys.executable, str(EXAMPLES / "from_python.py"))
    building.libraries()
    assert building.run(command, address) == "-1 0 1 1 1 1 1 1\n"


def test_repeatable(address: str) -> None:
    assert run("repeatable.cpp", address) == ["11 22 33 44 ", "101 202 303 404 "]


def test_events(address: str) -> None:
    assert run("events.cpp", address) == [
        "3 * 3 + 3 = 12 in all of 1048576 places: yes",
        "the squares took a time that is not negative",
    ]


def test_threads(address: str) -> None:
    assert run("threads.cpp", address) == ["64 of 64 threads found what they had summed up"]


def test_a_tensor_of_one_gibibyte(address: str) -> None:
    assert run("large_tensor.cpp", address) == ["1024 MiB doubled, 0 elements wrong"]


def test_errors(address: str) -> None:
    lines = run("errors.cpp", address)
    told = {
        line.split(": ")[0]: (int(line.split(": ")[1]), text.strip())
        for line, text in zip(lines[::2], lines[1::2], strict=True)
    }
    name = "aclnnSmoothL1LossBackward: "
    expected = {
        "a null tensor": (161001, f"{name}self is a null pointer"),
        "a reduction that there is not": (161002, f"{name}reduction is 3"),
        "a negative beta": (161002, f"{name}beta is -1"),
        "memory of the host": (161002, f"{name}self does not lie in device memory"),
        "a tensor that was destroyed": (161002, f"{name}self is no aclTensor: it was destroyed"),
        "an executor that was run": (200005, f"{name}the executor was run or destroyed before"),
        "more memory than there is": (207001, ""),
    }
    assert told.keys() == expected.keys()
    for what, (code, text) in expected.items():
        assert told[what][0] == code, what
        assert text in told[what][1], what
    assert re.search(r"bytes", told["more memory than there is"][1])


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.c*")))
def test_every_example_is_run_here(name: str) -> None:
    assert f'"{name}"' in Path(__file__).read_text("utf-8")


def test_a_result_that_is_as_large_as_its_elements_make_it(address: str) -> None:
    program = building.program(Path(__file__).parent / "programs/masked_select.cc")
    assert building.run((str(program),), address).splitlines() == ["[3] 1 3 4", "[8] "]
