"""Logic of the bits of integers, which of BOOL is that of truth values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aclnn import dtypes
from aclnn_server.operators.checking.layout_checks import WIDE_UNSIGNED
from aclnn_server.operators.definition import Family
from aclnn_server.operators.elementwise.arithmetic_kernels import with_scalar
from aclnn_server.operators.elementwise.arithmetic_rows import Row
from aclnn_server.operators.engines.pointwise import (
    DOCUMENTED,
    HOST_CODE,
    INTEGERS,
    fixed,
    ufunc,
)

Array = npt.NDArray[Any]

BITWISE = Family()

_BITS = (*INTEGERS, *WIDE_UNSIGNED, dtypes.BOOL)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A function of two tensors, and of a tensor and a number."""

    word: str
    """And, Or or Xor."""
    sign: str
    """In LaTeX."""
    function: Any
    """NumPy ufunc."""
    const: bool
    """Whether C declares what is written in place const."""

    def rows(self) -> tuple[Row, Row]:
        """The rows of both."""
        source = f"ops-math, math/bitwise_{self.word.lower()}"
        formula = f"out = self \\mathbin{{{self.sign}}} other"
        kind = f"{'exclusive or' if self.word == 'Xor' else self.word.lower()}"
        of_tensors = Row(
            f"Bitwise{self.word}Tensor",
            f"Bitwise {kind} of two tensors.",
            formula,
            fixed(ufunc(self.function)),
            ("self", "other"),
            source,
            types=_BITS,
            within=_BITS,
            notes=("BOOL: that of truth values.",),
            origin=HOST_CODE if self.word == "And" else DOCUMENTED,
            python=f"bitwise_{self.word.lower()}",
        )
        with_number = Row(
            f"Bitwise{self.word}Scalar",
            f"Bitwise {kind} of a tensor and a number.",
            formula,
            with_scalar(self.function),
            ("self",),
            source,
            scalars=("other",),
            types=_BITS,
            within=_BITS,
            notes=("BOOL: that of truth values.",),
            origin=DOCUMENTED,
            python=f"bitwise_{self.word.lower()}_scalar",
            defaults={"other": 1},
        )
        return of_tensors, with_number


PAIRS = (
    _Pair("And", "\\&", np.bitwise_and, const=True),
    _Pair("Or", "|", np.bitwise_or, const=False),
    _Pair("Xor", "\\oplus", np.bitwise_xor, const=False),
)
for _pair in PAIRS:
    for _row in _pair.rows():
        _row.define(BITWISE)
        _row.define_in_place(BITWISE, const=_pair.const)

NOT = Row(
    "BitwiseNot",
    "Every bit of each element turned over.",
    "out = \\lnot self",
    fixed(ufunc(np.invert)),
    ("self",),
    "ops-math, math/bitwise_not",
    types=_BITS,
    notes=("BOOL: whether an element is not true.",),
    origin=DOCUMENTED,
    python="bitwise_not",
)
NOT.define(BITWISE)
