"""Reductions along dimensions: sums, means, extremes, products, spread, truth, running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.promotion import can_cast
from aclnn.pythonic import Result
from aclnn_server.operators.checking.axis_checks import (
    DIM_OF_SELF,
    DimsOf,
    GivenTypeIn,
    ShapeIsReduced,
    TypeIsGiven,
    WhereEmpty,
    WhereNotEmpty,
    axes_of,
)
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    PlainFormat,
    RankUpTo,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import COMPLEX
from aclnn_server.operators.definition import Call, Check, Family, OneLine, Planner, Work, prototype
from aclnn_server.operators.engines.axes import Axes, Grid
from aclnn_server.operators.engines.blocks import Nothing
from aclnn_server.operators.engines.copies import constant, fill, movement
from aclnn_server.operators.engines.folds import BOOLEAN, Gather, Sum, computed, exact, modular
from aclnn_server.operators.engines.reducing import Fold, Reduction, Source
from aclnn_server.operators.engines.tiling import BLOCK

Array = npt.NDArray[Any]

REDUCTIONS = Family()

FLOATS = (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16)
_LARGE = 1 << 22
"""Bytes of a block that is reduced where it lies."""
_INTEGERS = (dtypes.INT8, dtypes.INT16, dtypes.INT32, dtypes.INT64, dtypes.UINT8)
NUMBERS = (*FLOATS, dtypes.DOUBLE, *_INTEGERS)
_ALL = (*NUMBERS, dtypes.BOOL)


# --- planning ---------------------------------------------------------------------------------------


def plan_reduction(
    call: Call,
    fold: Fold,
    axes: Axes,
    outputs: Sequence[str],
    *,
    via: DType | None = None,
    rounded: DType | None = None,
    given: str = "self",
) -> Work:
    """Plans the reduction of a tensor, which has elements, along dimensions.

    Args:
        given: the tensor's parameter.
        via: type that elements are cast to first.
        rounded: type that results are rounded to before they are cast to the outputs' types.
    """
    spec = call.tensor(given)
    first = (via or spec.dtype).numpy
    assert first is not None
    direct = spec.dtype.numpy == first == fold.loaded
    grid = Grid.of(spec.shape, axes, block=_LARGE // first.itemsize if direct else BLOCK)
    source = Source(grid.operand(given, spec), first, fold.loaded)
    results = tuple(grid.result(name, call.tensor(name)) for name in outputs)
    return Reduction(fold, source, results, grid, rounded.numpy if rounded else None)


def fill_out(call: Call, value: float) -> Work:
    """Plans the result of an empty self: every element of out is `value`."""
    out = call.tensor("out")
    return movement("out", out, [fill(("out", out), constant(value, out.dtype))])


def is_empty(call: Call) -> bool:
    """Tells whether self has no elements."""
    return call.tensor("self").elements == 0


AXES = axes_of("self", "dim")
"""Dimensions of self that dim names."""


def keepdim(call: Call) -> bool:
    """The parameter keepdim."""
    keep: bool = call["keepdim"]
    return keep


# --- sums and means ---------------------------------------------------------------------------------


def _check_filling(types: tuple[DType, ...]) -> WhereEmpty:
    return WhereEmpty(("self",), TypeIn(("out",), types))


@REDUCTIONS.operator(
    """
    aclnnStatus aclnnReduceSumGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* dims, bool keepDims, aclDataType dtype,
        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "dims", "out")),
        TypeIn(("self", "out"), (*_ALL, *COMPLEX)),
        GivenTypeIn("dtype", (*_ALL, *COMPLEX)),
        TypeIsGiven("out"),
        RankUpTo(("self",)),
        DimsOf("dims", "self"),
        _check_filling(_ALL),
        WhereNotEmpty(
            ("self",),
            ShapeIsReduced(
                "out", "self", axes_of("self", "dims"), lambda call: call["keepDims"], lenient=True
            ),
        ),
    ),
    python=OneLine(
        "reduce_sum",
        {"dims": (), "keepDims": False, "dtype": None},
        result=Result("along", "given"),
    ),
)
def reduce_sum(call: Call) -> Work:
    """Sum of elements along dimensions.

    $$out = \\sum_{dims} self$$

    - No dims are all dims. keepDims keeps them, with size 1.
    - Elements are cast to dtype first. Floats are added in pairs or few at a time in their type, FLOAT for
      the 16-bit ones, and the parts of at most 256 or one block in DOUBLE; integers overflow.
    - dtype BOOL tells whether any element is other than 0.
    - Of an empty self every element of out is 0, whatever its shape.
    - Deterministic, at any number of threads.

    Source: host code of aclnnReduceSum (hicann/ops-math, math/reduce_sum).
    """
    if is_empty(call):
        return fill_out(call, 0)
    axes, dtype = axes_of("self", "dims")(call), call["dtype"]
    if dtype is dtypes.BOOL:
        return plan_reduction(call, Gather(np.logical_or, BOOLEAN, BOOLEAN), axes, ("out",))
    return plan_reduction(call, Sum(computed(dtype), modular(dtype)), axes, ("out",), via=dtype)


