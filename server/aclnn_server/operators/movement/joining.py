"""Operators that join a list of tensors into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from aclnn import codes, dtypes
from aclnn.dtypes import DType
from aclnn.errors import NullPointerError
from aclnn.promotion import can_cast, promote
from aclnn.pythonic import Result
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import Holds
from aclnn_server.operators.checking.layout_checks import ALL, BASIC, WIDE_UNSIGNED, dimension
from aclnn_server.operators.definition import Call, Check, Family, OneLine, Work
from aclnn_server.operators.engines.concatenation import Part, join, with_place
from aclnn_server.operators.engines.copies import Step, copy, movement
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.views import selected, sliced
from aclnn_server.operators.products import ASCEND950, REFERENCE

JOINING = Family()

_CAT = (*BASIC, dtypes.COMPLEX64, *WIDE_UNSIGNED)
_LIMIT = 8


@dataclass(frozen=True, slots=True)
class _Part:
    """One tensor of the list that counts."""

    position: int
    spec: TensorSpec


def _all(call: Call) -> list[_Part]:
    return [_Part(position, spec) for position, spec in enumerate(call["tensors"])]


def _counting(call: Call) -> list[_Part]:
    """The tensors of aclnnCat that count: others have the shape [0], and join any."""
    return [part for part in _all(call) if part.spec.shape != (0,)]


# --- checks of both ---------------------------------------------------------------------------------


def _check_null(call: Call, code: int) -> None:
    for name in ("tensors", "out"):
        if call[name] is None:
            raise call.invalid(name, f"{name} is a null pointer", NullPointerError, code)


@dataclass(frozen=True, slots=True)
class _ListTypes:
    """The types of the tensors and of out are in a list."""

    allowed: tuple[DType, ...]
    only_950: tuple[DType, ...] = ()
    """Those that Ascend 950, and the reference, alone have."""
    code: ClassVar[int] = codes.ACLNN_ERR_PARAM_INVALID

    @property
    def dtypes(self) -> dict[str, tuple[DType, ...]]:
        """Element types that the reference allows, by parameter."""
        return dict.fromkeys(("tensors", "out"), self.allowed)

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        allowed = call.product.allowed(self.allowed)
        if call.product not in (REFERENCE, ASCEND950):
            allowed = tuple(dtype for dtype in allowed if dtype not in self.only_950)
        names = [(f"tensors[{part.position}]", part.spec) for part in _all(call)]
        for name, spec in (*names, ("out", call.tensor("out"))):
            if spec.dtype not in allowed:
                raise call.invalid(
                    name.partition("[")[0],
                    f"{name} is {spec.dtype}; allowed are {', '.join(map(str, allowed))}",
                )

    @property
    def rule(self) -> str:
        """What must hold."""
        more = f", {', '.join(map(str, self.only_950))} on Ascend 950 only" if self.only_950 else ""
        return f"the types of tensors and out are among {', '.join(map(str, self.allowed))}{more}"


def _promoted(call: Call) -> DType:
    types = [spec.dtype for spec in call["tensors"]]
    found = promote(*types)
    if found is None:
        raise call.invalid(
            "tensors", f"tensors are {', '.join(map(str, types))}, which meet in no common type"
        )
    return found


def _check_promoted(call: Call) -> None:
    promoted, out = _promoted(call), call.tensor("out").dtype
    if not can_cast(promoted, out):
        raise call.invalid(
            "out", f"out is {out}, to which {promoted}, the common type of tensors, does not cast"
        )


def _check_alike(call: Call, parts: Sequence[_Part], except_dim: int | None) -> None:
    """Checks that shapes are equal but for one dimension."""
    first = _without(parts[0].spec.shape, except_dim)
    for part in parts[1:]:
        shape = part.spec.shape
        if len(shape) != len(parts[0].spec.shape) or _without(shape, except_dim) != first:
            but = "" if except_dim is None else f" but for dimension {except_dim}"
            raise call.invalid(
                "tensors",
                f"tensors[{part.position}] has shape {list(shape)}; it must be as "
                f"{list(parts[0].spec.shape)} of tensors[{parts[0].position}]{but}",
            )


def _without(shape: Shape, dim: int | None) -> Shape:
    return shape if dim is None else shape[:dim] + shape[dim + 1 :]


def _check_rank(call: Call, part: _Part) -> None:
    if len(part.spec.shape) > _LIMIT:
        raise call.invalid(
            "tensors",
            f"tensors[{part.position}] has {len(part.spec.shape)} dimensions; allowed are {_LIMIT}",
        )


def _check_joined(call: Call, expected: Shape, code: int) -> None:
    out = call.tensor("out")
    if out.shape != expected:
        raise call.invalid(
            "out",
            f"out has shape {list(out.shape)}; it must have {list(expected)}, that of tensors joined",
            code=code,
        )


# --- aclnnCat ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _UnlessNothing:
    """A check of aclnnCat, which is skipped where no tensor of the list counts."""

    check: Check

    @property
    def rule(self) -> str:
        """What must hold."""
        return self.check.rule

    @property
    def code(self) -> int:
        """Code of the failure."""
        return self.check.code

    @property
    def dtypes(self) -> dict[str, tuple[DType, ...]]:
        """Element types that the reference allows, by parameter."""
        return getattr(self.check, "dtypes", {})

    def __call__(self, call: Call) -> None:
        """Raises the error where the rule does not hold."""
        if call["tensors"] is None or _counting(call):
            self.check(call)


def _check_cat_promotion(call: Call) -> None:
    if _promoted(call) is dtypes.COMPLEX128:
        raise call.invalid("tensors", "tensors meet in COMPLEX128, which aclnnCat does not join")
    _check_promoted(call)


def _check_formats(call: Call) -> None:
    first = _counting(call)[0].spec.format
    for spec in (*(part.spec for part in _counting(call)), call.tensor("out")):
        if not spec.format.plain or spec.format is not first:
            raise call.invalid(
                "tensors", f"tensors and out have formats {first.name} and {spec.format.name}"
            )


def _check_cat_shapes(call: Call) -> None:
    parts = _counting(call)
    _check_rank(call, parts[0])
    if not parts[0].spec.shape:
        raise call.invalid("tensors", "tensors have no dimension along which to join them")
    dim = dimension(call, "dim", len(parts[0].spec.shape), "tensors")
    _check_alike(call, parts, dim)


def _check_cat_output(call: Call) -> None:
    full = [part for part in _counting(call) if part.spec.elements]
    if not full:
        return
    shape = full[0].spec.shape
    dim = dimension(call, "dim", len(shape), "tensors")
    size = sum(part.spec.shape[dim] for part in full)
    code = codes.ACLNN_ERR_INNER_NULLPTR if len(full) == 1 else codes.ACLNN_ERR_PARAM_INVALID
    _check_joined(call, (*shape[:dim], size, *shape[dim + 1 :]), code)


def _null_cat(call: Call) -> None:
    _check_null(call, codes.ACLNN_ERR_PARAM_NULLPTR)


@JOINING.operator(
    """
    aclnnStatus aclnnCatGetWorkspaceSize(
        const aclTensorList* tensors, int64_t dim, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=tuple(
        _UnlessNothing(check)
        for check in (
            Holds("tensors and out are not null", _null_cat, codes.ACLNN_ERR_PARAM_NULLPTR),
            _ListTypes(_CAT, only_950=WIDE_UNSIGNED),
            Holds("tensors meet in a common type, which casts to out", _check_cat_promotion),
            Holds("tensors and out have the same plain format", _check_formats),
            Holds("shapes are equal but for dim, a dimension", _check_cat_shapes),
            Holds("out has the joined shape", _check_cat_output),
        )
    ),
    python=OneLine("cat", {"dim": 0}, result=Result("joined")),
)
def cat(call: Call) -> Work:
    """Joins tensors along a dimension that they have.

    out is tensors[0], tensors[1] and so on, one after the other along dim, which counts from the end
    where it is below 0.

    - Tensors of the shape [0] are passed over, whatever their type; if all are, nothing is checked.
    - Elements are cast to the common type of all tensors, then to that of out.
    - UINT16, UINT32 and UINT64 are for Ascend 950.

    Source: host code of aclnnCat (hicann/ops-math, conversion/concat_d).
    """
    parts = [part for part in _counting(call) if part.spec.elements]
    if not parts:
        return movement("out", call["out"] or _NOTHING, [])
    dim = dimension(call, "dim", len(parts[0].spec.shape), "tensors")
    out, place, steps = call.tensor("out"), 0, list[Step | None]()
    if together := _together(call, [(part.position, part.spec) for part in parts], dim):
        return movement("out", out, [together])
    for part in parts:
        size = part.spec.shape[dim]
        steps.append(_join(call, part, sliced(out, dim, place, size)))
        place += size
    return movement("out", out, steps)


