"""Planes read wherever a grid of points says, and the gradients."""

from __future__ import annotations

import math

from aclnn_server.operators.checking.checks import Holds, NotNull, OneOf, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import HasShape
from aclnn_server.operators.checking.masked_outputs import GivenWhereAsked, OutputsHave, asked
from aclnn_server.operators.definition import Call, Check, Family, Work, prototype
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.staging import Arrays, in_blocks, staged
from aclnn_server.operators.engines.threads import Scratch, Threads
from aclnn_server.operators.networks.matmul import FLOATS
from aclnn_server.operators.networks.resampling_kernels import BORDER, REFLECTION, ZEROS, Axis, Grid
from aclnn_server.operators.products import ASCEND310B

GRID_SAMPLING = Family()

_WAYS = {"bilinear": 0, "nearest": 1}
_PADDINGS = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTION}


def _check_shapes(call: Call) -> None:
    plane, grid = call.tensor("input").shape, call.tensor("grid").shape
    if len(plane) != 4 or 0 in plane[2:]:
        raise call.invalid(
            "input", f"input has shape {list(plane)}; it must have 4 dimensions, the last two not 0"
        )
    if len(grid) != 4 or grid[0] != plane[0] or grid[3] != 2:
        raise call.invalid(
            "grid",
            f"grid has shape {list(grid)}; it must have 4 dimensions, first {plane[0]}, last 2",
        )


def _sampled(call: Call) -> Shape:
    plane, grid = call.tensor("input").shape, call.tensor("grid").shape
    return *plane[:2], *grid[1:3]


def _input_shape(call: Call) -> Shape:
    return call.tensor("input").shape


def _grid_shape(call: Call) -> Shape:
    return call.tensor("grid").shape


def _grid(call: Call) -> Grid:
    rows, columns = call.tensor("input").shape[2:]
    settings = (call["paddingMode"], bool(call["alignCorners"]))
    return Grid(Axis(rows, *settings), Axis(columns, *settings), call["interpolationMode"] == 1)


_RULES: tuple[Check, ...] = (
    OneOf("interpolationMode", _WAYS),
    OneOf("paddingMode", _PADDINGS),
    Holds("input is (N, C, H, W) and grid (N, rows, columns, 2)", _check_shapes),
)
_SAMPLED = "the planes of input, with a point for each of grid"


@GRID_SAMPLING.operator(
    prototype(
        "aclnnGridSampler2D",
        "const aclTensor* input, const aclTensor* grid, int64_t interpolationMode, "
        "int64_t paddingMode, bool alignCorners, aclTensor* out",
    ),
    outputs=("out",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("input", "grid", "out")),
        TypeIn(("input", "grid", "out"), FLOATS),
        SameType(("grid", "out"), "input"),
        *_RULES,
        HasShape("out", _SAMPLED, _sampled),
    ),
)
def grid_sampler(call: Call) -> Work:
    """Planes read wherever a grid of points says.

    A point is x and y, each from -1 to 1 over the columns and rows of a plane: the outer ends of the first
    and last elements or, with alignCorners, their middles.

    - interpolationMode 0 weighs the four elements around by their distances, 1 takes the nearest; halves go
      to the even place. 2 (bicubic) is refused.
    - Points outside are surrounded by 0 (paddingMode 0), moved to the edge (1) or reflected at it (2). NaN
      is outside, or the first place.
    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnGridSampler2D (hicann/ops-cv, image/grid_sample); the order of
    checks is not documented.
    """
    shape, grid = call.tensor("input").shape, _grid(call)

    def compute(arrays: Arrays, threads: Threads) -> None:
        samples, channels = shape[:2]
        planes = arrays["input"].reshape(samples, channels, math.prod(shape[2:]))
        count = math.prod(arrays["grid"].shape[1:3])
        points = arrays["grid"].reshape(samples, count, 2)
        out = arrays["out"].reshape(samples, channels, count)
        for sample in range(samples):

            def block(cut: slice, at: int = sample) -> None:
                grid.read(planes[at], points[at, cut], out[at, :, cut])

            in_blocks(threads, count, channels, block)

    return staged(call, compute, ("input", "grid"), ("out",))


_GRADIENTS = ("inputGrad", "gridGrad")


@GRID_SAMPLING.operator(
    prototype(
        "aclnnGridSampler2DBackward",
        "const aclTensor* gradOutput, const aclTensor* input, const aclTensor* grid, "
        "int64_t interpolationMode, int64_t paddingMode, bool alignCorners, "
        "const aclBoolArray* outputMask, aclTensor* inputGrad, aclTensor* gridGrad",
    ),
    outputs=_GRADIENTS,
    optional=_GRADIENTS,
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("gradOutput", "input", "grid", "outputMask")),
        GivenWhereAsked(_GRADIENTS),
        TypeIn(("gradOutput", "input", "grid"), FLOATS),
        SameType(("gradOutput", "grid"), "input"),
        *_RULES,
        HasShape("gradOutput", _SAMPLED, _sampled),
        OutputsHave(_GRADIENTS, FLOATS, (_input_shape, _grid_shape)),
    ),
)
def grid_sampler_backward(call: Call) -> Work:
    """Gradients of planes read wherever a grid of points says: of the planes and of the grid.

    - outputMask says which of the two is computed; the other may be null.
    - The other parameters are those of aclnnGridSampler2D. By the nearest place, the grid has no gradient: 0.
    - Sums over points are in DOUBLE, in their order, all else in FLOAT; results are rounded once.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnGridSampler2DBackward (hicann/ops-cv); the order of checks is
    not documented.
    """
    shape, grid, wanted = call.tensor("input").shape, _grid(call), asked(call, _GRADIENTS)

    def compute(arrays: Arrays, threads: Threads) -> None:
        samples, channels = shape[:2]
        size, count = math.prod(shape[2:]), math.prod(arrays["grid"].shape[1:3])
        planes = arrays["input"].reshape(samples, channels, size)
        points = arrays["grid"].reshape(samples, count, 2)
        grad = arrays["gradOutput"].reshape(samples, channels, count)

        def sample(scratch: Scratch, at: int) -> None:
            if "inputGrad" in wanted:
                target = arrays["inputGrad"].reshape(planes.shape)
                target[at] = grid.spread(grad[at], points[at], size)
            if "gridGrad" in wanted:
                slopes = arrays["gridGrad"].reshape(points.shape)
                grid.slopes(planes[at], grad[at], points[at], slopes[at])

        threads.run(sample, samples, 0)

    return staged(call, compute, ("gradOutput", "input", "grid"), wanted)
