"""The command line, ``aclnn-serve``: one module per command.

A command's module imports what the command needs only when it runs, so that ``--help`` and ``version``
answer at once and ``serve`` is ready quickly.
"""

from aclnn_server.cli.entry import main

__all__ = ["main"]
