"""One trace per turn: parents, times, status, and ids that a restart does not change."""

from collections import Counter

import pytest

from sidecar import signals as g
from sidecar.telemetry import ids
from sidecar.telemetry import names as n
from sidecar.telemetry.records import Link
from sidecar.telemetry.spans import Spans
from tests.telemetry.traced import named, root_of, watched
from tests.telemetry.world import WALL, World, prompt, scenario, sees


def test_a_turn_is_one_trace_with_its_parts_below_the_root() -> None:
    world = watched()
    scenario(world)
    root = root_of(world)
    assert root.trace == ids.trace_id("claude-code", "s1", "t1")
    assert root.id == ids.span_id("claude-code", "s1", "t1")
    assert root.parent is None
    assert (root.name, root.start, root.end) == ("invoke_agent claude-code", WALL + 1000, WALL + 1101)
    parts = [span for span in world.spans if span.trace == root.trace and span is not root]
    assert {span.parent for span in parts} == {root.id}
    assert [(span.name, span.start - WALL, span.end - WALL) for span in parts] == [
        ("chat claude-x-1", 1000, 1012),
        ("execute_tool Bash", 1012, 1052),
        ("chat claude-x-1", 1052, 1060),
        ("agent_sidecar.retrying", 1060, 1070),
        ("chat claude-x-1", 1070, 1071),
        ("agent_sidecar.waiting", 1071, 1100),
        ("chat claude-x-1", 1100, 1101),
    ]
    assert [span.kind for span in parts if span.name.startswith("chat")] == ["client"] * 4
    assert {span.kind for span in world.spans if not span.name.startswith("chat")} == {"internal"}


def test_attributes_follow_the_conventions() -> None:
    world = watched()
    scenario(world)
    root = root_of(world)
    assert root.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "claude-code",
        "gen_ai.agent.version": "2.1.0",
        "gen_ai.conversation.id": "s1",
        "gen_ai.request.model": "claude-x-1",
        "gen_ai.usage.input_tokens": 105,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "agent_sidecar.session.attended": False,
        "agent_sidecar.turn.id": "t1",
        "agent_sidecar.turn.outcome": "completed",
        "agent_sidecar.turn.tool_calls": 1,
        "agent_sidecar.phase_seconds.model": 22.0,
        "agent_sidecar.phase_seconds.tool": 40.0,
        "agent_sidecar.phase_seconds.retrying": 10.0,
        "agent_sidecar.phase_seconds.waiting": 29.0,
    }
    chat = named(world, "chat")[0]
    assert chat.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "claude-code",
        "gen_ai.conversation.id": "s1",
        "gen_ai.request.model": "claude-x-1",
        "gen_ai.usage.input_tokens": 105,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 5,
    }
    assert not any(key.startswith("gen_ai.usage") for key in named(world, "chat")[1].attributes)
    (tool,) = named(world, "execute_tool")
    assert tool.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.agent.name": "claude-code",
        "gen_ai.conversation.id": "s1",
        "gen_ai.tool.name": "Bash",
        "gen_ai.tool.call.id": "c1",
    }
    (waiting,) = named(world, n.WAITING)
    assert waiting.attributes["agent_sidecar.waiting_for"] == "permission"


def test_tokens_recorded_just_after_the_agent_said_idle_are_those_of_the_stretch_before() -> None:
    world = watched()
    world.see(sees(1000), prompt(1000), g.Progress(1010), g.Status(1012, "idle", 1012.0))
    assert not named(world, "chat")
    world.see(g.Used(1011.9, "claude-x-1", input=7, output=3), g.TurnEnded(1012, "completed"))
    (chat,) = named(world, "chat")
    assert (chat.start - WALL, chat.end - WALL) == (1000, 1012)
    assert chat.attributes[n.INPUT_TOKENS] == 7
    assert chat.attributes[n.OUTPUT_TOKENS] == 3


def test_a_stretch_that_the_agent_ended_by_its_word_is_sent_with_a_turn_that_dies() -> None:
    world = watched()
    world.see(sees(1000), prompt(1000), g.Status(1012, "idle", 1012.0), g.Unregistered(1020))
    assert [span.end - WALL for span in named(world, "chat")] == [1012]


def test_the_same_signals_give_the_same_spans_after_a_restart() -> None:
    runs = [watched(), watched()]
    for world in runs:
        scenario(world)
    assert runs[0].spans == runs[1].spans
    assert max(Counter(span.id for span in runs[0].spans).values()) == 1


def test_no_two_spans_share_an_id() -> None:
    world = watched()
    world.see(sees(1000), prompt(1000))
    for at in range(1010, 1100, 10):
        world.see(g.ToolStarted(at, f"c{at}", "Bash"), g.ToolEnded(at + 5, f"c{at}"))
    world.see(g.WaitStarted(1100, "x"), g.WaitEnded(1105), g.WaitStarted(1110, "x"), g.WaitEnded(1115))
    for at in (1150, 1300):  # warned, then judged
        world.judge(at)
        world.see(g.Progress(at + 1))
    world.see(g.TurnEnded(1400, "completed"))
    assert len(named(world, n.STALL)) == 2
    assert len({span.id for span in world.spans}) == len(world.spans)


