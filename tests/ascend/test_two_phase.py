"""The two-phase call: where tensors lie, executors that are run again, and those that are not run at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aclnn import dtypes
from aclnn.errors import (
    ExecutionFailedError,
    ExecutorUsedError,
    InvalidParameterError,
    NullPointerError,
    OperatorNotFoundError,
    ViewOutsideStorageError,
)
from aclnn.signatures import parse
from aclnn.tensors import TensorSpec
from aclnn_server.backends.ascend import AscendBackend
from aclnn_server.backends.ascend.device import AscendDevice
from aclnn_server.backends.ascend.streams import AscendStream
from aclnn_server.backends.ascend.two_phase import Bound
from aclnn_server.backends.base import Plan
from tests.ascend.building import Control
from tests.ascend.calling import GRADIENT, Prepared, get, gradient, one, put, spec_of

RANDOM = np.random.default_rng(5)
PLAN = f"{GRADIENT}GetWorkspaceSize"


def arrays(*shape: int) -> tuple[Any, Any, Any]:
    grad, self, target = (RANDOM.normal(0, 2, shape).astype(np.float32) for _ in range(3))
    return grad, self, target


def gradient_call(device: AscendDevice, *shape: int) -> tuple[Prepared, Any]:
    """A call of the gradient, and what it must give."""
    grad, self, target = arrays(*shape)
    given = [grad, self, target, 1, 0.5, np.zeros(shape, np.float32)]
    return Prepared(device, GRADIENT, given), gradient((grad, self, target), 0.5, mean=True)


def settled(device: AscendDevice) -> None:
    """Waits until the device's thread has done all that it was asked for."""
    device.memory_info()


# --- one-shot -------------------------------------------------------------------------------------


def test_one_phase_one_where_all_addresses_are_known(
    device: AscendDevice, stream: AscendStream, double: Control
) -> None:
    prepared, expected = gradient_call(device, 4, 8)
    before = double.calls(PLAN)
    plan = prepared.plan()
    prepared.run(plan, stream)
    np.testing.assert_allclose(prepared.result(5), expected, rtol=1e-6)
    assert double.calls(PLAN) == before + 1
    assert double.live("executor") == 0


def test_planned_again_where_they_were_not(
    device: AscendDevice, stream: AscendStream, double: Control
) -> None:
    prepared, expected = gradient_call(device, 4, 8)
    before = double.calls(PLAN)
    prepared.run(prepared.plan(known=False), stream)
    np.testing.assert_allclose(prepared.result(5), expected, rtol=1e-6)
    assert double.calls(PLAN) == before + 2
    assert double.live("executor") == 0


def test_planned_again_where_one_tensor_moved(device: AscendDevice, stream: AscendStream) -> None:
    prepared, expected = gradient_call(device, 5)
    plan = prepared.plan()
    moved = device.allocate(20)
    prepared.storages[5] = moved
    prepared.run(plan, stream)
    np.testing.assert_allclose(prepared.result(5), expected, rtol=1e-6)


def test_second_run_is_refused_before_cann_is_asked(
    device: AscendDevice, stream: AscendStream, double: Control
) -> None:
    prepared, _ = gradient_call(device, 3)
    plan = prepared.plan()
    prepared.run(plan, stream)
    device.synchronize(stream)
    before = double.calls(GRADIENT)
    with pytest.raises(ExecutorUsedError):
        prepared.run(plan, stream)
    device.synchronize(stream)
    assert double.calls(GRADIENT) == before


def test_a_discarded_plan_is_run_no_more(device: AscendDevice, stream: AscendStream) -> None:
    prepared, _ = gradient_call(device, 3)
    for repeatable in (False, True):
        plan = prepared.plan(repeatable=repeatable)
        device.discard(plan)
        settled(device)
        with pytest.raises(ExecutorUsedError):
            prepared.run(plan, stream)


def test_abandoned_executors_are_destroyed(device: AscendDevice, double: Control) -> None:
    prepared, _ = gradient_call(device, 3)
    plans = [prepared.plan(), prepared.plan(repeatable=True), prepared.plan(known=False)]
    assert double.live("executor") == 3
    for plan in plans:
        device.discard(plan)
    settled(device)
    assert double.live("executor") == 0


def test_what_is_left_ends_with_the_device(double: Control, environment: dict[str, str]) -> None:
    backend = AscendBackend(environment=environment)
    prepared, _ = gradient_call(backend.devices[0], 3)
    for repeatable in (False, True):
        prepared.plan(repeatable=repeatable)
    backend.close()
    assert double.left() == {}


# --- workspace ------------------------------------------------------------------------------------


