"""Every call that docs/pytorch.md says works gives what it gives on the CPU."""

from __future__ import annotations

import functools
import re

import pytest
import torch

from tests.torch_npu.comparing import outcome
from tests.torch_npu.table import BEGIN, CALLS, END, PAGE, TYPES

LEAST = 155
"""Calls that work in all of their types; never fewer."""


@functools.cache
def documented() -> dict[str, tuple[str, str]]:
    """The cells of each call in the page's table."""
    table = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    rows = re.findall(r"^\| `(.*)` \| (.*) \| (.*) \|$", table, re.M)
    return {name.replace("\\|", "|"): (forward, backward) for name, forward, backward in rows}


def claimed(cell: str) -> set[str]:
    """The element types that a cell says are equal."""
    equal = "" if cell.startswith("not ") else cell.split("; not ")[0]
    return {word for word in equal.split(", ") if word}


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str) -> None:
    call = CALLS[name]
    forward, backward = (claimed(cell) for cell in documented()[name])
    outcomes = {TYPES[dtype]: outcome(call, dtype) for dtype in call.types}
    assert {
        word: one.forward for word, one in outcomes.items() if word in forward and one.forward
    } == {}
    assert {
        word: one.backward for word, one in outcomes.items() if word in backward and one.backward
    } == {}


def test_what_the_page_says() -> None:
    """Rows are the table's, and most of them work in all of their types."""
    assert list(documented()) == list(CALLS)
    whole = [
        name for name, cells in documented().items() if not any("not " in cell for cell in cells)
    ]
    told = re.search(r"^(\d+) of (\d+) calls", PAGE.read_text(encoding="utf-8"), re.M)
    assert told is not None
    assert (int(told[1]), int(told[2])) == (len(whole), len(CALLS))
    assert len(whole) >= LEAST


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("beta", [0.5, 1.0, 0.0])
def test_smooth_l1_loss(reduction: str, beta: float) -> None:
    generator = torch.Generator().manual_seed(3)
    x, target = torch.randn(2, 5, 7, generator=generator)
    x[0], target[0] = 1.5, 1.5  # where they are equal

    def both(device: str) -> list[torch.Tensor]:
        leaf = x.detach().to(device).requires_grad_()
        loss = torch.nn.functional.smooth_l1_loss(
            leaf, target.to(device), reduction=reduction, beta=beta
        )
        loss.sum().backward()
        assert leaf.grad is not None
        return [loss.detach().cpu(), leaf.grad.cpu()]

    torch.testing.assert_close(both("npu"), both("cpu"), rtol=1e-6, atol=1e-7)


def test_random_numbers_are_those_of_their_seed() -> None:
    def drawn(seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        ones = torch.ones(4000, device="npu")
        found = [
            torch.randn(4000, device="npu"),
            torch.rand(4000, device="npu"),
            torch.randint(0, 10, (4000,), device="npu").float(),
            torch.bernoulli(ones * 0.3),
            torch.nn.functional.dropout(ones, 0.25),
            torch.randperm(4000, device="npu").float(),
        ]
        return [tensor.cpu() for tensor in found]

    first, again, other = drawn(1), drawn(1), drawn(2)
    for one, same, different in zip(first, again, other, strict=True):
        assert torch.equal(one, same)
        assert not torch.equal(one, different)
    normal, uniform, whole, coin, dropped, order = first
    # Six standard errors of each mean.
    for sample, mean, deviation in (
        (normal, 0.0, 1.0),
        (uniform, 0.5, 12**-0.5),
        (whole, 4.5, 8.25**0.5),
        (coin, 0.3, 0.21**0.5),
        (dropped, 1.0, (1 / 3) ** 0.5),
    ):
        assert sample.mean().item() == pytest.approx(mean, abs=6 * deviation / 4000**0.5)
        assert sample.std().item() == pytest.approx(deviation, rel=0.1)
    assert sorted(set(dropped.tolist())) == pytest.approx([0, 4 / 3])
    assert torch.equal(order.sort().values, torch.arange(4000.0))


def test_two_draws_differ() -> None:
    torch.manual_seed(1)
    assert not torch.equal(torch.randn(9, device="npu").cpu(), torch.randn(9, device="npu").cpu())
