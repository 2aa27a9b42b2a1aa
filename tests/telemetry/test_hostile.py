"""What no agent should do, and some will: ends before beginnings, ids of any kind, clocks that jump."""

import pytest

from sidecar import changes as c
from sidecar import signals as g
from sidecar.session import Session, Turn
from sidecar.telemetry import ids
from sidecar.telemetry import names as n
from sidecar.telemetry.liveness import Liveness
from tests.telemetry.scraped import told, value
from tests.telemetry.traced import named, root_of, watched
from tests.telemetry.world import WALL, World, prompt, sees


def test_an_end_before_its_beginning_is_no_negative_time() -> None:
    world = watched()
    metrics = told(world)
    turn = Turn("t1", 1000.0, ended_at=900.0)
    turn.outcome = "completed"
    session = Session("claude-code", "s1", 1000.0, turn=turn)
    world.by_id["s1"] = session
    for change in (
        c.GapClosed(900.0, "model", -100.0, 1000.0, turn),
        c.ToolClosed(900.0, "c", "Bash", 1000.0, turn, unfinished=False),
        c.PhaseLeft(900.0, "model", 1000.0, "idle", turn, None, None),
        c.TurnClosed(900.0, turn),
    ):
        world.tell(session, change)
    assert [span.name for span in world.spans] == ["execute_tool Bash", "invoke_agent claude-code"]
    assert {(span.start, span.end) for span in world.spans} == {(WALL + 1000, WALL + 1000)}
    for name in ("ai_agent_turn_duration_seconds", "ai_agent_tool_duration_seconds"):
        assert value(metrics, f"{name}_sum") == 0
        assert value(metrics, f"{name}_count") == 1
    assert value(metrics, "ai_agent_silence_gap_seconds_sum", phase="model") == 0
    assert value(metrics, "ai_agent_phase_seconds_total", phase="model") == 0


@pytest.mark.parametrize(
    "turn", ["x" * 10_240, "\N{SNOWMAN}" * 3000, "t\0\n\x1b[31m", "t\udcff", "", "../../etc"]
)
def test_a_turn_may_be_called_anything(turn: str) -> None:
    world = watched()
    metrics = told(world)
    world.see(sees(1000), prompt(1000, turn), g.ToolStarted(1001, turn, "Bash"), g.ToolEnded(1002, turn))
    world.see(g.TurnEnded(1003, "completed"))
    root = root_of(world)
    assert root.trace == ids.trace_id("claude-code", "s1", turn)
    shown = root.attributes[n.TURN_ID]
    assert isinstance(shown, str)
    assert len(shown.encode()) <= 4096
    assert [span.attributes[n.TOOL_CALL] for span in named(world, n.EXECUTE_TOOL)] == [shown]
    assert value(metrics, "ai_agent_turns_total", outcome="completed") == 1
    assert metrics.render("application/openmetrics-text")[0].endswith(b"# EOF\n")


def test_two_turns_that_begin_alike_have_traces_of_their_own() -> None:
    world = watched()
    for end in "ab":
        world.see(sees(1000), prompt(1000, "x" * 5000 + end), g.TurnEnded(1001, "completed"))
    assert len({span.trace for span in named(world, n.INVOKE_AGENT)}) == 2


@pytest.mark.parametrize("step", [-7200.0, 7200.0])
def test_a_step_of_the_wall_clock_moves_spans_and_stretches_none(
    step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = watched()
    liveness = Liveness(world, world.spans.append)
    world.see(sees(1000), prompt(1000))
    world.clock.at = 1060
    liveness.tick(1060)
    monkeypatch.setattr(world.clock, "wall", lambda core: core + WALL + step)
    world.clock.at = 1180
    liveness.tick(1180)
    world.see(g.TurnEnded(1200, "completed"))
    assert [round(span.end - span.start) for span in named(world, n.LIVENESS)] == [60, 120]
    assert (root_of(world).end, root_of(world).start) == (WALL + 1200 + step, WALL + 1000 + step)
    assert len({span.trace for span in world.spans}) == 1
    assert len({span.id for span in world.spans}) == len(world.spans)


def test_a_thousand_turns_that_hang_are_each_seen_once() -> None:
    world = World()
    liveness = Liveness(world, world.spans.append)
    for number in range(1000):
        world.see(sees(1000), prompt(1000, f"t{number}"), session=f"s{number}")
    world.clock.at = 1060
    liveness.tick(1060)
    assert len({span.trace for span in world.spans}) == 1000
    for _ in range(20):
        liveness.tick(1061)
    assert len(world.spans) == 1000, "and not again before the next is due"
    for number in range(1000):
        world.see(g.TurnEnded(1063, "completed"), session=f"s{number}")
    liveness.tick(1064)
    assert liveness._cadences == {}


def test_an_exemplar_is_within_what_openmetrics_allows() -> None:
    world = World()
    metrics = told(world)
    world.see(sees(1000), prompt(1000, "x" * 10_240), g.TurnEnded(1003, "completed"))
    body = metrics.render("application/openmetrics-text")[0].decode()
    exemplars = [line.partition(" # ")[2] for line in body.splitlines() if " # {" in line]
    assert exemplars
    for exemplar in exemplars:
        labels = exemplar[1 : exemplar.index("}")].split(",")
        assert sum(len(part) for label in labels for part in label.replace('"', "").split("=")) <= 128
    assert all("_bucket{" in line for line in body.splitlines() if " # {" in line)
    assert " # {" not in metrics.render("text/plain")[0].decode()
