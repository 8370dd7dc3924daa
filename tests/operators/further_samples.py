"""Arguments of those operators that select, order, draw or update lists; see :mod:`.samples`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from aclnn import dtypes
from aclnn.tensors import Scalar
from aclnn_server.operators.catalogue import built_in
from tests.operators.calling import Argument
from tests.operators.special_samples import Making, Values, numbers

# --- results as large as their elements make them ------------------------------------------------------


def _masked(make: Making) -> Values:
    mask = numbers(make.shape, dtypes.BOOL, make.generator)
    return {"mask": mask, "self": make.numbers(*make.shape), "out": make.out(math.prod(make.shape))}


def _filled(make: Making) -> Values:
    own = make.numbers(*make.shape)
    mask = numbers(make.shape, dtypes.BOOL, make.generator)
    return {"selfRef": own, "mask": mask}


def _filled_with_one(make: Making) -> Values:
    return _filled(make) | {"value": make.numbers(1)}


def _positions(make: Making) -> Values:
    count, rank = math.prod(make.shape), len(make.shape)
    own = make.numbers(*make.shape)
    return {"self": own, "out": make.out(count, rank, dtype=np.int64)}


# --- arithmetic --------------------------------------------------------------------------------------


def _with_bits(make: Making) -> Values:
    truth = make.dtype.kind == "bool"
    return {"other": Scalar(True, "BOOL") if truth else Scalar(2, "INT32")}


def _above_one(make: Making) -> Values:
    own = make.numbers(*make.shape)
    if make.dtype.kind in ("float", "complex"):
        own = (own + 1).astype(make.numpy)
    return {"self": own, "selfRef": own, "out": None}


def _between(make: Making) -> Values:
    low, high = make.numbers(*make.shape[-1:]), make.numbers(*make.shape)
    own, out = make.numbers(*make.shape), make.out(*make.shape)
    return {"self": own, "clipValueMin": low, "clipValueMax": high, "out": out}


# --- extremes -----------------------------------------------------------------------------------------


def _whole_extreme(make: Making) -> Values:
    return {"self": make.numbers(*make.shape), "out": make.out()}


def _along_last(make: Making) -> Values:
    own, out = make.numbers(*make.shape), make.out(*make.shape[:-1])
    return {"self": own, "dim": len(make.shape) - 1, "out": out}


def _position(make: Making) -> Values:
    return _along_last(make) | {"out": make.out(*make.shape[:-1], dtype=np.int64)}


def _with_position(make: Making) -> Values:
    return _along_last(make) | {"indices": make.out(*make.shape[:-1], dtype=np.int64)}


# --- places that indexes name, and order -----------------------------------------------------------------


def _taken(make: Making) -> Values:
    """An index of the first dimension, and one of the second where there is one."""
    own = make.numbers(*make.shape)
    counts = make.shape[:2]
    indices = [make.indices(max(size, 1), 2, 3) for size in counts]
    if 0 in make.shape:
        indices = [np.zeros((0, 3), np.int64) for _ in counts]
    shape = (*indices[0].shape, *make.shape[len(counts) :])
    return {
        "self": own,
        "selfRef": own,
        "indices": indices,
        "values": make.numbers(*shape),
        "accumulate": True,
        "out": make.out(*shape),
    }


def _scattering(make: Making) -> Values:
    shape = make.shape
    own = make.numbers(*shape)
    return {
        "self": own,
        "selfRef": own,
        "dim": len(shape) - 1,
        "index": make.indices(max(shape[-1], 1), *shape),
        "src": make.numbers(*shape),
        "out": make.out(*shape),
    }


def _index_added(make: Making) -> Values:
    *rest, last = make.shape
    return {
        "self": make.numbers(*rest, last),
        "dim": len(rest),
        "index": make.indices(max(last, 1), 2),
        "source": make.numbers(*rest, 2),
        "alpha": Scalar(1, "INT64"),
        "out": make.out(*rest, last),
    }


def _ordered(make: Making) -> Values:
    shape = make.shape
    return {
        "self": make.numbers(*shape),
        "dim": len(shape) - 1,
        "out": make.out(*shape, dtype=np.int64),
        "valuesOut": make.out(*shape),
        "indicesOut": make.out(*shape, dtype=np.int64),
    }


def _top(make: Making) -> Values:
    *rest, last = make.shape
    count = min(last, 2)
    outs = {"valuesOut": make.out(*rest, count)}
    return (
        _ordered(make) | outs | {"k": count, "indicesOut": make.out(*rest, count, dtype=np.int64)}
    )


# --- elsewhere, made and counted -------------------------------------------------------------------------


def _elsewhere(make: Making) -> Values:
    own, out = make.numbers(*make.shape), make.out(*make.shape)
    return {"self": own, "x": own, "shifts": (1,), "dims": (len(make.shape) - 1,), "out": out}


def _repeated(make: Making) -> Values:
    repeats = (2,) * (len(make.shape) + 1)
    out = make.out(2, *(2 * size for size in make.shape))
    return {"self": make.numbers(*make.shape), "repeats": repeats, "out": out}


def _cut(make: Making) -> Values:
    *rest, last = make.shape
    lists = {"starts": (0,), "ends": (last,), "axes": (len(rest),), "steps": (2,)}
    return {"self": make.numbers(*rest, last), **lists, "out": make.out(*rest, -(-last // 2))}


def _eye(make: Making) -> Values:
    return {"n": 4, "m": 5, "out": make.out(4, 5)}


def _one_hot(make: Making) -> Values:
    dtype = make.dtype if make.dtype.kind in ("signed", "unsigned") else dtypes.INT64
    return {
        "self": make.indices(3, *make.shape).astype(dtype.numpy),
        "numClasses": 3,
        "axis": -1,
        **{
            name: np.full(1, value, np.float32) for name, value in (("onValue", 1), ("offValue", 0))
        },
        "out": make.out(*make.shape, 3, dtype=np.float32),
    }


def _linspace(make: Making) -> Values:
    bounds = {"start": Scalar(1, "INT64"), "end": Scalar(5, "INT64")}
    return bounds | {"steps": 5, "out": make.out(5)}


def _histogram(make: Making) -> Values:
    bounds = {"min": Scalar(0, "INT64"), "max": Scalar(5, "INT64")}
    return {"self": make.numbers(*make.shape), "bins": 5, **bounds, "out": make.out(5)}


def _bins(make: Making) -> Values:
    own = make.numbers(math.prod(make.shape))
    return {"self": own, "minlength": 6, "out": make.out(6, dtype=np.int64)}


def _distinct(make: Making) -> Values:
    count = math.prod(make.shape)
    return {
        "self": make.numbers(*make.shape),
        "dim": 1000,
        "returnInverse": True,
        "returnCounts": True,
        "valueOut": make.out(count),
        "inverseOut": make.out(*make.shape, dtype=np.int64),
        "countsOut": make.out(count, dtype=np.int64),
    }


# --- norms and optimisers ------------------------------------------------------------------------------


def _norm_of_last(make: Making) -> Values:
    axis = (len(make.shape) - 1,)
    return {
        "self": make.numbers(*make.shape),
        "ord": Scalar(2, "INT64"),
        "pScalar": Scalar(2, "INT64"),
        "dims": axis,
        "dim": axis,
        "correction": 1,
        "dtype": make.dtype,
        **{name: make.out(*make.shape[:-1]) for name in ("out", "stdOut", "meanOut")},
    }


def _adam_step(make: Making) -> Values:
    names = ("varRef", "mRef", "vRef", "grad")
    settings = {"lr": 0.1, "beta1": 0.875, "beta2": 0.9375, "weightDecay": 0.125, "eps": 1e-3}
    state = {name: make.numbers(*make.shape) for name in names}
    return state | settings | {"step": np.ones(1, np.float32)}


# --- random numbers ------------------------------------------------------------------------------------


def _uniform(make: Making) -> Values:
    return {"from": 0.25, "to": 0.75}


def _whole(make: Making) -> Values:
    return {"from": 1, "to": 2 if make.dtype.kind == "bool" else 5}


def _chance(make: Making) -> Values:
    return {"prob": Scalar(0.5, "FLOAT")}


def _chances(make: Making) -> Values:
    own, prob = make.numbers(*make.shape), np.full(make.shape[-1:], 0.5, np.float32)
    return {"self": own, "selfRef": own, "prob": prob, "out": make.out(*make.shape)}


def _permutation(make: Making) -> Values:
    return {"n": 7, "out": make.out(7)}


def _samples(make: Making) -> Values:
    shape = make.shape[-2:]
    out = make.out(*shape[:-1], 3, dtype=np.int64)
    return {"self": make.numbers(*shape), "numsamples": 3, "replacement": True, "out": out}


# --- lists of tensors -----------------------------------------------------------------------------------


def _each(make: Making) -> Values:
    """Three tensors in each list."""
    shapes = (make.shape, make.shape[:1], make.shape)

    def tensors() -> Argument:
        return [make.numbers(*shape) for shape in shapes]

    whole = make.dtype.kind in ("signed", "bool")
    lists = {name: tensors() for name in ("x", "x1", "x2", "x3")}
    return lists | {
        "scalar": Scalar(2, "INT32") if whole else Scalar(0.5, "FLOAT"),
        "out": [make.out(*shape) for shape in shapes],
    }


def _each_by_tensor(make: Making) -> Values:
    one = np.full(1, 2, make.numpy)
    return _each(make) | {"scalar": one, "alpha": one, "scalars": np.full(3, 2, make.numpy)}


def _each_by_numbers(make: Making) -> Values:
    return _each(make) | {"scalars": tuple(Scalar(number, "INT64") for number in (1, 2, 3))}


def _each_by_list(make: Making) -> Values:
    made = _each(make)
    return made | {"weight": made["x3"]}


def _each_norm(make: Making) -> Values:
    return _each(make) | {"scalar": Scalar(2, "INT64"), "out": [make.out() for _ in range(3)]}


def _each_unscaled(make: Making) -> Values:
    half = np.full(1, 0.5, np.float32)
    return {"scaledGrads": _each(make)["x"], "foundInf": np.zeros(1, np.float32), "invScale": half}


def _scale(make: Making) -> Values:
    single = {name: np.ones(1, np.float32) for name in ("currentScale", "foundInf")}
    counts = {"growthTracker": np.zeros(1, np.int32), "growthInterval": 9}
    factors = {"growthFactor": 2.0, "backoffFactor": 0.5}
    outs = {
        "updatedScaleOut": make.out(1, dtype=np.float32),
        "updatedGrowthTrackerOut": make.out(1, dtype=np.int32),
    }
    return single | counts | factors | outs


def _parts(make: Making) -> Values:
    whole = np.complex128 if make.numpy == np.float64 else np.complex64
    parts = np.float64 if make.numpy == np.float64 else np.float32
    real, imag = (make.numbers(*make.shape).astype(parts) for _ in range(2))
    return {"real": real, "imag": imag, "out": make.out(*make.shape, dtype=whole)}


_KINDS_OF_LISTS: dict[str, Callable[[Making], Values]] = {
    "ScalarList": _each_by_numbers,
    "AddcmulScalarList": _each_by_tensor,
    "AddcdivScalarList": _each_by_tensor,
    "Scalar": _each_by_tensor,
    "AddList": _each_by_tensor,
    "LerpScalar": _each,
    "LerpList": _each_by_list,
    "Norm": _each_norm,
    "NonFiniteCheckAndUnscale": _each_unscaled,
}
"""By the end of the name, the longest that fits."""


def _of_list(name: str) -> Callable[[Making], Values]:
    fitting = [end for end in _KINDS_OF_LISTS if name.endswith(end)]
    return _KINDS_OF_LISTS[max(fitting, key=len)] if fitting else _each


FURTHER: dict[str, Callable[[Making], Values]] = {
    "MaskedSelect": _masked,
    "Nonzero": _positions,
    "NonzeroV2": _positions,
    "InplaceMaskedFillScalar": _filled,
    **dict.fromkeys(
        (f"{form}Bitwise{word}Scalar" for form in ("", "Inplace") for word in ("And", "Or", "Xor")),
        _with_bits,
    ),
    "ClampTensor": _between,
    "Acosh": _above_one,
    "InplaceAcosh": _above_one,
    **{
        name.removeprefix("aclnn"): _of_list(name)
        for name in built_in()
        if name.startswith("aclnnForeach")
    },
    "LinalgVectorNorm": _norm_of_last,
    "Norm": _norm_of_last,
    "LogSumExp": _norm_of_last,
    "VarCorrection": _norm_of_last,
    "StdMeanCorrection": _norm_of_last,
    "ApplyAdamWV2": _adam_step,
    "AmpUpdateScale": _scale,
    "Complex": _parts,
    "Index": _taken,
    "IndexPutImpl": _taken,
    "Gather": _scattering,
    "IndexAdd": _index_added,
    **dict.fromkeys(
        ("Scatter", "ScatterValue", "InplaceScatter", "InplaceScatterValue"), _scattering
    ),
    **dict.fromkeys(("Sort", "Argsort", "Cummax", "Cummin"), _ordered),
    "Topk": _top,
    "Flip": _elsewhere,
    "Roll": _elsewhere,
    "Repeat": _repeated,
    "SliceV2": _cut,
    "Eye": _eye,
    "OneHot": _one_hot,
    "Linspace": _linspace,
    "Histc": _histogram,
    "Bincount": _bins,
    "Unique2": _distinct,
    "UniqueConsecutive": _distinct,
    "Max": _whole_extreme,
    "Min": _whole_extreme,
    "ArgMin": _position,
    "MinDim": _with_position,
    "InplaceMaskedFillTensor": _filled_with_one,
    "InplaceUniform": _uniform,
    "InplaceRandom": _whole,
    "Bernoulli": _chance,
    "InplaceBernoulli": _chance,
    "BernoulliTensor": _chances,
    "InplaceBernoulliTensor": _chances,
    "Randperm": _permutation,
    "Multinomial": _samples,
}
"""By C name without the aclnn prefix: the arguments that are not as those of an elementwise operator."""
