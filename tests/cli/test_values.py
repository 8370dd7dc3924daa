"""Values of ``call`` as they are written on the command line."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from aclnn import dtypes
from aclnn.signatures import Kind, Parameter
from aclnn.tensors import Scalar
from aclnn_server.cli import values
from aclnn_server.cli.values import Output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.5", np.array(2.5, np.float32)),
        ("-3:int8", np.array(-3, np.int8)),
        ("true:bool", np.array(True)),
        ("[[1,2],[3,4]]:float16", np.array([[1, 2], [3, 4]], np.float16)),
        ("[nan,-inf,Infinity]", np.array([np.nan, -np.inf, np.inf], np.float32)),
        ("[]", np.array([], np.float32)),
        ("ones:4x2", np.ones((4, 2), np.float32)),
        ("zeros:3:INT64", np.zeros(3, np.int64)),
        ("empty:2x0:bool", np.zeros((2, 0), np.bool_)),
        ("ones:", np.ones((), np.float32)),
        ("arange:2x3:bfloat16", np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)),
        ("full:2:3.5:double", np.array([3.5, 3.5])),
        ("full:2:nan", np.array([np.nan, np.nan], np.float32)),
        ("rand:2x2", np.random.default_rng(0).random((2, 2)).astype(np.float32)),
        ("rand:2:float16:7", np.random.default_rng(7).random(2).astype(np.float16)),
    ],
)
def test_tensors(text: str, expected: values.Array) -> None:
    array = values.array(text)
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected, strict=True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("one:4x2", "'one' is no number and no list in brackets"),
        ("ones", "a shape is missing: ones:4x2"),
        ("ones:4,2", "'4,2' is no shape; one is written 4x2"),
        ("ones:4x2:float31", "'float31' is no element type of ACL"),
        ("ones:4x2:hifloat8", "is no element type"),
        ("ones:4x2:HIFLOAT8", "NumPy has no array of HIFLOAT8"),
        ("ones:4x2:float32:7", "nothing is known of '7'"),
        ("full:4x2", "full takes a shape and a value"),
        ("full:4x2:[1]", "'[1]' is no number"),
        ("rand:4:float32:x", "'x' is no whole number"),
        ("[1,[2]]", "'[1,[2]]' is no tensor: its lists are of unequal lengths"),
        ('["1"]', "'1' is no number"),
        ("300:int8", "'300:int8' is no tensor: 300 does not fit INT8, which holds whole numbers "),
        ("[1.5]:int8", "1.5 does not fit INT8, which holds whole numbers from -128 to 127"),
        ("full:3:300:int8", "300 does not fit INT8, which holds whole numbers from -128 to 127"),
        ("full:3:-1.5:int8", "-1.5 does not fit INT8"),
        ("full:3:nan:int4", "nan does not fit INT4, which holds whole numbers from -8 to 7"),
        ("arange:129:int8", "128 does not fit INT8"),
        (
            "[1e39]",
            "1e+39 does not fit FLOAT, which holds numbers from -3.40282e+38 to 3.40282e+38",
        ),
        ("full:2:1e39", "1e+39 does not fit FLOAT"),
        ("[70000]:float16", "70000 does not fit FLOAT16, which holds numbers from -65504 to 65504"),
        ("[100]:FLOAT4_E2M1", "100 does not fit FLOAT4_E2M1, which holds numbers from -6 to 6"),
        ("[inf]:FLOAT8_E4M3FN", "inf does not fit FLOAT8_E4M3FN"),
        (f"[{10**400}]", "does not fit FLOAT"),
        ("[1e309]:double", "1e309 does not fit DOUBLE"),
        (
            "ones:99999999999999999999x2",
            "'99999999999999999999x2' has a size that is larger than any",
        ),
        ("ones:4000000000x4000000000", "is larger than any memory"),
        ("ones:" + "x".join("1" * 65), "65 dimensions are too many; at most 64 are held"),
        ("missing.npy", "missing.npy: No such file or directory"),
        ("", "'' is no number and no list in brackets"),
    ],
)
def test_what_is_no_tensor_says_why(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        values.array(text)
    assert told in str(caught.value)


@pytest.mark.parametrize("form", ["ones", "zeros", "empty", "full", "arange", "rand"])
def test_more_than_the_memory_is_told_in_one_line(form: str) -> None:
    value = ":2" if form == "full" else ""
    with pytest.raises(ValueError, match=r"1000000x100000000 FLOAT takes 364 TiB, more than this"):
        values.array(f"{form}:1000000x100000000{value}")


@pytest.mark.parametrize(
    ("alias", "meant"),
    [
        ("bf16", dtypes.BF16),
        ("fp16", dtypes.FLOAT16),
        ("fp32", dtypes.FLOAT),
        ("float", dtypes.FLOAT),
    ],
)
def test_short_names_of_types(alias: str, meant: dtypes.DType) -> None:
    assert values.array(f"ones:2:{alias}").dtype == meant.numpy


def test_infinity_that_is_written_is_kept() -> None:
    assert values.array("full:1:inf:float16").tolist() == [np.inf]
    assert values.array("[-inf]:float16").tolist() == [-np.inf]


@pytest.mark.parametrize(
    ("content", "dtype", "told"),
    [
        ([1, 70000.0], "float16", "70000.0 does not fit FLOAT16"),
        ([1, 1.5], "int8", "1.5 does not fit INT8"),
        ([300], "int8", "300 does not fit INT8"),
        ([1j], "float32", "complex numbers do not fit FLOAT"),
    ],
)
def test_files_of_numbers_that_do_not_fit(
    content: list[complex], dtype: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array(content))
    with pytest.raises(ValueError, match=rf"x\.npy: {told}"):
        values.array(f"{path}:{dtype}")


def test_files(tmp_path: Path) -> None:
    plain, odd = tmp_path / "plain.npy", tmp_path / "odd.npy"
    np.save(plain, np.arange(3, dtype=np.int16))
    np.save(odd, np.arange(3).astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(values.array(f"{plain}"), np.arange(3, dtype=np.int16))
    assert values.array(f"{plain}:float16").dtype == np.float16
    assert values.array(f"{odd}:bfloat16").astype(int).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"odd\.npy:bfloat16"):
        values.array(f"{odd}")


def test_a_file_that_is_no_array_says_so(tmp_path: Path) -> None:
    path = tmp_path / "text.npy"
    for content in ("", "hello"):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"text\.npy is no file of a NumPy array"):
            values.array(str(path))


def test_outputs() -> None:
    assert values.output("out.npy") == Output(None, Path("out.npy"))
    described = values.output("empty:4x2:float16")
    assert described.file is None
    assert described.initial is not None
    assert described.initial.shape == (4, 2)
    both = values.output("full:2:3.5:out/o.npy")
    assert both.file == Path("out/o.npy")
    assert both.initial is not None
    assert both.initial.tolist() == [3.5, 3.5]


def read(kind: Kind, text: str, *, c_type: str = "", **choices: int) -> object:
    return values.read(Parameter("p", c_type or kind.value, kind), text, choices)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Kind.INT64, "-3", -3),
        (Kind.INT32, "0x10", 16),
        (Kind.FLOAT, "1e-3", 1e-3),
        (Kind.DOUBLE, "inf", float("inf")),
        (Kind.BOOL, "True", True),
        (Kind.BOOL, "0", False),
        (Kind.TEXT, "a=b", "a=b"),
        (Kind.DATA_TYPE, "BF16", dtypes.BF16),
        (Kind.INT_ARRAY, "[1,2]", [1, 2]),
        (Kind.BOOL_ARRAY, "[true,false]", [True, False]),
        (Kind.SCALAR, "2.5", 2.5),
        (Kind.SCALAR, "2:float16", Scalar(2, dtypes.FLOAT16)),
        (Kind.SCALAR_LIST, "[1,2]", (1, 2)),
        (Kind.SCALAR_LIST, "[1,2]:int8", (Scalar(1, dtypes.INT8), Scalar(2, dtypes.INT8))),
        (Kind.TENSOR, "null", None),
        (Kind.TEXT, "null", None),
    ],
)
def test_other_kinds(kind: Kind, text: str, expected: object) -> None:
    assert read(kind, text) == expected


def test_a_name_stands_for_its_number() -> None:
    assert read(Kind.INT64, "mean", none=0, mean=1) == 1


def test_a_list_of_tensors_is_split_between_brackets_only() -> None:
    tensors = read(Kind.TENSOR_LIST, "ones:2,[1,2],[[3,4]]")
    assert isinstance(tensors, tuple)
    assert [tensor.tolist() for tensor in tensors] == [[1, 1], [1, 2], [[3, 4]]]
    assert read(Kind.TENSOR_LIST, "[]") == ()


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (Kind.INT64, "1.5", "'1.5' is no whole number"),
        (Kind.FLOAT, "x", "'x' is no number"),
        (Kind.FLOAT, "true", "'true' is no number"),
        (Kind.BOOL, "maybe", "'maybe' is no bool"),
        (Kind.INT_ARRAY, "3", "'3' is no list"),
        (Kind.DATA_TYPE, "x", "'x' is no element type"),
        (Kind.INT64, "null", "int64_t cannot be null"),
    ],
)
def test_what_is_no_such_value_says_why(kind: Kind, text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        read(kind, text, c_type="int64_t")
    assert told in str(caught.value)
