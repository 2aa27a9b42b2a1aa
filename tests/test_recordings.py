"""Recordings of real agents, as cases: their signals, and the session objects they end in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.expected import cases, sessions, signals

if TYPE_CHECKING:
    from pathlib import Path

CASES = cases()
TURNS = [case for case in CASES if case.parts[-3] != "kbc-box"]
"""Those of one session: a box has several, and its reading stands beside its adapter."""
NAMES = ["/".join(case.parts[-3:]) for case in CASES]

# What a reader of the recording finds: the phase at the end, the turns, and the last turn's outcome.
ENDS: dict[str, tuple[str, dict[str, int], str | None]] = {
    "0.12.0/hole": ("idle", {"interrupted": 1}, "interrupted"),
    "1.18.33/badtool": ("waiting", {}, None),
    "1.18.33/bash15": ("idle", {"completed": 1}, "completed"),
    "1.18.33/bashfail": ("idle", {"completed": 1}, "completed"),
    "1.18.33/bashlong": ("idle", {"interrupted": 1}, "interrupted"),
    "1.18.33/bashquiet": ("idle", {"completed": 1}, "completed"),
    "1.18.33/delete_busy": ("model", {}, None),
    "1.18.33/dir_global": ("idle", {"interrupted": 1}, "interrupted"),
    "1.18.33/e400": ("idle", {"failed": 1}, "failed"),
    "1.18.33/e401": ("idle", {"failed": 1}, "failed"),
    "1.18.33/e500": ("idle", {"interrupted": 1}, "interrupted"),
    "1.18.33/headhole": ("idle", {"interrupted": 1}, "interrupted"),
    "1.18.33/hole": ("idle", {"interrupted": 1}, "interrupted"),
    "1.18.33/perm": ("idle", {"interrupted": 1}, "interrupted"),
    "1.18.33/plain": ("idle", {"completed": 1}, "completed"),
    "1.18.33/plain_global": ("idle", {"completed": 1}, "completed"),
    "1.18.33/task_normal": ("idle", {"completed": 1}, "completed"),
    "1.18.33/task_parentabort": ("idle", {"interrupted": 1}, "interrupted"),
    "1.18.33/toolhole": ("idle", {"interrupted": 1}, "interrupted"),
    "1.18.33/child_aborted": ("idle", {"completed": 1}, "completed"),
    "1.18.33/parallel_archived": ("idle", {"completed": 1}, "completed"),
    "1.18.33/question_aborted_and_prompted": ("idle", {"interrupted": 1, "completed": 1}, "completed"),
    "1.18.33/queued": ("idle", {"completed": 2}, "completed"),
    "1.18.33/retried_partial": ("idle", {"interrupted": 1}, "interrupted"),
    "1.18.33/stored_compacted_shell": ("idle", {"completed": 3}, "completed"),
    "1.18.33/unknown_tool": ("idle", {"completed": 1}, "completed"),
    "0.19.0/stopped": ("idle", {"interrupted": 1}, "interrupted"),
    "0.24.4/cancelled": ("idle", {"interrupted": 1}, "interrupted"),
    "0.24.4/hung_in_a_call": ("idle", {"interrupted": 1}, "interrupted"),
    "0.24.4/permission_given": ("idle", {"completed": 1}, "completed"),
    "0.24.4/tool": ("idle", {"completed": 1}, "completed"),
    "2.1.197/p_bash": ("idle", {"completed": 1}, "completed"),
    "2.1.332/background_agent": ("idle", {"completed": 2}, "completed"),
    "2.1.332/interrupt_mid_stream": ("idle", {"interrupted": 1}, "interrupted"),
    "2.1.332/p_bash": ("idle", {"completed": 1}, "completed"),
    "2.1.332/p_blackhole_short_api_timeout": ("idle", {"failed": 1}, "failed"),
    "2.1.332/p_blackhole_short_firstbyte": ("model", {}, None),
    "2.1.332/p_midstream_stall": ("idle", {"completed": 1}, "completed"),
    "2.1.332/p_sigterm_blackhole": ("model", {}, None),
    "2.1.332/p_slow_stream": ("idle", {"completed": 1}, "completed"),
    "2.1.332/p_text": ("idle", {"completed": 1}, "completed"),
    "2.1.332/permission_denied": ("idle", {"completed": 1}, "completed"),
    "2.1.332/permission_interrupted": ("idle", {"interrupted": 1}, "interrupted"),
    "2.1.332/permission_pending": ("tool", {}, None),
    "2.1.332/queued_message": ("idle", {"completed": 1}, "completed"),
    "2.1.332/queued_message_streaming": ("idle", {"completed": 2}, "completed"),
    "2.1.332/resume_after_kill_in_blackhole": ("idle", {"completed": 1, "abandoned": 1}, "completed"),
    "2.1.332/resume_after_kill_in_tool": ("idle", {"completed": 1, "abandoned": 1}, "completed"),
    "2.1.332/stream_end_session": ("idle", {"interrupted": 1}, "interrupted"),
    "2.1.332/stream_interrupt_blackhole": ("idle", {"completed": 1, "interrupted": 1}, "completed"),
    "2.1.332/stream_interrupt_tool": ("idle", {"completed": 1, "interrupted": 1}, "completed"),
    "2.1.332/stream_sigint_blackhole": ("idle", {"interrupted": 1}, "interrupted"),
    "2.1.332/tui_parallel_esc_agent_compact": (
        "idle",
        {"completed": 3, "interrupted": 1, "abandoned": 1},
        "completed",
    ),
    "2.1.332/tui_text_permission_ask_sigint": ("model", {"completed": 2, "interrupted": 1}, None),
    "2.1.332/usage_limit": ("limited", {"failed": 1}, "failed"),
}


@pytest.mark.parametrize("case", TURNS, ids=["/".join(case.parts[-3:]) for case in TURNS])
def test_a_recording_ends_as_a_reader_finds_it(case: Path) -> None:
    phase, turns, outcome = ENDS["/".join(case.parts[-2:])]
    session = next(s for s in sessions(case) if s["parent"] is None)
    assert session["phase"] == phase
    assert {name: count for name, count in session["turns"].items() if count} == turns
    assert session["turn"]["outcome"] == outcome
    assert session["verdicts"] == []
    assert session["evidence"] == ("transcript" if case.parts[-3] == "claude-code" else "stream")


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_recording_gives_its_signals(case: Path) -> None:
    assert signals(case) == (case / "expected.signals").read_text().splitlines()


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_recording_gives_its_session_objects(case: Path) -> None:
    assert sessions(case) == json.loads((case / "expected.sessions.json").read_text())