def scratch(device: AscendDevice, size: int) -> Prepared:
    data = np.arange(4, dtype=np.float32)
    return Prepared(device, "aclnnScratch", [data, size, np.zeros_like(data)])


@pytest.mark.parametrize("size", [1, 480, 481, 100_000])
def test_workspace_is_what_cann_asks_for(
    device: AscendDevice, stream: AscendStream, size: int
) -> None:
    prepared = scratch(device, size)
    plan = prepared.plan()
    assert plan.workspace_bytes == (size + 32 + 511) // 512 * 512
    prepared.run(plan, stream)
    device.synchronize(stream)
    assert prepared.result(2).tolist() == [0, 1, 2, 3]


def test_a_workspace_that_is_too_small_never_gets_to_cann(
    device: AscendDevice, stream: AscendStream, double: Control
) -> None:
    prepared = scratch(device, 1000)
    plan = prepared.plan()
    small = device.allocate(plan.workspace_bytes - 1)
    before = double.calls("aclnnScratch")
    for workspace, size in ((None, 0), (small, small.size)):
        with pytest.raises(InvalidParameterError, match=f"is {size}; phase one planned") as caught:
            device.run(plan, prepared.storages, workspace, stream)
        assert caught.value.parameter == "workspaceSize"
    settled(device)
    assert double.calls("aclnnScratch") == before
    device.discard(plan)


def test_a_workspace_at_an_odd_address(device: AscendDevice, stream: AscendStream) -> None:
    prepared = scratch(device, 100)
    plan = prepared.plan()
    memory = device.allocate(plan.workspace_bytes + 64)
    with pytest.raises(InvalidParameterError, match="workspace begins 32 bytes behind"):
        device.run(plan, prepared.storages, device.slice(memory, 32, plan.workspace_bytes), stream)
    device.discard(plan)


def test_a_larger_workspace_is_fine(device: AscendDevice, stream: AscendStream) -> None:
    prepared = scratch(device, 100)
    device.run(prepared.plan(), prepared.storages, device.allocate(8192), stream)
    device.synchronize(stream)
    assert prepared.result(2).tolist() == [0, 1, 2, 3]


# --- repeatable -----------------------------------------------------------------------------------


def test_a_repeatable_executor_stays(
    device: AscendDevice, stream: AscendStream, double: Control
) -> None:
    prepared, expected = gradient_call(device, 6)
    before = double.calls(PLAN)
    plan = prepared.plan(repeatable=True)
    for _ in range(3):
        prepared.run(plan, stream)
    np.testing.assert_allclose(prepared.result(5), expected, rtol=1e-6)
    assert double.calls(PLAN) == before + 1
    assert double.live("executor") == 1
    device.discard(plan)
    settled(device)
    assert double.live("executor") == 0


Make = Callable[[AscendDevice], tuple[Prepared, list[Any]]]


def _gradients(device: AscendDevice) -> tuple[Prepared, list[Any]]:
    prepared, expected = gradient_call(device, 3, 4)
    return prepared, [(5, None, expected)]


def _norms(device: AscendDevice) -> tuple[Prepared, list[Any]]:
    x, gamma = RANDOM.normal(size=(2, 8)).astype("f"), RANDOM.normal(size=8).astype("f")
    given = [x, gamma, 1e-6, np.zeros_like(x), np.zeros((2, 1), "f")]
    rstd = 1 / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6)
    expected = [(3, None, x * rstd * gamma), (4, None, rstd)]
    return Prepared(device, "aclnnRmsNorm", given), expected


def _lists(device: AscendDevice) -> tuple[Prepared, list[Any]]:
    xs = [RANDOM.normal(size=size).astype("f") for size in (3, 5)]
    given = [xs, (one(1.0), one(-2.0)), [np.zeros_like(x) for x in xs]]
    prepared = Prepared(device, "aclnnForeachAddScalarList", given)
    return prepared, [(2, 0, xs[0] + 1), (2, 1, xs[1] - 2)]


@pytest.mark.parametrize("make", [_gradients, _norms, _lists])
def test_new_addresses_are_told_to_the_executor(
    device: AscendDevice, stream: AscendStream, double: Control, make: Make
) -> None:
    first, _ = make(device)
    plan = first.plan(repeatable=True)
    first.run(plan, stream)
    device.synchronize(stream)
    planned = double.calls(f"{first.operator}GetWorkspaceSize")
    for _ in range(3):
        other, expected = make(device)
        other.run(plan, stream)
        device.synchronize(stream)
        for position, element, array in expected:
            np.testing.assert_allclose(other.result(position, element), array, rtol=1e-5, atol=1e-6)
    assert double.calls(f"{first.operator}GetWorkspaceSize") == planned
    device.discard(plan)


