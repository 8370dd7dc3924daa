"""``diff``: the same calls on two sides."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aclnn_server.cli.exits import Exit
from aclnn_server.server import Server
from tests.cli.running import Command

BACKWARD = (
    "SmoothL1LossBackward",
    "gradOutput=ones:2x4",
    "self=rand:2x4",
    "target=zeros:2x4",
    "reduction=none",
    "beta=1",
)
CASES = [
    {
        "case": "inside",
        "operator": "aclnnSmoothL1Loss",
        "arguments": {"self": "rand:8", "target": "zeros:8", "reduction": "none", "beta": 1},
    },
    {
        "case": "beta 0",
        "operator": "SmoothL1LossBackward",
        "arguments": {
            "gradOutput": "ones:3",
            "self": "[0, 1, -1]",
            "target": "zeros:3",
            "reduction": 0,
            "beta": 0.0,
        },
    },
    {
        "case": "refused",
        "operator": "SmoothL1Loss",
        "arguments": {
            "self": "ones:8",
            "target": "ones:7",
            "reduction": 0,
            "beta": 1,
            "result": "ones:8",
        },
    },
]


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(CASES))
    return path


def test_a_product_against_the_reference(command: Command) -> None:
    answer = command("diff", "reference", "ascend910b", *BACKWARD)
    assert (answer.code, answer.err) == (0, "")
    heading, row, summary = answer.lines
    assert heading.split("  ")[0] == "case"
    assert " near " in row
    assert " 8/8 " in row
    assert "[0, 0]: 0.6369617 and 0.6369611" in row
    assert summary == "1 of 1 within tolerance: reference and ascend910b"


def test_tolerances_decide(command: Command) -> None:
    answer = command(
        "diff", "reference", "ascend910b", *BACKWARD, "--atol", 0, "--rtol", 0, "--ulp", 1
    )
    assert answer.code == Exit.NO
    assert answer.lines[-1].startswith("0 of 1 within")
    assert (
        command(
            "diff", "reference", "ascend910b", *BACKWARD, "--atol=0", "--rtol=0", "--ulp=16"
        ).code
        == Exit.DONE
    )


def test_a_server_against_itself_is_equal(command: Command, server: Server) -> None:
    answer = command("diff", "numpy", server.address, *BACKWARD)
    assert answer.code == 0
    assert " equal " in answer.lines[1]


def test_a_file_of_cases_for_programs(command: Command, cases: Path) -> None:
    answer = command("diff", "reference", "numpy/ascend950", "--cases", cases, "--json")
    assert (answer.code, answer.err) == (Exit.NO, "")
    told = json.loads(answer.out)
    assert (told["left"], told["right"], told["passed"]) == ("reference", "numpy/ascend950", False)
    inside, zero, refused = told["results"]
    assert (inside["case"], inside["output"], inside["passed"]) == ("inside", "result", True)
    assert inside["max_ulp"] <= 2
    assert (zero["verdict"], zero["differing"], zero["first"]) == ("differs", 1, [0])
    assert (zero["left"], zero["right"], zero["max_absolute"]) == ("0.0", "nan", "nan")
    assert refused["verdict"] == "both 161002 ACLNN_ERR_PARAM_INVALID"
    assert refused["passed"]
    assert "target has shape [7]" in refused["left_error"]
    assert refused["left_error"] == refused["right_error"]


def test_one_side_that_refuses(command: Command, tmp_path: Path) -> None:
    arguments = [text.replace("x4", "x4:bfloat16") if ":2x4" in text else text for text in BACKWARD]
    answer = command("diff", "reference", "ascend910", *arguments)
    assert answer.code == Exit.NO
    assert "computed / 161002 ACLNN_ERR_PARAM_INVALID" in answer.out
    assert "right: aclnnSmoothL1LossBackward: gradOutput is BF16; allowed" in answer.lines[1]


def test_operators_with_lists_and_files(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(6, dtype=np.int32))
    arguments = (f"tensors={path},ones:2:int32", "dim=0", "out=zeros:8:int32")
    answer = command("diff", "reference", "ascend950", "Cat", *arguments)
    assert (answer.code, answer.lines[1].split()[:3]) == (0, ["Cat", "out", "equal"])


@pytest.mark.parametrize(
    ("sides", "text"),
    [
        (
            ("reference", "ascend9"),
            "'ascend9' is no HOST:PORT or unix:PATH, no product (reference,",
        ),
        (("numpy/none", "reference"), "'numpy/none' is no HOST:PORT"),
        (("cuda", "reference"), "no backend (numpy, null, ascend)"),
    ],
)
def test_no_such_side(refusal: Callable[..., str], sides: tuple[str, str], text: str) -> None:
    assert text in refusal("diff", *sides, *BACKWARD)


def test_refusals(refusal: Callable[..., str], tmp_path: Path) -> None:
    assert "name one operator or one file" in refusal("diff", "reference", "numpy")
    path = tmp_path / "cases.json"
    sides = ("diff", "reference", "numpy", "--cases", path)
    assert "No such file" in refusal(*sides)
    for text, problem in (
        ("{", "is no JSON"),
        ("[]", "has no list of cases"),
        ("[1]", "case 1 is no object"),
        ('[{"arguments": {}}]', "case 1 names no operator"),
    ):
        path.write_text(text)
        assert problem in refusal(*sides)
    path.write_text('[{"operator": "aclnnNothing"}]')
    assert "no operator 'aclnnNothing'" in refusal(*sides)
