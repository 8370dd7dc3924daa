"""Writes Grafana's dashboard, and the alerts as the Prometheus operator takes them; --check compares only."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COLUMNS = 24
"""Width of a dashboard."""
SOURCE = {"type": "prometheus", "uid": "${source}"}
# Every query keeps to the servers that are chosen at the top of the page.
CHOSEN = 'job=~"$job", instance=~"$instance"'

Panel = dict[str, Any]


def chosen(metric: str, *conditions: str) -> str:
    """A metric of the chosen servers."""
    return f"{metric}{{{', '.join((CHOSEN, *conditions))}}}"


def rate(metric: str, *conditions: str) -> str:
    """What a counter grows by in a second."""
    return f"rate({chosen(metric, *conditions)}[$__rate_interval])"


def total(expression: str, *labels: str) -> str:
    """The sum, split by labels."""
    return f"sum by ({', '.join(labels)}) ({expression})" if labels else f"sum({expression})"


def share(part: str, whole: str) -> str:
    """One divided by the other."""
    return f"{part} / {whole}"


def mean(histogram: str, *labels: str) -> str:
    """What a histogram's values are on average."""
    return share(
        total(rate(f"{histogram}_sum"), *labels), total(rate(f"{histogram}_count"), *labels)
    )


def quantile(q: float, histogram: str, *labels: str) -> str:
    """The value below which the share `q` of a histogram lies."""
    return f"histogram_quantile({q}, {total(rate(f'{histogram}_bucket'), 'le', *labels)})"


# --- panels -----------------------------------------------------------------------------------------


def panel(
    kind: str,
    title: str,
    unit: str,
    width: int,
    queries: dict[str, str],
    text: str = "",
) -> Panel:
    """A panel.

    Args:
        kind: Grafana's name of it.
        title: what it shows.
        unit: Grafana's name of its values' unit.
        width: of the dashboard's 24 columns.
        queries: expressions by the legend of what they give.
        text: what is behind the panel's question mark.
    """
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": SOURCE,
            "expr": query,
            "legendFormat": legend,
        }
        for number, (legend, query) in enumerate(queries.items())
    ]
    return {
        "type": kind,
        "title": title,
        "description": text,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "gridPos": {"w": width, "h": 4 if kind == "stat" else 8},
        "targets": targets,
    }


def number(title: str, unit: str, query: str, text: str = "") -> Panel:
    """One number, as it is now."""
    return panel("stat", title, unit, 4, {"": query}, text)


def lines(
    title: str, unit: str, queries: dict[str, str], text: str = "", *, stacked: bool = False
) -> Panel:
    """Lines over time."""
    made = panel("timeseries", title, unit, 12, queries, text)
    if stacked:
        made["fieldConfig"]["defaults"]["custom"] = {
            "fillOpacity": 40,
            "stacking": {"mode": "normal"},
        }
    made["options"] = {
        "legend": {"displayMode": "table", "placement": "right", "calcs": ["mean", "max"]}
    }
    return made


