"""The metrics: what they say, that they exist before anything happened, and how many there are."""

import re
import shutil
import subprocess
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from sidecar import signals as g
from sidecar.limits import Limit, Rules
from sidecar.session import OUTCOMES, PHASES
from sidecar.telemetry import ids, labels
from sidecar.telemetry import names as n
from sidecar.telemetry.metrics import Metrics
from sidecar.telemetry.watched import ControlState, Facts, SourceState
from tests.telemetry.world import WALL, World, prompt, scenario, sees

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
GOLDEN = Path(__file__).with_name("metrics.txt")

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def told(world: World, *, per_session: bool = False) -> Metrics:
    metrics = Metrics(world, per_session=per_session)
    world.told.append(metrics)
    return metrics


def text(metrics: Metrics) -> str:
    body, content_type = metrics.render("")
    assert content_type.startswith("text/plain")
    return body.decode()


def samples(metrics: Metrics) -> Samples:
    found: Samples = {}
    for family in parse_text(text(metrics)):
        for sample in family.samples:
            found[sample.name, frozenset(sample.labels.items())] = sample.value
    return found


def value(metrics: Metrics, name: str, **wanted: str) -> float | None:
    return samples(metrics).get((name, frozenset({"agent": "claude-code", **wanted}.items())))


def test_a_scenario_reads_as_it_always_did() -> None:
    world = World()
    metrics = told(world)
    scenario(world)
    assert text(metrics) == GOLDEN.read_text()


CLOSED: dict[str, list[dict[str, str]]] = {
    "ai_agent_sessions": [{"phase": p, "attended": a} for p in PHASES for a in ("true", "false")],
    "ai_agent_sessions_overdue": [{"bound": bound} for bound in labels.BOUNDS],
    "ai_agent_phase_seconds_total": [{"phase": phase} for phase in PHASES],
    "ai_agent_turns_total": [{"outcome": outcome} for outcome in OUTCOMES],
    "ai_agent_turn_duration_seconds_count": [{}],
    "ai_agent_silence_gap_seconds_count": [{"phase": "model"}, {"phase": "tool"}],
    "ai_agent_verdicts_total": [
        *({"bound": bound, "evidence": "transcript"} for bound in ("model", "tool", "waiting", "idle")),
        {"bound": "starting", "evidence": "process"},
        {"bound": "busy", "evidence": "status"},
    ],
    "ai_agent_verdicts_recovered_total": [{"bound": "model", "evidence": "transcript"}],
    "ai_agent_actions_total": [
        {"action": "report", "outcome": "reported"},
        *(
            {"action": action, "outcome": o}
            for action in ("interrupt", "reap")
            for o in ("effective", "held")
        ),
        *(
            {"action": "interrupt", "outcome": o}
            for o in ("ineffective", "failed", "superseded", "unsupported")
        ),
    ],
    "ai_agent_tool_calls_total": [{"tool": tool} for tool in labels.TOOL_CLASSES],
    "ai_agent_tool_duration_seconds_count": [{}],
    "ai_agent_tokens_total": [{"model": "other", "type": kind} for kind in labels.TOKEN_TYPES],
    "ai_agent_retries_total": [{"cause": cause} for cause in labels.RETRY_CAUSES],
    "agent_sidecar_records_total": [{"kind": kind} for kind in labels.RECORD_KINDS],
}


@pytest.mark.parametrize("name", CLOSED)
def test_counters_exist_at_zero_before_anything_happened(name: str) -> None:
    found = samples(told(World("a", "b")))
    for wanted in CLOSED[name]:
        for agent in ("a", "b"):
            assert found[name, frozenset({"agent": agent, **wanted}.items())] == 0


def test_at_first_only_the_sidecar_itself_is_not_zero() -> None:
    found = samples(told(World("a", "b")))
    assert {name: number for (name, _), number in found.items() if number} == {
        "agent_sidecar_info": 1,
        "agent_sidecar_config_last_reload_successful": 1,
        "agent_sidecar_watch_mode": 1,
    }
    for outcome in labels.SPAN_OUTCOMES:
        assert ("agent_sidecar_spans_total", frozenset({("outcome", outcome)})) in found


