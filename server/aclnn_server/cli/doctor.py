"""``aclnn-serve doctor``: what of CANN was found where, what is missing, and what to do about it."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.parsing import PROGRAM, Commands, Parser, add_command, append_help
from aclnn_server.cli.tables import size

if TYPE_CHECKING:
    from aclnn_server.backends.ascend.diagnosis import Diagnosis
    from aclnn_server.backends.ascend.probe import Probe

SHOWN_REFUSED = 5
"""Operators that cannot be served which are named without being asked for."""
WIDTH = 110


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "doctor",
        run,
        summary="tell whether this machine's NPUs can be served, and if not, why",
        details="""
            Looks for CANN, its operator packages, the driver and the devices, opens them, runs one small
            operator on the first device, and says in one screen what was found where, what is missing, and
            what to do about it. With --headers it only reads headers, of an installation or of a source tree.
            """,
        examples=f"""
            {PROGRAM} doctor
            {PROGRAM} doctor --headers /usr/local/Ascend/cann/include
            """,
    )
    parser.add_argument(
        "--headers",
        type=Path,
        metavar="DIR",
        help="read every header of operators below DIR, and list those that cannot be served",
    )
    parser.add_argument("--all", action="store_true", help="list everything that was tried")
    meanings = {"DONE": "all could be served", "NO": "not all can be served; the report says why"}
    append_help(parser, describe_exits(Exit.DONE, Exit.NO, Exit.USAGE, **meanings))


def run(options: argparse.Namespace) -> int:
    """Prints the findings; done only where the ascend backend can serve, or all headers can be."""
    if options.headers is not None:
        return _read_headers(options.headers)
    from aclnn_server.backends.ascend.diagnosis import diagnose

    found = diagnose()
    print(report(found, everything=options.all))
    return Exit.DONE if found.can_serve else Exit.NO


def _read_headers(folder: Path) -> int:
    from aclnn_server.backends.ascend.headers import read_tree

    if not folder.is_dir():
        raise CommandError(f"--headers is {folder}, where there is no folder")
    found = read_tree(folder)
    if not found.files:
        raise CommandError(f"--headers is {folder}, below which there is no header aclnn*.h")
    print(f"{found.files} headers, {found.count} operators, {len(found.refused)} cannot be served")
    for name, reason in sorted(found.refused.items()):
        print(f"  {name}: {reason}")
    return Exit.NO if found.refused or not found.count else Exit.DONE


def report(found: Diagnosis, *, everything: bool = False) -> str:
    """The findings, as one screen of text."""
    lines = [_line(name, text) for name, text in _facts(found).items()]
    if everything or (found.probe is None and found.attempts):
        lines += ["", "Tried:", *(f"  {attempt}" for attempt in found.attempts)]
    if found.problems:
        lines += ["", "Missing:"]
    for problem in found.problems:
        lines += [
            f"  {problem.what}",
            textwrap.indent(_wrapped(problem.advice, WIDTH - 6), "      "),
        ]
    return "\n".join([*lines, "", _verdict(found)])


def _facts(found: Diagnosis) -> dict[str, str]:
    facts = {
        "CANN": f"{found.home} ({found.how})" if found.home else "not found",
        "versions": ", ".join(f"{part} {version}" for part, version in found.versions.items()),
        "driver": found.driver or "not found",
        "device nodes": ", ".join(found.nodes) or "none",
        "custom operators": ", ".join(map(str, found.packages)),
    }
    if found.headers.files:
        count = len(found.headers.operators)
        facts["headers"] = f"{found.headers.files} with {count} operators"
    if found.probe is not None:
        facts |= _opened(found.probe)
    return {name: text for name, text in facts.items() if text}


def _opened(probe: Probe) -> dict[str, str]:
    facts = {"chip": probe.soc}
    for number, (name, free, total) in enumerate(probe.devices):
        facts[f"device {number}"] = f"{name}, {size(free)} free of {size(total)}"
    if probe.operators:
        facts["operators"] = f"{probe.operators} can be run{_refused(probe.refused)}"
    return facts


def _refused(refused: Mapping[str, str]) -> str:
    if not refused:
        return ""
    shown = [f"{name}: {reason}" for name, reason in sorted(refused.items())[:SHOWN_REFUSED]]
    more = len(refused) - len(shown)
    return f", {len(refused)} cannot:\n" + "\n".join(shown) + (f"\nand {more} more" if more else "")


def _line(name: str, text: str) -> str:
    first, *others = text.splitlines()
    indent = " " * 18
    return "\n".join(
        [f"{name:<17} {first}", *(_wrapped(f"{indent}{line}", WIDTH) for line in others)]
    )


def _wrapped(text: str, width: int) -> str:
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False)


def _verdict(found: Diagnosis) -> str:
    if found.can_serve:
        return f"The ascend backend can serve: {PROGRAM} serve --backend ascend --device all"
    if found.probe is None:
        return (
            "There is no CANN on this machine, so it has no NPU to serve. Nothing is wrong with that:\n"
            f"{PROGRAM} serve computes the same operators on this machine's CPU."
        )
    return "The ascend backend cannot serve yet."
