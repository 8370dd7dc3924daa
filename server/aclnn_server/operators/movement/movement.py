"""Operators that copy: cast, in place, permuted, expanded, sliced, padded.

Elements keep their values, to the bit; only aclnnCast and aclnnInplaceCopy change their type.
"""

from __future__ import annotations

from aclnn import codes, dtypes
from aclnn.pythonic import Result
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import (
    ALL,
    DimOf,
    HasShape,
    SameFormat,
    dimension,
)
from aclnn_server.operators.definition import Call, Family, OneLine, Work
from aclnn_server.operators.engines.copies import constant, copy, fill, movement
from aclnn_server.operators.engines.shapes import Shape, ShapeMismatchError, broadcast
from aclnn_server.operators.engines.views import permuted, sliced

MOVEMENT = Family()

_EXPANDABLE = (
    dtypes.FLOAT16,
    dtypes.FLOAT,
    dtypes.UINT8,
    dtypes.INT8,
    dtypes.INT32,
    dtypes.INT64,
    dtypes.BOOL,
    dtypes.BF16,
)


# --- casts ------------------------------------------------------------------------------------------


def _check_cast(call: Call) -> None:
    if call["dtype"] not in call.product.allowed(ALL):
        raise call.invalid("dtype", f"dtype is {call['dtype']}, to which aclnnCast does not cast")


def _check_cast_output(call: Call) -> None:
    out = call.tensor("out")
    if out.elements and out.dtype is not call["dtype"]:
        raise call.invalid(
            "out",
            f"out is {out.dtype}; it must be {call['dtype']}, as dtype says",
            code=codes.ACLNN_ERR_INNER_NULLPTR,
        )


