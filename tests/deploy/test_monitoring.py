"""Alerts and dashboard: they ask for what a live server tells, and a real Prometheus understands them."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from aclnn_client import Context, InvalidParameterError, connect
from aclnn_server.config import ServerConfig
from aclnn_server.metrics.catalogue import METRICS
from aclnn_server.server import Server
from tests.deploy.scraping import Prometheus
from tests.deploy.tools import complaints, tool

PACKAGE = "Debian's package prometheus"
# What a query asks for that a server without trouble does not have.
TROUBLE = ("aclnn_serve_execution_failures_total",)


@pytest.fixture(scope="module")
def monitoring() -> Path:
    return Path(__file__).parents[2] / "deploy/monitoring"


@pytest.fixture(scope="module")
def alerts(monitoring: Path) -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((monitoring / "alerts.yml").read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


@pytest.fixture(scope="module")
def dashboard(monitoring: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((monitoring / "dashboard.json").read_text())
    return found


@pytest.fixture(scope="module")
def queries(dashboard: dict[str, Any], alerts: list[dict[str, Any]]) -> list[str]:
    """Every expression, as Prometheus gets it."""
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(asked) > 25
    filled = {"$job": "aclnn-serve", "$instance": ".*", "$__rate_interval": "10s"}
    for name, value in filled.items():
        asked = [query.replace(name, value) for query in asked]
    return [*asked, *(rule["expr"] for rule in alerts)]


# --- what is asked for exists -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told() -> dict[str, set[str]]:
    """Metrics that the catalogue names, with their labels, as they stand in queries."""
    found = {"up": set[str](), "ALERTS": set[str]()}
    for metric in METRICS:
        suffixes = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        for suffix in suffixes:
            found[f"{metric.name}{suffix}"] = set(metric.labels)
    with Server(ServerConfig(listen="127.0.0.1:0", metrics_listen="127.0.0.1:0")) as server:
        page = urllib.request.urlopen(f"http://{server.metrics_address}/metrics").read().decode()
    families = text_string_to_metric_families(page)
    return (
        found
        | {row.name: set[str]() for row in families if row.name.startswith("process_")}
        | {"process_cpu_seconds_total": set()}
    )


def test_every_metric_and_label_exists(queries: list[str], told: dict[str, set[str]]) -> None:
    known = {"job", "instance", "le", *(label for labels in told.values() for label in labels)}
    for query in queries:
        metrics = re.findall(r"\b(?:aclnn_serve|process)_\w+|\bup\b", query)
        assert metrics, query
        assert set(metrics) <= told.keys(), query
        for metric, conditions in re.findall(r"(\w+)\{([^}]*)\}", query):
            asked = set(re.findall(r"(\w+)\s*[=!]", conditions))
            assert asked <= told[metric] | {"job", "instance"}, query
        for labels in re.findall(r"\b(?:by|on|ignoring) \(([^)]*)\)", query):
            assert {label.strip() for label in labels.split(",")} <= known, query


def test_the_dashboard_has_every_metric_that_people_watch(queries: list[str]) -> None:
    shown = set(re.findall(r"aclnn_serve_\w+", " ".join(queries)))
    constant = {"build_info", "device_info", "start_time_seconds"}
    left = {
        metric.name.removeprefix("aclnn_serve_")
        for metric in METRICS
        if not any(name.startswith(metric.name) for name in shown)
    }
    assert left - constant == {"streams", "executors", "buffers", "events", "memory_limit_bytes"}


def test_panels_lie_beside_each_other(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert taken.isdisjoint(cells), panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


def test_what_is_generated_is_current(monitoring: Path) -> None:
    assert complaints(sys.executable, str(monitoring / "generate.py"), "--check") == ""


def test_the_operators_rules_are_the_same(monitoring: Path, alerts: list[dict[str, Any]]) -> None:
    resource = yaml.safe_load((monitoring / "kubernetes/rules.yaml").read_text())
    assert resource["spec"]["groups"] == [{"name": "aclnn-serve", "rules": alerts}]


# --- a real Prometheus --------------------------------------------------------------------------------


def test_promtool_accepts_the_alerts_and_their_tests(monitoring: Path) -> None:
    promtool = tool("promtool", PACKAGE)
    assert complaints(promtool, "check", "rules", str(monitoring / "alerts.yml")) == ""
    assert complaints(promtool, "test", "rules", str(monitoring / "alerts_test.yml")) == ""
    configuration = str(monitoring / "prometheus.yml")
    assert complaints(promtool, "check", "config", "--syntax-only", configuration) == ""


def test_the_alerts_tests_name_every_alert(monitoring: Path, alerts: list[dict[str, Any]]) -> None:
    tested = set(re.findall(r'alertname="(\w+)"', (monitoring / "alerts_test.yml").read_text()))
    assert tested == {rule["alert"] for rule in alerts}


@pytest.fixture(scope="module")
def prometheus(monitoring: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has seen a server at work: before its first look, and between several."""
    binary = tool("prometheus", PACKAGE)
    folder = tmp_path_factory.mktemp("prometheus")
    config = ServerConfig(listen="127.0.0.1:0", metrics_listen="127.0.0.1:0")
    with Server(config) as server, connect(server.address) as context:
        use(context)
        assert server.metrics_address is not None
        scraper = Prometheus(binary, folder, server.metrics_address, monitoring / "alerts.yml")
        try:
            while len(scraper.values("aclnn_serve_executions_total[1m]")) == 0:
                time.sleep(0.1)
            use(context)
            connect(server.address).close()
            seen = "min(count_over_time(aclnn_serve_contexts_ended_total[1m]))"
            while not (found := scraper.values(seen)) or float(found[0]["value"][1]) < 3:
                time.sleep(0.1)
            yield scraper
        finally:
            scraper.close()


def use(context: Context) -> None:
    """Calls of several kinds, a failure among them."""
    x = np.ones((64, 64), np.float32)
    for _ in range(10):
        context.ops.smooth_l1_loss(x, x)
    context.ops.add(context.tensor(x), context.tensor(x)).numpy()
    with suppress(InvalidParameterError):
        context.ops.smooth_l1_loss(x.astype(np.float64), x)


def test_every_query_has_an_answer(prometheus: Prometheus, queries: list[str]) -> None:
    for query in queries:
        # An alert's condition, without the comparison that makes it one.
        asked = re.sub(r" (==|<|>) [\d.]+(?= or|$)", "", query)
        if not any(metric in asked for metric in TROUBLE):
            asked = re.sub(r'reason=~"(INTERNAL|LIMIT)[^"]*"', 'reason="INVALID_PARAMETER"', asked)
            asked = asked.replace('reason="lease"', 'reason="closed"')
            assert prometheus.values(asked), asked
        prometheus.values(query)  # understood as it stands, too


def test_no_alert_fires_for_a_server_that_is_well(prometheus: Prometheus) -> None:
    groups = prometheus.ask("rules")["groups"]
    (rules,) = (group["rules"] for group in groups)
    assert len(rules) >= 10
    assert {rule["health"] for rule in rules} == {"ok"}
    assert prometheus.ask("alerts")["alerts"] == []
