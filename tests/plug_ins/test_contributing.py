"""What CONTRIBUTING shows of an operator is the example that the tests run."""

from __future__ import annotations

from pathlib import Path

from tests.plug_ins.packages import EXAMPLE


def test_contributing_shows_the_example_itself(project: Path) -> None:
    text = (project / "CONTRIBUTING.md").read_text("utf-8")
    shown = text.partition("```python\n")[2].partition("```")[0]
    _, marker, body = EXAMPLE.read_text("utf-8").partition("FAMILY = ")
    assert shown == marker + body


def test_contributing_shows_the_examples_entry_point(project: Path) -> None:
    text = (project / "CONTRIBUTING.md").read_text("utf-8")
    shown = text.partition("```toml\n")[2].partition("```")[0]
    assert shown in EXAMPLE.with_name("pyproject.toml").read_text("utf-8")
