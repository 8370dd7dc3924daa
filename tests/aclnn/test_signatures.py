"""The parser of C prototypes, and the guess of what an operator writes to."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from aclnn import signatures
from aclnn.signatures import Kind, Parameter, Signature, parse, parse_header
from aclnn.v1 import tensor_pb2

DECLARED: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "data/signatures.json").read_text()
)
"""Parameters of the operators of the public headers; ">" marks an output, "?" one that may be null."""

SMOOTH_L1_LOSS = Signature(
    "aclnnSmoothL1LossBackward",
    (
        Parameter("gradOut", "const aclTensor*", Kind.TENSOR),
        Parameter("self", "const aclTensor*", Kind.TENSOR),
        Parameter("target", "const aclTensor*", Kind.TENSOR),
        Parameter("reduction", "int64_t", Kind.INT64),
        Parameter("beta", "float", Kind.FLOAT),
        Parameter("gradInput", "aclTensor*", Kind.TENSOR, output=True),
    ),
)


def prototype(arguments: str, *, name: str = "aclnnX", trailing: str | None = None) -> str:
    ends = "uint64_t* workspaceSize, aclOpExecutor** executor" if trailing is None else trailing
    return f"aclnnStatus {name}GetWorkspaceSize({', '.join(filter(None, (arguments, ends)))});"


# ---------------------------------------------------------------------------------------- the headers


def declarations(name: str) -> list[str]:
    return [line.rstrip(" >?") for line in DECLARED[name]]


@pytest.mark.parametrize("name", DECLARED)
def test_operators_of_the_public_headers(name: str) -> None:
    signature = parse(prototype(", ".join(declarations(name)), name=name))

    names = [declaration.split()[-1].lstrip("*") for declaration in declarations(name)]
    assert signature.name == name
    assert [parameter.name for parameter in signature.parameters] == names
    assert [p.output for p in signature.parameters] == [">" in line for line in DECLARED[name]]
    assert [p.optional for p in signature.parameters] == ["?" in line for line in DECLARED[name]]


@pytest.mark.parametrize("name", DECLARED)
def test_what_is_written_is_read_again(name: str) -> None:
    signature = parse(prototype(", ".join(declarations(name)), name=name))
    assert parse(signature.prototypes()[0]) == signature


def test_all_of_them_are_there() -> None:
    assert len(DECLARED) == 703
    assert sum(len(lines) for lines in DECLARED.values()) == 3324


# ---------------------------------------------------------------------------------------- spelling

SPELLINGS = {
    "on one line": (
        "aclnnStatus aclnnSmoothL1LossBackwardGetWorkspaceSize(const aclTensor* gradOut, const "
        "aclTensor* self, const aclTensor* target, int64_t reduction, float beta, aclTensor* "
        "gradInput, uint64_t* workspaceSize, aclOpExecutor** executor)"
    ),
    "with macro and comments": """
        /* phase one; not this: aclnnStatus aclnnY(int a); */
        ACLNN_API aclnnStatus aclnnSmoothL1LossBackwardGetWorkspaceSize(
            const aclTensor *gradOut,      // (in) gradient, of the output
            const aclTensor *self,
            const aclTensor *target,
            int64_t reduction, /* 0, 1, 2 */ float beta,
            aclTensor *gradInput,
            uint64_t *workspaceSize,
            aclOpExecutor **executor);
    """,
    "with attribute": """
        __attribute__((visibility("default"))) aclnnStatus
        aclnnSmoothL1LossBackwardGetWorkspaceSize (
            aclTensor const *gradOut, const aclTensor *const self, const aclTensor * target,
            const int64_t reduction, const float beta, aclTensor * const gradInput,
            uint64_t * workspace_size, aclOpExecutor ** opExecutor ) ;
    """,
    "extern, visibility": """
        extern "C" ACL_FUNC_VISIBILITY aclnnStatus aclnnSmoothL1LossBackwardGetWorkspaceSize(
            const aclTensor*gradOut,const aclTensor*self,const aclTensor*target,int64_t reduction,
            float beta,aclTensor*gradInput,uint64_t*workspaceSize,aclOpExecutor* *executor);
    """,
    "attribute at the end": """
        aclnnStatus aclnnSmoothL1LossBackwardGetWorkspaceSize(const aclTensor* gradOut,
            const aclTensor* self, const aclTensor* target, int64_t reduction, float beta,
            aclTensor* gradInput, uint64_t* workspaceSize, aclOpExecutor** executor)
            __attribute__((deprecated("use (another)"))) ACL_DEPRECATED;
    """,
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(text: str) -> None:
    assert parse(text) == SMOOTH_L1_LOSS


def test_prototypes() -> None:
    first, second = SMOOTH_L1_LOSS.prototypes()
    assert first == (
        "aclnnStatus aclnnSmoothL1LossBackwardGetWorkspaceSize(\n"
        "    const aclTensor* gradOut,\n"
        "    const aclTensor* self,\n"
        "    const aclTensor* target,\n"
        "    int64_t reduction,\n"
        "    float beta,\n"
        "    aclTensor* gradInput,\n"
        "    uint64_t* workspaceSize,\n"
        "    aclOpExecutor** executor);"
    )
    assert second == (
        "aclnnStatus aclnnSmoothL1LossBackward(\n"
        "    void* workspace,\n"
        "    uint64_t workspaceSize,\n"
        "    aclOpExecutor* executor,\n"
        "    aclrtStream stream);"
    )


@pytest.mark.parametrize(
    ("written", "c_type", "kind"),
    [
        ("const aclTensor *", "const aclTensor*", Kind.TENSOR),
        ("aclTensor const*", "const aclTensor*", Kind.TENSOR),
        ("aclTensor *const ", "aclTensor*", Kind.TENSOR),
        ("const aclTensorList*", "const aclTensorList*", Kind.TENSOR_LIST),
        ("const aclScalar*", "const aclScalar*", Kind.SCALAR),
        ("const aclScalarList*", "const aclScalarList*", Kind.SCALAR_LIST),
        ("const aclIntArray*", "const aclIntArray*", Kind.INT_ARRAY),
        ("aclIntArray *", "aclIntArray*", Kind.INT_ARRAY),
        ("const aclFloatArray*", "const aclFloatArray*", Kind.FLOAT_ARRAY),
        ("const aclBoolArray*", "const aclBoolArray*", Kind.BOOL_ARRAY),
        ("const char*", "const char*", Kind.TEXT),
        ("char*", "char*", Kind.TEXT),
        ("int64_t", "int64_t", Kind.INT64),
        ("const int64_t", "int64_t", Kind.INT64),
        ("int32_t", "int32_t", Kind.INT32),
        ("int", "int", Kind.INT32),
        ("int8_t const", "int8_t", Kind.INT8),
        ("uint64_t", "uint64_t", Kind.UINT64),
        ("const bool", "bool", Kind.BOOL),
        ("double", "double", Kind.DOUBLE),
        ("float", "float", Kind.FLOAT),
        ("const aclDataType", "aclDataType", Kind.DATA_TYPE),
    ],
)
def test_types(written: str, c_type: str, kind: Kind) -> None:
    (parameter,) = parse(prototype(f"{written} x"), outputs=()).parameters
    assert parameter == Parameter("x", c_type, kind)


def test_kinds_are_the_schemas_arguments() -> None:
    fields = {field.name for field in tensor_pb2.Argument.DESCRIPTOR.fields}
    assert {kind.value for kind in Kind} == fields - {"null"}


def test_null_is_for_pointers() -> None:
    pointers = {kind for kind in Kind if kind.pointer}
    assert pointers == {
        *(Kind.TENSOR, Kind.TENSOR_LIST, Kind.SCALAR, Kind.SCALAR_LIST),
        *(Kind.INT_ARRAY, Kind.FLOAT_ARRAY, Kind.BOOL_ARRAY, Kind.TEXT),
    }


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int main(void);",
        "aclnnStatus aclnnX(void* w, uint64_t s, aclOpExecutor* e, aclrtStream t);",
        "aclnnStatus XGetWorkspaceSize(uint64_t* workspaceSize, aclOpExecutor** executor);",
        "aclnnXGetWorkspaceSize(uint64_t* workspaceSize, aclOpExecutor** executor);",
        "aclnnStatus aclnnXGetWorkspaceSize(uint64_t* w, aclOpExecutor** e) { return 0; }",
        "aclnnStatus aclnnXGetWorkspaceSize(uint64_t* w, aclOpExecutor** e); int x;",
        "aclnnStatus aclnnXGetWorkspaceSize(void (*f)(int), uint64_t* w, aclOpExecutor** e);",
        "// aclnnStatus aclnnXGetWorkspaceSize(uint64_t* w, aclOpExecutor** e);",
        "return aclnnStatus + aclnnXGetWorkspaceSize(uint64_t* w, aclOpExecutor** e);",
    ],
)
def test_what_is_no_prototype(text: str) -> None:
    with pytest.raises(signatures.PrototypeError, match="no prototype"):
        parse(text)


@pytest.mark.parametrize(
    "argument",
    ["", " ", "int64_t", "const aclTensor*", "aclTensor* const", "int x[3]", "int x = 1", "..."],
)
def test_what_is_no_parameter(argument: str) -> None:
    text = f"aclnnStatus aclnnXGetWorkspaceSize({argument}, uint64_t* w, aclOpExecutor** e);"
    with pytest.raises(signatures.PrototypeError, match=r"aclnnXGetWorkspaceSize: .* no parameter"):
        parse(text)


@pytest.mark.parametrize(
    "c_type", ["aclFormat", "uint8_t", "aclTensor", "aclTensor**", "int64_t*", "unsigned int"]
)
def test_unknown_types_are_named(c_type: str) -> None:
    with pytest.raises(signatures.UnknownTypeError) as caught:
        parse(prototype(f"const aclTensor* self, {c_type} mode"))
    assert (caught.value.parameter, caught.value.c_type) == ("mode", c_type)
    assert f"aclnnXGetWorkspaceSize: mode has the unknown type '{c_type}'" in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "trailing",
    [
        "uint64_t* workspaceSize",
        "aclOpExecutor** executor",
        "aclOpExecutor** executor, uint64_t* workspaceSize",
        "uint64_t workspaceSize, aclOpExecutor** executor",
        "uint64_t* workspaceSize, aclOpExecutor* executor",
        "uint64_t* workspaceSize, aclOpExecutor** executor, int x",
    ],
)
def test_missing_workspace_size_or_executor(trailing: str) -> None:
    with pytest.raises(signatures.TrailingParametersError, match="the last two parameters must be"):
        parse(prototype("const aclTensor* self", trailing=trailing))


def test_two_parameters_of_one_name() -> None:
    with pytest.raises(signatures.PrototypeError, match="the same name: a, b, a"):
        parse(prototype("int a, int b, int a"))


# ---------------------------------------------------------------------------------------- marks


def test_marks_that_the_caller_gives() -> None:
    signature = parse(
        prototype("const aclTensor* self, const aclTensor* weight, int n, const aclTensor* z"),
        outputs=["z"],
        optional=["weight"],
    )
    assert [p.name for p in signature.parameters if p.output] == ["z"]
    assert [p.name for p in signature.parameters if p.optional] == ["weight"]
    assert signature.outputs == signature.parameters[3:]


@pytest.mark.parametrize(
    ("outputs", "optional", "wrong"),
    [(["w"], [], "w"), (["n"], [], "n"), ([], ["w"], "w"), ([], ["n"], "n")],
)
def test_marks_for_no_such_parameter(outputs: list[str], optional: list[str], wrong: str) -> None:
    with pytest.raises(signatures.PrototypeError, match=rf"\['{wrong}'\]"):
        parse(prototype("aclTensor* self, int n"), outputs=outputs, optional=optional)


@pytest.mark.parametrize(
    ("name", "optional"),
    [
        ("const aclTensor* biasOptional", True),
        ("aclTensor* maxGradNormOptionalRef", True),
        ("const aclTensor* optionalBias", True),
        ("const aclTensor* optionality", False),
        ("const aclTensor* bias", False),
        ("int64_t groupSizeOptional", False),  # no pointer
    ],
)
def test_names_that_say_optional(name: str, optional: bool) -> None:
    assert parse(prototype(name)).parameters[0].optional is optional


def outputs_of(arguments: str, *, name: str = "aclnnX") -> str:
    return " ".join(parameter.name for parameter in parse(prototype(arguments, name=name)).outputs)


@pytest.mark.parametrize(
    ("arguments", "outputs"),
    [
        ("const aclTensor* self, aclTensor* result", "result"),
        ("const aclTensor* self, const aclTensor* out", "out"),
        ("const aclTensor* x, const aclTensor* y", "y"),
        ("const aclTensor* x, const aclTensor* yOut, const aclTensor* rstdOut", "yOut rstdOut"),
        (
            "const aclTensor* x, aclTensor* out, const aclTensor* meanOutOptional",
            "out meanOutOptional",
        ),
        ("const aclTensor* selfRef, const aclTensor* other", "selfRef"),
        ("const aclTensorList* gradsRef, float lr", "gradsRef"),
        ("const aclTensor* gradOut, const aclTensor* self, aclTensor* gradInput", "gradInput"),
        ("const aclTensor* gradOutput, const aclTensor* out", "out"),
        ("const aclTensor* self, aclTensor* out, int8_t cubeMathType", "out"),
        ("const aclTensor* self, const aclTensor* z", "z"),
        ("aclIntArray* sizeOut, aclScalar* valueOut", ""),
        ("", ""),
    ],
)
def test_guessed_outputs(arguments: str, outputs: str) -> None:
    assert outputs_of(arguments) == outputs


def test_offsets_are_given_to_a_backward_operator_only() -> None:
    arguments = "const aclTensor* x, const aclTensor* offsetOut, const aclTensor* out"
    assert outputs_of(arguments, name="aclnnXBackward") == "out"
    assert outputs_of(arguments, name="aclnnXGrad") == "out"
    assert outputs_of(arguments, name="aclnnX") == "offsetOut out"


def test_in_place_operators_write_to_their_first_tensor() -> None:
    arguments = "const aclTensor* self, const aclTensor* other"
    assert outputs_of(arguments, name="aclnnInplaceX") == "self"
    assert outputs_of(arguments, name="aclnnX") == "other"


def test_exceptions_hold_only_for_the_prototype_that_they_were_made_for() -> None:
    arguments = "const aclTensor* x, const aclTensor* y"
    assert outputs_of(f"{arguments}, const aclTensor* z", name="aclnnXlog1py") == "z"
    assert outputs_of(arguments, name="aclnnXlog1py") == "y"


def test_exceptions_are_about_known_operators() -> None:
    assert signatures._OUTPUTS.keys() <= DECLARED.keys()


def test_index() -> None:
    assert SMOOTH_L1_LOSS.index("beta") == 4
    with pytest.raises(ValueError, match="has no parameter 'gamma'; it has gradOut, self, target"):
        SMOOTH_L1_LOSS.index("gamma")


# ---------------------------------------------------------------------------------------- headers

HEADER = r"""
/* Not a declaration:
   aclnnStatus aclnnCommentGetWorkspaceSize(uint64_t* w, aclOpExecutor** e);
   aclnnStatus aclnnComment(void* w, uint64_t s, aclOpExecutor* e, aclrtStream t); */
