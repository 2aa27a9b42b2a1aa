"""What has gone wrong for others who watch agents, each as a small input: transcripts, folders, signals.

Every test is named after what has to hold. Many more faults of these kinds are rows of the tables in the tests
of the policy, of the session and of the transcript; here are those that take more than one part to show.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from sidecar import changes as c
from sidecar import signals as g
from sidecar.agents.claude_code.adapter import ClaudeCode, Settings
from sidecar.agents.claude_code.recording import Recording
from sidecar.clock import LiveClock
from sidecar.limits import Limit, Rules
from sidecar.replay import Replay
from tests.agents.claude_code.homes import WALL, Home, Script
from tests.stories import (
    HOUR,
    MIN,
    RULES,
    block,
    delta,
    end,
    of,
    prompt,
    result,
    status,
    story,
    told,
    tool,
    up,
    verdicts,
)

if TYPE_CHECKING:
    from pathlib import Path

REAPS = replace(RULES, idle=Limit(30 * MIN, "reap"))


class Told:
    """A replay of a folder of transcripts, and all that was said in it."""

    def __init__(self, home: Home, more: float = 0.0, rules: Rules = RULES) -> None:
        """`more`: seconds after the last record."""
        self.changes: list[tuple[str, c.Change]] = []
        replay = Replay("claude-code", rules)
        replay.fleet.listeners.append(lambda session, change: self.changes.append((session.id, change)))
        replay.run(Recording([home.root]).observations(), lambda last: last + more)
        self.sessions = {shown["session"]: shown for shown in replay.shown()}

    def only(self) -> dict[str, Any]:
        (shown,) = self.sessions.values()
        return shown

    def verdicts(self) -> list[tuple[str, str]]:
        given = of((change for _, change in self.changes), c.VerdictGiven)
        return [(x.verdict.bound, x.verdict.action) for x in given]

    def warnings(self) -> list[str]:
        return [x.bound for x in of((change for _, change in self.changes), c.WarningGiven)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "claude")


# Healthy turns that look stalled.


def test_a_run_of_subagents_of_42_minutes_is_neither_warned_of_nor_judged(home: Home) -> None:
    script = home.session().prompt(43 * MIN).calls("Agent", ago=42 * MIN)
    child = script.subagent("a1").prompt(42 * MIN, promptSource=None)
    for minute in range(40, 0, -2):
        child.says(minute * MIN, stop="tool_use")
    child.says(10)
    script.result(ago=9).says(5)
    seen = Told(home)
    assert (seen.verdicts(), seen.warnings()) == ([], [])
    assert seen.sessions[script.id]["turns"]["completed"] == 1


def test_a_stalled_turn_is_warned_of_once_and_judged_once(home: Home) -> None:
    home.session().prompt(0)
    seen = Told(home, 6 * HOUR)
    assert (seen.warnings(), seen.verdicts()) == (["model"], [("model", "interrupt")])


def test_a_subagent_that_has_left_no_trace_yet_is_waited_for(home: Home) -> None:
    home.session().prompt(5).calls("Agent", ago=0)
    seen = Told(home, 2 * HOUR)
    assert (seen.only()["phase"], seen.only()["bound"], seen.verdicts()) == ("delegated", None, [])


def test_a_subagent_in_a_slow_tool_is_bounded_neither_itself_nor_through_its_parent(home: Home) -> None:
    script = home.session().prompt(10).calls("Agent", ago=9)
    script.subagent("a1").prompt(8, promptSource=None).calls("Bash", "x1", ago=0)
    seen = Told(home, 2 * HOUR)
    assert {s["phase"] for s in seen.sessions.values()} == {"delegated", "tool"}
    assert (seen.verdicts(), seen.warnings()) == ([], [])


def test_a_subagent_that_hangs_on_the_model_ends_the_turn_that_waits_for_it(home: Home) -> None:
    script = home.session().prompt(10).calls("Agent", ago=9)
    script.subagent("a1").prompt(0, promptSource=None)
    seen = Told(home, 46 * MIN)
    assert sorted(seen.verdicts()) == [("delegated", "interrupt"), ("model", "interrupt")]
    assert "a subagent cannot be ended alone" in seen.sessions[script.id]["verdicts"][0]["reason"]


def test_a_tool_that_outlasts_the_idle_limit_is_no_idle_session(home: Home) -> None:
    home.session().prompt(5).calls("Bash", ago=0)
    seen = Told(home, 40 * MIN, REAPS)
    assert (seen.only()["phase"], seen.verdicts()) == ("tool", [])


def test_a_long_compaction_is_not_the_models_silence_and_its_end_starts_that_afresh_once() -> None:
    compacted = [
        up(),
        up(0, "host", "delta"),
        prompt(0),
        g.CompactionStarted(60),
        g.CompactionEnded(60 + 232),
    ]
    assert verdicts(story(*compacted[:-1]), 60 + 29 * MIN) == []
    session = story(*compacted)
    assert verdicts(session, 292 + 15 * MIN - 1) == []
    assert verdicts(session, 292 + 15 * MIN) == [("model", "interrupt")]
    again = story(*compacted, g.CompactionStarted(300), g.CompactionEnded(310), g.Presence(900))
    assert verdicts(again, 310 + 15 * MIN) == [("model", "interrupt")]


def test_a_start_of_150_seconds_is_left_alone_and_what_never_starts_is_only_reported() -> None:
    started = [up(0, "registry", None), g.Registered(0)]
    assert verdicts(story(*started), 150) == []
    assert verdicts(story(*started, up(150), prompt(150), block(160)), 170) == []
    assert verdicts(story(*started), 10 * MIN) == [("starting", "report")]


@pytest.mark.parametrize("seconds", [90, 120, 300, 1190])
def test_thought_that_takes_minutes_is_neither_warned_of_nor_judged(home: Home, seconds: float) -> None:
    home.session().prompt(seconds + 1).says(1)
    seen = Told(home)
    assert (seen.verdicts(), seen.warnings()) == ([], [])


def test_the_same_tool_over_and_over_is_work(home: Home) -> None:
    script = home.session().prompt(3000)
    for turn in range(10):
        script.calls("Bash", f"c{turn}", ago=2900 - 280 * turn).result(f"c{turn}", ago=2640 - 280 * turn)
    seen = Told(home, 5 * MIN)
    assert (seen.verdicts(), seen.warnings()) == ([], [])


def test_an_old_status_beside_a_fresh_transcript_is_no_silence() -> None:
    session = story(up(), up(0, "registry", None), prompt(0), status(0, "busy"), block(119))
    assert session.silence(122) == 3


def test_a_provider_outage_that_the_agent_survives_is_no_verdict(home: Home) -> None:
    """Its own limits are 300, 360 and 600 s: it gives up, tries again, and gets its answer."""
    script = home.session().prompt(1600)
    script.record("system", 1240, subtype="api_error", retryInMs=600, error={"connection": {"code": "x"}})
    script.record("api-request", 1239).says(600, "tool_use").record("api-request", 599).says(1)
    seen = Told(home)
    assert (seen.verdicts(), seen.warnings()) == ([], [])


# Stalls that look healthy.


def test_silence_after_a_tools_result_is_the_models(home: Home) -> None:
    home.session().prompt(60).calls("Bash", ago=50).result(ago=0)
    seen = Told(home, 46 * MIN)
    assert (seen.warnings(), seen.verdicts()) == (["model"], [("model", "interrupt")])
    assert "waiting for the model" in seen.only()["verdicts"][0]["reason"]


def test_a_call_of_a_server_that_never_returns_is_bounded_where_a_pattern_says_so(home: Home) -> None:
    home.session().prompt(5).calls("mcp__tickets__find", ago=0)
    assert Told(home, 16 * HOUR).verdicts() == []
    seen = Told(home, 2 * HOUR, replace(RULES, tool={"mcp__*": Limit(30 * MIN)}))
    assert seen.verdicts() == [("tool", "interrupt")]
    assert "in the tool mcp__tickets__find" in seen.only()["verdicts"][0]["reason"]


def test_retries_that_end_in_silence_are_bounded_and_none_of_them_is_work(home: Home) -> None:
    script = home.session().prompt(180)
    for attempt in range(1, 11):
        script.record(
            "system",
            180 - 15 * attempt,
            subtype="api_error",
            retryAttempt=attempt,
            retryInMs=15_000,
            error={"status": 529},
        )
    seen = Told(home, HOUR)
    assert seen.verdicts() == [("retrying", "interrupt")]
    assert seen.only()["silence_seconds"] == HOUR + 150


def test_a_retry_announced_for_hours_ahead_is_a_limit_and_no_stall(home: Home) -> None:
    script = home.session().prompt(10)
    script.record("system", 0, subtype="api_error", retryInMs=6 * HOUR * 1000, error={"status": 429})
    assert Told(home, 5 * HOUR).only()["phase"] == "limited"
    assert Told(home, 5 * HOUR).verdicts() == []
    assert Told(home, 6 * HOUR + 6 * MIN).verdicts()[0] == ("limited", "report")


def test_an_agent_that_says_busy_for_six_hours_without_a_line_has_stalled() -> None:
    session = story(up(), prompt(0), status(1, "busy"))
    assert verdicts(session, 6 * HOUR) == [("model", "interrupt")]


def test_a_session_whose_word_is_idle_while_its_turn_is_open_is_told_apart_from_one_that_works() -> None:
    session = story(up(), prompt(0), status(1, "busy"), block(10), status(20, "idle"))
    assert verdicts(session, 111) == [("idle_in_turn", "report")]


# Busy sessions that are ended, and ended ones that stay.


@pytest.mark.parametrize(
    "outstanding",
    [
        g.Background(11, 1),
        g.ChildMoved(11, "a", running=True, progress=11),
        g.Status(11, "background", 11),
    ],
    ids=["a task", "a subagent", "a job"],
)
def test_what_runs_in_the_background_keeps_a_session_from_its_reap(outstanding: g.Signal) -> None:
    session = story(up(), prompt(0), end(10), outstanding)
    assert verdicts(session, 3 * HOUR, REAPS) == []


def test_the_idle_time_begins_anew_with_every_turn_however_long_the_session_lives() -> None:
    session = story(up(), prompt(0), end(10), prompt(31 * MIN, "t2"), end(32 * MIN))
    assert verdicts(session, 33 * MIN, REAPS) == []
    assert verdicts(session, 62 * MIN, REAPS) == [("idle", "reap")]


def test_a_session_is_idle_from_our_interrupt_on_and_not_from_the_last_progress_before_it() -> None:
    hung = [up(), prompt(0), status(1, "busy"), g.Intended(45 * MIN, "interrupt", "t1", "model", "because")]
    done = g.Acted(45 * MIN, "interrupt", "t1", "model", "effective", "model")
    session = story(*hung, status(45 * MIN, "idle"), done)
    assert verdicts(session, 75 * MIN - 1, REAPS) == []
    assert verdicts(session, 75 * MIN, REAPS) == [("idle", "reap")]


def test_a_session_whose_turn_was_left_is_idle_since_it_said_so() -> None:
    """Its turn ends at its last progress; idle time from there would have it reaped with the same breath."""
    left = g.Acted(45 * MIN + 90, "report", "t1", "idle_in_turn", "reported", "idle_in_turn")
    session = story(up(), prompt(0), status(1, "busy"), status(45 * MIN, "idle"), left)
    assert (session.phase, session.turns["abandoned"]) == ("idle", 1)
    assert verdicts(session, 75 * MIN - 1, REAPS) == []
    assert verdicts(session, 75 * MIN, REAPS) == [("idle", "reap")]


def test_a_session_that_we_reaped_with_its_turn_open_has_stalled_and_did_not_die() -> None:
    intent = g.Intended(100, "reap", "t1", "model", "because")
    session, changes = told(up(), g.Registered(0), prompt(0), intent, g.ProcessGone(101))
    (closed,) = of(changes, c.TurnClosed)
    assert closed.turn.outcome == "stalled"
    assert session.turns["died"] == 0
    assert session.closed is not None


def test_a_session_that_we_reaped_at_rest_leaves_no_turn_behind() -> None:
    intent = g.Intended(100, "reap", None, "idle", "because")
    session, changes = told(up(), g.Registered(0), prompt(0), end(10), intent, g.ProcessGone(101))
    assert session.turns | {"completed": 1, "died": 0, "stalled": 0} == session.turns
    assert of(changes, c.SessionClosed)


# Interrupts.


SENT = [up(), prompt(0), g.Intended(100, "interrupt", "t1", "model", "because")]


def test_a_turn_that_we_ended_stays_stalled_though_only_the_agents_word_shows_it() -> None:
    """A terminal's turn that had no output leaves no record: it is closed by a report, and still ours."""
    session = story(
        *SENT,
        status(101, "idle"),
        g.Acted(101, "interrupt", "t1", "model", "effective", "model"),
        g.Judged(191, "idle_in_turn", "idle_in_turn", "report", "transcript", "because", "t1"),
        g.Acted(191, "report", "t1", "idle_in_turn", "reported", "idle_in_turn"),
    )
    assert session.last is not None
    assert session.last.outcome == "stalled"


