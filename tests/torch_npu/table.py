"""Every call of the table, its outcome by element type, and the table of the documentation.

``make torch-table`` writes it into docs/pytorch.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import torch

from tests.torch_npu import network_calls, optimizer_calls, tensor_calls
from tests.torch_npu.calls import Call, cases
from tests.torch_npu.comparing import Outcome, outcome

SECTIONS: Mapping[str, Mapping[str, Call]] = {
    "Layers, activations, losses": cases(network_calls.GROUPS),
    "Tensors": cases(tensor_calls.GROUPS),
    "Optimizers and training": cases(optimizer_calls.GROUPS),
}
CALLS = cases([tuple(section.values()) for section in SECTIONS.values()])
TYPES = {
    torch.float32: "FLOAT",
    torch.float16: "FLOAT16",
    torch.bfloat16: "BF16",
    torch.float64: "DOUBLE",
    torch.int64: "INT64",
}
PAGE = Path(__file__).resolve().parents[2] / "docs/pytorch.md"
BEGIN, END = (
    "<!-- table: make torch-table -->\n",
    "<!-- end of the table -->",
)

Outcomes = Mapping[str, Mapping[torch.dtype, Outcome]]


def all_outcomes() -> Outcomes:
    """Makes every call."""
    return {
        name: {dtype: outcome(call, dtype) for dtype in call.types} for name, call in CALLS.items()
    }


def working(outcomes: Outcomes) -> int:
    """How many calls work in every element type."""
    return sum(all(one.good for one in row.values()) for row in outcomes.values())


def table(outcomes: Outcomes) -> str:
    """The documentation's tables."""
    parts = [f"{working(outcomes)} of {len(outcomes)} calls give what the CPU gives.\n"]
    for title, section in SECTIONS.items():
        lines = [f"\n### {title}\n", "| call | forward | backward |", "|---|---|---|"]
        lines += [_row(name, outcomes[name]) for name in section]
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def _row(name: str, row: Mapping[torch.dtype, Outcome]) -> str:
    forward = {dtype: not one.forward for dtype, one in row.items()}
    backward = {dtype: not one.backward for dtype, one in row.items() if one.backward is not None}
    cells = (f"`{name}`".replace("|", "\\|"), _cell(forward), _cell(backward))
    return f"| {' | '.join(cells)} |"


def _cell(good: Mapping[torch.dtype, bool]) -> str:
    """The types in which it is equal, and those in which it is not."""
    if not good:
        return ""
    equal = ", ".join(TYPES[dtype] for dtype, yes in good.items() if yes)
    other = ", ".join(TYPES[dtype] for dtype, yes in good.items() if not yes)
    return f"{equal}{'; ' if equal and other else ''}{f'not {other}' if other else ''}"


def with_table(page: str, outcomes: Outcomes) -> str:
    """A page with its table written anew."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{table(outcomes)}\n{END}{after}"


def main() -> int:
    """Writes the table, and what is not equal to standard error."""
    outcomes = all_outcomes()
    for name, row in outcomes.items():
        for dtype, one in row.items():
            if not one.good:
                print(f"{name} {TYPES[dtype]}: {one.forward or one.backward}", file=sys.stderr)
    print(f"{working(outcomes)} of {len(outcomes)}", file=sys.stderr)
    if PAGE.exists():
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), outcomes), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
