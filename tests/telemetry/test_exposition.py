"""What a scrape gets: the text, OpenMetrics with exemplars, from any thread, well named."""

import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from sidecar import signals as g
from sidecar.session import Session
from sidecar.telemetry import ids
from sidecar.telemetry import names as n
from sidecar.telemetry.watched import SourceState
from tests.telemetry.scraped import text, told, value
from tests.telemetry.world import WALL, World, prompt, scenario, sees

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
GOLDEN = Path(__file__).with_name("metrics.txt")


def test_a_scenario_reads_as_it_always_did() -> None:
    world = World()
    metrics = told(world)
    scenario(world)
    assert text(metrics) == GOLDEN.read_text()


def test_exemplars_name_the_trace_of_the_turn() -> None:
    world = World()
    metrics = told(world)
    scenario(world)
    body, content_type = metrics.render(OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text")
    families = {family.name: family for family in parse_openmetrics(body.decode())}  # type: ignore[no-untyped-call]
    found = {
        name: [s.exemplar for s in families[name].samples if s.exemplar]
        for name in ("ai_agent_turn_duration_seconds", "ai_agent_tool_duration_seconds")
    }
    expected = ids.hex_trace(ids.trace_id("claude-code", "s1", "t1"))
    root = ids.hex_span(ids.span_id("claude-code", "s1", "t1"))
    turn = found["ai_agent_turn_duration_seconds"]
    assert [(e.labels, e.value) for e in turn] == [({"trace_id": expected, "span_id": root}, 101.0)]
    assert float(turn[0].timestamp or 0) == WALL + 1101
    assert [e.labels["trace_id"] for e in found["ai_agent_tool_duration_seconds"]] == [expected]
    gaps = [s.exemplar for s in families["ai_agent_silence_gap_seconds"].samples if s.exemplar]
    other = ids.hex_trace(ids.trace_id("claude-code", "s2", "t1"))
    assert {e.labels["trace_id"] for e in gaps} == {expected, other}
    assert "trace_id" not in text(metrics)


def test_the_table_holds_every_name_once_with_help() -> None:
    names = [metric.name for metric in n.METRICS]
    assert len(names) == len(set(names))
    for metric in n.METRICS:
        assert metric.help.endswith(".")
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        assert bool(metric.buckets) == (metric.kind == "histogram")
        assert re.fullmatch(r"(ai_agent|agent_sidecar)_[a-z_]+", metric.name)
        assert not {"le", "quantile", "job", "instance"} & set(metric.labels)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say() -> None:
    world = World()
    world.states = [SourceState("claude-code", "transcripts", up=True, last_read=WALL)]
    metrics = told(world, per_session=True)
    scenario(world)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text(metrics), text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_state_that_changed_under_a_scrape_is_read_again() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000))
    sessions, failing = world.sessions, [1, 2, 3]

    def changing() -> list[Session]:
        if failing:
            failing.pop()
            raise RuntimeError("dictionary changed size during iteration")
        return sessions()

    world.sessions = changing  # type: ignore[method-assign]
    assert value(metrics, "ai_agent_sessions", phase="model", attended="false") == 1
    failing += [0] * 20
    with pytest.raises(RuntimeError):
        metrics.render("")


def test_a_scrape_from_another_thread_survives_a_busy_loop() -> None:
    world = World()
    metrics = told(world)
    stop = threading.Event()
    failed: list[BaseException] = []

    def scrape() -> None:
        try:
            while not stop.is_set():
                metrics.render("")
        except BaseException as error:  # noqa: BLE001 - it is shown below
            failed.append(error)

    scraping = threading.Thread(target=scrape, daemon=True)
    scraping.start()
    try:
        for number in range(3000):
            session = f"s{number % 50}"
            at = 1000.0 + number
            world.see(sees(at), prompt(at, f"t{number}"), session=session)
            world.see(g.ToolStarted(at, "c", "Edit"), g.ToolStarted(at, "d", "Write"), session=session)
            if number % 3 == 0:
                world.see(g.Closed(at, "test"), session=session)
    finally:
        stop.set()
        scraping.join(20)
    assert not failed
