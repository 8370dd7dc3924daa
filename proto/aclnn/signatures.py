"""Signatures of operators: the C prototypes of a two-phase pair, parsed.

The same parser reads a prototype that is written down beside an operator and the headers of an
installed CANN. Of a signature only the arguments of phase one differ from operator to operator::

    aclnnStatus aclnnXxxGetWorkspaceSize(
        <arguments>, uint64_t* workspaceSize, aclOpExecutor** executor);
    aclnnStatus aclnnXxx(
        void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace


class SignatureError(ValueError):
    """A text that does not declare an operator."""


class PrototypeError(SignatureError):
    """The text is no prototype of a phase one, or the prototype contradicts itself."""


class UnknownTypeError(SignatureError):
    """A parameter has a C type that no operator of the known headers has."""

    def __init__(self, parameter: str, c_type: str) -> None:
        self.parameter = parameter
        self.c_type = c_type
        known = ", ".join(_KINDS)
        super().__init__(f"{parameter} has the unknown type {c_type!r}; known are {known}")


class TrailingParametersError(SignatureError):
    """A phase one does not end in ``uint64_t* workspaceSize, aclOpExecutor** executor``."""


class Kind(enum.Enum):
    """What an argument is; the value is the name of its field in the protocol's ``Argument``."""

    TENSOR = "tensor"
    TENSOR_LIST = "tensor_list"
    SCALAR = "scalar"
    SCALAR_LIST = "scalar_list"
    INT_ARRAY = "int_array"
    FLOAT_ARRAY = "float_array"
    BOOL_ARRAY = "bool_array"
    TEXT = "text"
    INT64 = "int64_value"
    INT32 = "int32_value"
    INT8 = "int8_value"
    UINT64 = "uint64_value"
    BOOL = "bool_value"
    DOUBLE = "double_value"
    FLOAT = "float_value"
    DATA_TYPE = "data_type"

    @property
    def pointer(self) -> bool:
        """Whether the C parameter is a pointer, so that null can be passed."""
        return self in _POINTERS

    @property
    def holds_tensors(self) -> bool:
        """Whether the argument is a tensor or a list of tensors: what an operator can write to."""
        return self in (Kind.TENSOR, Kind.TENSOR_LIST)


_KINDS = {
    "aclTensor*": Kind.TENSOR,
    "aclTensorList*": Kind.TENSOR_LIST,
    "aclScalar*": Kind.SCALAR,
    "aclScalarList*": Kind.SCALAR_LIST,
    "aclIntArray*": Kind.INT_ARRAY,
    "aclFloatArray*": Kind.FLOAT_ARRAY,
    "aclBoolArray*": Kind.BOOL_ARRAY,
    "char*": Kind.TEXT,
    "int64_t": Kind.INT64,
    "int32_t": Kind.INT32,
    "int": Kind.INT32,
    "int8_t": Kind.INT8,
    "uint64_t": Kind.UINT64,
    "bool": Kind.BOOL,
    "double": Kind.DOUBLE,
    "float": Kind.FLOAT,
    "aclDataType": Kind.DATA_TYPE,
}
_POINTERS = frozenset(kind for c_type, kind in _KINDS.items() if c_type.endswith("*"))


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of phase one."""

    name: str
    """Name in the C prototype."""
    c_type: str
    """C type, normalised: ``"const aclTensor*"``, ``"char*"``, ``"int64_t"``.

    A ``const`` of the parameter itself says nothing to the caller and is left out.
    """
    kind: Kind
    output: bool = False
    """Whether the operator writes to it; a tensor that is updated in place is an output too."""
    optional: bool = False
    """Whether null is allowed."""
    shaped_by_data: bool = False
    """Whether it is an output that is given as large as it may become: the run tells how large it is."""


@dataclass(frozen=True, slots=True)
class Signature:
    """An operator's name and the parameters of its phase one."""

    name: str
    """Name in C, with the aclnn prefix."""
    parameters: tuple[Parameter, ...]
    """Parameters in order, without the trailing workspaceSize and executor."""

    @property
    def outputs(self) -> tuple[Parameter, ...]:
        """The parameters that the operator writes to, in order."""
        return tuple(parameter for parameter in self.parameters if parameter.output)

    def index(self, name: str) -> int:
        """Gives the position of a parameter.

        Raises:
            ValueError: the operator has no such parameter.
        """
        for position, parameter in enumerate(self.parameters):
            if parameter.name == name:
                return position
        names = ", ".join(parameter.name for parameter in self.parameters)
        raise ValueError(f"{self.name} has no parameter {name!r}; it has {names}")

    def prototypes(self) -> tuple[str, str]:
        """Writes the C prototypes of phase one and phase two, one parameter per line."""
        arguments = [f"{parameter.c_type} {parameter.name}" for parameter in self.parameters]
        arguments += ["uint64_t* workspaceSize", "aclOpExecutor** executor"]
        return (
            _prototype(f"{self.name}GetWorkspaceSize", arguments),
            _prototype(self.name, _PHASE_TWO),
        )


