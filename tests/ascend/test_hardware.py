"""On a real NPU: ``python -m pytest -m ascend_hardware``. Skipped where there is none.

What is compared is what the product kernels agree on; where they differ is left out (beta 0, differences that
are exactly beta, NaN).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aclnn import dtypes
from aclnn.errors import AclnnError, InvalidParameterError, NullPointerError
from aclnn.tensors import TensorSpec
from aclnn_client import Context, connect
from aclnn_server.backends.ascend import AscendBackend
from aclnn_server.backends.ascend.device import AscendDevice
from aclnn_server.backends.ascend.loader import CannNotFoundError
from aclnn_server.config import ServerConfig
from aclnn_server.server import Server
from tests.ascend.calling import GRADIENT, Prepared, call, gradient

pytestmark = pytest.mark.ascend_hardware

RANDOM = np.random.default_rng(11)


@pytest.fixture(scope="module")
def npu() -> Iterator[AscendBackend]:
    """The backend on this machine's first NPU."""
    if not list(Path("/dev").glob("davinci[0-9]*")):
        pytest.skip("this machine has no NPU: there is no /dev/davinci0")
    if hasattr(ctypes.CDLL(None), "fakeLive"):
        pytest.skip("the double of CANN is in this process: run these tests alone")
    try:
        backend = AscendBackend()
    except (CannNotFoundError, AclnnError, ValueError) as error:
        pytest.skip(f"no NPU to test on: {str(error).splitlines()[0]}")
    yield backend
    backend.close()


@pytest.fixture
def card(npu: AscendBackend) -> AscendDevice:
    return npu.devices[0]


def test_memory(card: AscendDevice) -> None:
    data = RANDOM.integers(0, 256, 5_000_001, np.uint8)
    memory = card.wrap(data.data)
    np.testing.assert_array_equal(np.frombuffer(card.read(memory), np.uint8), data)
    clean = card.allocate(1000)
    assert bytes(card.read(clean)) == bytes(1000)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float32, 1e-4), (np.float16, 1e-3), (ml_dtypes.bfloat16, 5e-3)]
)
@pytest.mark.parametrize("mean", [False, True])
def test_gradient(
    npu: AscendBackend, card: AscendDevice, dtype: type[np.generic], tolerance: float, mean: bool
) -> None:
    if dtypes.dtype(dtype) in npu.product.lacks:
        pytest.skip(f"{npu.soc} has no {np.dtype(dtype)}")
    arrays = [RANDOM.normal(0, 2, (16, 33)).astype(dtype) for _ in range(3)]
    done = call(card, GRADIENT, *arrays, int(mean), 0.75, np.zeros_like(arrays[0]))
    expected = gradient((array.astype(np.float32) for array in arrays), 0.75, mean=mean)
    np.testing.assert_allclose(
        done.result(5).astype(np.float32), expected, rtol=tolerance, atol=tolerance
    )


def test_views(card: AscendDevice) -> None:
    data = RANDOM.normal(0, 2, (8, 6)).astype(np.float32)
    turned = TensorSpec(dtypes.FLOAT, (6, 8), (1, 6), 0, (48,))
    plain = TensorSpec.contiguous((6, 8), dtypes.FLOAT)
    source, target = card.wrap(data.reshape(-1).view(np.uint8).data), card.allocate(data.nbytes)
    stream = card.create_stream()
    storages = [source, source, target]
    plan = card.plan("aclnnMul", [turned, turned, plain], storages)
    workspace = card.allocate(plan.workspace_bytes) if plan.workspace_bytes else None
    card.run(plan, storages, workspace, stream)
    card.synchronize(stream)
    result = np.frombuffer(card.read(target), np.float32).reshape(6, 8)
    np.testing.assert_allclose(result, data.T * data.T, rtol=1e-5)


def test_a_repeatable_executor_or_its_substitute(card: AscendDevice) -> None:
    stream, plan = card.create_stream(), None
    for _ in range(4):
        arrays = [RANDOM.normal(0, 2, 64).astype(np.float32) for _ in range(3)]
        made = Prepared(card, GRADIENT, [*arrays, 0, 0.5, np.zeros(64, "f")])
        plan = plan or made.plan(repeatable=True)
        made.run(plan, stream)
        card.synchronize(stream)
        np.testing.assert_allclose(made.result(5), gradient(arrays, 0.5), rtol=1e-4, atol=1e-5)
    assert plan is not None
    card.discard(plan)


@pytest.mark.parametrize(
    ("position", "value", "kind"),
    [(0, None, NullPointerError), (3, 7, InvalidParameterError), (4, -1.0, InvalidParameterError)],
)
def test_refusals(card: AscendDevice, position: int, value: object, kind: type[Exception]) -> None:
    spec = TensorSpec.contiguous((4,), dtypes.FLOAT)
    values: list[Any] = [spec, spec, spec, 0, 1.0, spec]
    values[position] = value
    with pytest.raises(kind):
        card.plan(GRADIENT, values)


def test_most_operators_of_the_headers_can_be_called(npu: AscendBackend) -> None:
    refused = {n: i.refused_because for n, i in npu.operators.items() if i.refused_because}
    assert not npu.headers.refused
    assert len(npu.operators) - len(refused) > 300, refused


def test_through_the_server(npu: AscendBackend) -> None:
    arrays = [RANDOM.normal(0, 2, (5, 7)).astype(np.float32) for _ in range(3)]
    with Server(ServerConfig(listen="127.0.0.1:0"), backend=npu) as server:
        context: Context
        with connect(server.address) as context:
            result = context.ops.smooth_l1_loss_backward(*arrays, reduction="none")
    np.testing.assert_allclose(result, gradient(arrays, 1.0), rtol=1e-4, atol=1e-5)
