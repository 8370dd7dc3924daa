"""Convolutions in one, two and three dimensions, transposed ones, and their gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.promotion import promote
from aclnn_server.operators.checking.axis_checks import WhereGiven
from aclnn_server.operators.checking.checks import Holds, NotNull, OneOf, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import HasShape
from aclnn_server.operators.checking.masked_outputs import GivenWhereAsked, OutputsHave, asked
from aclnn_server.operators.definition import Call, Family, Work
from aclnn_server.operators.engines.reducing import total_along
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.staging import Arrays, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.networks.convolution_kernels import Geometry
from aclnn_server.operators.networks.matmul import CUBE_MATH_TYPES, FLOATS
from aclnn_server.operators.products import ASCEND310B

Array = npt.NDArray[Any]

CONVOLUTION = Family()

_LISTS = ("stride", "padding", "dilation", "outputPadding")
_CUBE = {name: number for name, number in CUBE_MATH_TYPES.items() if number < 4}
_MOST_GROUPS = 65535


@dataclass(frozen=True, slots=True)
class Window:
    """The numbers that say how a window moves, one for each dimension of space."""

    stride: Shape
    before: Shape
    after: Shape
    dilation: Shape
    more: Shape
    """Of a transposed convolution, what is added to the sizes of its output."""

    @classmethod
    def of(cls, call: Call) -> Window:
        """Reads them; paddings may be given for both ends of each dimension."""
        rank = len(call.tensor("weight").shape) - 2
        padding = tuple(call["padding"])
        both = padding if len(padding) == 2 * rank else tuple(np.repeat(padding, 2).tolist())
        more = tuple(call["outputPadding"]) if call["transposed"] else (0,) * rank
        return cls(tuple(call["stride"]), both[::2], both[1::2], tuple(call["dilation"]), more)

    def small(self, large: Shape, kernel: Shape) -> Shape:
        """Sizes of the side that has a point for each place of the window; below 1 where none fits."""
        return tuple(
            (size + first + last - gap * (width - 1) - 1) // step + 1
            for size, first, last, gap, width, step in zip(
                large, self.before, self.after, self.dilation, kernel, self.stride, strict=True
            )
        )

    def large(self, small: Shape, kernel: Shape) -> Shape:
        """Sizes of the side that a transposed convolution computes."""
        return tuple(
            (size - 1) * step - first - last + gap * (width - 1) + 1 + more
            for size, first, last, gap, width, step, more in zip(
                small,
                self.before,
                self.after,
                self.dilation,
                kernel,
                self.stride,
                self.more,
                strict=True,
            )
        )


def _geometry(call: Call, output: Shape) -> Geometry:
    given, weight = call.tensor("input").shape, call.tensor("weight").shape
    small, large = (given, output) if call["transposed"] else (output, given)
    window, groups = Window.of(call), call["groups"]
    return Geometry(
        given[0],
        groups,
        small[1] // groups,
        large[1] // groups,
        small[2:],
        large[2:],
        weight[2:],
        window.stride,
        window.before,
        window.dilation,
    )


# --- checks -----------------------------------------------------------------------------------------


def _check_ranks(call: Call, names: tuple[str, ...]) -> None:
    rank = len(call.tensor("input").shape)
    if not 3 <= rank <= 5:
        raise call.invalid("input", f"input has {rank} dimensions; it must have 3 to 5")
    for name in names:
        if len(call.tensor(name).shape) != rank:
            raise call.invalid(
                name,
                f"{name} has {len(call.tensor(name).shape)} dimensions; it must have {rank}, as "
                "input has",
            )


def _check_lists(call: Call) -> None:
    rank = len(call.tensor("input").shape) - 2
    for name, lowest in zip(_LISTS, (1, 0, 1, 0), strict=True):
        numbers = tuple(call[name])
        if name == "outputPadding" and not call["transposed"]:
            continue
        both = name == "padding" and (rank == 2 or (rank == 1 and not call["transposed"]))
        lengths = (rank, 2 * rank) if both else (rank,)
        if len(numbers) not in lengths:
            raise call.invalid(
                name,
                f"{name} has {len(numbers)} numbers; it must have {' or '.join(map(str, lengths))}",
            )
        if any(number < lowest for number in numbers):
            raise call.invalid(
                name, f"{name} is {list(numbers)}; allowed are numbers of at least {lowest}"
            )


def _check_output_padding(call: Call) -> None:
    if not call["transposed"]:
        return
    for more, step, gap in zip(
        call["outputPadding"], call["stride"], call["dilation"], strict=True
    ):
        if more >= max(step, gap):
            raise call.invalid(
                "outputPadding",
                f"outputPadding is {list(call['outputPadding'])}; each number must be below that of "
                f"stride {list(call['stride'])} or dilation {list(call['dilation'])}",
            )


def _check_groups(call: Call) -> None:
    groups, weight = call["groups"], call.tensor("weight").shape
    channels = call.tensor("input").shape[1]
    if not 1 <= groups <= _MOST_GROUPS:
        raise call.invalid("groups", f"groups is {groups}; allowed are 1 to {_MOST_GROUPS}")
    expected = weight[0] if call["transposed"] else weight[1] * groups
    if channels != expected or weight[0] % groups:
        raise call.invalid(
            "groups",
            f"groups is {groups}, with {channels} channels of input and weight {list(weight)}: they "
            "do not fit",
        )


def _output_channels(call: Call) -> int:
    weight = call.tensor("weight").shape
    return weight[1] * call["groups"] if call["transposed"] else weight[0]


def _output_shape(call: Call) -> Shape:
    given, weight = call.tensor("input").shape, call.tensor("weight").shape
    window = Window.of(call)
    sizes = window.large if call["transposed"] else window.small
    space = sizes(given[2:], weight[2:])
    if any(size < 0 for size in space) or (0 in space and 0 not in given):
        raise call.invalid(
            "input",
            f"input has shape {list(given)}, which with padding {list(call['padding'])} has no place "
            f"for weight {list(weight)}: the output would be {list(space)}",
        )
    return (given[0], _output_channels(call), *space)


def _bias_shape(call: Call) -> Shape:
    return (_output_channels(call),)


def _check_half(call: Call) -> None:
    if call["cubeMathType"] == _CUBE["USE_FP16"] and call.tensor("input").dtype is dtypes.BF16:
        raise call.invalid(
            "cubeMathType", "cubeMathType is 2 (USE_FP16), which BF16 does not allow"
        )


def _check_meeting(call: Call) -> None:
    types = [call.tensor(name).dtype for name in ("input", "weight")]
    if call["transposed"] and call.tensor("output").dtype is not promote(*types):
        raise call.invalid(
            "output",
            f"output is {call.tensor('output').dtype}; it must be {promote(*types)}, the common type "
            "of input and weight, as it is transposed",
        )


def _rules(*names: str) -> tuple[Holds, ...]:
    return (
        Holds(
            f"input has 3 to 5 dimensions, and {' and '.join(names)} as many",
            lambda call: _check_ranks(call, names),
        ),
        Holds(
            "stride, dilation, padding and outputPadding have a number for each dimension of space, "
            "padding also one for each end in two dimensions and in one that is not transposed; those of "
            "stride and dilation are above 0, the others not below",
            _check_lists,
        ),
        Holds("outputPadding is below stride or dilation, where it is used", _check_output_padding),
        Holds("groups is 1 to 65535 and divides the channels as weight has them", _check_groups),
        Holds("cubeMathType is not 2 (USE_FP16) for BF16", _check_half),
    )


_OUTPUT = "the sizes that follow from input, weight and the window"
_OF_BIAS = "the channels of the output"


# --- operators --------------------------------------------------------------------------------------


def _via(call: Call) -> DType | None:
    return dtypes.FLOAT16 if call["cubeMathType"] == _CUBE["USE_FP16"] else None


@CONVOLUTION.operator(
    """
    aclnnStatus aclnnConvolutionGetWorkspaceSize(
        const aclTensor* input, const aclTensor* weight, const aclTensor* bias,
        const aclIntArray* stride, const aclIntArray* padding, const aclIntArray* dilation,
        bool transposed, const aclIntArray* outputPadding, const int64_t groups, aclTensor* output,
        int8_t cubeMathType, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("output",),
    optional=("bias",),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("input", "weight", *_LISTS, "output")),
        TypeIn(("input", "weight", "output"), FLOATS),
        WhereGiven(("bias",), lambda name: TypeIn((name,), FLOATS)),
        OneOf("cubeMathType", _CUBE),
        *_rules("weight", "output"),
        Holds("output has the common type of input and weight, if transposed", _check_meeting),
        WhereGiven(("bias",), lambda name: HasShape(name, _OF_BIAS, _bias_shape)),
        HasShape("output", _OUTPUT, _output_shape),
    ),
)
def convolution(call: Call) -> Work:
    """Convolution in one, two or three dimensions, or a transposed one.

    $$output_{n,o} = bias_o + \\sum_c weight_{o,c} \\star input_{n,c}$$

    - weight is (output channels, input channels / groups, *kernel); if transposed, (input channels,
      output channels / groups, *kernel), and the output is what a convolution of its size would have
      given input for.
    - padding has a number for each dimension, or one for each of its ends: front and back of the first
      dimension, then of the second.
    - bias may be null: 0. outputPadding is read only if transposed.
    - FLOAT16 and BF16 are multiplied and added in FLOAT; the result is rounded once.
    - cubeMathType 2 (USE_FP16) rounds the inputs to FLOAT16 first; 0, 1 and 3 make no difference here.
    - Columns of windows are made in blocks that stay in the cache, a product of matrices each.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnConvolution (hicann/ops-nn, conv/convolution_forward); the
    order of checks is not documented.
    """
    geometry = _geometry(call, call.tensor("output").shape)
    compute_side = geometry.scatter if call["transposed"] else geometry.gather

    def compute(arrays: Arrays, threads: Threads) -> None:
        compute_side(
            arrays["input"], arrays["weight"], arrays.get("bias"), arrays["output"], threads
        )

    return staged(call, compute, ("input", "weight", "bias"), ("output",), via=_via(call))


