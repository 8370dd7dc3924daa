"""Arithmetic, reductions, matrices, shapes, indexing and creation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.torch_npu.calls import (
    EXACT,
    FLOAT,
    Call,
    apart,
    none,
    normal,
    positive,
    truth,
    unit,
    whole,
)


def _in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y.add_(1).mul_(2)
    y[0].zero_()
    y[1].fill_(3)
    return y


def _index_put(x: Tensor, where: Tensor, values: Tensor) -> Tensor:
    y = x.clone()
    y[where] = values
    return y


def _scatter_add(x: Tensor, where: Tensor, values: Tensor) -> Tensor:
    return x.scatter_add(0, where, values)


def _item(x: Tensor) -> Tensor:
    assert bool((x > 1e4).any()) is False
    assert x.tolist() == x.cpu().tolist()
    return torch.tensor(x.sum().item(), device=x.device)


def _printed(x: Tensor) -> list[str]:
    return [str(x), str(x[:, 0]), str(x > 0), str(x.to(torch.int64))]


def _regular(x: Tensor) -> Tensor:
    return torch.linalg.inv(x @ x.mT + 4 * torch.eye(x.shape[0], device=x.device))


def _to(dtype: torch.dtype) -> Any:  # noqa: ANN401 - a call
    return lambda x: x.to(dtype)


ARITHMETIC = (
    Call("a + b", torch.add, (normal(4, 5), normal(4, 5))),
    Call("a + b with other shapes", torch.add, (normal(4, 5), normal(5))),
    Call("a - b", torch.sub, (normal(4, 5), normal(4, 5))),
    Call("a * b", torch.mul, (normal(4, 5), normal(4, 5))),
    Call("a / b", torch.div, (normal(4, 5), positive(4, 5))),
    Call("a + 1", lambda x: x + 1, (normal(4, 5),)),
    Call("a * 2", lambda x: x * 2, (normal(4, 5),)),
    Call("1 - a", lambda x: 1 - x, (normal(4, 5),)),
    Call("2 / a", lambda x: 2 / x, (positive(4, 5),)),
    Call("a // 0.7", lambda x: x // 0.7, (normal(4, 5),), FLOAT, backward=False),
    Call("a % 0.7", lambda x: x % 0.7, (normal(4, 5),), FLOAT, backward=False),
    Call("a ** 2, a ** b, 2 ** a", lambda x, y: (x**2, x**y, 2**y), (positive(4, 5), unit(4, 5))),
    Call("torch.exp", torch.exp, (normal(4, 5),)),
    Call("torch.log", torch.log, (positive(4, 5),)),
    Call("torch.sqrt", torch.sqrt, (positive(4, 5),)),
    Call("torch.rsqrt", torch.rsqrt, (positive(4, 5),)),
    Call("torch.sin", torch.sin, (normal(4, 5),)),
    Call("torch.cos", torch.cos, (normal(4, 5),)),
    Call("torch.abs", torch.abs, (normal(4, 5),)),
    Call("-a", torch.neg, (normal(4, 5),)),
    Call(
        "torch.sign, round, floor",
        lambda x: (x.sign(), x.round(), x.floor()),
        (normal(4, 5),),
        backward=False,
    ),
    Call("torch.clamp", lambda x: x.clamp(-0.5, 0.5), (normal(4, 5),)),
    Call("torch.clamp(min=)", lambda x: x.clamp_min(0.1), (normal(4, 5),)),
    Call("torch.addcmul", torch.addcmul, (normal(4, 5), normal(4, 5), normal(4, 5))),
    Call("torch.lerp", lambda x, y: torch.lerp(x, y, 0.3), (normal(4, 5), normal(4, 5))),
    Call("add_, mul_, zero_, fill_", _in_place, (normal(4, 5),), backward=False),
    Call(
        "<, ==, !=",
        lambda x, y: (x < 0.5, x == x.abs(), x != y),
        (normal(4, 5), normal(4, 5)),
        backward=False,
    ),
    Call("&, |, ~", lambda x: (x > 0) & (x < 1) | ~(x > -1), (normal(4, 5),), backward=False),
    Call("torch.isnan", torch.isnan, (normal(4, 5),), backward=False),
    Call("torch.where", lambda x, y: torch.where(x > 0, x, y), (normal(4, 5), normal(4, 5))),
    Call("int + 1", lambda x: x + 1, (whole(-9, 9, 4, 5),), EXACT, backward=False),
    Call("complex * 2", lambda x: torch.complex(x, x) * 2, (normal(4, 5),), FLOAT, backward=False),
    Call("float64 + 1", lambda x: x + 1, (normal(4, 5),), (torch.float64,), backward=False),
    Call("Tensor.half()", _to(torch.float16), (normal(4, 5),), FLOAT),
    Call("Tensor.bfloat16()", _to(torch.bfloat16), (normal(4, 5),), FLOAT),
)

REDUCTIONS = (
    Call("torch.sum", torch.sum, (normal(4, 5),)),
    Call("torch.sum(dim=)", lambda x: x.sum(1), (normal(4, 5),)),
    Call("torch.mean(dim=)", lambda x: x.mean(0), (normal(4, 5),)),
    Call("torch.var", torch.var, (normal(4, 5),)),
    Call("torch.std", torch.std, (normal(4, 5),), backward=False),
    Call("torch.norm", torch.linalg.vector_norm, (normal(4, 5),)),
    Call("torch.prod", torch.prod, (positive(2, 3),), backward=False),
    Call(
        "torch.all, any", lambda x: ((x > 0).all(), (x > 0).any()), (normal(4, 5),), backward=False
    ),
    Call("torch.amax", lambda x: x.amax(1), (apart(4, 5),)),
    Call("torch.max(dim=)", lambda x: x.max(1), (apart(4, 5),)),
    Call("torch.max, min", lambda x: (x.max(), x.min()), (apart(4, 5),), backward=False),
    Call("torch.argmax", torch.argmax, (apart(4, 5),), backward=False),
    Call("torch.argmax(dim=)", lambda x: x.argmax(1), (apart(4, 5),), backward=False),
    Call("torch.logsumexp", lambda x: x.logsumexp(1), (normal(4, 5),)),
    Call("torch.cumsum", lambda x: x.cumsum(1), (normal(4, 5),)),
    Call("torch.histc", lambda x: torch.histc(x, 4, 0, 1), (unit(40),), FLOAT, backward=False),
    Call("torch.bincount", torch.bincount, (whole(0, 6, 20),), EXACT, backward=False),
)

MATRICES = (
    Call("a @ b", torch.matmul, (normal(4, 5), normal(5, 3))),
    Call("a @ b of 3 and 2 dimensions", torch.matmul, (normal(2, 4, 5), normal(5, 3))),
    Call("torch.bmm", torch.bmm, (normal(2, 4, 5), normal(2, 5, 3))),
    Call(
        "torch.einsum",
        lambda x, y: torch.einsum("bij,bjk->bik", x, y),
        (normal(2, 4, 5), normal(2, 5, 3)),
    ),
    Call("torch.baddbmm", torch.baddbmm, (normal(2, 4, 3), normal(2, 4, 5), normal(2, 5, 3))),
    Call("torch.outer", torch.outer, (normal(4), normal(5))),
    Call("torch.dot", torch.dot, (normal(5), normal(5))),
    Call("torch.mv", torch.mv, (normal(4, 5), normal(5))),
    Call("torch.cdist", torch.cdist, (normal(4, 5), normal(3, 5)), FLOAT, backward=False),
    Call("torch.linalg.inv", _regular, (normal(4, 4),), FLOAT, backward=False, slack=10),
    Call("torch.fft.fft", torch.fft.fft, (normal(2, 8),), FLOAT, backward=False, slack=10),
)

SHAPES = (
    Call("torch.cat", lambda x, y: torch.cat((x, y), 1), (normal(4, 5), normal(4, 2))),
    Call("torch.stack", lambda x, y: torch.stack((x, y)), (normal(4, 5), normal(4, 5))),
    Call("torch.split", lambda x: torch.split(x, 2), (normal(4, 5),)),
    Call("torch.flip", lambda x: x.flip(1), (normal(4, 5),)),
    Call("Tensor.repeat", lambda x: x.repeat(2, 3), (normal(4, 5),)),
    Call("Tensor.expand(…).contiguous()", lambda x: x.expand(4, 5).contiguous(), (normal(4, 1),)),
    Call("Tensor.permute(…).contiguous()", lambda x: x.mT.contiguous(), (normal(4, 5),)),
    Call("torch.triu, tril", lambda x: (x.triu(1), x.tril()), (normal(4, 5),)),
    Call("torch.roll", lambda x: x.roll(2, 1), (normal(4, 5),)),
)

INDEXING = (
    Call("a[index]", lambda x, i: x[i], (normal(6, 5), whole(0, 6, 4))),
    Call("a[mask]", lambda x, mask: x[mask], (normal(4, 5), truth(4, 5)), backward=False),
    Call("a[index] = b", _index_put, (normal(6, 5), lambda _: torch.tensor([4, 1]), normal(2, 5))),
    Call("torch.gather", lambda x, i: x.gather(1, i), (normal(4, 5), whole(0, 5, 4, 3))),
    Call("Tensor.scatter_add", _scatter_add, (normal(4, 5), whole(0, 4, 3, 5), normal(3, 5))),
    Call("torch.index_select", lambda x, i: x.index_select(0, i), (normal(6, 5), whole(0, 6, 4))),
    Call("torch.topk", lambda x: x.topk(3), (apart(4, 9),)),
    Call("torch.sort", torch.sort, (apart(4, 9),)),
    Call("torch.nonzero", torch.nonzero, (truth(4, 5),), EXACT, backward=False),
    Call("torch.unique", torch.unique, (whole(0, 5, 20),), EXACT, backward=False),
    Call("item, tolist, bool", _item, (normal(4, 5),), FLOAT, backward=False),
    Call("print", _printed, (normal(4, 5),), backward=False),
)

CREATION = (
    Call(
        "torch.zeros, ones, full",
        lambda x: (
            torch.zeros(3, device=x.device),
            torch.ones(3, device=x.device),
            torch.full((3,), 7, device=x.device),
        ),
        (none,),
        FLOAT,
        backward=False,
    ),
    Call(
        "torch.arange", lambda x: torch.arange(7, device=x.device), (none,), FLOAT, backward=False
    ),
    Call(
        "torch.linspace",
        lambda x: torch.linspace(0, 1, 7, device=x.device),
        (none,),
        FLOAT,
        backward=False,
    ),
    Call("torch.eye", lambda x: torch.eye(3, 4, device=x.device), (none,), FLOAT, backward=False),
    Call("torch.randn", torch.randn_like, (normal(9, 5),), backward=False, random=True),
    Call("torch.rand", torch.rand_like, (normal(9, 5),), backward=False, random=True),
    Call(
        "torch.randint",
        lambda x: torch.randint(0, 9, (20,), device=x.device),
        (none,),
        FLOAT,
        backward=False,
        random=True,
    ),
    Call(
        "torch.randperm",
        lambda x: torch.randperm(9, device=x.device),
        (none,),
        FLOAT,
        backward=False,
        random=True,
    ),
    Call("torch.bernoulli", torch.bernoulli, (unit(9, 5),), FLOAT, backward=False, random=True),
    Call(
        "torch.multinomial",
        lambda x: torch.multinomial(x, 3),
        (unit(9, 5),),
        FLOAT,
        backward=False,
        random=True,
    ),
)

GROUPS = (ARITHMETIC, REDUCTIONS, MATRICES, SHAPES, INDEXING, CREATION)
