"""Whatever opens the port of calls to others opens that of data connections too, under its own number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aclnn_server.access.data import port_of
from aclnn_server.config import load

CALLS, DATA = "50051", "50052"
OPENING = re.compile(r"EXPOSE |(docker|podman) run .*--publish|kubectl port-forward ")


def commands(path: Path) -> list[str]:
    """The lines of a file, each with those that continue it."""
    return path.read_text("utf-8").replace("\\\n", " ").splitlines()


def closed(command: str) -> list[str]:
    """What a command opens for calls, and not for data."""
    words = command.split()
    return [word for word in words if CALLS in word and word.replace(CALLS, DATA) not in words]


def test_no_command_opens_one_without_the_other(project: Path) -> None:
    pages = [project / "Dockerfile", project / "README.md", *project.glob("docs/**/*.md")]
    opening = [line for page in pages for line in commands(page) if OPENING.search(line)]
    assert len([line for line in opening if CALLS in line]) >= 5
    assert [line for line in opening if closed(line)] == []


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("EXPOSE 50051 9464", ["50051"]),
        (
            "docker run --publish 127.0.0.1:50051:50051 --publish 127.0.0.1:50052:9",
            ["127.0.0.1:50051:50051"],
        ),
        ("kubectl port-forward service/aclnn-serve 50051 50052", []),
    ],
)
def test_one_without_the_other_is_noticed(command: str, missing: list[str]) -> None:
    assert OPENING.search(command)
    assert closed(command) == missing


def test_the_image_and_the_service_take_them_there(project: Path) -> None:
    setting = re.compile(r"^#?\s*(ACLNN_SERVE_(?:LISTEN|DATA_PORT))=(\S+)", re.MULTILINE)
    for path in ("Dockerfile", "deploy/systemd/aclnn-serve.env"):
        config = load({}, dict(setting.findall((project / path).read_text("utf-8"))))
        assert (config.listen, port_of(config)) == (f"0.0.0.0:{CALLS}", int(DATA)), path
