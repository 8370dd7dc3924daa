"""Times operators on 1 Mi elements beside the NumPy expression that one would write.

usage: ``python benchmarks/operators.py [--threads T] [--repeat R] [NAME ...]``

Both take turns, so that other load hits them alike; the least time of the repeats is shown. The ratio is
to be at most 1.5.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn.tensors import Scalar, describe
from aclnn_server.backends.numpy import NumpyBackend, NumpyDevice

Array = npt.NDArray[Any]
Row = tuple[Sequence[Any], Callable[[], object]]

ELEMENTS = 1 << 20
LARGEST_RATIO = 1.5


def rows() -> dict[str, Row]:
    """Arguments of a call, and the expression, by C name without the aclnn prefix."""
    generator = np.random.default_rng(1)
    x, y, z = (generator.uniform(0.1, 0.9, ELEMENTS).astype(np.float32) for _ in range(3))
    out, truth, one = np.empty_like(x), np.empty(ELEMENTS, bool), np.empty((), np.float32)
    chosen = x < y
    f = np.float32

    def scalar(value: float) -> Scalar:
        return Scalar(value, "FLOAT")

    return {
        "Add": ((x, y, scalar(1), out), lambda: x + y),
        "Sub": ((x, y, scalar(0.5), out), lambda: x - f(0.5) * y),
        "Muls": ((x, scalar(3), out), lambda: x * f(3)),
        "Div": ((x, y, out), lambda: x / y),
        "DivMod": ((x, y, 2, out), lambda: np.floor(x / y)),
        "Addcmul": ((x, y, z, scalar(0.5), out), lambda: x + f(0.5) * y * z),
        "Addcdiv": ((x, y, z, scalar(0.5), out), lambda: x + f(0.5) * y / z),
        "Lerp": ((x, y, z, out), lambda: x + z * (y - x)),
        "PowTensorTensor": ((x, y, out), lambda: x**y),
        "PowTensorScalar": ((x, scalar(2.5), out), lambda: x ** f(2.5)),
        "Maximum": ((x, y, out), lambda: np.maximum(x, y)),
        "Clamp": ((x, scalar(0.3), scalar(0.6), out), lambda: np.clip(x, f(0.3), f(0.6))),
        "Neg": ((x, out), lambda: -x),
        "Exp": ((x, out), lambda: np.exp(x)),
        "Log1p": ((x, out), lambda: np.log1p(x)),
        "Rsqrt": ((x, out), lambda: 1 / np.sqrt(x)),
        "Tanh": ((x, out), lambda: np.tanh(x)),
        "Sin": ((x, out), lambda: np.sin(x)),
        "Erf": ((x, out), lambda: np.asarray(np.frompyfunc(math.erf, 1, 1)(x), f)),
        "Relu": ((x, out), lambda: np.maximum(x, 0)),
        "ThresholdBackward": ((x, y, scalar(0.5), out), lambda: np.where(y > f(0.5), x, f(0))),
        "LeakyRelu": ((x, scalar(0.1), out), lambda: np.where(x > 0, x, f(0.1) * x)),
        "LeakyReluBackward": (
            (x, y, scalar(0.1), False, out),
            lambda: np.where(y > 0, x, f(0.1) * x),
        ),
        "Sigmoid": ((x, out), lambda: 1 / (1 + np.exp(-x))),
        "SigmoidBackward": ((x, y, out), lambda: x * y * (1 - y)),
        "TanhBackward": ((x, y, out), lambda: x * (1 - y * y)),
        "Silu": ((x, out), lambda: x / (1 + np.exp(-x))),
        "Softplus": (
            (x, scalar(1), scalar(20), out),
            lambda: np.where(x > f(20), x, np.log1p(np.exp(x))),
        ),
        "LogSigmoid": ((x, out), lambda: -np.logaddexp(f(0), -x)),
        "LtTensor": ((x, y, truth), lambda: x < y),
        "EqScalar": ((x, scalar(0.5), truth), lambda: x == f(0.5)),
        "LogicalAnd": ((x, y, truth), lambda: np.logical_and(x, y)),
        "IsFinite": ((x, truth), lambda: np.isfinite(x)),
        "SWhere": ((chosen, x, y, out), lambda: np.where(chosen, x, y)),
        "L1Loss": ((x, y, 0, out), lambda: np.abs(x - y)),
        "MseLoss": ((x, y, 1, one), lambda: ((x - y) ** 2).mean()),
        "MseLossBackward": ((x, y, z, 1, out), lambda: x * 2 * (y - z) * f(1 / ELEMENTS)),
        "BinaryCrossEntropy": (
            (x, y, None, 1, one),
            lambda: -(y * np.log(x) + (1 - y) * np.log1p(-x)).mean(),
        ),
        "KlDiv": ((x, y, 1, False, one), lambda: (y * (np.log(y) - x)).mean()),
        "SoftMarginLoss": ((x, y, 1, one), lambda: np.log1p(np.exp(-x * y)).mean()),
    }


def prepared(device: NumpyDevice, name: str, arguments: Sequence[Any]) -> Callable[[], None]:
    """Phase one of a call; gives phase two."""
    described = [describe(row) if isinstance(row, np.ndarray) else (row, None) for row in arguments]
    plan = device.plan(f"aclnn{name}", [value for value, _ in described])
    workspace = device.allocate(plan.workspace_bytes) if plan.workspace_bytes else None
    storages = [storage for _, storage in described]
    return lambda: device.run(plan, storages, workspace, None)


def race(calls: Sequence[Callable[[], object]], repeat: int) -> list[float]:
    """Least seconds of each call."""
    least = [math.inf] * len(calls)
    for _ in range(repeat):
        for place, call in enumerate(calls):
            start = time.perf_counter()
            call()
            least[place] = min(least[place], time.perf_counter() - start)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="operators, without the aclnn prefix; all by default"
    )
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--repeat", type=int, default=21)
    options = parser.parse_args()
    device = NumpyBackend(threads=options.threads).devices[0]
    print(f"{device.name}, {ELEMENTS} elements, threads: {options.threads or 'all'}")
    for name, (arguments, expression) in rows().items():
        if options.names and name not in options.names:
            continue
        with np.errstate(all="ignore"):
            ours, plain = race([prepared(device, name, arguments), expression], options.repeat)
        mark = " slow" if ours > LARGEST_RATIO * plain else ""
        print(
            f"{name:20} {ours * 1e3:7.2f} ms, NumPy {plain * 1e3:7.2f} ms, {ours / plain:5.2f}{mark}"
        )


if __name__ == "__main__":
    main()
