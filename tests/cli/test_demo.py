"""``demo``: a process that starts a server of its own."""

from __future__ import annotations

import pytest

from aclnn_server.cli import demo
from aclnn_server.cli.exits import CommandError, Exit
from aclnn_server.cli.server_process import ServerProcess
from tests.cli.running import Command

EIGHT = "-1 0 1 1 1 1 1 1"


def test_the_demo(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLNN_SERVE_BACKEND", "null")  # a developer's own setting
    answer = command("demo")
    assert (answer.code, answer.err) == (0, "")
    for call in (
        "connect(",
        "aclnnSmoothL1LossBackwardGetWorkspaceSize(",
        "aclnnSmoothL1LossBackward(workspace, workspaceSize, executor, stream)",
        "stream.synchronize()",
        "context.ops.smooth_l1_loss_backward(",
    ):
        assert call in answer.out
    assert [line.strip() for line in answer.lines].count(EIGHT) == 2
    assert answer.lines[-2:] == ["stopped   the server, exit code 0", "both as documented"]


def test_the_demo_does_not_praise_wrong_results(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NullServer(ServerProcess):
        def __init__(self) -> None:
            super().__init__("--backend", "null")

    monkeypatch.setattr(demo, "ServerProcess", NullServer)
    answer = command("demo")
    assert answer.code == Exit.NO
    assert answer.lines[-1].startswith("WRONG")


def test_a_server_that_does_not_start_is_one_line() -> None:
    told = "the server did not start: threads is -1; it must be at least 0"
    with pytest.raises(CommandError, match=told), ServerProcess("--threads", "-1"):
        pass
