"""The figures to reach, each as a ratio inside one run, and what a run says of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.client_process import KINDS
from benchmarks.questions import (
    chain,
    clients,
    in_flight,
    kernels,
    memory,
    sizes,
    small_calls,
    start,
)
from benchmarks.report import quantity, table, times, title
from benchmarks.results import Figure, Ratio, Results

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Finding:
    """What a run says of one figure to reach."""

    measured: str
    reached: bool


Judge = Callable[[Results], Finding]


@dataclass(frozen=True, slots=True)
class Target:
    """One figure to reach."""

    what: str
    reach: str
    judge: Judge
    """Raises KeyError where the run did not measure it."""


def report(results: Results) -> str:
    """The table: what, reach, measured, verdict."""
    rows = [(target.what, target.reach, *_judged(target, results)) for target in TARGETS]
    return table(("what", "reach", "measured", "verdict"), rows).replace("---:", "---")


def _judged(target: Target, results: Results) -> tuple[str, str]:
    try:
        finding = target.judge(results)
    except KeyError:
        return "", "not measured"
    return finding.measured, "reached" if finding.reached else "**not reached**"


# --- ratios to other systems ------------------------------------------------------------------------

Row = tuple[str, str, str, str]
"""Question, subject, case and measure of a figure."""


def at_most(limit: float, above: Row, below: Row) -> Judge:
    """A figure over another must not be more than `limit`."""

    def judge(results: Results) -> Finding:
        first, second = results.find(*above), results.find(*below)
        found = Ratio.of(first, second)
        told = (
            f"{times(found.value)} {title(second.subject)} "
            f"(rounds {found.lowest:.3g} to {found.highest:.3g}), "
            f"{_value(first)} to {_value(second)}"
        )
        return Finding(told, found.value <= limit)

    return judge


def _value(figure: Figure) -> str:
    return quantity(figure.value, figure.unit)


def all_of(*judges: Judge) -> Judge:
    """Every one must be reached."""

    def judge(results: Results) -> Finding:
        findings = [each(results) for each in judges]
        measured = "; ".join(finding.measured for finding in findings)
        return Finding(measured, all(finding.reached for finding in findings))

    return judge


# --- others -----------------------------------------------------------------------------------------


# Without another system beside it, the best round counts: what else runs can only make a figure worse.


def within(limit: float, *row: str) -> Judge:
    """The best round must not be more than `limit`."""

    def judge(results: Results) -> Finding:
        figure = results.find(*row)
        best = min(figure.rounds)
        return Finding(f"{title(figure.subject)} {quantity(best, figure.unit)}", best <= limit)

    return judge


def at_least(limit: float, *row: str) -> Judge:
    """The best round must not be less than `limit`."""

    def judge(results: Results) -> Finding:
        figure = results.find(*row)
        best = max(figure.rounds)
        return Finding(f"at best {quantity(best, figure.unit)}", best >= limit)

    return judge


def _wire(results: Results) -> Finding:
    """Payload and nothing else; commands and framing may add a hundredth."""
    figures = [row for row in results.of(chain.KEY) if row.measure == "both"]
    moved = next((row for row in figures if row.subject == "tcp"), None)
    payload = next((row for row in figures if row.subject == "payload"), None)
    if moved is None or payload is None:
        raise KeyError(chain.KEY)
    over = moved.value / payload.value - 1
    return Finding(f"{_value(moved)}, {over:.2%} above {_value(payload)} of payload", over <= 0.01)


def _peak(results: Results) -> Finding:
    peak = results.find(memory.KEY, "tcp", "upload", "peak").value
    payload = results.find(memory.KEY, "payload", "upload", "peak").value
    told = f"{payload / MIB:.0f} MiB {(peak - payload) / MIB:+.1f} MiB"
    return Finding(told, peak <= payload + 64 * MIB)


def _many(results: Results) -> Finding:
    """The worse of both kinds of calls."""
    findings = [_many_of(results, kind) for kind in KINDS]
    told = "; ".join(finding.measured for finding in findings)
    return Finding(told, all(finding.reached for finding in findings))


def _many_of(results: Results, kind: str) -> Finding:
    one = results.find(clients.KEY, "tcp", f"{kind}, 1 client", "rate")
    total = results.find(clients.KEY, "tcp", f"{kind}, 64 clients", "rate")
    slowest = results.find(clients.KEY, "tcp", f"{kind}, 64 clients", "slowest").value
    share = statistics.median(total.rounds) / max(one.rounds)
    told = f"{kind}: {times(share)} of one client's best {max(one.rounds):,.0f}/s"
    return Finding(f"{told}, slowest {slowest:.2f} of the mean", share >= 0.9 and slowest >= 0.5)


def _size(key: str, elements: int, measure: str = "p50") -> Row:
    return sizes.KEY, key, sizes.label(elements), measure


def _call(key: str, case: str = small_calls.ONE_LINE) -> Row:
    return small_calls.KEY, key, case, "p50"


def _thousand(key: str, measure: str = "per call") -> Row:
    return in_flight.KEY, key, f"{in_flight.CALLS} calls", measure


def _shared(elements: int) -> Judge:
    """A call that is waited for is judged; what one in flight takes is told beside it."""
    waited, flying = (
        [_size(key, elements, measure) for key in ("shm", "in-process")]
        for measure in (sizes.IN_PLACE, sizes.IN_FLIGHT)
    )
    judge = at_most(1.3, *waited)

    def both(results: Results) -> Finding:
        finding = judge(results)
        try:
            found = Ratio.of(*(results.find(*row) for row in flying))
        except KeyError:  # the run is from before it was measured
            return finding
        return Finding(f"{finding.measured} (in flight {times(found.value)})", finding.reached)

    return both


def _kernel(limit: float, name: str) -> Judge:
    return at_most(limit, *[(kernels.KEY, key, name, "time") for key in ("in-process", "torch")])


TARGETS = (
    Target(
        "one-line call, 8 elements, p50",
        "≤ 1.4 × bare bidirectional ping-pong; ≤ 0.4 × the two-unary first draft",
        all_of(
            at_most(1.4, _call("tcp"), _call("ping-pong")),
            at_most(0.4, _call("tcp"), _call("first-draft")),
        ),
    ),
    Target(
        "both phases by hand plus synchronise, warm, p50",
        "≤ 1.5 × bare ping-pong",
        at_most(1.5, _call("tcp", small_calls.TWO_PHASES), _call("ping-pong")),
    ),
    Target(
        "1,000 two-phase calls in flight, per call",
        "≤ 0.5 × Arrow Flight's pipelined exchange; at least 20,000 calls a second",
        all_of(
            at_most(0.5, _thousand("tcp"), _thousand("flight")),
            at_least(20_000, *_thousand("tcp", "rate")),
        ),
    ),
    Target(
        "16 Mi fp32 elements over TCP, inputs from and output to the client",
        "≤ 1.0 × Arrow Flight; ≤ 0.1 × the first draft",
        all_of(
            at_most(1.0, _size("tcp", 1 << 24), _size("flight", 1 << 24)),
            at_most(0.1, _size("tcp", 1 << 24), _size("first-draft", 1 << 24)),
        ),
    ),
    Target(
        "1 Mi elements over TCP",
        "≤ 1.0 × Arrow Flight",
        at_most(1.0, _size("tcp", 1 << 20), _size("flight", 1 << 20)),
    ),
    Target(
        "16 Mi and 1 Mi elements, shared memory",
        "≤ 1.3 × the kernel called in-process",
        all_of(_shared(1 << 24), _shared(1 << 20)),
    ),
    Target(
        "chain of 100 operators on resident 1 Mi buffers",
        "bytes on the wire = one upload and one download",
        _wire,
    ),
    Target(
        "kernel, 16 Mi: fp32 / bf16 / fp16",
        "≤ 1.5 / 2 / 2 × PyTorch CPU with as many threads",
        all_of(_kernel(1.5, "fp32"), _kernel(2.0, "bf16"), _kernel(2.0, "fp16")),
    ),
    Target("server's peak memory for a 1 GiB tensor in chunks", "≤ payload + 64 MiB", _peak),
    Target(
        "64 clients of small calls",
        "total throughput ≥ 0.9 × one client's best; slowest client ≥ 0.5 × the mean",
        _many,
    ),
    Target(
        "import of aclnn_client / server ready",
        "≤ 0.35 s / ≤ 1 s",
        all_of(
            within(0.35, start.KEY, "client", start.IMPORT, "time"),
            within(1.0, start.KEY, "tcp", start.READY, "time"),
        ),
    ),
)
