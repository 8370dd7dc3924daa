"""Clients of every kind, working at the same time until they are told to stop; each checks its results."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from aclnn_client import Context, aio
from tests.chaos import jobs
from tests.chaos.clients import Nursery, kill
from tests.chaos.network import Network
from tests.chaos.proxy import KINDS, WAYS, Fault
from tests.soak.measures import Latencies
from tests.waiting import PATIENCE

ROUNDS = 25
"""Pieces of work that a client does before it leaves and another one comes."""
SMALL, LARGE = 64, 300_000
"""Elements: of a call that its arrays travel inside of, and of one that is uploaded in chunks."""
LARGER_BYTES = 3 << 19, 8 << 20
"""From and to how many: of tensors that are uploaded over a data connection."""
KILLED_BYTES = 2 << 20
"""What clients upload that are killed meanwhile."""


def add(context: Context, choose: random.Random, size: int) -> None:
    """A call in one line."""
    x = np.full(size, choose.random(), np.float32)
    np.testing.assert_array_equal(context.ops.add(x, np.float32(2)), x + np.float32(2))


def add_shared(context: Context, choose: random.Random) -> None:
    """Calls on memory that both sides see."""
    x = context.tensor(np.full(LARGE, choose.random(), np.float32)).view()
    y = context.ops.abs(context.ops.add(x, x))
    np.testing.assert_array_equal(y, x + x)


def move_large(context: Context, choose: random.Random) -> None:
    """Tensors that take a data connection, where there is one: up, through a call, over one another, down."""
    size = choose.randrange(*LARGER_BYTES) // 4
    x, y = (np.full(size, choose.random(), np.float32) for _ in range(2))
    np.testing.assert_array_equal(context.ops.add(x, y), x + y)
    tensor = context.tensor(x)
    tensor.write(y)
    np.testing.assert_array_equal(tensor.numpy(), y)
    tensor.buffer.fill(0)
    assert not tensor.numpy().any()


@dataclass(frozen=True)
class Kind:
    """What clients of one kind do, and how they are connected."""

    work: jobs.Job
    faults: bool = False
    """Whether they come to all connections."""
    data_faults: bool = False
    """Whether they come to data connections only: what moves instead needs a connection for a while."""
    options: dict[str, Any] = field(default_factory=dict)


CLIENTS = {
    "small": Kind(partial(add, size=SMALL)),
    "small, faults": Kind(partial(add, size=SMALL), faults=True),
    "pipelined": Kind(jobs.append_digits, options={"timeout": PATIENCE}),
    "pipelined, faults": Kind(jobs.append_digits, faults=True),
    "two streams, faults": Kind(
        jobs.append_in_two_streams, faults=True, options={"timeout": PATIENCE}
    ),
    "repeatable": Kind(jobs.run_one_plan_often),
    "repeatable, faults": Kind(jobs.run_one_plan_often, faults=True),
    "large": Kind(partial(add, size=LARGE)),
    "large, faults": Kind(jobs.move_bytes, faults=True),
    "larger": Kind(move_large),
    "larger, faults": Kind(move_large, data_faults=True),
    "shared memory": Kind(add_shared, options={"shared_memory": True}),
}
ASYNCIO = "asyncio"
ASYNCIO_FAULTS = "asyncio, faults"
KILLED = "killed in mid-call"


class Crowd:
    """One client of each kind at a time, a network that fails, and clients that are killed."""

    def __init__(self, address: str, proxy: Network, seed: int) -> None:
        """Starts nothing yet.

        Args:
            address: of the server.
            proxy: before the same server; its connections fail.
            seed: what all choices follow from, but not their order in time.
        """
        self.latencies = Latencies()
        self.killed = 0
        """Clients that were killed."""
        self.failures: list[BaseException] = []
        """What went wrong; empty."""
        self._address, self._proxy, self._seed = address, proxy, seed
        self._stop = threading.Event()
        work: dict[str, Callable[[random.Random], None]] = {
            name: partial(self._come_and_go, name, kind) for name, kind in CLIENTS.items()
        }
        work[ASYNCIO] = partial(self._asyncio, ASYNCIO, address)
        work[ASYNCIO_FAULTS] = partial(self._asyncio, ASYNCIO_FAULTS, proxy.address)
        work["faults"], work[KILLED] = self._fail, self._kill
        self._threads = [
            threading.Thread(target=self._go_on, args=(name, act), name=name)
            for name, act in work.items()
        ]

    def start(self) -> None:
        """Lets them come."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Lets each finish what it does."""
        self._stop.set()
        for thread in self._threads:
            thread.join(4 * PATIENCE)
            assert not thread.is_alive(), f"{thread.name} hangs"

    def _go_on(self, name: str, act: Callable[[random.Random], None]) -> None:
        choose = random.Random(f"{name} {self._seed}")
        try:
            while not (self._stop.is_set() or self.failures):
                act(choose)
        except BaseException as error:
            error.add_note(f"client: {name}")
            self.failures.append(error)

    # --- what each of them does -----------------------------------------------------------------

    def _come_and_go(self, name: str, kind: Kind, choose: random.Random) -> None:
        address = self._address
        if kind.faults:
            address = self._proxy.address
        elif kind.data_faults:
            address = self._proxy.beside
        with jobs.connect(address, **kind.options) as context:
            for _ in range(ROUNDS):
                if self._stop.is_set():
                    return
                with self.latencies.timed(name):
                    kind.work(context, choose)

    def _asyncio(self, name: str, address: str, choose: random.Random) -> None:
        async def work() -> None:
            async with aio.connect(address, shared_memory=False) as context:
                for _ in range(ROUNDS):
                    if not self._stop.is_set():
                        with self.latencies.timed(name):
                            await asyncio.gather(*(job(context, choose) for job in jobs.AIO_JOBS))

        asyncio.run(work())

    def _kill(self, choose: random.Random) -> None:
        with Nursery(KILLED_BYTES) as nursery:
            while not self._stop.wait(choose.uniform(0, 1)):
                process = nursery.start(self._address)
                self._stop.wait(choose.uniform(0.05, 0.5))
                kill(process)
                self.killed += 1

    def _fail(self, choose: random.Random) -> None:
        kinds = [kind for kind in KINDS if kind != "stall"]
        faults = [
            Fault(choose.choice(kinds), choose.choice(WAYS), choose.randint(0, 200_000), 0.005)
            for _ in range(3)
        ]
        self._proxy.plan(*faults)
        self._stop.wait(choose.uniform(0.1, 0.5))
        if self._stop.is_set():
            self._proxy.plan()
