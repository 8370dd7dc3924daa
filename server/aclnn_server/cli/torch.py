"""``aclnn-serve torch``: runs a program whose PyTorch computes on a server."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.parsing import PROGRAM, Commands, Parser, add_command, append_help


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "torch",
        run,
        summary="run a program whose PyTorch computes on a server",
        details="""
            Runs a program in which torch_npu, as it comes from PyPI, finds the C library: the device "npu" is
            then the server that ACLNN_SERVER names, else one on this machine's processor that ends with the
            program. The program is not changed, and its exit code is this command's.

            ACLNN_LIBRARIES names the folder of the C library where it is not found by itself, and
            ACLNN_LOCAL_DEVICES how many devices a server that is started shows.
            """,
        examples=f"""
            {PROGRAM} torch --build
            {PROGRAM} torch -- python train.py
            ACLNN_SERVER=127.0.0.1:50051 {PROGRAM} torch -- python train.py
            """,
    )
    parser.add_argument(
        "--build", action="store_true", help="build the C library first; in a checkout"
    )
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help="and its arguments, after --")
    append_help(
        parser,
        describe_exits(Exit.DONE, Exit.NO, Exit.USAGE, DONE="built; else the program's own code"),
    )


def run(options: argparse.Namespace) -> int:
    """Builds where asked, then becomes the program."""
    from aclnn_client.pytorch import SetupError

    if not options.program and not options.build:
        raise CommandError("no program is given; for example: aclnn-serve torch -- python train.py")
    try:
        if options.build:
            from aclnn_client.pytorch.libraries import build

            print(build())
        return _become(options.program) if options.program else Exit.DONE
    except SetupError as error:
        raise CommandError(str(error), Exit.NO) from None


def _become(program: list[str]) -> int:
    """Replaces this process by the program; a server that was started lives as long as that."""
    from aclnn_client.pytorch import libraries, local_server, wheels
    from aclnn_client.pytorch.variables import SERVER, set_variables

    found = shutil.which(program[0])
    if found is None:
        raise CommandError(f"{program[0]}: there is no such program")
    if Path(found).absolute().parent == Path(sys.executable).parent:  # else it has other packages
        wheels.check()
    set_variables(os.environ, libraries.find())
    if os.environ.get(SERVER):
        local_server.check(os.environ[SERVER])
    else:
        started = local_server.start()
        os.set_inheritable(started.pipe, True)
        os.environ[SERVER] = started.address
    sys.stdout.flush()
    os.execv(found, program)
