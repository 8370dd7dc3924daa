"""Operators of the double against NumPy: what the backend passes is what they compute with."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aclnn import dtypes
from aclnn.tensors import TensorSpec
from aclnn_server.backends import open_backend
from aclnn_server.backends.ascend.device import AscendDevice
from aclnn_server.backends.ascend.streams import AscendStream
from tests.ascend.calling import GRADIENT, Array, call, get, gradient, one, put

RANDOM = np.random.default_rng(7)
FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16)


def normal(*shape: int, dtype: Any = np.float32) -> Array:  # noqa: ANN401
    return RANDOM.normal(0, 2, shape).astype(dtype)


def loss(self: Array, target: Array, beta: float) -> Array:
    x = np.abs(self - target)
    result: Array = np.where(x < beta, 0.5 * x * x / beta, x - 0.5 * beta)
    return result


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mean", [False, True])
def test_smooth_l1_loss_backward(device: AscendDevice, dtype: Any, mean: bool) -> None:  # noqa: ANN401
    grad, self, target = (normal(3, 5, dtype=dtype) for _ in range(3))
    done = call(device, GRADIENT, grad, self, target, int(mean), 0.75, np.zeros_like(grad))
    wide = (array.astype(np.float32) for array in (grad, self, target))
    exact = gradient(wide, 0.75, mean=mean)
    result, expected = (a.astype(np.float64) for a in (done.result(5), exact.astype(dtype)))
    np.testing.assert_allclose(result, expected, rtol=2e-7 if dtype is np.float32 else 0)


def test_gradient_broadcasts(device: AscendDevice) -> None:
    grad, self, target = normal(1, 2, 4, 1), normal(4, 1), normal(1, 4, 2)
    done = call(device, GRADIENT, grad, self, target, 0, 1.0, np.zeros((1, 2, 4, 2), "f"))
    expected = gradient(np.broadcast_arrays(grad, self, target), 1.0)
    np.testing.assert_array_equal(done.result(5), expected)


@pytest.mark.parametrize(
    ("beta", "x", "slope"),
    [
        (0.0, [0, 2, -2], [0, 1, -1]),
        (float("inf"), [0, 2, float("inf")], [0, 0, 1]),
        (1.0, [1, -1, float("nan")], [1, -1, float("nan")]),
    ],
)
def test_gradient_at_the_edges(
    device: AscendDevice, beta: float, x: list[float], slope: list[float]
) -> None:
    self, ones = np.array(x, "f"), np.ones(3, "f")
    done = call(device, GRADIENT, ones, self, np.zeros(3, "f"), 0, beta, np.zeros(3, "f"))
    np.testing.assert_array_equal(done.result(5), np.array(slope, "f"))


def test_empty_gradient_leaves_its_output(device: AscendDevice) -> None:
    empty = np.zeros((0, 3), "f")
    done = call(device, GRADIENT, empty, empty, empty, 1, 1.0, empty)
    assert done.result(5).shape == (0, 3)


@pytest.mark.parametrize(("reduction", "reduce"), [(0, None), (1, np.mean), (2, np.sum)])
def test_smooth_l1_loss(device: AscendDevice, reduction: int, reduce: Any) -> None:  # noqa: ANN401
    self, target = normal(4, 6), normal(4, 6)
    expected = loss(self, target, 0.5)
    out = np.zeros_like(self) if reduce is None else np.zeros((), "f")
    done = call(device, "aclnnSmoothL1Loss", self, target, reduction, 0.5, out)
    expected = expected if reduce is None else reduce(expected.astype(np.float64))
    np.testing.assert_allclose(done.result(4), expected, rtol=1e-6)


@pytest.mark.parametrize(("reduction", "value"), [(1, float("nan")), (2, 0.0)])
def test_loss_of_nothing(device: AscendDevice, reduction: int, value: float) -> None:
    empty = np.zeros((0, 2), "f")
    done = call(device, "aclnnSmoothL1Loss", empty, empty, reduction, 1.0, np.ones((), "f"))
    np.testing.assert_array_equal(done.result(4), np.float32(value))


@pytest.mark.parametrize("dtype", [*FLOATS, np.float64, np.int32, np.int64, np.uint8])
def test_add_with_a_scalar(device: AscendDevice, dtype: Any) -> None:  # noqa: ANN401
    self, other = np.arange(6).reshape(2, 3).astype(dtype), np.array([1, 2, 3]).astype(dtype)
    done = call(device, "aclnnAdd", self, other, one(2, "INT64"), np.zeros_like(self))
    np.testing.assert_array_equal(done.result(3), self + np.asarray(2, dtype) * other)


def test_in_place(device: AscendDevice) -> None:
    target, other = normal(3, 4), normal(4)
    done = call(device, "aclnnInplaceAdd", target, other, one(-1.0))
    np.testing.assert_array_equal(done.result(0), target - other)


def test_multiply(device: AscendDevice) -> None:
    self, other = normal(3, 1), normal(1, 4)
    done = call(device, "aclnnMul", self, other, np.zeros((3, 4), "f"))
    np.testing.assert_array_equal(done.result(2), self * other)


@pytest.mark.parametrize("to", ["float16", "bfloat16", "int32", "bool", "float64"])
def test_cast(device: AscendDevice, to: str) -> None:
    dtype = dtypes.dtype(to)
    self = np.array([0, 1.5, -2.25, 100.125, 65503, 1e-7], "f")
    assert dtype.numpy is not None
    done = call(device, "aclnnCast", self, dtype, np.zeros(6, dtype.numpy))
    np.testing.assert_array_equal(done.result(2), self.astype(dtype.numpy))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_lists_in_and_out(device: AscendDevice, dim: int) -> None:
    parts = [normal(2, 2), normal(2, 2), normal(2, 2)]
    whole = np.concatenate(parts, dim)
    done = call(device, "aclnnCat", parts, dim, np.zeros_like(whole))
    np.testing.assert_array_equal(done.result(2), whole)
    done = call(device, "aclnnSplitTensor", whole, 2, dim, [np.zeros_like(p) for p in parts])
    for number, part in enumerate(parts):
        np.testing.assert_array_equal(done.result(3, number), part)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dims", [(0,), (-1, 0), ()])
def test_sum(device: AscendDevice, dims: tuple[int, ...], keep: bool) -> None:
    self = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    expected = self.sum(axis=dims or None, keepdims=keep, dtype=np.int32)
    out = np.zeros(expected.shape, np.int32)
    done = call(device, "aclnnReduceSum", self, dims, keep, dtypes.INT32, out)
    np.testing.assert_array_equal(done.result(4), expected)


def test_relu(device: AscendDevice) -> None:
    self = normal(7)
    done = call(device, "aclnnRelu", self, np.zeros_like(self))
    np.testing.assert_array_equal(done.result(1), np.maximum(self, 0))


def test_softmax(device: AscendDevice) -> None:
    self = normal(3, 5)
    done = call(device, "aclnnSoftmax", self, -1, np.zeros_like(self))
    powers = np.exp(self - self.max(1, keepdims=True))
    np.testing.assert_allclose(done.result(2), powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_an_input_behind_the_output(device: AscendDevice) -> None:
    a, b = normal(3, 4), normal(4, 2)
    done = call(device, "aclnnMatmul", a, b, np.zeros((3, 2), "f"), 1)
    np.testing.assert_allclose(done.result(2), a @ b, rtol=1e-5, atol=1e-5)


def test_an_operator_of_a_generated_header(device: AscendDevice) -> None:
    x, gamma = normal(2, 3, 8), normal(8)
    done = call(device, "aclnnRmsNorm", x, gamma, 1e-5, np.zeros_like(x), np.zeros((2, 3, 1), "f"))
    rstd = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(done.result(3), x * rstd * gamma, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(done.result(4), rstd, rtol=1e-5)


def test_lists_of_scalars(device: AscendDevice) -> None:
    xs = [normal(2), normal(3, 2)]
    outs = [np.zeros_like(x) for x in xs]
    done = call(device, "aclnnForeachAddScalarList", xs, (one(1), one(2.5)), outs)
    np.testing.assert_array_equal(done.result(2, 0), xs[0] + np.float32(1))
    np.testing.assert_array_equal(done.result(2, 1), xs[1] + np.float32(2.5))


@pytest.mark.parametrize("scale", [None, np.array([3], "f")])
def test_an_operator_of_a_custom_package(device: AscendDevice, scale: Array | None) -> None:
    x = normal(4)
    done = call(device, "aclnnCustomScale", x, np.zeros_like(x), scale)
    np.testing.assert_array_equal(done.result(1), x * (2 if scale is None else 3))


def test_views(device: AscendDevice, stream: AscendStream) -> None:
    """Strides, an offset and a repeated row, over one storage."""
    data = np.arange(40, dtype=np.float32) - 20
    source, target = put(device, data), device.allocate(160)
    wide = TensorSpec(dtypes.FLOAT, (2, 3, 4), (0, 12, 2), 3, (40,))
    turned = TensorSpec(dtypes.FLOAT, (2, 3, 4), (3, 1, 10), 0, (40,))
    plan = device.plan("aclnnRelu", [wide, turned], [source, target])
    assert plan.workspace_bytes > 0
    device.run(plan, [source, target], device.allocate(plan.workspace_bytes), stream)
    memory = np.frombuffer(device.read(target), np.uint8)
    expected = np.maximum(wide.view(data.view(np.uint8)), 0)
    np.testing.assert_array_equal(turned.view(memory), expected)


def test_same_bits_as_the_numpy_backend(device: AscendDevice, stream: AscendStream) -> None:
    """The catalogue's signature and the header's mean the same call."""
    arrays = [normal(6, 7) for _ in range(3)]
    spec = TensorSpec.contiguous((6, 7), dtypes.FLOAT)
    values: list[Any] = [spec, spec, spec, 1, 0.5, spec]
    results = []
    host = open_backend("numpy")
    for on in (device, host.devices[0]):
        at = stream if on is device else on.create_stream()
        memory: list[Any] = [on.wrap(array.reshape(-1).view(np.uint8).data) for array in arrays]
        out = on.allocate(spec.storage_bytes)
        on.run(on.plan(GRADIENT, values), [*memory, None, None, out], None, at)
        on.synchronize(at)
        results.append(bytes(on.read(out)))
    host.close()
    ascend, numpy = (np.frombuffer(data, "f") for data in results)
    np.testing.assert_allclose(ascend, numpy, rtol=3e-7)
    assert get(device, put(device, arrays[0]), arrays[0]).tolist() == arrays[0].tolist()
