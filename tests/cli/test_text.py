"""Tables, sizes, tensors as text, and the log's lines."""

from __future__ import annotations

import json
import logging

import ml_dtypes
import numpy as np
import pytest

from aclnn_server.cli import results, tables
from aclnn_server.cli.logs import JsonFormatter


def test_a_table_has_numbers_to_the_right() -> None:
    text = tables.table(("name", "count"), [("a", 5), ("long name", 100)])
    assert text.splitlines() == ["name       count", "a              5", "long name    100"]


def test_a_table_without_rows_is_its_headings() -> None:
    assert tables.table(("name", "count"), []) == "name  count"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (1020 * 1024, "1020 KiB"),
        (64 << 20, "64 MiB"),
        (16 << 30, "16 GiB"),
        (3 << 40, "3 TiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert tables.size(count) == text


def test_tensors_as_tables() -> None:
    assert results.show(np.array([[-1, 0.5], [10, 1]], np.float32)) == "   -1 0.5\n   10   1"
    assert results.show(np.array(0.1, np.float32)) == "  0.1"
    assert results.show(np.array([True, False])) == "   True False"
    assert results.show(np.zeros((0, 3))) == "  no elements"
    assert results.line(np.array([[1, 2.5]], ml_dtypes.bfloat16)) == "1 2.5"
    assert results.describe(np.ones((4, 2), ml_dtypes.bfloat16)) == "BF16 4x2"
    assert results.describe(np.array(1.0)) == "DOUBLE without dimensions"


def test_large_tensors_are_shortened() -> None:
    text = results.show(np.arange(100_000.0))
    assert "..." in text
    assert len(text) < 200


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("aclnn_server.x", logging.WARNING, "f.py", 1, message, args, None)
    vars(made).update(extra)
    return made


def test_a_log_line_is_json() -> None:
    line = JsonFormatter().format(record("has %d\n%s", 3, "läuft", context="c1"))
    assert "\n" not in line
    assert "läuft" in line
    told = json.loads(line)
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "warning",
        "logger": "aclnn_server.x",
        "message": "has 3\nläuft",
        "context": "c1",
    }


def test_a_log_line_has_the_exception() -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        failed = record("failed")
        failed.exc_info = (type(error), error, error.__traceback__)
    line = JsonFormatter().format(failed)
    assert "\n" not in line
    assert "ValueError: broken" in json.loads(line)["exception"]