_PHASE_TWO = (
    "void* workspace",
    "uint64_t workspaceSize",
    "aclOpExecutor* executor",
    "aclrtStream stream",
)


def _prototype(name: str, arguments: Sequence[str]) -> str:
    return f"aclnnStatus {name}(\n    " + ",\n    ".join(arguments) + ");"


# ---------------------------------------------------------------------------------------- parsing

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_TEXT = re.compile(r'"[^"\n]*"')
_ATTRIBUTE = re.compile(r"__(?:attribute__|declspec)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_FUNCTION = re.compile(r"\baclnnStatus\s+(aclnn\w+)\s*\(([^(){};]*)\)\s*\w*\s*(?=;|$)")
# Before the return type only words can stand: macros, `extern`.
_ONE_FUNCTION = re.compile(rf"(?:\w+\s+)*{_FUNCTION.pattern};?")
_SUFFIX = "GetWorkspaceSize"


def parse(
    text: str,
    *,
    outputs: Collection[str] | None = None,
    optional: Collection[str] = (),
    shaped_by_data: Collection[str] = (),
) -> Signature:
    """Parses the C prototype of one phase one.

    Args:
        text: the prototype; comments, attributes, macros before the return type and the final
            semicolon may be there or not.
        outputs: names of the parameters that the operator writes to; ``None`` guesses them, see
            :func:`guess_outputs`.
        optional: names of the pointers that may be null, besides those whose names say so.
        shaped_by_data: names of the outputs whose shape only the run tells.

    Raises:
        PrototypeError: the text is no such prototype, or has no parameter that `outputs`, `optional` or
            `shaped_by_data` names.
        UnknownTypeError: a parameter has a type that no known operator has.
        TrailingParametersError: the last two parameters are not workspaceSize and executor.
    """
    match = _ONE_FUNCTION.fullmatch(_bare(text).strip())
    if match is None or not match[1].endswith(_SUFFIX):
        raise PrototypeError(
            f"no prototype `aclnnStatus aclnnXxx{_SUFFIX}(…);`: {' '.join(text.split())[:200]!r}"
        )
    name = match[1].removesuffix(_SUFFIX)
    try:
        parameters = tuple(_parameters(match[2]))
        written = guess_outputs(name, parameters) if outputs is None else outputs
        return Signature(name, _marked(parameters, written, optional, shaped_by_data))
    except SignatureError as error:
        error.args = (f"{match[1]}: {error}",)
        raise


def parse_header(text: str) -> list[Signature]:
    """Parses every two-phase pair of a header, in its order; other functions are passed over.

    Raises:
        SignatureError: a pair is declared in a way that :func:`parse` refuses.
    """
    return [parse(prototype) for prototype in header_prototypes(text)]


def header_prototypes(text: str) -> list[str]:
    """Finds the phase one of every two-phase pair of a header, for :func:`parse`.

    Parsing them one by one loses only the operator whose prototype is refused.
    """
    functions = {match[1]: match[0] for match in _FUNCTION.finditer(_bare(text))}
    return [
        f"{prototype};"
        for name, prototype in functions.items()
        if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX) in functions
    ]


def _bare(text: str) -> str:
    """The text without comments, directives, attributes and literals."""
    for pattern in (_COMMENT, _DIRECTIVE, _TEXT, _ATTRIBUTE):
        text = pattern.sub(" ", text)
    return text


def _parameters(text: str) -> Iterator[Parameter]:
    pairs = [_type_and_name(part) for part in text.split(",")]
    trailing = [c_type for c_type, _ in pairs[-2:]]
    if trailing != ["uint64_t*", "aclOpExecutor**"]:
        raise TrailingParametersError(
            "the last two parameters must be uint64_t* workspaceSize and aclOpExecutor** executor, "
            f"and are {', '.join(map(' '.join, pairs[-2:]))}"
        )
    for c_type, name in pairs[:-2]:
        kind = _KINDS.get(c_type.removeprefix("const "))
        if kind is None:
            raise UnknownTypeError(name, c_type)
        yield Parameter(name, c_type, kind)


