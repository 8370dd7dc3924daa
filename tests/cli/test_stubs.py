"""``stubs``, where it has nothing to write or nowhere to; tests/plug_ins has what it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aclnn_server.cli.exits import Exit
from aclnn_server.server import Server
from tests.cli.running import Command


def test_a_server_without_operators_of_its_own(refusal: Callable[..., str], server: Server) -> None:
    text = refusal("stubs", server.address, code=Exit.NO)
    assert text == f"{server.address} has no operator that is not known here"


def test_an_operator_that_is_asked_for(command: Command, server: Server) -> None:
    answer = command("stubs", server.address, "aclnnSmoothL1Loss")
    assert (answer.code, answer.err) == (0, "")
    assert "def aclnnSmoothL1LossGetWorkspaceSize(\n    self: TensorLike," in answer.out
    assert '    reduction: int | str = "mean",' in answer.out
    compile(answer.out, "served_ops.py", "exec")


def test_refusals(refusal: Callable[..., str], server: Server, tmp_path: Path) -> None:
    assert "aclnnNothing" in refusal("stubs", server.address, "aclnnNothing", code=Exit.NO)
    path = tmp_path / "no_such_folder" / "served_ops.py"
    text = refusal("stubs", server.address, "aclnnCat", "--output", path)
    assert text == f"{path}: No such file or directory"
