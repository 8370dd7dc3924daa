"""Tensors that cannot be are refused before anything is allocated, on every way in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aclnn.errors import (
    AclnnError,
    HandleNotFoundError,
    InvalidParameterError,
    NullPointerError,
    OperatorNotFoundError,
    ViewOutsideStorageError,
)
from aclnn.v1 import device_service_pb2 as pb
from aclnn.v1 import operator_service_pb2 as op
from aclnn.v1 import tensor_pb2 as t
from tests.service.calling import Caller, refused
from tests.service.gated import GatedBackend
from tests.service.requests import FLOAT, floats, number, plan, run, tensor

pytestmark = pytest.mark.usefixtures("nothing_is_allocated")


@pytest.fixture
def nothing_is_allocated(caller: Caller, backend: GatedBackend) -> Iterator[None]:
    """Whatever the test sends: the device is asked for no memory, and the context is as it was."""
    caller(pb.MallocRequest(buffer_id=1, bytes=100))
    before = backend.device.allocations
    yield
    assert backend.device.allocations == before
    usage = caller(pb.RenewContextRequest()).usage
    assert (usage.bytes, usage.buffers, usage.executors) == (100, 1, 0)


def with_self(argument: t.Argument) -> op.GetWorkspaceSizeRequest:
    """Phase one with this as its input."""
    return plan("aclnnPlus", argument, number(1), tensor([2]))


def with_out(argument: t.Argument) -> op.GetWorkspaceSizeRequest:
    """Phase one with this as its output."""
    return plan("aclnnPlus", floats(1, 2), number(1), argument)


IMPOSSIBLE = [
    ([-1, 4], ["[-1, 4]", "at least 0"]),
    ([2**32, 2**32], [f"[{2**32}, {2**32}]", "2**63 - 1"]),
    ([2**62, 2**62, 0], [f"[{2**62}, {2**62}, 0]", "2**63 - 1"]),
    ([0, 2**63 - 1, 2**63 - 1], ["2**63 - 1 bytes"]),
    ([2**61], [f"[{2**61}]"]),
    ([1] * 65, ["65 dimensions", "at most 64"]),
    ([-(2**63)], [str(-(2**63))]),
]


@pytest.mark.parametrize(("shape", "says"), IMPOSSIBLE)
def test_impossible_dimensions(caller: Caller, shape: list[int], says: list[str]) -> None:
    _invalid(caller, with_self(tensor(shape)), "self", says)
    _invalid(caller, with_out(tensor(shape)), "out", says)
    _invalid(caller, with_self(tensor(shape, buffer_id=1)), "self", says)


@pytest.mark.parametrize(("shape", "says"), IMPOSSIBLE)
def test_impossible_storage_dimensions(caller: Caller, shape: list[int], says: list[str]) -> None:
    request = with_self(tensor([2], storage_shape=shape, data=bytes(8)))
    _invalid(caller, request, "self", ["storage shape", *says[:1]])


def test_a_million_dimensions_are_refused_at_once(caller: Caller) -> None:
    many = tensor([2**62] * 1_000_000)
    _invalid(caller, with_self(many), "self", ["1000000 dimensions"])
    many = tensor([2], storage_shape=[2**62] * 1_000_000)
    _invalid(caller, with_self(many), "self", ["1000000 dimensions", "storage shape"])
    many = tensor([2], strides=[2**62] * 1_000_000)
    _invalid(caller, with_self(many), "self", ["1000000 strides", "1 dimensions"])


@pytest.mark.parametrize("count", [0, 7, 9])
def test_bytes_must_be_exactly_the_storages(caller: Caller, count: int) -> None:
    says = [f"{count} bytes", "needs 8"]
    _invalid(caller, with_self(tensor([2], data=bytes(count))), "self", says)
    _invalid(caller, with_out(tensor([2], data=bytes(count))), "out", says)
    padded = tensor([1], storage_shape=[2], data=bytes(count))
    _invalid(caller, with_self(padded), "self", says)


def test_bytes_of_packed_types(caller: Caller) -> None:
    packed = tensor([3], t.DATA_TYPE_INT4, data=bytes(3))
    _invalid(caller, with_self(packed), "self", ["3 bytes", "needs 2"])


@pytest.mark.parametrize(
    ("data_type", "says"),
    [(0, "no data type"), (28, "number 28"), (-1, "number -1"), (2**31 - 1, str(2**31 - 1))],
)
def test_unspecified_and_unknown_data_types(caller: Caller, data_type: int, says: str) -> None:
    argument = tensor([2], data_type, data=bytes(8))
    _invalid(caller, with_self(argument), "self", [says])


def test_text_is_no_element(caller: Caller) -> None:
    _invalid(caller, with_self(tensor([2], t.DATA_TYPE_STRING)), "self", ["STRING"])


@pytest.mark.parametrize("number", [20, -1])
def test_unknown_formats(caller: Caller, number: int) -> None:
    argument = tensor([2], data=bytes(8), format=number)
    _invalid(caller, with_self(argument), "self", [f"format number {number}"])


def test_strides_of_another_length(caller: Caller) -> None:
    argument = tensor([1, 2], data=bytes(8), strides=[1])
    _invalid(caller, with_self(argument), "self", ["1 strides", "2 dimensions"])


OUTSIDE = [
    ({"shape": [3], "storage_shape": [2]}, "elements 0 to 2 of a storage of 2"),
    ({"shape": [2], "offset": 1}, "elements 1 to 2"),
    ({"shape": [2], "offset": -1}, "elements -1 to 0"),
    ({"shape": [2], "strides": [2], "storage_shape": [2]}, "elements 0 to 2"),
    ({"shape": [2], "strides": [-1], "storage_shape": [2]}, "elements -1 to 0"),
    ({"shape": [2], "strides": [-1], "offset": 2, "storage_shape": [2]}, "elements 1 to 2"),
    ({"shape": [2, 2], "strides": [2, -1], "storage_shape": [4]}, "elements -1 to 2"),
    ({"shape": [2], "strides": [2**62], "storage_shape": [2]}, f"elements 0 to {2**62}"),
    ({"shape": [2], "strides": [-(2**63)], "storage_shape": [2]}, f"elements {-(2**63)} to 0"),
    ({"shape": [2], "offset": 2**63 - 1}, f"elements {2**63 - 1} to {2**63}"),
    ({"shape": [], "offset": 1}, "elements 1 to 1 of a storage of 1"),
]


@pytest.mark.parametrize(("view", "says"), OUTSIDE)
def test_views_outside_their_storage(caller: Caller, view: dict[str, object], says: str) -> None:
    for storage in ({"buffer_id": 1}, {"data": bytes(_storage_bytes(view))}):
        given = {"data_type": FLOAT, **view, **storage}
        argument = t.Argument(tensor=t.Tensor(**given))  # type: ignore[arg-type]
        for request, name in ((with_self(argument), "self"), (with_out(argument), "out")):
            error = _refused(caller, request, ViewOutsideStorageError, name, [name, says])
            assert error.code == 561103
            assert error.operator == "aclnnPlus"


def _storage_bytes(view: dict[str, object]) -> int:
    shape = view.get("storage_shape", view["shape"])
    assert isinstance(shape, list)
    return 4 * (shape[0] if shape else 1)


def test_storages_outside_their_buffer(caller: Caller) -> None:
    for offset in (93, 101, 2**63, 2**64 - 1):
        argument = tensor([2], buffer_id=1, buffer_offset=offset)
        says = [f"bytes {offset} to {offset + 8}", "buffer 1", "100"]
        _invalid(caller, with_self(argument), "self", says)
        _invalid(caller, with_out(argument), "out", says)
    empty = tensor([0], buffer_id=1, buffer_offset=101)
    _invalid(caller, with_self(empty), "self", ["bytes 101 to 101", "100"])


@pytest.mark.parametrize("buffer_id", [0, 2, 2**64 - 1])
def test_buffers_that_do_not_exist(caller: Caller, buffer_id: int) -> None:
    for argument, name in ((with_self, "self"), (with_out, "out")):
        request = argument(tensor([2], buffer_id=buffer_id))
        says = [f"buffer {buffer_id} does not exist in this context"]
        _refused(caller, request, HandleNotFoundError, name, says)


def test_inputs_without_a_storage(caller: Caller) -> None:
    _refused(caller, with_self(tensor([2])), NullPointerError, "self", ["self", "null"])


@pytest.mark.parametrize("name", ["", "aclnnNo", "Plus", "aclnnplus", "aclnnPlus ", "../aclnnPlus"])
def test_unknown_operators(caller: Caller, name: str) -> None:
    request = plan(name, floats(1))
    error = _refused(caller, request, OperatorNotFoundError, "operator", [repr(name)])
    assert error.code == 100024


def test_tensors_larger_than_allowed(caller: Caller) -> None:
    says = [str(2**35), "at most"]
    _invalid(caller, with_self(tensor([2**33], buffer_id=1)), "self", says)
    _invalid(caller, with_out(tensor([2**33])), "out", says)


def test_nothing_is_left_after_a_hundred_refusals(caller: Caller) -> None:
    for _ in range(100):
        _invalid(caller, with_self(tensor([2], data=bytes(1))), "self", [])
    _refused(caller, run(1), HandleNotFoundError, "executor_id", [])


def _invalid(
    caller: Caller, request: op.GetWorkspaceSizeRequest, name: str, says: list[str]
) -> AclnnError:
    return _refused(caller, request, InvalidParameterError, name, says)


def _refused(
    caller: Caller,
    request: op.GetWorkspaceSizeRequest | op.ExecuteRequest,
    kind: type[AclnnError],
    name: str,
    says: list[str],
) -> AclnnError:
    return refused(caller, request, kind, parameter=name, says=says)
