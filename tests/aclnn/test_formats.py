"""The table of storage formats."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import pytest

from aclnn import formats
from aclnn.formats import Format
from aclnn.v1 import tensor_pb2


def test_the_table_is_the_schema() -> None:
    schema = {value.name: value.number for value in tensor_pb2.Format.DESCRIPTOR.values}
    assert schema.pop("FORMAT_UNSPECIFIED") == 0
    assert {f"FORMAT_{row.name}": row.number for row in formats.ALL} == schema


def test_ACLs_numbers_are_those_that_the_schemas_comments_give(project: Path) -> None:
    text = (project / "proto/aclnn/v1/tensor.proto").read_text()
    commented = {
        name: int(number) for number, name in re.findall(r", (\d+)\.\n +FORMAT_(\w+) =", text)
    }
    assert {row.name: row.acl for row in formats.ALL} == commented


def test_ACLs_numbers_are_unique() -> None:
    assert len({row.acl for row in formats.ALL}) == len(formats.ALL)


@pytest.mark.parametrize("row", formats.ALL, ids=str)
def test_found_by_every_name_and_number(row: Format) -> None:
    assert formats.format_of(row) is row
    assert formats.format_of(row.name) is row
    assert formats.format_of(f"ACL_FORMAT_{row.name}") is row
    assert formats.from_number(row.number) is row
    assert repr(row) == row.name


def test_ACLs_odd_name_without_format() -> None:
    assert formats.format_of("ACL_FRACTAL_Z_3D") is formats.FRACTAL_Z_3D


def test_unset_reads_as_nd() -> None:
    assert formats.from_number(tensor_pb2.FORMAT_UNSPECIFIED) is formats.ND


@pytest.mark.parametrize("name", ["", "nd", "ACL_FORMAT_", "ND ", None, 2])
def test_unknown_names(name: object) -> None:
    with pytest.raises(ValueError, match="known are ND, NCHW, NHWC"):
        formats.format_of(name)


@pytest.mark.parametrize("number", [-1, 20, 2**31])
def test_unknown_numbers(number: int) -> None:
    assert formats.from_number(number) is None


def test_plain_formats_are_those_in_C_order() -> None:
    assert {row.name for row in formats.ALL if row.plain} == {
        *("ND", "NCHW", "NHWC", "HWCN", "NDHWC", "NCDHW", "NC", "NCL"),
    }


@pytest.mark.parametrize("row", formats.ALL, ids=str)
def test_copies_are_equal(row: Format) -> None:
    assert pickle.loads(pickle.dumps(row)) == row
    assert copy.deepcopy(row) == row