@MOVEMENT.operator(
    """
    aclnnStatus aclnnCastGetWorkspaceSize(
        const aclTensor* self, const aclDataType dtype, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "out")),
        TypeIn(("self",), ALL),
        Holds("dtype is one of the types that self may have", _check_cast),
        RankUpTo(("self",)),
        SameShape(("out",), "self"),
        Holds(
            "out has the type dtype, unless it is empty",
            _check_cast_output,
            codes.ACLNN_ERR_INNER_NULLPTR,
        ),
    ),
    python=OneLine("cast", {"dtype": "FLOAT"}, result=Result("same", "given")),
)
def cast(call: Call) -> Work:
    """Casts elements to another type.

    $$out = (dtype) self$$

    - Floats are rounded to nearest even in narrower floats, and lose their fraction in integers.
    - Integers keep their lowest bits in narrower integers.
    - BOOL is whether an element is other than 0; NaN is.
    - Complex numbers lose their imaginary part in types that have none.
    - A float that an integer type does not hold, NaN included, gives what the processor makes of it.

    Source: host code of aclnnCast (hicann/ops-math, math/cast).
    """
    out = call.tensor("out")
    return movement("out", out, [copy(("self", call.tensor("self")), ("out", out))])


def _check_broadcast_to_self(call: Call) -> None:
    own, src = call.tensor("selfRef").shape, call.tensor("src").shape
    try:
        fits = broadcast(own, src) == own
    except ShapeMismatchError:
        fits = False
    if not fits:
        raise call.invalid(
            "src", f"src has shape {list(src)}, which does not broadcast to {list(own)} of selfRef"
        )


@MOVEMENT.operator(
    """
    aclnnStatus aclnnInplaceCopyGetWorkspaceSize(
        aclTensor* selfRef, const aclTensor* src,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("selfRef",),
    checks=(
        NotNull(("selfRef", "src")),
        TypeIn(("selfRef", "src"), ALL),
        RankUpTo(("selfRef", "src")),
        Holds("src broadcasts to the shape of selfRef", _check_broadcast_to_self),
    ),
)
def inplace_copy(call: Call) -> Work:
    """Copies a tensor into another, with a cast and broadcasting.

    $$selfRef_i = (dtype_{selfRef}) src_i$$

    Casts as aclnnCast does, complex numbers to real ones too. selfRef and src may share memory: src is
    read as it was before.

    Source: host code of aclnnInplaceCopy (hicann/ops-math, conversion/view_copy).
    """
    own = call.tensor("selfRef")
    return movement("selfRef", own, [copy(("src", call.tensor("src")), ("selfRef", own))])


# --- views ------------------------------------------------------------------------------------------


def _check_permutation(call: Call) -> None:
    rank, dims = len(call.tensor("self").shape), call["dims"]
    if len(dims) != rank:
        raise call.invalid("dims", f"dims has {len(dims)} elements; self has {rank} dimensions")
    if any(not -rank <= dim < rank for dim in dims):
        raise call.invalid("dims", f"dims is {list(dims)}; allowed are {-rank} to {rank - 1}")
    if len({dim % rank for dim in dims}) < rank:
        raise call.invalid("dims", f"dims is {list(dims)}, which names a dimension twice")


def _dims(call: Call) -> tuple[int, ...]:
    rank = len(call.tensor("self").shape)
    return tuple(dim % rank for dim in call["dims"])


@MOVEMENT.operator(
    """
    aclnnStatus aclnnPermuteGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* dims, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "dims", "out")),
        TypeIn(("self", "out"), ALL),
        SameType(("out",), "self"),
        RankUpTo(("self",)),
        Holds("dims names every dimension of self once", _check_permutation),
        HasShape(
            "out",
            "the sizes of self in the order of dims",
            lambda call: permuted(call.tensor("self"), _dims(call)).shape,
        ),
    ),
    python=OneLine("permute", {"dims": None}, result=Result("permuted", "first")),
)
def permute(call: Call) -> Work:
    """Swaps dimensions: dimension i of out is dimension dims[i] of self.

    A number below 0 in dims counts from the last dimension.

    Source: host code of aclnnPermute (hicann/ops-math, conversion/transpose).
    """
    out = call.tensor("out")
    view = permuted(call.tensor("self"), _dims(call))
    return movement("out", out, [copy(("self", view), ("out", out))])


def _check_size(call: Call) -> None:
    own, size = call.tensor("self").shape, tuple(call["size"])
    tail = size[len(size) - len(own) :]
    if len(size) < len(own) or any(old not in (1, new) for old, new in zip(own, tail, strict=True)):
        raise call.invalid(
            "size", f"size is {list(size)}, to which self of shape {list(own)} does not expand"
        )


@MOVEMENT.operator(
    """
    aclnnStatus aclnnExpandGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* size, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "size", "out")),
        SameType(("out",), "self"),
        TypeIn(("self", "out"), _EXPANDABLE),
        Holds("self broadcasts to size", _check_size),
        HasShape("out", "the shape size", lambda call: tuple(call["size"])),
        RankUpTo(("self", "out")),
    ),
    python=OneLine("expand", {"size": None}, result=Result("expanded", "first")),
)
def expand(call: Call) -> Work:
    """Repeats dimensions of size 1, and adds dimensions in front, up to a shape.

    size is the whole shape; -1 for a size that stays is refused, as the vendor's code does.

    Source: host code of aclnnExpand (hicann/ops-math, conversion/expand).
    """
    out = call.tensor("out")
    return movement("out", out, [copy(("self", call.tensor("self")), ("out", out))])


def _check_sliceable(call: Call) -> None:
    if not call.tensor("self").shape:
        raise call.invalid("self", "self has no dimensions; it must have 1 to 8")


def _check_step(call: Call) -> None:
    if call["step"] <= 0:
        raise call.invalid("step", f"step is {call['step']}; it must be above 0")


def _range(call: Call) -> tuple[int, int, int]:
    """Dimension that is sliced, place of the first element, and how many there are."""
    shape = call.tensor("self").shape
    dim = dimension(call, "dim", len(shape), "self")
    start, stop, step = slice(call["start"], call["end"], call["step"]).indices(shape[dim])
    return dim, start, len(range(start, stop, step))


def _sliced_shape(call: Call) -> Shape:
    dim, start, count = _range(call)
    return sliced(call.tensor("self"), dim, start, count).shape


