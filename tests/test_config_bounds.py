"""Bounds as written become rules: layers, presets, floors, warnings."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.config import KindSpec, load
from sidecar.config.presets import PRESETS
from sidecar.limits import Limit, Rules
from sidecar.policy import bounds, judge
from sidecar.session import Session, Turn
from sidecar.signals import Warned
from tests.test_config import HOME, Files, Kind, read


def rules(text: str) -> Rules:
    return read(f"bounds: {text}").rules


def entry(text: str, top: str = "{}") -> Rules:
    agents = read(f"{{bounds: {top}, agents: [{text}]}}").agents
    assert agents is not None
    return agents[0].rules


@pytest.mark.parametrize(
    "name",
    ["waiting", "compacting", "idle_in_turn", "retrying", "starting", "idle", "limited", "turn", "busy"],
)
def test_a_lone_value_is_the_limit_and_leaves_the_action(name: str) -> None:
    default: Limit = getattr(Rules(), name)
    assert getattr(rules(f"{{{name}: 20m}}"), name) == Limit(1200.0, default.action)
    assert getattr(rules(f"{{{name}: off}}"), name) == Limit(None, default.action)
    assert getattr(rules(f"{{{name}: {{limit: off}}}}"), name) == Limit(None, default.action)


def test_nothing_else_is_changed() -> None:
    made = rules("{waiting: 20m}")
    assert {name for name in Rules.__struct_fields__ if getattr(made, name) != getattr(Rules(), name)} == {
        "waiting"
    }


def test_a_map_says_it_in_full() -> None:
    made = rules(
        "{waiting: {limit: 10m, warn: 9m, action: report}, idle: {limit: 1h, action: reap, unprompted: true}}"
    )
    assert made.waiting == Limit(600.0, "report", 540.0)
    assert made.idle == Limit(3600.0, "reap")
    assert made.unprompted


def test_the_model_by_resolution_or_both() -> None:
    assert rules("{model: 30m}").model_record == Limit(1800.0)
    assert rules("{model: 30m}").model_delta == Limit(1800.0)
    made = rules("{model: {record: {limit: 30m, warn: 25m}, delta: 10m}}")
    assert (made.model_record, made.model_delta) == (Limit(1800.0, "interrupt", 1500.0), Limit(600.0))
    alone = rules("{model: {delta: {action: report}}}")
    assert alone.model_delta == Limit(900.0, "report", 360.0)
    assert alone.model_record == Rules().model_record


def test_tool_patterns_are_laid_over_the_defaults() -> None:
    made = rules('{tool: {"mcp__*": 30m, Edit: off, Write: {action: interrupt}}}').tool
    assert made["mcp__*"] == Limit(1800.0)
    assert made["Edit"] == Limit(None, "report")
    assert made["Write"] == Limit(900.0, "interrupt")
    assert made["ExitPlanMode"] == Limit(900.0, "report")


def test_what_follows_a_stuck_subagent() -> None:
    assert rules("{delegated: {action: report}}").delegated == Limit(0.0, "report")


def test_a_new_limit_drops_the_warning_set_before_and_keeps_the_action() -> None:
    top = "{waiting: {limit: 10m, warn: 9m, action: report}}"
    assert entry("{kind: claude-code, bounds: {waiting: 6m}}", top).waiting == Limit(360.0, "report")
    kept = entry("{kind: claude-code, bounds: {waiting: {warn: 8m}}}", top).waiting
    assert kept == Limit(600.0, "report", 480.0)


def test_a_warning_that_is_off_never_comes_whatever_the_jitter() -> None:
    config = read("{mode: enforce, actions: {jitter: 1}, bounds: {model: {record: {limit: 10m, warn: off}}}}")
    session = Session("a", "s", 0.0, luck=1.0, phase="model", turn=Turn("t", 0.0), progress_at=0.0)
    session.sources, session.resolutions = {"x": True}, {"x": "record"}
    (bound,) = bounds(session, config.rules)
    assert bound.limit == 1200.0
    said = [note for at in range(1200) for note in judge(session, config.rules, float(at))]
    assert not any(isinstance(note, Warned) for note in said)


def test_nearest_wins() -> None:
    top = "{idle: 50m, waiting: 7m, starting: 5m}"
    made = entry("{kind: claude-code, preset: claude-remote-control, bounds: {waiting: 3m}}", top)
    assert made.idle.limit == 3000.0  # the file's, where the preset says nothing
    assert made.starting.limit == 120.0  # the preset's over the file's
    assert made.waiting.limit == 180.0  # the entry's over the preset's


def test_an_agent_does_not_change_what_holds_for_others() -> None:
    config = read(
        "{bounds: {waiting: 7m}, agents: [{kind: claude-code, bounds: {waiting: 3m}}, {kind: redcode}]}"
    )
    assert config.rules.waiting.limit == 420.0
    assert config.agents is not None
    assert [agent.rules.waiting.limit for agent in config.agents] == [180.0, 420.0]


def preset(name: str, kind: str, more: str = "") -> Rules:
    return entry(f"{{kind: {kind}, preset: {name}{more}}}")


def test_the_documented_numbers_of_the_presets() -> None:
    remote = preset("claude-remote-control", "claude-code")
    assert (remote.busy.limit, remote.waiting.limit, remote.idle_in_turn.limit) == (None, 300.0, 90.0)
    assert (remote.model_record.limit, remote.starting.limit) == (1200.0, 120.0)
    box = preset("kbc-box", "http", ", url: 'http://a'")
    assert box.idle == Limit(2100.0, "reap")
    sdk = preset("sdk-box", "http", ", url: 'http://a'")
    assert (sdk.model_delta, sdk.idle) == (Limit(90.0), Limit(1800.0, "reap"))
    assert {sdk.tool["*"], *sdk.tool.values()} == {Limit(660.0)}


def test_the_preset_named_like_the_kind_always_holds_below_the_file() -> None:
    assert entry("{kind: redcode}").model_record == Limit(600.0, "interrupt", 300.0)
    assert entry("{kind: redcode}").model_delta == Limit(600.0, "interrupt", 300.0)
    assert entry("{kind: redcode}", "{model: 30m}").model_record == Limit(1800.0)
    assert read("").found["redcode"].rules.model_record.limit == 600.0
    agents = read("agents: [{kind: redcode}]").agents
    assert agents is not None
    assert (agents[0].name, agents[0].preset) == ("redcode", None)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_sound_entry(name: str) -> None:
    kinds: dict[str, KindSpec] = {"x": Kind(settings=Files, presets={name: {}})}
    agents = load(f"agents: [{{kind: x, preset: {name}}}]", HOME, kinds).agents
    assert agents is not None
    assert agents[0].rules != Rules()


@pytest.mark.parametrize(
    "text",
    [
        "{model: {record: 60s}}",
        "{model: {delta: 5s}}",
        "{starting: 10s}",
        "{idle: 60s}",
        "{model: off, starting: off, idle: off}",
        "{unsafe: true, model: 500ms, starting: 1s, idle: 1s}",
        "{waiting: 1s, turn: 1s}",
    ],
)
def test_floors_hold_what_is_below_them_and_nothing_else(text: str) -> None:
    assert rules(text) != Rules()


def test_unsafe_is_inherited_and_can_be_taken_back() -> None:
    assert entry("{kind: claude-code, bounds: {idle: 1s}}", "{unsafe: true}").idle.limit == 1.0
    with pytest.raises(Exception, match=r"agents\.0\.bounds\.idle: 1s is below the floor"):
        entry("{kind: claude-code, bounds: {idle: 1s, unsafe: false}}", "{unsafe: true}")


def test_a_problem_of_the_common_bounds_is_told_once() -> None:
    with pytest.raises(Exception, match="floor") as caught:
        read("{bounds: {idle: 1s}, agents: [{kind: claude-code}, {kind: redcode}]}")
    problems: tuple[Any, ...] = caught.value.problems  # type: ignore[attr-defined]
    assert [problem.path for problem in problems] == ["bounds.idle"]
