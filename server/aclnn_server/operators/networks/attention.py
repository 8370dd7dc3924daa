"""Attention as PyTorch's scaled_dot_product_attention calls it, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from aclnn import codes, dtypes
from aclnn_server.operators.checking.checks import Holds, NotNull, SameShape, SameType, TypeIn
from aclnn_server.operators.checking.layout_checks import HasShape
from aclnn_server.operators.definition import Call, Check, Family, Work, prototype
from aclnn_server.operators.engines.staging import Arrays, staged
from aclnn_server.operators.engines.threads import Threads
from aclnn_server.operators.networks.attention_calls import Said, result, rules, statistics
from aclnn_server.operators.networks.attention_kernels import Kept, Slopes
from aclnn_server.operators.networks.matmul import FLOATS
from aclnn_server.operators.products import (
    ASCEND310B,
    ASCEND310P,
    ASCEND910,
    ASCEND910_93,
    ASCEND910B,
    ASCEND950,
)

Array = npt.NDArray[Any]

ATTENTION = Family()

_WITHOUT = (ASCEND310B, ASCEND310P, ASCEND910)
"""Products without any of the operators; the others have those without a number, or those of V4."""


# --- forward ----------------------------------------------------------------------------------------

_FORWARD_OUTPUTS = ("softmaxMaxOut", "softmaxSumOut", "softmaxOutOut", "attentionOutOut")
_FORWARD_RULES: tuple[Check, ...] = (
    NotNull(
        (
            "query",
            "key",
            "value",
            "inputLayout",
            "softmaxMaxOut",
            "softmaxSumOut",
            "attentionOutOut",
        )
    ),
    *rules("key", "realShiftOptional"),
    TypeIn(("softmaxMaxOut", "softmaxSumOut"), (dtypes.FLOAT,)),
    TypeIn(("attentionOutOut",), FLOATS),
    SameType(("attentionOutOut",), "query"),
    HasShape("softmaxMaxOut", "8 numbers for each row of scores", statistics),
    HasShape("softmaxSumOut", "8 numbers for each row of scores", statistics),
    HasShape("attentionOutOut", "the shape of query, as wide as value", result),
)
_SEMANTICS = """\
The scores are those of each query with each key of its batch and head; several heads of queries may share
one of keys. inputLayout names the dimensions, with H for N times D.

- realShiftOptional is added to the scores before they are scaled{0}.
- attenMaskOptional is other than 0 where a score does not count. Its mode is sparseMode: 0 and 1 take it
  as it is; 2 hides keys behind the query, 3 the same with the last query and key side by side, and 4 those
  further than preTokens before or nextTokens behind; of 2 to 4 only that a mask is given matters. Without
  it, every score counts.
- A row whose keys are all hidden gives 0, the lowest FLOAT as its largest score, and sum 0.
- Where keepProb is below 1, probabilities are dropped and the others divided by it{1}.
- softmaxMaxOut and softmaxSumOut have each row's largest score and sum, eight times. softmaxOutOut is not
  written.
- Computed in FLOAT, a few rows of scores at a time, and rounded once.
- Rotary parts, quantised inputs, sinks, prefixes and sequences of several lengths are refused.
- Deterministic, at any number of threads.

Source: the public documentation of {2} (hicann/ops-transformer, attention/flash_attention_score); what it
leaves open, rows without keys and the order of bits, is this server's."""
_BY_MASK = ": dropMaskOptional has a bit for each probability, 1 where it is kept, the lowest of a byte first"
_BY_SEED = _BY_MASK + "; without it, seed and offset determine which are kept"


def _plan_forward(call: Call) -> Work:
    said = Said(call)
    attention = said.attention()

    def compute(arrays: Arrays, threads: Threads) -> None:
        given = said.inputs(arrays)
        out = said.layout.heads(arrays["attentionOutOut"], said.heads)
        largest, sums = arrays["softmaxMaxOut"], arrays["softmaxSumOut"]
        attention.forward(given, largest, sums, out, threads)

    return staged(
        call,
        compute,
        ("query", "key", "value", "realShiftOptional", "attenMaskOptional", "dropMaskOptional"),
        ("softmaxMaxOut", "softmaxSumOut", "attentionOutOut"),
        raw=("attenMaskOptional", "dropMaskOptional"),
    )


_FORWARD_INPUTS = (
    "const aclTensor* query, const aclTensor* key, const aclTensor* value, "
    "const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional, "
    "const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, "
)
_NUMBERS = (
    "double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, "
    "char* inputLayout, "
)
_FORWARD_RESULTS = (
    "const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, "
    "const aclTensor* attentionOutOut"
)

