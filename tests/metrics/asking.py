"""What a server tells at its metrics' port."""

from __future__ import annotations

import http.client
from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from aclnn_server.server import Server

PATIENCE = 30.0
"""Seconds after which a request counts as hung."""


def ask(
    server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    """Sends a request to the metrics' port, and gives the answer with its body."""
    assert server.metrics_address is not None
    connection = http.client.HTTPConnection(server.metrics_address, timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


class Scrape:
    """One scrape of a server's metrics."""

    def __init__(self, server: Server) -> None:
        answer, body = ask(server, "/metrics")
        assert answer.status == 200
        self.kind = answer.headers["Content-Type"]
        self.families = {
            family.name: family for family in text_string_to_metric_families(body.decode())
        }
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, /, **labels: object) -> float | None:
        """Value of one sample with exactly these labels; ``None`` where there is none."""
        wanted = frozenset((label, str(value)) for label, value in labels.items())
        return self._samples.get((name, wanted))

    def all(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        """All samples of a name, by their labels."""
        return {labels: value for (of, labels), value in self._samples.items() if of == name}

    def growth(self, earlier: Scrape, name: str) -> Mapping[tuple[str, ...], float]:
        """What has changed since an earlier scrape, by values of the labels in the order of their names."""
        before = earlier.all(name)
        return {
            tuple(value for _, value in sorted(labels)): value - before.get(labels, 0)
            for labels, value in self.all(name).items()
            if value != before.get(labels, 0)
        }
