"""The metrics pushed over OTLP, read back from a real database, against those of a scrape."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from sidecar.telemetry import names as n
from tests.e2e.claude import Claude, prompt
from tests.e2e.process import Json, until
from tests.e2e.sidecar import Sidecar, free_port
from tests.e2e.test_main_job import control, hosted

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SUITE = "trixie"
"""The oldest Debian whose VictoriaMetrics, 1.112, reads OTLP."""

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="the database comes from Debian")

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
OURS = {label for metric in n.METRICS for label in metric.labels} | {"le"}
MOVING = {
    "ai_agent_phase_seconds_total",
    "agent_sidecar_source_last_read_timestamp_seconds",
    "agent_sidecar_loop_lag_seconds",
    "ai_agent_silence_seconds",
    "ai_agent_bound_remaining_seconds",
    "ai_agent_process_resident_memory_bytes",
    "ai_agent_process_cpu_seconds_total",
}
"""They differ from one moment to the next, so only their series are compared."""


@contextmanager
def victoria(*options: str) -> Iterator[int]:
    """A database on a port of loopback, gone with its data afterwards."""
    subprocess.run([str(ROOT / "tests/e2e/debian.sh"), SUITE, "victoria-metrics"], check=True)
    binary = ROOT / ".e2e" / f"debian-{SUITE}" / "usr/bin/victoria-metrics"
    port = free_port()
    data = tempfile.mkdtemp(prefix="e2e-vm-")
    command = [str(binary), f"-storageDataPath={data}", f"-httpListenAddr=127.0.0.1:{port}"]
    with Path(data, "log").open("wb") as log:
        child = subprocess.Popen([*command, "-search.latencyOffset=0s", *options], stderr=log)
    try:
        until(lambda: answers(port), "the database listens")
        yield port
    finally:
        child.terminate()
        child.wait(30)
        shutil.rmtree(data, ignore_errors=True)


def get(port: int, path: str, **query: str) -> bytes:
    with urllib.request.urlopen(
        f"http://127.0.0.1:{port}{path}?{urllib.parse.urlencode(query)}", timeout=10
    ) as answer:
        body: bytes = answer.read()
    return body


def answers(port: int) -> bool:
    try:
        return get(port, "/health") == b"OK"
    except OSError:
        return False


def newest(port: int) -> Series:
    """What the database holds last of every series, under the labels of a scrape."""
    rows = get(port, "/api/v1/export", **{"match[]": '{__name__!=""}'}).splitlines()
    found: Series = {}
    for row in map(json.loads, rows):
        labels = {name: value for name, value in row["metric"].items() if name in OURS}
        found[key(row["metric"]["__name__"], labels)] = row["values"][-1]
    return found


def asked(port: int, query: str) -> list[Json]:
    rows: list[Json] = json.loads(get(port, "/api/v1/query", query=query))["data"]["result"]
    return rows


def key(name: str, labels: dict[str, str]) -> tuple[str, frozenset[tuple[str, str]]]:
    le = {"le": str(float(labels["le"]))} if "le" in labels else {}
    return name, frozenset((labels | le).items())


def scraped(sidecar: Sidecar) -> Series:
    families = parse_text(sidecar.get("/metrics")[1])
    return {key(s.name, s.labels): s.value for family in families for s in family.samples}


@pytest.mark.parametrize("options", [[], ["-opentelemetry.usePrometheusNaming"]], ids=["as sent", "renamed"])
def test_a_database_that_takes_otlp_holds_what_a_scrape_shows(claude: Claude, options: list[str]) -> None:
    with victoria(*options) as port:
        telemetry = {
            "otlp": {"endpoint": f"http://127.0.0.1:{port}/opentelemetry", "traces": False, "logs": False}
        }
        sidecar = Sidecar(claude, control(claude), telemetry=telemetry)
        with sidecar:
            conversation = hosted(claude)
            conversation.send(prompt("[[bash echo one;;blackhole]]"))
            sidecar.expect("action.outcome", outcome="effective")
            sidecar.expect("turn.end", outcome="stalled")
            until(lambda: sidecar.session()["phase"] == "idle", "the turn is over")
            shown = scraped(sidecar)
            assert newest(port) == {}, "the first push would come after a minute: what arrives is the last"
            assert sidecar.stop(signal.SIGTERM) == 0
        until(lambda: {*shown} <= {*newest(port)}, "the last push, every series of it")
        found = newest(port)
    assert {name for name, _ in found} <= {name for name, _ in shown} | {"ai_agent_sessions_limit"}
    fixed = {at: value for at, value in shown.items() if at[0] not in MOVING}
    assert len(fixed) > 150
    # The database keeps some twelve digits.
    assert {at: found[at] for at in fixed} == pytest.approx(fixed, rel=1e-9)
    assert found[key("ai_agent_turns_total", {"agent": "claude-code", "outcome": "stalled"})] == 1


def test_the_resource_comes_along_as_labels(claude: Claude) -> None:
    with victoria("-opentelemetry.usePrometheusNaming") as port:
        telemetry = {"otlp": {"endpoint": f"http://127.0.0.1:{port}/opentelemetry"}}
        sidecar = Sidecar(claude, telemetry=telemetry)
        sidecar.env |= {
            "K8S_NAMESPACE_NAME": "agents",
            "K8S_POD_NAME": "box-1",
            "K8S_CONTAINER_NAME": "sidecar",
        }
        with sidecar:
            sidecar.stop(signal.SIGTERM)
        (row,) = until(lambda: asked(port, 'agent_sidecar_info{k8s_pod_name="box-1"}'), "the push")
    assert row["metric"]["service_instance_id"] == "agents.box-1.sidecar"
    assert row["metric"]["service_name"] == "agent-sidecar"
    assert row["metric"]["k8s_namespace_name"] == "agents"
