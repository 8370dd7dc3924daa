"""Commands that ask: ``info``, ``ops`` and ``health``."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from aclnn import __version__
from aclnn_client import connect
from aclnn_server.cli.exits import Exit
from aclnn_server.cli.own_server import own_address
from aclnn_server.operators.catalogue import operators
from aclnn_server.server import Server
from tests.cli.running import Answer, Command

OPERATOR = "aclnnSmoothL1LossBackward"


# --- info -------------------------------------------------------------------------------------------


def test_info_shows_what_is_in_use_and_what_may_be(command: Command, server: Server) -> None:
    with connect(server.address, shared_memory=False) as context:
        kept = context.tensor(np.zeros(1 << 18, np.float32))
        context.synchronize()
        answer = command("info", server.address)
        kept.free()
    assert (answer.code, answer.err) == (0, "")
    assert answer.lines[0] == f"aclnn-serve {__version__} at {server.address}"
    words = [line.split() for line in answer.lines]
    assert ["backend", "numpy"] in words
    assert any(line[:1] == ["features"] and "data-connection" in line for line in words)
    assert ["dtype", "rules", "reference"] in words
    assert ["lease", "60", "s"] in words
    assert ["memory", "1", "MiB", "16", "GiB", "context"] in words
    assert ["contexts", "1", "1024", "server"] in words
    assert any(line[:1] == ["0"] and line[-1] == "1" for line in words)  # the device


def test_info_as_json(command: Command, server: Server) -> None:
    told = json.loads(command("info", server.address, "--json").out)
    assert told["version"] == __version__
    assert told["backend"] == "numpy"
    assert told["limits"]["contexts"] == 1024
    assert told["usage"]["bytes"] == 0
    assert told["default_lease_seconds"] == 60
    assert told["devices"][0]["index"] == 0
    assert told["operators"] == list(operators())


# --- ops --------------------------------------------------------------------------------------------


def test_ops_lists_the_operators_without_a_server(command: Command) -> None:
    answer = command("ops")
    assert (answer.code, answer.err) == (0, "")
    assert [line.split()[0] for line in answer.lines[1:]] == list(operators())


def test_ops_of_a_server_are_its_own(command: Command, server: Server) -> None:
    assert command("ops", "--address", server.address) == command("ops")


@pytest.mark.parametrize("name", [OPERATOR, "SmoothL1LossBackward", "smooth_l1_loss_backward"])
def test_ops_describes_one_under_any_of_its_names(name: str, command: Command) -> None:
    answer = command("ops", name)
    assert (answer.code, answer.err) == (0, "")
    assert answer.lines[0].startswith(f"{OPERATOR}: ")
    phase_one, phase_two = operators()[OPERATOR].signature.prototypes()
    unindented = "\n".join(line.removeprefix("  ") for line in answer.lines)
    assert phase_one in unindented
    assert phase_two in unindented
    assert operators()[OPERATOR].description in answer.out
    words = [line.split() for line in answer.lines]
    assert ["gradInput", "aclTensor*", "output", "FLOAT,", "FLOAT16,", "BF16"] in words
    assert ["reduction", "int64_t", "input", "0", "(none),", "1", "(mean),", "2", "(sum)"] in words
    assert "context.ops.smooth_l1_loss_backward(" in answer.out


def test_ops_describes_one_of_a_server(command: Command, server: Server) -> None:
    assert command("ops", OPERATOR, "--address", server.address) == command("ops", OPERATOR)


def test_ops_follows_the_product(command: Command) -> None:
    assert "BF16" in command("ops", OPERATOR).out.split("In one line")[0]
    assert "BF16" not in command("ops", OPERATOR, "--soc", "ascend310p").out.split("In one line")[0]


def test_ops_tells_what_a_product_does_not_have(command: Command) -> None:
    told = "is not available on Atlas 200I/500 A2 inference (ascend310b)"
    assert told in command("ops", OPERATOR, "--soc", "ascend310b").out
    assert told in command("ops", "--soc", "ascend310b").out


def test_an_unknown_operator_brings_similar_ones(
    refusal: Callable[..., str], server: Server
) -> None:
    told = f"did you mean {OPERATOR}"
    assert told in refusal("ops", "SmothL1LosBackward")
    assert told in refusal("ops", "SmothL1LosBackward", "--address", server.address)
    assert refusal("ops", "qqq") == f"no operator 'qqq' among {len(operators())}"


# --- health -----------------------------------------------------------------------------------------


def test_health_of_a_server(command: Command, server: Server) -> None:
    for service in ("", "liveness", "aclnn.v1.OperatorService"):
        answer = command("health", server.address, "--service", service)
        assert (answer.code, answer.out, answer.err) == (0, "SERVING\n", "")


@pytest.mark.parametrize(
    ("listen", "own"),
    [
        ("", "127.0.0.1:50051"),
        ("0.0.0.0:50052", "127.0.0.1:50052"),
        ("[::]:50053", "[::1]:50053"),
        ("localhost:50054", "localhost:50054"),
        ("192.0.2.7:1", "192.0.2.7:1"),
        ("unix:/run/aclnn:0", "unix:/run/aclnn:0"),
    ],
)
def test_the_own_server_is_where_its_environment_says(listen: str, own: str) -> None:
    assert own_address({"ACLNN_SERVE_LISTEN": listen}) == own


def test_health_without_an_address_asks_the_own_server(
    command: Command,
    refusal: Callable[..., str],
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = server.address.rpartition(":")[2]
    monkeypatch.setenv("ACLNN_SERVE_LISTEN", f"0.0.0.0:{port}")
    assert command("health") == Answer(Exit.DONE, "SERVING\n", "")
    monkeypatch.setenv("ACLNN_SERVE_LISTEN", "127.0.0.1:0")
    assert refusal("health") == (
        "ACLNN_SERVE_LISTEN is '127.0.0.1:0': the server picks a port; give its ADDRESS"
    )


def test_health_is_1_for_an_unknown_service_and_where_no_server_is(
    refusal: Callable[..., str], server: Server
) -> None:
    told = refusal("health", server.address, "--service", "x.Y", code=Exit.NO)
    assert told == f"{server.address}: the server has no service 'x.Y'"
    assert "connection refused" in refusal("health", "127.0.0.1:1", code=Exit.NO)
