"""``aclnn-serve doctor``: what it finds, what it misses, and its exit code."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from aclnn_server.backends.ascend import diagnosis, loader, probe
from aclnn_server.backends.ascend.diagnosis import Diagnosis, diagnose
from aclnn_server.backends.ascend.probe import Probe
from aclnn_server.cli import main
from aclnn_server.cli.doctor import report
from tests.ascend.building import VERSION

Ask = Callable[[Mapping[str, str]], Probe]
GOOD = Probe(soc="Ascend910B2", devices=[("Ascend910B2 (NPU 0)", 2**33, 2**35)], operators=806)


def answering(answer: Probe) -> Ask:
    return lambda _: answer


def nobody(_: Mapping[str, str]) -> Probe:
    raise AssertionError("there is nothing to open")


@pytest.fixture(autouse=True)
def _only_what_the_test_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "DEFAULT_HOMES", ("/nowhere/cann",))
    monkeypatch.setattr(diagnosis, "_system_has_cann", lambda: False)
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A file system with a driver and two NPUs."""
    driver = tmp_path / "usr/local/Ascend/driver"
    driver.mkdir(parents=True)
    (driver / "version.info").write_text("Version=25.2.0\nascendhal_version=7.35.23\n")
    (tmp_path / "dev").mkdir()
    for name in ("davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc", "null"):
        (tmp_path / "dev" / name).touch()
    return tmp_path


def problems(found: Diagnosis) -> list[str]:
    return [problem.what for problem in found.problems]


def test_a_machine_without_cann(tmp_path: Path) -> None:
    found = diagnose({}, tmp_path, nobody)
    assert not found.can_serve
    assert problems(found) == ["no NPU: there is no /dev/davinci0", "no CANN"]
    text = report(found)
    assert "/nowhere/cann: there is no such folder" in text
    assert "Nothing is wrong with that" in text
    assert "aclnn-serve serve computes the same operators on this machine's CPU" in text


def test_everything_is_there(home: Path, machine: Path) -> None:
    variables = {"ASCEND_HOME_PATH": str(home), "LD_LIBRARY_PATH": f"/x:{home / 'lib64'}"}
    found = diagnose(variables, machine, answering(GOOD))
    assert found.can_serve
    assert found.problems == []
    assert found.versions == {"toolkit": VERSION}
    assert found.driver == "25.2.0"
    assert found.nodes == ["davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc"]
    text = report(found)
    assert len(text.splitlines()) < 24, "one screen"
    for part in (
        f"CANN              {home} (ASCEND_HOME_PATH)",
        f"versions          toolkit {VERSION}",
        "headers           18 with 18 operators",
        "device 0          Ascend910B2 (NPU 0), 8 GiB free of 32 GiB",
        "operators         806 can be run",
        "The ascend backend can serve: aclnn-serve serve --backend ascend --device all",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("gone", "missing"),
    [
        ("dev/davinci[01]", "no NPU: there is no /dev/davinci0"),
        ("dev/hisi_hdc", "no /dev/hisi_hdc"),
        ("usr/local/Ascend/driver/version.info", "no driver: there is no"),
    ],
)
def test_what_the_machine_lacks(home: Path, machine: Path, gone: str, missing: str) -> None:
    for path in machine.glob(gone):
        path.unlink()
    failed = answering(Probe(error="aclInit failed: 507008"))
    found = diagnose({"ASCEND_HOME_PATH": str(home)}, machine, failed)
    assert any(what.startswith(missing) for what in problems(found))
    assert "the ascend backend does not work" in problems(found)
    assert "The ascend backend cannot serve yet." in report(found)


def test_what_cann_lacks(home: Path, machine: Path, tmp_path: Path) -> None:
    root = tmp_path / "bare"
    shutil.copytree(home / "lib64", root / "lib64", copy_function=os.symlink)
    found = diagnose({"ASCEND_HOME_PATH": str(root)}, machine, answering(GOOD))
    assert problems(found) == [
        "no headers of operators: there is no include/aclnnop",
        f"no operator packages: there is no {root / 'opp'}",
        "LD_LIBRARY_PATH does not name CANN's libraries, which some of them need to find others",
    ]
    assert f"source {root / 'set_env.sh'} before starting" in report(found)


def test_refused_operators_are_named(home: Path, machine: Path) -> None:
    refused = {f"aclnnX{number}": "a reason" for number in range(8)}
    answer = Probe(soc="x", operators=3, refused=refused)
    text = report(diagnose({"ASCEND_HOME_PATH": str(home)}, machine, answering(answer)))
    assert "3 can be run, 8 cannot:" in text
    assert "aclnnX0: a reason" in text
    assert "and 3 more" in text


def test_everything_that_was_tried(tmp_path: Path) -> None:
    folder = tmp_path / "customize"
    variables = {"ASCEND_HOME_PATH": str(tmp_path), "ASCEND_CUSTOM_OPP_PATH": str(folder)}
    found = diagnose(variables, tmp_path, answering(Probe(error="no")))
    assert "libcust_opapi.so: there is no such file" in report(found, everything=True)
    assert "Tried" not in report(found)


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("x-linux/ascend_toolkit_install.info", "package_name=x\nversion=8.5.0\n", "8.5.0"),
        ("version.cfg", "# version: 1.0\nruntime_running_version=[7.6.0.1:8.0.RC3]\n", "7.6.0.1"),
    ],
)
def test_versions(tmp_path: Path, name: str, text: str, version: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    found = diagnose({"ASCEND_HOME_PATH": str(tmp_path)}, tmp_path, answering(GOOD))
    assert found.versions == {"toolkit": version}


class TestProbe:
    def test_opens_and_runs_an_operator(self, home: Path) -> None:
        told = probe.probe({**os.environ, "ASCEND_HOME_PATH": str(home)})
        assert told.error == ""
        assert told.soc == "Ascend910B2"
        assert [name for name, _, _ in told.devices] == [
            "Ascend910B2 (NPU 0)",
            "Ascend910B2 (NPU 1)",
        ]
        assert told.operators >= 17
        assert "aclnnFormatCast" in told.refused
        assert told.versions["runtime"] == "9.9.0-fake"

    @pytest.mark.parametrize(
        ("variables", "says"),
        [
            ({"FAKE_CANN_DEVICES": "0"}, "CANN sees no device"),
            ({"FAKE_CANN_MEMORY": "1000"}, "no room for 2097152 bytes"),
            ({"ASCEND_HOME_PATH": "/nowhere"}, "no usable CANN was found"),
        ],
    )
    def test_tells_why_not(self, home: Path, variables: dict[str, str], says: str) -> None:
        told = probe.probe({**os.environ, "ASCEND_HOME_PATH": str(home), **variables})
        assert says in told.error

    def test_survives_a_crash_of_the_libraries(self, home: Path) -> None:
        crash = {"ASCEND_HOME_PATH": str(home), "FAKE_CANN_CRASH": "yes"}
        told = probe.probe({**os.environ, **crash})
        assert "CANN's own code ended the process with SIGABRT" in told.error

    def test_tells_how_else_it_ended(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(probe, "TIMEOUT_SECONDS", 1e-3)
        told = probe.probe({**os.environ, "ASCEND_HOME_PATH": str(home)})
        assert told.error == "CANN did not answer within 0.001 seconds"
        monkeypatch.setattr(probe, "TIMEOUT_SECONDS", 60)
        monkeypatch.setattr(sys, "executable", "/bin/false")
        assert probe.probe({}).error == "the attempt ended with code 1: it said nothing"


def test_exit_codes(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor"]) == 1
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    assert f"toolkit {VERSION}" in told