def test_every_bound_has_a_count_of_verdicts_from_the_start() -> None:
    names = {dict(key)["bound"] for name, key in samples(told(World())) if name == "ai_agent_verdicts_total"}
    assert names == {*labels.BOUNDS}


def test_what_does_not_run_has_no_gauge() -> None:
    names = {name for name, _ in samples(told(World()))}
    assert not names & {
        "ai_agent_silence_seconds",
        "ai_agent_last_progress_timestamp_seconds",
        "ai_agent_bound_limit_seconds",
        "ai_agent_bound_remaining_seconds",
        "ai_agent_process_resident_memory_bytes",
        "ai_agent_process_cpu_seconds_total",
        "ai_agent_info",
        "ai_agent_sessions_limit",
        "agent_sidecar_control_up",
    }


def test_the_number_of_series_stays_within_its_budget() -> None:
    one, two = (len(samples(told(World(*agents)))) for agents in (("a",), ("a", "b")))
    assert two - one <= 150
    world = World()
    world.states = [SourceState("claude-code", name, up=True, last_read=WALL) for name in ("a", "b", "c")]
    world.now_true = Facts("1", "enforce", "x", controls=(ControlState("claude-code", "host", up=True),))
    metrics = told(world)
    scenario(world)
    assert len(samples(metrics)) <= 250


def test_an_interrupted_bound_exists_at_zero_before_it_trips() -> None:
    world = World()
    metrics = told(world)
    world.see(g.SourceUp(1000, "stream", "delta"), prompt(1000))
    assert value(metrics, "ai_agent_verdicts_total", bound="model", evidence="stream") == 0
    assert value(metrics, "ai_agent_verdicts_recovered_total", bound="model", evidence="stream") == 0
    world.judge(1000 + 900)
    assert value(metrics, "ai_agent_verdicts_total", bound="model", evidence="stream") == 1


def test_silence_is_the_longest_and_progress_the_oldest_of_a_phase() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000))
    world.see(sees(1030), prompt(1030), session="s2")
    world.clock.at = 1100
    assert value(metrics, "ai_agent_silence_seconds", phase="model") == 100
    assert value(metrics, "ai_agent_last_progress_timestamp_seconds", phase="model") == WALL + 1000
    world.see(g.TurnEnded(1101, "completed"), session="s1")
    world.see(g.TurnEnded(1101, "completed"), session="s2")
    assert value(metrics, "ai_agent_silence_seconds", phase="model") is None


def test_the_nearest_bound_is_shown_and_one_that_tripped_is_overdue() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000))
    world.see(sees(1500), prompt(1500), session="s2")
    world.clock.at = 2000
    assert value(metrics, "ai_agent_bound_limit_seconds", bound="model") == 2700
    assert value(metrics, "ai_agent_bound_remaining_seconds", bound="model") == 1700
    world.judge(3700)
    assert value(metrics, "ai_agent_sessions_overdue", bound="model") == 1
    assert value(metrics, "ai_agent_bound_remaining_seconds", bound="model") == 500
    world.clock.at = 5000
    assert value(metrics, "ai_agent_sessions_overdue", bound="model") == 2
    assert value(metrics, "ai_agent_bound_remaining_seconds", bound="model") == -1300


def test_time_in_a_phase_includes_the_running_one_and_never_goes_back() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000), g.Progress(1010))
    world.clock.at = 1020
    assert value(metrics, "ai_agent_phase_seconds_total", phase="model") == 20
    # The end is recognised at 1020 and dated 1010: ten seconds of `model` turn out to be `idle`.
    world.see(g.TurnEnded(1010, "completed", settle=5.0), g.Ticked(1020))
    assert value(metrics, "ai_agent_phase_seconds_total", phase="model") == 20
    world.see(prompt(1100, "t2"))
    world.clock.at = 1130
    assert value(metrics, "ai_agent_phase_seconds_total", phase="model") == 40


