"""Complex numbers of their parts: in strides, over the memory of a part, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.calling import call, device
from tests.operators.test_movement import refusal


@pytest.mark.parametrize("threads", [1, 2])
def test_parts_in_strides(threads: int) -> None:
    real = np.arange(600 * 500, dtype=np.float32).reshape(500, 600).T[::2]
    imag = -np.arange(500, dtype=np.float32)
    out = np.zeros((500, 600), np.complex64)[:, ::2].T
    call("aclnnComplex", real, imag, out, on=device(threads))
    np.testing.assert_array_equal(out, real + 1j * imag)


def test_over_the_memory_of_its_parts() -> None:
    out = np.zeros(6, np.complex128)
    parts = out.view(np.float64)
    parts[:] = range(12)
    call("aclnnComplex", parts[3:9], parts[::2], out)
    assert out.tolist() == [complex(n + 3, 2 * n) for n in range(6)]


def test_nothing_and_a_single_number() -> None:
    call("aclnnComplex", np.zeros((0, 2)), np.zeros(2), np.zeros((0, 2), np.complex128))
    one = np.zeros((), np.complex64)
    call("aclnnComplex", np.array(2, np.float32), np.array(3, np.float32), one)
    assert one == 2 + 3j


def test_what_is_refused() -> None:
    part, whole = np.zeros(2, np.float32), np.zeros(2, np.complex64)
    assert refusal("aclnnComplex", part, part.astype(np.float64), whole) == (161002, "imag")
    assert refusal("aclnnComplex", part, part, whole.astype(np.complex128)) == (161002, "out")
    assert refusal("aclnnComplex", part, part[:1], whole[:1]) == (161002, "out")
