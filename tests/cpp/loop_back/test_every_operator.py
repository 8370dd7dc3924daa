"""Every operator with every type, through both ABIs: the same bits as when NumPy computes in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from aclnn.dtypes import DType
from aclnn.signatures import Signature
from aclnn.tensors import Scalar, describe
from aclnn_server.backends.ascend.device import AscendDevice
from aclnn_server.backends.ascend.memory import Region
from aclnn_server.backends.ascend.streams import AscendStream
from aclnn_server.operators.definition import Operator
from tests.operators.calling import Array
from tests.operators.samples import Sample, sample
from tests.operators.test_every_operator import EVERY_TYPE


@pytest.fixture(scope="module")
def stream(device: AscendDevice) -> Iterator[AscendStream]:
    made = device.create_stream()
    yield made
    device.destroy_stream(made)


class Call:
    """A call of a sample on a device that has memory of its own."""

    def __init__(self, device: AscendDevice, sample: Sample) -> None:
        self.device = device
        self.arguments: list[Any] = []
        self.storages: list[Any] = []
        self._copies: list[tuple[Array, Region]] = []
        for value in sample.arguments:
            argument, storage = self._place(value)
            self.arguments.append(argument)
            self.storages.append(storage)

    def _place(self, value: Any) -> tuple[Any, Any]:  # noqa: ANN401
        if isinstance(value, list):
            placed = [self._place(array) for array in value]
            return tuple(spec for spec, _ in placed), tuple(storage for _, storage in placed)
        if not isinstance(value, np.ndarray):
            return value, None
        spec, storage = describe(value)
        region = self.device.wrap(storage.data)
        self._copies.append((storage, region))
        return spec, region

    def run(self, signature: Signature, stream: AscendStream) -> None:
        """Both phases, and what they wrote back into the arrays."""
        plan = self.device.plan(signature.name, self.arguments, self.storages)
        assert plan.workspace_bytes == 0  # the server lends its own
        self.device.run(plan, self.storages, None, stream)
        self.device.synchronize(stream)
        for storage, region in self._copies:
            storage[...] = np.frombuffer(self.device.read(region), np.uint8)
            self.device.release(region)


def rounded(made: Sample) -> Sample:
    """The same call, with scalars that have their type's precision, which C cannot do without."""
    values = {
        name: Scalar.from_bytes(value.to_bytes(), value.dtype)
        if isinstance(value, Scalar)
        else value
        for name, value in made.values.items()
    }
    return Sample(made.operator, values)


@EVERY_TYPE
def test_the_same_bits(
    operator: Operator, dtype: DType, device: AscendDevice, stream: AscendStream
) -> None:
    expected, found = (rounded(sample(operator, (3, 4), dtype)) for _ in range(2))
    expected.run()
    Call(device, found).run(operator.signature, stream)
    for name, array in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], array, strict=True)
