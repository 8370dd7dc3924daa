"""Work is shared between threads, and its failures come back."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

from aclnn_server.operators.engines.threads import ALIGNMENT, Scratch, Threads, scratch_bytes


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("blocks", [0, 1, 3, 4, 100])
def test_every_block_is_computed_once(count: int, blocks: int) -> None:
    threads = Threads(count)
    done: list[int] = []
    threads.run(lambda scratch, number: done.append(number), blocks, 1000)
    assert sorted(done) == list(range(blocks))
    threads.close()


def test_computations_one_after_the_other_share_what_they_begin_with() -> None:
    threads = Threads(2)
    seen: list[Scratch] = []

    def compute(scratch: Scratch, number: int) -> None:
        assert scratch.mark() == 0
        scratch.take((100,), np.dtype(np.uint8))
        assert np.isinf(np.float32(1) / np.float32(0))  # and nothing is told of it
        seen.append(scratch)

    with warnings.catch_warnings(), threads.kept() as kept:
        warnings.simplefilter("error")
        for size in (1000, 500, 100_000, 1000):
            kept.run(compute, 1, size)
            assert seen[-1].capacity >= size
        assert seen[0] is seen[1]
        assert seen[2] is seen[3]
        done: list[int] = []
        kept.run(lambda scratch, number: done.append(number), 8, 1000)
    assert sorted(done) == list(range(8))
    threads.run(compute, 1, 1000)
    assert seen[4] in seen[:4]  # it was given back
    threads.close()


def test_a_computation_that_is_not_wanted_any_more_ends_before_the_next() -> None:
    threads = Threads(1)
    done: list[int] = []

    def check() -> None:
        if len(done) == 2:
            raise KeyError("enough")

    with threads.asking(check).kept() as kept:
        for _ in range(2):
            kept.run(lambda scratch, number: done.append(number), 1, 0)
        with pytest.raises(KeyError, match="enough"):
            kept.run(lambda scratch, number: done.append(number), 1, 0)
    assert done == [0, 0]
    threads.close()


def test_several_threads_work_at_a_time() -> None:
    threads = Threads(3)
    together = threading.Barrier(3, timeout=30)
    names = set()

    def compute(scratch: Scratch, number: int) -> None:
        names.add(threading.current_thread().name)
        together.wait()

    threads.run(compute, 6, 1000)
    assert len(names) == 3
    threads.close()


def test_calls_from_many_threads_do_not_wait_for_each_other() -> None:
    threads = Threads(2)
    started, finish = threading.Semaphore(0), threading.Event()

    def wait(scratch: Scratch, number: int) -> None:
        started.release()
        assert finish.wait(30)

    def run() -> None:
        threads.run(wait, 4, 1000)

    other = threading.Thread(target=run)
    other.start()
    for _ in range(2):
        assert started.acquire(timeout=30)
    done: list[int] = []
    threads.run(lambda scratch, number: done.append(number), 8, 1000)
    assert sorted(done) == list(range(8))
    finish.set()
    other.join()
    threads.close()


@pytest.mark.parametrize("count", [1, 3])
def test_failure_of_a_block_is_the_callers(count: int) -> None:
    threads = Threads(count)

    def fail(scratch: Scratch, number: int) -> None:
        raise ArithmeticError("block")

    with pytest.raises(ArithmeticError, match="block"):
        threads.run(fail, 8, 1000)
    threads.close()


def test_floating_point_warnings_are_off_in_every_thread() -> None:
    threads = Threads(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads.run(lambda scratch, number: np.divide(np.float32(1), np.float32(0)), 9, 1000)
    threads.close()


def test_scratch_arrays_are_aligned_and_apart() -> None:
    scratch = Scratch(3 * scratch_bytes(4 * 1000))
    first = scratch.take((10, 100), np.dtype(np.float32))
    second = scratch.like(first)
    mark = scratch.mark()
    third = scratch.like(first)
    for value, array in enumerate((first, second, third)):
        array[...] = value
        assert array.ctypes.data % ALIGNMENT == 0
    assert (first == 0).all()
    assert (second == 1).all()
    scratch.rewind(mark)
    assert scratch.like(first).ctypes.data == third.ctypes.data


def test_scratch_refuses_more_than_its_capacity() -> None:
    scratch = Scratch(scratch_bytes(100))
    with pytest.raises(TypeError):
        scratch.take((10_000,), np.dtype(np.float32))


def test_scratch_is_used_again() -> None:
    threads = Threads(1)
    places = set()

    def note(scratch: Scratch, number: int) -> None:
        places.add(scratch.take((10,), np.dtype(np.float32)).ctypes.data)

    for size in (1000, 500, 1000):
        threads.run(note, 2, size)
    assert len(places) == 1
    threads.close()


@pytest.mark.parametrize("count", [1, 3])
def test_a_computation_that_is_not_wanted_any_more_ends_between_two_blocks(count: int) -> None:
    threads = Threads(count)
    left = iter(range(10))
    one_at_a_time = threading.Lock()
    done: list[int] = []

    def check() -> None:
        with one_at_a_time:
            if next(left, None) is None:
                raise KeyError("not wanted")

    asking = threads.asking(check)
    with pytest.raises(KeyError, match="not wanted"):
        asking.run(lambda scratch, number: done.append(number), 1000, 100)
    assert len(done) == 10
    threads.run(lambda scratch, number: done.append(number), 1000, 100)  # nobody asks these
    assert len(done) == 1010
    threads.close()
