"""Operators that draw random numbers.

The numbers are those of this server's generator, not of a device's: of a given seed and offset they are the
same at every run, but not those that an NPU gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import codes, dtypes
from aclnn.errors import ExecutionFailedError, NullPointerError
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.checks import (
    Holds,
    NotNull,
    PlainFormat,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.checking.layout_checks import (
    BASIC,
    COMPLEX,
    WIDE_UNSIGNED,
    HasShape,
    OnlyOn950,
)
from aclnn_server.operators.definition import Call, Check, Family, Memory, Work, prototype
from aclnn_server.operators.engines.casts import narrow
from aclnn_server.operators.engines.random_numbers import (
    Drawing,
    Inputs,
    generator,
    happens,
    unit_interval,
)
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.threads import Scratch, Threads

Array = npt.NDArray[Any]

DRAWING = Family()

_FLOATS = (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BF16, dtypes.DOUBLE)
_SINGLE = np.dtype(np.float32)


def _cast_into(found: Array, out: Array) -> None:
    narrow(found, out, np.empty_like(found))


def _drawing(call: Call, name: str, draw: Any, inputs: tuple[str, ...] = ()) -> Work:  # noqa: ANN401
    given = tuple((row, call.tensor(row)) for row in inputs)
    return Drawing(name, call.tensor(name), call["seed"], call["offset"], draw, given)


# --- aclnnInplaceNormal -----------------------------------------------------------------------------


def _check_deviation(call: Call) -> None:
    if call["std"] < 0:
        raise call.invalid(
            "std",
            f"std is {call['std']}; it must be at least 0",
            code=codes.ACLNN_ERR_PARAM_NULLPTR,
        )


@DRAWING.operator(
    """
    aclnnStatus aclnnInplaceNormalGetWorkspaceSize(
        const aclTensor* selfRef, float mean, float std, int64_t seed, int64_t offset,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("selfRef",),
    checks=(
        NotNull(("selfRef",)),
        Holds("std is at least 0", _check_deviation, codes.ACLNN_ERR_PARAM_NULLPTR),
        TypeIn(("selfRef",), BASIC),
        RankUpTo(("selfRef",)),
    ),
)
def inplace_normal(call: Call) -> Work:
    """Fills a tensor with numbers of a normal distribution.

    $$selfRef_i \\sim N(mean, std^2)$$

    - Drawn in FLOAT, of a DOUBLE tensor in DOUBLE, then cast to the type of selfRef.
    - Elements are drawn in C order, of a sequence that seed and offset name; it is not that of an NPU.
    - Deterministic, at any number of threads and layout in memory.

    Source: host code of aclnnInplaceNormal (hicann/ops-math, random/dsa_random_normal), which reports a
    negative std as a null pointer.
    """
    double = call.tensor("selfRef").dtype is dtypes.DOUBLE
    kind: Any = np.float64 if double else np.float32
    mean, deviation = kind(call["mean"]), kind(call["std"])

    def draw(source: np.random.Generator, out: Array, _: Inputs) -> None:
        found = source.standard_normal(out.size, kind)
        np.multiply(found, deviation, out=found)
        np.add(found, mean, out=found)
        _cast_into(found, out)

    return _drawing(call, "selfRef", draw)


# --- aclnnInplaceUniform ----------------------------------------------------------------------------


def _check_interval(call: Call) -> None:
    if not call["from"] <= call["to"]:
        raise call.invalid("to", f"to is {call['to']}, less than from, {call['from']}")


