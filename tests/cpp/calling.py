"""Calls functions of the C library with zeros and null pointers, and tells what they answer.

Names come on standard input, each a line with what it returns (code, pointer, number, void); answers go to
standard output as JSON. It is a process of its own: another library of the same name may be in the tests'.
"""

from __future__ import annotations

import ctypes
import json
import sys

ARGUMENTS = [ctypes.c_void_p()] * 10
"""More than any function takes; each is 0 or null."""
RESULTS = {
    "code": ctypes.c_int,
    "pointer": ctypes.c_void_p,
    "number": ctypes.c_size_t,
    "void": None,
}


def main() -> None:
    """Runs the program."""
    libraries = [ctypes.CDLL(f"lib{name}.so") for name in ("ascendcl", "nnopbase", "opapi")]
    recent = ctypes.CDLL("libascendcl.so").aclGetRecentErrMsg  # apart from those that are tried
    recent.restype = ctypes.c_char_p
    answers = {}
    for line in sys.stdin:
        kind, name = line.split()
        function = next(getattr(library, name) for library in libraries if hasattr(library, name))
        function.restype = RESULTS[kind]
        found = function(*ARGUMENTS)
        answers[name] = (found, (recent() or b"").decode())
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