def test_a_report_while_an_interrupt_is_under_way_does_not_make_its_end_somebody_elses() -> None:
    session = story(
        *SENT, g.Acted(110, "report", "t1", "tool", "reported", "tool:Edit"), end(120, "interrupted")
    )
    assert session.last is not None
    assert session.last.outcome == "stalled"


def test_an_answer_that_completes_in_spite_of_our_interrupt_is_not_called_complete() -> None:
    session = story(*SENT, end(101, "completed"))
    assert session.last is not None
    assert session.last.outcome == "stalled"


# Reading.


class Room:
    """The adapter over a folder, on a clock that tests move."""

    def __init__(self, home: Home) -> None:
        self.now = 100.0
        clock = LiveClock(lambda: self.now, lambda: WALL + self.now - 100)
        self.agent = ClaudeCode("claude-code", Settings(config_dir=str(home.root)), clock)

    async def read(self) -> list[g.Signal]:
        """Three seconds later, what the transcripts tell."""
        self.now += 3
        (source,) = [s for s in self.agent.sources if s.name == "transcript"]
        return [signal for _, signal in await source.read()]

    async def work(self) -> list[str]:
        """What of that moves a clock or opens a turn."""
        moves = (g.TurnStarted, g.Progress, g.ToolStarted, g.ToolEnded)
        return [type(signal).__name__ for signal in await self.read() if isinstance(signal, moves)]


