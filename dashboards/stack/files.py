"""The configurations of the stack: the shipped ones, in the demo's time, where seconds stand for minutes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

HERE: Final = Path(__file__).parents[1]
FASTER: Final = 60
"""The demo's bounds are seconds where real ones are minutes; so are the rules' times here."""

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Pod(NamedTuple):
    """A sidecar and its agents. `labels` is what a cluster's Prometheus would add; none on a single machine."""

    name: str
    mode: str
    port: int
    plays: tuple[str, ...]
    labels: dict[str, str]
    bounds: dict[str, Any]


def faster(duration: str) -> str:
    """A duration in the demo's time."""
    seconds = int(duration[:-1]) * _UNITS[duration[-1]]
    return f"{max(1, seconds * 1000 // FASTER)}ms"


def rules(runbook: str) -> str:
    """The shipped rules in the demo's time, their links leading to `runbook`."""
    document = yaml.safe_load((HERE / "rules.yaml").read_text())
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(r"\[(\d+[smhd])\]", lambda m: f"[{faster(m[1])}]", rule["expr"])
            if "for" in rule:
                rule["for"] = faster(rule["for"])
            for name, text in rule.get("annotations", {}).items():
                rule["annotations"][name] = text.replace("https://runbooks.example/agent-sidecar", runbook)
    return yaml.safe_dump(document, sort_keys=False)


def alertmanager(webhook: str) -> str:
    """The shipped example in the demo's time, every receiver filled in with `webhook`."""
    document = yaml.safe_load((HERE / "alertmanager.yaml").read_text())
    routes = [document["route"]]
    for route in routes:
        routes += route.get("routes", ())
        for name in ("group_wait", "group_interval"):
            if name in route:
                route[name] = faster(route[name])
    for receiver in document["receivers"]:
        receiver["webhook_configs"] = [{"url": f"{webhook}/{receiver['name']}", "send_resolved": True}]
    return yaml.safe_dump(document, sort_keys=False)


def prometheus(pods: list[Pod], alertmanager_port: int) -> str:
    """Scrape and evaluate every second."""
    targets = [{"targets": [f"127.0.0.1:{pod.port}"], "labels": pod.labels} for pod in pods]
    document = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "900ms", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager_port}"]}]}]
        },
        "scrape_configs": [{"job_name": "agent-sidecar", "static_configs": targets}],
    }
    return yaml.safe_dump(document, sort_keys=False)


def sidecar(pod: Pod, root: Path) -> str:
    """One sidecar: the agents of `root` under their hosts."""
    document = {
        "mode": pod.mode,
        "listen": f"127.0.0.1:{pod.port}",
        "state_dir": str(root / "state"),
        "agents": [
            {
                "kind": "claude-code",
                "config_dir": str(root / "claude"),
                "control": {"kind": "host", "url": f"unix:{root}/*.sock"},
            }
        ],
        "bounds": {"unsafe": True, **pod.bounds},
        "actions": {"jitter": 0, "grace": "5s", "max": 100, "hold_file": str(root / "hold")},
        "token_file": str(root / "token"),
        "telemetry": {"lines": False},
    }
    return yaml.safe_dump(document, sort_keys=False)
