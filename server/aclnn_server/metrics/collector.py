"""Turns what a server holds and has counted into Prometheus's metrics, at each scrape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from aclnn import PROTOCOL_VERSION, __version__
from aclnn_server.metrics import catalogue
from aclnn_server.metrics.catalogue import Kind
from aclnn_server.metrics.sources import Sources
from aclnn_server.sessions.limits import Limits, Usage
from aclnn_server.sessions.meters import (
    CELL,
    COPY_IN,
    COPY_OUT,
    PARTS,
    QUEUE,
    RUN,
    SUM,
    WHOLE,
    Group,
    Tally,
)

FIRST_EXPONENT, LAST_EXPONENT = 10, 36
"""Buckets of the histograms: powers of two of nanoseconds, 1 µs to 69 s."""
_BOUNDS = [repr(2**n / 1e9) for n in range(FIRST_EXPONENT, LAST_EXPONENT + 1)]
_PARTS = dict(zip(PARTS, (QUEUE, COPY_IN, RUN, COPY_OUT), strict=True))

Sample = tuple[tuple[object, ...], float]
"""Values of the labels, and the metric's."""


class ServerCollector(Collector):
    """Collects a server's metrics. Nothing is kept between scrapes."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Yields every metric of the catalogue, with what it is now."""
        yield from self._server()
        yield from self._devices()
        yield from self._holdings()
        if self._sources.meters is not None:
            yield from self._counts()

    def describe(self) -> Iterable[Metric]:
        """Nothing: so that nothing is collected when the collector is registered."""
        return ()

    # --- gauges -----------------------------------------------------------------------------------

    def _server(self) -> Iterator[Metric]:
        sources = self._sources
        about = (__version__, PROTOCOL_VERSION, sources.backend.name, sources.config.soc)
        yield _family(catalogue.BUILD_INFO, [(about, 1)])
        yield _family(catalogue.READY, [((), sources.ready())])
        yield _family(catalogue.START_TIME, [((), sources.started)])
        limits = sources.config.limits
        in_force = [((limit.name,), getattr(limits, limit.name)) for limit in fields(Limits)]
        yield _family(catalogue.LIMIT, in_force)
        yield _family(catalogue.SUBMIT_CALLS, [((), sources.submit_calls())])
        yield _family(catalogue.CALLS_IN_HAND, [((), sources.calls_in_hand())])

    def _devices(self) -> Iterator[Metric]:
        devices = self._sources.backend.devices
        memory = [(device.index, *device.memory_info()) for device in devices]
        named: list[Sample] = [((device.index, device.name), 1) for device in devices]
        yield _family(catalogue.DEVICE_INFO, named)
        known = [(index, free, total) for index, free, total in memory if total]
        yield _family(catalogue.DEVICE_MEMORY, [((index,), total) for index, _, total in known])
        yield _family(catalogue.DEVICE_MEMORY_FREE, [((index,), free) for index, free, _ in known])

    def _holdings(self) -> Iterator[Metric]:
        held: dict[Group, Usage] = defaultdict(Usage)
        limits: dict[Group, int] = defaultdict(int)
        for context in self._sources.registry.contexts:
            group = (context.device.index, context.owner)
            held[group].add(context.usage)
            limits[group] += context.account.limit
        for metric, name in (
            (catalogue.CONTEXTS, "contexts"),
            (catalogue.STREAMS, "streams"),
            (catalogue.EXECUTORS, "executors"),
            (catalogue.BUFFERS, "buffers"),
            (catalogue.EVENTS, "events"),
            (catalogue.MEMORY_USED, "bytes"),
            (catalogue.QUEUED_COMMANDS, "queued_commands"),
        ):
            yield _family(metric, [(group, getattr(usage, name)) for group, usage in held.items()])
        yield _family(catalogue.MEMORY_LIMIT, list(limits.items()))

    # --- counters and histograms ------------------------------------------------------------------

    def _counts(self) -> Iterator[Metric]:
        meters = self._sources.meters
        assert meters is not None
        totals = meters.totals()

        def counted(count: Callable[[Tally], Iterable[Sample]]) -> list[Sample]:
            return [
                ((*labels, *_who(group)), value)
                for group, tally in totals.items()
                for labels, value in count(tally)
            ]

        of_contexts = {group: tally for group, tally in totals.items() if group[0] is not None}
        opened = [(_who(group), count) for group, count in meters.contexts_opened.items()]
        yield _family(catalogue.CONTEXTS_OPENED, opened)
        ended = [
            ((*_who(group), reason), count)
            for (group, reason), count in meters.contexts_ended.items()
        ]
        yield _family(catalogue.CONTEXTS_ENDED, ended)
        yield _family(catalogue.CALLS, counted(_calls))
        yield _family(catalogue.ERRORS, counted(_errors))
        yield _family(catalogue.RECEIVED_BYTES, counted(lambda tally: [((), tally.received)]))
        yield _family(catalogue.SENT_BYTES, counted(lambda tally: [((), tally.sent)]))
        yield _family(catalogue.EXECUTIONS, counted(_executions))
        yield _family(catalogue.EXECUTION_FAILURES, counted(lambda t: list(t.failures.items())))
        run = [(_who(group), _run_seconds(tally)) for group, tally in of_contexts.items()]
        yield _family(catalogue.RUN_SECONDS, run)
        yield from _histograms(of_contexts.values())


