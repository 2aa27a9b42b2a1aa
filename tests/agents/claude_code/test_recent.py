"""A long transcript is begun near its end, and the session stands as if all of it had been read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.agents.claude_code.recent import FARTHEST, FIRST, recent
from sidecar.agents.claude_code.transcript import Transcript, by_entrypoint
from sidecar.clock import RecordedClock
from sidecar.fold import fold
from sidecar.session import Session
from tests.agents.claude_code.homes import WALL, Home, Script

if TYPE_CHECKING:
    from pathlib import Path

LOOKALIKE = '{"type":"user","promptId":"x","promptSource":"sdk","message":{"content":"x"}}'


def begin(script: Script) -> int:
    fd = os.open(script.path, os.O_RDONLY)
    try:
        return recent(fd, script.path.stat().st_size)
    finally:
        os.close(fd)


def state(script: Script, start: int) -> dict[str, Any]:
    session = Session("claude-code", script.id, 0.0)
    transcript = Transcript(script.id, RecordedClock(WALL), by_entrypoint)
    for observed in transcript.feed(script.path.read_bytes()[start:].splitlines(), None):
        fold(session, observed.signal)
    turn = session.turn
    return {
        "turn": turn and (turn.id, turn.started_at, turn.tool_calls, turn.tokens),
        "tools": session.tools,
        "phase": (session.phase, session.phase_since, session.background),
        "progress": session.progress_at,
        "told": (session.version, session.attended),
    }


@pytest.fixture
def script(tmp_path: Path) -> Script:
    script = Home(tmp_path).session()
    for number in range(300):
        script.prompt(9000 - number, promptId=f"old{number}")
        script.calls("Bash", f"c{number}", 9000 - number).result(f"c{number}", 9000 - number)
        script.says(9000 - number, text="x" * 4000)
    return script


def turn(script: Script, size: int = 1000) -> Script:
    script.prompt(50, promptId="last but one").says(45).record(
        "system", 44, subtype="turn_duration", pendingBackgroundAgentCount=1
    )
    script.prompt(40, promptId="open").calls("Bash", "done", 39).result("done", 38)
    script.says(30, stop="tool_use", text=LOOKALIKE + "y" * size)
    return script.calls("Bash", "running", 20).calls("Agent", "delegated", 10)


def test_it_begins_with_the_last_but_one_prompt(script: Script) -> None:
    start = begin(turn(script))
    assert start > script.path.stat().st_size - FIRST
    assert b'"promptId": "last but one"' in script.path.read_bytes()[start:].splitlines()[0]
    assert state(script, start) == state(script, 0)
    assert state(script, start)["turn"][0] == "open"
    assert set(state(script, start)["tools"]) == {"running", "delegated"}


def test_a_turn_longer_than_the_first_look_is_found_further_up(script: Script) -> None:
    start = begin(turn(script, FIRST * 3))
    assert 0 < start < script.path.stat().st_size - FIRST * 3
    assert state(script, start) == state(script, 0)


def test_a_turn_longer_than_the_farthest_look_has_its_file_read_in_whole(script: Script) -> None:
    assert begin(turn(script, FARTHEST)) == 0


def test_a_small_file_is_read_in_whole(tmp_path: Path) -> None:
    assert begin(turn(Home(tmp_path).session())) == 0


def test_files_that_name_no_sources_are_read_in_whole(tmp_path: Path) -> None:
    script = Home(tmp_path).session()
    for _ in range(300):
        script.prompt(promptSource=None).says(text="x" * 2000)
    assert begin(script) == 0


@pytest.mark.parametrize(
    "line",
    [
        {"isMeta": True, "promptSource": "sdk", "message": {"content": "x"}},
        {"promptSource": "sdk", "message": {"content": "<command-name>/clear</command-name>"}},
        {"promptSource": "sdk", "message": {"content": "[Request interrupted by user]"}},
        {
            "message": {
                "content": [
                    {"type": "tool_result", "tool_use_id": "c", "promptSource": "x", "content": LOOKALIKE}
                ]
            }
        },
    ],
)
def test_lines_that_open_no_turn_are_no_beginning(script: Script, line: dict[str, Any]) -> None:
    before = begin(turn(script))
    for _ in range(3):
        script.record("user", 5, **line)
    assert begin(script) == before


def test_half_a_prompt_at_the_end_is_none_yet(script: Script) -> None:
    before = begin(turn(script))
    script.prompt(1)
    whole = script.path.read_bytes()
    script.path.write_bytes(whole[:-20])
    assert begin(script) == before
    script.path.write_bytes(whole)
    assert begin(script) > before