ATTENTION.add(
    prototype(
        "aclnnFlashAttentionScore",
        f"{_FORWARD_INPUTS}const aclIntArray* prefixOptional, {_NUMBERS}int64_t innerPrecise, "
        f"int64_t sparseMode, {_FORWARD_RESULTS}",
    ),
    _plan_forward,
    "Attention: values, weighed by the softmax of the scores of queries and keys.\n\n"
    "$$attentionOutOut = dropout(softmax(mask(scaleValue \\cdot (query \\cdot key^T + "
    "realShiftOptional)))) \\cdot value$$\n\n"
    + _SEMANTICS.format("", _BY_MASK, "aclnnFlashAttentionScore"),
    outputs=_FORWARD_OUTPUTS,
    optional=("softmaxOutOut",),
    missing_on=(*_WITHOUT, ASCEND950),
    checks=_FORWARD_RULES,
)

ATTENTION.add(
    prototype(
        "aclnnFlashAttentionScoreV4",
        f"{_FORWARD_INPUTS}const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional, "
        "const aclTensor* dScaleQOptional, const aclTensor* dScaleKOptional, "
        "const aclTensor* dScaleVOptional, const aclTensor* sinkOptional, "
        "const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional, "
        "const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional, "
        f"const aclIntArray* kvStartIdxOptional, {_NUMBERS}int64_t innerPrecise, int64_t sparseMode, "
        "int64_t outDtype, int64_t pseType, char* softmaxOutLayout, int64_t seed, int64_t offset, "
        f"{_FORWARD_RESULTS}",
    ),
    _plan_forward,
    "Attention: values, weighed by the softmax of the scores of queries and keys; with a seed.\n\n"
    "$$attentionOutOut = dropout(softmax(mask(scaleValue \\cdot query \\cdot key^T + "
    "realShiftOptional))) \\cdot value$$\n\n"
    + _SEMANTICS.format(
        " if pseType is 1, and after if it is 0", _BY_SEED, "aclnnFlashAttentionScoreV4"
    ),
    outputs=_FORWARD_OUTPUTS,
    optional=("softmaxOutOut", "softmaxOutLayout"),
    missing_on=(*_WITHOUT, ASCEND910B, ASCEND910_93),
    checks=_FORWARD_RULES,
)


# --- backward ---------------------------------------------------------------------------------------

_STATISTICS = ("softmaxMaxOptional", "softmaxSumOptional")
_SLOPES = ("dqOut", "dkOut", "dvOut")


def _check_kept(call: Call) -> None:
    NotNull((*_STATISTICS, "attentionInOptional"))(call)


def _check_shift_slope(call: Call) -> None:
    shift, slope = call["pseShiftOptional"], call["dpseOut"]
    wanted = slope is not None and slope.elements
    if not wanted or shift is None or not shift.elements:
        return
    scores = Said(call).scores
    if slope.shape != scores:
        raise call.invalid(
            "dpseOut",
            f"dpseOut has shape {list(slope.shape)}; served is {list(scores)}, a gradient for each score",
        )


_BACKWARD_RULES: tuple[Check, ...] = (
    NotNull(("query", "keyIn", "value", "dy", "inputLayout", *_SLOPES)),
    Holds(
        "softmaxMaxOptional, softmaxSumOptional and attentionInOptional are not null",
        _check_kept,
        codes.ACLNN_ERR_PARAM_NULLPTR,
    ),
    *rules("keyIn", "pseShiftOptional"),
    TypeIn(("dy", "attentionInOptional", *_SLOPES), FLOATS),
    TypeIn(_STATISTICS, (dtypes.FLOAT,)),
    SameType(("dy", *_SLOPES), "query"),
    HasShape("dy", "the shape of query, as wide as value", result),
    HasShape("attentionInOptional", "the shape of query, as wide as value", result),
    HasShape(_STATISTICS[0], "8 numbers for each row of scores", statistics),
    HasShape(_STATISTICS[1], "8 numbers for each row of scores", statistics),
    SameShape(("dqOut",), "query"),
    SameShape(("dkOut",), "keyIn"),
    SameShape(("dvOut",), "value"),
    Holds(
        "dpseOut has the shape of the scores, where pseShiftOptional is given", _check_shift_slope
    ),
)


