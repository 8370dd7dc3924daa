"""Finding CANN: the order of places, the rules for libraries, and the report of all that was tried."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from aclnn_server.backends import BackendUnusableError, open_backend
from aclnn_server.backends.ascend import loader
from aclnn_server.backends.ascend.loader import Attempt, CannNotFoundError, open_cann

Copy = Callable[[str], Path]


@pytest.fixture
def copy(home: Path, tmp_path: Path) -> Copy:
    """Makes another installation with the same libraries, by links."""

    def make(name: str) -> Path:
        root = tmp_path / name
        shutil.copytree(home, root, symlinks=True, copy_function=os.symlink)
        return root

    return make


@pytest.fixture(autouse=True)
def _no_default_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CANN that the machine has is none of these tests' business."""
    monkeypatch.setattr(loader, "DEFAULT_HOMES", ())


def test_first_variable_wins(copy: Copy) -> None:
    first, second = copy("first"), copy("second")
    variables = {"ASCEND_HOME_PATH": str(first), "ASCEND_TOOLKIT_HOME": str(second)}
    cann = open_cann(variables)
    assert (cann.home, cann.how) == (first, "ASCEND_HOME_PATH")


def test_a_home_that_is_not_there_is_passed_over_and_reported(copy: Copy, tmp_path: Path) -> None:
    gone, there = tmp_path / "gone", copy("there")
    cann = open_cann({"ASCEND_HOME_PATH": str(gone), "ASCEND_TOOLKIT_HOME": str(there)})
    assert cann.home == there
    assert cann.attempts[0] == Attempt("ASCEND_HOME_PATH", str(gone), "there is no such folder")