def _check_mean_casts(call: Call) -> None:
    for name, source, target in (
        ("dtype", call.tensor("self").dtype, call["dtype"]),
        ("out", call["dtype"], call.tensor("out").dtype),
    ):
        if not can_cast(source, target):
            raise call.invalid(name, f"{name} is {target}, to which {source} does not cast")


_MEAN = (*NUMBERS, *COMPLEX)


@REDUCTIONS.operator(
    """
    aclnnStatus aclnnMeanGetWorkspaceSize(
        const aclTensor* self, const aclIntArray* dim, bool keepDim, aclDataType dtype,
        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "dim", "out")),
        TypeIn(("self",), _MEAN),
        GivenTypeIn("dtype", _MEAN),
        TypeIn(("out",), _MEAN),
        Holds("self casts to dtype, and dtype to the type of out", _check_mean_casts),
        DimsOf("dim", "self"),
        RankUpTo(("self", "out")),
        _check_filling(_ALL),
        WhereNotEmpty(
            ("self",),
            ShapeIsReduced("out", "self", AXES, lambda call: call["keepDim"], lenient=True),
        ),
    ),
    python=OneLine(
        "mean", {"dim": (), "keepDim": False, "dtype": None}, result=Result("along", "given")
    ),
)
def mean(call: Call) -> Work:
    """Mean of elements along dimensions.

    $$out = \\frac{1}{n} \\sum_{dim} self$$

    - No dim are all dims. keepDim keeps them, with size 1.
    - Elements are cast to dtype and added as aclnnReduceSum adds them; the mean is rounded to dtype, for
      an integer one towards 0, then cast to the type of out.
    - Of an empty self every element of out is NaN, whatever its shape.
    - Deterministic, at any number of threads.

    Source: host code of aclnnMean (hicann/ops-math, math/reduce_mean).
    """
    if is_empty(call):
        return fill_out(call, np.nan)
    dtype = call["dtype"]
    fold = Sum(computed(dtype), exact(dtype), mean=True)
    return plan_reduction(call, fold, AXES(call), ("out",), via=dtype, rounded=dtype)


# --- extremes, all and any --------------------------------------------------------------------------


def _extreme(ufunc: np.ufunc) -> Planner:
    def plan(call: Call) -> Work:
        if is_empty(call):
            return Nothing()
        own = computed(call.tensor("self").dtype)
        return plan_reduction(call, Gather(ufunc, own, own), AXES(call), ("out",))

    return plan


_EXTREME: tuple[Check, ...] = (
    NotNull(("self", "dim", "out")),
    SameType(("out",), "self"),
    TypeIn(("self",), _ALL),
    DimsOf("dim", "self", nonzero=True),
    RankUpTo(("self", "out")),
    ShapeIsReduced("out", "self", AXES, lambda call: call["keepDim"]),
)

_EXTREME_ROWS: tuple[tuple[str, str, np.ufunc, str], ...] = (
    ("aclnnAmax", "Greatest", np.maximum, "reduce_max"),
    ("aclnnAmin", "Least", np.minimum, "reduce_min"),
)

for _name, _word, _ufunc, _folder in _EXTREME_ROWS:
    REDUCTIONS.add(
        prototype(
            _name, "const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out"
        ),
        _extreme(_ufunc),
        f"""{_word} element along dimensions.

        - No dim are all dims. keepDim keeps them, with size 1.
        - NaN, where there is one, is the result.
        - Dimensions that dim names must have elements; of an empty self nothing is computed.

        Source: host code of {_name} (hicann/ops-math, math/{_folder}).
        """,
        outputs=("out",),
        checks=_EXTREME,
        python=OneLine(
            _name[5:].lower(), {"dim": (), "keepDim": False}, result=Result("along", "first")
        ),
    )


def _truth(ufunc: np.ufunc, empty: bool) -> Planner:
    def plan(call: Call) -> Work:
        if is_empty(call):
            return fill_out(call, empty)
        loaded = computed(call.tensor("self").dtype)
        return plan_reduction(call, Gather(ufunc, loaded, BOOLEAN), AXES(call), ("out",))

    return plan


_TRUTH: tuple[Check, ...] = (
    NotNull(("self", "dim", "out")),
    TypeIn(("self",), _ALL),
    TypeIn(("out",), (dtypes.UINT8, dtypes.BOOL)),
)
_TRUTH_ROWS: tuple[tuple[str, str, np.ufunc, bool, tuple[Check, ...]], ...] = (
    (
        "aclnnAll",
        "all elements are",
        np.logical_and,
        True,
        (
            PlainFormat(("self",)),
            DimsOf("dim", "self"),
            RankUpTo(("self", "out")),
            ShapeIsReduced("out", "self", AXES, keepdim),
        ),
    ),
    (
        "aclnnAny",
        "any element is",
        np.logical_or,
        False,
        (
            DimsOf("dim", "self", repeated=True),
            RankUpTo(("self", "out")),
            WhereNotEmpty(("self",), ShapeIsReduced("out", "self", AXES, keepdim, lenient=True)),
        ),
    ),
)

for _name, _word, _ufunc, _value, _checks in _TRUTH_ROWS:
    REDUCTIONS.add(
        prototype(
            _name, "const aclTensor* self, const aclIntArray* dim, bool keepdim, aclTensor* out"
        ),
        _truth(_ufunc, _value),
        f"""Whether {_word} other than 0, along dimensions.

        - No dim are all dims. keepdim keeps them, with size 1.
        - NaN is other than 0. UINT8 results are 0 or 1.
        - Of an empty self every element of out is {int(_value)}.

        Source: host code of {_name} (hicann/ops-math, math/reduce_{_name[5:].lower()}).
        """,
        outputs=("out",),
        checks=(*_TRUTH, *_checks),
        python=OneLine(
            _name[5:].lower(), {"dim": (), "keepdim": False}, result=Result("along", "bool")
        ),
    )


# --- products ---------------------------------------------------------------------------------------


def _product(axes: Callable[[Call], Axes]) -> Planner:
    def plan(call: Call) -> Work:
        if is_empty(call):
            return fill_out(call, 1)
        dtype = call.tensor("out").dtype
        ufunc = np.logical_and if dtype is dtypes.BOOL else np.multiply
        return plan_reduction(
            call, Gather(ufunc, exact(dtype), exact(dtype)), axes(call), ("out",), via=dtype
        )

    return plan


def _dropped(call: Call) -> bool:
    return False


def _all_axes(call: Call) -> Axes:
    return tuple(range(len(call.tensor("self").shape)))


_PRODUCT: tuple[Check, ...] = (
    NotNull(("self", "out")),
    TypeIn(("self",), (*_ALL, *COMPLEX)),
    TypeIsGiven("out"),
    TypeIn(("out",), (*_ALL, *COMPLEX)),
    RankUpTo(("self", "out")),
)
_PRODUCT_ROWS: tuple[
    tuple[str, str, str, Callable[[Call], Axes], tuple[Check, ...], OneLine], ...
] = (
    (
        "aclnnProd",
        "of all elements",
        "",
        _all_axes,
        (
            WhereNotEmpty(
                ("self",), ShapeIsReduced("out", "self", _all_axes, _dropped, lenient=True)
            ),
        ),
        OneLine("prod", {"dtype": None}, result=Result("along", "given")),
    ),
    (
        "aclnnProdDim",
        "of elements along a dimension",
        "int64_t dim, bool keepDim, ",
        AXES,
        (
            DIM_OF_SELF,
            WhereNotEmpty(
                ("self",),
                ShapeIsReduced("out", "self", AXES, lambda call: call["keepDim"], lenient=True),
            ),
        ),
        OneLine(
            "prod_dim",
            {"dim": 0, "keepDim": False, "dtype": None},
            result=Result("along", "given"),
        ),
    ),
)

for _name, _word, _more, _of, _checks, _one_line in _PRODUCT_ROWS:
    REDUCTIONS.add(
        prototype(_name, f"const aclTensor* self, {_more}const aclDataType dtype, aclTensor* out"),
        _product(_of),
        f"""Product {_word}.

        - Elements are cast to dtype first. Floats are multiplied in DOUBLE; integers overflow.
        - dtype BOOL tells whether all elements are other than 0.
        - Of an empty self every element of out is 1, whatever its shape.

        Source: host code of {_name} (hicann/ops-math, math/reduce_prod).
        """,
        outputs=("out",),
        checks=(*_PRODUCT, _check_filling(_ALL), *_checks),
        python=_one_line,
    )
