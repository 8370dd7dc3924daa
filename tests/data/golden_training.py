"""Golden vectors of what trains with scaled losses, of complex parts, and of logic in place."""

from __future__ import annotations

import torch

from tests.data.golden_record import FLOATS, case, exact, uniform


def unscaled() -> None:
    """Gradients scaled back, with and without one that is not finite."""
    for kind in FLOATS:
        for odd in (None, torch.inf, torch.nan):
            grads = [uniform(shape, kind, -4, 4) for shape in ((3, 4), (), (5,))]
            if odd is not None:
                grads[2][3] = odd
            found, inverse = torch.zeros(1), torch.full((1,), 1 / 3)
            given = {"scaledGrads": grads, "foundInf": found, "invScale": inverse}
            after = [(exact(grad) * inverse.double()).to(grad.dtype) for grad in grads]
            result = {"scaledGrads": after, "foundInf": torch.full((1,), float(odd is not None))}
            case("aclnnForeachNonFiniteCheckAndUnscale", f"{kind}-{odd}", given, result)


def scales() -> None:
    """The factor of losses, as torch.amp changes it."""
    for overflow in (0.0, 1.0):
        for good in (3, 6):
            scale, count = torch.full((1,), 3.0), torch.full((1,), good, dtype=torch.int32)
            found = torch.full((1,), overflow)
            given = {"currentScale": scale, "growthTracker": count, "foundInf": found}
            numbers = {"growthFactor": 1.5, "backoffFactor": 0.3, "growthInterval": 7}
            after, counted = scale.clone(), count.clone()
            torch._amp_update_scale_(after, counted, found, 1.5, 0.3, 7)
            result = {"updatedScaleOut": after, "updatedGrowthTrackerOut": counted}
            case("aclnnAmpUpdateScale", f"{good}-{overflow:g}", given | numbers, result)


def logic_in_place() -> None:
    """Truth values that are written in their own type."""
    for kind in (*FLOATS, "INT32", "BOOL"):
        x, y = uniform((3, 4), kind, 0, 3), uniform((4,), kind, 0, 3)
        if x.is_floating_point():
            x, y = x.round(), y.round()
        for name, out in (
            ("And", x.clone().logical_and_(y)),
            ("Or", x.clone().logical_or_(y)),
        ):
            case(
                f"aclnnInplaceLogical{name}", kind, {"selfRef": x, "other": y}, {"selfRef": out}, 0
            )
        out = x.clone().logical_not_()
        case("aclnnInplaceLogicalNot", kind, {"selfRef": x}, {"selfRef": out}, 0)


def of_parts() -> None:
    """Complex numbers of parts that broadcast."""
    real, imag = uniform((3, 1, 4), "FLOAT", -4, 4), uniform((2, 1), "FLOAT", -4, 4)
    out = torch.complex(*torch.broadcast_tensors(real, imag))
    case("aclnnComplex", "FLOAT", {"real": real, "imag": imag}, {"out": out}, 0)


FAMILIES = (unscaled, scales, of_parts, logic_in_place)
