"""docs/deploy/bare-metal.md, done line by line where systemd is the first process: `make container`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aclnn_client import ServerUnavailable, connect
from tests.deploy.draining import drain
from tests.deploy.engine import PATIENCE, engine
from tests.deploy.pages import blocks

pytestmark = pytest.mark.timeout(600)

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs/deploy/bare-metal.md"
CERTIFICATES = os.environ.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt")
IMAGE = "localhost/aclnn-serve-systemd:test"
CLIENT = "/opt/aclnn-serve/bin/aclnn-serve"


class Debian:
    """A Debian with a clone in it, where the document's reader is."""

    def __init__(self, clone: Path) -> None:
        base = os.environ.get("CONTAINER_BASE", "")
        options = ("--build-arg", f"BASE={base}") if base else ()
        folder = PROJECT / "tests/deploy"
        build = ("--file", str(folder / "systemd.Dockerfile"), *options, "--tag", IMAGE)
        engine("build", *build, str(folder), patience=300)
        self.id = engine(
            *("run", "--detach", "--privileged", "--cgroupns", "private"),
            *("--tmpfs", "/run", "--tmpfs", "/tmp", "--publish", "127.0.0.1::50051"),
            *("--volume", f"{clone}:/source", "--workdir", "/source"),
            *("--volume", f"{CERTIFICATES}:/ca.pem:ro", "--env", "PIP_CERT=/ca.pem"),
            IMAGE,
        ).stdout.strip()

    def run(self, script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs lines of shell, as root, the first that fails being the last."""
        done = engine(
            "exec", self.id, "bash", "-euo", "pipefail", "-c", script, check=False, patience=300
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    def tell(self, command: str) -> str:
        """What a command says, whether it succeeds or not."""
        return self.run(command, check=False).stdout.strip()

    @property
    def address(self) -> str:
        """Where its port 50051 is reached from outside."""
        return engine("port", self.id, "50051").stdout.splitlines()[0]


@pytest.fixture(scope="module")
def commands() -> dict[str, list[str]]:
    return blocks(PAGE)


@pytest.fixture(scope="module")
def debian(
    commands: dict[str, list[str]],
    project_files: list[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Debian]:
    """One on which everything of the section "Install" has been done."""
    clone = tmp_path_factory.mktemp("clone")
    for path in project_files:
        copy = clone / path.relative_to(PROJECT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    machine = Debian(clone)
    try:
        until = time.monotonic() + PATIENCE
        while machine.tell("systemctl is-system-running") != "running":
            assert time.monotonic() < until, machine.tell("systemctl --failed")
        for block in commands["Install"]:
            machine.run(block)
        yield machine
    finally:
        engine("rm", "--force", machine.id)


def show(debian: Debian, *properties: str) -> dict[str, str]:
    wanted = ",".join(properties)
    lines = debian.tell(f"systemctl show aclnn-serve -p {wanted}").splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_the_service_is_ready_when_its_start_returns(debian: Debian) -> None:
    found = show(debian, "ActiveState", "StatusText", "Type", "NRestarts")
    assert re.fullmatch(r"aclnn-serve \S+ listening on 127.0.0.1:50051 \(.*\)", found["StatusText"])
    assert (found["ActiveState"], found["NRestarts"]) == ("active", "0")


def test_it_is_confined(debian: Debian) -> None:
    pid = show(debian, "MainPID")["MainPID"]
    status = debian.tell(f"cat /proc/{pid}/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert debian.tell(f"stat -c %U:%G /proc/{pid}") == "aclnn-serve:aclnn-serve"
    assert {fields[name] for name in ("CapEff", "CapBnd", "CapPrm")} == {"0" * 16}
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    inside = (
        f"nsenter -t {pid} -m -- setpriv --reuid aclnn-serve --regid aclnn-serve --clear-groups"
    )
    for path in ("/etc/x", "/opt/aclnn-serve/x", "/usr/x", "/srv/x", "/var/x"):
        assert debian.run(f"{inside} touch {path}", check=False).returncode != 0
    verified = debian.run("systemd-analyze verify /etc/systemd/system/aclnn-serve.service")
    assert (verified.stdout, verified.stderr) == ("", "")
    debian.run("systemd-analyze security --threshold=15 aclnn-serve")  # 1.5, of 10


def test_a_wrong_setting_is_told_and_not_tried_again(debian: Debian) -> None:
    debian.run("cp /etc/aclnn-serve/aclnn-serve.env /kept")
    debian.run("echo ACLNN_SERVE_LISTEN=0.0.0.0:50051 >> /etc/aclnn-serve/aclnn-serve.env")
    assert debian.run("systemctl restart aclnn-serve", check=False).returncode != 0
    found = show(debian, "ActiveState", "ExecMainStatus", "NRestarts")
    assert found == {"ActiveState": "failed", "ExecMainStatus": "2", "NRestarts": "0"}
    assert "--allow-insecure" in debian.tell("journalctl -u aclnn-serve -o cat")
    debian.run("cat /kept > /etc/aclnn-serve/aclnn-serve.env; systemctl reset-failed")
    debian.run("systemctl start aclnn-serve")


def test_stopping_it_lets_running_work_end(debian: Debian) -> None:
    settings = "/etc/aclnn-serve/aclnn-serve.env"
    debian.run(
        f"sed -i s/127.0.0.1:50051/0.0.0.0:50051/ {settings}; sed -i s/=30/=55/ {settings}"
        f"; echo ACLNN_SERVE_ALLOW_INSECURE=true >> {settings}; systemctl restart aclnn-serve"
    )
    drain(debian.address, lambda: debian.run("systemctl stop --no-block aclnn-serve"))
    until = time.monotonic() + PATIENCE
    while (found := show(debian, "ActiveState", "ExecMainStatus", "Result"))["ActiveState"] != (
        "inactive"
    ):
        assert time.monotonic() < until, found
    assert (found["Result"], found["ExecMainStatus"]) == ("success", "0")
    with pytest.raises(ServerUnavailable):
        connect(debian.address, timeout=5)
    debian.run(f"cat /kept > {settings}; systemctl start aclnn-serve")


def test_settings_tokens_upgrade_and_removal(
    debian: Debian, commands: dict[str, list[str]]
) -> None:
    for block in commands["Settings"]:
        debian.run(block)
    debian.run(
        "echo ACLNN_SERVE_TOKENS=/etc/aclnn-serve/tokens.toml >> /etc/aclnn-serve/aclnn-serve.env"
    )
    for block in commands["Upgrade, and back"]:
        debian.run("".join(line for line in block.splitlines(True) if not line.startswith("git ")))
    assert debian.run(f"{CLIENT} info 127.0.0.1:50051", check=False).returncode != 0
    debian.run(f"{CLIENT} info 127.0.0.1:50051 --token-file alice.token")
    debian.run(f"{CLIENT} health")
    for block in commands["Remove"]:
        debian.run(block)
    assert debian.tell("systemctl is-active aclnn-serve") == "inactive"
    left = "find / -xdev -name '*aclnn*' -not -path '/source/*' -not -path '/proc/*'"
    assert debian.tell(left) == ""