def raw(script: Script, **record: Any) -> bytes:
    """A record with its letters as they are, not escaped."""
    script.prompt(0)
    last = json.loads(script.path.read_bytes().splitlines()[-1])
    return json.dumps(last | record, ensure_ascii=False).encode()


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"])
def test_a_separator_within_a_record_is_no_end_of_its_line(home: Home, separator: str) -> None:
    script = home.session()
    line = raw(script, message={"role": "user", "content": f"a{separator}b"})
    script.path.write_bytes(line + b"\n")
    shown = Told(home).only()
    assert (shown["phase"], shown["turn"]["outcome"]) == ("model", None)


async def test_a_record_that_comes_in_pieces_counts_when_it_is_whole(home: Home) -> None:
    script, room = home.session(), Room(home)
    line = raw(script, message={"role": "user", "content": "naïve 😀"})
    script.path.write_bytes(b"")
    for cut in (line[:1], line[1 : line.index("😀".encode()) + 2], line[line.index("😀".encode()) + 2 :]):
        script.raw(cut)
        assert await room.work() == []
    script.raw(b"\n")
    assert await room.work() == ["TurnStarted"]


async def test_a_broken_line_costs_itself_and_is_counted_once(home: Home) -> None:
    script, room = home.session(), Room(home)
    script.prompt(0).raw(b'{"type":"assistant","message":{"con\n').says(0, stop="tool_use")
    signals = await room.read()
    assert sum(s.malformed for s in signals if isinstance(s, g.Records)) == 1
    assert [type(s).__name__ for s in signals if isinstance(s, g.TurnStarted | g.Progress)] == [
        "TurnStarted",
        "Progress",
    ]
    assert await room.read() == []


