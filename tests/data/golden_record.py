"""Records golden vectors: cases of operators, with inputs, expected outputs and tolerances."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

Function = Callable[..., Tensor]

FOLDER = Path(__file__).resolve().parent / "golden"
TYPES = {
    "FLOAT": torch.float32,
    "FLOAT16": torch.float16,
    "BF16": torch.bfloat16,
    "DOUBLE": torch.float64,
    "INT8": torch.int8,
    "INT16": torch.int16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "UINT8": torch.uint8,
    "BOOL": torch.bool,
    "COMPLEX64": torch.complex64,
}
NAMES = {dtype: name for name, dtype in TYPES.items()}
TOLERANCES = {"FLOAT": 2e-6, "FLOAT16": 1e-3, "BF16": 8e-3, "DOUBLE": 1e-12, "COMPLEX64": 4e-6}
FLOATS = ("FLOAT", "FLOAT16", "BF16")
INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8")
SEED = 20
GENERATOR = torch.Generator().manual_seed(SEED)

ARRAYS: dict[str, np.ndarray[Any, Any]] = {}
INDEX: list[dict[str, Any]] = []


def uniform(shape: tuple[int, ...], dtype: str, low: float = 0.1, high: float = 0.9) -> Tensor:
    """Random numbers; integers from a range of at least 1, from 0 where they have no sign."""
    if dtype == "BOOL":
        return torch.randint(0, 2, shape, generator=GENERATOR).to(torch.bool)
    if dtype in INTEGERS:
        low = max(int(low), 0) if dtype == "UINT8" else int(low)
        high = max(int(high), low + 1) + 1
        return torch.randint(low, high, shape, generator=GENERATOR).to(TYPES[dtype])
    found = torch.rand(shape, generator=GENERATOR, dtype=torch.float64) * (high - low) + low
    if dtype.startswith("COMPLEX"):
        found = torch.complex(found, uniform(shape, "DOUBLE", low, high))
    return found.to(TYPES[dtype])


def exact(value: Tensor) -> Tensor:
    """The type in which expected values are computed."""
    if value.dtype.is_complex:
        return value.to(torch.complex128)
    return value.double() if value.dtype.is_floating_point else value


def case(
    operator: str,
    name: str,
    parameters: Mapping[str, Any],
    outputs: Mapping[str, Tensor | list[Tensor]],
    tolerance: float | None = None,
) -> None:
    """Records a case.

    Args:
        operator: C name.
        name: name among the operator's cases.
        parameters: inputs; a scalar is a pair of a value and its element type.
        outputs: expected outputs, tensors or lists of them. Of one that is a parameter too, the parameter is
            what it is before.
        tolerance: relative and absolute, 0 for equality; else that of the outputs' types.
    """
    rows = {key: _parameter(f"{operator}/{name}/{key}", value) for key, value in parameters.items()}
    results = {
        key: _output(f"{operator}/{name}/{key}{'.after' if key in rows else ''}", value)
        for key, value in outputs.items()
    }
    if tolerance is None:
        written = [part for row in results.values() for part in row.get("rows", [row])]
        tolerance = max(TOLERANCES.get(row["dtype"], 0) for row in written)
    INDEX.append(
        {
            "operator": operator,
            "case": name,
            "parameters": rows,
            "outputs": results,
            "rtol": tolerance,
            "atol": tolerance,
        }
    )


def _parameter(key: str, value: Any) -> dict[str, Any]:  # noqa: ANN401
    if isinstance(value, Tensor):
        return {"kind": "tensor", **_tensor(key, value)}
    if isinstance(value, list) and value and isinstance(value[0], Tensor):
        rows = [_parameter(f"{key}.{number}", tensor) for number, tensor in enumerate(value)]
        return {"kind": "list", "rows": rows}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {"kind": "scalars", "rows": [_parameter(key, number) for number in value]}
    if isinstance(value, torch.dtype):
        return {"kind": "type", "value": NAMES[value]}
    if isinstance(value, tuple):
        return {"kind": "scalar", "value": value[0], "dtype": value[1]}
    return {"kind": "none"} if value is None else {"kind": "value", "value": value}


def _output(key: str, value: Tensor | list[Tensor]) -> dict[str, Any]:
    if isinstance(value, list):
        return {"rows": [_tensor(f"{key}.{place}", tensor) for place, tensor in enumerate(value)]}
    return _tensor(key, value)


def _tensor(key: str, value: Tensor) -> dict[str, Any]:
    value = value.detach().contiguous()
    stored = value.view(torch.uint16) if value.dtype == torch.bfloat16 else value
    ARRAYS[key] = stored.numpy()
    return {"dtype": NAMES[value.dtype], "shape": list(value.shape)}


def write() -> None:
    """Writes what is recorded: all arrays as one, of bytes, as each has only a few."""
    np.savez_compressed(
        FOLDER / "operators.npz",
        names=np.array(list(ARRAYS)),
        ends=np.cumsum([array.nbytes for array in ARRAYS.values()]),
        data=np.frombuffer(b"".join(array.tobytes() for array in ARRAYS.values()), np.uint8),
    )
    rows = ",\n".join(json.dumps(row) for row in INDEX)
    (FOLDER / "operators.json").write_text(f"[\n{rows}\n]\n", encoding="utf-8")
