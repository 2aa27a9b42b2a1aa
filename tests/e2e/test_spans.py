"""A turn of the real Claude Code that hangs, as a collector sees it: while it hangs, and when it is over."""

from __future__ import annotations

import signal
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from sidecar.telemetry import ids
from sidecar.telemetry.names import EVENTS
from tests.e2e.claude import Claude, prompt
from tests.e2e.process import Json, until
from tests.e2e.receiver import Receiver, Span, receiving
from tests.e2e.sidecar import Sidecar, free_port
from tests.e2e.test_main_job import at, control, hosted

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = "invoke_agent claude-code"
LIVENESS = "agent_sidecar.liveness"
STALL = "agent_sidecar.stall"
TOOL = "execute_tool Bash"
SCRIPT = "[[bash echo one;;blackhole]]"
GONE = 5.0  # seconds that a terminated sidecar has, its last push included


@pytest.fixture(params=["http", "grpc"])
def collector(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    with receiving(request.param) as receiver:
        yield receiver


def telling(claude: Claude, collector: Receiver) -> Sidecar:
    """A sidecar that speaks of a silence after a second, and sends at once what it has to say."""
    telemetry = {"otlp": collector.settings, "liveness_after": "1s"}
    sidecar = Sidecar(claude, control(claude), bounds={"model": "8s"}, telemetry=telemetry)
    sidecar.env["OTEL_BSP_SCHEDULE_DELAY"] = "100"
    return sidecar


def of_turn(spans: list[Span], line: Json) -> list[Span]:
    """The spans of a lifecycle line's turn: its trace id says which."""
    trace = ids.hex_trace(ids.trace_id("claude-code", line["session"], line["turn"]))
    return [span for span in spans if span.trace == trace]


def check(spans: list[Span]) -> Span:
    """One trace, one root, everything else directly below it and within its time; returns the root."""
    (root,) = [span for span in spans if span.name == ROOT]
    assert root.parent == ""
    assert len({span.id for span in spans}) == len(spans)
    for span in spans:
        assert span.trace == root.trace
        assert span is root or span.parent == root.id, span.name
        # The turn's own record dates its end; what saw it first is a moment later, and a sign of life
        # may be sent before anything was seen of it.
        late = 1e9 if span.name == LIVENESS else 1e8
        assert root.start <= span.start + 1e6, span.name
        assert span.start <= span.end <= root.end + late, span.name
    return root


def test_a_stalled_turn_is_one_trace_that_begins_to_arrive_while_it_hangs(
    claude: Claude, collector: Receiver
) -> None:
    with telling(claude, collector) as sidecar:
        conversation = hosted(claude)
        conversation.send(prompt(SCRIPT))
        silent = collector.span(LIVENESS)
        turn = sidecar.session()["turn"]
        assert turn["ended_at"] is None, "it hangs still"
        assert collector.spans(ROOT) == []
        assert silent.attributes["agent_sidecar.phase"] == "model"
        silence = silent.attributes["agent_sidecar.silence_seconds"]
        assert 1 <= silence < 5, "a new file is found within seconds"
        assert silent.attributes["agent_sidecar.bound.name"] == "model"
        assert silent.attributes["agent_sidecar.bound.remaining_seconds"] == pytest.approx(
            8 - silence, abs=0.1
        )
        ended = sidecar.expect("turn.end", outcome="stalled")
        started = sidecar.expect("turn.start")
        collector.span(ROOT)
        assert collector.pushes == 0, "metrics come every minute, and at the end"
        asked = time.monotonic()
        assert sidecar.stop(signal.SIGTERM) == 0
        assert time.monotonic() - asked < GONE
    spans = of_turn(collector.spans(), ended)
    assert len(spans) == len(collector.spans()), "nothing but this turn"
    root = check(spans)
    assert root.start / 1e9 == pytest.approx(at(started), abs=0.002)
    assert (root.end - root.start) / 1e9 == pytest.approx(ended["seconds"], abs=0.1)
    assert silent.parent == root.id
    names = sorted(span.name.partition(" ")[0] for span in spans if span.name != LIVENESS)
    assert names == [STALL, "chat", "chat", "execute_tool", "invoke_agent"]
    signs = collector.spans(LIVENESS)
    assert len(signs) >= 2
    gaps = [after.start - before.end for before, after in pairwise(signs)]
    assert gaps == pytest.approx([0] * len(gaps), abs=1e6), "each goes on from where the last one ended"
    assert collector.span(TOOL).attributes["gen_ai.tool.name"] == "Bash"
    assert {span.name for span in spans if span.failed} == {ROOT, STALL}
    assert root.attributes["error.type"] == "stalled"
    assert root.attributes["gen_ai.conversation.id"] == ended["session"]
    assert root.attributes["gen_ai.usage.input_tokens"] == ended["tokens"]["input"] == 10
    assert root.reason.startswith("no progress for 8")
    stall = collector.span(STALL)
    assert (stall.end - stall.start) / 1e9 == pytest.approx(8, abs=1)
    assert stall.attributes["agent_sidecar.stall.tripped"]
    told_of(collector, root)
    assert not sidecar.events("turn.stalled"), "told to the collector, not twice"


def told_of(collector: Receiver, root: Span) -> None:
    """The verdict, the intent and its outcome as events in the trace; the numbers in a last push."""
    assert [event.name for event in collector.events()] == [
        "agent_sidecar.turn.stalled",
        "agent_sidecar.action",
        "agent_sidecar.action",
    ]
    assert {(event.trace, event.span) for event in collector.events()} == {(root.trace, root.id)}
    assert collector.events()[-1].attributes["agent_sidecar.action.outcome"] == "effective"
    assert collector.events()[0].attributes["agent_sidecar.reason"] == root.reason
    stalled, intent, outcome = collector.events()
    assert [event.severity for event in (stalled, intent, outcome)] == ["WARN", "INFO", "INFO"]
    assert (stalled.body, outcome.body) == (root.reason, "interrupt: effective")
    assert root.start < stalled.at <= intent.at <= outcome.at
    assert stalled.resource["service.name"] == "agent-sidecar"
    assert stalled.resource["process.runtime.name"] == "cpython"
    assert collector.pushes == 1
    agent = {"agent": "claude-code"}
    assert collector.value("ai_agent_turns_total", **agent, outcome="stalled") == 1
    assert collector.value("ai_agent_verdicts_total", **agent, bound="model", evidence="stream") == 1
    assert collector.value("ai_agent_actions_total", **agent, action="interrupt", outcome="effective") == 1
    assert collector.value("ai_agent_tool_calls_total", **agent, tool="Bash") == 1
    assert collector.value("agent_sidecar_spans_total", outcome="failed") == 0


def test_a_sidecar_killed_while_a_turn_hangs_goes_on_with_the_same_trace(
    claude: Claude, collector: Receiver
) -> None:
    with telling(claude, collector) as sidecar:
        conversation = hosted(claude)
        conversation.send(prompt(SCRIPT))
        collector.span(LIVENESS)
        sidecar.stop(signal.SIGKILL)
        before = collector.spans()
        sidecar.start()
        ended = sidecar.expect("turn.end", outcome="stalled")
        collector.span(ROOT)
        sidecar.stop(signal.SIGTERM)
    spans = of_turn(collector.spans(), ended)
    assert len(spans) == len(collector.spans()), "the same trace, before and after"
    root = check(spans)
    assert {span.parent for span in before} == {root.id}
    assert {LIVENESS, TOOL} <= {span.name for span in before}
    assert [span.name for span in spans].count(TOOL) == 1, "what was sent is not sent again"
    assert [span.name for span in spans].count(STALL) == 1
    assert root.attributes["error.type"] == "stalled"
    until(lambda: len(collector.events("agent_sidecar.turn.stalled")) == 1, "one verdict")


def test_a_collector_that_is_not_there_keeps_nothing_from_being_done_or_told(claude: Claude) -> None:
    telemetry = {"otlp": {"endpoint": f"http://127.0.0.1:{free_port()}"}, "liveness_after": "1s"}
    sidecar = Sidecar(claude, control(claude), telemetry=telemetry)
    sidecar.env["OTEL_BSP_SCHEDULE_DELAY"] = "100"
    with sidecar:
        conversation = hosted(claude)
        conversation.send(prompt("[[bash echo one;;blackhole]]"))
        sidecar.expect("turn.end", outcome="stalled")
        until(lambda: sidecar.session()["phase"] == "idle", "the turn is over")
        asked = time.monotonic()
        assert sidecar.stop(signal.SIGTERM) == 0
        assert time.monotonic() - asked < GONE
    told = [line["event"] for line in sidecar.events() if line["event"] in EVENTS]
    assert sorted(told) == ["action.intent", "action.outcome", "turn.stalled"]
    (verdict,) = sidecar.events("turn.stalled")
    assert verdict["reason"].startswith("no progress for 5")
    assert len(verdict["trace_id"]) == 32
