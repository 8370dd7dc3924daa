"""The systems of a run: their servers, started when first needed, and a client of each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from benchmarks.computation import expected, random_inputs
from benchmarks.systems import SYSTEMS
from benchmarks.systems.base import Client, NotOffered, Served, System


@dataclass(frozen=True, slots=True)
class Running:
    """A system under test, with a server that runs and a client of it."""

    system: System
    served: Served
    client: Client


class Lineup:
    """Every system that can be measured here. One that cannot is left out, with the reason."""

    def __init__(self, keys: Iterable[str] | None = None) -> None:
        """Starts nothing yet.

        Args:
            keys: of the systems to take; all where left out.
        """
        chosen = {system.key for system in SYSTEMS} if keys is None else set(keys)
        self.skipped: dict[str, str] = {}
        """Why a system was left out, by its title."""
        self._waiting = {system.key: system for system in SYSTEMS if system.key in chosen}
        self._running: dict[str, Running] = {}
        self._stack = contextlib.ExitStack()

    def take(self, *keys: str) -> dict[str, Running]:
        """Those systems of `keys` that can be measured here, started; all where no key is given."""
        wanted = keys or tuple(system.key for system in SYSTEMS)
        for key in wanted:
            if key in self._waiting:
                self._start(self._waiting.pop(key))
        return {key: self._running[key] for key in wanted if key in self._running}

    def offering(self, ability: type, *keys: str) -> dict[str, Running]:
        """Of those, the ones whose clients are of a kind."""
        return {k: r for k, r in self.take(*keys).items() if isinstance(r.client, ability)}

    def _start(self, system: System) -> None:
        with contextlib.ExitStack() as stack:
            try:
                served = stack.enter_context(system.serve())
                client = stack.enter_context(system.connect(served.address))
            except NotOffered as reason:
                self.skipped[system.title] = str(reason)
                return
            check(system, client)
            self._stack.push(stack.pop_all())
        self._running[system.key] = Running(system, served, client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()


def check(system: System, client: Client, elements: int = 8) -> None:
    """Checks that a system computes what it should.

    Raises:
        AssertionError: it does not.
    """
    inputs = random_inputs(elements)
    result = client.call(inputs)
    if system.computes:
        np.testing.assert_allclose(result, expected(inputs), rtol=1e-5, atol=1e-6)
    else:
        assert result.shape == inputs.grad.shape
