"""``aclnn-serve demo``: the documented sample through a server, step by step."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from aclnn_server.cli.exits import Exit, describe_exits
from aclnn_server.cli.parsing import PROGRAM, Commands, Parser, add_command, append_help
from aclnn_server.cli.server_process import ServerProcess

if TYPE_CHECKING:
    import numpy.typing as npt

    from aclnn_client import Context

EXPECTED = (-1, 0, 1, 1, 1, 1, 1, 1)
"""What the sample's documentation gives."""


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "demo",
        run,
        summary="start a server, run an operator through it, show each step",
        details="""
            Starts a server in a process of its own on a free port of this machine, runs the documented sample
            of aclnnSmoothL1LossBackward through both phases and then in one line, and stops the server.
            """,
        examples=f"{PROGRAM} demo",
    )
    append_help(parser, describe_exits(Exit.DONE, Exit.NO))


def run(_: argparse.Namespace) -> int:
    """Runs the demonstration; 0 where both results are as documented."""
    server = ServerProcess()
    try:
        with server:
            print(f"started   {server.command}\n          {server.banner}", flush=True)
            right = _both_ways(server.address)
    finally:
        if server.address:
            sys.stderr.write(server.log)  # warnings and errors only
    print(f"stopped   the server, exit code {server.exit_code}")
    print("both as documented" if right else f"WRONG: documented is {EXPECTED}")
    return Exit.DONE if right else Exit.NO


def _both_ways(address: str) -> bool:
    from aclnn_client import connect
    from aclnn_server.cli.results import line

    grad_output, self, target = _sample()
    print("sample    aclnnSmoothL1LossBackward, FLOAT 4x2, reduction 0 (none), beta 1.0")
    for name, array in (("gradOutput", grad_output), ("self", self), ("target", target)):
        print(f"            {name:<11}{line(array)}")
    with connect(address) as context:
        print(f"\nconnect({address!r})")
        by_steps = _two_phases(context, grad_output, self, target)
        print("\nthe same in one line")
        call = 'smooth_l1_loss_backward(gradOutput, self, target, reduction="none", beta=1.0)'
        print(f"  context.ops.{call}")
        one_line: Any = context.ops.smooth_l1_loss_backward
        at_once = one_line(grad_output, self, target, reduction="none", beta=1.0)
        print(f"    {line(at_once)}\n")
    return all(tuple(result.reshape(-1)) == EXPECTED for result in (by_steps, at_once))


def _sample() -> tuple[npt.NDArray[Any], ...]:
    import numpy as np

    ones = np.ones((4, 2), np.float32)
    return ones, np.arange(8, dtype=np.float32).reshape(4, 2), ones


def _two_phases(context: Context, *arrays: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Both phases, with the calls named."""
    from aclnn_client import ops
    from aclnn_server.cli.results import line

    grad_output, self, target = (context.tensor(array) for array in arrays)
    grad_input = context.empty((4, 2), "float32")
    print("context.tensor(...), context.empty((4, 2), 'float32')\n    4 tensors in device memory")

    print("aclnnSmoothL1LossBackwardGetWorkspaceSize(gradOutput, self, target, 0, 1.0, gradInput)")
    size, executor = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(
        grad_output, self, target, 0, 1.0, grad_input
    )
    print(f"    workspaceSize {size}, {executor}")

    workspace = context.malloc(size)
    stream = context.create_stream()
    print("aclnnSmoothL1LossBackward(workspace, workspaceSize, executor, stream)")
    start = time.perf_counter()
    ops.aclnnSmoothL1LossBackward(workspace, size, executor, stream)
    stream.synchronize()
    print(
        f"stream.synchronize()\n    done in {(time.perf_counter() - start) * 1e3:.1f} ms since phase two"
    )

    result = grad_input.numpy()
    print(f"gradInput.numpy()\n    {line(result)}")
    return result
