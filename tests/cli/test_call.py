"""``call``: one operator on files and numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from aclnn_server.cli.exits import Exit
from aclnn_server.server import Server
from tests.cli.running import Command

SAMPLE = ("gradOutput=ones:4x2", "self=arange:4x2", "target=ones:4x2", "reduction=0", "beta=1.0")
RESULT = "gradInput: FLOAT 4x2\n  -1  0\n   1  1\n   1  1\n   1  1\n"


def replaced(**values: str) -> list[str]:
    """The sample's arguments, some with other values."""
    texts = dict(argument.split("=", 1) for argument in SAMPLE) | values
    return [f"{name}={text}" for name, text in texts.items() if text]


def test_without_an_address_it_needs_no_server(command: Command) -> None:
    answer = command("call", "SmoothL1LossBackward", *SAMPLE)
    assert (answer.code, answer.err, answer.out) == (0, "", RESULT)


def test_at_an_address(command: Command, server: Server) -> None:
    answer = command("call", "aclnnSmoothL1LossBackward", *SAMPLE, "--address", server.address)
    assert (answer.code, answer.err, answer.out) == (0, "", RESULT)


def test_files_in_and_out(command: Command, server: Server, tmp_path: Path) -> None:
    x, y, out = (tmp_path / f"{name}.npy" for name in ("x", "y", "out"))
    np.save(x, np.arange(6, dtype=np.float16).reshape(2, 3)[:, ::-1])
    np.save(y, np.ones((2, 1), np.float32))
    arguments = (f"self={x}", f"target={y}", "reduction=none", "beta=1", f"result={out}")
    answer = command("call", "SmoothL1Loss", *arguments, "--address", server.address)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"result: FLOAT 2x3 -> {out}\n"
    saved = np.load(out)
    assert saved.dtype == np.float32
    assert saved.tolist() == [[0.5, 0, 0.5], [3.5, 2.5, 1.5]]


def test_bfloat16_files(command: Command, server: Server, tmp_path: Path) -> None:
    x, out = tmp_path / "x.npy", tmp_path / "out.npy"
    np.save(x, np.full((4, 2), 1.5, ml_dtypes.bfloat16))
    arguments = replaced(
        self=f"{x}:bfloat16",
        gradOutput="ones:4x2:bfloat16",
        target="ones:4x2:bfloat16",
        gradInput=str(out),
    )
    answer = command("call", "SmoothL1LossBackward", *arguments, "--address", server.address)
    assert (answer.code, answer.err) == (0, "")
    assert np.load(out).view(ml_dtypes.bfloat16).astype(float).tolist() == [[0.5, 0.5]] * 4


def test_an_output_s_shape_and_type_may_be_given(
    command: Command, server: Server, tmp_path: Path
) -> None:
    out = tmp_path / "out.npy"
    arguments = replaced(gradInput=f"empty:4x2:float16:{out}")
    answer = command("call", "SmoothL1LossBackward", *arguments, "--address", server.address)
    assert (answer.code, answer.err) == (0, "")
    assert np.load(out).dtype == np.float16


def test_a_result_without_dimensions(command: Command, server: Server) -> None:
    arguments = ("self=[3,5]", "target=[1,1]", "reduction=mean", "beta=1")
    answer = command("call", "SmoothL1Loss", *arguments, "--address", server.address)
    assert answer.out == "result: FLOAT without dimensions\n  2.5\n"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"self": "", "beta": ""},
            "aclnnSmoothL1LossBackward needs self (const aclTensor*), beta (float) as well",
        ),
        (
            {"alpha": "1"},
            "aclnnSmoothL1LossBackward has no parameter 'alpha'; it has gradOutput, self, target, "
            "reduction, beta, gradInput",
        ),
        ({"beta": "soft"}, "beta: 'soft' is no number and no list in brackets"),
        ({"beta": "null"}, "beta: float cannot be null"),
        ({"reduction": "max"}, "reduction: 'max' is no whole number; or one of none, mean, sum"),
        ({"self": "x.npy"}, "self: x.npy: No such file or directory"),
        ({"self": "ones:1000000x100000000"}, "takes 364 TiB, more than this machine has free"),
        (
            {"self": "ones:1000000x1", "gradOutput": "1", "target": "ones:1x100000000"},
            "gradInput: a tensor of 1000000x100000000 FLOAT takes 364 TiB",
        ),
    ],
)
def test_wrong_arguments_are_told_without_a_server(
    values: dict[str, str], told: str, refusal: Callable[..., str]
) -> None:
    assert told in refusal("call", "SmoothL1LossBackward", *replaced(**values))


def test_what_is_no_assignment_or_given_twice(refusal: Callable[..., str]) -> None:
    assert refusal("call", "SmoothL1Loss", "self") == "'self' is no PARAMETER=VALUE"
    assert refusal("call", "SmoothL1Loss", "self=1", "self=2") == "self is given twice"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"beta": "-1"}, "beta is -1.0; allowed are numbers of at least 0 (161002 "),
        ({"self": "ones:3"}, "do not broadcast together (161002 "),
        ({"gradOutput": "null"}, "gradOutput is a null pointer (161001 "),
        ({"self": "null", "gradInput": "empty:4x2"}, "self is a null pointer (161001 "),
        ({"reduction": "7"}, "reduction is 7; allowed are 0 (none)"),
    ],
)
def test_what_the_operator_refuses_is_one_line_and_code_1(
    values: dict[str, str], told: str, refusal: Callable[..., str], server: Server
) -> None:
    arguments = replaced(**values)
    address = ("--address", server.address)
    assert told in refusal("call", "SmoothL1LossBackward", *arguments, *address, code=Exit.NO)


def test_rules_of_a_product_hold_in_its_own_server(refusal: Callable[..., str]) -> None:
    arguments = replaced(self="ones:4x2:bfloat16", gradInput="empty:4x2")
    soc = ("--soc", "ascend310p")
    told = refusal("call", "SmoothL1LossBackward", *arguments, *soc, code=Exit.NO)
    assert "self is BF16; allowed on Atlas inference are FLOAT, FLOAT16" in told


def test_a_result_that_cannot_be_saved(refusal: Callable[..., str], server: Server) -> None:
    arguments = replaced(gradInput="no/such/folder/out.npy")
    address = ("--address", server.address)
    told = refusal("call", "SmoothL1LossBackward", *arguments, *address, code=Exit.NO)
    assert told == "no/such/folder/out.npy: No such file or directory"


def test_a_file_larger_than_the_memory_is_one_line(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (10**14,)}
        np.lib.format.write_array_header_1_0(file, header)
    told = refusal("call", "Abs", f"self={path}", code=Exit.NO)
    assert told == "this machine has not enough memory free for that"
