"""Activations and their gradients, element by element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.pythonic import Result
from aclnn_server.operators.checking.checks import (
    Broadcasts,
    NotNull,
    OneOf,
    RankUpTo,
    SameShape,
    SameType,
    TypeIn,
)
from aclnn_server.operators.definition import Call, Check, Family, OneLine, Work, prototype
from aclnn_server.operators.elementwise import activation_kernels as kernels
from aclnn_server.operators.engines.common_type import CommonType, Meets
from aclnn_server.operators.engines.pointwise import (
    BROADCAST,
    COMPLEX,
    FLOATING,
    FLOATS,
    HOST_CODE,
    IN_PLACE,
    NUMBERS,
    ROUNDED,
    STRIDED,
    KernelOf,
    Pointwise,
    described,
    fixed,
)

ACTIVATIONS = Family()

_ALL_FLOATS = (*FLOATS, dtypes.DOUBLE)
_WHOLE = (dtypes.INT8, dtypes.INT32, dtypes.INT64, dtypes.UINT8)
_APPROXIMATIONS = {"none": 0, "tanh": 1}


@dataclass(frozen=True, slots=True)
class Row:
    """An activation, or the gradient of one with a tensor that the forward pass kept."""

    name: str
    """C name without the aclnn prefix."""
    summary: str
    formula: str
    kernel: KernelOf
    python: str
    source: str
    """Folder of the host code in ops-nn, or what else it was taken from, with {0} for the C name."""
    types: tuple[DType, ...]
    inputs: tuple[str, ...] = ("self",)
    out: str = "out"
    scalars: tuple[str, ...] = ()
    """aclScalars, cast to the common type."""
    flag: str = ""
    """A bool of the prototype, behind the scalars, that does not change the result."""
    floating: bool = False
    """Whether integers and BOOL are computed in FLOAT."""
    same_type: bool = False
    """Whether all tensors must have one type."""
    const_out: bool = False
    """Whether C declares the output const."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def common(self) -> CommonType:
        """The type that is computed in."""
        return CommonType(self.inputs, floating=self.floating)

    def checks(self) -> tuple[Check, ...]:
        """What phase one checks."""
        others = (*self.inputs[1:], self.out)
        one = len(self.inputs) == 1
        return (
            NotNull((*self.inputs, *self.scalars, self.out)),
            TypeIn(self.inputs, self.types),
            SameType(others, self.inputs[0]) if self.same_type else Meets(self.common, self.out),
            RankUpTo(self.inputs),
            SameShape((self.out,), self.inputs[0]) if one else Broadcasts(self.inputs, to=self.out),
        )

    def declaration(self) -> str:
        """The C parameters."""
        rows = [f"const aclTensor* {name}" for name in self.inputs]
        rows += [f"const aclScalar* {name}" for name in self.scalars]
        rows += [f"bool {self.flag}"] if self.flag else []
        return ", ".join([*rows, f"{'const ' if self.const_out else ''}aclTensor* {self.out}"])

    def text(self) -> str:
        """The documentation."""
        rounding = f"{FLOATING} {ROUNDED}" if self.floating else ROUNDED
        layout = STRIDED if len(self.inputs) == 1 else BROADCAST
        named = self.source if "{0}" in self.source else HOST_CODE
        source = named.format(f"aclnn{self.name}", f"ops-nn, activation/{self.source}")
        return described(self.summary, self.formula, *self.notes, rounding, layout, source=source)

    def define(self, family: Family) -> None:
        """Adds the operator to a family."""
        family.add(
            prototype(f"aclnn{self.name}", self.declaration()),
            Pointwise(self.inputs, self.out, self.common, self.kernel),
            self.text(),
            outputs=(self.out,),
            checks=self.checks(),
            python=OneLine(
                self.python,
                self.defaults,
                result=Result(dtype="floating" if self.floating else "promoted"),
            ),
        )