#ifndef OP_API_INC_EXAMPLE_H_
#define OP_API_INC_EXAMPLE_H_
#include "aclnn/aclnn_base.h"
#define DECLARE_HALF \
    aclnnStatus aclnnHalf(void* w, uint64_t s, aclOpExecutor* e, aclrtStream t);
#ifdef __cplusplus
extern "C" {
#endif

/**
 * @brief first: phase one (of two);
 */
ACLNN_API aclnnStatus aclnnSecondGetWorkspaceSize(const aclTensor *self, aclTensor *out,
                                                  uint64_t *workspaceSize, aclOpExecutor **executor);

ACLNN_API aclnnStatus aclnnSecond(void *workspace, const uint64_t workspaceSize,
                                  aclOpExecutor *executor, const aclrtStream stream);

__attribute__((visibility("default"))) aclnnStatus aclnnFirstGetWorkspaceSize(
    const aclTensor* selfRef, uint64_t* workspaceSize, aclOpExecutor** executor);
__attribute__((visibility("default"))) aclnnStatus aclnnFirst(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

// A helper without a partner, and a phase one without phase two.
ACLNN_API aclnnStatus aclnnHelper(const float* scaleArray, uint64_t scaleSize, uint64_t** quantParam);
ACLNN_API aclnnStatus aclnnHalfGetWorkspaceSize(uint64_t* workspaceSize, aclOpExecutor** executor);

#ifdef __cplusplus
}
#endif
#endif
"""


def test_pairs_of_a_header_in_order() -> None:
    assert [signature.name for signature in parse_header(HEADER)] == ["aclnnSecond", "aclnnFirst"]
    assert [str(p.name) for s in parse_header(HEADER) for p in s.outputs] == ["out", "selfRef"]


def test_a_header_without_operators() -> None:
    assert parse_header("#pragma once\nint f(void);\n") == []


def test_one_refused_prototype_does_not_hide_the_others() -> None:
    broken = HEADER.replace("const aclTensor* selfRef", "aclFormat selfRef")
    with pytest.raises(signatures.UnknownTypeError, match="aclnnFirstGetWorkspaceSize"):
        parse_header(broken)
    second, first = signatures.header_prototypes(broken)
    assert parse(second).name == "aclnnSecond"
    with pytest.raises(signatures.UnknownTypeError):
        parse(first)


def test_parser_needs_neither_grpc_nor_protobuf() -> None:
    imported = {
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(ast.parse(Path(signatures.__file__).read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {"__future__", "enum", "re", "collections.abc", "dataclasses"}
