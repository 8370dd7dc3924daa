"""What the package is to its users: names, types, and what an import costs."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import aclnn_client
from aclnn import errors
from aclnn_client import Context, OperatorInfo, info, server_info
from aclnn_client.plans import known_signature
from aclnn_server.server import Server


def test_what_is_exported_is_listed_and_documented() -> None:
    public = {name for name in vars(aclnn_client) if not name.startswith("_")}
    modules = {name for name in public if inspect.ismodule(getattr(aclnn_client, name))}
    assert public - modules | {"__version__", "ops"} == {*aclnn_client.__all__, "annotations"}
    for name in {*aclnn_client.__all__} - {"__version__"}:
        assert inspect.getdoc(getattr(aclnn_client, name)), name


def test_every_error_is_exported() -> None:
    for error in errors.BY_REASON.values():
        assert getattr(aclnn_client, error.__name__) is error


def test_the_package_is_typed() -> None:
    assert (Path(str(aclnn_client.__file__)).parent / "py.typed").exists()


def test_an_import_does_not_load_grpc() -> None:
    program = "import sys, aclnn_client; sys.exit('grpc' in sys.modules)"
    path = ":".join(sys.path)
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": path}, check=False)
    assert done.returncode == 0


def test_what_the_server_is(server: Server, context: Context) -> None:
    told = server_info(server.address)
    assert told.backend == server.backend.name
    assert told.soc == "reference"
    assert told.protocol == (1, 1)
    assert told.default_lease_seconds == 60
    assert told.limits == info.Limits(**vars(server.config.limits))
    assert told.usage.contexts >= 1
    assert told.devices[0].index == 0
    assert told.devices[0].name
    assert told.epoch
    assert context.info().epoch == told.epoch
    assert context.limits == told.limits


def test_the_catalogue(context: Context) -> None:
    names = [operator.name for operator in context.operators()]
    assert names == sorted(names)
    assert "aclnnSmoothL1LossBackward" in names
    assert [row.name for row in context.operators("aclnnSmoothL1LossB")] == [
        "aclnnSmoothL1LossBackward"
    ]
    described = context.operator("aclnnSmoothL1LossBackward")
    assert isinstance(described, OperatorInfo)
    assert described.summary
    assert described.description
    assert described.backends in [("numpy",), ("ascend", "numpy")]
    grad = described.parameters[0]
    assert (grad.name, grad.c_type, grad.output) == ("gradOutput", "const aclTensor*", False)
    assert [str(dtype) for dtype in grad.dtypes] == ["FLOAT", "FLOAT16", "BF16"]
    assert described.signature() == known_signature("aclnnSmoothL1LossBackward")
