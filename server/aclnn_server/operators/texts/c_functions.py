"""Text of C headers and of a C source with a pair of functions per operator, for the C library."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from aclnn.signatures import Kind, Parameter, Signature

_KINDS: Mapping[Kind, tuple[str, str]] = MappingProxyType(
    {
        Kind.TENSOR: ("TENSOR", "tensor"),
        Kind.TENSOR_LIST: ("TENSOR_LIST", "tensorList"),
        Kind.SCALAR: ("SCALAR", "scalar"),
        Kind.SCALAR_LIST: ("SCALAR_LIST", "scalarList"),
        Kind.INT_ARRAY: ("INT_ARRAY", "intArray"),
        Kind.FLOAT_ARRAY: ("FLOAT_ARRAY", "floatArray"),
        Kind.BOOL_ARRAY: ("BOOL_ARRAY", "boolArray"),
        Kind.TEXT: ("TEXT", "text"),
        Kind.INT64: ("INT64", "int64Value"),
        Kind.INT32: ("INT32", "int32Value"),
        Kind.INT8: ("INT8", "int8Value"),
        Kind.UINT64: ("UINT64", "uint64Value"),
        Kind.BOOL: ("BOOL", "boolValue"),
        Kind.DOUBLE: ("DOUBLE", "doubleValue"),
        Kind.FLOAT: ("FLOAT", "floatValue"),
        Kind.DATA_TYPE: ("DATA_TYPE", "dataType"),
    }
)
"""Of each kind: the constant of ``aclnn/aclnn_serve.h`` and the member of its union."""

_FILES: Mapping[str, str] = MappingProxyType(
    {
        "Adds": "add",
        "ArgMax": "argmax",
        "AvgPool2d": "avgpool2d",
        "AvgPool2dBackward": "avgpool2d_backward",
        "BatchMatMul": "batch_matmul",
        "BernoulliTensor": "bernoulli",
        "ClampMax": "clamp",
        "ClampMaxTensor": "clamp",
        "ClampMin": "clamp",
        "ClampMinTensor": "clamp",
        "ClampTensor": "clamp",
        "Copy": "copy",
        "DivMod": "div",
        "DivMods": "div",
        "Divs": "div",
        "FloorDivides": "floor_divide",
        "DropoutGenMaskV2": "dropout_gen_mask",
        "FlashAttentionScoreGradV4": "flash_attention_score_grad",
        "FlashAttentionScoreV4": "flash_attention_score",
        "IsFinite": "isfinite",
        "Lerps": "lerp",
        "LogSigmoid": "logsigmoid",
        "LogSigmoidBackward": "logsigmoid_backward",
        "LogSoftmax": "logsoftmax",
        "LogSoftmaxBackward": "logsoftmax_backward",
        "MaxPool2dWithMask": "max_pool2d_with_indices",
        "MaxPool2dWithMaskBackward": "max_pool2d_with_indices_backward",
        "Muls": "mul",
        "One": "ones",
        "PowScalarTensor": "pow",
        "PowTensorScalar": "pow",
        "ProdDim": "prod",
        "RemainderScalarTensor": "remainder",
        "RemainderTensorScalar": "remainder",
        "RemainderTensorTensor": "remainder",
        "Rsubs": "rsub",
        "Subs": "sub",
        "UpsampleBilinear2d": "upsample_bilinear_2d",
        "UpsampleNearest2d": "upsample_nearest_2d",
    }
)
"""Headers that are not called as their operator is: by name without aclnn and Inplace.

Source: the public headers of hicann/ops-math and hicann/ops-nn, and the includes of published programs.
"""

_WIDTH = 96


class Described(Protocol):
    """An operator as far as its C functions follow from it."""

    @property
    def name(self) -> str:
        """C name, with the aclnn prefix."""

    @property
    def signature(self) -> Signature:
        """The C prototype, parsed."""

    @property
    def summary(self) -> str:
        """One sentence."""


def header_name(operator: str) -> str:
    """The vendor's name of the header that declares an operator, without its folder."""
    name = operator.removeprefix("aclnn").removeprefix("Inplace")
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return f"aclnn_{_FILES.get(name, words.lower())}.h"


def headers(
    operators: Iterable[Described], origin: str, beside: Iterable[Described] = ()
) -> dict[str, str]:
    """Every header that the operators need, by its name.

    Args:
        operators: what to declare.
        origin: what wrote them, for their first line.
        beside: operators that are declared as well where they share a header with those.
    """
    grouped: dict[str, dict[str, Described]] = {}
    for operator in operators:
        grouped.setdefault(header_name(operator.name), {})[operator.name] = operator
    for operator in beside:
        if (group := grouped.get(header_name(operator.name))) is not None:
            group.setdefault(operator.name, operator)
    return {name: _header(name, list(group.values()), origin) for name, group in grouped.items()}


def _header(name: str, operators: Sequence[Described], origin: str) -> str:
    guard = f"ACLNN_SERVE_{name.upper().replace('.', '_')}"
    functions = "\n".join(map(_declaration, operators))
    return f"""/* {origin} */
#ifndef {guard}
#define {guard}

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {{
#endif

{functions}
#ifdef __cplusplus
}}
#endif

#endif
"""


def _declaration(operator: Described) -> str:
    outputs = ", ".join(row.name for row in operator.signature.outputs) or "nothing"
    text = f"{operator.summary.rstrip('.')}. Writes to {outputs}.".replace("*/", "* /")
    first, second = operator.signature.prototypes()
    return f"{_comment(text)}\nACLNN_API {first}\nACLNN_API {second}\n"


def _comment(text: str) -> str:
    lines = textwrap.wrap(text, _WIDTH - 3, break_long_words=False, break_on_hyphens=False)
    return "/* " + "\n * ".join(lines) + " */"


def source(operators: Sequence[Described], origin: str) -> str:
    """A C source that defines the functions of all operators by ``aclnn/aclnn_serve.h``.

    Args:
        operators: what to define.
        origin: what wrote it, for its first line.
    """
    includes = sorted({header_name(operator.name) for operator in operators})
    lines = "".join(f'#include "aclnnop/{name}"\n' for name in includes)
    functions = "\n".join(map(_definition, operators))
    return f"""/* {origin} */
#include "aclnn/aclnn_serve.h"
{lines}
{functions}"""


def _definition(operator: Described) -> str:
    name = operator.name.removeprefix("aclnn")
    parameters = operator.signature.parameters
    rows = "".join(f"    {_row(row)},\n" for row in parameters)
    values = "".join(f"      {{.{_KINDS[row.kind][1]} = {row.name}}},\n" for row in parameters)
    first, second = (text.removesuffix(";") for text in operator.signature.prototypes())
    return f"""static const aclnnServeParameter k{name}Parameters[] = {{
{rows}}};
static const aclnnServeOperator k{name} = {{"{operator.name}", k{name}Parameters, {len(parameters)}}};

{first} {{
  const aclnnServeArgument arguments[] = {{
{values}  }};
  return aclnnServeGetWorkspaceSize(&k{name}, arguments, workspaceSize, executor);
}}

{second} {{
  return aclnnServeExecute(&k{name}, workspace, workspaceSize, executor, stream);
}}
"""


def _row(parameter: Parameter) -> str:
    written = "true" if parameter.output else "false"
    if parameter.shaped_by_data:
        written = "ACLNN_SERVE_SHAPED"
    return f'{{"{parameter.name}", ACLNN_SERVE_{_KINDS[parameter.kind][0]}, {written}}}'
