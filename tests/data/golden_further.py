"""Golden vectors of what PyTorch prints, selects, orders and draws with."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.data.golden_record import FLOATS, INTEGERS, NAMES, case, uniform

NUMBERS = (*FLOATS, "DOUBLE", *INTEGERS)


def _padded(found: Tensor, size: int) -> Tensor:
    """A result in an output that is larger, filled as the tests fill outputs."""
    filling = {"BOOL": 1, "UINT8": 77}.get(NAMES[found.dtype], -77)
    rest = torch.full((size - found.numel(),), filling, dtype=found.dtype)
    return torch.cat([found.reshape(-1), rest])


def selected() -> None:
    """What a mask selects, and what is not 0."""
    for kind in (*NUMBERS, "BOOL"):
        x, mask = uniform((3, 1, 4), kind, -9, 9), uniform((2, 1), "BOOL")
        out = _padded(torch.masked_select(x, mask), 24)
        case("aclnnMaskedSelect", kind, {"self": x, "mask": mask}, {"out": out}, 0)
        x = torch.where(uniform((3, 5), "BOOL"), uniform((3, 5), kind, 1, 9), 0).to(x.dtype)
        found = torch.nonzero(x)
        for operator, result in (("Nonzero", found), ("NonzeroV2", found.T.contiguous())):
            shape = (15, 2) if operator == "Nonzero" else (2, 15)
            out = _padded(result, 30).reshape(shape)
            case(f"aclnn{operator}", kind, {"self": x}, {"out": out}, 0)


FAMILIES = (selected,)