def _type_and_name(text: str) -> tuple[str, str]:
    """Splits ``const aclTensor *const self`` into ``("const aclTensor*", "self")``."""
    *tokens, name = re.findall(r"\w+|\S", text) or [""]
    base = [token for token in tokens if token not in ("const", "*")]
    if not base or not name.isidentifier() or name == "const":
        raise PrototypeError(f"{text.strip()!r} is no parameter; it must have a type and a name")
    stars = "*" * tokens.count("*")
    pointee = tokens[: tokens.index("*")] if stars else []
    return ("const " if "const" in pointee else "") + " ".join(base) + stars, name


def _marked(
    parameters: Sequence[Parameter],
    outputs: Collection[str],
    optional: Collection[str],
    shaped: Collection[str],
) -> tuple[Parameter, ...]:
    """The parameters with `output`, `optional` and `shaped_by_data` set."""
    names = [parameter.name for parameter in parameters]
    if len(set(names)) < len(names):
        raise PrototypeError(f"two parameters have the same name: {', '.join(names)}")
    tensors = {parameter.name for parameter in parameters if parameter.kind.holds_tensors}
    pointers = {parameter.name for parameter in parameters if parameter.kind.pointer}
    if strangers := sorted({*outputs} - tensors | {*optional} - pointers):
        raise PrototypeError(f"no tensor to write to, or no pointer that may be null: {strangers}")
    if strangers := sorted({*shaped} - {*outputs}):
        raise PrototypeError(f"no outputs whose shape the run could tell: {strangers}")
    nullable = {name for name in pointers if name in optional or _OPTIONAL.search(name)}
    return tuple(
        replace(
            parameter,
            output=parameter.name in outputs,
            optional=parameter.name in nullable,
            shaped_by_data=parameter.name in shaped,
        )
        for parameter in parameters
    )


# ---------------------------------------------------------------------------------------- guessing

_OPTIONAL = re.compile(r"Optional(Ref)?$|^optional[A-Z]")
_WRITTEN = re.compile(r"^(?:out|y)$|(?:Out|OutOptional|Ref)$")
# What a backward operator is given: the gradient of the forward's output, the forward's offsets.
_GIVEN = re.compile(r"^(?:gradOut|gradOutput)$")
_GIVEN_BACKWARD = re.compile(r"^(?:gradOut|gradOutput)$|[oO]ffsetOut$")

_OUTPUTS = {
    "aclnnBatchNormElemt": ("output",),
    "aclnnBatchNormElemtBackward": ("gradInput",),
    "aclnnGeluQuant": ("y", "outScaleOptional"),
    "aclnnGroupedDynamicMxQuant": ("y", "mxscale"),
    "aclnnGroupedDynamicMxQuantV2": ("y", "mxscale"),
    "aclnnGroupedQuantMax": ("y", "amax"),
    "aclnnInplaceAddV3": (),
    "aclnnInplaceAtan2": ("selfRef",),
    "aclnnInplaceRReluWithNoise": ("self", "noise"),
    "aclnnModulateBackward": ("grad_input", "grad_scale", "grad_shift"),
    "aclnnNLLLoss2dBackward": ("out",),
    "aclnnQuantMax": ("y", "amax"),
    "aclnnQuantizedBatchNorm": ("output",),
    "aclnnRReluWithNoise": ("noise", "out"),
    "aclnnScaledMaskedSoftmaxBackward": ("out",),
    "aclnnSoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "aclnnXlog1py": ("z",),
}
"""Operators of the known headers for which the rules are wrong."""


def guess_outputs(operator: str, parameters: Sequence[Parameter]) -> frozenset[str]:
    """Guesses which parameters an operator writes to; C headers do not tell.

    ``const`` is a hint only: many outputs are declared ``const aclTensor*``. The rules: a table of
    exceptions; else the tensors that are not const, or are called out, y, …Out, …OutOptional or
    …Ref, without the gradient and offsets that a backward operator is given; else, where none is
    found, the first tensor of an in-place operator and the last tensor of any other.

    Returns:
        Names of parameters.
    """
    tensors = [parameter for parameter in parameters if parameter.kind.holds_tensors]
    names = {parameter.name for parameter in tensors}
    if operator in _OUTPUTS and names.issuperset(_OUTPUTS[operator]):
        return frozenset(_OUTPUTS[operator])
    given = _GIVEN_BACKWARD if re.search(r"Backward|Grad", operator) else _GIVEN
    found = [parameter.name for parameter in tensors if _looks_written(parameter, given)]
    if not found and tensors:
        found = [tensors[0 if "Inplace" in operator else -1].name]
    return frozenset(found)


def _looks_written(parameter: Parameter, given: re.Pattern[str]) -> bool:
    if not parameter.c_type.startswith("const "):
        return True
    return bool(_WRITTEN.search(parameter.name)) and not given.search(parameter.name)
