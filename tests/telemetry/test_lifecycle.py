"""The lifecycle lines: which there are, what they say, and that a broken stdout breaks nothing."""

import errno
import json
import logging
import os
from io import StringIO
from typing import Any

import pytest

from sidecar import signals as g
from sidecar.limits import Limit, Rules
from sidecar.telemetry import ids
from sidecar.telemetry import names as n
from sidecar.telemetry.lifecycle import Lifecycle
from tests.telemetry.world import WALL, World, prompt, sees


class Heard:
    """A world whose lifecycle lines are read back."""

    def __init__(self, *, events: bool = False, progress: bool = False) -> None:
        self.world = World()
        self.world.limits = Rules(model_record=Limit(60), idle=Limit(600, "reap"))
        self.stream = StringIO()
        sink = self.world.events.append if events else None
        self.lifecycle = Lifecycle(self.world, self.stream, events=sink, progress=progress)
        self.world.told.append(self.lifecycle)

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        return [line for line in lines if event in (None, line["event"])]

    def names(self) -> list[str]:
        return [line["event"] for line in self.lines()]

    def stall(self) -> None:
        self.world.see(sees(1000), prompt(1000))
        self.world.judge(1030)
        self.world.judge(1060)
        self.world.see(
            g.Intended(1060, "interrupt", "t1", "model", "because"),
            g.TurnEnded(1061, "interrupted"),
            g.Acted(1061, "interrupt", "t1", "model", "effective", "model"),
        )

    def reap(self) -> None:
        self.world.judge(1661)
        self.world.see(
            g.Intended(1661, "reap", "t1", "idle", "idle long enough"),
            g.Acted(1662, "reap", "t1", "idle", "effective", "idle"),
            g.Unregistered(1663),
        )


TRACE = ids.hex_trace(ids.trace_id("claude-code", "s1", "t1"))
ROOT = ids.hex_span(ids.span_id("claude-code", "s1", "t1"))
COMMON = {"agent": "claude-code", "session": "s1", "parent": None}
TRACED = {"trace_id": TRACE, "span_id": ROOT}


def test_a_session_from_its_first_to_its_last_line() -> None:
    heard = Heard()
    heard.stall()
    heard.reap()
    reason = "no progress for 1m00s while waiting for the model, limit 1m00s (transcript; no status)"
    model = {"turn": "t1", "bound": "model"}
    idle = {"turn": "t1", "bound": "idle"}
    expected: list[tuple[int, str, dict[str, Any]]] = [
        (1000, "session.open", {"attended": False, "version": None}),
        (1000, "turn.start", {"turn": "t1"}),
        (1030, "turn.warned", model | {"reason": reason.replace("for 1m00s", "for 30s")}),
        (
            1060,
            "turn.stalled",
            model | {"action": "interrupt", "evidence": "transcript", "reason": reason} | TRACED,
        ),
        (1060, "action.intent", model | {"action": "interrupt", "reason": "because"} | TRACED),
        (
            1061,
            "turn.end",
            {"turn": "t1", "outcome": "stalled", "seconds": 61.0, "tool_calls": 0, "tokens": {}},
        ),
        (1061, "action.outcome", model | {"action": "interrupt", "outcome": "effective"} | TRACED),
        (
            1661,
            "turn.stalled",
            idle
            | {
                "action": "reap",
                "evidence": "transcript",
                "reason": "idle for 10m00s, limit 10m00s (transcript; no status)",
            }
            | TRACED,
        ),
        (1661, "action.intent", idle | {"action": "reap", "reason": "idle long enough"} | TRACED),
        (1662, "action.outcome", idle | {"action": "reap", "outcome": "effective"} | TRACED),
        (1662, "ttl.reap", idle | TRACED),
        (1663, "session.close", {"why": "unregistered"}),
    ]
    stamps = {
        at: f"2027-01-15T08:{(at // 60) % 60:02d}:{at % 60:02d}.000Z" for at, _, _ in expected
    }  # core time 0 is 08:00
    assert WALL == 1_800_000_000
    assert heard.lines() == [
        {"at": stamps[at], "event": event, **COMMON, **more} for at, event, more in expected
    ]


