"""Which series there are: from the start, while something runs, and never too many."""

import pytest

from sidecar import signals as g
from sidecar.session import OUTCOMES, PHASES
from sidecar.telemetry import labels
from sidecar.telemetry.watched import ControlState, Facts, SourceState
from tests.telemetry.scraped import samples, text, told, value
from tests.telemetry.world import WALL, World, prompt, scenario, sees

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
        "agent_sidecar_watch_losses_total": 2,
    }
    for reason in labels.WATCH_LOSSES:
        assert ("agent_sidecar_watch_losses_total", frozenset({("reason", reason)})) in found
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
        "ai_agent_sessions_unended",
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
