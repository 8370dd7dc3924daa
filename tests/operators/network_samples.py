"""Arguments of the operators that neural networks are made of; see :mod:`.special_samples`."""

from __future__ import annotations

from collections.abc import Callable

from tests.operators.special_samples import Making, Values

CHANNELS = 2
FILTERS = 4


def _convolution(make: Making) -> Values:
    samples, length = make.matrix
    return {
        "input": make.numbers(samples, CHANNELS, length),
        "weight": make.numbers(FILTERS, CHANNELS, 3),
        "bias": make.numbers(FILTERS),
        "stride": (1,),
        "padding": (1,),
        "dilation": (1,),
        "outputPadding": (0,),
        "groups": 1,
        "output": make.out(samples, FILTERS, length),
    }


def _convolution_backward(make: Making) -> Values:
    samples, length = make.matrix
    return _convolution(make) | {
        "gradOutput": make.numbers(samples, FILTERS, length),
        "biasSizes": (FILTERS,),
        "outputMask": (True, True, True),
        "gradInput": make.out(samples, CHANNELS, length),
        "gradWeight": make.out(FILTERS, CHANNELS, 3),
        "gradBias": make.out(FILTERS),
    }


NETWORK: dict[str, Callable[[Making], Values]] = {
    "Convolution": _convolution,
    "ConvolutionBackward": _convolution_backward,
}
