"""Many clients, streams and abandoned executors at once: every answer is right, and nothing is left."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import numpy as np
import pytest

from aclnn_client import Context, connect, ops
from aclnn_server.backends.ascend import AscendBackend
from aclnn_server.backends.ascend.acl import Acl
from aclnn_server.backends.ascend.device import AscendDevice
from aclnn_server.backends.ascend.memory import MemoryPool
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.ascend.building import Control
from tests.ascend.calling import GRADIENT, Prepared, gradient

CLIENTS, ROUNDS = 6, 25
Pool = Callable[[Acl], MemoryPool]


def bare(acl: Acl) -> MemoryPool:
    """Gives every block back to CANN at once, so that the double sees each use after that."""
    return MemoryPool(acl, slab_bytes=0, kept_bytes=0)


def together(work: Callable[[int], None], count: int) -> None:
    """Runs `work` on threads of its own; raises the first failure."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def one_round(context: Context, chance: random.Random) -> None:
    """A few calls on a stream of their own; some executors are never run."""
    shape = (chance.randint(1, 5), chance.randint(1, 6))
    rng = np.random.default_rng(chance.randint(0, 10**6))
    arrays = [rng.normal(0, 2, shape).astype(np.float32) for _ in range(3)]
    stream = context.create_stream()
    grad, x, target = (context.tensor(array) for array in arrays)
    out = context.empty(shape, "float32")
    phase_one = ops.aclnnSmoothL1LossBackwardGetWorkspaceSize
    for number in range(3):
        size, executor = phase_one(grad, x, target, 1, 0.5, out, repeatable=number == 1)
        if number != 2 or chance.random() < 0.5:
            ops.aclnnSmoothL1LossBackward(context.malloc(size), size, executor, stream)
        if chance.random() < 0.3:
            executor.destroy()
    if chance.random() < 0.5:
        event = context.create_event()
        event.record(stream)
        context.default_stream.wait(event)
    stream.synchronize()
    expected = gradient(arrays, 0.5, mean=True)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-7)
    inline = context.ops.smooth_l1_loss_backward(*arrays, reduction="none")
    np.testing.assert_allclose(inline, gradient(arrays, 1.0), rtol=1e-5, atol=1e-7)
    if chance.random() < 0.5:
        stream.destroy()


@pytest.mark.parametrize("pool", [MemoryPool, bare])
def test_clients(double: Control, environment: dict[str, str], pool: Pool) -> None:
    backend = AscendBackend(device="all", environment=environment, make_pool=pool)
    server = Server(ServerConfig(listen="127.0.0.1:0"), backend=backend).start()

    def client(number: int) -> None:
        chance = random.Random(number)
        for _ in range(3):
            with connect(server.address, device=number % 2) as context:
                for _ in range(ROUNDS // 3):
                    one_round(context, chance)

    together(client, CLIENTS)
    server.stop(0)
    assert double.left() == {}


def test_threads_on_one_device(double: Control, environment: dict[str, str]) -> None:
    """Straight on the device: no session puts an order on what the threads do."""
    backend = AscendBackend(environment=environment, make_pool=bare)
    device = backend.devices[0]

    def work(number: int) -> None:
        chance = random.Random(number)
        stream = device.create_stream()
        for _ in range(ROUNDS):
            _calls(device, stream, chance)
        device.destroy_stream(stream)

    together(work, CLIENTS)
    backend.close()
    assert double.left() == {}


def _calls(device: AscendDevice, stream: object, chance: random.Random) -> None:
    rng = np.random.default_rng(chance.randint(0, 10**6))
    arrays = [rng.normal(0, 2, (4, 4)).astype(np.float32) for _ in range(3)]
    call = Prepared(device, GRADIENT, [*arrays, 0, 0.5, np.zeros((4, 4), "f")])
    plan = call.plan(known=chance.random() < 0.5, repeatable=chance.random() < 0.3)
    if chance.random() < 0.8:
        call.run(plan, stream)  # type: ignore[arg-type]
        np.testing.assert_allclose(call.result(5), gradient(arrays, 0.5), rtol=1e-5, atol=1e-7)
    device.discard(plan)
    for region in call.storages:
        if region is not None:
            device.release(region)  # type: ignore[arg-type]


def test_many_abandoned_executors(double: Control, environment: dict[str, str]) -> None:
    backend = AscendBackend(environment=environment)
    with Server(ServerConfig(listen="127.0.0.1:0"), backend=backend) as server:
        with connect(server.address) as context:
            x = context.empty((3,), "float32")
            kept = [
                ops.aclnnSmoothL1LossBackwardGetWorkspaceSize(x, x, x, 0, 1.0 + n, x)
                for n in range(300)
            ]
            context.synchronize()
            assert double.live("executor") == len(kept) == 300
        backend.devices[0].memory_info()
        assert double.live("executor") == 0
    assert double.left() == {}
