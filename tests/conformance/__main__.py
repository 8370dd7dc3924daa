"""Runs the conformance kit: ``python -m tests.conformance --client COMMAND [--only NAME]``."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from tests.conformance.runner import run


def main() -> int:
    """Runs the command; returns 0 where every case passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--client", required=True, help="command that starts the client's program")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    options = parser.parse_args()
    logging.disable()  # what fails on the server does so on demand
    count = failed = 0
    for name, problem in run(options.client, Path.cwd(), options.only):
        count += 1
        if problem:
            failed += 1
            print(f"FAILED {name}: {problem}", flush=True)
    print(f"{count - failed} of {count} cases passed")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
