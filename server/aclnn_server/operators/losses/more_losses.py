"""Losses of distances and of probabilities, and their gradients, by one table."""

from __future__ import annotations

from aclnn import dtypes
from aclnn_server.operators.definition import Family
from aclnn_server.operators.engines.pointwise import FLOATS
from aclnn_server.operators.losses import loss_kernels as kernels
from aclnn_server.operators.losses.loss_rows import WITH_BATCH_MEAN, Row

MORE_LOSSES = Family()

_LOSS = ("self", "target")
_BACKWARD = ("gradOutput", "self", "target")
_WEIGHTS = ("weightOptional", "posWeightOptional")
_CLAMPED = "Logarithms below -100 count as -100, so that the loss is finite at 0 and 1."
_NULL_WEIGHT = "A weight that is null counts as 1."

MSE_LOSS = Row(
    "MseLoss",
    "Squared distance of each element.",
    "out = (self - target)^2",
    kernels.fixed(kernels.squared),
    _LOSS,
    "ops-nn, loss/mse_loss",
    python="mse_loss",
)
ROWS = (
    MSE_LOSS,
    Row(
        "MseLossBackward",
        "Gradient of the squared distance.",
        "out = 2 \\cdot (self - target) \\cdot gradOutput",
        kernels.scaled(kernels.squared_slope),
        _BACKWARD,
        "ops-nn, loss/mse_loss_grad_v2",
        python="mse_loss_backward",
        gradient=True,
    ),
    Row(
        "L1Loss",
        "Distance of each element.",
        "out = |self - target|",
        kernels.fixed(kernels.absolute),
        _LOSS,
        "ops-nn, loss/lp_loss",
        types=(*FLOATS, dtypes.INT64),
        python="l1_loss",
        notes=("The mean of integers is rounded to 0.",),
    ),
    Row(
        "L1LossBackward",
        "Gradient of the distance.",
        "gradInput = sign(self - target) \\cdot gradOutput",
        kernels.scaled(kernels.absolute_slope),
        _BACKWARD,
        "ops-nn, loss/l1_loss_grad",
        out="gradInput",
        python="l1_loss_backward",
        gradient=True,
        notes=("The sign of 0 is 0; NaN gives NaN.",),
    ),
    Row(
        "SoftMarginLoss",
        "Logistic loss of two classes, whose targets are 1 and -1.",
        "out = \\ln(1 + e^{-target \\cdot self})",
        kernels.fixed(kernels.margin),
        _LOSS,
        "ops-nn, loss/soft_margin_loss",
        python="soft_margin_loss",
        notes=("It does not overflow.",),
    ),
    Row(
        "SoftMarginLossBackward",
        "Gradient of the logistic loss of two classes.",
        "out = \\frac{-target}{1 + e^{target \\cdot self}} \\cdot gradOutput",
        kernels.scaled(kernels.margin_slope),
        _BACKWARD,
        "ops-nn, loss/soft_margin_loss_grad",
        python="soft_margin_loss_backward",
        gradient=True,
    ),
    Row(
        "KlDiv",
        "Divergence of probabilities from others, whose logarithms are given.",
        "out = \\begin{cases} target \\cdot (\\ln target - self) & \\neg logTarget \\\\ "
        "e^{target} (target - self) & logTarget \\end{cases}",
        kernels.divergence,
        _LOSS,
        "ops-math, math/kl_div_v2",
        reductions=WITH_BATCH_MEAN,
        flag="logTarget",
        python="kl_div",
        notes=("A target of 0 gives 0 and one below it NaN, unless logTarget is set.",),
    ),
    Row(
        "KlDivBackward",
        "Gradient of the divergence with respect to self.",
        "out = \\begin{cases} -\\max(target, 0) \\cdot gradOutput & \\neg logTarget \\\\ "
        "-e^{target} \\cdot gradOutput & logTarget \\end{cases}",
        kernels.divergence_slope,
        _BACKWARD,
        "ops-nn, loss/kl_div_loss_grad",
        reductions=WITH_BATCH_MEAN,
        flag="logTarget",
        python="kl_div_backward",
        gradient=True,
    ),
    Row(
        "BinaryCrossEntropy",
        "Cross entropy of probabilities and targets between 0 and 1.",
        "out = -weight \\cdot (target \\ln self + (1 - target) \\ln(1 - self))",
        kernels.fixed(kernels.cross_entropy),
        _LOSS,
        "ops-nn, loss/binary_cross_entropy",
        ("weight",),
        python="binary_cross_entropy",
        notes=(_CLAMPED, _NULL_WEIGHT),
    ),
    Row(
        "BinaryCrossEntropyBackward",
        "Gradient of the cross entropy of probabilities.",
        "out = weight \\cdot \\frac{self - target}{\\max(self (1 - self), 10^{-12})} "
        "\\cdot gradOutput",
        kernels.scaled(kernels.cross_entropy_slope),
        _BACKWARD,
        "ops-nn, loss/binary_cross_entropy_grad",
        ("weightOptional",),
        python="binary_cross_entropy_backward",
        gradient=True,
        notes=(_NULL_WEIGHT,),
    ),
    Row(
        "BinaryCrossEntropyWithLogits",
        "Cross entropy of the logistic function of numbers and targets between 0 and 1.",
        "out = -weight \\cdot (posWeight \\cdot target \\ln \\sigma(self) + (1 - target) "
        "\\ln(1 - \\sigma(self)))",
        kernels.cross_entropy_of_logits,
        _LOSS,
        "ops-nn, loss/sigmoid_cross_entropy_with_logits_v2",
        _WEIGHTS,
        python="binary_cross_entropy_with_logits",
        notes=(_NULL_WEIGHT, "It does not overflow."),
    ),
    Row(
        "BinaryCrossEntropyWithLogitsBackward",
        "Gradient of the cross entropy of the logistic function.",
        "out = weight \\cdot ((posWeight \\cdot target + 1 - target) \\sigma(self) - posWeight "
        "\\cdot target) \\cdot gradOutput",
        kernels.cross_entropy_of_logits_slope,
        _BACKWARD,
        "ops-nn, loss/sigmoid_cross_entropy_with_logits_grad_v2",
        _WEIGHTS,
        python="binary_cross_entropy_with_logits_backward",
        gradient=True,
        notes=(_NULL_WEIGHT,),
    ),
)
for _row in ROWS:
    _row.define(MORE_LOSSES)