@DRAWING.operator(
    """
    aclnnStatus aclnnInplaceUniformGetWorkspaceSize(
        const aclTensor* selfRef, double from, double to, uint64_t seed, uint64_t offset,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("selfRef",),
    checks=(
        NotNull(("selfRef",)),
        TypeIn(("selfRef",), BASIC),
        RankUpTo(("selfRef",)),
        Holds("from is at most to", _check_interval),
    ),
)
def inplace_uniform(call: Call) -> Work:
    """Fills a tensor with numbers of an interval, all equally likely.

    $$selfRef_i \\sim U[from, to)$$

    - Drawn in FLOAT, of a DOUBLE tensor in DOUBLE, with as many digits as the type of selfRef has. What would
      be rounded to `to` is `from`.
    - Elements are drawn in C order, of a sequence that seed and offset name; it is not that of an NPU.
    - Deterministic, at any number of threads and layout in memory.

    Source: the public documentation of aclnnInplaceUniform (hicann/ops-math, random/dsa_random_uniform).
    """
    dtype = call.tensor("selfRef").dtype.numpy
    assert dtype is not None
    whole = dtype.kind in "iub"
    kind: Any = np.float64 if dtype == np.float64 else np.float32
    low, high = kind(call["from"]), kind(call["to"])

    def draw(source: np.random.Generator, out: Array, _: Inputs) -> None:
        found = unit_interval(source, out.size, _SINGLE if whole else dtype)
        np.multiply(found, high - low, out=found)
        np.add(found, low, out=found)
        _cast_into(found, out)
        if not whole and low < high:
            np.copyto(out, low.astype(dtype), where=out >= high.astype(dtype))

    return _drawing(call, "selfRef", draw)


# --- aclnnInplaceRandom -----------------------------------------------------------------------------


def _check_given(name: str) -> Check:
    def check(call: Call) -> None:
        if call[name] is None:
            raise call.invalid(
                name, f"{name} is a null pointer", NullPointerError, codes.ACLNN_ERR_INNER_NULLPTR
            )

    return Holds(f"{name} is not null", check, codes.ACLNN_ERR_INNER_NULLPTR)


def _check_range(call: Call) -> None:
    if call["from"] >= call["to"]:
        raise call.invalid("to", f"to is {call['to']}; it must be more than from, {call['from']}")


@DRAWING.operator(
    """
    aclnnStatus aclnnInplaceRandomGetWorkspaceSize(
        const aclTensor* selfRef, int64_t from, int64_t to, int64_t seed, int64_t offset,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("selfRef",),
    checks=(
        _check_given("selfRef"),
        TypeIn(("selfRef",), (*BASIC, *COMPLEX)),
        RankUpTo(("selfRef",)),
        Holds("from is less than to", _check_range),
    ),
)
def inplace_random(call: Call) -> Work:
    """Fills a tensor with whole numbers of a range, all equally likely.

    $$selfRef_i \\sim U\\{from, \\dots, to - 1\\}$$

    - Drawn in INT64, then cast to the type of selfRef. What a float type would round to `to` is the greatest
      number below it.
    - Elements are drawn in C order, of a sequence that seed and offset name; it is not that of an NPU.
    - Deterministic, at any number of threads and layout in memory.

    Source: host code of aclnnInplaceRandom (hicann/ops-math, random/dsa_random_uniform).
    """
    dtype = call.tensor("selfRef").dtype.numpy
    assert dtype is not None
    low, high = call["from"], call["to"]
    below = np.nextafter(dtype.type(high), dtype.type(low)) if dtype.kind in "fV" else None

    def draw(source: np.random.Generator, out: Array, _: Inputs) -> None:
        _cast_into(source.integers(low, high, out.size, np.int64), out)
        if below is not None:
            np.copyto(out, below, where=out >= dtype.type(high))

    return _drawing(call, "selfRef", draw)


# --- aclnnBernoulli and its forms -------------------------------------------------------------------

_EVENTS = (*BASIC, *WIDE_UNSIGNED)


def _check_probability(call: Call) -> None:
    prob = call["prob"]
    if prob.dtype not in call.product.allowed(_FLOATS):
        raise call.invalid(
            "prob", f"prob is {prob.dtype}; allowed are {', '.join(map(str, _FLOATS))}"
        )
    if not 0 <= prob.value <= 1:
        raise call.invalid("prob", f"prob is {prob.value}; it must be from 0 to 1")


def _check_fits(own: str) -> Check:
    def check(call: Call) -> None:
        prob, shape = call.tensor("prob"), call.tensor(own).shape
        padded = (1,) * (len(shape) - len(prob.shape)) + prob.shape
        if len(padded) != len(shape) or any(
            size not in (1, full) for size, full in zip(padded, shape, strict=True)
        ):
            raise call.invalid(
                "prob",
                f"prob has shape {list(prob.shape)}, which does not broadcast to {list(shape)}",
            )

    return Holds(f"prob broadcasts to the shape of {own}", check)


def _events(call: Call, out: str) -> Work:
    chance = float(call["prob"].value)
    return _drawing(call, out, lambda source, part, _: happens(source, chance, part))


def _events_of_tensor(call: Call, out: str) -> Work:
    def draw(source: np.random.Generator, part: Array, inputs: Inputs) -> None:
        happens(source, inputs[0].astype(np.float64), part)

    return _drawing(call, out, draw, ("prob",))


def _define_events(*, in_place: bool, of_tensor: bool) -> None:
    """Adds one of the four forms."""
    own, out = ("selfRef", "selfRef") if in_place else ("self", "out")
    name = f"aclnn{'Inplace' if in_place else ''}Bernoulli{'Tensor' if of_tensor else ''}"
    written = "" if in_place else ", aclTensor* out"
    kind = "aclTensor" if of_tensor else "aclScalar"
    plan = _events_of_tensor if of_tensor else _events
    types: tuple[Check, ...] = (
        (TypeIn(("prob",), _FLOATS),)
        if of_tensor
        else (Holds("prob is a float from 0 to 1", _check_probability),)
    )
    pointers = (own, "prob") if in_place else (own, "prob", out)
    same: tuple[Check, ...] = () if in_place else (SameType((out,), own), SameShape((out,), own))
    DRAWING.add(
        prototype(
            name,
            f"const aclTensor* {own}, const {kind}* prob, int64_t seed, int64_t offset{written}",
        ),
        lambda call: plan(call, out),
        f"""Fills a tensor with 1 or 0, of which 1 has a given probability.

        $$P({out}_i = 1) = prob{"_i" if of_tensor else ""}$$

        - prob is {"a tensor that broadcasts to the shape of the other" if of_tensor else "from 0 to 1"}.
        - Elements are drawn in C order, of a sequence that seed and offset name; it is not that of an NPU.
        - Deterministic, at any number of threads and layout in memory.

        Source: host code of {name} (hicann/ops-math, random/dsa_gen_bit_mask).
        """,
        outputs=(out,),
        checks=(
            NotNull(pointers),
            TypeIn((own,), _EVENTS),
            OnlyOn950((own,), WIDE_UNSIGNED),
            *types,
            RankUpTo((own,)),
            *same,
            *([_check_fits(own)] if of_tensor else []),
            PlainFormat((own,)),
        ),
    )


for _in_place in (False, True):
    for _of_tensor in (False, True):
        _define_events(in_place=_in_place, of_tensor=_of_tensor)


# --- aclnnRandperm ----------------------------------------------------------------------------------

_COUNTED = (*_FLOATS, dtypes.INT8, dtypes.INT16, dtypes.INT32, dtypes.INT64, dtypes.UINT8)


@dataclass(frozen=True, slots=True)
class _Permutation:
    """The numbers below the size of the output, in random order."""

    output: TensorSpec
    seed: int
    offset: int
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        out = self.output.view(memory["out"])
        found = generator(self.seed, self.offset).permutation(out.size)
        np.copyto(out, found.reshape(out.shape), casting="unsafe")


def _check_count(call: Call) -> None:
    if call["n"] < 0:
        raise call.invalid("n", f"n is {call['n']}; it must be at least 0")


def _counted(call: Call) -> Shape:
    return (call["n"],)


@DRAWING.operator(
    """
    aclnnStatus aclnnRandpermGetWorkspaceSize(
        int64_t n, int64_t seed, int64_t offset, aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        _check_given("out"),
        TypeIn(("out",), _COUNTED),
        Holds("n is at least 0", _check_count),
        HasShape("out", "n elements in one dimension", _counted),
    ),
)
def randperm(call: Call) -> Work:
    """The whole numbers below n, in random order.

    Every order is equally likely. It follows from seed and offset alone; it is not that which an NPU draws.

    Source: host code of aclnnRandperm (hicann/ops-math, random/stateless_randperm).
    """
    return _Permutation(call.tensor("out"), call["seed"], call["offset"])


# --- aclnnMultinomial -------------------------------------------------------------------------------

_CATEGORIES = 1 << 24


@dataclass(frozen=True, slots=True)
class _Samples:
    """Numbers of categories, drawn by their weights, row by row."""

    own: TensorSpec
    output: TensorSpec
    replacement: bool
    seed: int
    offset: int
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Writes the output."""
        count = self.output.shape[-1]
        weights = self._weights(self.own.view(memory["self"]), count)
        found = np.empty((len(weights), count), np.int64)

        def compute(scratch: Scratch, row: int) -> None:
            source = generator(self.seed, self.offset, row)
            pick = _with_replacement if self.replacement else _without_replacement
            found[row] = pick(source, weights[row], count)

        if len(weights):
            threads.run(compute, len(weights), 0)
        np.copyto(self.output.view(memory["out"]), found.reshape(self.output.shape))

    def _weights(self, own: Array, wanted: int) -> Array:
        """The weights in DOUBLE, checked."""
        weights = np.array(own.reshape(math.prod(own.shape[:-1]), own.shape[-1]), np.float64)
        problem = ""
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            problem = "has weights that are negative, infinite or NaN"
        elif not (weights.sum(1) > 0).all():
            problem = "has a row of weights that are all 0"
        elif not self.replacement and ((weights > 0).sum(1) < wanted).any():
            problem = f"has a row with fewer than {wanted} weights above 0, so many are drawn"
        if problem:
            raise ExecutionFailedError(
                f"self {problem}", operator="aclnnMultinomial", parameter="self"
            )
        return weights


def _with_replacement(source: np.random.Generator, weights: Array, count: int) -> Array:
    bounds = np.cumsum(weights)
    found = np.searchsorted(bounds, source.random(count) * bounds[-1], side="right")
    # A product that is rounded up to the last bound is of the last category that has a weight.
    bounded: Array = np.minimum(found, np.flatnonzero(weights)[-1])
    return bounded


def _without_replacement(source: np.random.Generator, weights: Array, count: int) -> Array:
    """The first arrivals, where categories arrive at rates that are their weights."""
    with np.errstate(divide="ignore"):
        arrivals = source.standard_exponential(weights.size) / weights
    found: Array = np.argsort(arrivals, kind="stable")[:count]
    return found


def _check_samples(call: Call) -> None:
    own, out, count = call.tensor("self").shape, call.tensor("out").shape, call["numsamples"]
    if len(own) not in (1, 2):
        raise call.invalid("self", f"self has shape {list(own)}; it must have 1 or 2 dimensions")
    if out != (*own[:-1], count):
        raise call.invalid(
            "out",
            f"out has shape {list(out)}; it must have {[*own[:-1], count]}: numsamples per row",
        )


def _check_numsamples(call: Call) -> None:
    count, categories = call["numsamples"], call.tensor("self").shape[-1]
    if count <= 0:
        raise call.invalid("numsamples", f"numsamples is {count}; it must be at least 1")
    if not call["replacement"] and count > categories:
        raise call.invalid(
            "numsamples", f"numsamples is {count}, of {categories} categories without replacement"
        )
    if categories > _CATEGORIES:
        raise call.invalid("self", f"self has {categories} categories; at most 2^24 are allowed")


@DRAWING.operator(
    """
    aclnnStatus aclnnMultinomialGetWorkspaceSize(
        const aclTensor* self, int64_t numsamples, bool replacement, int64_t seed, int64_t offset,
        aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "out")),
        TypeIn(("self",), _FLOATS),
        TypeIn(("out",), (dtypes.INT64,)),
        Holds(
            "self has 1 or 2 dimensions, and out those with numsamples as the last", _check_samples
        ),
        Holds("numsamples is at least 1 and there are so many categories", _check_numsamples),
    ),
)
def multinomial(call: Call) -> Work:
    """Numbers of categories, drawn with a probability that is their share of the weights.

    - self is a row of weights, or a matrix of them; they need not add up to 1.
    - Without replacement each category is drawn once at most.
    - Weights that are negative or not finite, rows without a weight, and rows of fewer categories with a
      weight than are drawn, make the execution fail. Devices leave that open.
    - What is drawn follows from seed and offset alone; it is not what an NPU draws.

    Source: host code of aclnnMultinomial (hicann/ops-math, random/dsa_random_uniform).
    """
    own, out = call.tensors(("self", "out"))
    return _Samples(own, out, call["replacement"], call["seed"], call["offset"])