RELU = Row(
    "Relu",
    "Positive part of each element.",
    "out = \\max(self, 0)",
    fixed(kernels.relu),
    "relu",
    "relu",
    (*_ALL_FLOATS, *_WHOLE),
    const_out=True,
    notes=("NaN gives NaN.",),
)
ROWS = (
    RELU,
    Row(
        "ThresholdBackward",
        "Gradient of a threshold, and with threshold 0 of the positive part.",
        "out = \\begin{cases} gradOutput & self > threshold \\\\ 0 & \\text{otherwise} \\end{cases}",
        kernels.threshold_backward,
        "threshold_backward",
        "threshold_grad_v2_d",
        (*_ALL_FLOATS, *_WHOLE),
        ("gradOutput", "self"),
        scalars=("threshold",),
        defaults={"threshold": 0},
        notes=("Where self is NaN, it gives gradOutput.",),
    ),
    Row(
        "LeakyRelu",
        "Each element, with the negative ones scaled.",
        "out = \\max(self, 0) + negativeSlope \\cdot \\min(self, 0)",
        kernels.leaky_relu,
        "leaky_relu",
        "leaky_relu",
        _ALL_FLOATS,
        scalars=("negativeSlope",),
        defaults={"negativeSlope": 0.01},
    ),
    Row(
        "LeakyReluBackward",
        "Gradient of the leaky positive part.",
        "out = \\begin{cases} gradOutput & self > 0 \\\\ negativeSlope \\cdot gradOutput & "
        "\\text{otherwise} \\end{cases}",
        kernels.leaky_relu_backward,
        "leaky_relu_backward",
        "leaky_relu_grad",
        _ALL_FLOATS,
        ("gradOutput", "self"),
        scalars=("negativeSlope",),
        flag="selfIsResult",
        defaults={"negativeSlope": 0.01, "selfIsResult": False},
        notes=(
            "selfIsResult says that self is the result of the forward pass. It has the sign of the "
            "input, unless negativeSlope is negative, so it changes nothing.",
        ),
    ),
    Row(
        "Sigmoid",
        "Logistic function of each element.",
        "out = \\frac{1}{1 + e^{-self}}",
        fixed(kernels.sigmoid),
        "sigmoid",
        "sigmoid",
        NUMBERS,
        floating=True,
    ),
    Row(
        "SigmoidBackward",
        "Gradient of the logistic function, from its result.",
        "gradInput = gradOutput \\cdot output \\cdot (1 - output)",
        fixed(kernels.sigmoid_backward),
        "sigmoid_backward",
        "sigmoid_grad",
        (*_ALL_FLOATS, *COMPLEX),
        ("gradOutput", "output"),
        "gradInput",
    ),
    Row(
        "TanhBackward",
        "Gradient of the hyperbolic tangent, from its result.",
        "gradInput = gradOutput \\cdot (1 - output^2)",
        fixed(kernels.tanh_backward),
        "tanh_backward",
        "tanh_grad",
        (*_ALL_FLOATS, *COMPLEX),
        ("gradOutput", "output"),
        "gradInput",
    ),
    Row(
        "Gelu",
        "Gaussian error linear unit of each element.",
        "out = \\frac{self}{2} \\left(1 + erf\\left(\\frac{self}{\\sqrt 2}\\right)\\right)",
        fixed(kernels.gelu),
        "gelu",
        "gelu",
        FLOATS,
        notes=("Some devices approximate the error function; the difference is below 1e-3.",),
    ),
    Row(
        "GeluBackward",
        "Gradient of the Gaussian error linear unit.",
        "gradInput = gradOutput \\cdot \\left(\\Phi(self) + self \\cdot \\frac{e^{-self^2 / 2}}"
        "{\\sqrt{2 \\pi}}\\right)",
        fixed(kernels.gelu_backward),
        "gelu_backward",
        "gelu_grad",
        FLOATS,
        ("gradOutput", "self"),
        "gradInput",
        const_out=True,
        notes=("The symbol Phi is the share of the normal distribution below self.",),
    ),
    Row(
        "Silu",
        "Each element times its logistic function.",
        "out = \\frac{self}{1 + e^{-self}}",
        fixed(kernels.silu),
        "silu",
        "swish",
        (*FLOATS, *COMPLEX),
    ),
    Row(
        "SiluBackward",
        "Gradient of an element times its logistic function.",
        "gradInput = gradOutput \\cdot s \\cdot (1 + self \\cdot (1 - s)), s = \\frac{1}{1 + e^{-self}}",
        fixed(kernels.silu_backward),
        "silu_backward",
        "silu_grad",
        FLOATS,
        ("gradOutput", "self"),
        "gradInput",
        same_type=True,
    ),
    Row(
        "Softplus",
        "Smooth positive part of each element.",
        "out = \\begin{cases} \\frac{1}{beta} \\ln(1 + e^{beta \\cdot self}) & beta \\cdot self \\le "
        "threshold \\\\ self & \\text{otherwise} \\end{cases}",
        kernels.softplus,
        "softplus",
        "softplus_v2",
        _ALL_FLOATS,
        scalars=("beta", "threshold"),
        defaults={"beta": 1.0, "threshold": 20.0},
    ),
    Row(
        "LogSigmoid",
        "Logarithm of each element's logistic function.",
        "out = -\\ln(1 + e^{-self})",
        fixed(kernels.log_sigmoid),
        "log_sigmoid",
        "log_sigmoid",
        FLOATS,
        notes=("It does not overflow.",),
    ),
)
for _row in ROWS:
    _row.define(ACTIVATIONS)

