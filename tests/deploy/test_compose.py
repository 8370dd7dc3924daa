"""The Compose file: its settings are the server's, and its parts find each other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from aclnn_server.access.data import port_of
from aclnn_server.config import ServerConfig, load, unknown_variables

FOLDER = Path(__file__).parents[2] / "deploy"
MONITORING = FOLDER / "monitoring"


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "docker-compose.yml").read_text())[
        "services"
    ]
    assert list(found) == ["aclnn-serve", "prometheus", "grafana"]
    return found


@pytest.fixture(scope="module")
def config(services: dict[str, dict[str, Any]]) -> ServerConfig:
    """What the server makes of its environment, which the image begins."""
    image = re.findall(r"(ACLNN_SERVE_\w+)=(\S+)", (FOLDER.parent / "Dockerfile").read_text())
    own = {name: str(value) for name, value in services["aclnn-serve"]["environment"].items()}
    environment = dict(image) | own
    assert unknown_variables(environment) == []
    return load({}, environment)


def test_ports_are_this_machines_only(services: dict[str, dict[str, Any]]) -> None:
    published = [port for service in services.values() for port in service["ports"]]
    assert published == [f"127.0.0.1:{port}:{port}" for port in (50051, 50052, 9464, 9090, 3000)]


def test_the_server_listens_where_it_is_published(
    services: dict[str, dict[str, Any]], config: ServerConfig
) -> None:
    ports = [port.rpartition(":")[2] for port in services["aclnn-serve"]["ports"]]
    calls, data, metrics = ports
    assert [config.listen, config.metrics_listen] == [f"0.0.0.0:{calls}", f"0.0.0.0:{metrics}"]
    assert port_of(config) == int(data)
    assert config.allow_insecure is True


def test_the_grace_fits_into_composes_patience(
    services: dict[str, dict[str, Any]], config: ServerConfig
) -> None:
    assert services["aclnn-serve"]["stop_grace_period"] == f"{config.grace_seconds + 15:g}s"


def test_everything_is_confined(services: dict[str, dict[str, Any]]) -> None:
    for service in services.values():
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges"])
    assert [name for name, service in services.items() if not service.get("read_only")] == [
        "grafana"  # it unpacks its plug-ins
    ]


def test_what_is_mounted_exists(services: dict[str, dict[str, Any]]) -> None:
    mounts = [volume for service in services.values() for volume in service.get("volumes", ())]
    files = [mount.split(":") for mount in mounts if mount.startswith("./")]
    assert len(files) == 5
    for source, _, mode in files:
        assert (FOLDER / source).is_file()
        assert mode == "ro"


def test_prometheus_and_grafana_find_what_they_show(services: dict[str, dict[str, Any]]) -> None:
    def read(name: str) -> Any:  # noqa: ANN401 - YAML
        return yaml.safe_load((MONITORING / name).read_text())

    scraping = read("prometheus.yml")
    (job,) = scraping["scrape_configs"]
    assert (job["job_name"], job["static_configs"]) == (
        "aclnn-serve",
        [{"targets": ["aclnn-serve:9464"]}],
    )
    mounted = {
        inside
        for service in services.values()
        for _, _, inside in (volume.partition(":") for volume in service.get("volumes", ()))
    }
    assert {f"{path}:ro" for path in scraping["rule_files"]} <= mounted
    (source,) = read("grafana/datasource.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = read("grafana/dashboards.yml")["providers"]
    assert f"{provider['options']['path']}/aclnn-serve.json:ro" in mounted
    board = json.loads((MONITORING / "dashboard.json").read_text())
    chosen = board["templating"]["list"][0]
    assert (chosen["name"], chosen["current"]["value"]) == ("source", source["uid"])
