"""The manifests: rendered by kubectl's kustomize, checked against Kubernetes' schemas and a real server."""

from __future__ import annotations

import os
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import yaml

from aclnn_client import Tls, connect, data_connection
from aclnn_server.access.token_file import make_token, write_entry
from aclnn_server.config import ServerConfig, load, unknown_variables
from aclnn_server.server import Server
from tests.access.pki import Authority
from tests.deploy.draining import NOT_SERVING, SERVING, health
from tests.deploy.tools import tool

GROUP = "the dependency group `deploy`"
OVERLAYS = ("trial", "cpu", "ascend")
# The first that has probes by gRPC for good, and later ones.
VERSIONS = ("1.27", "1.32", "1.37")
NAME = {"app.kubernetes.io/name": "aclnn-serve"}
SECRETS = "/run/secrets/aclnn-serve/"

Resource = dict[str, Any]
Manifest = dict[tuple[str, str], Resource]


@pytest.fixture(scope="module", params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def manifest(overlay: str) -> Manifest:
    """The overlay's resources, by kind and name."""
    folder = Path(__file__).parents[2] / "deploy/kubernetes/overlays" / overlay
    kubectl = tool("kubectl", GROUP)
    done = subprocess.run((kubectl, "kustomize", str(folder)), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    resources = list(yaml.safe_load_all(done.stdout))
    found = {(each["kind"], each["metadata"]["name"]): each for each in resources}
    assert len(found) == len(resources)
    return found


@pytest.fixture(scope="module")
def pod(manifest: Manifest) -> Resource:
    template: Resource = manifest["StatefulSet", "aclnn-serve"]["spec"]["template"]
    return template


@pytest.fixture(scope="module")
def container(pod: Resource) -> Resource:
    (found,) = pod["spec"]["containers"]
    return dict(found)


@pytest.fixture(scope="module")
def settings(manifest: Manifest, container: Resource) -> dict[str, str]:
    """What the container has in its environment."""
    (source,) = container["envFrom"]
    data: dict[str, str] = manifest["ConfigMap", source["configMapRef"]["name"]]["data"]
    return data


# --- by themselves ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_have_nothing_to_say(manifest: Manifest, version: str) -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason=f"{GROUP} is not installed")
    of_operator = []
    for resource in manifest.values():
        try:
            schemas.validate(resource, version, strict=True)
        except schemas.SchemaNotFoundError:
            of_operator.append(resource["apiVersion"])
    assert set(of_operator) <= {"monitoring.coreos.com/v1"}


def test_a_wrong_field_would_be_found() -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason=f"{GROUP} is not installed")
    wrong = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "x"},
        "spec": {"prots": []},
    }
    with pytest.raises(schemas.ValidationError):
        schemas.validate(wrong, VERSIONS[-1], strict=True)


def test_everything_selects_the_servers_pods(manifest: Manifest, pod: Resource) -> None:
    assert pod["metadata"]["labels"] == NAME
    for kind, name, *path in (
        ("StatefulSet", "aclnn-serve", "selector", "matchLabels"),
        ("PodDisruptionBudget", "aclnn-serve", "selector", "matchLabels"),
        ("NetworkPolicy", "aclnn-serve", "podSelector", "matchLabels"),
        ("Service", "aclnn-serve", "selector"),
        ("Service", "aclnn-serve-pods", "selector"),
    ):
        found = manifest[kind, name]["spec"]
        for step in path:
            found = found[step]
        assert found == NAME, (kind, name)
    assert manifest["StatefulSet", "aclnn-serve"]["spec"]["serviceName"] == "aclnn-serve-pods"


