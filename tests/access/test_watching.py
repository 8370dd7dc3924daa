"""Files that are read again: when they have changed, whole, and never to the worse."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from aclnn_server.access.watching import Watch, read
from aclnn_server.config import ConfigError


class Text:
    """A source: the text of a file, which must not be "bad"."""

    def __init__(self, *paths: Path) -> None:
        self.paths: Sequence[Path] = paths
        self.loads: list[str] = []
        self.looks = 0

    def load(self) -> None:
        text = "".join(read(path, "text").decode() for path in self.paths)
        if text == "bad":
            raise ConfigError("the text is bad")
        if text == "worse":
            raise RuntimeError("nobody foresaw this")
        self.loads.append(text)

    def pass_time(self) -> None:
        self.looks += 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("one")
    return path


def test_a_file_that_does_not_change_is_read_once(path: Path) -> None:
    text = Text(path)
    watch = Watch([text])
    for _ in range(3):
        watch.look()
    assert (text.loads, text.looks) == (["one"], 3)


def test_a_change_is_taken_once_it_has_rested_for_a_look(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = Text(path)
    watch = Watch([text])
    with caplog.at_level(logging.INFO):
        for content in ("two, half writ", "two, half written"):
            path.write_text(content)
            watch.look()
        assert text.loads == ["one"]
        watch.look()
        watch.look()
    assert text.loads == ["one", "two, half written"]
    assert caplog.messages == [f"read again: {path}"]


def test_what_cannot_be_used_leaves_in_force_what_was(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = Text(path)
    watch = Watch([text])
    path.write_text("bad")
    for _ in range(4):
        watch.look()
    assert text.loads == ["one"]
    assert caplog.messages == ["the text is bad; what was in force before stays in force"]
    path.unlink()
    for _ in range(3):
        watch.look()
    assert caplog.messages[1:] == [
        f"text is {str(path)!r}, which cannot be read: No such file or directory; "
        "what was in force before stays in force"
    ]
    path.write_text("three")
    for _ in range(2):
        watch.look()
    assert text.loads == ["one", "three"]


def test_a_failure_that_nobody_foresaw_ends_no_later_look(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text, other = Text(path), Text(path)
    watch = Watch([text, other])
    path.write_text("worse")
    for _ in range(2):
        watch.look()
    assert caplog.messages == [f"looking at {path} failed"] * 2
    path.write_text("better")
    for _ in range(2):
        watch.look()
    assert text.loads == other.loads == ["one", "better"]


def test_a_link_that_leads_elsewhere_is_a_change(tmp_path: Path) -> None:
    """As Kubernetes changes the files of a secret: all at once, by one link."""
    for version in ("first", "second"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "file").write_text("same size")
        os.utime(tmp_path / version / "file", ns=(5, 5))
    (tmp_path / "data").symlink_to("first")
    text = Text(tmp_path / "data" / "file")
    watch = Watch([text])
    (tmp_path / "new").symlink_to("second")
    (tmp_path / "new").replace(tmp_path / "data")
    for _ in range(3):
        watch.look()
    assert text.loads == ["same size"] * 2


def test_any_of_a_source_s_files_is_a_change(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("1")
    text = Text(path, other)
    watch = Watch([text])
    other.write_text("22")
    for _ in range(3):
        watch.look()
    assert text.loads == ["one1", "one22"]


def test_what_cannot_be_read_at_first_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"text is .*cannot be read: No such file"):
        Watch([Text(tmp_path / "nothing")])
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        Watch([Text(tmp_path)])


def test_its_thread_looks_and_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aclnn_server.access.watching.LOOK_SECONDS", 0.001)
    text = Text(path)
    watch = Watch([text])
    watch.start()
    path.write_text("two")
    while text.loads != ["one", "two"]:
        time.sleep(0.001)
    watch.stop()
    looks = text.looks
    assert not watch._thread.is_alive()
    assert text.looks == looks
    Watch([]).start()
    Watch([]).stop()
