"""The image, built and run for real: `make container`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import numpy as np
import pytest

from aclnn import __version__
from aclnn_client import OutOfMemoryError, ServerUnavailable, connect
from aclnn_server.cli.exits import Exit
from tests.deploy.draining import drain
from tests.deploy.engine import IMAGE, PATIENCE, Served, engine, run

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--allow-insecure") as container:
        await_health(container)
        yield container


def await_health(container: Served) -> None:
    """Waits until the image's own health check says that it serves."""
    until = time.monotonic() + PATIENCE
    while container.execute("aclnn-serve", "health").returncode != 0:
        assert time.monotonic() < until, container.log()


def test_a_client_outside_is_answered(served: Served) -> None:
    x = np.linspace(-3, 3, 8, dtype=np.float32)
    with connect(served.address) as context:
        got = context.ops.smooth_l1_loss_backward(np.ones_like(x), x, np.zeros_like(x), "none")
        np.testing.assert_allclose(got, np.clip(x, -1, 1), rtol=1e-6)
        tensor = context.tensor(np.arange(1 << 20))
        np.testing.assert_array_equal(tensor.numpy(), np.arange(1 << 20))


def test_it_runs_as_nobody_on_a_file_system_that_it_cannot_write_to(served: Served) -> None:
    (state,) = (served.execute("cat", "/proc/1/status").stdout,)
    fields = dict(line.split(":\t", 1) for line in state.splitlines() if ":\t" in line)
    assert fields["Name"] == "aclnn-serve"
    assert fields["Uid"].split() == fields["Gid"].split() == ["10001"] * 4
    assert {fields[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}
    assert fields["NoNewPrivs"] == "1"
    for path in ("/etc/x", "/opt/aclnn-serve/x", "/x"):
        refused = served.execute("touch", path)
        assert "Read-only file system" in refused.stderr


def test_nothing_is_in_it_that_only_installs(served: Served) -> None:
    for command in ("pip", "gcc", "git"):
        assert served.execute("sh", "-c", f"command -v {command}").returncode != 0
    packages = "/opt/aclnn-serve/lib/python3*/site-packages"
    listed = served.execute("sh", "-c", f"ls -d {packages}/*").stdout
    assert "/aclnn_server\n" in listed
    assert "/pip" not in listed


def test_what_is_known_of_it() -> None:
    image = json.loads(engine("image", "inspect", IMAGE).stdout)[0]
    labels = image["Config"]["Labels"]
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert len(labels["org.opencontainers.image.revision"]) >= 7
    assert image["Config"]["User"] == "10001:10001"
    check = image.get("Healthcheck") or image["Config"]["Healthcheck"]
    assert check["Test"] == ["CMD", "aclnn-serve", "health"]


def test_it_serves_nobody_openly_unless_it_is_told_to() -> None:
    refused = run()
    assert (refused.returncode, refused.stdout) == (Exit.USAGE, "")
    assert "allow it with --allow-insecure" in refused.stderr


def test_settings_come_from_the_environment() -> None:
    told = run(options=("--env", "ACLNN_SERVE_LISTEN=127.0.0.1:99999"))
    assert told.returncode == Exit.USAGE
    assert "'127.0.0.1:99999'" in told.stderr
    assert run("version").stdout.startswith(f"aclnn-serve {__version__}, ")


def test_the_demo_runs_in_it() -> None:
    shown = run("demo")
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, "both as documented")


def test_memory_is_refused_that_the_container_may_not_have() -> None:
    with Served("--allow-insecure", options=("--memory", "512m")) as container:
        await_health(container)
        with connect(container.address) as context:
            context.malloc(1 << 28)
            with pytest.raises(OutOfMemoryError, match="of the device's 536870912 bytes are free"):
                context.empty((1 << 28,), "float32").numpy()
        assert container.inspect()["State"]["Running"] is True


def test_stopping_it_lets_running_work_end() -> None:
    with Served("--allow-insecure", "--grace-seconds", "50") as container:
        await_health(container)
        started: list[float] = []

        def ask_to_stop() -> None:
            started.append(time.monotonic())
            # What `docker stop` sends first; it would wait here until the container is gone.
            engine("kill", "--signal", "SIGTERM", container.id)

        drain(container.address, ask_to_stop)
        code = int(engine("wait", container.id).stdout)
        assert (code, time.monotonic() - started[0] < 50) == (Exit.DONE, True)
        told = [line["message"] for line in container.log()]
        assert told[-2:] == ["SIGTERM: stopping within 50 seconds", "stopped"]
        with pytest.raises(ServerUnavailable):
            connect(container.address, timeout=5)