SECTIONS: dict[str, list[Panel]] = {
    "At a glance": [
        number("Servers that are ready", "none", total(chosen("aclnn_serve_ready"))),
        number("Contexts", "none", total(chosen("aclnn_serve_contexts"))),
        number("Operators run", "ops", total(rate("aclnn_serve_executions_total"))),
        number(
            "99 % of runs take less than",
            "s",
            quantile(0.99, "aclnn_serve_execution_seconds"),
            "From being queued to the result being there.",
        ),
        number("Commands in queues", "none", total(chosen("aclnn_serve_queued_commands"))),
        number("Errors", "ops", f"{total(rate('aclnn_serve_errors_total'))} or vector(0)"),
    ],
    "Who uses the devices": [
        lines(
            "Time that operators ran, by client",
            "percentunit",
            {
                "{{owner}} on {{instance}}, {{device}}": total(
                    rate("aclnn_serve_run_seconds_total"), "owner", "instance", "device"
                )
            },
            "Seconds of running in a second. The client is the name of its token.",
            stacked=True,
        ),
        lines(
            "Memory, by client",
            "bytes",
            {
                "{{owner}} on {{instance}}, {{device}}": total(
                    chosen("aclnn_serve_memory_used_bytes"), "owner", "instance", "device"
                )
            },
            stacked=True,
        ),
        lines(
            "Contexts, by client",
            "none",
            {"{{owner}}": total(chosen("aclnn_serve_contexts"), "owner")},
        ),
        lines(
            "Calls, by client",
            "ops",
            {"{{owner}}": total(rate("aclnn_serve_calls_total"), "owner")},
        ),
        lines(
            "Bytes received and sent",
            "Bps",
            {
                "received, {{owner}}": total(rate("aclnn_serve_received_bytes_total"), "owner"),
                "sent, {{owner}}": total(rate("aclnn_serve_sent_bytes_total"), "owner"),
            },
        ),
        lines(
            "Contexts opened and ended",
            "ops",
            {
                "opened": total(rate("aclnn_serve_contexts_opened_total")),
                "ended: {{reason}}": total(rate("aclnn_serve_contexts_ended_total"), "reason"),
            },
            "Ended by lease: the client was silent, and did not close its context.",
        ),
    ],
    "What takes time": [
        lines(
            "Where the time of a run goes, on average",
            "s",
            {"{{part}}": mean("aclnn_serve_execution_part_seconds", "part")},
            "Waiting in the queue, taking arrays in, computing, taking results out.",
            stacked=True,
        ),
        lines(
            "Time of a run",
            "s",
            {
                "half below": quantile(0.5, "aclnn_serve_execution_seconds"),
                "90 % below": quantile(0.9, "aclnn_serve_execution_seconds"),
                "99 % below": quantile(0.99, "aclnn_serve_execution_seconds"),
            },
        ),
        lines(
            "The ten operators that take most of the time",
            "percentunit",
            {
                "{{operator}}": f"topk(10, {total(rate('aclnn_serve_execution_seconds_sum'), 'operator')})"
            },
            "Seconds of running in a second.",
            stacked=True,
        ),
        lines(
            "The ten slowest operators, on average",
            "s",
            {"{{operator}}": f"topk(10, {mean('aclnn_serve_execution_seconds', 'operator')})"},
        ),
        lines(
            "The ten operators that run most often",
            "ops",
            {
                "{{operator}}": f"topk(10, {total(rate('aclnn_serve_executions_total'), 'operator')})"
            },
        ),
        lines(
            "Commands in queues, and calls being served",
            "none",
            {
                "queued on {{instance}}, {{device}}": total(
                    chosen("aclnn_serve_queued_commands"), "instance", "device"
                ),
                "being served on {{instance}}": total(
                    chosen("aclnn_serve_calls_in_hand"), "instance"
                ),
            },
        ),
    ],
    "What fails": [
        lines(
            "Errors, by reason",
            "ops",
            {
                "{{reason}} {{code}} {{operator}}": total(
                    rate("aclnn_serve_errors_total"), "reason", "code", "operator"
                )
            },
            "Calls answered with an error; the code is the vendor's.",
        ),
        lines(
            "Runs that failed",
            "ops",
            {
                "{{operator}}: {{reason}} {{code}}": total(
                    rate("aclnn_serve_execution_failures_total"), "operator", "reason", "code"
                )
            },
        ),
    ],
    "The machine": [
        lines(
            "Device memory that is free",
            "percentunit",
            {
                "{{instance}}, {{device}}": share(
                    chosen("aclnn_serve_device_memory_free_bytes"),
                    chosen("aclnn_serve_device_memory_bytes"),
                )
            },
        ),
        lines(
            "Memory of the server's process",
            "bytes",
            {"{{instance}}": chosen("process_resident_memory_bytes")},
        ),
        lines(
            "Processors that the server uses",
            "none",
            {"{{instance}}": rate("process_cpu_seconds_total")},
        ),
        lines(
            "How much of the limits is in use",
            "percentunit",
            {
                "contexts of {{instance}}": share(
                    total(chosen("aclnn_serve_contexts"), "instance"),
                    total(chosen("aclnn_serve_limit", 'limit="contexts"'), "instance"),
                ),
                "Submit calls of {{instance}}": share(
                    total(chosen("aclnn_serve_submit_calls"), "instance"),
                    total(chosen("aclnn_serve_limit", 'limit="submit_calls"'), "instance"),
                ),
                "open files of {{instance}}": share(
                    chosen("process_open_fds"), chosen("process_max_fds")
                ),
            },
        ),
    ],
}


# --- the dashboard ----------------------------------------------------------------------------------


def laid_out(sections: dict[str, list[Panel]]) -> list[Panel]:
    """All panels in rows, each with its place and its number."""
    placed: list[Panel] = []
    y = 0
    for title, panels in sections.items():
        placed.append({"type": "row", "title": title, "collapsed": False, "panels": []})
        placed[-1]["gridPos"] = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        x, y = 0, y + 1
        for each in panels:
            if x + each["gridPos"]["w"] > COLUMNS:
                x, y = 0, y + each["gridPos"]["h"]
            placed.append(each | {"gridPos": each["gridPos"] | {"x": x, "y": y}})
            x += each["gridPos"]["w"]
        y += panels[-1]["gridPos"]["h"]
    return [{"id": number} | each for number, each in enumerate(placed, 1)]


def choice(name: str, label: str, query: str) -> dict[str, Any]:
    """A choice at the top of the page, among the values of a label."""
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana takes it from a file."""
    source = {
        "type": "datasource",
        "name": "source",
        "label": "Prometheus",
        "query": "prometheus",
        "current": {"text": "Prometheus", "value": "prometheus"},
    }
    ready = "aclnn_serve_ready"
    return {
        "uid": "aclnn-serve",
        "title": "aclnn-serve",
        "description": "Generated by deploy/monitoring/generate.py",
        "tags": ["aclnn-serve"],
        "schemaVersion": 39,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                source,
                choice("job", "Job", f"label_values({ready}, job)"),
                choice("instance", "Server", f'label_values({ready}{{job=~"$job"}}, instance)'),
            ]
        },
        "panels": laid_out(SECTIONS),
    }


def rules(alerts: str) -> str:
    """The alerts as the operator's resource: what stands in Prometheus's own file is its `spec`."""
    groups = alerts[alerts.index("groups:\n") :]
    indented = "".join(f"  {line}" if line.strip() else line for line in groups.splitlines(True))
    return (
        "# Generated by deploy/monitoring/generate.py from alerts.yml; do not edit.\n"
        "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n"
        f"metadata:\n  name: aclnn-serve\nspec:\n{indented}"
    )


def main() -> int:
    """Writes what is not current, or tells of it."""
    generated = {
        HERE / "dashboard.json": json.dumps(dashboard(), indent=1) + "\n",
        HERE / "kubernetes/rules.yaml": rules((HERE / "alerts.yml").read_text("utf-8")),
    }
    stale = [
        path
        for path, text in generated.items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(
                f"{path.name} is not what deploy/monitoring/generate.py writes; run `make generate`"
            )
        return 1 if stale else 0
    for path in stale:
        path.write_text(generated[path], "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
