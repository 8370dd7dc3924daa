"""Views of views: how a tensor's elements lie when its dimensions are swapped, cut or repeated.

Nothing is moved; each function gives another description of the same storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aclnn.tensors import TensorSpec


def permuted(spec: TensorSpec, dims: Sequence[int]) -> TensorSpec:
    """The view whose dimension ``i`` is dimension ``dims[i]`` of `spec`; all are at least 0."""
    return replace(
        spec,
        shape=tuple(spec.shape[dim] for dim in dims),
        strides=tuple(spec.strides[dim] for dim in dims),
    )


def sliced(spec: TensorSpec, dim: int, start: int, count: int, step: int = 1) -> TensorSpec:
    """The view of `count` places of a dimension, from `start` on, `step` apart."""
    return replace(
        spec,
        shape=_with(spec.shape, dim, count),
        strides=_with(spec.strides, dim, spec.strides[dim] * step),
        offset=spec.offset + start * spec.strides[dim],
    )


def selected(spec: TensorSpec, dim: int, place: int) -> TensorSpec:
    """The view of one place of a dimension, without that dimension."""
    cut = sliced(spec, dim, place, 1)
    return replace(
        cut,
        shape=cut.shape[:dim] + cut.shape[dim + 1 :],
        strides=cut.strides[:dim] + cut.strides[dim + 1 :],
    )


def _with(items: tuple[int, ...], position: int, item: int) -> tuple[int, ...]:
    return (*items[:position], item, *items[position + 1 :])