def _who(group: Group) -> tuple[object, ...]:
    device, owner = group
    return ("" if device is None else device, owner)


def _calls(tally: Tally) -> Iterable[Sample]:
    return [((_method(name),), count) for name, count in tally.methods.items()]


def _errors(tally: Tally) -> Iterable[Sample]:
    return [((_method(name), *failure), count) for (name, failure), count in tally.errors.items()]


def _method(name: str) -> str:
    """The name in the schema of ``get_workspace_size``: ``GetWorkspaceSize``."""
    return name.title().replace("_", "")


def _executions(tally: Tally) -> Iterable[Sample]:
    runs: dict[str, int] = defaultdict(int)
    for name, cell in tally.cells.items():
        runs[name] += sum(cell[WHOLE : WHOLE + SUM])
    for (name, _, _), count in tally.failures.items():
        runs[name] += count
    return [((name,), count) for name, count in runs.items()]


def _run_seconds(tally: Tally) -> float:
    return sum(cell[RUN + SUM] for cell in tally.cells.values()) / 1e9


def _histograms(tallies: Iterable[Tally]) -> Iterator[Metric]:
    total = Tally()
    for tally in tallies:
        total.add(tally)
    whole = _histogram(catalogue.EXECUTION_SECONDS)
    split = _histogram(catalogue.EXECUTION_PART_SECONDS)
    for name, cell in sorted(total.cells.items()):
        assert len(cell) == CELL
        _observe(whole, [name], cell[WHOLE : WHOLE + SUM + 1])
        for part, begin in _PARTS.items():
            if any(cell[begin : begin + SUM]):
                _observe(split, [name, part], cell[begin : begin + SUM + 1])
    yield from (whole, split)


def _histogram(metric: catalogue.Metric) -> HistogramMetricFamily:
    return HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)


def _observe(family: HistogramMetricFamily, labels: list[str], distribution: list[int]) -> None:
    *counts, total = distribution
    below = sum(counts[:FIRST_EXPONENT])
    buckets: list[tuple[str, float]] = []
    for bound, count in zip(_BOUNDS, counts[FIRST_EXPONENT:], strict=False):
        below += count
        buckets.append((bound, below))
    buckets.append(("+Inf", sum(counts)))
    family.add_metric(labels, buckets, total / 1e9)


def _family(metric: catalogue.Metric, samples: Iterable[Sample]) -> Metric:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.name.removesuffix("_total"), metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric([str(label) for label in labels], value)
    return family