def _plan_backward(call: Call) -> Work:
    said = Said(call)
    attention = said.attention()
    shift, slope = call["pseShiftOptional"], call["dpseOut"]
    shifted = bool(shift is not None and shift.elements and slope is not None and slope.elements)

    def compute(arrays: Arrays, threads: Threads) -> None:
        keys = said.sizes("keyIn")[1]
        # Of the numbers that are there eight times, the first is read.
        largest, sums = (arrays[name][..., :1] for name in _STATISTICS)
        kept = Kept(
            said.layout.heads(arrays["dy"], said.heads),
            largest,
            sums,
            said.layout.heads(arrays["attentionInOptional"], said.heads),
        )
        slopes = Slopes(
            said.layout.heads(arrays["dqOut"], said.heads),
            said.layout.heads(arrays["dkOut"], keys),
            said.layout.heads(arrays["dvOut"], keys),
            arrays["dpseOut"] if shifted else None,
        )
        attention.backward(said.inputs(arrays), kept, slopes, threads)

    return staged(
        call,
        compute,
        (
            *("query", "keyIn", "value", "dy", "pseShiftOptional", "attentionInOptional"),
            *(*_STATISTICS, "attenMaskOptional", "dropMaskOptional"),
        ),
        (*_SLOPES, *(("dpseOut",) if shifted else ())),
        raw=("attenMaskOptional", "dropMaskOptional"),
    )


_BACKWARD_TEXT = """\
Gradients of attention: of queries, keys and values.

$$dvOut = p^T \\cdot dy \\qquad dqOut = scaleValue \\cdot ds \\cdot keyIn \\qquad
dkOut = scaleValue \\cdot ds^T \\cdot query$$

$$ds = softmax \\cdot (dropout(dy \\cdot value^T) - \\textstyle\\sum dy \\cdot attentionInOptional)$$

The scores are computed again, and with softmaxMaxOptional and softmaxSumOptional, of which the first of
eight equal numbers is read, the probabilities p. attentionInOptional is the result of {0}, whose other
parameters must be as they were there.

- dpseOut, the gradient of pseShiftOptional, is written where both are given, with a gradient for each
  score; pseShiftOptional must not be broadcast then.
- Computed in FLOAT, a few rows of scores at a time, and rounded once.
- What {0} refuses is refused here as well.
- Deterministic, at any number of threads.

Source: the public documentation of {1} (hicann/ops-transformer, attention/flash_attention_score_grad); the
order of checks is not documented."""
_BACKWARD_INPUTS = (
    "const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy, "
    "const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, "
    "const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, "
    "const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional, "
    "const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, "
)

ATTENTION.add(
    prototype(
        "aclnnFlashAttentionScoreGrad",
        f"{_BACKWARD_INPUTS}const aclIntArray* prefixOptional, {_NUMBERS}int64_t innerPrecise, "
        "int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut, "
        "const aclTensor* dpseOut",
    ),
    _plan_backward,
    _BACKWARD_TEXT.format("aclnnFlashAttentionScore", "aclnnFlashAttentionScoreGrad"),
    outputs=(*_SLOPES, "dpseOut"),
    optional=("dpseOut",),
    missing_on=(*_WITHOUT, ASCEND950),
    checks=_BACKWARD_RULES,
)

ATTENTION.add(
    prototype(
        "aclnnFlashAttentionScoreGradV4",
        f"{_BACKWARD_INPUTS}const aclTensor* sinkInOptional, const aclTensor* queryRopeOptional, "
        "const aclTensor* keyRopeOptional, const aclTensor* dScaleQOptional, "
        "const aclTensor* dScaleKOptional, const aclTensor* dScaleVOptional, "
        "const aclTensor* dScaleDyOptional, const aclTensor* dScaleOOptional, "
        "const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional, "
        "const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional, "
        f"const aclIntArray* kvStartIdxOptional, {_NUMBERS}char* softmaxInLayout, "
        "int64_t innerPrecise, int64_t sparseMode, int64_t pseType, int64_t seed, int64_t offset, "
        "int64_t outDtype, aclTensor* dqOut, aclTensor* dkOut, aclTensor* dvOut, aclTensor* dqRopeOut, "
        "aclTensor* dkRopeOut, aclTensor* dpseOut, aclTensor* dsinkOut",
    ),
    _plan_backward,
    _BACKWARD_TEXT.format("aclnnFlashAttentionScoreV4", "aclnnFlashAttentionScoreGradV4"),
    outputs=(*_SLOPES, "dqRopeOut", "dkRopeOut", "dpseOut", "dsinkOut"),
    optional=("softmaxInLayout", "dqRopeOut", "dkRopeOut", "dpseOut", "dsinkOut"),
    missing_on=(*_WITHOUT, ASCEND910B, ASCEND910_93),
    checks=_BACKWARD_RULES,
)