def test_ports_lead_to_where_the_server_listens(
    manifest: Manifest, container: Resource, settings: dict[str, str]
) -> None:
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert settings["ACLNN_SERVE_LISTEN"] == f"0.0.0.0:{ports['grpc']}"
    assert settings["ACLNN_SERVE_METRICS_LISTEN"] == f"0.0.0.0:{ports['metrics']}"
    assert settings["ACLNN_SERVE_DATA_PORT"] == str(ports["data"])
    for (kind, _), resource in manifest.items():
        if kind == "Service":
            for port in resource["spec"]["ports"]:
                assert (port["targetPort"], port["port"]) == (port["name"], ports[port["name"]])
            assert [port["name"] for port in resource["spec"]["ports"]][:2] == ["grpc", "data"]
        if kind == "NetworkPolicy":
            let_in = [
                [port["port"] for port in rule["ports"]] for rule in resource["spec"]["ingress"]
            ]
            assert let_in == [["grpc", "data"], ["metrics"]]
            assert resource["spec"]["egress"] == []


def test_it_is_confined(pod: Resource, container: Resource) -> None:
    """Kubernetes' policy "restricted", and no more that can be written to than /tmp."""
    context = pod["spec"]["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 10001)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    writable = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
    assert writable == ["/tmp"]
    limits = container["resources"]["limits"]
    assert {"cpu", "memory"} <= limits.keys()
    assert container["resources"]["requests"] == limits  # nobody else's when it matters


def test_kubernetes_waits_longer_than_the_grace(pod: Resource, settings: dict[str, str]) -> None:
    config = load({}, settings)
    assert pod["spec"]["terminationGracePeriodSeconds"] >= config.grace_seconds + 10


def test_secrets_are_where_the_settings_say(
    overlay: str, pod: Resource, container: Resource, settings: dict[str, str]
) -> None:
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    secrets = {v["name"]: v["secret"] for v in pod["spec"]["volumes"] if "secret" in v}
    named = {key: value for key, value in settings.items() if value.startswith(SECRETS)}
    if overlay == "trial":
        assert (secrets, named) == ({}, {})
        return
    assert {secret["secretName"] for secret in secrets.values()} == {
        "aclnn-serve-tls",
        "aclnn-serve-tokens",
    }
    folders = {mounts[name] for name in secrets}
    assert len(named) == 3
    assert {str(Path(path).parent) for path in named.values()} == folders
    # Readable by the pod's group alone, which is the server's.
    assert {secret["defaultMode"] for secret in secrets.values()} == {0o440}
    assert pod["spec"]["securityContext"]["fsGroup"] == 10001


def test_npus_come_from_the_device_plug_in(
    overlay: str, container: Resource, settings: dict[str, str], pod: Resource
) -> None:
    npus = {
        k: v for k, v in container["resources"]["limits"].items() if k.startswith("huawei.com/")
    }
    if overlay != "ascend":
        assert npus == {}
        return
    assert npus == {"huawei.com/Ascend910": "1"}
    assert (settings["ACLNN_SERVE_BACKEND"], settings["ACLNN_SERVE_DEVICE"]) == ("ascend", "all")
    assert pod["spec"]["securityContext"]["supplementalGroups"] == [1000]
    probe = container["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] >= 300


def test_the_operator_scrapes_the_service(overlay: str, manifest: Manifest) -> None:
    if overlay != "ascend":
        assert not any(kind == "ServiceMonitor" for kind, _ in manifest)
        return
    monitor = manifest["ServiceMonitor", "aclnn-serve"]["spec"]
    assert monitor["selector"]["matchLabels"] == NAME
    (endpoint,) = monitor["endpoints"]
    having = [
        name
        for (kind, name), resource in manifest.items()
        if kind == "Service" and endpoint["port"] in {p["name"] for p in resource["spec"]["ports"]}
    ]
    assert having == ["aclnn-serve"]  # each pod once
    assert (endpoint["scheme"], endpoint["authorization"]["credentials"]["key"]) == (
        "https",
        "token",
    )
    board = manifest["ConfigMap", "aclnn-serve-dashboard"]
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert list(board["data"]) == ["dashboard.json"]


# --- with a real server -------------------------------------------------------------------------------


class Served:
    """A server with a manifest's settings, its secrets mounted as Kubernetes mounts them."""

    def __init__(self, settings: dict[str, str], folder: Path) -> None:
        self.authority = Authority(folder, "cluster")
        pair = self.authority.issue("pod", ["aclnn-serve.aclnn-serve", "127.0.0.1"])
        self.token = make_token()
        files = {
            "tls/tls.crt": pair.certificate.read_bytes(),
            "tls/tls.key": pair.key.read_bytes(),
            "tokens/tokens.toml": write_entry("alice", self.token, {}).encode(),
        }
        for path, content in files.items():
            mount(folder / path, content)
        own = {
            name: value.replace(SECRETS, f"{folder}/").replace("0.0.0.0:", "127.0.0.1:")
            for name, value in settings.items()
        }
        assert list(unknown_variables(own)) == []
        config = load({"backend": "numpy", "device": "0"}, own)
        kept = {name: getattr(config, name) for name in config.__dataclass_fields__}
        kept |= {"listen": "127.0.0.1:0", "metrics_listen": "127.0.0.1:0", "data_port": "auto"}
        self.config = ServerConfig(**kept)
        self.server = Server(self.config)

    @property
    def tls(self) -> Tls | None:
        """How a client reaches it."""
        known = str(self.authority.certificate)
        return Tls(root_certificates=known) if self.config.tls_certificate else None

    def get(self, path: str, scheme: str) -> int:
        """Status of a GET of the metrics' port, whose certificate Kubernetes' probes do not look at."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        url = f"{scheme.lower()}://{self.server.metrics_address}{path}"
        try:
            with urllib.request.urlopen(url, timeout=30, context=context) as answer:
                status: int = answer.status
        except urllib.error.HTTPError as error:
            return error.code
        return status

    def probe(self, probe: Resource) -> bool:
        """Whether a probe succeeds."""
        if "grpc" in probe:
            with grpc.insecure_channel(self.server.address) as channel:
                answer = health(channel, probe["grpc"].get("service", ""))
            assert answer in (SERVING, NOT_SERVING)
            return answer == SERVING
        return self.get(probe["httpGet"]["path"], probe["httpGet"]["scheme"]) == 200


def mount(path: Path, content: bytes) -> None:
    """A file as Kubernetes mounts it: a link to one in a folder whose name changes with its content."""
    data = path.parent / "..2027_01_31"
    data.mkdir(parents=True, exist_ok=True)
    (data / path.name).write_bytes(content)
    (data / path.name).chmod(0o440)
    if not (path.parent / "..data").is_symlink():
        os.symlink(data.name, path.parent / "..data")
    os.symlink(f"..data/{path.name}", path)


@pytest.fixture
def served(settings: dict[str, str], tmp_path: Path) -> Iterator[Served]:
    served = Served(settings, tmp_path)
    with served.server:
        yield served


def test_the_server_takes_the_settings_and_serves(
    overlay: str, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_connection, "DIAL_SECONDS", 30.0)
    protected = overlay != "trial"
    assert served.config.allow_insecure is not protected
    token = served.token if protected else None
    with connect(
        served.server.address, tls=served.tls, token=token, shared_memory=False
    ) as context:
        assert context.ops.add([1.0], [2.0]).tolist() == [3.0]
        large = np.arange(1 << 18, dtype=np.float32)
        np.testing.assert_array_equal(context.tensor(large).numpy(), large)
        assert context.transport == "data connection"
    assert served.get("/metrics", "HTTPS" if protected else "HTTP") == (401 if protected else 200)


def test_probes_ask_for_what_the_server_tells(container: Resource, served: Served) -> None:
    names = ("startupProbe", "livenessProbe", "readinessProbe")
    asked = {name: container[name] for name in names}
    for probe in asked.values():
        if "grpc" in probe:
            assert probe["grpc"]["port"] == 50051
        else:
            assert probe["httpGet"]["port"] == "metrics"
    assert {name: served.probe(probe) for name, probe in asked.items()} == dict.fromkeys(
        names, True
    )
    served.server._server_calls.draining = True
    served.server._health.set_ready(ready=False)
    assert {name: served.probe(probe) for name, probe in asked.items()} == {
        "startupProbe": True,
        "livenessProbe": True,
        "readinessProbe": False,
    }
