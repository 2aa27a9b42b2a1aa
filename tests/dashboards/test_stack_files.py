"""The kit's files: what is shipped, in the demo's time; and the compose file's configurations."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.stack import files
from dashboards.stack.parts import StackError, need_free, program
from dashboards.stack.stack import Ports, demo
from sidecar.agents.registry import KINDS
from sidecar.config import load

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "dashboards" / "stack" / "compose"
KIT: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())


@pytest.mark.parametrize(("told", "meant"), [("30s", "500ms"), ("5m", "5000ms"), ("1h", "60000ms")])
def test_minutes_become_seconds(told: str, meant: str) -> None:
    assert files.faster(told) == meant


def test_the_kits_rules_are_the_shipped_ones_in_another_time() -> None:
    shipped = yaml.safe_load((ROOT / "dashboards" / "rules.yaml").read_text())["groups"]
    made = yaml.safe_load(files.rules("file:///here"))["groups"]

    def timeless(groups: Any) -> list[Any]:
        return [
            (
                rule.get("alert"),
                rule.get("record"),
                re.sub(r"\[\w+\]", "[]", rule["expr"]),
                rule.get("labels"),
            )
            for group in groups
            for rule in group["rules"]
        ]

    assert timeless(made) == timeless(shipped)
    text = files.rules("file:///here")
    assert "runbooks.example" not in text
    assert not re.search(r"\[\d+[mh]\]", text)


def test_the_kits_routing_tells_every_receiver() -> None:
    made = yaml.safe_load(files.alertmanager("http://127.0.0.1:1"))
    assert [r["webhook_configs"][0]["url"] for r in made["receivers"]] == [
        f"http://127.0.0.1:1/{r['name']}" for r in made["receivers"]
    ]


def test_the_kits_sidecars_have_good_configurations(tmp_path: Path) -> None:
    for pod in demo(Ports()):
        config = load(files.sidecar(pod, tmp_path), {}, KINDS)
        assert config.settings.mode == pod.mode


def test_a_port_in_use_and_a_program_that_is_missing_are_named(tmp_path: Path) -> None:
    import socket  # noqa: PLC0415 - only here

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StackError, match=rf"port {port} for It: .* choose another with --it PORT"):
            need_free(port, "It", "--it")
    need_free(port, "It", "--it")
    with pytest.raises(StackError, match=r"prometheus is not there; on Debian, `dashboards/stack/debian.sh"):
        program("prometheus", tmp_path)


def test_the_compose_file_mounts_what_exists_and_listens_on_loopback_only() -> None:
    for name, service in KIT["services"].items():
        assert re.fullmatch(r"[\w/.-]+:v?[\d.]+(-slim)?", service["image"]), name
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in KIT["volumes"] or (COMPOSE / source).exists(), volume
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")


def test_the_compose_files_sidecar_has_a_good_configuration() -> None:
    assert load((COMPOSE / "sidecar.yaml").read_text(), {}, KINDS).settings.scrape_listen == "0.0.0.0:9476"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_the_compose_files_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    shutil.copy(COMPOSE / "prometheus.yaml", tmp_path)
    shutil.copy(ROOT / "dashboards" / "rules.yaml", tmp_path)
    done = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_leads_from_an_example_to_its_trace() -> None:
    sources = yaml.safe_load((COMPOSE / "grafana" / "datasources.yaml").read_text())["datasources"]
    prometheus, jaeger = sources
    (link,) = prometheus["jsonData"]["exemplarTraceIdDestinations"]
    assert link == {"name": "trace_id", "datasourceUid": jaeger["uid"]}