def _together(call: Call, parts: Sequence[Part], dim: int) -> Step | None:
    """Plans all at once, where that is possible and worth it."""
    out = call.tensor("out")
    return join("tensors", parts, out, dim) if _promoted(call) is out.dtype else None


_NOTHING = TensorSpec.contiguous((0,), dtypes.FLOAT)


def _join(call: Call, part: _Part, target: TensorSpec) -> Step | None:
    source = ("tensors", part.spec)
    return copy(source, ("out", target), via=_promoted(call), item=part.position)


# --- aclnnStack -------------------------------------------------------------------------------------


def _null_stack(call: Call) -> None:
    _check_null(call, codes.ACLNN_ERR_INNER_NULLPTR)
    if not call["tensors"]:
        raise call.invalid("tensors", "tensors is an empty list")


def _check_stack_shapes(call: Call) -> None:
    parts = _all(call)
    _check_rank(call, parts[0])
    dimension(call, "dim", len(parts[0].spec.shape) + 1, "out")
    _check_alike(call, parts, None)


def _check_stack_output(call: Call) -> None:
    shape = _all(call)[0].spec.shape
    if 0 not in shape:
        dim = dimension(call, "dim", len(shape) + 1, "out")
        stacked = (*shape[:dim], len(call["tensors"]), *shape[dim:])
        _check_joined(call, stacked, codes.ACLNN_ERR_PARAM_INVALID)


