"""Looks at a server, and tells people what it does now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from aclnn import __version__
from aclnn.labels import label_of
from aclnn.overview import (
    ContextOverview,
    DeviceInfo,
    DeviceOverview,
    OperatorOverview,
    Overview,
    StreamOverview,
    Usage,
)
from aclnn_server.backends.base import Device
from aclnn_server.metrics.sources import Sources
from aclnn_server.metrics.windows import Sample, Windows
from aclnn_server.sessions import limits
from aclnn_server.sessions.context import Context
from aclnn_server.sessions.meters import SUM, WHOLE, Group, Tally

MOST_CONTEXTS = 100
"""Contexts that are listed where the caller does not say how many."""
MOST_STREAMS = 16
"""Streams of each that are."""

_SERVER = "server"


class Observer:
    """Tells what a server does. What it does while nobody asks costs nothing."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._started = sources.clock()
        self._windows = Windows(self._started)

    def look(self, max_contexts: int = 0, max_streams: int = 0) -> Overview:
        """Tells what the server does now.

        Args:
            max_contexts: contexts to list, the busiest first; 0: :data:`MOST_CONTEXTS`.
            max_streams: streams to list of each, the busiest first; 0: :data:`MOST_STREAMS`.
        """
        sources = self._sources
        contexts = sources.registry.contexts
        totals = {} if sources.meters is None else sources.meters.totals()
        now = sources.clock()
        seconds, done = self._windows.look(now, _samples(totals, contexts))
        listed = sorted(contexts, key=lambda context: _rank(done, context.id))
        usage = limits.Usage()
        for context in contexts:
            usage.add(context.usage)
        return Overview(
            version=__version__,
            backend=sources.backend.name,
            ready=sources.ready(),
            counted=sources.meters is not None,
            uptime=now - self._started,
            window=seconds,
            usage=_held(usage),
            submit_calls=sources.submit_calls(),
            calls_in_hand=sources.calls_in_hand(),
            activity=done[_SERVER].activity(seconds),
            devices=tuple(
                _device(device, contexts, done, seconds) for device in sources.backend.devices
            ),
            contexts=tuple(
                _context(context, now, done, seconds, max_streams or MOST_STREAMS)
                for context in listed[: max_contexts or MOST_CONTEXTS]
            ),
            operators=_operators(totals, done, seconds),
        )


def _samples(totals: Mapping[Group, Tally], contexts: list[Context]) -> dict[object, Sample]:
    """Counts of the server, its devices (by number), its contexts and streams (by id), and operators."""
    server, devices = Tally(), dict[int, Tally]()
    for (device, _), tally in totals.items():
        server.add(tally)
        if device is not None:
            devices.setdefault(device, Tally()).add(tally)
    samples: dict[object, Sample] = {_SERVER: Sample.of(server)}
    samples |= {device: Sample.of(tally) for device, tally in devices.items()}
    for name in _run_operators(server):
        sample = samples["operator", name] = Sample(failures=_failures(server, name))
        sample.cell = list(server.cells.get(name, sample.cell))
    for context in contexts:
        if context.meter is not None:
            samples[context.id] = Sample.of(context.meter.total())
            for session in context.list_sessions():
                if session.tally is not None:
                    done = Tally()
                    done.add(session.tally)
                    samples[session.id] = Sample.of(done)
    return samples


def _run_operators(tally: Tally) -> list[str]:
    return sorted({*tally.cells, *(name for name, _, _ in tally.failures)})


_NOTHING = Sample()


def _rank(done: Mapping[object, Sample], key: object) -> tuple[int, int, str]:
    running, calls = done.get(key, _NOTHING).busy
    return -running, -calls, str(key)


def _held(usage: limits.Usage) -> Usage:
    return Usage(**asdict(usage))


def _device(
    device: Device, contexts: list[Context], done: Mapping[object, Sample], seconds: float
) -> DeviceOverview:
    free, total = device.memory_info()
    on_it = [context for context in contexts if context.device is device]
    usage = limits.Usage()
    for context in on_it:
        usage.add(context.usage)
    return DeviceOverview(
        DeviceInfo(device.index, device.name, total, free, len(on_it)),
        _held(usage),
        done.get(device.index, _NOTHING).activity(seconds),
    )


def _context(
    context: Context, now: float, done: Mapping[object, Sample], seconds: float, most: int
) -> ContextOverview:
    sessions = sorted(context.list_sessions(), key=lambda session: _rank(done, session.id))
    return ContextOverview(
        label=label_of(context.id),
        owner=context.owner,
        client_name=context.client_name,
        device_index=context.device.index,
        age=now - context.opened,
        silent=context.silent,
        usage=_held(context.usage),
        limit_bytes=context.account.limit,
        activity=done.get(context.id, _NOTHING).activity(seconds),
        streams=tuple(
            StreamOverview(
                label_of(session.id),
                session.stream.depth,
                done.get(session.id, _NOTHING).activity(seconds),
            )
            for session in sessions[:most]
        ),
    )


def _operators(
    totals: Mapping[Group, Tally], done: Mapping[object, Sample], seconds: float
) -> tuple[OperatorOverview, ...]:
    whole = Tally()
    for tally in totals.values():
        whole.add(tally)
    names = sorted(_run_operators(whole), key=lambda name: _rank(done, ("operator", name)))
    return tuple(
        OperatorOverview(
            name,
            sum(whole.cells[name][WHOLE : WHOLE + SUM]) if name in whole.cells else 0,
            _failures(whole, name),
            done["operator", name].activity(seconds),
        )
        for name in names
    )


def _failures(tally: Tally, name: str) -> int:
    return sum(count for (of, _, _), count in tally.failures.items() if of == name)
