"""Reading headers in the vendor's form, and the operators of its published repositories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aclnn.signatures import Kind, Signature
from aclnn_server.backends.ascend.headers import Headers, read_headers, read_tree
from aclnn_server.backends.ascend.loader import header_folders
from aclnn_server.cli import main
from tests.ascend.building import SOURCES


@pytest.fixture
def found(home: Path) -> Headers:
    return read_headers(header_folders(home))


def kinds(signature: Signature) -> list[Kind]:
    return [parameter.kind for parameter in signature.parameters]


def outputs(signature: Signature) -> list[str]:
    return [parameter.name for parameter in signature.outputs]


def test_every_operator_of_the_double_is_found(found: Headers) -> None:
    assert len(found.operators) == 17
    assert list(found.refused) == ["aclnnFormatCast"]
    assert found.count == 18


def test_float_and_not_double_although_the_comment_says_so(found: Headers) -> None:
    signature = found.operators["aclnnSmoothL1LossBackward"]
    assert signature.parameters[0].name == "gradOut"
    assert signature.parameters[4].c_type == "float"
    assert outputs(signature) == ["gradInput"]


@pytest.mark.parametrize(
    ("operator", "written"),
    [
        ("aclnnRelu", ["out"]),  # declared const
        ("aclnnRmsNorm", ["yOut", "rstdOut"]),  # all const, from a generated header
        ("aclnnInplaceAdd", ["selfRef"]),  # const, and in place
        ("aclnnMatmul", ["out"]),  # an input behind it
        ("aclnnSplitTensor", ["out"]),  # a list
    ],
)
def test_outputs(found: Headers, operator: str, written: list[str]) -> None:
    assert outputs(found.operators[operator]) == written


def test_every_kind_of_argument(found: Headers) -> None:
    echo = found.operators["aclnnEcho"]
    assert set(kinds(echo)) == set(Kind)
    assert [p.kind for p in echo.parameters if p.name in ("word", "number")] == [Kind.INT32] * 2
    assert all(p.optional for p in echo.parameters if p.kind.pointer and p.name != "out")


def test_const_streams_and_sizes_are_no_obstacle(found: Headers) -> None:
    assert {"aclnnAdd", "aclnnSplitTensor", "aclnnMatmul"} <= found.operators.keys()


def test_functions_of_one_phase_are_no_operators(found: Headers) -> None:
    assert "aclnnCalculateMatmulWeightSize" not in found.operators


def test_what_cannot_be_served_says_why(found: Headers) -> None:
    reason = found.refused["aclnnFormatCast"]
    assert reason.startswith("aclnn_refused.h: ")
    assert "format has the unknown type 'aclFormat'" in reason


def test_one_header_that_can_be_read_is_enough(tmp_path: Path) -> None:
    bad, good = tmp_path / "aclnn_a.h", tmp_path / "aclnn_b.h"
    tail = "uint64_t* workspaceSize, aclOpExecutor** executor);\n"
    two = "aclnnStatus aclnnX(void* w, uint64_t s, aclOpExecutor* e, aclrtStream t);\n"
    bad.write_text(f"aclnnStatus aclnnXGetWorkspaceSize(const Odd* x, {tail}{two}")
    good.write_text(f"aclnnStatus aclnnXGetWorkspaceSize(const aclTensor* x, {tail}{two}")
    found = read_headers([tmp_path])
    assert (list(found.operators), found.refused) == (["aclnnX"], {})


def test_tests_and_builds_of_a_source_tree_are_left_out(tmp_path: Path) -> None:
    for folder in ("nn/add", "nn/tests/ut", "build/x", "experimental"):
        (tmp_path / folder).mkdir(parents=True)
        text = (SOURCES / "include/aclnnop/aclnn_add.h").read_text()
        (tmp_path / folder / "aclnn_add.h").write_text(text)
    assert read_tree(tmp_path).files == 1


# --- the vendor's published operators -------------------------------------------------------------


@pytest.fixture(scope="module")
def published(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A header for each operator of the vendor's repositories, written from their signatures."""
    folder = tmp_path_factory.mktemp("published")
    signatures = json.loads((project / "tests/aclnn/data/signatures.json").read_text())
    for name, parameters in signatures.items():
        (folder / f"{name.lower().replace('aclnn', 'aclnn_')}.h").write_text(
            header(name, parameters)
        )
    return folder


def header(name: str, parameters: list[str]) -> str:
    arguments = ", ".join(text.rstrip(" >?") for text in parameters)
    return (
        f"#ifndef {name}_H\n#define {name}_H\n/**\n * @brief {name}GetWorkspaceSize(const int x);\n */\n"
        f"ACLNN_API aclnnStatus {name}GetWorkspaceSize(\n    {arguments}, uint64_t *workspaceSize, "
        "aclOpExecutor **executor);\n"
        f"ACLNN_API aclnnStatus {name}(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,\n"
        "    const aclrtStream stream);\n#endif\n"
    )


def test_all_published_operators_can_be_served(published: Path) -> None:
    found = read_tree(published)
    count = len(list(published.iterdir()))
    assert count > 700
    assert (found.files, len(found.operators), found.refused) == (count, count, {})


def test_doctor_counts_headers(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--headers", str(published)]) == 0
    count = len(list(published.iterdir()))
    told = capsys.readouterr().out
    assert told == f"{count} headers, {count} operators, 0 cannot be served\n"


def test_doctor_names_what_cannot_be_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--headers", str(SOURCES / "include")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("18 operators, 1 cannot be served")
    assert lines[1].startswith("  aclnnFormatCast: aclnn_refused.h: ")


def test_doctor_refuses_a_folder_without_headers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--headers", str(tmp_path)]) == 2
    assert main(["doctor", "--headers", str(tmp_path / "absent")]) == 2
    errors = capsys.readouterr().err
    assert "there is no header aclnn*.h" in errors
    assert "where there is no folder" in errors
