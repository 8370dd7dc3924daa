"""Arguments of those operators whose tensors do not all have one shape; see :mod:`.samples`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from aclnn.dtypes import DType
from aclnn.tensors import Scalar
from tests.operators.calling import Argument, Array

Shape = tuple[int, ...]
Values = dict[str, Argument]

COLUMNS = 4


class Making:
    """The shape and the type of a sample, and where its numbers come from."""

    def __init__(self, shape: Shape, dtype: DType, generator: np.random.Generator) -> None:
        self.shape = shape or (3,)
        """At least one dimension."""
        self.dtype = dtype
        self.generator = generator

    @property
    def numpy(self) -> npt.DTypeLike:
        assert self.dtype.numpy is not None
        return self.dtype.numpy

    @property
    def matrix(self) -> Shape:
        """Two dimensions."""
        return self.shape[-2:] if len(self.shape) > 1 else (2, *self.shape)

    def numbers(self, *shape: int) -> Array:
        return numbers(shape, self.dtype, self.generator)

    def out(self, *shape: int, dtype: npt.DTypeLike | None = None) -> Array:
        return np.full(shape, 7, self.numpy if dtype is None else dtype)

    def indices(self, below: int, *shape: int) -> Array:
        return np.asarray(self.generator.integers(0, below, shape), np.int64)


def numbers(shape: Shape, dtype: DType, generator: np.random.Generator) -> Array:
    """Numbers between 0.1 and 0.9, or small positive integers."""
    assert dtype.numpy is not None
    if dtype.kind in ("signed", "unsigned", "bool"):
        low, high = (0, 2) if dtype.kind == "bool" else (1, 5)
        return np.asarray(generator.integers(low, high, shape)).astype(dtype.numpy)
    found = generator.uniform(0.1, 0.9, shape)
    if dtype.kind == "complex":
        found = found + 1j * generator.uniform(0.1, 0.9, shape)
    return np.asarray(found).astype(dtype.numpy)


# --- element by element -------------------------------------------------------------------------------


def _clamp(make: Making) -> Values:
    if make.dtype.kind in ("signed", "unsigned", "bool"):
        return {"clipValueMin": Scalar(2, "INT32"), "clipValueMax": Scalar(3, "INT32")}
    return {"clipValueMin": Scalar(0.3, "FLOAT"), "clipValueMax": Scalar(0.6, "FLOAT")}


def _rows(make: Making) -> Values:
    """Scores of classes: the last dimension holds the classes."""
    shape = make.shape[-2:]
    return {
        "self": make.numbers(*shape),
        "target": make.indices(shape[-1], *shape[:-1]),
        "weight": make.numbers(shape[-1]),
        "out": make.out(*shape[:-1]),
        "totalWeightOut": make.out(1),
    }


def _row_gradients(make: Making) -> Values:
    shape = make.shape[-2:]
    more = {"gradOutput": make.numbers(*shape[:-1]), "totalWeight": make.out(1)}
    return _rows(make) | more | {"out": make.out(*shape)}


# --- reductions ---------------------------------------------------------------------------------------


def _last(*names: str, result: npt.DTypeLike | None = None) -> Callable[[Making], Values]:
    """The last dimension is reduced; `names` are the parameters that say which."""

    def values(make: Making) -> Values:
        out = make.out(*make.shape[:-1], dtype=result)
        axis = {name: (len(make.shape) - 1,) for name in names}
        return {"self": make.numbers(*make.shape), **axis, "dtype": make.dtype, "out": out}

    return values


def _last_one(make: Making) -> Values:
    return _last()(make) | {"dim": len(make.shape) - 1}


def _arg_max(make: Making) -> Values:
    return _last_one(make) | {"out": make.out(*make.shape[:-1], dtype=np.int64)}


def _max_dim(make: Making) -> Values:
    return _last_one(make) | {"indices": make.out(*make.shape[:-1], dtype=np.int64)}


def _prod(make: Making) -> Values:
    return {"self": make.numbers(*make.shape), "dtype": make.dtype, "out": make.out()}


def _cumsum(make: Making) -> Values:
    out = make.out(*make.shape)
    return {"self": make.numbers(*make.shape), "dim": 0, "dtype": make.dtype, "out": out}


# --- linear algebra -----------------------------------------------------------------------------------


def _product(make: Making) -> Values:
    rows, inner = make.matrix
    pair = {"mat2": make.numbers(inner, COLUMNS), "mat1": make.numbers(rows, inner)}
    return {"self": pair["mat1"], **pair, "out": make.out(rows, COLUMNS)}


def _sum_of_product(make: Making) -> Values:
    return _product(make) | {"self": make.numbers(make.matrix[0], COLUMNS)}


def _products(make: Making) -> Values:
    rows, inner = make.matrix
    return {
        "self": make.numbers(2, rows, inner),
        "mat2": make.numbers(2, inner, COLUMNS),
        "out": make.out(2, rows, COLUMNS),
    }


def _dot(make: Making) -> Values:
    size = math.prod(make.shape)
    return {"self": make.numbers(size), "tensor": make.numbers(size), "out": make.out()}


def _vector(make: Making) -> Values:
    rows, inner = make.matrix
    return {
        "self": make.numbers(rows, inner),
        "vec": make.numbers(inner),
        "out": make.out(rows),
    }


# --- normalisation and optimisers ---------------------------------------------------------------------


def _layer_norm(make: Making) -> Values:
    size = make.shape[-1]
    return {
        "input": make.numbers(*make.shape),
        "normalizedShape": (size,),
        "weightOptional": make.numbers(size),
        "biasOptional": make.numbers(size),
        "out": make.out(*make.shape),
    }


def _rms_norm(make: Making) -> Values:
    return {
        "x": make.numbers(*make.shape),
        "gamma": make.numbers(make.shape[-1]),
        "yOut": make.out(*make.shape),
        "rstdOut": make.out(*make.shape[:-1], 1, dtype=np.float32),
    }


def _batch_norm(make: Making) -> Values:
    channels = make.matrix[1]
    names = ("weight", "bias", "runningMean", "runningVar")
    return {
        "input": make.numbers(*make.matrix),
        **{name: make.numbers(channels) for name in names},
        "output": make.out(*make.matrix),
    }


def _adam(make: Making) -> Values:
    state = ("varRef", "mRef", "vRef", "grad")
    settings = ("beta1Power", "beta2Power", "lr", "weightDecay", "beta1", "beta2", "eps")
    return {
        **{name: make.numbers(*make.shape) for name in state},
        **{name: make.numbers(1) for name in settings},
    }


# --- movement -----------------------------------------------------------------------------------------


def _range(make: Making) -> Values:
    bounds = {"start": Scalar(1, "INT64"), "end": Scalar(6, "INT64"), "step": Scalar(1, "INT64")}
    return bounds | {"out": make.out(5)}


def _cast(make: Making) -> Values:
    return {"self": make.numbers(*make.shape), "dtype": make.dtype, "out": make.out(*make.shape)}


def _cat(make: Making) -> Values:
    first, *rest = make.shape
    arrays = [make.numbers(first, *rest), make.numbers(2, *rest)]
    return {"tensors": arrays, "out": make.out(first + 2, *rest)}


def _stack(make: Making) -> Values:
    arrays = [make.numbers(*make.shape), make.numbers(*make.shape)]
    return {"tensors": arrays, "out": make.out(2, *make.shape)}


def _padded(make: Making) -> Values:
    *rest, last = make.shape
    return {"self": make.numbers(*rest, last), "pad": (1, 2), "out": make.out(*rest, last + 3)}


def _embedding(make: Making) -> Values:
    size = make.shape[-1]
    indices = make.indices(5, 2, 3)
    return {"weight": make.numbers(5, size), "indices": indices, "out": make.out(2, 3, size)}


def _expanded(make: Making) -> Values:
    size = (2, *make.shape)
    return {"self": make.numbers(*make.shape), "size": size, "out": make.out(*size)}


def _indexed(make: Making) -> Values:
    *rest, last = make.shape
    return {
        "self": make.numbers(*rest, last),
        "dim": len(rest),
        "index": make.indices(last, 2),
        "out": make.out(*rest, 2),
    }


def _permuted(make: Making) -> Values:
    dims = tuple(reversed(range(len(make.shape))))
    turned = make.out(*reversed(make.shape))
    return {"self": make.numbers(*make.shape), "dims": dims, "out": turned}


def _scattered(make: Making) -> Values:
    shape = make.shape
    return {
        "self": make.numbers(*shape),
        "dim": len(shape) - 1,
        "index": make.indices(shape[-1], *shape),
        "src": make.numbers(*shape),
        "out": make.out(*shape),
    }


def _sliced(make: Making) -> Values:
    *rest, last = make.shape
    place = {"dim": len(rest), "start": 0, "end": last, "step": 2}
    return {"self": make.numbers(*rest, last), **place, "out": make.out(*rest, -(-last // 2))}


def _matrix(make: Making) -> Values:
    return {"self": make.numbers(*make.matrix), "out": make.out(*make.matrix)}


SPECIAL: dict[str, Callable[[Making], Values]] = {
    "Clamp": _clamp,
    "NLLLoss": _rows,
    "NLLLossBackward": _row_gradients,
    "ReduceSum": _last("dims"),
    "Mean": _last("dim"),
    "Amax": _last("dim"),
    "Amin": _last("dim"),
    "All": _last("dim", result=np.bool_),
    "Any": _last("dim", result=np.bool_),
    "Std": _last("dim"),
    "Var": _last("dim"),
    "ArgMax": _arg_max,
    "MaxDim": _max_dim,
    "Prod": _prod,
    "ProdDim": _last_one,
    "Cumsum": _cumsum,
    "Matmul": _product,
    "Mm": _product,
    "BatchMatMul": _products,
    "Addmm": _sum_of_product,
    "Dot": _dot,
    "Mv": _vector,
    "LayerNorm": _layer_norm,
    "RmsNorm": _rms_norm,
    "BatchNorm": _batch_norm,
    "ApplyAdamW": _adam,
    "Arange": _range,
    "Cast": _cast,
    "Cat": _cat,
    "Stack": _stack,
    "ConstantPadNd": _padded,
    "Embedding": _embedding,
    "Expand": _expanded,
    "GatherV2": _indexed,
    "IndexSelect": _indexed,
    "Permute": _permuted,
    "ScatterAdd": _scattered,
    "Slice": _sliced,
    "Tril": _matrix,
    "Triu": _matrix,
}
"""By C name without the aclnn prefix: the arguments that are not as those of an elementwise operator."""