def test_every_line_is_in_the_table_and_every_entry_is_reached() -> None:
    heard = Heard(progress=True)
    heard.world.see(sees(900), prompt(900, "t0"), g.Progress(905), g.TurnEnded(906, "completed"))
    heard.stall()
    heard.world.see(g.SourceLost(1062, "transcript"), sees(1063), prompt(1064, "t2"))
    heard.lifecycle.tick(1130)
    heard.world.see(g.TurnEnded(1130, "completed"))
    heard.world.see(g.Acted(1662, "reap", "t1", "idle", "effective", "idle"), g.Unregistered(1663))
    assert set(heard.names()) == {*n.LINES}
    assert {*n.EVENTS} <= {*n.LINES}


def test_a_reap_by_a_person_is_no_ttl() -> None:
    heard = Heard()
    heard.world.see(sees(1000), prompt(1000), g.Acted(1001, "reap", "t1", None, "effective"))
    assert heard.names()[-1] == "action.outcome"
    heard.world.see(g.Acted(1001, "reap", "t1", "idle", "failed"))
    assert heard.names()[-1] == "action.outcome"


def test_sources_and_parents_are_named() -> None:
    heard = Heard()
    heard.world.see(g.Described(1000, parent="p1"), sees(1000), g.SourceLost(1001, "transcript"), sees(1002))
    lost, regained = heard.lines()[1:]
    assert (lost["event"], lost["source"], lost["parent"]) == ("source.lost", "transcript", "p1")
    assert (regained["event"], regained["source"]) == ("source.regained", "transcript")


def test_a_silence_is_spoken_of_at_growing_intervals_of_at_most_five_minutes() -> None:
    heard = Heard()
    heard.world.see(sees(1000), prompt(1000), g.Status(1000, "busy", 1000.0))
    heard.world.tick(heard.lifecycle.tick, 1000 + 1400)
    spoken = [(line["silence_seconds"], line["status"], line["phase"]) for line in heard.lines("silence")]
    assert [seconds for seconds, _, _ in spoken] == [60, 180, 420, 720, 1020, 1320]
    assert {(status, phase) for _, status, phase in spoken} == {("busy", "model")}
    assert heard.lines("silence")[0]["turn"] == "t1"


def test_speaking_of_a_silence_does_not_end_it_and_other_lines_do_not_hide_it() -> None:
    heard = Heard()
    heard.world.see(sees(1000), prompt(1000))
    heard.world.judge(1030)
    heard.world.tick(heard.lifecycle.tick, 1065)
    assert heard.names()[-2:] == ["turn.warned", "silence"]
    assert heard.world.by_id["s1"].silence(1065) == 65


def test_work_is_never_called_silence_and_begins_the_next_one_anew() -> None:
    heard = Heard()
    heard.world.see(sees(1000), prompt(1000))
    for at in range(1050, 1500, 50):
        heard.world.see(g.Progress(at))
        heard.lifecycle.tick(at + 49)
    assert "silence" not in heard.names()
    heard.world.tick(heard.lifecycle.tick, 1700)
    heard.world.see(g.Progress(1701))
    heard.world.tick(heard.lifecycle.tick, 1762)
    assert [line["silence_seconds"] for line in heard.lines("silence")] == [60, 180, 60]


def test_an_idle_session_is_not_silent() -> None:
    heard = Heard()
    heard.world.see(sees(1000), prompt(1000), g.TurnEnded(1001, "completed"))
    heard.world.tick(heard.lifecycle.tick, 2000, step=10)
    assert "silence" not in heard.names()


def test_progress_is_told_only_on_request() -> None:
    quiet, chatty = Heard(), Heard(progress=True)
    for heard in (quiet, chatty):
        heard.world.see(sees(1000), prompt(1000), g.Progress(1010))
    assert "turn.progress" not in quiet.names()
    (line,) = chatty.lines("turn.progress")
    assert (line["turn"], line["phase"], line["silence_seconds"]) == ("t1", "model", 10)


