"""The table of names against what is really sent: nothing outside it, and nothing in it that never comes."""

from collections import defaultdict
from collections.abc import Mapping
from io import StringIO

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as published

from sidecar import signals as g
from sidecar.session import PHASES
from sidecar.telemetry import names as n
from sidecar.telemetry.lifecycle import Lifecycle
from sidecar.telemetry.liveness import Liveness
from sidecar.telemetry.spans import Spans
from tests.telemetry.world import World, prompt, scenario, sees


def everything() -> World:
    """A world in which every span and every event is sent once, each attribute of it included."""
    world = World()
    liveness = Liveness(world, world.spans.append)
    world.told += [Spans(world, world.spans.append), Lifecycle(world, StringIO(), events=world.events.append)]
    scenario(world)
    world.see(
        sees(4000),
        g.Described(4000, version="1", parent="s2"),
        prompt(4000),
        g.Used(4001, "m", input=1, output=1, cache_read=1, cache_write=1),
        g.CompactionStarted(4002),
        g.CompactionEnded(4003),
        g.Status(4004, "busy", 4004.0),
        g.ToolStarted(4005, "c", "Bash"),
        session="child",
    )
    world.clock.at = 4100
    liveness.tick(4100)
    world.see(g.ToolEnded(4101, "c"), g.ToolStarted(4102, "d", "Edit"), session="child")
    world.judge(4102 + 900, "child")
    world.see(
        g.Intended(5010, "interrupt", "t1", "tool", "why"),
        g.TurnEnded(5010, "interrupted"),
        g.Acted(5010, "interrupt", "t1", "tool", "effective", "tool"),
        session="child",
    )
    world.see(
        g.Intended(9000, "reap", None, "idle", "why"),
        g.Acted(9000, "reap", None, "idle", "effective", "idle"),
        session="child",
    )
    return world


def keys(attributes: Mapping[str, object]) -> set[str]:
    """Attributes by their names in the table, which holds the one for phases once."""
    assert {k for k in attributes if k.startswith(n.PHASE_TIME)} <= {n.PHASE_TIME + p for p in PHASES}
    return {n.PHASE_TIME if key.startswith(n.PHASE_TIME) else key for key in attributes}


def test_every_span_and_event_carries_what_the_table_says_and_no_more() -> None:
    world = everything()
    sent: defaultdict[str, set[str]] = defaultdict(set)
    told = [(x.name, x.attributes) for x in world.spans] + [(x.name, x.attributes) for x in world.events]
    for name, attributes in told:
        found = keys(attributes)
        assert found >= {*n.EVERYWHERE}, name
        sent[name.split(" ")[0]] |= found - {*n.EVERYWHERE}
    assert sent == {name: {*carried} for name, carried in n.CARRIES.items()}


def test_the_table_names_each_span_and_each_event() -> None:
    assert {*n.EVENTS.values()} < {*n.CARRIES}
    for name in n.CARRIES:
        ours = name.startswith("agent_sidecar.")
        assert ours or name in {item.value for item in published.GenAiOperationNameValues}, name


def test_names_are_those_of_the_conventions_or_our_own() -> None:
    known = {getattr(published, name) for name in dir(published) if name.startswith("GEN_AI_")}
    used = {*n.EVERYWHERE, *(name for carried in n.CARRIES.values() for name in carried)}
    foreign = {name for name in used if not name.startswith("agent_sidecar.")}
    assert foreign - known == {n.ERROR_TYPE, n.CACHE_WRITE_TOKENS}, "the second: newer than the package"
    assert n.CACHE_WRITE_TOKENS in n.DEVIATIONS


def test_what_the_table_says_is_never_sent_is_not() -> None:
    never = {name for name, why in n.DEVIATIONS.items() if why.startswith("never sent")}
    used = {*n.EVERYWHERE, *(name for carried in n.CARRIES.values() for name in carried)}
    assert len(never) == 3
    assert not never & (used | {metric.name for metric in n.METRICS})
    assert {*n.DEVIATIONS} - never <= used | {*n.CARRIES}
