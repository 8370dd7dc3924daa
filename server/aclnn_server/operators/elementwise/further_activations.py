"""Further activations and the gradients that training needs, element by element."""

from __future__ import annotations

from aclnn.pythonic import Result
from aclnn.tensors import TensorSpec
from aclnn_server.operators.checking.axis_checks import WhereGiven
from aclnn_server.operators.checking.checks import Broadcasts, Holds, NotNull, RankUpTo, TypeIn
from aclnn_server.operators.checking.layout_checks import DimOf, HasShape, dimension
from aclnn_server.operators.definition import Call, Family, OneLine, Work
from aclnn_server.operators.elementwise import further_activation_kernels as kernels
from aclnn_server.operators.elementwise.activation_kernels import gelu_backward, log_sigmoid
from aclnn_server.operators.elementwise.activations import Row
from aclnn_server.operators.elementwise.arithmetic_kernels import clamp
from aclnn_server.operators.engines.blocks import Elementwise, Kernel, Nothing, Types
from aclnn_server.operators.engines.common_type import CommonType, Meets
from aclnn_server.operators.engines.pointwise import FLOATS, Pointwise, fixed
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.tiling import lay_out
from aclnn_server.operators.engines.views import sliced
from aclnn_server.operators.networks.normalization import Several

FURTHER_ACTIVATIONS = Family()

View = tuple[str, TensorSpec]
"""A tensor of a parameter, or a part of it, with the parameter's name."""

_PAIR = ("gradOutput", "self")
_SOURCE = (
    "the public documentation of {0} (hicann/ops-nn, activation); "
    "the order of checks is that of its like"
)

ROWS = (
    Row(
        "Hardsigmoid",
        "Share of each element between -3 and 3, at most 1 and at least 0.",
        "out = \\frac{\\min(\\max(self + 3, 0), 6)}{6}",
        fixed(kernels.hardsigmoid),
        "hardsigmoid",
        _SOURCE,
        FLOATS,
    ),
    Row(
        "HardsigmoidBackward",
        "Gradient of the share between -3 and 3.",
        "out = \\begin{cases} gradOutput / 6 & |self| < 3 \\\\ 0 & \\text{otherwise} \\end{cases}",
        fixed(kernels.hardsigmoid_backward),
        "hardsigmoid_backward",
        _SOURCE,
        FLOATS,
        _PAIR,
    ),
    Row(
        "Hardswish",
        "Each element times its share between -3 and 3.",
        "out = self \\cdot \\frac{\\min(\\max(self + 3, 0), 6)}{6}",
        fixed(kernels.hardswish),
        "hardswish",
        _SOURCE,
        FLOATS,
        const_out=True,
    ),
    *(
        Row(
            name,
            "Gradient of an element times its share between -3 and 3.",
            "out = gradOutput \\cdot \\begin{cases} 0 & self \\le -3 \\\\ self / 3 + 1 / 2 & -3 < self < 3 "
            "\\\\ 1 & self \\ge 3 \\end{cases}",
            fixed(kernels.hardswish_backward),
            python,
            _SOURCE,
            FLOATS,
            _PAIR,
        )
        for name, python in (
            ("HardswishBackward", "hardswish_backward"),
            ("HardswishBackwardV2", "hardswish_backward_v2"),
        )
    ),
    Row(
        "Mish",
        "Each element times the hyperbolic tangent of its smooth positive part.",
        "out = self \\cdot \\tanh(\\ln(1 + e^{self}))",
        fixed(kernels.mish),
        "mish",
        _SOURCE,
        FLOATS,
        notes=("It does not overflow.",),
    ),
    Row(
        "MishBackward",
        "Gradient of an element times the hyperbolic tangent of its smooth positive part.",
        "gradInput = gradOutput \\cdot (t + self \\cdot \\frac{1 - t^2}{1 + e^{-self}}), t = \\tanh(\\ln(1 + "
        "e^{self}))",
        fixed(kernels.mish_backward),
        "mish_backward",
        _SOURCE,
        FLOATS,
        _PAIR,
        "gradInput",
    ),
    Row(
        "Elu",
        "Each element, with the negative ones on an exponential curve.",
        "out = scale \\cdot \\begin{cases} self & self > 0 \\\\ "
        "alpha \\cdot (e^{inputScale \\cdot self} - 1) & \\text{otherwise} \\end{cases}",
        kernels.elu,
        "elu",
        _SOURCE,
        FLOATS,
        scalars=("alpha", "scale", "inputScale"),
        defaults={"alpha": 1.0, "scale": 1.0, "inputScale": 1.0},
    ),
    Row(
        "Selu",
        "Exponential curve that keeps mean and variance.",
        "out = 1.0507 \\cdot \\begin{cases} self & self > 0 \\\\ 1.6733 \\cdot (e^{self} - 1) & "
        "\\text{otherwise} \\end{cases}",
        kernels.selu,
        "selu",
        _SOURCE,
        FLOATS,
        notes=("The numbers are 1.0507009873554805 and 1.6732632423543772.",),
    ),
    Row(
        "SeluBackward",
        "Gradient of the exponential curve that keeps mean and variance, from its result.",
        "gradInput = gradOutput \\cdot \\begin{cases} 1.0507 & result > 0 \\\\ result + 1.0507 \\cdot 1.6733 "
        "& \\text{otherwise} \\end{cases}",
        kernels.selu_backward,
        "selu_backward",
        _SOURCE,
        FLOATS,
        ("gradOutput", "result"),
        "gradInput",
    ),
    Row(
        "SoftplusBackward",
        "Gradient of the smooth positive part.",
        "gradInput = \\begin{cases} \\frac{gradOutput}{1 + e^{-beta \\cdot self}} & beta \\cdot self \\le "
        "threshold \\\\ gradOutput & \\text{otherwise} \\end{cases}",
        kernels.softplus_backward,
        "softplus_backward",
        _SOURCE,
        FLOATS,
        _PAIR,
        "gradInput",
        scalars=("beta", "threshold"),
        defaults={"beta": 1.0, "threshold": 20.0},
    ),
    Row(
        "Hardtanh",
        "Each element, bounded from below and above.",
        "out = \\min(\\max(self, clipValueMin), clipValueMax)",
        clamp,
        "hardtanh",
        _SOURCE,
        FLOATS,
        scalars=("clipValueMin", "clipValueMax"),
        defaults={"clipValueMin": -1.0, "clipValueMax": 1.0},
        notes=("NaN gives NaN.",),
    ),
    Row(
        "HardtanhBackward",
        "Gradient of bounds from below and above.",
        "out = \\begin{cases} gradOutput & min < self < max \\\\ 0 & \\text{otherwise} \\end{cases}",
        kernels.hardtanh_backward,
        "hardtanh_backward",
        _SOURCE,
        FLOATS,
        _PAIR,
        scalars=("min", "max"),
        defaults={"min": -1.0, "max": 1.0},
        notes=("Where self is NaN, it gives gradOutput.",),
    ),
)
for _row in ROWS:
    _row.define(FURTHER_ACTIVATIONS)