def test_verdicts_and_acts_go_to_the_collector_or_to_stdout_not_both() -> None:
    heard = Heard(events=True)
    heard.stall()
    heard.reap()
    assert not set(heard.names()) & set(n.EVENTS)
    assert [event.name for event in heard.world.events] == [
        "agent_sidecar.turn.stalled",
        "agent_sidecar.action",
        "agent_sidecar.action",
        "agent_sidecar.turn.stalled",
        "agent_sidecar.action",
        "agent_sidecar.action",
        "agent_sidecar.session.reaped",
    ]
    stalled = heard.world.events[0]
    assert (stalled.at, stalled.severity) == (WALL + 1060, "warn")
    assert stalled.trace == ids.trace_id("claude-code", "s1", "t1")
    assert stalled.span == ids.span_id("claude-code", "s1", "t1")
    assert stalled.attributes == {
        "gen_ai.agent.name": "claude-code",
        "gen_ai.conversation.id": "s1",
        "agent_sidecar.turn.id": "t1",
        "agent_sidecar.bound.name": "model",
        "agent_sidecar.action.name": "interrupt",
        "agent_sidecar.evidence": "transcript",
        "agent_sidecar.reason": stalled.attributes["agent_sidecar.reason"],
    }
    assert stalled.text == stalled.attributes["agent_sidecar.reason"]
    assert [event.text for event in heard.world.events[1:3]] == ["because", "interrupt: effective"]
    assert heard.world.events[-1].text == "ttl.reap"
    outcome = heard.world.events[2]
    assert outcome.attributes["agent_sidecar.action.outcome"] == "effective"
    assert outcome.severity == "info"


def test_what_no_collector_took_is_told_as_the_line_it_took_the_place_of() -> None:
    told, sent = Heard(), Heard(events=True)
    for heard in (told, sent):
        heard.stall()
    for event in sent.world.events:
        sent.lifecycle.undelivered(event)
    events = [line for line in told.lines() if line["event"] in n.EVENTS]
    assert [line for line in sent.lines() if line["event"] in n.EVENTS] == events
    assert len(events) == 3


@pytest.mark.parametrize("outcome", ["failed", "ineffective", "held"])
def test_an_act_that_did_not_work_is_a_warning(outcome: g.ActOutcome) -> None:
    heard = Heard(events=True)
    heard.world.see(sees(1000), prompt(1000), g.Acted(1001, "interrupt", "t1", "model", outcome))
    assert heard.world.events[0].severity == "warn"


class Breaking(StringIO):
    """A stream that fails while `error` is set."""

    error: Exception | None = None

    def flush(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    "error",
    [
        BrokenPipeError(errno.EPIPE, "Broken pipe"),
        OSError(errno.ENOSPC, "No space left on device"),
        ValueError("I/O operation on closed file"),
    ],
)
def test_a_broken_stdout_is_counted_and_tried_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    stream = Breaking()
    lifecycle = Lifecycle(world, stream)
    world.told.append(lifecycle)
    stream.error = error
    with caplog.at_level(logging.WARNING):
        world.see(sees(1000), prompt(1000))
    assert lifecycle.lost == 2
    assert [record.message for record in caplog.records] == [
        f"lifecycle lines cannot be written: {type(error).__name__}"
    ]
    stream.error = None
    world.see(g.TurnEnded(1001, "completed"))
    assert lifecycle.lost == 2
    assert '"turn.end"' in stream.getvalue()


def test_a_pipe_nobody_reads_any_more_raises_nothing() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream:
        world = World()
        lifecycle = Lifecycle(world, stream)
        world.told.append(lifecycle)
        world.see(sees(1000))
        os.close(read)
        world.see(prompt(1001), g.TurnEnded(1002, "completed"))
        assert lifecycle.lost == 2
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - what is buffered has to go somewhere
            os.dup2(nowhere.fileno(), write)


def test_ids_that_are_no_text_are_written_all_the_same() -> None:
    heard = Heard()
    heard.world.see(sees(1000), prompt(1000, "t\udcff\n1"), session="s\udc80")
    assert [line["session"] for line in heard.lines()] == ["s?", "s?"]
    assert heard.lines()[1]["turn"] == "t?\n1"
    assert heard.lifecycle.lost == 0
