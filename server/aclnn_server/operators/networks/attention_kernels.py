"""Attention a few rows of scores at a time, and its gradients, which compute the scores again.

A row of scores is whole, so its softmax is exact; only the rows in work are in memory, never the scores
of all queries and keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn_server.operators.engines.random_numbers import generator
from aclnn_server.operators.engines.threads import Scratch, Threads

Array = npt.NDArray[Any]

_BLOCK = 1 << 18
"""Scores in work, at most, unless a row has more."""
LANES = 8
"""Copies of each row's largest score and sum, which the vendor's layout has side by side."""
_LOWEST = np.finfo(np.float32).min


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor's dimensions are ordered: B batches, N heads, S places of a sequence, D or H = N * D."""

    name: str

    def heads(self, array: Array, count: int) -> Array:
        """The tensor with dimensions (B, N, S, D), a view; `count` is its heads."""
        if self.name == "BNSD":
            return array
        if self.name == "BSND":
            return array.transpose(0, 2, 1, 3)
        first, second, width = array.shape
        split = array.reshape(first, second, count, width // max(1, count))
        return split.transpose((0, 2, 1, 3) if self.name == "BSH" else (1, 2, 0, 3))


@dataclass(frozen=True, slots=True)
class Band:
    """Which keys a query sees by their distance, with queries and keys counted from `shift`."""

    shift: int = 0
    before: int | None = None
    after: int | None = None

    def hidden(self, rows: slice, keys: int) -> Array | None:
        """BOOL for rows and keys, where one does not see the other; ``None`` if all see all."""
        if self.before is None and self.after is None:
            return None
        distance = np.arange(keys) - (np.arange(rows.start, rows.stop)[:, np.newaxis] + self.shift)
        hidden = np.zeros(distance.shape, np.bool_)
        if self.after is not None:
            hidden |= distance > self.after
        if self.before is not None:
            hidden |= distance < -self.before
        return hidden


@dataclass(frozen=True, slots=True)
class Drop:
    """Which probabilities are kept: by a mask of bits, or by seed and offset."""

    keep: float
    seed: int = 0
    offset: int = 0

    def factors(self, mask: Array | None, head: int, rows: slice, queries: int, keys: int) -> Array:
        """What the probabilities of some rows of a head, counted over all batches, are multiplied by."""
        count = (rows.stop - rows.start) * keys
        if mask is None:
            source = generator(self.seed, self.offset, head * queries + rows.start)
            kept = source.random(count, np.float32) < self.keep
        else:
            first = (head * queries + rows.start) * keys
            bits = mask[first // 8 : -(-(first + count) // 8)]
            kept = np.unpackbits(bits, bitorder="little")[first % 8 : first % 8 + count]
        scale = np.float32(1 / self.keep) if self.keep > 0 else np.float32(0)
        factors: Array = kept.reshape(-1, keys) * scale
        return factors


@dataclass(frozen=True, slots=True)
class Attention:
    """The numbers of a call, and its computation on arrays of dimensions (B, N, S, D)."""

    scale: float
    band: Band
    drop: Drop | None
    shift_first: bool
    """Whether the shift of the scores is added before they are scaled."""

    # --- parts --------------------------------------------------------------------------------------

    def _rows(self, queries: int, keys: int) -> Iterator[slice]:
        step = max(1, _BLOCK // max(1, keys))
        return (slice(start, min(start + step, queries)) for start in range(0, queries, step))

    def _scores(
        self, given: Inputs, batch: int, head: int, rows: slice
    ) -> tuple[Array, Array | None]:
        """Scores of some rows of a head, and which of them do not count."""
        key = given.key[batch, head // given.group]
        scores: Array = given.query[batch, head, rows] @ key.T
        scale = np.float32(self.scale)
        if given.shift is None:
            np.multiply(scores, scale, out=scores)
        else:
            shift = given.shift[batch, head, rows]
            if self.shift_first:
                np.add(scores, shift, out=scores)
                np.multiply(scores, scale, out=scores)
            else:
                np.multiply(scores, scale, out=scores)
                np.add(scores, shift, out=scores)
        hidden = self.band.hidden(rows, scores.shape[1])
        if given.mask is not None:
            masked = given.mask[batch, head, rows] != 0
            hidden = masked if hidden is None else hidden | masked
        if hidden is not None:
            scores[hidden] = -np.inf
        return scores, hidden

    def _factors(self, given: Inputs, batch: int, head: int, rows: slice) -> Array | None:
        if self.drop is None:
            return None
        heads, queries = given.query.shape[1:3]
        number = batch * heads + head
        return self.drop.factors(given.dropped, number, rows, queries, given.key.shape[2])

    # --- forward ------------------------------------------------------------------------------------

    def forward(
        self, given: Inputs, largest: Array, sums: Array, out: Array, threads: Threads
    ) -> None:
        """Writes the result, and of each row the largest score and the sum of exp(score - largest).

        A row whose keys are all hidden gives 0, with the lowest number as its largest score and sum 0.
        """
        batches, heads, queries, _ = given.query.shape
        rows = list(self._rows(queries, given.key.shape[2]))

        def compute(scratch: Scratch, number: int) -> None:
            place, part = divmod(number, len(rows))
            batch, head = divmod(place, heads)
            cut = rows[part]
            scores, _ = self._scores(given, batch, head, cut)
            top = np.max(scores, axis=1, keepdims=True, initial=_LOWEST)
            np.subtract(scores, top, out=scores)
            np.exp(scores, out=scores)
            total = np.sum(scores, axis=1, keepdims=True)
            largest[batch, head, cut] = top
            sums[batch, head, cut] = total
            np.divide(scores, np.where(total == 0, np.float32(1), total), out=scores)
            factors = self._factors(given, batch, head, cut)
            if factors is not None:
                np.multiply(scores, factors, out=scores)
            out[batch, head, cut] = scores @ given.value[batch, head // given.group]

        threads.run(compute, batches * heads * len(rows), 0)

    # --- backward -----------------------------------------------------------------------------------

    def backward(self, given: Inputs, kept: Kept, slopes: Slopes, threads: Threads) -> None:
        """Writes the gradients of query, key, value and, where it is asked for, of the shift."""
        batches, heads, queries, _ = given.query.shape
        rows = list(self._rows(queries, given.key.shape[2]))

        def compute(scratch: Scratch, number: int) -> None:
            batch, shared = divmod(number, heads // given.group)
            slopes.key[batch, shared] = 0
            slopes.value[batch, shared] = 0
            for head in range(shared * given.group, (shared + 1) * given.group):
                for cut in rows:
                    self._add_slopes(given, kept, slopes, (batch, head, shared), cut)

        threads.run(compute, batches * (heads // given.group), 0)

    def _add_slopes(
        self, given: Inputs, kept: Kept, slopes: Slopes, place: tuple[int, int, int], cut: slice
    ) -> None:
        batch, head, shared = place
        grad, value = kept.grad[batch, head, cut], given.value[batch, shared]
        shares, _ = self._scores(given, batch, head, cut)
        np.subtract(shares, kept.largest[batch, head, cut], out=shares)
        np.exp(shares, out=shares)
        total = kept.sums[batch, head, cut]
        np.divide(shares, np.where(total == 0, np.float32(1), total), out=shares)
        slope: Array = grad @ value.T
        factors = self._factors(given, batch, head, cut)
        if factors is None:
            slopes.value[batch, shared] += shares.T @ grad
        else:
            slopes.value[batch, shared] += (shares * factors).T @ grad
            np.multiply(slope, factors, out=slope)
        along = np.sum(grad * kept.result[batch, head, cut], axis=1, keepdims=True)
        np.subtract(slope, along, out=slope)
        np.multiply(slope, shares, out=slope)
        scale = np.float32(self.scale)
        if slopes.shift is not None:
            slopes.shift[batch, head, cut] = slope * (scale if self.shift_first else np.float32(1))
        np.multiply(slope, scale, out=slope)
        slopes.query[batch, head, cut] = slope @ given.key[batch, shared]
        slopes.key[batch, shared] += slope.T @ given.query[batch, head, cut]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What attention is computed from, with dimensions (B, N, S, D); keys may have fewer heads."""

    query: Array
    key: Array
    value: Array
    shift: Array | None
    """Added to the scores: (B, N, queries, keys), broadcast."""
    mask: Array | None
    """Not 0 where a score does not count, of the same dimensions."""
    dropped: Array | None
    """Bits of the probabilities that are kept, the lowest of each byte first."""

    @property
    def group(self) -> int:
        """Heads of queries that share a head of keys."""
        return int(self.query.shape[1] // max(1, self.key.shape[1]))


@dataclass(frozen=True, slots=True)
class Kept:
    """What the gradients are computed from besides; numbers of a row have a last dimension of 1."""

    grad: Array
    largest: Array
    sums: Array
    result: Array


@dataclass(frozen=True, slots=True)
class Slopes:
    """The gradients that are written."""

    query: Array
    key: Array
    value: Array
    shift: Array | None
