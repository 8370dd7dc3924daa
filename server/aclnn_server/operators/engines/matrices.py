"""The engine of products of matrices and vectors, by the processor's library of linear algebra.

It multiplies FLOAT in place where the matrices lie row by row or column by column; anything else is cast
or copied into the workspace first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.tensors import TensorSpec
from aclnn_server.operators.definition import Memory
from aclnn_server.operators.engines.blocks import workspace_bytes
from aclnn_server.operators.engines.copies import Copy, copy
from aclnn_server.operators.engines.staging import divided
from aclnn_server.operators.engines.threads import Threads

Array = npt.NDArray[Any]

_SINGLE = np.dtype(np.float32)
_EMPTY = np.empty(0, np.uint8)
_CHUNK = 1 << 13
"""Elements of a dot product that are added in their own type."""


@dataclass(frozen=True, slots=True)
class Factor:
    """An operand as FLOAT: as it lies, or copied into the workspace."""

    name: str
    spec: TensorSpec
    copy: Copy | None
    """Into a storage of the name :attr:`room`."""

    @classmethod
    def of(cls, name: str, spec: TensorSpec, via: DType, *, copied: bool = False) -> Factor:
        """Plans an operand that is rounded to `via` first; `copied` means that it will be overwritten."""
        as_it_lies = spec.dtype is via is dtypes.FLOAT and _multiplies_in_place(spec)
        if as_it_lies and not copied:
            return cls(name, spec, None)
        floats = TensorSpec.contiguous(spec.shape, dtypes.FLOAT)
        target = (f"{name} in the workspace", floats)
        return cls(name, floats, copy((name, spec), target, via=via))

    @property
    def room(self) -> str:
        """Name of its storage in the workspace."""
        return f"{self.name} in the workspace"

    @property
    def room_bytes(self) -> int:
        """Bytes of that storage."""
        return 0 if self.copy is None else workspace_bytes(self.spec.storage_bytes)

    def load(self, memory: Memory, threads: Threads) -> Array:
        """Gives its elements."""
        if self.copy is None:
            return self.spec.view(memory.get(self.name, _EMPTY))
        storage = memory[self.room]
        job = self.copy.prepare(memory, lambda: storage)
        threads.run(job, job.tiling.blocks, job.scratch)
        return self.spec.view(storage)


@dataclass(frozen=True, slots=True)
class Product:
    """out = alpha * (left @ right) + beta * added, in FLOAT."""

    left: Factor
    right: Factor
    output: TensorSpec
    added: Factor | None = None
    alpha: float = 1.0
    beta: float = 0.0

    @property
    def workspace_bytes(self) -> int:
        """Bytes for operands that are cast or moved, and for a result that is."""
        return sum(size for _, size in self._rooms)

    @property
    def _rooms(self) -> list[tuple[str, int]]:
        factors = [row for row in (self.left, self.right, self.added) if row is not None]
        rooms = [(row.room, row.room_bytes) for row in factors]
        if not self._direct:
            rooms.append(("result", workspace_bytes(self.output.elements * _SINGLE.itemsize)))
        return rooms

    @property
    def _direct(self) -> bool:
        return self.output.is_contiguous and self.output.dtype is dtypes.FLOAT

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Computes the output; the processor's library of linear algebra has threads of its own."""
        memory = {**memory, **divided(workspace, self._rooms)}
        result = self._result(memory)
        factors = (self.left, self.right, *((self.added,) if self.added else ()))
        left, right, *rest = (
            array.copy() if np.may_share_memory(array, result) else array
            for array in (factor.load(memory, threads) for factor in factors)
        )
        with np.errstate(all="ignore"):
            np.matmul(left, right, out=result)
            self._add(result, rest)
        if not self._direct:
            self._write(memory, threads)

    def _result(self, memory: Memory) -> Array:
        if self._direct:
            return self.output.view(memory["out"])
        return self._floats.view(memory["result"])

    @property
    def _floats(self) -> TensorSpec:
        return TensorSpec.contiguous(self.output.shape, dtypes.FLOAT)

    def _add(self, result: Array, added: Sequence[Array]) -> None:
        if self.alpha != 1:
            np.multiply(result, np.float32(self.alpha), out=result)
        for array in added:
            if self.beta != 1:
                np.multiply(array, np.float32(self.beta), out=array)
            np.add(result, array, out=result)

    def _write(self, memory: Memory, threads: Threads) -> None:
        step = copy(("result", self._floats), ("out", self.output))
        assert step is not None, "an empty output is not computed"
        job = step.prepare(memory, lambda: self.output.view(memory["out"]))
        threads.run(job, job.tiling.blocks, job.scratch)


@dataclass(frozen=True, slots=True)
class DotProduct:
    """The sum of the products of two vectors; its parts are added in a wide type, in order."""

    left: TensorSpec
    right: TensorSpec
    output: TensorSpec
    workspace_bytes: int = 0

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> None:
        """Computes the output."""
        dtype = self.left.numpy_dtype()
        whole = dtype.kind in "iu"
        loaded = np.dtype(np.int64) if whole else _SINGLE
        left, right = (
            np.ascontiguousarray(spec.view(memory[name]).astype(loaded, copy=False))
            for name, spec in (("self", self.left), ("tensor", self.right))
        )
        even = left.size // _CHUNK * _CHUNK
        with np.errstate(all="ignore"):
            parts = np.vecdot(left[:even].reshape(-1, _CHUNK), right[:even].reshape(-1, _CHUNK))
            rest = np.vecdot(left[even:], right[even:])
            total = parts.sum(dtype=loaded if whole else np.float64) + rest
            self.output.view(memory["out"])[...] = np.asarray(total).astype(dtype)


def _multiplies_in_place(spec: TensorSpec) -> bool:
    """Whether the library reads matrices of these strides without a copy."""
    if len(spec.shape) < 2:
        return spec.is_contiguous
    (rows, columns), (far, near) = spec.shape[-2:], spec.strides[-2:]
    by_rows = near == 1 and far >= max(columns, 1)
    by_columns = far == 1 and near >= max(rows, 1)
    return by_rows or by_columns