@JOINING.operator(
    """
    aclnnStatus aclnnStackGetWorkspaceSize(
        const aclTensorList* tensors, int64_t dim, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        Holds("tensors and out are not null", _null_stack, codes.ACLNN_ERR_INNER_NULLPTR),
        _ListTypes(ALL),
        Holds("tensors meet in a common type, which casts to that of out", _check_promoted),
        Holds("shapes are equal, and dim is a dimension of out", _check_stack_shapes),
        Holds("out has the stacked shape", _check_stack_output),
    ),
    python=OneLine("stack", {"dim": 0}, result=Result("stacked")),
)
def stack(call: Call) -> Work:
    """Joins tensors of one shape along a new dimension.

    Place i of dimension dim of out is tensors[i]; dim counts from the end where it is below 0.
    Elements are cast to the common type of all tensors, then to that of out.

    Source: host code of aclnnStack (hicann/ops-math, conversion/pack).
    """
    out, parts = call.tensor("out"), _all(call)
    if 0 in parts[0].spec.shape:
        return movement("out", out, [])
    dim = dimension(call, "dim", len(parts[0].spec.shape) + 1, "out")
    if together := _together(call, [(p.position, with_place(p.spec, dim)) for p in parts], dim):
        return movement("out", out, [together])
    targets = (selected(out, dim, place) for place in range(len(parts)))
    return movement("out", out, map(_join, [call] * len(parts), parts, targets))