@pytest.mark.parametrize(
    "refusing", ["aclSetAclOpExecutorRepeatable", "aclSetInputTensorAddr", "aclSetOutputTensorAddr"]
)
def test_planned_again_where_cann_says_no(
    device: AscendDevice, stream: AscendStream, double: Control, refusing: str
) -> None:
    double.fail(refusing, 1, 561000)
    first, expected = gradient_call(device, 4)
    plan = first.plan(repeatable=True)
    first.run(plan, stream)
    np.testing.assert_allclose(first.result(5), expected, rtol=1e-6)
    other, expected = gradient_call(device, 4)
    other.run(plan, stream)
    np.testing.assert_allclose(other.result(5), expected, rtol=1e-6)
    assert not double.failure_pending(refusing)
    device.discard(plan)
    settled(device)
    assert double.live("executor") == 0


def test_planned_again_where_the_plan_has_a_copy(
    device: AscendDevice, stream: AscendStream, double: Control
) -> None:
    """An output that is not contiguous is copied to; CANN does not repeat that (561000)."""
    data = np.arange(6, dtype=np.float32)
    source, target = put(device, data), device.allocate(48)
    spec, gaps = spec_of(data), TensorSpec(dtypes.FLOAT, (6,), (2,), 0, (12,))
    plan = device.plan("aclnnRelu", [spec, gaps], [source, target], repeatable=True)
    workspace = device.allocate(plan.workspace_bytes)
    before = double.calls("aclnnReluGetWorkspaceSize")
    for _ in range(3):
        device.run(plan, [source, target], workspace, stream)
    assert get(device, target, np.zeros(12, "f"))[::2].tolist() == data.tolist()
    assert double.calls("aclnnReluGetWorkspaceSize") == before + 2
    device.discard(plan)


def test_tensors_updated_in_place_are_planned_again(
    device: AscendDevice, stream: AscendStream, double: Control
) -> None:
    """The double ends the process when such an address is set."""
    add = np.ones(4, np.float32)
    spec = spec_of(add)
    operator, other = "aclnnInplaceAdd", put(device, add)
    targets = [put(device, add * number) for number in range(3)]
    plan = device.plan(operator, [spec, spec, one(10)], [targets[0], other, None], repeatable=True)
    for target in targets:
        device.run(plan, [target, other, None], None, stream)
    assert [get(device, target, add)[0] for target in targets] == [10, 11, 12]
    device.discard(plan)


def test_addresses_beside_a_null_tensor_are_planned_again(
    backend: AscendBackend, device: AscendDevice, stream: AscendStream
) -> None:
    """Whether a null tensor counts in the numbers differs by operator; the double ends the process."""
    assert backend.operators["aclnnCustomScale"].refused_because == ""
    for number in range(3):
        x = np.full(3, number, np.float32)
        call = Prepared(device, "aclnnCustomScale", [x, np.zeros_like(x), None])
        if not number:
            plan = call.plan(repeatable=True)
        call.run(plan, stream)
        assert call.result(1).tolist() == [2 * number] * 3
    device.discard(plan)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("const aclTensor* x, int64_t n, aclTensor* out", True),
        ("const aclTensor* x, const aclTensor* z, const aclScalar* alpha, aclTensor* out", True),
        ("const aclTensor* x, aclTensor* out, int8_t mode, const aclTensor* z", True),
        ("const aclTensorList* x, const aclScalarList* s, aclTensorList* out", True),
        ("const aclTensorList* x, int64_t dim, aclTensor* out", True),
        (
            "const aclTensor* x, const aclIntArray* dims, const aclTensor* other, aclTensor* out",
            False,
        ),
        ("const aclTensor* x, const aclTensorList* z, aclTensor* out", False),
        ("const aclTensor* x, aclTensor* out, aclTensorList* outsOut", False),
        ("aclTensor* selfRef, const aclTensor* x", False),
    ],
)
def test_addresses_are_set_only_where_their_numbers_are_certain(
    parameters: str, told: bool
) -> None:
    text = f"aclnnStatus aclnnXGetWorkspaceSize({parameters}, uint64_t* w, aclOpExecutor** e)"
    assert Bound(parse(text), len, len, ()).takes_addresses is told