def test_default_folder_is_the_last_resort_but_one(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = copy("default")
    monkeypatch.setattr(loader, "DEFAULT_HOMES", ("/nowhere/cann", str(there)))
    cann = open_cann({})
    assert (cann.home, cann.how) == (there, "default folder")


def test_newer_name_of_the_runtime(copy: Copy) -> None:
    root = copy("newer")
    (root / "lib64/libascendcl.so").rename(root / "lib64/libacl_rt.so")
    cann = open_cann({"ASCEND_HOME_PATH": str(root)})
    assert cann.runtime._name.endswith("lib64/libacl_rt.so")


def test_split_libraries_are_opened_in_order_and_never_with_the_whole_one(copy: Copy) -> None:
    root = copy("both")
    shutil.copy(root / "lib64/libopapi_nn.so", root / "lib64/libopapi.so")
    shutil.copy(root / "lib64/libopapi_nn.so", root / "lib64/libopapi_zoo.so")
    cann = open_cann({"ASCEND_HOME_PATH": str(root)})
    own = [Path(library._name).name for library in cann.operators]
    assert own == ["libcust_opapi.so", "libopapi_math.so", "libopapi_nn.so", "libopapi_zoo.so"]
    assert not any(attempt.where.endswith("libopapi.so") for attempt in cann.attempts)


@pytest.mark.parametrize("name", ["libopapi.so", "libaclnn_ops_train.so"])
def test_older_libraries_of_operators(copy: Copy, name: str) -> None:
    root = copy("older")
    (root / "lib64/libopapi_nn.so").rename(root / "lib64" / name)
    (root / "lib64/libopapi_math.so").unlink()
    cann = open_cann({"ASCEND_HOME_PATH": str(root)})
    assert Path(cann.operators[-1]._name).name == name
    assert cann.lacks("aclnnRelu") == ""


def test_without_operators_the_search_goes_on(copy: Copy) -> None:
    bare, whole = copy("bare"), copy("whole")
    for path in (bare / "lib64").glob("libopapi_*"):
        path.unlink()
    shutil.rmtree(bare / "opp")
    cann = open_cann({"ASCEND_HOME_PATH": str(bare), "ASCEND_TOOLKIT_HOME": str(whole)})
    assert cann.home == whole


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Names of a runtime that the system's loader does not know: it knows what this process has opened."""
    names = ("libabsentcl.so", "libabsent_rt.so")
    monkeypatch.setattr(loader, "RUNTIME_LIBRARIES", names)
    return names


def test_nothing_found_tells_everything_that_was_tried(
    tmp_path: Path, absent: tuple[str, str]
) -> None:
    (tmp_path / "lib64").mkdir()
    broken = tmp_path / "lib64" / absent[0]
    broken.write_text("no library")
    with pytest.raises(CannNotFoundError) as caught:
        open_cann({"ASCEND_HOME_PATH": str(tmp_path)})
    text = str(caught.value)
    assert "set ASCEND_HOME_PATH to where it is" in text
    assert f"{broken}: it does not open: " in text
    assert f"{absent[1]}: there is no such file" in text
    assert [a.where for a in caught.value.attempts][-2:] == list(absent)


@pytest.mark.usefixtures("absent")
def test_nothing_found_is_an_unusable_backend(tmp_path: Path) -> None:
    with pytest.raises(BackendUnusableError, match="no usable CANN was found"):
        open_backend("ascend", environment={"ASCEND_HOME_PATH": str(tmp_path)})


# --- custom operators -----------------------------------------------------------------------------


def test_custom_operators_are_looked_up_first(copy: Copy) -> None:
    root, extra = copy("root"), copy("extra")
    variables = {
        "ASCEND_HOME_PATH": str(root),
        "ASCEND_CUSTOM_OPP_PATH": f"{extra / 'opp/vendors/customize'}:{root / 'absent'}",
    }
    cann = open_cann(variables)
    custom = [library._name for library in cann.operators][:2]
    assert custom == [
        str(extra / "opp/vendors/customize/op_api/lib/libcust_opapi.so"),
        str(root / "opp/vendors/customize/op_api/lib/libcust_opapi.so"),
    ]
    assert cann.headers[0] == extra / "opp/vendors/customize/op_api/include"
    assert any("absent" in a.where and a.result for a in cann.attempts)


def test_the_packages_folder_can_be_named(copy: Copy) -> None:
    root, other = copy("root"), copy("other")
    shutil.rmtree(root / "opp")
    variables = {"ASCEND_HOME_PATH": str(root), "ASCEND_OPP_PATH": str(other / "opp")}
    assert [p.root for p in loader.packages(root, variables)] == [other / "opp/vendors/customize"]


def test_vendors_come_in_their_order_of_priority(tmp_path: Path) -> None:
    vendors = tmp_path / "opp/vendors"
    for name in ("one", "two"):
        library = vendors / name / loader.CUSTOM_LIBRARY
        library.parent.mkdir(parents=True)
        library.write_bytes(b"")
    (vendors / "config.ini").write_text("# a comment\nload_priority = two, one ,\n")
    assert [p.root.name for p in loader.packages(tmp_path, {})] == ["two", "one"]


def test_a_library_of_somebody_else_is_refused(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy("root")
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    library = root / "opp/vendors/customize" / loader.CUSTOM_LIBRARY
    library.unlink()
    library.write_bytes(b"")
    os.chown(library, 4343, -1)
    attempts: list[Attempt] = []
    assert list(loader.packages(root, {}, attempts)) == []
    assert "it belongs to user 4343" in attempts[0].result


# --- what CANN's own libraries ask for ------------------------------------------------------------


def test_environment_is_completed_and_what_is_set_stays(copy: Copy) -> None:
    root = copy("root")
    cann = open_cann({"ASCEND_HOME_PATH": str(root)})
    variables = {"ASCEND_TOOLKIT_HOME": "/set/before"}
    loader.set_environment(cann, variables)
    assert variables == {
        "ASCEND_HOME_PATH": str(root),
        "ASCEND_TOOLKIT_HOME": "/set/before",
        "ASCEND_OPP_PATH": str(root / "opp"),
        "ASCEND_AICPU_PATH": str(root),
    }


def test_functions_that_are_missing(copy: Copy) -> None:
    cann = open_cann({"ASCEND_HOME_PATH": str(copy("root"))})
    assert cann.lacks("aclnnAdd") == ""
    assert cann.lacks("aclnnNowhere") == (
        "the installed CANN has no function aclnnNowhereGetWorkspaceSize"
    )
    with pytest.raises(AttributeError):
        cann.find("aclNoSuchFunction")
