"""Fuzzes the wire, led by coverage: ``make fuzz``. Needs atheris, of the dependency group ``fuzz``.

The first input that brings about what may not be ends it; libFuzzer leaves it in a file, and ``make fuzz
FUZZ_INPUT=file`` gives it once more.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["aclnn", "aclnn_server.service", "aclnn_server.sessions"]):
    from tests.hostile import target

LARGEST_BYTES = 1 << 14
MEMORY_MIB = 4096
SLOWEST_SECONDS = 30


def main(arguments: list[str]) -> None:
    """Fuzzes with libFuzzer's `arguments`: options, directories of inputs, or single inputs to try."""

    def mutated(data: bytes, largest: int, seed: int) -> bytes:
        choose = random.Random(seed)
        if choose.random() < 0.3:
            return target.spoilt(data, choose)[:largest]
        return target.changed(data, choose, lambda part: atheris.Mutate(part, largest))[:largest]

    with tempfile.TemporaryDirectory() as inputs, target.Target() as take:
        for number, data in enumerate(target.seeds()):
            Path(inputs, f"{number}").write_bytes(data)
        given = arguments if any(Path(a).is_file() for a in arguments[1:]) else [*arguments, inputs]
        options = (
            f"-max_len={LARGEST_BYTES}",
            f"-rss_limit_mb={MEMORY_MIB}",
            f"-timeout={SLOWEST_SECONDS}",
        )
        atheris.Setup([*given, *options], take, custom_mutator=mutated)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
