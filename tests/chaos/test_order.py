"""Threads and streams of one context while both kinds of its connections are cut: every result is right.

Each thread has tensors of its own, which it uploads, overwrites, adds to, copies, reads and frees at random;
what they must hold is computed beside it. Freed memory comes back to other threads of the same context, so
a write that lands late, or a run that uses what was freed, shows in somebody's result.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aclnn_client import Context, Stream, Tensor, ops
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.chaos import jobs, length
from tests.chaos.network import Network
from tests.chaos.proxy import WAYS, Fault
from tests.sessions.driving import NOTHING, totals
from tests.waiting import until

pytestmark = pytest.mark.timeout(length.TEST_SECONDS)

Array = npt.NDArray[Any]
THREADS = 3
COUNT = (5 << 20) // 16
"""Elements of each tensor: 1.25 MiB, which take a data connection, and a block that is kept."""


@pytest.fixture
def network() -> Iterator[Network]:
    """A network before a server that takes data connections; in the end the server holds nothing."""
    config = ServerConfig(listen="127.0.0.1:0", workers=2, threads=2, shared_memory=False)
    with Server(config) as server:
        with Network(server.address) as network:
            yield network
        until(lambda: totals(server.registry) == NOTHING)
        until(lambda: not (server._data_port._connections or server._data_port._offers))


class Owner:
    """One thread's tensors, and what they must hold."""

    def __init__(self, context: Context, seed: int) -> None:
        self.choose = random.Random(seed)
        self.context = context
        self.streams: list[Stream] = [context.create_stream() for _ in range(2)]
        self.held: list[tuple[Tensor, Array, Stream]] = []
        """Each with the stream of its work."""

    def step(self) -> None:
        """One thing, chosen at random."""
        acts: list[Callable[[], None]] = [self.upload]
        if self.held:
            acts += [self.write, self.add, self.fill, self.read, self.free, self.copy]
        self.choose.choice(acts)()
        if len(self.held) > 4:
            self.free()

    def fresh(self) -> Array:
        """Values that nobody else has."""
        return np.full(COUNT, self.choose.random(), np.float32)

    def take(self) -> tuple[Tensor, Array, Stream]:
        """One of the tensors, which is to be put back."""
        return self.held.pop(self.choose.randrange(len(self.held)))

    def upload(self) -> None:
        values = self.fresh()
        self.held.append((self.context.tensor(values), values, self.choose.choice(self.streams)))

    def write(self) -> None:
        tensor, _, stream = self.take()
        values = self.fresh()
        tensor.write(values)
        self.held.append((tensor, values, stream))

    def add(self) -> None:
        tensor, values, stream = self.take()
        size, executor = ops.aclnnInplaceAddsGetWorkspaceSize(tensor, 1.0, 1.0)
        ops.aclnnInplaceAdds(self.context.malloc(size), size, executor, stream)
        self.held.append((tensor, values + np.float32(1), stream))

    def fill(self) -> None:
        tensor, values, stream = self.take()
        tensor.buffer.fill(0)
        self.held.append((tensor, np.zeros_like(values), stream))

    def copy(self) -> None:
        tensor, values, stream = self.take()
        other = self.context.empty((COUNT,), np.float32)
        other.buffer.copy_from(tensor.buffer, size=values.nbytes)
        self.held += [(tensor, values, stream), (other, values, stream)]

    def read(self) -> None:
        tensor, values, stream = self.take()
        np.testing.assert_array_equal(tensor.numpy(), values)
        self.held.append((tensor, values, stream))

    def free(self) -> None:
        tensor, values, _ = self.take()
        if self.choose.random() < 0.5:
            np.testing.assert_array_equal(tensor.numpy(), values)
        tensor.free()


@pytest.mark.parametrize("seed", range(length.count(4, 40)))
def test_threads_of_one_context_over_two_bad_networks(network: Network, seed: int) -> None:
    choose, done = random.Random(seed), [0.0] * THREADS
    """Steps of each thread; infinity when it is through."""

    def work(number: int) -> None:
        try:
            owner = Owner(context, 1000 * seed + number)
            for _ in range(length.count(25, 100)):
                owner.step()
                done[number] += 1
            while owner.held:
                owner.free()
        finally:
            done[number] = math.inf

    def got_on(before: list[float]) -> bool:
        return all(now == math.inf or now > then for now, then in zip(done, before, strict=True))

    def disturb() -> None:
        while min(done) < math.inf:
            before = [*done]
            context.data._over, context.data._broken, context.data._not_before = False, 0, 0.0
            network.plan(
                *(
                    Fault(
                        choose.choice(("cut", "reset", "half-close")),
                        choose.choice(WAYS),
                        choose.choice((choose.randint(0, 500), choose.randint(0, 4_000_000))),
                    )
                    for _ in range(2)
                )
            )
            # On a busy machine a client might else never get on, and gives up after a while.
            until(partial(got_on, before))

    with jobs.connect(network.address) as context, ThreadPoolExecutor(THREADS + 1) as pool:
        context.tensor(np.zeros(COUNT, np.float32)).free()
        assert context.transport == "data connection"
        working = [pool.submit(work, number) for number in range(THREADS)]
        pool.submit(disturb).result()
        for each in working:
            each.result()
        network.plan()
        assert len(network.happened) > length.count(5, 20)
        assert network.data_connections > 1
