"""``aclnn-serve diff``: the same calls on two servers, backends or products, and how their results differ."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.parsing import (
    PROGRAM,
    Commands,
    Parser,
    add_command,
    add_timeout,
    append_help,
)
from aclnn_server.cli.remote import add_credentials, credentials

if TYPE_CHECKING:
    from aclnn_server.cli.differences import Difference, Tolerance
    from aclnn_server.cli.sides import Side

_SIDES = """
a side is one of
  HOST:PORT, unix:PATH   a server
  PRODUCT                a server of its own that computes with NumPy as --soc PRODUCT
  BACKEND                a server of its own with that backend
  BACKEND/PRODUCT        both

a file of cases is a JSON list, one object per case; arguments are written as for call:
  [{"operator": "SmoothL1Loss", "case": "far apart",
    "arguments": {"self": "rand:8x8", "target": "full:8x8:9", "reduction": "sum", "beta": 1}}]

tolerances: an element is near enough if it is by any of --atol + --rtol * abs(left) or --ulp. Without them:
  FLOAT 1e-4, FLOAT16 1e-3, BF16 4e-3, DOUBLE 1e-9, relative and absolute; all else must be equal."""


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "diff",
        run,
        summary="compare results of two servers, backends or products",
        details="""
            Runs one operator, or every case of a file, on two sides and tells of each output how far the two
            are from each other: the largest absolute and relative difference, the most steps of the element
            type, and the first index that differs.
            """,
        examples=f"""
            {PROGRAM} diff reference ascend910b SmoothL1LossBackward gradOutput=ones:8 self=rand:8 \\
                target=zeros:8 reduction=none beta=1
            {PROGRAM} diff numpy 127.0.0.1:50051 --cases cases.json --json
            {PROGRAM} diff reference ascend950 --cases cases.json --ulp 1 --atol 0 --rtol 0
            """,
    )
    parser.add_argument("left", metavar="LEFT", help="side to compare with")
    parser.add_argument("right", metavar="RIGHT", help="side that is compared")
    parser.add_argument("name", nargs="?", metavar="NAME", help="operator")
    parser.add_argument("arguments", nargs="*", metavar="PARAMETER=VALUE", help="as of call")
    parser.add_argument(
        "--cases", type=Path, metavar="FILE", help="cases, in place of one operator"
    )
    for flag, what in (("atol", "absolute"), ("rtol", "relative"), ("ulp", "steps of the type")):
        parser.add_argument(f"--{flag}", type=float, metavar="NUMBER", help=f"tolerance, {what}")
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    add_timeout(parser, 60.0)
    add_credentials(parser)
    exits = (Exit.DONE, Exit.NO, Exit.USAGE, Exit.NO_BACKEND, Exit.NO_ANSWER)
    append_help(
        parser,
        f"{_SIDES.strip()}\n\n{describe_exits(*exits, NO='results differ, or a call was refused')}",
    )


def run(options: argparse.Namespace) -> int:
    """Runs the cases on both sides, and shows how the results differ."""
    from aclnn_server.cli.differences import Tolerance
    from aclnn_server.cli.sides import opened

    cases = _cases(options)
    known = credentials(options)
    tolerance = Tolerance(options.atol, options.rtol, options.ulp)
    with (
        opened(options.left, options.timeout, known) as left,
        opened(options.right, options.timeout, known) as right,
    ):
        lines = [line for case in cases for line in _compare(case, left, right, tolerance, options)]
    _show(lines, options)
    return Exit.DONE if all(line.passed for line in lines) else Exit.NO


# --- cases ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    operator: str
    arguments: tuple[str, ...]


def _cases(options: argparse.Namespace) -> list[_Case]:
    if (options.name is None) == (options.cases is None):
        raise CommandError("name one operator or one file with --cases")
    if options.cases is None:
        return [_Case(options.name, options.name, tuple(options.arguments))]
    try:
        rows = json.loads(options.cases.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{options.cases}: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(f"{options.cases} is no JSON: {error}") from None
    if not isinstance(rows, list) or not rows:
        raise CommandError(f"{options.cases} has no list of cases")
    return [_case(options.cases, number, row) for number, row in enumerate(rows, 1)]


def _case(path: Path, number: int, row: Any) -> _Case:  # noqa: ANN401 - whatever the file has
    if not isinstance(row, dict) or not isinstance(row.get("arguments", {}), dict):
        raise CommandError(f"{path}: case {number} is no object with operator and arguments")
    if not isinstance(row.get("operator"), str):
        raise CommandError(f"{path}: case {number} names no operator")
    arguments = row.get("arguments", {}).items()
    texts = (f"{name}={v if isinstance(v, str) else json.dumps(v)}" for name, v in arguments)
    return _Case(str(row.get("case", number)), row["operator"], tuple(texts))


# --- comparing --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """What is told of one output, or of a case without any."""

    case: str
    operator: str
    output: str
    passed: bool
    verdict: str
    difference: Difference | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    """Messages of the sides that refused, by ``"left"`` and ``"right"``."""


def _compare(
    case: _Case, left: Side, right: Side, tolerance: Tolerance, options: argparse.Namespace
) -> list[_Line]:
    from aclnn.errors import AclnnError
    from aclnn_server.cli.call import read_arguments
    from aclnn_server.cli.differences import compare
    from aclnn_server.cli.sides import entry_of

    entry = entry_of(left, case.operator, options.timeout)
    arguments = read_arguments(entry, case.arguments)
    results = [_outcome(side, entry.name, arguments) for side in (left, right)]
    if any(isinstance(result, AclnnError) for result in results):
        return [_refused(case, entry.name, results)]
    lines = []
    for name, one in results[0].items():
        difference = compare(one, results[1][name], tolerance)
        verdict = "equal" if not difference.differing else "near"
        verdict = verdict if difference.within else "differs"
        lines.append(_Line(case.name, entry.name, name, difference.within, verdict, difference))
    return lines


def _refused(case: _Case, operator: str, results: Sequence[Any]) -> _Line:
    """The line of a case that a side refused, or both did."""
    from aclnn.errors import AclnnError

    left, right = map(_told, results)
    sides = zip(("left", "right"), results, strict=True)
    errors = {side: error.message for side, error in sides if isinstance(error, AclnnError)}
    alike = left == right
    verdict = f"both {left}" if alike else f"{left} / {right}"
    return _Line(case.name, operator, "", alike, verdict, errors=errors)


def _outcome(side: Side, operator: str, arguments: Sequence[Any]) -> Any:  # noqa: ANN401
    """The outputs by name, or the error that the side gave in place of them."""
    from aclnn.errors import AclnnError, ServerUnavailable
    from aclnn_server.cli.computing import compute

    try:
        results = compute(side.context, side.compute_signature(operator), arguments)
    except ServerUnavailable:
        raise
    except AclnnError as error:
        return error
    return {result.name: result.array for result in results}


def _told(result: Any) -> str:  # noqa: ANN401 - as of _outcome
    from aclnn.errors import AclnnError

    return f"{result.code} {result.name}" if isinstance(result, AclnnError) else "computed"


# --- showing ----------------------------------------------------------------------------------------


def _show(lines: Sequence[_Line], options: argparse.Namespace) -> None:
    passed = sum(line.passed for line in lines)
    if options.json:
        answer = {
            "left": options.left,
            "right": options.right,
            "passed": passed == len(lines),
            "results": [_row(line) for line in lines],
        }
        print(json.dumps(answer, indent=2))
        return
    from aclnn_server.cli.tables import table

    headings = ("case", "output", "verdict", "max abs", "max rel", "ulp", "differing", "note")
    print(table(headings, map(_cells, lines)))
    print(f"{passed} of {len(lines)} within tolerance: {options.left} and {options.right}")


def _row(line: _Line) -> dict[str, object]:
    from aclnn_server.cli.differences import number

    row: dict[str, object] = {
        "case": line.case,
        "operator": line.operator,
        "output": line.output,
        "passed": line.passed,
        "verdict": line.verdict,
    }
    row |= {f"{side}_error": message for side, message in line.errors.items()}
    if (found := line.difference) is not None:
        row |= {
            "elements": found.elements,
            "differing": found.differing,
            "max_absolute": number(found.max_absolute),
            "max_relative": number(found.max_relative),
            "max_ulp": number(found.max_ulp),
            "first": found.first,
            "left": found.left,
            "right": found.right,
        }
    return row


def _note(errors: Mapping[str, str]) -> str:
    """The messages in one line; one of both sides once."""
    texts = {side: " ".join(message.split()) for side, message in errors.items()}
    if len(texts) == 2 and len({*texts.values()}) == 1:
        return texts["left"]
    return "; ".join(f"{side}: {text}" for side, text in texts.items())


def _cells(line: _Line) -> tuple[str, ...]:
    head, found = (line.case, line.output, line.verdict), line.difference
    if found is None:
        return (*head, *("",) * 4, _note(line.errors))
    largest = (found.max_absolute, found.max_relative, found.max_ulp)
    where = "" if found.first is None else f"{list(found.first)}: {found.left} and {found.right}"
    return (
        *head,
        *(f"{value:.3g}" for value in largest),
        f"{found.differing}/{found.elements}",
        where,
    )