_IN_PLACE = ("selfRef",)
ACTIVATIONS.add(
    prototype("aclnnInplaceRelu", "aclTensor* selfRef"),
    Pointwise(_IN_PLACE, "selfRef", CommonType(_IN_PLACE), RELU.kernel),
    described(
        "In place: positive part of each element.",
        "selfRef = \\max(selfRef, 0)",
        "NaN gives NaN.",
        IN_PLACE.format("selfRef"),
        source=HOST_CODE.format("aclnnInplaceRelu", "ops-nn, activation/relu"),
    ),
    outputs=_IN_PLACE,
    checks=(NotNull(_IN_PLACE), TypeIn(_IN_PLACE, RELU.types), RankUpTo(_IN_PLACE)),
)


@ACTIVATIONS.operator(
    """
    aclnnStatus aclnnGeluV2GetWorkspaceSize(
        const aclTensor* x, int64_t approximate, aclTensor* y,
        uint64_t* workspaceSize, aclOpExecutor** executor)
    """,
    outputs=("y",),
    checks=(
        NotNull(("x", "y")),
        TypeIn(("x",), FLOATS),
        SameType(("y",), "x"),
        OneOf("approximate", _APPROXIMATIONS),
        RankUpTo(("x",)),
        SameShape(("y",), "x"),
    ),
    python=OneLine(
        "gelu_v2", {"approximate": "none"}, {"approximate": _APPROXIMATIONS}, Result("broadcast")
    ),
)
def gelu_v2(call: Call) -> Work:
    """Gaussian error linear unit of each element, exact or by the hyperbolic tangent.

    $$y = \\begin{cases} \\frac{x}{2} (1 + erf(\\frac{x}{\\sqrt 2})) & approximate = 0 \\\\
    \\frac{x}{2} (1 + \\tanh(\\sqrt{\\frac{2}{\\pi}} (x + 0.044715 x^3))) & approximate = 1
    \\end{cases}$$

    - FLOAT16 and BF16 are computed in FLOAT and rounded once.
    - Input and output may be strided; the output may be the same memory as the input.

    Source: the public documentation of aclnnGeluV2, and for the order of checks its host code
    (hicann/ops-nn, activation/gelu_v2).
    """
    kernel = kernels.gelu_tanh if call["approximate"] else kernels.gelu
    return Pointwise(("x",), "y", CommonType(("x",)), fixed(kernel))(call)
