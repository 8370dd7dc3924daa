"""The C library's headers and functions, as far as their text tells; tests/cpp compiles and calls them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aclnn import codes, dtypes, formats
from aclnn.signatures import Kind, parse, parse_header
from aclnn_server.operators.catalogue import built_in
from aclnn_server.operators.generate import C_HEADERS, C_LIBRARY, ORIGIN
from aclnn_server.operators.texts import c_functions

VENDOR_FILES = {
    "aclnnAdd": "aclnn_add.h",
    "aclnnAdds": "aclnn_add.h",
    "aclnnInplaceAdds": "aclnn_add.h",
    "aclnnArgMax": "aclnn_argmax.h",
    "aclnnBatchMatMul": "aclnn_batch_matmul.h",
    "aclnnClampMax": "aclnn_clamp.h",
    "aclnnDivMod": "aclnn_div.h",
    "aclnnGtTensor": "aclnn_gt_tensor.h",
    "aclnnInplaceCopy": "aclnn_copy.h",
    "aclnnInplaceFillScalar": "aclnn_fill_scalar.h",
    "aclnnInplaceOne": "aclnn_ones.h",
    "aclnnInplaceZero": "aclnn_zero.h",
    "aclnnL1LossBackward": "aclnn_l1_loss_backward.h",
    "aclnnLog1p": "aclnn_log1p.h",
    "aclnnLogSoftmaxBackward": "aclnn_logsoftmax_backward.h",
    "aclnnNLLLoss": "aclnn_nll_loss.h",
    "aclnnPowTensorScalar": "aclnn_pow.h",
    "aclnnPowTensorTensor": "aclnn_pow_tensor_tensor.h",
    "aclnnSWhere": "aclnn_s_where.h",
    "aclnnSmoothL1LossBackward": "aclnn_smooth_l1_loss_backward.h",
}
"""Where the vendor declares operators; source: hicann/ops-math and hicann/ops-nn, public headers."""


@pytest.mark.parametrize("operator", VENDOR_FILES)
def test_headers_are_called_as_the_vendor_s(operator: str) -> None:
    assert c_functions.header_name(operator) == VENDOR_FILES[operator]


def test_the_headers_declare_the_catalogue(project: Path) -> None:
    """Read back by the parser that reads an installed CANN's."""
    declared = {
        signature.name: [(row.c_type, row.name) for row in signature.parameters]
        for path in (project / C_HEADERS).glob("*.h")
        for signature in parse_header(path.read_text("utf-8"))
    }
    assert declared == {
        name: [(row.c_type, row.name) for row in operator.signature.parameters]
        for name, operator in built_in().items()
    }


def test_the_source_has_every_operator_once(project: Path) -> None:
    text = (project / C_LIBRARY / "src/ops/operators.c").read_text("utf-8")
    defined = re.findall(r'^static const aclnnServeOperator k\w+ = \{"(\w+)"', text, re.MULTILINE)
    assert defined == list(built_in())


class Example:
    """An operator with a parameter of every kind."""

    name = "aclnnExample"
    signature = parse(
        """aclnnStatus aclnnExampleGetWorkspaceSize(const aclTensor* a, const aclTensorList* b,
        const aclScalar* c, const aclScalarList* d, const aclIntArray* e, const aclFloatArray* f,
        const aclBoolArray* g, char* h, int64_t i, int j, int8_t k, uint64_t l, bool m, double n,
        float o, aclDataType p, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor)""",
        outputs=("out",),
    )
    summary = "Ends no comment */ early."


def test_every_kind_of_argument() -> None:
    kinds = {row.kind for row in Example.signature.parameters}
    assert kinds == set(Kind)
    source = c_functions.source([Example()], ORIGIN)
    rows = re.findall(r'    \{"(\w+)", ACLNN_SERVE_(\w+), (\w+)\},', source)
    values = re.findall(r"      \{\.(\w+) = (\w+)\},", source)
    names = [row.name for row in Example.signature.parameters]
    assert [name for name, _, _ in rows] == [name for _, name in values] == names
    assert [name for name, _, written in rows if written == "true"] == ["out"]
    assert [kind.lower() for _, kind, _ in rows] == [
        re.sub(r"([A-Z])", r"_\1", member).lower().removesuffix("_value") for member, _ in values
    ]
    header = c_functions.headers([Example()], ORIGIN)["aclnn_example.h"]
    assert header.count("*/") == 2


def enumerated(text: str, prefix: str) -> dict[str, int]:
    """Constants of a C header by name."""
    return {name: int(n) for name, n in re.findall(rf"\b({prefix}\w+) = (-?\d+)", text)}


def test_numbers_of_the_headers_are_those_of_the_tables(project: Path) -> None:
    folder = project / C_LIBRARY / "include/acl"
    base = (folder / "acl_base.h").read_text("utf-8")
    types = re.search(r"typedef enum \{([^}]*)\} aclDataType;", base)
    layouts = re.search(r"typedef enum \{([^}]*)\} aclFormat;", base)
    assert types is not None
    assert layouts is not None
    expected = {f"ACL_{row.name}": row.acl for row in dtypes.ALL}
    assert enumerated(types[1], "ACL_") == expected | {"ACL_DT_UNDEFINED": -1}
    names = {f"ACL_FORMAT_{row.name}": row.acl for row in formats.ALL}
    names["ACL_FRACTAL_Z_3D"] = names.pop("ACL_FORMAT_FRACTAL_Z_3D")  # as the vendor has it
    assert enumerated(layouts[1], "ACL_") == names | {"ACL_FORMAT_UNDEFINED": -1}
    returned = enumerated((folder / "error_codes.h").read_text("utf-8"), "ACL_ERROR_")
    assert returned.pop("ACL_ERROR_NONE") == 0
    assert returned == {
        name: code for name, code in vars(codes).items() if name.startswith("ACL_ERROR_")
    }
