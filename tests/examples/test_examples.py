"""Every example, run as a user would: with a server of its own, and at an address."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from aclnn_client import connect
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from benchmarks.socket_bytes import Traffic

Run = Callable[..., str]

EIGHT = [-1, 0, 1, 1, 1, 1, 1, 1]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(ServerConfig(listen="127.0.0.1:0")) as server:
        yield server.address


@pytest.fixture
def run(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs an example; gives what it prints."""
    examples = project / "examples"
    monkeypatch.syspath_prepend(str(examples))

    def run(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(examples / name), run_name="__main__")
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run


def numbers(text: str) -> list[float]:
    """The numbers of an array that was printed."""
    return [float(word) for word in text.replace("[", " ").replace("]", " ").split()]


def test_two_phase(run: Run) -> None:
    workspace, result = run("two_phase.py").split("\n", 1)
    assert workspace.startswith("workspace: ")
    assert numbers(result) == EIGHT


def test_one_line(run: Run, address: str) -> None:
    *result, refused, message = run("one_line.py", "--address", address).splitlines()
    assert numbers(" ".join(result)) == [value / 8 for value in EIGHT]
    assert refused == "refused with 161002 ACLNN_ERR_PARAM_INVALID: beta is at fault"
    assert message.startswith("aclnnSmoothL1LossBackward: beta is -1")


def test_train_regressor(run: Run, address: str) -> None:
    *curve, weights, verdict = run("train_regressor.py", "--address", address).splitlines()
    losses = [float(line.split()[3]) for line in curve]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 3
    learnt, true = (numbers(part) for part in re.findall(r"\[.*?\]", weights))
    np.testing.assert_allclose(learnt, true, atol=0.1)
    assert verdict == "the same as without a server"


def test_train_network(run: Run, address: str) -> None:
    *curve, verdict = run("train_network.py", "--address", address).splitlines()
    losses = [float(line.split()[4]) for line in curve]
    assert len(losses) == 20
    assert losses[-1] < losses[0] / 8
    assert verdict == "the same as without a server"


def test_train_network_sends_nothing_but_its_batches(
    project: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the bytes that the kernel counts: the batches, and less per step than any of the weights."""
    monkeypatch.syspath_prepend(str(project / "examples"))
    module = runpy.run_path(str(project / "examples/train_network.py"))
    batches = list(module["made_up_batches"]())
    port = int(address.rpartition(":")[2])
    with connect(address, shared_memory=False) as context:
        network = module["Network"](context, module["first_parameters"]())
        context.synchronize()
        before = Traffic.with_port(port)
        for number, batch in enumerate(batches):
            network.step(number, *batch)
        context.synchronize()
        moved = Traffic.with_port(port) - before
    overhead = moved.sent / len(batches) - sum(array.nbytes for array in batches[0])
    smallest = min(tensor.nbytes for tensor in network.parameters.values() if tensor.size > 1)
    assert 0 < overhead < smallest
    assert moved.received / len(batches) < smallest


def test_plain_grpc(run: Run, address: str) -> None:
    inline, buffers, refused, *details = run("plain_grpc.py", "--address", address).splitlines()
    for line in (inline, buffers):
        assert numbers(line.split(":")[1]) == EIGHT
    assert "INVALID_ARGUMENT: aclnnSmoothL1LossBackward: beta is -1" in refused
    told = dict(line.strip().split(": ") for line in details)
    assert told == {
        "reason": "INVALID_PARAMETER",
        "operator": "aclnnSmoothL1LossBackward",
        "parameter": "beta",
        "acl_code": "161002",
        "field": "beta",
    }


def test_plain_grpc_uses_no_client_library(project: Path) -> None:
    assert "import aclnn_client" not in (text := (project / "examples/plain_grpc.py").read_text())
    assert "from aclnn_client" not in text


def test_aio_streams(run: Run, address: str) -> None:
    lines = run("aio_streams.py", "--address", address).splitlines()
    assert lines[-1] == "all as expected"


def test_every_example_has_a_test(project: Path) -> None:
    tests = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    programs = {path.stem for path in (project / "examples").glob("*.py")} - {"a_server"}
    assert programs <= tests