def test_time_before_the_sidecar_started_is_not_counted() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(400), prompt(400))
    world.clock.at = 1005
    assert value(metrics, "ai_agent_phase_seconds_total", phase="model") == 5
    world.see(g.ToolStarted(1006, "c", "Bash"))
    assert value(metrics, "ai_agent_phase_seconds_total", phase="model") == 6


def test_a_process_of_many_sessions_is_counted_once() -> None:
    world = World()
    metrics = told(world)
    for session in ("s1", "s2"):
        world.see(g.ProcessSeen(1001, 7, 1000.5), g.ProcessUsed(1001, 5_000, 2.0), session=session)
    world.see(g.ProcessSeen(1001, 8, 1000.5), g.ProcessUsed(1001, 300, 1.0), session="s3")
    assert value(metrics, "ai_agent_process_resident_memory_bytes") == 5300
    assert value(metrics, "ai_agent_process_cpu_seconds_total") == 3.0
    world.see(g.ProcessUsed(1002, 5_000, 4.5), session="s1")
    world.see(g.ProcessUsed(1002, 5_000, 4.5), session="s2")
    assert value(metrics, "ai_agent_process_cpu_seconds_total") == 5.5
    world.see(g.ProcessGone(1003), session="s3")
    assert value(metrics, "ai_agent_process_cpu_seconds_total") == 5.5


def test_cpu_that_a_process_used_before_is_not_ours() -> None:
    world = World()
    metrics = told(world)
    world.see(g.ProcessSeen(1001, 7, 10.0), g.ProcessUsed(1001, 5_000, 900.0))
    assert value(metrics, "ai_agent_process_cpu_seconds_total") == 0
    world.see(g.ProcessUsed(1002, 5_000, 901.0))
    assert value(metrics, "ai_agent_process_cpu_seconds_total") == 1


def test_sources_control_caps_and_versions() -> None:
    world = World()
    world.states = [
        SourceState("claude-code", "transcripts", up=True, last_read=WALL + 7),
        SourceState("claude-code", "status", up=False),
    ]
    world.now_true = Facts(
        "1",
        "enforce",
        "h",
        loop_lag=0.25,
        reload_ok=False,
        caps={"claude-code": 4},
        controls=(ControlState("claude-code", "host", up=False),),
    )
    metrics = told(world)
    for number in range(8):
        world.see(g.Described(1000, version=f"2.{number}"), session=f"s{number}")
    found = samples(metrics)
    assert value(metrics, "agent_sidecar_source_up", source="transcripts") == 1
    assert value(metrics, "agent_sidecar_source_up", source="status") == 0
    assert (
        value(metrics, "agent_sidecar_source_last_read_timestamp_seconds", source="transcripts") == WALL + 7
    )
    assert value(metrics, "agent_sidecar_source_last_read_timestamp_seconds", source="status") is None
    assert value(metrics, "agent_sidecar_control_up", source="host") == 0
    assert value(metrics, "ai_agent_sessions_limit") == 4
    assert found["agent_sidecar_loop_lag_seconds", frozenset()] == 0.25
    assert found["agent_sidecar_config_last_reload_successful", frozenset()] == 0
    info = frozenset({("version", "1"), ("mode", "enforce"), ("config_hash", "h")})
    assert found["agent_sidecar_info", info] == 1
    versions = {dict(key)["version"] for name, key in found if name == "ai_agent_info"}
    assert versions == {"2.0", "2.1", "2.2", "2.3", "2.4", "other"}


