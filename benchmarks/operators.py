"""Times every operator on 1 Mi elements beside the NumPy expression that one would write.

usage: ``python -m benchmarks.operators [--threads T ...] [--rounds R] [--slow] [NAME ...]``

The kernel, once per number of threads, and the expression take turns, so that other load hits them alike;
the least time of all rounds counts. What comes out above the limit is measured again, a few times over.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aclnn_server.backends.numpy import NumpyBackend, NumpyDevice
from benchmarks.cases import cases, foreach
from benchmarks.cases.case import ELEMENTS, SIDE, Case
from benchmarks.cases.pointwise import COMPARISONS
from benchmarks.kernels import timed

LARGEST_RATIO = 1.5
ATTEMPTS = 4
_CALL = "NumPy takes no longer for all of it than a call takes to begin, some 20 µs"
_SUMS = (
    "adds in DOUBLE, as documented, and rounds; near the limit, above it where other programs run"
)
_SHORT = (
    "NumPy takes 50 to 150 µs in place; to begin a call and its blocks takes 20 to 60, and more where other "
    "programs run"
)
_IN_PLACE = (
    *("Adds", "Subs", "Muls", "Divs", "Neg", "Floor", "Ceil", "Round", "Trunc"),
    *(f"Bitwise{word}Scalar" for word in ("And", "Or", "Xor")),
    *(f"{name}{other}" for name, _ in COMPARISONS for other in ("Scalar", "Tensor")),
)
_LIGHT = (
    *("Abs", "Neg", "Copy", "ZeroInplace"),
    *(
        f"{name}Scalar{form}"
        for name in ("Add", "Sub", "Mul", "Div")
        for form in ("", "V2", "List")
    ),
)
_TARGETS = (
    "a pass more, for targets that are not above 0, of which the expression makes NaN or a slope"
)
_TWO_STEPS = (
    "rows are taken, then columns, then they are moved to their place, whatever the sizes are"
)
_PRODUCTS = "multiplies in DOUBLE, as documented; NumPy takes four times as long for that"
_PLACES = "of each tensor is to be found out where it lies, some 3 µs; NumPy takes 1 µs to add a number to it"
_FINITE = "looks for infinite gradients first, which products with weights of 0 would spread"
NOTES = {
    "All BOOL": _CALL,
    "Any BOOL": _CALL,
    "NLLLoss": f"{_CALL}; it reads two numbers per row, and looks whether all classes exist",
    **{f"KlDiv{form}": _TARGETS for form in ("", "Backward", "TargetBackward")},
    "ProdDim columns": _PRODUCTS,
    "ProdDim middle": _PRODUCTS,
    "Cumsum all": _SUMS,
    "Cumsum rows": _SUMS,
    "Cumsum middle": _SUMS,
    "Index elements": "copies the indexes, which may change meanwhile, and looks whether each names a place",
    "UpsampleNearest2d": _TWO_STEPS,
    "UpsampleNearest2dV2": _TWO_STEPS,
    **{f"Foreach{name} 8 tensors": _PLACES for name in _LIGHT},
    "ForeachNorm 8 tensors": "adds in DOUBLE, as documented; NumPy in FLOAT, by a product of vectors",
    **{f"{name} 256 tensors": _PLACES for name in foreach.MANY},
    "Addbmm": "in one thread of the library of linear algebra, so that bits do not depend on it",
    "Addmv": _CALL,
    "UpsampleBilinear2dBackward": _FINITE,
    "UpsampleBilinear2dBackwardV2": _FINITE,
    "Roll dim 1": "the C library's memcpy moves rows that begin anywhere, as fast as their places allow",
    "UniqueConsecutive": "elements are made ready to be compared in any type, and outputs may lie anywhere",
    "Eye": "NumPy's memory comes from the operating system as zeros",
    **{f"Inplace{name}": _SHORT for name in _IN_PLACE},
    "InplaceLogicalAnd": _CALL,
    "InplaceLogicalOr": _CALL,
    "InplaceLogicalNot": _CALL,
    "AmpUpdateScale": _CALL,
    f"Cat {SIDE} tensors": "of each tensor is to be found out where it lies and that out does not overlap it",
}
"""Why a case cannot come below the limit, by its title."""


@dataclass(frozen=True, slots=True)
class Row:
    """Least seconds of a case."""

    case: Case
    ours: tuple[float, ...]
    """One per number of threads."""
    plain: float

    @property
    def ratios(self) -> list[float]:
        return [seconds / self.plain for seconds in self.ours]

    @property
    def slow(self) -> bool:
        return max(self.ratios) > LARGEST_RATIO

    def __str__(self) -> str:
        ours = "".join(f"{seconds * 1e3:9.3f}" for seconds in self.ours)
        ratios = "".join(f"{ratio:6.2f}" for ratio in self.ratios)
        return f"{self.case.title:36}{self.plain * 1e3:9.3f}{ours}{ratios}{' slow' if self.slow else ''}"


def measured(case: Case, devices: Sequence[NumpyDevice], rounds: int) -> Row:
    """Races a case, again while it is slow."""
    calls = [case.expression, *map(case.prepared, devices)]
    least = [math.inf] * len(calls)
    for _ in range(ATTEMPTS):
        with np.errstate(all="ignore"):
            least = list(map(min, least, race(calls, rounds)))
        row = Row(case, tuple(least[1:]), least[0])
        if not row.slow:
            break
    return row


def race(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Least seconds of each call."""
    times = [[timed(call) for call in calls] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def main() -> int:
    """Prints the table; the exit code tells whether a case is slow that no note explains."""
    options = _parse()
    devices = [NumpyBackend(threads=count).devices[0] for count in options.threads]
    counts = "".join(f"{f'{count} thr.':>9}" for count in options.threads)
    print(f"{devices[0].name}, {ELEMENTS} elements, milliseconds, best of {options.rounds} or more")
    print(f"{'':36}{'NumPy':>9}{counts}  ratios, at most {LARGEST_RATIO}")
    slow = []
    for case in cases():
        if options.names and case.operator not in options.names:
            continue
        row = measured(case, devices, options.rounds)
        slow += [row.case.title] * row.slow
        if row.slow or not options.slow:
            print(row, flush=True)
    for title in slow:
        print(f"{title}: {NOTES.get(title, 'above the limit')}")
    return int(not NOTES.keys() >= set(slow))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.operators", description=__doc__.splitlines()[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="without the aclnn prefix")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="T")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--slow", action="store_true", help="print only what is above the limit")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
