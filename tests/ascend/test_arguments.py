"""Arguments as C gets them: every kind, its exact bits, and tensors wherever they lie."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aclnn import dtypes, formats
from aclnn.errors import InvalidParameterError
from aclnn.tensors import Scalar, TensorSpec
from aclnn_server.backends.ascend import AscendBackend
from aclnn_server.backends.ascend.arguments import Tensors, described
from aclnn_server.backends.ascend.device import AscendDevice
from aclnn_server.backends.ascend.streams import AscendStream
from tests.ascend.building import Control
from tests.ascend.calling import call, get, put, spec_of

OUT = np.zeros(4096, np.uint8)
NOTHING: dict[str, Any] = {
    "tensor": None,
    "tensors": None,
    "scalar": None,
    "scalars": None,
    "ints": None,
    "floats": None,
    "bools": None,
    "text": None,
    "name": None,
    "wide": 0,
    "word": 0,
    "number": 0,
    "small": 0,
    "natural": 0,
    "flag": False,
    "real": 0.0,
    "single": 0.0,
    "dtype": dtypes.FLOAT,
}


def echo(device: AscendDevice, **given: Any) -> dict[str, str]:  # noqa: ANN401
    """What the operator wrote down of each argument."""
    done = call(device, "aclnnEcho", *(NOTHING | given).values(), OUT)
    text = done.result(len(NOTHING)).tobytes().split(b"\0", 1)[0].decode()
    lines = dict(line.split(": ", 1) for line in text.splitlines())
    return {name.removesuffix("Optional"): value for name, value in lines.items()}


def test_null_pointers(device: AscendDevice) -> None:
    told = echo(device)
    pointers = [name for name, value in NOTHING.items() if value is None]
    assert {told[name] for name in pointers} == {"null"}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("wide", -(2**63), "-9223372036854775808"),
        ("wide", 2**63 - 1, "9223372036854775807"),
        ("word", -(2**31), "-2147483648"),
        ("number", 2**31 - 1, "2147483647"),
        ("small", -128, "-128"),
        ("small", 127, "127"),
        ("natural", 2**64 - 1, "18446744073709551615"),
        ("flag", True, "1"),
        ("real", 0.1, "0x1.999999999999ap-4"),
        ("real", -0.0, "-0x0p+0"),
        ("real", float("inf"), "inf"),
        ("single", 0.1, "0x1.99999ap-4"),  # rounded to float, and no half of a double
        ("single", 1e300, "inf"),
        ("single", float("nan"), "nan"),
        ("dtype", dtypes.BF16, "27"),
        ("text", "mean, größer", '"mean, größer"'),
        ("text", "", '""'),
        ("name", "not const", '"not const"'),
        ("ints", (1, -2, 2**40), "[1 -2 1099511627776]"),
        ("ints", (), "[]"),
        ("floats", (0.1, -0.0), " 0x1.99999ap-4 -0x0p+0"),
        ("bools", (True, False, True), " 1 0 1"),
        ("scalars", (Scalar(1, "INT8"), Scalar(True, "BOOL")), "type 2 bytes 01, type 12 bytes 01"),
        ("scalars", (), ""),
        ("tensors", (), ""),
    ],
)
def test_values(device: AscendDevice, name: str, value: object, told: str) -> None:
    assert echo(device, **{name: value})[name] == told


def test_neighbours_are_untouched(device: AscendDevice) -> None:
    """A value of the wrong width would show in the argument after it."""
    values = {"wide": -1, "word": -2, "number": -3, "small": -4, "natural": 5, "flag": True}
    told = echo(device, **values, real=6.5, single=7.5)
    expected = {**values, "flag": 1, "real": "0x1.ap+2", "single": "0x1.ep+2"}
    assert {name: told[name] for name in expected} == {k: str(v) for k, v in expected.items()}


@pytest.mark.parametrize(
    ("scalar", "told"),
    [
        (Scalar(1.5, "FLOAT"), "type 0 bytes 0000c03f"),
        (Scalar(1.5, "DOUBLE"), "type 11 bytes 000000000000f83f"),
        (Scalar(1.5, "FLOAT16"), "type 1 bytes 003e"),
        (Scalar(1.5, "BF16"), "type 27 bytes c03f"),
        (Scalar(-2, "INT64"), "type 9 bytes feffffffffffffff"),
        (Scalar(True, "BOOL"), "type 12 bytes 01"),
        (Scalar(1 + 2j, "COMPLEX64"), "type 16 bytes 0000803f00000040"),
        (Scalar(-0.0, "FLOAT"), "type 0 bytes 00000080"),
    ],
)
def test_scalars_bit_by_bit(device: AscendDevice, scalar: Scalar, told: str) -> None:
    assert echo(device, scalar=scalar)["scalar"] == told


class TestTensors:
    @pytest.mark.parametrize(
        ("spec", "told"),
        [
            (
                TensorSpec.contiguous((2, 3), dtypes.FLOAT16),
                "type 1 shape [2 3] strides [3 1] offset 0 format 2 storage [2 3]",
            ),
            (
                TensorSpec.contiguous((), dtypes.INT64),
                "type 9 shape [] strides [] offset 0 format 2 storage []",
            ),
            (
                TensorSpec(dtypes.FLOAT, (3, 2), (1, 4), 5, (20,), formats.NCHW),
                "type 0 shape [3 2] strides [1 4] offset 5 format 0 storage [20]",
            ),
            (
                TensorSpec.contiguous((0, 3), dtypes.BF16),
                "type 27 shape [0 3] strides [3 1] offset 0 format 2 storage [0 3]",
            ),
            (
                TensorSpec(
                    dtypes.FLOAT16, (32, 16), (16, 1), 0, (1, 2, 16, 16), formats.FRACTAL_NZ
                ),
                "type 1 shape [32 16] strides [16 1] offset 0 format 29 storage [1 2 16 16]",
            ),
        ],
    )
    def test_are_described_exactly(
        self, device: AscendDevice, stream: AscendStream, spec: TensorSpec, told: str
    ) -> None:
        memory, out = device.allocate(2048), device.allocate(OUT.size)
        values = [*(NOTHING | {"tensor": spec}).values(), spec_of(OUT)]
        storages = [memory, *[None] * (len(NOTHING) - 1), out]
        plan = device.plan("aclnnEcho", values, storages)
        workspace = device.allocate(plan.workspace_bytes) if plan.workspace_bytes else None
        device.run(plan, storages, workspace, stream)
        text = bytes(device.read(out)).decode()
        assert text.startswith(f"tensorOptional: {told}\n")

    def test_lists(self, device: AscendDevice) -> None:
        arrays = [np.zeros(3, np.int8), np.zeros((2, 2), np.float32)]
        told = echo(device, tensors=arrays)["tensors"]
        assert told == (
            "type 2 shape [3] strides [1] offset 0 format 2 storage [3], "
            "type 0 shape [2 2] strides [2 1] offset 0 format 2 storage [2 2]"
        )

    def test_an_address_that_is_not_aligned_becomes_an_offset(
        self, device: AscendDevice, stream: AscendStream
    ) -> None:
        data = np.arange(40, dtype=np.float32)
        memory = put(device, data)
        odd = device.slice(memory, 4 * 3, 4 * 8)
        out = device.allocate(4 * 8)
        spec = TensorSpec.contiguous((8,), dtypes.FLOAT)
        plan = device.plan("aclnnRelu", [spec, spec], [odd, out])
        device.run(plan, [odd, out], None, stream)
        assert get(device, out, data[:8]).tolist() == data[3:11].tolist()

    @pytest.mark.parametrize(
        ("dtype", "shift", "format"),
        [(dtypes.FLOAT, 2, formats.ND), (dtypes.FLOAT, 4, formats.FRACTAL_NZ)],
    )
    def test_or_is_refused_where_it_cannot(
        self, device: AscendDevice, dtype: dtypes.DType, shift: int, format: formats.Format
    ) -> None:
        memory = device.allocate(1024)
        spec = TensorSpec.contiguous((4,), dtype, format=format)
        odd = device.slice(memory, shift, 16)
        with pytest.raises(InvalidParameterError, match="self: a tensor begins") as caught:
            device.plan("aclnnRelu", [spec, spec], [odd, memory])
        assert (caught.value.parameter, caught.value.operator) == ("self", "aclnnRelu")

    def test_more_dimensions_than_cann_has_room_for(self, device: AscendDevice) -> None:
        spec = TensorSpec.contiguous((1,) * 26, dtypes.FLOAT)
        with pytest.raises(InvalidParameterError, match="26 dimensions; CANN has room for 25"):
            device.plan("aclnnRelu", [spec, spec])


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("text", "zero \0 inside", "text has a zero inside"),
        ("scalar", Scalar(300, "INT8"), "300 is no INT8"),
        ("scalar", Scalar(1, "HIFLOAT8"), "1 is no HIFLOAT8"),
    ],
)
def test_what_c_cannot_hold(
    device: AscendDevice, double: Control, name: str, value: object, says: str
) -> None:
    with pytest.raises(InvalidParameterError, match=says) as caught:
        call(device, "aclnnEcho", *(NOTHING | {name: value}).values(), OUT)
    assert caught.value.parameter == f"{name}Optional"
    assert double.live("scalar") == 0


class TestStock:
    """aclTensors that are used again."""

    def test_equal_calls_make_no_tensor(self, device: AscendDevice, double: Control) -> None:
        array = np.ones(8, np.float32)
        spec, memory = spec_of(array), put(device, array)
        first = device.plan("aclnnRelu", [spec, spec], [memory, memory])
        device.discard(first)
        device.memory_info()  # the device's thread has ended the plan by now
        before = double.calls("aclCreateTensor"), double.calls("aclInitTensor")
        device.discard(device.plan("aclnnRelu", [spec, spec], [memory, memory]))
        assert (double.calls("aclCreateTensor"), double.calls("aclInitTensor")) == before

    def test_bfloat16_and_float16_are_different_tensors(self, device: AscendDevice) -> None:
        for dtype in (np.float16, ml_dtypes.bfloat16, np.float16):
            array = np.array([-1, 2.5], dtype)
            done = call(device, "aclnnRelu", array, np.zeros_like(array))
            assert done.result(1).tolist() == [0, 2.5]

    def test_a_full_stock_moves_tensors(self, backend: AscendBackend, double: Control) -> None:
        device = backend.devices[0]
        memory = device.allocate(64)
        specs = [TensorSpec.contiguous((size,), dtypes.FLOAT) for size in range(1, 9)]

        def use() -> int:
            stock = Tensors(device._acl, memory.address, kept=3)
            for spec in [*specs, TensorSpec.contiguous((), dtypes.FLOAT), *specs]:
                place = described(spec), memory.address
                stock.give_back([(place, stock.take(place))])
            count = double.live("tensor")
            stock.close()
            return count

        before = double.calls("aclInitTensor")
        assert device._thread.call(use) <= 4
        assert double.calls("aclInitTensor") > before
        assert double.live("tensor") == 0