def _own_shape(call: Call) -> Shape:
    return call.tensor("self").shape


_GRADIENT = CommonType(_PAIR)


@FURTHER_ACTIVATIONS.operator(
    """
    aclnnStatus aclnnEluBackwardGetWorkspaceSize(
        const aclTensor* gradOutput, const aclScalar* alpha, const aclScalar* scale,
        const aclScalar* inputScale, bool isResult, const aclTensor* selfOrResult, aclTensor* gradInput,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("gradInput",),
    checks=(
        NotNull(("gradOutput", "alpha", "scale", "inputScale", "selfOrResult", "gradInput")),
        TypeIn(("gradOutput", "selfOrResult", "gradInput"), FLOATS),
        Meets(CommonType(("gradOutput", "selfOrResult")), "gradInput"),
        RankUpTo(("gradOutput", "selfOrResult")),
        Broadcasts(("gradOutput", "selfOrResult"), to="gradInput"),
    ),
    python=OneLine(
        "elu_backward",
        {"alpha": 1.0, "scale": 1.0, "inputScale": 1.0, "isResult": False},
        result=Result(),
    ),
)
def elu_backward(call: Call) -> Work:
    """Gradient of the exponential curve for negative elements, from its input or from its result.

    For elements x that are not above 0, and elsewhere gradOutput * scale:

    $$gradInput = gradOutput \\cdot \\begin{cases} inputScale \\cdot (x + alpha \\cdot scale) & isResult \\\\
    scale \\cdot alpha \\cdot inputScale \\cdot e^{inputScale \\cdot x} & \\text{otherwise} \\end{cases}$$

    - FLOAT16 and BF16 are computed in FLOAT, rounded once to the common type of the inputs.
    - Inputs broadcast to exactly the shape of the output, and may be strided, as it may.

    Source: the public documentation of aclnnEluBackward (hicann/ops-nn, activation); the order of checks is
    that of its like.
    """
    names = ("gradOutput", "selfOrResult")
    return Pointwise(names, "gradInput", CommonType(names), kernels.elu_backward)(call)


@FURTHER_ACTIVATIONS.operator(
    """
    aclnnStatus aclnnLogSigmoidBackwardGetWorkspaceSize(
        const aclTensor* gradOutput, const aclTensor* self, const aclTensor* buffer,
        aclTensor* gradInput, uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("gradInput",),
    optional=("buffer",),
    checks=(
        NotNull((*_PAIR, "gradInput")),
        TypeIn((*_PAIR, "gradInput"), FLOATS),
        WhereGiven(("buffer",), lambda name: TypeIn((name,), FLOATS)),
        Meets(_GRADIENT, "gradInput"),
        RankUpTo(_PAIR),
        Broadcasts(_PAIR, to="gradInput"),
    ),
    python=OneLine("log_sigmoid_backward"),
)
def log_sigmoid_backward(call: Call) -> Work:
    """Gradient of the logarithm of the logistic function.

    $$gradInput = \\frac{gradOutput}{1 + e^{self}}$$

    - buffer, which the forward pass may have kept, is not read.
    - FLOAT16 and BF16 are computed in FLOAT, rounded once to the common type of the inputs.
    - Inputs broadcast to exactly the shape of the output, and may be strided, as it may.

    Source: the public documentation of aclnnLogSigmoidBackward (hicann/ops-nn, activation); the order of
    checks is that of its like.
    """
    return Pointwise(_PAIR, "gradInput", _GRADIENT, fixed(kernels.log_sigmoid_backward))(call)


@FURTHER_ACTIVATIONS.operator(
    """
    aclnnStatus aclnnLogSigmoidForwardGetWorkspaceSize(
        const aclTensor* self, aclTensor* out, aclTensor* buffer, uint64_t* workspaceSize,
        aclOpExecutor** executor)
    """,
    outputs=("out", "buffer"),
    optional=("buffer",),
    checks=(
        NotNull(("self", "out")),
        TypeIn(("self", "out"), FLOATS),
        WhereGiven(("buffer",), lambda name: TypeIn((name,), FLOATS)),
        Meets(CommonType(("self",)), "out"),
        RankUpTo(("self",)),
        HasShape("out", "the shape of self", _own_shape),
    ),
)
def log_sigmoid_forward(call: Call) -> Work:
    """Logarithm of each element's logistic function, for training.

    $$out = -\\ln(1 + e^{-self})$$

    - It does not overflow. buffer, for the gradient, is not written, as aclnnLogSigmoidBackward needs none.
    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.
    - Input and output may be strided; the output may be the same memory as the input.

    Source: the public documentation of aclnnLogSigmoidForward (hicann/ops-nn, activation); the order of
    checks is that of its like.
    """
    return Pointwise(("self",), "out", CommonType(("self",)), fixed(log_sigmoid))(call)


_APPROXIMATIONS: dict[str, Kernel] = {
    "none": gelu_backward,
    "tanh": kernels.gelu_tanh_backward,
}


def _check_approximate(call: Call) -> None:
    if call["approximate"] not in _APPROXIMATIONS:
        raise call.invalid(
            "approximate",
            f"approximate is {call['approximate']!r}; allowed are {', '.join(_APPROXIMATIONS)}",
        )


@FURTHER_ACTIVATIONS.operator(
    """
    aclnnStatus aclnnGeluBackwardV2GetWorkspaceSize(
        const aclTensor* gradOutput, const aclTensor* self, char* approximate, aclTensor* gradInput,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("gradInput",),
    checks=(
        NotNull((*_PAIR, "approximate", "gradInput")),
        TypeIn((*_PAIR, "gradInput"), FLOATS),
        Holds("approximate is none or tanh", _check_approximate),
        Meets(_GRADIENT, "gradInput"),
        RankUpTo(_PAIR),
        Broadcasts(_PAIR, to="gradInput"),
    ),
    python=OneLine("gelu_backward_v2", {"approximate": "none"}),
)
def gelu_backward_v2(call: Call) -> Work:
    """Gradient of the Gaussian error linear unit, exact or of its form by the hyperbolic tangent.

    $$gradInput = gradOutput \\cdot \\frac{d}{dx} \\begin{cases} \\frac{x}{2} (1 + erf(\\frac{x}{\\sqrt 2})) &
    none \\\\ \\frac{x}{2} (1 + \\tanh(\\sqrt{\\frac{2}{\\pi}} (x + 0.044715 x^3))) & tanh \\end{cases}$$

    The derivative is at x = self.

    - FLOAT16 and BF16 are computed in FLOAT, rounded once to the common type of the inputs.
    - Inputs broadcast to exactly the shape of the output, and may be strided, as it may.

    Source: the public documentation of aclnnGeluBackwardV2 (hicann/ops-nn, activation); the order of checks
    is that of its like.
    """
    return Pointwise(_PAIR, "gradInput", _GRADIENT, fixed(_APPROXIMATIONS[call["approximate"]]))(
        call
    )


# --- gates ------------------------------------------------------------------------------------------


def _check_even(call: Call) -> None:
    shape = call.tensor("self").shape
    dim = dimension(call, "dim", len(shape), "self")
    if not shape or shape[dim] % 2:
        raise call.invalid(
            "self",
            f"self has shape {list(shape)}; it must be of even size along dim, {call['dim']}",
        )


def _half(call: Call) -> Shape:
    shape = call.tensor("self").shape
    dim = dimension(call, "dim", len(shape), "self")
    return (*shape[:dim], shape[dim] // 2, *shape[dim + 1 :])


def _halves(call: Call, name: str) -> list[View]:
    """The two halves of a tensor along dim, with its name."""
    spec, shape = call.tensor(name), _half(call)
    dim = dimension(call, "dim", len(shape), "self")
    count = shape[dim]
    return [(name, sliced(spec, dim, start, count)) for start in (0, count)]


_GATED = "the shape of self, half as large along dim"
_IS_HALF = HasShape("out", _GATED, _half)
_EVEN = Holds("self is of even size along dim", _check_even)


@FURTHER_ACTIVATIONS.operator(
    """
    aclnnStatus aclnnGluGetWorkspaceSize(
        const aclTensor* self, int64_t dim, const aclTensor* out, uint64_t* workspaceSize,
        aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("self", "out")),
        TypeIn(("self", "out"), FLOATS),
        Meets(CommonType(("self",)), "out"),
        RankUpTo(("self",)),
        DimOf("dim", "self"),
        _EVEN,
        _IS_HALF,
    ),
)
def glu(call: Call) -> Work:
    """The first half of a tensor, times the logistic function of the second.

    $$out = a \\cdot \\frac{1}{1 + e^{-b}}$$

    a and b are the halves of self along dim.

    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.
    - Input and output may be strided.

    Source: the public documentation of aclnnGlu (hicann/ops-nn, activation); the order of checks is that of
    its like.
    """
    return _elementwise(call, kernels.glu, _halves(call, "self"), ("out", call.tensor("out")))