_GRADIENTS = ("gradInput", "gradWeight", "gradBias")


def _check_input_gradient(call: Call) -> None:
    if "gradInput" in asked(call, _GRADIENTS):
        SameType(("gradInput",), "input")(call)


def _input_shape(call: Call) -> Shape:
    return call.tensor("input").shape


def _weight_shape(call: Call) -> Shape:
    return call.tensor("weight").shape


def _check_bias_sizes(call: Call) -> None:
    sizes = call["biasSizes"]
    if (
        "gradBias" in asked(call, _GRADIENTS)
        and sizes is not None
        and tuple(sizes) != _bias_shape(call)
    ):
        raise call.invalid(
            "biasSizes", f"biasSizes is {list(sizes)}; it must be {list(_bias_shape(call))}"
        )


@CONVOLUTION.operator(
    """
    aclnnStatus aclnnConvolutionBackwardGetWorkspaceSize(
        const aclTensor* gradOutput, const aclTensor* input, const aclTensor* weight,
        const aclIntArray* biasSizes, const aclIntArray* stride, const aclIntArray* padding,
        const aclIntArray* dilation, bool transposed, const aclIntArray* outputPadding, int groups,
        const aclBoolArray* outputMask, int8_t cubeMathType, aclTensor* gradInput,
        aclTensor* gradWeight, aclTensor* gradBias, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=_GRADIENTS,
    optional=("biasSizes", *_GRADIENTS),
    missing_on=(ASCEND310B,),
    checks=(
        NotNull(("gradOutput", "input", "weight", *_LISTS, "outputMask")),
        GivenWhereAsked(_GRADIENTS),
        TypeIn(("gradOutput", "input", "weight"), FLOATS),
        Holds(
            "gradInput has the type of input, where outputMask asks for it", _check_input_gradient
        ),
        OneOf("cubeMathType", _CUBE),
        *_rules("weight", "gradOutput"),
        HasShape("gradOutput", _OUTPUT, _output_shape),
        Holds("biasSizes is the channels of the output, where it is used", _check_bias_sizes),
        OutputsHave(_GRADIENTS, FLOATS, (_input_shape, _weight_shape, _bias_shape)),
    ),
)
def convolution_backward(call: Call) -> Work:
    """Gradients of a convolution: of its input, of its weights and of its bias.

    $$gradInput_{n,c} = \\sum_o weight_{o,c} \\ast gradOutput_{n,o} \\qquad
    gradWeight_{o,c} = \\sum_n gradOutput_{n,o} \\star input_{n,c} \\qquad
    gradBias_o = \\sum_{n,\\dots} gradOutput_{n,o}$$

    - outputMask says which of them are computed, in this order; the others may be null, and are left as
      they are.
    - The other parameters are those of the convolution. biasSizes may be null.
    - FLOAT16 and BF16 are multiplied and added in FLOAT; results are rounded once.
    - gradWeight is added in at most 8 parts, and these in their order.
    - Deterministic, at any number of threads.

    Source: the public documentation of aclnnConvolutionBackward (hicann/ops-nn,
    conv/convolution_backward); the order of checks is not documented.
    """
    geometry = _geometry(call, call.tensor("gradOutput").shape)
    wanted = asked(call, _GRADIENTS)
    in_parts = "gradWeight" in wanted and geometry.parts > 1
    rooms = {"parts": (geometry.parts, *geometry.weight)} if in_parts else {}
    transposed = call["transposed"]

    def compute(arrays: Arrays, threads: Threads) -> None:
        grad, given, weight = (arrays[name] for name in ("gradOutput", "input", "weight"))
        if "gradInput" in wanted:
            side = geometry.gather if transposed else geometry.scatter
            side(grad, weight, None, arrays["gradInput"], threads)
        if "gradWeight" in wanted:
            small, large = (given, grad) if transposed else (grad, given)
            geometry.correlate(small, large, arrays.get("parts"), arrays["gradWeight"], threads)
        if "gradBias" in wanted:
            points = grad.reshape(*grad.shape[:2], math.prod(grad.shape[2:]))
            arrays["gradBias"][...] = total_along(points, (0, 2)).reshape(-1)

    return staged(
        call, compute, ("gradOutput", "input", "weight"), wanted, via=_via(call), rooms=rooms
    )
