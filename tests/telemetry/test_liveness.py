"""A silent turn shows itself while it is silent, less and less often; a working one never does."""

from itertools import pairwise

from sidecar import signals as g
from sidecar.telemetry import ids
from sidecar.telemetry import names as n
from sidecar.telemetry.cadence import Cadence
from sidecar.telemetry.liveness import Liveness
from tests.telemetry.world import WALL, World, prompt, sees


def silent() -> tuple[World, Liveness]:
    world = World()
    liveness = Liveness(world, world.spans.append)
    world.see(sees(1000), prompt(1000))
    return world, liveness


def times(world: World) -> list[tuple[float, float]]:
    return [(span.start - WALL, span.end - WALL) for span in world.spans]


def test_the_first_comes_after_a_minute_then_at_doubling_intervals_up_to_ten_minutes() -> None:
    world, liveness = silent()
    world.tick(liveness.tick, 1000 + 3600)
    marks = [1000, 1060, 1180, 1420, 1900, 2500, 3100, 3700, 4300]
    assert times(world) == list(pairwise(marks))


def test_each_is_a_child_of_the_root_that_will_come() -> None:
    world, liveness = silent()
    world.see(g.Status(1001, "busy", 1001.0))
    world.tick(liveness.tick, 1060)
    (span,) = world.spans
    key = ("claude-code", "s1", "t1")
    assert (span.name, span.trace, span.parent) == (n.LIVENESS, ids.trace_id(*key), ids.span_id(*key))
    assert span.error is None
    assert span.attributes == {
        "gen_ai.agent.name": "claude-code",
        "gen_ai.conversation.id": "s1",
        "agent_sidecar.turn.id": "t1",
        "agent_sidecar.phase": "model",
        "agent_sidecar.status": "busy",
        "agent_sidecar.silence_seconds": 60.0,
        "agent_sidecar.bound.name": "model",
        "agent_sidecar.bound.remaining_seconds": 2640.0,
    }


def test_progress_begins_a_silence_anew() -> None:
    world, liveness = silent()
    world.tick(liveness.tick, 1070)
    world.see(g.Progress(1071))
    world.tick(liveness.tick, 1200)
    assert times(world) == [(1000, 1060), (1071, 1131)]


def test_presence_does_not() -> None:
    world, liveness = silent()
    for at in range(1001, 1181):
        world.see(g.Presence(at), g.Status(at, "busy", float(at)))
        liveness.tick(at)
    assert times(world) == [(1000, 1060), (1060, 1180)]


def test_a_working_turn_and_an_idle_session_cost_nothing() -> None:
    world, liveness = silent()
    for at in range(1010, 2000, 50):
        world.see(g.Progress(at))
        liveness.tick(at + 40)
    world.see(g.TurnEnded(2000, "completed"))
    world.tick(liveness.tick, 9000, step=60)
    assert world.spans == []


def test_a_late_tick_sends_one_span_for_all_that_passed() -> None:
    world, liveness = silent()
    world.clock.at = 2000
    liveness.tick(2000)
    liveness.tick(2001)
    assert times(world) == [(1000, 2000)]


def test_a_turn_whose_beginning_was_not_told_is_seen_all_the_same() -> None:
    world = World()
    world.see(sees(100), prompt(100))
    liveness = Liveness(world, world.spans.append)
    world.tick(liveness.tick, 1001)
    assert times(world) == [(100, 1001)]


def test_a_restart_repeats_no_id() -> None:
    world, liveness = silent()
    world.tick(liveness.tick, 1180)
    again = Liveness(world, world.spans.append)
    world.tick(again.tick, 1300)
    world.see(g.Progress(1301))
    world.tick(again.tick, 1361)
    assert len({span.id for span in world.spans}) == len(world.spans) == 4


def test_the_tick_tells_when_the_next_one_is_due() -> None:
    world, liveness = silent()
    assert liveness.tick(1001) == 1060
    assert liveness.tick(1060) == 1180
    world.see(g.TurnEnded(1061, "completed"))
    assert liveness.tick(1062) is None


def test_the_first_interval_can_be_set() -> None:
    world, _ = silent()
    liveness = Liveness(world, world.spans.append, after=5)
    world.tick(liveness.tick, 1040)
    assert times(world) == [(1000, 1005), (1005, 1015), (1015, 1035)]


def test_a_cadence_knows_what_was_said_apart_from_what_was_done() -> None:
    cadence = Cadence(first=60, most=300)
    assert cadence.due(100) == 160
    assert cadence.speak(160) == 100
    assert cadence.due(100) == 280
    assert cadence.due(200) == 260


def test_switched_off_it_never_speaks() -> None:
    world = World()
    liveness = Liveness(world, world.spans.append, after=float("inf"))
    world.see(sees(1000), prompt(1000))
    assert liveness.tick(1e6) == float("inf")
    assert world.spans == []
