"""Cases as they are written down: steps in JSON, and the bytes of all arrays in one file beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.tensors import Scalar

FOLDER = Path(__file__).resolve().parent / "cases"

REPEATED = 10_000
"""Elements of an array above which it must have one value, so that the files stay small."""

Array = npt.NDArray[Any]
Step = dict[str, Any]


class Case:
    """One case: steps for the client, and for the kit in between."""

    def __init__(self, group: Group, name: str) -> None:
        self._group = group
        self.name = name
        self.steps: list[Step] = []
        self._count = 0

    def do(self, verb: str, **fields: Any) -> None:  # noqa: ANN401
        """A step of the client."""
        self.steps.append({"do": verb, **{k: v for k, v in fields.items() if v is not None}})

    def kit(self, verb: str, expect: Any = None, **fields: Any) -> None:  # noqa: ANN401
        """A step of the kit itself, see Bench."""
        step: Step = {"kit": {"do": verb, **fields}}
        self.steps.append(step if expect is None else {**step, "expect": expect})

    def name_of(self, prefix: str) -> str:
        """A name that the case has not used yet."""
        self._count += 1
        return f"{prefix}{self._count}"

    def tensor(self, array: Array, **layout: Any) -> str:  # noqa: ANN401
        """A tensor whose storage has the bytes of an array; its shape, unless the layout says otherwise."""
        name = self.name_of("t")
        dtype = dtypes.dtype(array.dtype).name
        shape = layout.pop("shape", list(array.shape))
        if "strides" in layout or "offset" in layout:
            layout.setdefault("storage_shape", list(array.shape))
        data = self._group.bytes_of(array)
        self.do("tensor", **{"as": name}, dtype=dtype, shape=shape, **layout, data=data)
        return name

    def empty(self, shape: list[int], dtype: str, **layout: Any) -> str:  # noqa: ANN401
        """A tensor of zeros."""
        name = self.name_of("t")
        self.do("tensor", **{"as": name}, dtype=dtype, shape=shape, **layout)
        return name

    def plan(self, operator: str, *arguments: Step, **fields: Any) -> str:  # noqa: ANN401
        """Phase one."""
        name = self.name_of("e")
        self.do("plan", **{"as": name}, operator=operator, arguments=list(arguments), **fields)
        return name

    def run(self, operator: str, *arguments: Step, stream: str | None = None) -> None:
        """Both phases."""
        self.do("execute", executor=self.plan(operator, *arguments), stream=stream)

    def read(self, tensor: str, array: Array, tolerance: float | None = None) -> None:
        """Reads a tensor, whose elements are to be those of an array: bit by bit, or within a tolerance."""
        expect: Step = {
            "dtype": dtypes.dtype(array.dtype).name,
            "data": self._group.bytes_of(array),
        }
        if tolerance is not None:
            expect["tolerance"] = tolerance
        self.do("read", tensor=tensor, expect=expect)


class Group:
    """Cases that share a file, and a server with some settings."""

    def __init__(self, name: str, **settings: int) -> None:
        self.name = name
        self._settings = settings
        self._cases: list[Case] = []
        self._bytes = bytearray()
        self._places: dict[bytes, int] = {}

    def case(self, name: str) -> Case:
        """Begins a case."""
        self._cases.append(Case(self, f"{self.name}/{name}"))
        return self._cases[-1]

    def bytes_of(self, array: Array) -> dict[str, Any]:
        """Where an array's bytes are; of a large one, which has one value, that value and how many bytes."""
        data = np.ascontiguousarray(array).tobytes()
        if array.size > REPEATED:
            assert data == data[: array.itemsize] * array.size, "a large array of several values"
            return {"repeat": data[: array.itemsize].hex(), "bytes": len(data)}
        if data not in self._places:
            self._places[data] = len(self._bytes)
            self._bytes += data
        return {"offset": self._places[data], "bytes": len(data)}

    def files(self) -> dict[str, bytes]:
        """The group's files, by name."""
        rows = ",\n".join(json.dumps({"name": c.name, "steps": c.steps}) for c in self._cases)
        text = f'{{"settings": {json.dumps(self._settings)}, "cases": [\n{rows}\n]}}\n'
        return {f"{self.name}.json": text.encode(), f"{self.name}.bin": bytes(self._bytes)}


def tensor(name: str) -> Step:
    """An argument that is a tensor."""
    return {"tensor": name}


def scalar(value: Any, dtype: str) -> Step:  # noqa: ANN401
    """An argument that is an aclScalar: its value as text, and its type."""
    return {"scalar": repr(Scalar(value, dtype).value), "dtype": dtype}
