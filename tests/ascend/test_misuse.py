"""The double ends a process that breaks a rule; only then do the other tests prove anything."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ascend import misuse

MESSAGES = {
    "wrong_handle_type": "aclDestroyTensor: wrong handle type: aclScalar, where aclTensor is expected",
    "no_handle_at_all": "aclDestroyTensor: 0x.* is no handle",
    "double_destroy": "aclDestroyTensor: aclTensor was destroyed before, by aclDestroyTensor",
    "element_destroyed_after_its_list": "aclTensor was destroyed before, by aclDestroyTensorList",
    "element_destroyed_before_its_list": "the tensor belongs to a list, which destroys it",
    "executor_used_twice": "aclnnRelu: aclOpExecutor was destroyed before, by aclnnRelu",
    "executor_of_another_operator": "aclnnMul: the executor was planned for aclnnRelu",
    "executor_leaked": "aclrtResetDevice: 1 live executors are left",
    "tensor_destroyed_between_the_phases": "belongs to an executor between its two phases",
    "workspace_too_small": "aclnnScratch: workspace too small: 1535 bytes, 1536 were planned",
    "use_of_freed_memory": "is not in live memory: freed, or never allocated",
    "free_while_work_is_queued": "aclrtFree: memory is freed that queued work uses",
    "double_free": "is not the start of live device memory",
    "write_past_the_end": "32 bytes reach past the end of an allocation of 8",
    "call_from_a_thread_without_context": "aclrtMalloc: called from a thread without context",
    "stream_of_another_device": "stream of device 0 on a thread of device 1",
    "copy_back_without_waiting": "aclrtMemcpy: synchronise is missing before a copy",
    "asynchronous_copy_of_pageable_memory": "source of an asynchronous copy",
    "host_memory_changed_too_early": "the host's memory was changed before the copy was done",
    "event_destroyed_while_needed": "aclrtDestroyEvent: queued work still needs the event",
    "address_that_is_not_aligned": "is not a multiple of 32",
    "finalize_before_reset": "aclFinalize: wrong order at shutdown: device 0 was not reset",
    "reset_before_streams_are_destroyed": "aclrtResetDevice: 1 live streams are left",
    "call_after_finalize": "aclrtSetDevice: called before aclInit or after aclFinalize",
    "finalize_twice": "aclFinalize: called a second time",
}


Ends = dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def ends(home: Path, project: Path) -> Ends:
    """How each program ended: exit status, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", misuse.__name__, str(home), *MESSAGES, "nothing_wrong"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    return {name: (status, said) for name, (status, said) in json.loads(done.stdout).items()}


@pytest.mark.parametrize("name", MESSAGES)
def test_ends_the_process(ends: Ends, name: str) -> None:
    status, said = ends[name]
    assert os.WIFSIGNALED(status), said
    assert os.WTERMSIG(status) == signal.SIGABRT, said
    assert said.startswith("fake CANN: ")
    assert re.search(MESSAGES[name], said), said


def test_what_is_right_is_let_through(ends: Ends) -> None:
    assert ends["nothing_wrong"] == (0, "")
