"""Executors: equal calls planned once, runs repeated and bound anew, and what is left behind."""

from __future__ import annotations

import gc
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from aclnn.signatures import Signature
from aclnn_client import (
    AclnnError,
    Context,
    Executor,
    InvalidParameterError,
    Scalar,
    connect,
    execute,
    get_workspace_size,
    ops,
    plans,
)
from aclnn_client.values import Call
from aclnn_server.server import Server
from tests.client.calls import counts, echo, passing
from tests.service.gated import GatedBackend

# --- plans ------------------------------------------------------------------------------------------


def test_equal_calls_are_planned_once(gated: Context, backend: GatedBackend) -> None:
    source, out, _ = passing(gated)  # an upload may have to wait until it is sent
    waits = counts(gated)[1]
    for _ in range(5):
        get_workspace_size("aclnnPass", (source, 0, out))[1].run()
    assert counts(gated)[1] == waits
    gated.default_stream.synchronize()
    assert counts(gated)[1] == waits + 1
    assert backend.device.planned == 6
    assert len(gated.plans) == 1


def test_both_phases_and_a_wait_are_one_wait_when_planned_before(gated: Context) -> None:
    source, out = gated.tensor(np.arange(4)), gated.empty((4,), "int64")
    stream = gated.create_stream()
    for warm in (False, True):
        waits = counts(gated)[1]
        size, executor = get_workspace_size("aclnnPass", (source, 0, out))
        execute("aclnnPass", None, size, executor, stream)
        stream.synchronize()
        assert counts(gated)[1] - waits == (1 if warm else 2)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (5,)},
        {"dtype": "int32"},
        {"strides": (2,)},
        {"offset": 1},
        {"storage_shape": (9,)},
        {"format": "NCL"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_spec_is_another_plan(gated: Context, change: dict[str, Any]) -> None:
    out = gated.empty((4,), "int64")
    usual: dict[str, Any] = {"shape": (4,), "dtype": "int64"}
    for arguments in (usual, usual | change):
        get_workspace_size("aclnnPass", (gated.create_tensor(**arguments), 0, out))
    assert len(gated.plans) == 2


def test_other_values_are_other_plans(gated: Context) -> None:
    out = gated.empty((1,), "int64")
    source = gated.tensor([1])
    for size in (1, 2, 1):
        assert get_workspace_size("aclnnScratch", (source, size, 0, out))[0] == size
    assert get_workspace_size("aclnnScratch", (np.array([1]), 2, 0, out))[0] == 2
    assert len(gated.plans) == 3


def test_a_failure_of_a_call_planned_before_is_told_at_the_next_wait(gated: Context) -> None:
    passing(gated)
    source, out = gated.tensor(np.arange(4)), gated.empty((4,), "int64")
    source.free()
    _, executor = get_workspace_size("aclnnPass", (source, 0, out))
    executor.run()
    with pytest.raises(AclnnError, match=f"buffer {source.buffer.buffer_id}"):
        gated.default_stream.synchronize()
    gated.default_stream.synchronize()


def test_a_plan_that_is_known_goes_with_phase_two(gated: Context) -> None:
    passing(gated)
    source, out = gated.tensor(np.arange(4)), gated.empty((4,), "int64")
    executors = gated.usage().executors
    _, executor = get_workspace_size("aclnnPass", (source, 0, out))
    assert gated.usage().executors == executors
    source.free()
    executor.run()
    with pytest.raises(AclnnError, match=f"buffer {source.buffer.buffer_id}"):
        gated.default_stream.synchronize()
    gated.default_stream.synchronize()


def test_a_repeatable_plan_that_is_known_goes_with_the_first_run_only(
    gated: Context, backend: GatedBackend
) -> None:
    source, out = gated.tensor(np.arange(4)), gated.empty((4,), "int64")
    get_workspace_size("aclnnPlus", (source, 10, out))
    planned, executors = backend.device.planned, gated.usage().executors
    _, executor = get_workspace_size("aclnnPlus", (source, 10, out), repeatable=True)
    for _ in range(3):
        executor.run()
        assert out.numpy().tolist() == [10, 11, 12, 13]
        assert backend.device.planned == planned + 1
        assert gated.usage().executors == executors + 1
    executor.destroy()
    gated.synchronize()
    assert gated.usage().executors == executors


def test_an_executor_that_the_server_never_saw_is_no_work_to_end(gated: Context) -> None:
    source, out, _ = passing(gated)
    _, executor = get_workspace_size("aclnnPass", (source, 0, out), repeatable=True)
    gated.synchronize()
    requests = counts(gated)[0]
    executor.destroy()
    del executor
    assert not gated.commands.abandoned
    assert counts(gated)[0] == requests


def test_a_one_shot_executor_that_was_planned_before_runs_once(gated: Context) -> None:
    passing(gated)
    source, out = gated.tensor(np.arange(4)), gated.empty((4,), "int64")
    _, executor = get_workspace_size("aclnnPass", (source, 0, out))
    executor.run()
    assert out.numpy().tolist() == [0, 1, 2, 3]
    executor.run()
    with pytest.raises(AclnnError, match="spent by an earlier phase two"):
        gated.synchronize()


@pytest.mark.parametrize("repeatable", [False, True])
def test_threads_that_run_an_executor_that_is_known_at_the_same_time(
    gated: Context, backend: GatedBackend, *, repeatable: bool
) -> None:
    """One of them runs a one-shot executor, and each a repeatable one."""
    passing(gated)
    source, out = gated.tensor(np.arange(4)), gated.empty((4,), "int64")
    for _ in range(20):
        _, executor = get_workspace_size("aclnnPass", (source, 0, out), repeatable=repeatable)
        runs = len(backend.device.runs)
        with ThreadPoolExecutor(4) as pool:
            barrier = threading.Barrier(4)

            def run(executor: Executor = executor, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                executor.run()

            for job in [pool.submit(run) for _ in range(4)]:
                job.result()
        if repeatable:
            gated.synchronize()
        else:
            with pytest.raises(AclnnError, match=r"spent by an earlier phase two|does not exist"):
                gated.synchronize()
        assert len(backend.device.runs) - runs == (4 if repeatable else 1)
        assert out.numpy().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("other", [-0.0, 0, False, None, "", Scalar(0, "float16")], ids=repr)
def test_arguments_that_are_equal_and_not_alike_are_other_calls(
    gated: Context, backend: GatedBackend, other: object
) -> None:
    """Of a call that is known, the arguments are sent as they were encoded."""
    source, out = gated.tensor(np.arange(4)), gated.empty((32,), "uint8")
    arguments: dict[str, object] = {"self": source, "tensors": [], "out": out}
    text = isinstance(other, str)
    for value in ("''" if text else 0.0, other) * 2:
        changes = {"text" if text else "scalar": value}
        get_workspace_size("aclnnEcho", echo(gated, **arguments, **changes))[1].run()
    gated.synchronize()
    given = [repr(call[7 if text else 2]) for call in backend.device.given]
    assert given[:2] == given[2:]
    assert given[0] != given[1]


def test_the_longest_unused_plan_is_forgotten_first() -> None:
    known = plans.Plans(2)
    a, b, c = (Call(Signature(name, ()), key=(name,)) for name in "abc")
    known.keep(a, 1)
    known.keep(b, 2)
    assert known.find(a.key) == plans.Plan(1, a.signature)
    known.keep(c, 3)
    assert known.find(b.key) is None
    assert [known.find(call.key) for call in (a, c)] == [
        plans.Plan(1, a.signature),
        plans.Plan(3, c.signature),
    ]


# --- repeatable executors ---------------------------------------------------------------------------


def test_a_repeatable_executor_runs_again_and_with_other_tensors(gated: Context) -> None:
    source, out = gated.tensor(np.arange(4)), gated.empty((4,), "int64")
    _, executor = get_workspace_size("aclnnPlus", (source, 10, out), repeatable=True)
    assert "repeatable" in repr(executor)
    executor.run()
    assert out.numpy().tolist() == [10, 11, 12, 13]
    other, there = gated.tensor(np.arange(4) * 2), gated.empty((4,), "int64")
    executor.run(self=other, out=there)
    assert there.numpy().tolist() == [10, 12, 14, 16]
    execute("aclnnPlus", None, 0, executor, bindings={"self": out})
    assert out.numpy().tolist() == [20, 21, 22, 23]
    executor.destroy()
    executor.destroy()
    executor.run()
    with pytest.raises(AclnnError, match="executor"):
        gated.synchronize()


def test_elements_of_a_list_are_bound(gated: Context, backend: GatedBackend) -> None:
    out = gated.empty((32,), "uint8")
    parts = [gated.tensor(np.uint8(value)) for value in (1, 2, 3, 4)]
    arguments = echo(gated, tensors=parts[:2], out=out)
    _, executor = get_workspace_size("aclnnEcho", arguments, repeatable=True)
    executor.run(tensors=parts[2:])
    assert out.numpy()[2:4].tolist() == [3, 4]
    with pytest.raises(InvalidParameterError, match="has 1 tensors; phase one had 2"):
        executor.run(tensors=parts[:1])


def test_what_does_not_fit_the_plan_is_not_bound(gated: Context, gated_server: Server) -> None:
    source, out = gated.tensor(np.arange(4)), gated.empty((4,), "int64")
    _, executor = get_workspace_size("aclnnPlus", (source, 10, out), repeatable=True)
    with connect(gated_server.address) as other:
        cases: dict[str, dict[str, Any]] = {
            "plans hold": {"self": gated.empty((2, 2), "int64")},
            "another context": {"self": other.empty((4,), "int64")},
            "only a tensor": {"self": [5]},
            "has no parameter 'nothing'": {"nothing": source},
            "has 1 tensors; phase one had 0": {"other": source},
        }
        for words, tensors in cases.items():
            with pytest.raises(InvalidParameterError, match=re.escape(words)) as caught:
                executor.run(**tensors)
            assert caught.value.parameter == next(iter(tensors))


def test_a_one_shot_executor_takes_no_bindings(gated: Context) -> None:
    source, _, executor = passing(gated)
    executor.run(self=source)
    with pytest.raises(InvalidParameterError, match="not repeatable"):
        gated.default_stream.synchronize()


# --- what is left behind ----------------------------------------------------------------------------


def test_an_executor_keeps_its_tensors_until_it_is_run(gated: Context) -> None:
    out = gated.empty((4,), "int64")
    _, executor = get_workspace_size("aclnnPass", (gated.tensor(np.arange(4)), 0, out))
    gc.collect()
    gated.usage()
    executor.run()
    assert out.numpy().tolist() == [0, 1, 2, 3]
    del executor
    assert gated.usage().buffers == 1


def test_abandoned_executors_are_destroyed(gated: Context) -> None:
    for repeatable in (False, True):
        size = 4 + repeatable  # a call that is known would not be there before phase two
        source, out = gated.tensor(np.arange(size)), gated.empty((size,), "int64")
        _, executor = get_workspace_size("aclnnPass", (source, 0, out), repeatable=repeatable)
        assert gated.usage().executors == 1
        del executor
        gc.collect()
        assert gated.usage().executors == 0


def test_a_failed_phase_one_leaves_nothing(context: Context) -> None:
    out = context.empty((2,), "float32")
    with pytest.raises(AclnnError):
        ops.aclnnSmoothL1LossGetWorkspaceSize([1.0], [1.0], 9, 1.0, out)
    usage = context.usage()
    assert (usage.executors, usage.buffers) == (0, 1)
