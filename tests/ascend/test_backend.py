"""Opening and closing, choosing devices, and the catalogue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aclnn.errors import AclnnError, ExecutionFailedError, OutOfMemoryError
from aclnn_server.backends.ascend import AscendBackend
from aclnn_server.backends.ascend import backend as module
from aclnn_server.backends.ascend.acl import Acl
from aclnn_server.backends.ascend.loader import open_cann
from aclnn_server.operators.catalogue import operators as catalogue
from aclnn_server.operators.products import (
    ASCEND310P,
    ASCEND910,
    ASCEND910_93,
    ASCEND910B,
    ASCEND950,
    REFERENCE,
    Product,
)
from tests.ascend.building import Control
from tests.ascend.calling import GRADIENT

Variables = dict[str, str]


class TestDevices:
    @pytest.mark.parametrize(
        ("text", "numbers"), [("0", [0]), ("1", [1]), ("1,0", [1, 0]), (" ALL ", [0, 1, 2])]
    )
    def test_are_chosen(self, text: str, numbers: list[int]) -> None:
        assert module.chosen(text, 3) == numbers

    @pytest.mark.parametrize("text", ["3", "0,0", "-1", "", "x", "0,,1"])
    def test_or_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="device is"):
            module.chosen(text, 3)

    def test_no_device_at_all(self) -> None:
        with pytest.raises(ValueError, match="CANN sees no device"):
            module.chosen("all", 0)

    def test_have_an_index_a_name_and_memory(self, double: Control, environment: Variables) -> None:
        backend = AscendBackend(device="1,0", environment=environment)
        names = [(device.index, device.name) for device in backend.devices]
        assert names == [(0, "Ascend910B2 (NPU 1)"), (1, "Ascend910B2 (NPU 0)")]
        free, total = backend.devices[0].memory_info()
        assert 0 < free < total == 2**30
        backend.close()

    def test_each_has_one_thread(self, backend: AscendBackend, double: Control) -> None:
        before = [double.threads(number) for number in (0, 1)]
        for device in backend.devices:
            for _ in range(3):
                device.destroy_stream(device.create_stream())
        assert [double.threads(number) for number in (0, 1)] == before

    @pytest.mark.parametrize("deterministic", [True, False])
    def test_determinism_is_acls_option(
        self, double: Control, environment: Variables, deterministic: bool
    ) -> None:
        backend = AscendBackend(environment=environment, deterministic=deterministic)
        assert double.deterministic(0) == deterministic
        backend.close()


class TestOpening:
    def test_leaves_nothing_when_closed(self, double: Control, environment: Variables) -> None:
        for _ in range(3):
            backend = AscendBackend(device="all", environment=environment)
            assert double.live("device") == 2
            backend.close()
            backend.close()
            assert double.left() == {}

    def test_acl_that_runs_already_is_left_running(
        self, double: Control, environment: Variables
    ) -> None:
        acl = Acl(open_cann(environment).find)
        acl.aclInit(None)
        backend = AscendBackend(environment=environment)
        backend.close()
        acl.aclFinalize()

    @pytest.mark.parametrize(
        ("name", "n"),
        [
            ("aclInit", 1),
            ("aclrtGetDeviceCount", 1),
            ("aclrtSetDevice", 1),
            ("aclrtSetDevice", 2),
            ("aclrtCtxSetSysParamOpt", 2),
            ("aclrtMalloc", 2),
        ],
    )
    def test_leaves_nothing_when_it_fails(
        self, double: Control, environment: Variables, name: str, n: int
    ) -> None:
        double.fail(name, n, 507033)
        with pytest.raises(ExecutionFailedError) as caught:
            AscendBackend(device="all", environment=environment)
        assert caught.value.code == 507033
        assert double.left() == {}

    @pytest.mark.parametrize("name", ["aclFinalize", "aclrtResetDevice", "aclrtFree"])
    def test_closing_goes_on_where_a_release_fails(
        self, double: Control, environment: Variables, name: str
    ) -> None:
        backend = AscendBackend(device="all", environment=environment)
        double.fail(name, 1, 507899)
        backend.close()
        assert double.left() == {}

    def test_unknown_settings(self, double: Control, environment: Variables) -> None:
        with pytest.raises(ValueError, match="device is '7'"):
            AscendBackend(device="7", environment=environment)
        with pytest.raises(ValueError, match="'toaster' is no product"):
            AscendBackend(soc="toaster", environment=environment)
        assert double.left() == {}

    def test_the_process_environment_is_completed_only_where_it_was_looked_at(
        self, double: Control, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("ASCEND_OPP_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_AICPU_PATH"):
            monkeypatch.setenv(name, "x")
            monkeypatch.delenv(name)
        AscendBackend(environment={"ASCEND_HOME_PATH": str(home)}).close()
        assert "ASCEND_OPP_PATH" not in os.environ
        monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
        AscendBackend().close()
        assert os.environ["ASCEND_OPP_PATH"] == str(home / "opp")


@pytest.mark.parametrize(
    ("soc", "product"),
    [
        ("Ascend910A", ASCEND910),
        ("Ascend910ProB", ASCEND910),
        ("Ascend910B2", ASCEND910B),
        ("Ascend910_9391", ASCEND910_93),
        ("Ascend950PR_9579", ASCEND950),
        ("Ascend310P3", ASCEND310P),
        ("Ascend42", REFERENCE),
    ],
)
def test_product_of_a_chip(soc: str, product: Product) -> None:
    assert module.product_of(soc) is product


class TestCatalogue:
    def test_tells_which_backends_can_run_an_operator(self, backend: AscendBackend) -> None:
        def told(name: str) -> tuple[bool, tuple[str, ...]]:
            info = backend.operators[name]
            return not info.refused_because, info.others

        assert told(GRADIENT) == (True, ("numpy",))
        assert told("aclnnCustomScale") == (True, ())
        assert told("aclnnNowhere") == (False, ())

    def test_has_the_whole_catalogue_whatever_is_installed(self, backend: AscendBackend) -> None:
        missing = {
            name
            for name, info in backend.operators.items()
            if "no function" in info.refused_because
        }
        assert backend.operators.keys() >= catalogue().keys()
        assert {"aclnnNowhere"} <= missing
        assert GRADIENT not in missing

    def test_describes_operators_that_have_no_kernel_here(self, backend: AscendBackend) -> None:
        info = backend.operators["aclnnCustomScale"]
        assert [p.name for p in info.signature.parameters] == ["x", "yOut", "scaleOptional"]
        assert [p.output for p in info.signature.parameters] == [False, True, False]
        assert info.summary
        assert info.dtypes is None

    def test_says_why_a_header_cannot_be_served(self, backend: AscendBackend) -> None:
        reason = backend.operators["aclnnFormatCast"].refused_because
        assert "format has the unknown type 'aclFormat'" in reason

    def test_types_are_those_of_the_chip(
        self, double: Control, environment: Variables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FAKE_CANN_SOC", "Ascend310P3")
        backend = AscendBackend(environment=environment)
        info = backend.operators[GRADIENT]
        assert info.dtypes is not None
        assert [dtype.name for dtype in info.dtypes["self"]] == ["FLOAT", "FLOAT16"]
        assert backend.product is ASCEND310P
        backend.close()

    def test_versions(self, backend: AscendBackend) -> None:
        assert backend.versions() == {"runtime": "9.9.0-fake", "opp": "9.9.1-fake"}


def test_out_of_memory_tells_what_there_is(device: Any) -> None:  # noqa: ANN401
    with pytest.raises(OutOfMemoryError) as caught:
        device.allocate(2**31)
    message = caught.value.message
    assert f"{2**31} bytes were asked for" in message
    assert f"of the device's {2**30} bytes are free" in message


def test_no_call_is_left_out_of_the_check(device: Any, double: Control) -> None:  # noqa: ANN401
    double.fail("aclrtGetMemInfo", 1, 507899)
    with pytest.raises(AclnnError, match="aclrtGetMemInfo failed"):
        device.memory_info()