def test_a_status_that_a_restart_does_not_see_shifts_no_later_id() -> None:
    def play(*, with_wait: bool) -> World:
        world = watched()
        world.see(sees(1000), prompt(1000))
        if with_wait:
            world.see(g.Status(1010, "waiting", 1010.0, "permission prompt"), g.Status(1020, "busy", 1020.0))
        world.see(g.ToolStarted(1030, "c1", "Bash"), g.ToolEnded(1040, "c1"), g.TurnEnded(1050, "completed"))
        return world

    live, again = play(with_wait=True), play(with_wait=False)
    assert named(live, "chat")[-1].id == named(again, "chat")[-1].id
    assert root_of(live).id == root_of(again).id


@pytest.mark.parametrize(
    ("outcome", "error"),
    [("completed", None), ("interrupted", None), ("abandoned", None), ("failed", "failed"), ("died", "died")],
)
def test_only_failures_are_errors(outcome: g.Outcome, error: str | None) -> None:
    world = watched()
    world.see(sees(1000), prompt(1000), g.TurnEnded(1010, outcome))
    root = root_of(world)
    assert root.error == error
    assert root.attributes.get("error.type") == error
    assert root.attributes["agent_sidecar.turn.outcome"] == outcome


def test_a_tool_that_never_answered_shares_its_turns_fate() -> None:
    world = watched()
    world.see(sees(1000), prompt(1000), g.ToolStarted(1001, "c1", "Bash"), g.TurnEnded(1010, "died"))
    (tool,) = named(world, "execute_tool")
    assert tool.attributes["agent_sidecar.tool.unfinished"] is True
    assert (tool.error, tool.end) == ("died", WALL + 1010)
    other = watched()
    other.see(sees(1000), prompt(1000), g.ToolStarted(1001, "c1", "Bash"), g.TurnEnded(1010, "interrupted"))
    assert named(other, "execute_tool")[0].error is None


def test_parallel_tools_have_spans_of_their_own() -> None:
    world = watched()
    world.see(sees(1000), prompt(1000), g.ToolStarted(1001, "a", "Read"), g.ToolStarted(1002, "b", "Grep"))
    world.see(g.ToolEnded(1005, "b"), g.ToolEnded(1009, "a"))
    spans = [(s.name, s.start - WALL, s.end - WALL) for s in named(world, "execute_tool")]
    assert spans == [("execute_tool Grep", 1002, 1005), ("execute_tool Read", 1001, 1009)]


def test_a_compaction_is_a_part() -> None:
    world = watched()
    world.see(sees(1000), prompt(1000), g.CompactionStarted(1003), g.CompactionEnded(1043))
    (span,) = named(world, n.COMPACTING)
    assert (span.start - WALL, span.end - WALL) == (1003, 1043)


def delegated(world: World, *calls: str) -> None:
    world.see(sees(1000), prompt(1000, "p"), session="parent")
    for call in calls:
        world.see(g.ToolStarted(1001, call, "Task", delegates=True), session="parent")
    world.see(sees(1002), g.Described(1002, parent="parent"), prompt(1002, "c"), session="child")


def test_a_subagent_links_to_the_call_that_waits_for_it() -> None:
    world = watched()
    delegated(world, "call-1")
    world.see(g.ToolEnded(1009, "call-1"), session="parent")
    world.see(g.TurnEnded(1010, "completed"), session="child")
    root = root_of(world)
    assert root.trace == ids.trace_id("claude-code", "child", "c")
    (call,) = [span for span in world.spans if span.name == "execute_tool Task"]
    assert root.links == (Link(call.trace, call.id),)
    assert root.attributes["agent_sidecar.session.parent"] == "parent"


def test_a_subagent_of_several_calls_links_to_the_turn() -> None:
    world = watched()
    delegated(world, "call-1", "call-2")
    world.see(g.TurnEnded(1010, "completed"), session="child")
    key = ("claude-code", "parent", "p")
    assert root_of(world).links == (Link(ids.trace_id(*key), ids.span_id(*key)),)


def test_a_subagent_whose_parent_is_not_seen_has_no_link() -> None:
    world = watched()
    world.see(g.Described(1002, parent="nowhere"), prompt(1002, "c"), g.TurnEnded(1003, "completed"))
    assert root_of(world).links == ()


def test_a_turn_whose_beginning_was_not_told_ends_in_full() -> None:
    world = World()
    world.see(sees(500), prompt(500))
    world.told.append(Spans(world, world.spans.append))
    world.see(g.TurnEnded(1010, "completed"))
    assert (root_of(world).start, root_of(world).end) == (WALL + 500, WALL + 1010)


def test_a_session_let_go_with_its_turn_open_still_gets_a_root() -> None:
    world = watched()
    world.see(sees(1000), prompt(1000))
    world.see(g.Closed(1500, "silent"))
    root = root_of(world)
    assert (root.end, root.attributes[n.TURN_OUTCOME]) == (WALL + 1000, "abandoned")


def test_names_that_could_be_content_are_not_taken_over() -> None:
    world = watched()
    world.see(
        sees(1000),
        prompt(1000),
        g.Used(1001, "<synthetic> text"),
        g.ToolStarted(1002, "c1", "rm -rf /home"),
        g.ToolEnded(1003, "c1"),
    )
    assert [span.name for span in world.spans] == ["chat", "execute_tool other"]


def test_ids_are_spread_and_never_zero() -> None:
    traces = {ids.trace_id("a", "s", str(number)) for number in range(1000)}
    assert len(traces) == 1000
    assert all(0 < trace < 2**128 for trace in traces)
    assert 0 < ids.span_id("a", "s", "t", "tool", "c") < 2**64
    assert ids.span_id("a", "s", "t", "x") != ids.span_id("a", "s", "tx")
    assert len(ids.hex_trace(1)) == 32
    assert len(ids.hex_span(1)) == 16