@MOVEMENT.operator(
    """
    aclnnStatus aclnnSliceGetWorkspaceSize(
        const aclTensor* self, int64_t dim, int64_t start, int64_t end, int64_t step,
        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "out")),
        SameType(("out",), "self"),
        TypeIn(("self", "out"), _EXPANDABLE),
        RankUpTo(("self",)),
        Holds("self has a dimension", _check_sliceable),
        DimOf("dim", "self"),
        Holds("step is above 0", _check_step),
        HasShape("out", "the shape of self with dim cut to the range", _sliced_shape),
    ),
    python=OneLine(
        "slice",
        {"dim": 0, "start": 0, "end": 2**63 - 1, "step": 1},
        result=Result("sliced", "first"),
    ),
)
def slice_(call: Call) -> Work:
    """Takes a range of one dimension, as self[start:end:step] does in Python.

    Numbers below 0 count from the end, and a range beyond the dimension is cut to it; out may thus be
    empty.

    Source: host code of aclnnSlice (hicann/ops-math, conversion/strided_slice_v3).
    """
    out = call.tensor("out")
    dim, start, count = _range(call)
    view = sliced(call.tensor("self"), dim, start, count, call["step"])
    return movement("out", out, [copy(("self", view), ("out", out))])


# --- padding ----------------------------------------------------------------------------------------


def _pads(call: Call) -> list[tuple[int, int]]:
    """What is added before and after each dimension; pad tells it from the last dimension on."""
    given = call["pad"]
    pairs = list(zip(given[::2], given[1::2], strict=True))[::-1]
    return [(0, 0)] * (len(call.tensor("self").shape) - len(pairs)) + pairs


def _check_pad_count(call: Call) -> None:
    own, out, count = call.tensor("self").shape, call.tensor("out").shape, len(call["pad"])
    if len(own) != len(out):
        raise call.invalid("out", f"out has {len(out)} dimensions; self has {len(own)}")
    if count % 2 or count > 2 * len(own):
        raise call.invalid(
            "pad",
            f"pad has {count} elements; allowed are even numbers up to {2 * len(own)}, two for "
            "each dimension of self",
        )


def _check_pads(call: Call) -> None:
    shape, pads = call.tensor("self").shape, _pads(call)
    for dim, (size, (before, after)) in enumerate(zip(shape, pads, strict=True)):
        if size + min(before, after, before + after) < 0:
            raise call.invalid(
                "pad", f"pad takes {before} and {after} of dimension {dim}, which has {size}"
            )


def _padded(call: Call) -> Shape:
    pairs = zip(call.tensor("self").shape, _pads(call), strict=True)
    return tuple(size + before + after for size, (before, after) in pairs)


def _check_not_emptied(call: Call) -> None:
    covered = _padded(call)[len(call.tensor("self").shape) - len(call["pad"]) // 2 :]
    if 0 in covered and any(count > 0 for count in call["pad"]):
        raise call.invalid(
            "pad", f"out has shape {list(_padded(call))}; a pad above 0 must not give an empty out"
        )


@MOVEMENT.operator(
    """
    aclnnStatus aclnnConstantPadNdGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* pad, const aclScalar* value, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "pad", "value", "out")),
        SameType(("out",), "self"),
        TypeIn(("self", "out"), ALL),
        SameFormat(("self", "out"), unless_nd=True),
        RankUpTo(("self", "out")),
        Holds("pad has two numbers for each of the last dimensions of self", _check_pad_count),
        Holds("pad takes no more than there is", _check_pads),
        HasShape("out", "the shape of self, padded", _padded),
        Holds("no padded dimension is empty, where a pad is above 0", _check_not_emptied),
    ),
    python=OneLine(
        "constant_pad_nd", {"pad": None, "value": 0.0}, result=Result("padded", "first")
    ),
)
def constant_pad_nd(call: Call) -> Work:
    """Adds elements of one value around a tensor, or takes elements away.

    pad has two numbers for each dimension, beginning with the last one: how many elements to add before
    and after it, or below 0 how many to take away. value is cast to the type of self.

    Source: host code of aclnnConstantPadNd (hicann/ops-math, conversion/pad_v3).
    """
    source, rest = call.tensor("self"), call.tensor("out")
    value = constant(call["value"], rest.dtype)
    steps = []
    for dim, (before, after) in enumerate(_pads(call)):
        kept = source.shape[dim] + min(before, 0) + min(after, 0)
        low, high = max(before, 0), max(after, 0)
        steps += [
            fill(("out", sliced(rest, dim, 0, low)), value),
            fill(("out", sliced(rest, dim, low + max(kept, 0), high)), value),
        ]
        rest = sliced(rest, dim, low, max(kept, 0))
        source = sliced(source, dim, max(-before, 0), max(kept, 0))
    return movement("out", call.tensor("out"), [*steps, copy(("self", source), ("out", rest))])
