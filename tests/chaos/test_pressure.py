"""Too much for the server: slow kernels, and memory that runs out in the middle of a chain."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from aclnn_client import (
    AclnnError,
    Context,
    LimitExceededError,
    OutOfMemoryError,
    get_workspace_size,
    requests,
)
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.chaos import jobs, length
from tests.chaos.proxy import Proxy
from tests.service.gated import GatedBackend
from tests.sessions.driving import NOTHING, totals
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.timeout(length.TEST_SECONDS)

MIB = 2**20
QUOTA = 8 * MIB

# --- memory -----------------------------------------------------------------------------------------


@pytest.fixture
def small() -> Iterator[Server]:
    """A server whose contexts may have 8 MiB."""
    config = ServerConfig(listen="127.0.0.1:0", max_context_bytes=QUOTA, workers=2, threads=2)
    with Server(config) as server:
        yield server
        until(lambda: totals(server.registry) == NOTHING)


def test_memory_that_runs_out_in_the_middle_of_a_chain(small: Server) -> None:
    """What fits is done, what does not fails alone, and once something is freed all goes on."""
    choose = random.Random(11)
    with jobs.connect(small.address) as context:
        for _ in range(length.count(5, 300)):
            fits = choose.randrange(1, 7)
            check_chain(context, fits)
            gc.collect()  # the traceback of what was refused refers to the tensors
            assert context.usage().bytes == 0
        jobs.do(context, 3, jobs.JOBS[:3])


def check_chain(context: Context, fits: int) -> None:
    """Adds to a tensor, each step into a new megabyte, until there is no more room."""
    rest = context.malloc(QUOTA - fits * MIB)
    assert rest is not None
    first = np.arange(MIB // 4, dtype=np.float32)
    chain = [context.tensor(first)]
    while len(chain) <= fits:
        chain.append(context.empty(first.shape, "float32"))
        get_workspace_size("aclnnMuls", (chain[-2], 2.0, chain[-1]))[1].run()
    with pytest.raises(OutOfMemoryError, match="asks for 1048576 bytes") as caught:
        context.synchronize()
    assert caught.value.code == 207001
    for step, tensor in enumerate(chain[:fits]):
        np.testing.assert_array_equal(tensor.numpy(), first * 2**step)
    rest.free()
    chain[-1] = context.empty(first.shape, "float32")
    get_workspace_size("aclnnMuls", (chain[-2], 2.0, chain[-1]))[1].run()
    np.testing.assert_array_equal(chain[-1].numpy(), first * 2**fits)


def test_many_clients_at_their_quotas(small: Server) -> None:
    """Each meets its own limit and nobody else's; every failure is the one that says so."""

    def work(client: int) -> int:
        choose, refused = random.Random(client), 0
        with jobs.connect(small.address) as context:
            for _ in range(length.count(10, 200)):
                size = choose.randrange(1, 2 * QUOTA)
                data = jobs.random_bytes(choose, 1000)
                try:
                    buffer = context.malloc(size)
                    assert buffer is not None
                    buffer.write(data.tobytes()[: min(size, 1000)])
                    assert buffer.read(0, min(size, 1000)) == data.tobytes()[: min(size, 1000)]
                    buffer.free()
                except OutOfMemoryError:
                    assert size > QUOTA
                    refused += 1
        return refused

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


# --- slow kernels -----------------------------------------------------------------------------------


@pytest.fixture
def backend() -> Iterator[GatedBackend]:
    """Kernels that stand at gates; nothing is left in the end."""
    backend = GatedBackend()
    yield backend
    backend.check_clean()


@pytest.fixture
def gated(backend: GatedBackend) -> Iterator[Server]:
    """A server of that backend, where fifteen commands may be queued."""
    config = ServerConfig(
        listen="127.0.0.1:0", max_queued_commands=15, workers=2, lease_seconds=0.5
    )
    server = Server(config, backend=backend).start()
    yield server
    backend.gates.open_all()
    server.stop(0)


def stand(context: Context, gate: int) -> None:
    """Queues a kernel that stands at a gate, on a worker."""
    out = context.create_tensor((2,), "float32", storage_shape=(2**19,))
    source = context.tensor(np.array([7, 8], np.float32))
    get_workspace_size("aclnnPass", (source, gate, out))[1].run()


def append(context: Context, number: object, digit: int) -> None:
    """Queues a kernel that appends a digit."""
    get_workspace_size("aclnnDigit", (digit, number))[1].run()


def test_a_slow_kernel_holds_up_its_own_stream_only(gated: Server, backend: GatedBackend) -> None:
    """Its client's other streams and all other clients go on, and its own queue fills up and says so."""
    with jobs.connect(gated.address) as slow, jobs.connect(gated.address) as quick:
        number = slow.tensor(np.zeros(1, np.int64))
        slow.synchronize()
        stand(slow, 1)
        backend.gates[1].wait_entered()
        for digit in range(1, 10):
            append(quick, quick_number := quick.tensor(np.zeros(1, np.int64)), digit)
            assert quick_number.numpy().item() == digit
        with slow.create_stream() as other:
            far = slow.tensor(np.zeros(1, np.int64))
            get_workspace_size("aclnnDigit", (5, far))[1].run(stream=other)
            other.synchronize()
        for _ in range(40):
            append(slow, number, 1)
        slow.usage()  # all of them have been answered
        backend.gates[1].open()
        with pytest.raises(LimitExceededError, match="15 commands queued; at most 15"):
            slow.synchronize()
        assert number.numpy().item() == int("1" * 15)


def test_connections_break_while_kernels_are_slow(gated: Server, backend: GatedBackend) -> None:
    """Breaks between apply and answer, and a wait that outlives several connections."""
    rounds = length.count(3, 50)
    with Proxy(gated.address) as proxy, jobs.connect(proxy.address) as context:
        number = context.tensor(np.zeros(1, np.int64))
        for gate in range(1, rounds + 1):
            stand(context, gate)
            append(context, number, gate % 10)
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(context.synchronize)
                backend.gates[gate].wait_entered()
                for _ in range(3):
                    proxy.cut()
                backend.gates[gate].open()
                waiting.result(PATIENCE)
        expected = 0
        for gate in range(1, rounds + 1):
            expected = expected * 10 + gate % 10
        assert number.numpy().item() == np.uint64(expected % 2**64).astype(np.int64)
    assert backend.device.runs.count("aclnnPass") == rounds
    assert backend.device.runs.count("aclnnDigit") == rounds


def test_clients_that_go_while_their_kernels_are_slow(
    gated: Server, backend: GatedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their queues are dropped when their leases are over, and what ran gives everything back at its end."""
    monkeypatch.setattr(requests, "RESUME_SECONDS", 0.1)
    with Proxy(gated.address) as proxy:
        contexts = [jobs.connect(proxy.address) for _ in range(2)]
        for gate, context in enumerate(contexts, 1):
            stand(context, gate)
            for _ in range(10):
                append(context, context.tensor(np.zeros(1, np.int64)), 1)
            context.commands.submitter.send_lingering()
            backend.gates[gate].wait_entered()
        until(lambda: totals(gated.registry)["queued_commands"] == 22)
        held = list(gated.registry._contexts.values())
        proxy.broken = True
        proxy.cut()
        until(lambda: all(context.closed for context in held))
        backend.gates.open_all()
        until(lambda: totals(gated.registry) == NOTHING)
        assert "aclnnDigit" not in backend.device.runs
        for context in contexts:
            with pytest.raises(AclnnError):
                context.usage()
            context.close()