def test_acts_verdicts_and_recoveries_are_counted() -> None:
    world = World()
    world.limits = Rules(model_record=Limit(60))
    metrics = told(world)
    world.see(sees(1000), prompt(1000))
    world.judge(1060)
    world.see(g.Acted(1060, "interrupt", "t1", "model", "observed", "model"), g.Progress(1065))
    model = {"bound": "model", "evidence": "transcript"}
    assert value(metrics, "ai_agent_verdicts_total", **model) == 1
    assert value(metrics, "ai_agent_verdicts_recovered_total", **model) == 1
    assert value(metrics, "ai_agent_actions_total", action="interrupt", outcome="observed") == 1


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("Bash", "Bash"),
        ("MultiEdit", "Edit"),
        ("apply_patch", "Edit"),
        ("Agent", "Task"),
        ("read_file", "Read"),
        ("LS", "Glob"),
        ("mcp__github__create_issue", "mcp"),
        ("google_web_search", "WebSearch"),
        ("TodoWrite", "other"),
        ("please delete /etc", "other"),
    ],
)
def test_tools_are_sorted_into_few_classes(tool: str, expected: str) -> None:
    assert labels.tool_class(tool) == expected


def test_every_class_is_reached_by_its_own_name() -> None:
    assert {labels.tool_class(kind) for kind in labels.TOOL_CLASSES} == {*labels.TOOL_CLASSES} - {"mcp"}


def test_models_are_bounded_in_number_length_and_characters() -> None:
    models = labels.Models()
    assert models.label("<synthetic>") == models.label("a model") == models.label("m" * 65) == "other"
    assert models.label("") == "other"
    kept = [f"vendor/model-{number}:v1" for number in range(20)]
    assert [models.label(model) for model in kept] == kept
    assert models.label("one-more") == "other"
    assert models.label(kept[3]) == kept[3]


def test_what_agents_call_things_never_becomes_a_series_of_its_own() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000))
    for number in range(200):
        world.see(
            g.Used(1001, f"model-{number}", output=1),
            g.Retrying(1001, f"cause {number}"),
            g.ToolStarted(1001, f"c{number}", f"tool-{number}"),
            g.ToolEnded(1001, f"c{number}"),
        )
    assert len(samples(metrics)) < 350
    assert value(metrics, "ai_agent_tokens_total", model="other", type="output") == 180
    assert value(metrics, "ai_agent_retries_total", cause="other") == 200
    assert value(metrics, "ai_agent_tool_calls_total", tool="other") == 200


def test_histograms_are_cumulative_and_bounded_in_buckets() -> None:
    assert all(len(metric.buckets) + 1 <= 8 for metric in n.METRICS)
    for metric in (n.TURN_DURATION, n.SILENCE_GAP, n.TOOL_DURATION):
        assert all(a < b for a, b in pairwise(metric.buckets))
    assert (n.TURN_DURATION.buckets[0], n.TURN_DURATION.buckets[-1]) == (1, 8 * 3600)
    assert (n.SILENCE_GAP.buckets[0], n.SILENCE_GAP.buckets[-1]) == (1, 3600)
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000), g.Progress(1010), g.Progress(1310), g.Progress(1315))
    for bound, count in {"1.0": 0, "10.0": 2, "60.0": 2, "300.0": 3, "3600.0": 3, "+Inf": 3}.items():
        assert value(metrics, "ai_agent_silence_gap_seconds_bucket", phase="model", le=bound) == count
    assert value(metrics, "ai_agent_silence_gap_seconds_sum", phase="model") == 315


def test_a_tool_without_a_result_counts_but_has_no_duration() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000), g.ToolStarted(1001, "c", "Bash"), g.TurnEnded(1002, "interrupted"))
    assert value(metrics, "ai_agent_tool_calls_total", tool="Bash") == 1
    assert value(metrics, "ai_agent_tool_duration_seconds_count") == 0


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


def test_series_by_session_only_where_asked_for_and_bounded() -> None:
    world = World()
    few, many = told(world), told(world, per_session=True)
    for number in range(1005):
        world.see(sees(1000), session=f"idle-{number}")
    world.see(sees(1000), prompt(1000), session="busy")
    assert "session=" not in text(few)
    found = samples(many)
    assert len([key for name, key in found if name == "ai_agent_session_silence_seconds"]) == 1000
    assert value(many, "ai_agent_session_phase", session="busy", phase="model") == 1


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
