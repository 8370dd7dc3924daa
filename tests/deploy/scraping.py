"""A real Prometheus that scrapes one server."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml


class Prometheus:
    """A Prometheus that scrapes one server."""

    def __init__(self, binary: str, folder: Path, target: str, alerts: Path) -> None:
        configuration = {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
            "rule_files": [str(alerts)],
            "scrape_configs": [
                {"job_name": "aclnn-serve", "static_configs": [{"targets": [target]}]}
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        self.process = subprocess.Popen(
            (
                *(binary, "--config.file", str(folder / "prometheus.yml")),
                *("--storage.tsdb.path", str(folder / "data")),
                *("--web.listen-address", "127.0.0.1:0", "--log.format", "json"),
            ),
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            self.address = self._address()
        except BaseException:
            self.close()
            raise

    def _address(self) -> str:
        """Where it listens, once it answers."""
        assert self.process.stderr is not None
        address = ""
        for line in self.process.stderr:
            said = json.loads(line)
            if said.get("msg") == "Listening on":
                address = said["address"]
            if said.get("msg", "").startswith("Server is ready"):
                return address
        raise AssertionError("Prometheus ended")

    def ask(self, path: str, **parameters: str) -> Any:  # noqa: ANN401 - JSON
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def values(self, query: str) -> list[Any]:
        found: list[Any] = self.ask("query", query=query)["result"]
        return found

    def close(self) -> None:
        self.process.terminate()
        self.process.communicate()
