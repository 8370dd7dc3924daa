"""Exit codes, and the error that ends a command with one of them."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """Why a command ended."""

    DONE = 0, "done"
    NO = 1, "the answer is no, or the operation was refused"
    USAGE = 2, "the command line or a setting is wrong"
    CANNOT_LISTEN = 3, "serve cannot listen on the address"
    NO_BACKEND = 4, "the backend cannot be opened"
    CUT_SHORT = 5, "serve was stopped at once by a second signal; running work was dropped"
    NO_ANSWER = 6, "no server answers at the address"
    INTERRUPTED = 130, "interrupted with Ctrl-C"
    CLOSED_PIPE = 141, "whoever read the output is gone"

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        """A member with its code as its value."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member


class CommandError(Exception):
    """A command that cannot go on; its text is what the user sees: one line, and lists below it."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.code = code


def describe_exits(*codes: Exit, **meanings: str) -> str:
    """Lists exit codes with their meanings, for a command's help.

    Args:
        codes: to list, in order.
        meanings: what a code means in this command where that is more than in all, by its name.
    """
    told = ((code.value, meanings.get(code.name, code.meaning)) for code in codes)
    return "exit codes:\n" + "\n".join(f"  {value:<4} {meaning}" for value, meaning in told)
