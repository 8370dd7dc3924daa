"""Every kind of argument arrives as it was sent."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.errors import AclnnError, InvalidParameterError, NullPointerError
from aclnn.tensors import Scalar, TensorSpec
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import tensor_pb2 as t
from tests.service.calling import Caller, refused
from tests.service.gated import GatedBackend
from tests.service.requests import UINT8, inline, null, plan, run, tensor

OUT = 64
TENSOR = np.arange(6, dtype=np.uint8)
LISTED = (np.arange(3, dtype=np.uint8) + 100, np.empty(0, np.uint8), np.array(42, np.uint8))


def arguments() -> list[t.Argument]:
    """One of each kind, in the order of aclnnEcho."""
    return [
        inline(TENSOR),
        t.Argument(tensor_list=t.TensorList(tensors=[inline(a).tensor for a in LISTED])),
        t.Argument(scalar=t.Scalar(data_type=t.DATA_TYPE_FLOAT, value=struct.pack("<f", 0.1))),
        t.Argument(
            scalar_list=t.ScalarList(
                scalars=[
                    t.Scalar(data_type=t.DATA_TYPE_INT8, value=b"\xff"),
                    t.Scalar(data_type=t.DATA_TYPE_BOOL, value=b"\x01"),
                    t.Scalar(data_type=t.DATA_TYPE_COMPLEX64, value=struct.pack("<ff", 1, -2)),
                ]
            )
        ),
        t.Argument(int_array=t.IntArray(values=[-(2**63), 0, 2**63 - 1])),
        t.Argument(float_array=t.FloatArray(values=[0.5, float("inf")])),
        t.Argument(bool_array=t.BoolArray(values=[True, False])),
        t.Argument(text="naïve \0 텍스트"),
        t.Argument(int64_value=-(2**63)),
        t.Argument(int32_value=-(2**31)),
        t.Argument(int8_value=-128),
        t.Argument(uint64_value=2**64 - 1),
        t.Argument(bool_value=True),
        t.Argument(double_value=1e300),
        t.Argument(float_value=0.25),
        t.Argument(data_type=t.DATA_TYPE_BF16),
        tensor([OUT], UINT8),
    ]


def echo(caller: Caller, sent: list[t.Argument]) -> bytes:
    """Runs aclnnEcho; gives the bytes of all tensors, one after the other."""
    planned = caller(plan("aclnnEcho", *sent))
    (output,) = caller(run(planned.executor_id)).outputs
    assert (output.argument, output.element) == (16, 0)
    data: bytes = output.tensor.data
    return data


def test_every_kind_arrives_as_sent(caller: Caller, backend: GatedBackend) -> None:
    data = echo(caller, arguments())

    assert data == bytes([*TENSOR, 100, 101, 102, 42]).ljust(OUT, b"\0")
    (given,) = backend.device.given
    assert given[:2] == (
        TensorSpec.contiguous((6,), dtypes.UINT8),
        tuple(TensorSpec.contiguous(array.shape, dtypes.UINT8) for array in LISTED),
    )
    assert given[2] == Scalar(float(np.float32(0.1)), "FLOAT")
    assert given[3] == (Scalar(-1, "INT8"), Scalar(True, "BOOL"), Scalar(1 - 2j, "COMPLEX64"))
    assert given[4:7] == ((-(2**63), 0, 2**63 - 1), (0.5, float("inf")), (True, False))
    assert given[7] == "naïve \0 텍스트"
    assert given[8:15] == (-(2**63), -(2**31), -128, 2**64 - 1, True, 1e300, 0.25)
    assert given[15] is dtypes.BF16


def test_empty_lists_and_texts_are_not_null(caller: Caller, backend: GatedBackend) -> None:
    sent = arguments()
    sent[1].tensor_list.ClearField("tensors")
    sent[3].scalar_list.ClearField("scalars")
    sent[4].int_array.ClearField("values")
    sent[7].text = ""
    assert echo(caller, sent) == bytes(TENSOR).ljust(OUT, b"\0")

    (given,) = backend.device.given
    assert (given[1], given[3], given[4], given[7]) == ((), (), (), "")


@pytest.mark.parametrize("index", [2, 3, 4, 5, 6, 7])
def test_any_pointer_may_be_null_for_the_operator_to_judge(
    caller: Caller, backend: GatedBackend, index: int
) -> None:
    sent = arguments()
    sent[index] = null()
    echo(caller, sent)

    assert backend.device.given[0][index] is None


NAMES = [parameter.name for parameter in GatedBackend().operators["aclnnEcho"].signature.parameters]


@pytest.mark.parametrize("index", range(8, 16))
def test_a_value_is_never_null(caller: Caller, index: int) -> None:
    sent = arguments()
    sent[index] = null()
    says = [NAMES[index], "null"]
    refused(caller, plan("aclnnEcho", *sent), NullPointerError, parameter=NAMES[index], says=says)


@pytest.mark.parametrize("index", range(17))
def test_another_kind_is_refused(caller: Caller, index: int) -> None:
    sent = arguments()
    taken = sent[index].WhichOneof("value")
    other = sent[index - 1 if index else 1]
    says = [f"{NAMES[index]} is a {other.WhichOneof('value')}", f"takes a {taken}"]
    sent[index] = other
    _refused(caller, sent, NAMES[index], says)


@pytest.mark.parametrize("index", range(17))
def test_nothing_is_no_argument(caller: Caller, index: int) -> None:
    sent = arguments()
    sent[index] = t.Argument()
    _refused(caller, sent, NAMES[index], [f"{NAMES[index]} is nothing"])


def test_missing_and_extra_arguments(caller: Caller) -> None:
    _refused(caller, arguments()[:-1], "out", ["16 arguments", "takes 17", "out"])
    _refused(caller, [], "self", ["0 arguments", "takes 17"])
    _refused(caller, [*arguments(), null()], "", ["18 arguments", "takes 17"])


def scalar(data_type: int, value: bytes) -> t.Argument:
    """A scalar as described."""
    return t.Argument(scalar=t.Scalar(data_type=data_type, value=value))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("index", "argument", "parameter", "says"),
    [
        (2, scalar(0, b"1234"), "scalar", "no data type"),
        (2, scalar(1, b"123"), "scalar", "3 bytes"),
        (2, scalar(13, b""), "scalar", "STRING"),
        (2, scalar(99, b"1"), "scalar", "99"),
        (10, t.Argument(int8_value=128), "small", "128"),
        (10, t.Argument(int8_value=-129), "small", "-129"),
        (15, t.Argument(data_type=t.DATA_TYPE_UNSPECIFIED), "dtype", "no data type"),
        (15, t.Argument(data_type=28), "dtype", "28"),  # type: ignore[arg-type]
        (15, t.Argument(data_type=-1), "dtype", "-1"),  # type: ignore[arg-type]
    ],
)
def test_values_that_their_type_does_not_hold(
    caller: Caller, index: int, argument: t.Argument, parameter: str, says: str
) -> None:
    sent = arguments()
    sent[index] = argument
    _refused(caller, sent, parameter, [says])


def test_an_element_of_a_list_is_named(caller: Caller) -> None:
    sent = arguments()
    sent[1].tensor_list.tensors[2].data = b"too long"
    _refused(caller, sent, "tensors[2]", ["8 bytes", "needs 1"])
    sent = arguments()
    sent[3].scalar_list.scalars[1].value = b""
    _refused(caller, sent, "scalars[1]", ["0 bytes"])


def _refused(caller: Caller, sent: list[t.Argument], parameter: str, says: list[str]) -> AclnnError:
    return refused(
        caller, plan("aclnnEcho", *sent), InvalidParameterError, parameter=parameter, says=says
    )


def test_nothing_was_allocated_for_what_was_refused(caller: Caller, backend: GatedBackend) -> None:
    before = backend.device.allocations
    sent = arguments()
    sent[16] = t.Argument()
    _refused(caller, sent, "out", ["nothing"])

    assert backend.device.allocations == before
    assert caller(pb.RenewContextRequest()).usage.bytes == 0