@FURTHER_ACTIVATIONS.operator(
    """
    aclnnStatus aclnnGluBackwardGetWorkspaceSize(
        const aclTensor* gradOut, const aclTensor* self, int64_t dim, const aclTensor* out,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("out",),
    checks=(
        NotNull(("gradOut", "self", "out")),
        TypeIn(("gradOut", "self", "out"), FLOATS),
        Meets(CommonType(("gradOut", "self")), "out"),
        RankUpTo(("self",)),
        DimOf("dim", "self"),
        _EVEN,
        HasShape("gradOut", _GATED, _half),
        HasShape("out", "the shape of self", _own_shape),
    ),
)
def glu_backward(call: Call) -> Work:
    """Gradient of the first half of a tensor, times the logistic function of the second.

    $$out = \\left[gradOut \\cdot s, \\; gradOut \\cdot a \\cdot s \\cdot (1 - s)\\right] \\qquad
    s = \\frac{1}{1 + e^{-b}}$$

    a and b are the halves of self along dim, as are the two parts of out.

    - FLOAT16 and BF16 are computed in FLOAT, and rounded once.
    - Inputs and output may be strided.

    Source: the public documentation of aclnnGluBackward (hicann/ops-nn, activation); the order of checks is
    that of its like.
    """
    grad = ("gradOut", call.tensor("gradOut"))
    own, gate = _halves(call, "self")
    first, second = _halves(call, "out")
    return Several(
        (
            _elementwise(call, kernels.glu, [grad, gate], first),
            _elementwise(call, kernels.glu_backward, [grad, own, gate], second),
        )
    )


def _elementwise(call: Call, kernel: Kernel, inputs: list[View], output: View) -> Work:
    """Plans the computation of a view from views of one shape."""
    names = tuple(dict.fromkeys(name for name, _ in inputs))
    shape = output[1].shape
    if 0 in shape:
        return Nothing()
    tiling, operands = lay_out(shape, [*inputs, output], along_last=True)
    types = Types.of(CommonType(names).known(call))
    return Elementwise(kernel, operands[:-1], operands[-1], tiling, types)