def test_an_odd_address_is_planned_again(device: AscendDevice, stream: AscendStream) -> None:
    data = np.arange(16, dtype=np.float32)
    memory, out = put(device, data), device.allocate(16)
    spec = TensorSpec.contiguous((4,), dtypes.FLOAT)
    plan = device.plan("aclnnRelu", [spec, spec], [memory, out], repeatable=True)
    for offset in (0, 4, 20, 32):
        device.run(plan, [device.slice(memory, offset, 16), out], None, stream)
        assert get(device, out, data[:4]).tolist() == data[offset // 4 :][:4].tolist()
    device.discard(plan)


# --- refusals -------------------------------------------------------------------------------------

FLOATS = TensorSpec.contiguous((2, 3), dtypes.FLOAT)
HALVES = TensorSpec.contiguous((2, 3), dtypes.FLOAT16)
WHOLES = TensorSpec.contiguous((2, 3), dtypes.INT32)
OTHERS = TensorSpec.contiguous((5,), dtypes.FLOAT)
DEEP = TensorSpec.contiguous((1,) * 9, dtypes.FLOAT)
OUTSIDE = TensorSpec(dtypes.FLOAT, (2, 3), (1, 2), 1, (2, 3))
GIVEN = {"gradOutput": FLOATS, "self": FLOATS, "target": FLOATS, "reduction": 0, "beta": 1.0}


@pytest.mark.parametrize(
    ("changed", "kind", "parameter", "says"),
    [
        ({"self": None}, NullPointerError, "self", "self is a null pointer"),
        ({"gradInput": None, "self": WHOLES}, NullPointerError, "gradInput", "null pointer"),
        ({"self": WHOLES}, InvalidParameterError, "self", "self is INT32; allowed"),
        ({"self": DEEP}, InvalidParameterError, "self", "9 dimensions"),
        ({"reduction": 3}, InvalidParameterError, "reduction", "reduction is 3"),
        ({"beta": -1.0}, InvalidParameterError, "beta", "beta is -1"),
        ({"beta": float("nan")}, InvalidParameterError, "beta", "beta is nan"),
        ({"self": OTHERS}, InvalidParameterError, "self", r"self has shape \[5\]"),
        ({"gradInput": OTHERS}, InvalidParameterError, "gradInput", r"gradInput has shape \[5\]"),
        ({"self": OUTSIDE}, ViewOutsideStorageError, "self", "reaches elements 1 to 6 of a"),
    ],
)
def test_refusals_have_the_vendors_code_and_say_why(
    device: AscendDevice,
    double: Control,
    changed: dict[str, Any],
    kind: type[Exception],
    parameter: str,
    says: str,
) -> None:
    values: list[Any] = list((GIVEN | {"gradInput": FLOATS} | changed).values())
    with pytest.raises(kind, match=says) as caught:
        device.plan(GRADIENT, values)
    error: Any = caught.value
    assert (type(error), error.parameter, error.operator) == (kind, parameter, GRADIENT)
    assert f"{PLAN} failed" in error.message, "CANN has the last word"
    assert double.live("executor") == 0


def test_what_only_the_chip_lacks(
    double: Control, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CANN_SOC", "Ascend910A")
    backend = AscendBackend(environment=environment)
    brain = TensorSpec.contiguous((2,), dtypes.BF16)
    with pytest.raises(InvalidParameterError, match="BF16; allowed on Atlas training"):
        backend.devices[0].plan(GRADIENT, [brain, brain, brain, 0, 1.0, brain])
    backend.close()


def test_mixed_types_are_planned_with_room_for_their_casts(device: AscendDevice) -> None:
    plan = device.plan(GRADIENT, [FLOATS, HALVES, FLOATS, 0, 1.0, HALVES])
    assert plan.workspace_bytes == 512
    device.discard(plan)


@pytest.mark.parametrize("name", ["aclnnNoSuch", "aclnnNowhere", "aclnnFormatCast"])
def test_operators_that_cannot_be_run(device: AscendDevice, name: str) -> None:
    with pytest.raises(OperatorNotFoundError) as caught:
        device.plan(name, [])
    assert (caught.value.code, caught.value.operator) == (100024, name)


def test_phase_two_that_fails_comes_out_of_the_stream(
    device: AscendDevice, stream: AscendStream, double: Control
) -> None:
    prepared, _ = gradient_call(device, 3)
    double.fail(GRADIENT, 1, 361001)
    prepared.run(prepared.plan(), stream)
    with pytest.raises(ExecutionFailedError) as caught:
        device.synchronize(stream)
    assert (caught.value.code, caught.value.operator) == (361001, GRADIENT)
    device.synchronize(stream)
    assert double.live("executor") == 0


def test_a_repeatable_executor_survives_a_failed_run(
    device: AscendDevice, stream: AscendStream, double: Control
) -> None:
    prepared, expected = gradient_call(device, 3)
    plan: Plan = prepared.plan(repeatable=True)
    double.fail(GRADIENT, 1, 361001)
    prepared.run(plan, stream)
    with pytest.raises(ExecutionFailedError):
        device.synchronize(stream)
    prepared.run(plan, stream)
    device.synchronize(stream)
    np.testing.assert_allclose(prepared.result(5), expected, rtol=1e-6)
    device.discard(plan)
