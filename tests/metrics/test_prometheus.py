"""A real Prometheus scrapes a server, and answers from it what was done."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from aclnn.errors import InvalidParameterError
from aclnn_client import connect
from aclnn_server.config import ServerConfig
from aclnn_server.metrics.catalogue import METRICS, Kind
from aclnn_server.server import Server
from tests.access.conftest import TokenFile
from tests.metrics.asking import PATIENCE
from tests.metrics.programs import program

ONES = np.ones((4, 2), np.float32)
INTERVAL = "200ms"


class Prometheus:
    """A Prometheus that scrapes one server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def _ask(self, path: str, **parameters: str) -> Any:  # noqa: ANN401 - what JSON can be
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._url}/{path}?{query}", timeout=PATIENCE) as answer:
            told = json.load(answer)
        assert told["status"] == "success"
        return told["data"]

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The values of an expression, by their labels."""
        found = self._ask("query", query=expression)["result"]
        return {tuple(sorted(each["metric"].items())): float(each["value"][1]) for each in found}

    def value(self, expression: str) -> float | None:
        """The only value of an expression."""
        values = self.query(expression)
        assert len(values) <= 1, values
        return next(iter(values.values()), None)

    def names(self) -> set[str]:
        """Names of all series."""
        return set(self._ask("label/__name__/values"))

    def wait_for(self, expression: str, holds: Callable[[float | None], bool]) -> None:
        """Waits until the value of an expression holds."""
        until = time.monotonic() + PATIENCE
        while not holds(value := self._try(expression)):
            assert time.monotonic() < until, f"{expression} is still {value}"
            time.sleep(0.05)

    def _try(self, expression: str) -> float | None:
        try:
            return self.value(expression)
        except (urllib.error.URLError, ConnectionError):
            return None  # it is not up yet


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> TokenFile:
    """Alice, and an administrator as whom Prometheus comes."""
    tokens = TokenFile(tmp_path_factory.mktemp("tokens") / "tokens.toml")
    tokens.put("alice")
    tokens.put("prometheus", admin=True)
    return tokens


@pytest.fixture(scope="module")
def server(tokens: TokenFile) -> Iterator[Server]:
    """A server that asks for tokens."""
    config = ServerConfig(
        listen="127.0.0.1:0", metrics_listen="127.0.0.1:0", tokens=str(tokens.path)
    )
    with Server(config) as server:
        yield server


@pytest.fixture(scope="module")
def prometheus(
    server: Server, tokens: TokenFile, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A Prometheus of its own, which has scraped the server at least once."""
    command = program("prometheus", package="prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    settings = {
        "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL},
        "scrape_configs": [
            {
                "job_name": "aclnn-serve",
                "authorization": {"credentials": tokens.tokens["prometheus"]},
                "static_configs": [{"targets": [server.metrics_address]}],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(settings))  # JSON is YAML
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = subprocess.Popen(
        [
            command,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        prometheus = Prometheus(port)
        prometheus.wait_for('up{job="aclnn-serve"}', lambda value: value == 1)
        yield prometheus
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.fixture(scope="module")
def worked(server: Server, tokens: TokenFile, prometheus: Prometheus) -> Prometheus:
    """The same, once it knows of 30 additions and 2 refused calls of Alice's."""
    with connect(server.address, token=tokens.tokens["alice"]) as context:
        for _ in range(10):
            context.ops.add(ONES, ONES)
        ran = 'aclnn_serve_executions_total{operator="aclnnAdd"}'
        prometheus.wait_for(ran, lambda value: value == 10)
        for _ in range(20):
            context.ops.add(ONES, ONES)
        for _ in range(2):
            with pytest.raises(InvalidParameterError):
                context.ops.softmax(ONES, dim=7)
        prometheus.wait_for(ran, lambda value: value == 30)
        # Both in one scrape, since the refused calls came before its answer.
        prometheus.wait_for(
            'aclnn_serve_errors_total{method="GetWorkspaceSize"}', lambda value: value == 2
        )
    return prometheus


def test_every_metric_is_known_under_its_name(worked: Prometheus) -> None:
    names = worked.names()
    for metric in METRICS:
        if metric.name in ("aclnn_serve_execution_failures_total",):
            continue  # nothing has failed when it ran
        if metric.name == "aclnn_serve_contexts_ended_total":
            worked.wait_for("sum(aclnn_serve_contexts_ended_total)", lambda value: value == 1)
            continue
        ends = ("_bucket", "_sum", "_count") if metric.kind is Kind.HISTOGRAM else ("",)
        assert {metric.name + end for end in ends} <= names
    assert "process_resident_memory_bytes" in names


def test_values_are_of_the_token_that_did_it(worked: Prometheus) -> None:
    of_alice = '{owner="alice", device="0"}'
    assert worked.value(f"sum(aclnn_serve_executions_total{of_alice})") == 30
    assert worked.value(f"aclnn_serve_contexts_opened_total{of_alice}") == 1
    methods = worked.query(f"sum by (method) (aclnn_serve_calls_total{of_alice})")
    assert methods[(("method", "Execute"),)] == 32
    refused = worked.query('aclnn_serve_errors_total{method="GetWorkspaceSize"}')
    (labels,) = refused
    assert (
        dict(labels).items()
        >= {
            "operator": "aclnnSoftmax",
            "reason": "INVALID_PARAMETER",
            "code": "161002",
            "owner": "alice",
        }.items()
    )


def test_rates_and_quantiles_can_be_asked_for(worked: Prometheus) -> None:
    rate = worked.value('rate(aclnn_serve_executions_total{operator="aclnnAdd"}[1m])')
    assert rate is not None
    assert rate > 0
    half = worked.value(
        "histogram_quantile(0.5, rate(aclnn_serve_execution_part_seconds_bucket"
        '{operator="aclnnAdd", part="run"}[1m]))'
    )
    assert half is not None
    assert 1e-6 < half < 60
    mean = worked.value(
        'aclnn_serve_execution_seconds_sum{operator="aclnnAdd"} '
        '/ aclnn_serve_execution_seconds_count{operator="aclnnAdd"}'
    )
    assert mean is not None
    assert 1e-6 < mean < 60


def test_prometheus_s_own_tool_has_nothing_to_say_about_the_names(
    server: Server, worked: Prometheus, tokens: TokenFile
) -> None:
    promtool = program("promtool", package="prometheus")
    request = urllib.request.Request(
        f"http://{server.metrics_address}/metrics",
        headers={"Authorization": f"Bearer {tokens.tokens['prometheus']}"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        body = answer.read()
    done = subprocess.run(
        [promtool, "check", "metrics"], input=body, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
