"""What the calls of attention say, and what they must: layouts, heads, masks."""

from __future__ import annotations

import math

import numpy as np

from aclnn import dtypes
from aclnn_server.operators.checking.axis_checks import WhereGiven
from aclnn_server.operators.checking.checks import Holds, SameType, TypeIn
from aclnn_server.operators.definition import Call, Check
from aclnn_server.operators.engines.shapes import Shape
from aclnn_server.operators.engines.staging import Arrays
from aclnn_server.operators.networks.attention_kernels import (
    LANES,
    Attention,
    Band,
    Drop,
    Inputs,
    Layout,
)
from aclnn_server.operators.networks.matmul import FLOATS

_LAYOUTS = ("BSH", "SBH", "BSND", "BNSD")
_MASKS = (dtypes.BOOL, dtypes.UINT8)
_EVERYTHING = (0, 1)
"""Sparse modes whose mask is whole: it says all."""
_RIGHT, _BAND = 3, 4
_UNSERVED = (
    "queryRopeOptional",
    "keyRopeOptional",
    "dScaleQOptional",
    "dScaleKOptional",
    "dScaleVOptional",
    "dScaleDyOptional",
    "dScaleOOptional",
    "sinkOptional",
    "sinkInOptional",
)


class Said:
    """What a call of any of the operators says, by the same names."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.names = {row.name for row in call.signature.parameters}
        self.backward = "dy" in self.names
        self.key = "keyIn" if self.backward else "key"
        self.shift = "pseShiftOptional" if self.backward else "realShiftOptional"
        self.layout = Layout(call["inputLayout"].upper())
        self.heads = int(call["headNum"])

    def number(self, name: str, missing: int) -> int:
        """A number that only some of the operators have."""
        return int(self.call[name]) if name in self.names else missing

    def sizes(self, name: str) -> Shape:
        """Batches, heads, places and width of a tensor of query, key or value."""
        shape = self.call.tensor(name).shape
        match self.layout.name:
            case "BNSD":
                return shape
            case "BSND":
                return shape[0], shape[2], shape[1], shape[3]
        batch, places = shape[:2] if self.layout.name == "BSH" else (shape[1], shape[0])
        query = self.call.tensor("query").shape[2] // self.heads
        key = self.call.tensor(self.key).shape[2] // max(1, query)
        heads = self.heads if name == "query" else key
        return batch, heads, places, shape[2] // max(1, heads)

    @property
    def scores(self) -> Shape:
        """Shape of all scores."""
        batch, heads, queries, _ = self.sizes("query")
        return batch, heads, queries, self.sizes(self.key)[2]

    def attention(self) -> Attention:
        """The computation."""
        call, keep = self.call, float(self.call["keepProb"])
        drop = Drop(keep, self.number("seed", 0), self.number("offset", 0)) if keep < 1 else None
        return Attention(call["scaleValue"], self._band(), drop, self.number("pseType", 1) == 1)

    def _band(self) -> Band:
        mode = self.call["sparseMode"]
        if self.call["attenMaskOptional"] is None or mode in _EVERYTHING:
            return Band()
        shift = self.scores[3] - self.scores[2]
        if mode == _BAND:
            return Band(shift, self.call["preTokens"], self.call["nextTokens"])
        return Band(shift if mode == _RIGHT else 0, None, 0)

    def inputs(self, arrays: Arrays) -> Inputs:
        """The inputs as the computation takes them."""
        keys = self.sizes(self.key)[1]
        mask = arrays.get("attenMaskOptional") if self.call["sparseMode"] in _EVERYTHING else None
        shift, drop = arrays.get(self.shift), arrays.get("dropMaskOptional")
        return Inputs(
            self.layout.heads(arrays["query"], self.heads),
            self.layout.heads(arrays[self.key], keys),
            self.layout.heads(arrays["value"], keys),
            None if shift is None or not shift.size else np.broadcast_to(shift, self.scores),
            None if mask is None or not mask.size else np.broadcast_to(mask, self.scores),
            None if drop is None or not drop.size else drop.reshape(-1),
        )


# --- checks -----------------------------------------------------------------------------------------


def _check_layout(call: Call) -> None:
    if call["inputLayout"].upper() not in _LAYOUTS:
        raise call.invalid(
            "inputLayout",
            f"inputLayout is {call['inputLayout']!r}; served are {', '.join(_LAYOUTS)}",
        )
    rank = len(call["inputLayout"])
    for name in ("query", Said(call).key, "value"):
        if len(call.tensor(name).shape) != rank:
            raise call.invalid(
                name,
                f"{name} has {len(call.tensor(name).shape)} dimensions; inputLayout "
                f"{call['inputLayout']} has {rank}",
            )


def _check_numbers(call: Call) -> None:
    if call["headNum"] < 1:
        raise call.invalid("headNum", f"headNum is {call['headNum']}; it must be above 0")
    if not 0 < call["keepProb"] <= 1:
        raise call.invalid(
            "keepProb", f"keepProb is {call['keepProb']}; allowed are numbers above 0, up to 1"
        )
    if not 0 <= call["sparseMode"] <= _BAND:
        raise call.invalid("sparseMode", f"sparseMode is {call['sparseMode']}; served are 0 to 4")
    pse = Said(call).number("pseType", 1)
    if pse not in (0, 1):
        raise call.invalid("pseType", f"pseType is {pse}; served are 0 and 1")


def _check_sizes(call: Call) -> None:
    said = Said(call)
    batch, heads, _, width = said.sizes("query")
    others = said.sizes(said.key)
    if heads != call["headNum"]:
        raise call.invalid("headNum", f"headNum is {call['headNum']}, and query has {heads} heads")
    if said.layout.name in ("BSH", "SBH") and call.tensor("query").shape[2] % heads:
        raise call.invalid(
            "headNum",
            f"headNum is {heads}, which does not divide {call.tensor('query').shape[2]} of query",
        )
    if others[0] != batch or others[1] < 1 or heads % others[1] or others[3] != width:
        raise call.invalid(
            said.key,
            f"{said.key} has shape {list(call.tensor(said.key).shape)}, which does not fit "
            f"{list(call.tensor('query').shape)} of query with {heads} heads",
        )
    values = said.sizes("value")
    if values[:3] != others[:3] or values[3] > width:
        raise call.invalid(
            "value",
            f"value has shape {list(call.tensor('value').shape)}, which does not fit "
            f"{list(call.tensor(said.key).shape)} of {said.key}",
        )


def _check_extras(call: Call) -> None:
    said = Said(call)
    for name in (said.shift, "attenMaskOptional"):
        spec = call[name]
        whole = name == said.shift or call["sparseMode"] in _EVERYTHING
        if spec is None or not spec.elements or not whole:
            continue
        try:
            fits = np.broadcast_shapes(spec.shape, said.scores) == said.scores
        except ValueError:
            fits = False
        if not fits:
            raise call.invalid(
                name,
                f"{name} has shape {list(spec.shape)}, which does not broadcast to "
                f"{list(said.scores)}, that of the scores",
            )
    drop = call["dropMaskOptional"]
    needed = -(-math.prod(said.scores) // 8)
    if drop is not None and drop.elements and call["keepProb"] < 1 and drop.elements < needed:
        raise call.invalid(
            "dropMaskOptional",
            f"dropMaskOptional has {drop.elements} bytes; it must have {needed}, a bit for each score",
        )
    if call["keepProb"] < 1 and "seed" not in said.names and (drop is None or not drop.elements):
        raise call.invalid(
            "dropMaskOptional",
            f"dropMaskOptional is missing, and keepProb is {call['keepProb']}",
        )


def _check_unserved(call: Call) -> None:
    names = Said(call).names
    for name in _UNSERVED:
        if name in names and call[name] is not None and call[name].elements:
            raise call.invalid(name, f"{name} is given, which is not served")
    for name in ("prefixOptional", "actualSeqQLenOptional", "actualSeqKvLenOptional"):
        if name in names and call[name]:
            raise call.invalid(name, f"{name} is given, which is not served")


def statistics(call: Call) -> Shape:
    """Shape of the numbers of each row of scores."""
    return *Said(call).scores[:3], LANES


def result(call: Call) -> Shape:
    """Shape of the result."""
    said = Said(call)
    width = said.sizes("value")[3]
    shape = call.tensor("query").shape
    return (*shape[:-1], width if len(shape) == 4 else width * said.heads)


def rules(key: str, shift: str) -> tuple[Check, ...]:
    """Checks of the inputs, of which two are called otherwise for the gradients."""
    return (
        TypeIn(("query", key, "value"), FLOATS),
        SameType((key, "value"), "query"),
        WhereGiven((shift,), lambda name: TypeIn((name,), FLOATS)),
        WhereGiven(("attenMaskOptional",), lambda name: TypeIn((name,), _MASKS)),
        WhereGiven(("dropMaskOptional",), lambda name: TypeIn((name,), (dtypes.UINT8,))),
        Holds(
            "inputLayout is BSH, SBH, BSND or BNSD, and query, key and value have its dimensions",
            _check_layout,
        ),
        Holds(
            "headNum is above 0, keepProb above 0 and at most 1, sparseMode 0 to 4, pseType 0 or 1",
            _check_numbers,
        ),
        Holds(
            "query, key and value fit: the same batches and width, the heads of query a multiple of "
            "those of the others, value no wider than key",
            _check_sizes,
        ),
        Holds(
            f"{shift} and attenMaskOptional broadcast to the scores, and dropMaskOptional has a bit for "
            "each where keepProb is below 1",
            _check_extras,
        ),
        Holds(
            "rotary parts, scales of quantised inputs, sinks and prefixes are not given",
            _check_unserved,
        ),
    )
