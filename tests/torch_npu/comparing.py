"""Makes a call on the CPU and on the device, and tells where they differ."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.torch_npu.calls import EXACT, Call

DEVICE = "npu"
TOLERANCE = {
    torch.float64: 1e-6,
    torch.float32: 2e-5,
    torch.float16: 3e-3,
    torch.bfloat16: 2.4e-2,
    torch.complex64: 2e-5,
}
"""Of an element: relative to the CPU's, and in units of the mean magnitude."""


@dataclass(frozen=True)
class Outcome:
    """How a call ended; empty where the results are equal, None where there is nothing to compare."""

    forward: str = ""
    backward: str | None = None

    @property
    def good(self) -> bool:
        """Whether all that was compared is equal."""
        return not self.forward and not self.backward


def outcome(call: Call, dtype: torch.dtype) -> Outcome:
    """Compares a call's results, and its gradients where it has any."""
    expected, leaves = _make(call, dtype, "cpu")
    try:
        found, device_leaves = _make(call, dtype, DEVICE)
        forward = _difference(call, expected, found)
    except Exception as error:
        return Outcome(_line(error))
    if forward or not call.backward:
        return Outcome(forward)
    try:
        gradients = _gradients(found, device_leaves)
    except Exception as error:
        return Outcome(forward, _line(error))
    if call.random:
        return Outcome(forward, "")
    return Outcome(forward, _difference(call, _gradients(expected, leaves), gradients))


def _make(call: Call, dtype: torch.dtype, device: str) -> tuple[list[Any], list[Tensor]]:
    """The flat results of a call, and the inputs that gradients flow to."""
    generator = torch.Generator().manual_seed(zlib.crc32(call.name.encode()))
    inputs = []
    for make in call.inputs:
        tensor = make(generator)
        if tensor.is_floating_point() and call.types is not EXACT:
            tensor = tensor.to(dtype)
        inputs.append(tensor.to(device))
    leaves = [tensor for tensor in inputs if tensor.is_floating_point()]
    for leaf in leaves:
        leaf.requires_grad_(call.backward)
    return list(_flat(call.run(*inputs))), leaves


def _flat(result: object) -> Iterator[Any]:
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from _flat(part)
    else:
        yield result


def _gradients(results: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    """Gradients of the results, each weighted by numbers of its own."""
    differentiable = [result for result in results if result.requires_grad]
    weights = []
    for number, result in enumerate(differentiable):
        generator = torch.Generator().manual_seed(number)
        weight = torch.randn(result.shape, generator=generator)
        weights.append(weight.to(result.device, result.dtype))
    found = torch.autograd.grad(differentiable, leaves, weights, allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


def _difference(call: Call, expected: list[Any], found: list[Any]) -> str:
    if len(expected) != len(found):
        return f"{len(found)} results, not {len(expected)}"
    for wanted, got in zip(expected, found, strict=True):
        told = _told(call, wanted, got)
        if told:
            return told
    return ""


def _told(call: Call, wanted: Tensor | str, got: Tensor | str) -> str:
    if isinstance(wanted, str):
        # Where lines break depends on the length of the device's name.
        printed = " ".join(str(got).split()).replace(f", device='{DEVICE}:0'", "")
        return "" if printed == " ".join(wanted.split()) else f"{got!r}, not {wanted!r}"
    assert isinstance(got, Tensor)
    if got.device.type != DEVICE:
        return f"a result on {got.device}"
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{got.dtype} {tuple(got.shape)}, not {wanted.dtype} {tuple(wanted.shape)}"
    if call.random:
        return ""
    tolerance = TOLERANCE.get(wanted.dtype, 0.0) * call.slack
    got, wanted = got.detach().cpu(), wanted.detach()
    if not tolerance:
        return "" if bool((got == wanted).all()) else f"{got.tolist()}, not {wanted.tolist()}"
    scale = wanted.abs().double().mean().item() if wanted.numel() else 0.0
    wide = torch.complex128 if wanted.is_complex() else torch.float64
    off = (got.to(wide) - wanted.to(wide)).abs() - tolerance * wanted.abs().double()
    worst = off.max().item() if off.numel() else 0.0
    return "" if worst <= tolerance * scale else f"differs by {worst:.2g} at a mean of {scale:.2g}"


def _line(error: Exception) -> str:
    """The line of an exception that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "aclnn" in line] or lines or [type(error).__name__]
    return telling[-1]
