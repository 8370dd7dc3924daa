"""An operator of an installed package is served, called and described like a built-in one."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from aclnn_client import Context, InvalidParameterError, aio, ops
from aclnn_server.backends import BackendUnusableError, open_backend
from aclnn_server.cli import main
from aclnn_server.operators import catalogue
from aclnn_server.operators.catalogue import PlugInError, built_in, operators
from aclnn_server.operators.definition import Family
from tests.plug_ins.packages import EXAMPLE, install

X = np.arange(6, dtype=np.float32).reshape(2, 3)
served: Any = ops
"""The module `ops`, of which no type checker knows what a server adds."""


def test_the_example_is_short() -> None:
    body = EXAMPLE.read_text("utf-8").partition("FAMILY = ")[2].strip().splitlines()
    assert len(body) < 30


# --- served -----------------------------------------------------------------------------------------


def test_the_catalogue_has_it(context: Context) -> None:
    info = context.operator("aclnnScale")
    assert info.summary.startswith("Multiplies every element by one factor.")
    assert [row.name for row in info.parameters] == ["x", "factor", "out"]
    assert len(context.operators()) == len(built_in()) + 1
    assert "aclnnScale" not in operators()


def test_in_one_line(context: Context) -> None:
    np.testing.assert_array_equal(context.ops.scale(X), X * 2)
    np.testing.assert_array_equal(context.ops.scale(X.astype(np.float16), factor=0.5), X / 2)
    np.testing.assert_array_equal(context.ops.scale(context.tensor(X), 3.0).numpy(), X * 3)


def test_in_one_line_large(context: Context) -> None:
    x = np.random.default_rng(0).random((1500, 1000), np.float32)
    np.testing.assert_array_equal(context.ops.scale(x, -1.0), -x)


def test_a_name_that_nobody_knows(context: Context) -> None:
    assert not hasattr(context.ops, "scales")
    with pytest.raises(AttributeError, match="'scales', neither here nor on the server"):
        context.ops.scales(X)


def test_by_its_names_in_c(context: Context) -> None:
    x, out = context.tensor(X), context.empty(X.shape, np.float32)
    size, executor = served.aclnnScaleGetWorkspaceSize(x, 4.0, out)
    assert size == 0
    served.aclnnScale(None, size, executor)
    np.testing.assert_array_equal(out.numpy(), X * 4)


def test_by_its_parameters_names(context: Context) -> None:
    x, out = context.tensor(X), context.empty(X.shape, np.float32)
    _, executor = served.aclnnScaleGetWorkspaceSize(x, out=out, factor=5.0)
    served.aclnnScale(None, 0, executor, context.default_stream)
    np.testing.assert_array_equal(out.numpy(), X * 5)
    with pytest.raises(
        InvalidParameterError, match="must be factor, out, and are out, by"
    ) as caught:
        served.aclnnScaleGetWorkspaceSize(x, out=out, by=5.0)
    assert caught.value.parameter == "by"


def test_its_checks_hold(context: Context) -> None:
    x, out = context.tensor(X), context.empty((3, 2), np.float32)
    with pytest.raises(InvalidParameterError, match=r"out has shape \[3, 2\]"):
        served.aclnnScaleGetWorkspaceSize(x, 4.0, out)


def test_only_names_that_begin_with_aclnn_are_operators() -> None:
    assert not hasattr(ops, "scale")
    assert not hasattr(ops, "aclnn")


@pytest.mark.asyncio
async def test_for_asyncio(address: str) -> None:
    async with await aio.connect(address) as context:
        np.testing.assert_array_equal(await context.ops.scale(X, factor=7.0), X * 7)
        with pytest.raises(AttributeError):
            await context.ops.scales(X)


# --- typed functions --------------------------------------------------------------------------------


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stubs_are_a_module_that_works(address: str, context: Context, tmp_path: Path) -> None:
    path = tmp_path / "served_ops.py"
    assert main(["stubs", address, "--output", str(path)]) == 0
    module = _imported(path)
    out = context.empty(X.shape, np.float32)
    _, executor = module.aclnnScaleGetWorkspaceSize(context.tensor(X), 2.5, out)
    module.aclnnScale(None, 0, executor)
    np.testing.assert_array_equal(out.numpy(), X * 2.5)
    np.testing.assert_array_equal(module.scale(context, X, factor=3.0), X * 3)


def test_stubs_are_typed(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    api = pytest.importorskip("mypy.api")
    assert main(["stubs", address, "aclnnScale", "aclnnSmoothL1Loss", "aclnnCat"]) == 0
    path = tmp_path / "served_ops.py"
    path.write_text(capsys.readouterr().out)
    text, errors, code = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(path)])
    assert code == 0, text + errors


# --- refused ----------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on this process's path, for packages that nobody else sees."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    operators.cache_clear()
    yield tmp_path
    operators.cache_clear()
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("FAMILY = 1", r"is a int; it must be a Family"),
        ("import no_such_module", "cannot be loaded: No module named 'no_such_module'"),
        (
            "from aclnn_server.operators.losses.losses import LOSSES as FAMILY",
            "which there is already",
        ),
    ],
)
def test_a_package_that_cannot_be_served(site: Path, text: str, problem: str) -> None:
    install(site, "broken_operators", text, "FAMILY")
    with pytest.raises(PlugInError, match=problem) as caught:
        operators()
    assert "'broken_operators' of broken_operators 1.0" in str(caught.value)
    with pytest.raises(BackendUnusableError, match=problem):
        open_backend("numpy")
    assert len(built_in()) > 100


def test_two_operators_of_one_name_are_a_mistake_of_ours() -> None:
    operator = built_in()["aclnnSmoothL1Loss"]
    with pytest.raises(ValueError, match="aclnnSmoothL1Loss is defined twice"):
        catalogue.by_name([operator, operator])
    assert catalogue.by_name(Family().operators) == {}