@pytest.mark.parametrize("kind", ["bridge-session", "pr-link", "relocated", "ai-title", "mode"])
async def test_bookkeeping_from_elsewhere_moves_no_clock_whatever_its_times_say(
    home: Home, kind: str
) -> None:
    script, room = home.session(), Room(home)
    script.prompt(0)
    assert await room.work() == ["TurnStarted"]
    script.record(kind, -3, sessionId="another")
    script.record(kind, None)
    os.utime(script.path, (WALL + 60, WALL + 60))
    assert await room.work() == []


@pytest.mark.parametrize("way", ["renamed over", "removed and made anew", "rewritten in place"])
async def test_a_transcript_that_is_written_anew_tells_nothing_twice_and_goes_on(
    home: Home, way: str
) -> None:
    script, room = home.session(), Room(home)
    script.prompt(60).says(50, stop="tool_use")
    assert await room.work() == ["TurnStarted", "Progress"]
    content = script.path.read_bytes()
    if way == "renamed over":
        script.path.with_suffix(".new").write_bytes(content)
        script.path.with_suffix(".new").rename(script.path)
    elif way == "removed and made anew":
        script.path.unlink()
        script.path.write_bytes(content)
    else:
        script.path.write_bytes(content)
    assert await room.work() == []
    script.says(-6, stop="tool_use")
    assert await room.work() == ["Progress"]


