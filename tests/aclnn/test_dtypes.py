"""The table of element types."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn import dtypes
from aclnn.dtypes import DType
from aclnn.v1 import tensor_pb2


def test_the_table_is_the_schema() -> None:
    schema = {value.name: value.number for value in tensor_pb2.DataType.DESCRIPTOR.values}
    assert schema.pop("DATA_TYPE_UNSPECIFIED") == 0
    assert {f"DATA_TYPE_{row.name}": row.number for row in dtypes.ALL} == schema


def test_ACLs_numbers_are_those_that_the_schemas_comments_give(project: Path) -> None:
    text = (project / "proto/aclnn/v1/tensor.proto").read_text()
    commented = {name: int(number) for name, number in re.findall(r"ACL_(\w+), (\d+)\.", text)}
    for row in dtypes.ALL:
        assert commented[row.name] == row.acl


def test_ACLs_numbers() -> None:
    numbers = [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 27, 29, 30, *range(33, 42)]
    assert [row.acl for row in dtypes.ALL] == numbers


@pytest.mark.parametrize("row", dtypes.ALL, ids=str)
def test_found_by_every_name_and_number(row: DType) -> None:
    assert dtypes.dtype(row) is row
    assert dtypes.dtype(row.name) is row
    assert dtypes.dtype(f"ACL_{row.name}") is row
    assert dtypes.from_number(row.number) is row
    assert dtypes.from_acl(row.acl) is row
    assert dtypes.dtype(row.acl) is row
    assert dtypes.dtype(np.int32(row.acl)) is row
    assert repr(row) == row.name


@pytest.mark.parametrize("row", [row for row in dtypes.ALL if row.numpy], ids=str)
def test_found_by_its_numpy_form(row: DType) -> None:
    assert row.numpy is not None
    assert dtypes.dtype(row.numpy) is row
    assert dtypes.dtype(row.numpy.type) is row
    assert dtypes.dtype(row.numpy.name) is row


@pytest.mark.parametrize("row", dtypes.ALL, ids=str)
def test_size_is_that_of_the_numpy_form(row: DType) -> None:
    assert row.packed == (row.bits in (1, 4, 6))
    if row.numpy is not None:
        assert row.itemsize == (0 if row.packed else row.numpy.itemsize)
        assert row.packed or row.bits == 8 * row.numpy.itemsize


@pytest.mark.parametrize(
    ("name", "elements", "size"),
    [("FLOAT", 3, 12), ("INT4", 3, 2), ("UINT1", 9, 2), ("FLOAT6_E3M2", 4, 3), ("INT4", 0, 0)],
)
def test_storage_bytes(name: str, elements: int, size: int) -> None:
    assert dtypes.dtype(name).storage_bytes(elements) == size


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("float32", dtypes.FLOAT),
        ("float", dtypes.DOUBLE),
        (np.float16, dtypes.FLOAT16),
        (np.dtype(">f8"), dtypes.DOUBLE),
        (">i2", dtypes.INT16),
        (float, dtypes.DOUBLE),
        (int, dtypes.INT64),
        (bool, dtypes.BOOL),
        (np.longlong, dtypes.INT64),
        ("bfloat16", dtypes.BF16),
        (ml_dtypes.bfloat16, dtypes.BF16),
        (ml_dtypes.float8_e8m0fnu, dtypes.FLOAT8_E8M0),
        ("int4", dtypes.INT4),
    ],
)
def test_numpys_names(value: object, expected: DType) -> None:
    assert dtypes.dtype(value) is expected


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "",
        "ACL_",
        "double precision",
        "object",
        "M8[s]",
        "(2,",
        "8T",  # NumPy crashes when asked for its byte order
        "finfo",
        "__name__",
        [("a", "f4")],
        np.zeros(2),
        ml_dtypes.float8_e4m3b11fnuz,
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_unknown_types(value: object) -> None:
    with pytest.raises(TypeError, match="no element type of ACL; known are NumPy's names of FLOAT"):
        dtypes.dtype(value)


# NumPy warns of spellings that it gives up.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@given(st.text("<>=|iufcb?0124(),aSUVOMmT[]{}: .'") | st.text())
def test_any_text_is_a_type_or_a_type_error(text: str) -> None:
    try:
        assert dtypes.dtype(text) in dtypes.ALL
    except TypeError as error:
        assert "no element type" in str(error)  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize("number", [-1, 0, 28, 2**31])
def test_unknown_numbers(number: int) -> None:
    assert dtypes.from_number(number) is None


@pytest.mark.parametrize("number", [-1, 5, 14, 28, 31])
def test_unknown_numbers_of_ACL(number: int) -> None:
    assert dtypes.from_acl(number) is None
    with pytest.raises(
        TypeError, match=rf"^{number} is no number .* of ACL; known are 0 FLOAT, 1 "
    ):
        dtypes.dtype(number)


@pytest.mark.parametrize("row", dtypes.ALL, ids=str)
def test_copies_are_the_same_object(row: DType) -> None:
    assert pickle.loads(pickle.dumps(row)) is row
    assert copy.deepcopy(row) is row
