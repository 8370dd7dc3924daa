"""The table of metrics keeps Prometheus's rules of naming, and its page is written from it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aclnn_server.metrics import generate
from aclnn_server.metrics.catalogue import LABELS, METRICS, Kind, Metric


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_rules(metric: Metric) -> None:
    assert re.fullmatch(r"aclnn_serve_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    if metric.kind is Kind.HISTOGRAM:
        assert metric.name.endswith("_seconds")
    assert metric.help.endswith(".")
    assert "|" not in metric.help


def test_names_are_unique() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS) >= 25


def test_labels_are_explained() -> None:
    used = {label for metric in METRICS for label in metric.labels}
    assert used - {"version", "protocol", "backend", "soc"} == set(LABELS)


def test_a_table_that_differs_is_noticed_and_written(
    tmp_path: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "metrics.md"
    whole = (project / "docs" / "metrics.md").read_text()
    page.write_text(whole.replace("aclnn_serve_contexts`", "aclnn_serve_context`"))
    assert page.read_text() != whole
    assert generate.main(["--check", "--page", str(page)]) == 1
    assert "is not what the catalogue says" in capsys.readouterr().out
    assert generate.main(["--page", str(page)]) == 0
    assert page.read_text() == whole
    assert generate.main(["--check", "--page", str(page)]) == 0


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="0 generated parts"):
        generate.renewed("# Metrics\n")