async def test_a_transcript_that_was_cut_short_goes_on(home: Home) -> None:
    script, room = home.session(), Room(home)
    script.prompt(60)
    kept = script.path.read_bytes()
    script.says(50, stop="tool_use")
    assert await room.work() == ["TurnStarted", "Progress"]
    script.path.write_bytes(kept)
    assert await room.work() == []
    script.says(-6, stop="tool_use")
    assert await room.work() == ["Progress"]


@pytest.mark.parametrize("folder", ["-home-a_b", "with space.and-dot", "-Ümläut", "-" + "x" * 200])
async def test_a_session_is_known_by_its_records_whatever_its_folder_is_called(
    home: Home, folder: str
) -> None:
    script, room = home.session(folder=folder), Room(home)
    script.prompt(0, cwd="/home/a_b/with space")
    (opened,) = [s for s in await room.read() if isinstance(s, g.TurnStarted)]
    assert opened.turn
    assert Told(home).only()["session"] == script.id


async def test_a_project_that_is_a_link_is_read_once(home: Home, tmp_path: Path) -> None:
    elsewhere = Home(tmp_path / "elsewhere")
    script = elsewhere.session().prompt(0)
    (home.root / "projects").mkdir(parents=True)
    for name in ("one", "two"):
        (home.root / "projects" / name).symlink_to(script.path.parent)
    assert await Room(home).work() == ["TurnStarted"]


def test_a_streamed_piece_that_comes_after_the_end_does_not_open_the_turn_again() -> None:
    session = story(up(), up(0, "host", "delta"), prompt(0), block(5), end(6), delta(6.2))
    assert session.turn is None
    assert session.turns["completed"] == 1


def test_results_that_come_while_others_are_open_leave_the_turn_in_its_tools() -> None:
    session = story(up(), prompt(0), tool(1), tool(1, call="c2"), result(3), status(4, "busy"))
    assert session.phase == "tool"
    assert verdicts(session, 9 * HOUR) == []
