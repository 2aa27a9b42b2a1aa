"""Stalls: the silences that a bound spoke of, and how turns we ended look."""

from sidecar import signals as g
from sidecar.telemetry import names as n
from tests.telemetry.traced import named, root_of, watched
from tests.telemetry.world import WALL, World, prompt, sees


def stalled_turn() -> World:
    world = watched()
    world.see(sees(1000), prompt(1000), g.ToolStarted(1005, "c1", "Bash"), g.ToolEnded(1010, "c1"))
    world.judge(1040)
    world.judge(1071)
    world.see(
        g.Intended(1071, "interrupt", "t1", "model", "a reason"),
        g.TurnEnded(1072, "interrupted"),
        g.Acted(1072, "interrupt", "t1", "model", "effective", "model"),
    )
    return world


def test_a_turn_that_we_ended_is_stalled_and_says_why() -> None:
    world = stalled_turn()
    root = root_of(world)
    assert (root.error, root.attributes["error.type"]) == ("stalled", "stalled")
    assert (
        root.reason
        == "no progress for 1m01s while waiting for the model, limit 1m00s (transcript; no status)"
    )
    (stall,) = named(world, n.STALL)
    assert (stall.start - WALL, stall.end - WALL, stall.parent) == (1010, 1072, root.id)
    assert stall.error == "stalled"
    assert stall.attributes["agent_sidecar.bound.name"] == "model"
    assert stall.attributes["agent_sidecar.stall.tripped"] is True
    assert stall.attributes["agent_sidecar.stall.ended_by"] == "stalled"
    assert stall.attributes["agent_sidecar.silence_seconds"] == 62


def test_a_stall_ends_with_the_next_progress() -> None:
    world = watched()
    world.see(sees(1000), prompt(1000), g.Progress(1002))
    world.judge(1035)
    world.see(g.Progress(1041), g.Progress(1050))
    (stall,) = named(world, n.STALL)
    assert (stall.start - WALL, stall.end - WALL) == (1002, 1041)
    assert stall.error is None
    assert stall.attributes["agent_sidecar.stall.tripped"] is False
    assert stall.attributes["agent_sidecar.stall.ended_by"] == "progress"


def test_silence_that_no_bound_spoke_of_is_no_stall() -> None:
    world = watched()
    world.see(sees(1000), prompt(1000), g.Progress(1029), g.TurnEnded(1030, "completed"))
    assert not named(world, n.STALL)


def test_a_stall_lasts_until_its_turn_was_given_up_even_if_that_is_dated_back() -> None:
    world = watched()
    world.see(sees(1000), prompt(1000), g.Progress(1002), g.Status(1003, "idle", 1003.0))
    world.judge(1093)
    world.see(g.Acted(1093, "report", "t1", "idle_in_turn", "reported", "idle_in_turn"))
    (stall,) = named(world, n.STALL)
    assert (stall.start - WALL, stall.end - WALL) == (1002, 1093)
    assert stall.attributes["agent_sidecar.stall.ended_by"] == "abandoned"
    assert root_of(world).end == WALL + 1002


def test_a_later_warning_does_not_make_less_of_a_verdict() -> None:
    world = watched()
    world.see(sees(1000), prompt(1000))
    world.judge(1061)
    world.see(g.Warned(1070, "turn", "turn", "half of it"), g.Progress(1080))
    (stall,) = named(world, n.STALL)
    assert stall.attributes["agent_sidecar.bound.name"] == "model"
    assert stall.attributes["agent_sidecar.stall.tripped"] is True
