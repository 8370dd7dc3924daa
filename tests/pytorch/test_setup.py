"""What `import aclnn_client.torch_npu` finds, sets and starts, and what it says where something is missing.

None of it needs torch; tests/torch_npu has what does.
"""

from __future__ import annotations

import os
import shutil
import sys
import types
from importlib import metadata
from pathlib import Path

import pytest

from aclnn_client import ServerUnavailable, connect
from aclnn_client.pytorch import SetupError, libraries, local_server, wheels
from aclnn_client.pytorch.variables import set_variables
from aclnn_server.server import Server


@pytest.fixture
def empty_library(tmp_path: Path) -> Path:
    """A folder with files of the right names."""
    folder = tmp_path / "lib"
    folder.mkdir()
    for name in libraries.NAMES:
        (folder / f"{name}.so").touch()
    return folder


class TestWheels:
    @staticmethod
    def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
        def version(package: str) -> str:
            name = package.replace("-", "_")
            if name not in versions:
                raise metadata.PackageNotFoundError(package)
            return versions[name]

        monkeypatch.setattr(metadata, "version", version)

    @pytest.mark.parametrize("versions", [("2.13.0+cpu", "2.13.0"), ("2.13.0", "2.13.0.post1")])
    def test_that_belong_together(
        self, monkeypatch: pytest.MonkeyPatch, versions: tuple[str, str]
    ) -> None:
        self.installed(monkeypatch, torch=versions[0], torch_npu=versions[1])
        wheels.check()

    def test_that_do_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.installed(monkeypatch, torch="2.12.1", torch_npu="2.13.0")
        with pytest.raises(SetupError) as caught:
            wheels.check()
        assert str(caught.value) == (
            "torch is 2.12.1 and torch-npu is 2.13.0: torch-npu loads into its own version of torch only; "
            "pip install 'aclnn-serve[torch]' brings 2.13.0 of both"
        )

    def test_of_another_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.installed(monkeypatch, torch="2.14.0", torch_npu="2.14.0")
        with pytest.warns(UserWarning, match=r"torch-npu is 2\.14\.0; aclnn-serve is tested with"):
            wheels.check()

    def test_that_are_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.installed(monkeypatch, torch="2.13.0")
        with pytest.raises(SetupError) as caught:
            wheels.check()
        assert str(caught.value) == (
            "torch-npu is not installed; pip install 'aclnn-serve[torch]' brings it"
        )

    def test_that_were_loaded_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        wheels.check_not_loaded()
        monkeypatch.setitem(sys.modules, "torch_npu", types.ModuleType("torch_npu"))
        with pytest.raises(SetupError, match=r"import aclnn_client\.torch_npu before torch"):
            wheels.check_not_loaded()


class TestLibraries:
    def test_of_a_named_folder(self, monkeypatch: pytest.MonkeyPatch, empty_library: Path) -> None:
        monkeypatch.setenv("ACLNN_LIBRARIES", str(empty_library))
        assert libraries.find() == empty_library

    def test_of_which_one_is_missing(
        self, monkeypatch: pytest.MonkeyPatch, empty_library: Path
    ) -> None:
        (empty_library / "libhccl.so").unlink()
        monkeypatch.setenv("ACLNN_LIBRARIES", str(empty_library))
        with pytest.raises(
            SetupError, match=f"ACLNN_LIBRARIES names {empty_library}, which has not"
        ):
            libraries.find()

    def test_that_are_not_built(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("ACLNN_LIBRARIES", raising=False)
        monkeypatch.setattr(libraries, "_INSTALLED", ())
        monkeypatch.setattr(libraries, "SOURCES", tmp_path)
        with pytest.raises(SetupError, match="is not built; aclnn-serve torch --build builds it"):
            libraries.find()
        monkeypatch.setattr(libraries, "SOURCES", tmp_path / "none")
        with pytest.raises(SetupError, match=r"is not installed: make -C client/cpp in a checkout"):
            libraries.find()
        with pytest.raises(SetupError, match="there are no sources at"):
            libraries.build()

    def test_that_are_no_libraries(self, empty_library: Path) -> None:
        with pytest.raises(SetupError, match=r"libascendcl\.so cannot be loaded: .*file too short"):
            libraries.load(empty_library)

    def test_without_a_compiler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = shutil.which
        monkeypatch.setattr(shutil, "which", lambda name: None if name == "g++" else found(name))
        with pytest.raises(SetupError, match=r"the C library needs .*g\+\+.*docs/clients/cpp\.md"):
            libraries.build()


class TestVariables:
    def test_that_are_set(self, tmp_path: Path) -> None:
        environment = {"LD_LIBRARY_PATH": "/before"}
        set_variables(environment, tmp_path)
        set_variables(environment, tmp_path)  # a second time changes nothing
        assert environment == {
            "LD_LIBRARY_PATH": f"{tmp_path}:/before",
            "ACLNN_LIBRARIES": str(tmp_path),
            "TASK_QUEUE_ENABLE": "0",
            "ACL_OP_INIT_MODE": "2",
        }

    def test_that_the_user_has_set(self, tmp_path: Path) -> None:
        environment = {"TASK_QUEUE_ENABLE": "1"}
        set_variables(environment, tmp_path)
        assert environment["TASK_QUEUE_ENABLE"] == "1"

    def test_of_an_installed_cann(self, tmp_path: Path) -> None:
        environment = {"ASCEND_HOME_PATH": "/usr/local/Ascend"}
        with pytest.raises(SetupError, match=r"ASCEND_HOME_PATH is set: .*; unset it"):
            set_variables(environment, tmp_path)
        assert environment == {"ASCEND_HOME_PATH": "/usr/local/Ascend"}


class TestServer:
    def test_that_is_named(self, server: Server, tmp_path: Path) -> None:
        local_server.check(server.address)
        for address, text in (
            ("localhost", "it must be HOST:PORT or unix:PATH"),
            (f"unix:{tmp_path}/none", "no server answers there: No such file or directory"),
        ):
            with pytest.raises(SetupError, match=text):
                local_server.check(address)

    def test_of_its_own(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """It listens where only this user may, has as many devices as asked for, and ends with its pipe."""
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        monkeypatch.setenv("ACLNN_LOCAL_DEVICES", "2")
        monkeypatch.setenv("ACLNN_SERVE_LISTEN", "nowhere")
        server = local_server.start()
        folder = tmp_path / f"aclnn-serve-{os.getuid()}"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert Path(server.address.removeprefix("unix:")).parent == folder
        local_server.check(server.address)
        with connect(server.address, device=1) as context:
            assert context.device == 1
        os.close(server.pipe)
        _, status = os.waitpid(server.process_id, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert list(folder.iterdir()) == []
        with pytest.raises(ServerUnavailable):
            connect(server.address)

    def test_of_its_own_that_does_not_start(
        self,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(SetupError) as caught:
            local_server.start()
        assert str(caught.value) == (
            "the local server did not start (exit code 1); pip install 'aclnn-serve[server]' brings what it "
            "needs, or ACLNN_SERVER names one that runs"
        )
        assert capfd.readouterr().err == ""

    def test_of_a_number_of_devices_that_cannot_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ACLNN_LOCAL_DEVICES", "none")
        with pytest.raises(SetupError, match="ACLNN_LOCAL_DEVICES is 'none'; it must be a number"):
            local_server.start()

    def test_in_a_folder_that_others_may_enter(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        (tmp_path / f"aclnn-serve-{os.getuid()}").mkdir(mode=0o755)
        with pytest.raises(SetupError, match="must be a folder that is this user's alone"):
            local_server.start()
