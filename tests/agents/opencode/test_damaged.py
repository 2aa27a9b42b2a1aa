"""Captured streams that were cut, told twice or out of order: no end and no stall may come of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sidecar import signals as g
from sidecar.agents.opencode.recording import Recording
from sidecar.limits import Rules
from sidecar.replay import Replay
from tests.expected import ROOT

if TYPE_CHECKING:
    from pathlib import Path

CASES = [
    path.parent for kind in ("opencode", "redcode") for path in sorted(ROOT.glob(f"{kind}/*/*/events.jsonl"))
]
NAMES = [f"{case.parts[-3]}-{case.name}" for case in CASES]


def lines_of(case: Path) -> list[bytes]:
    return (case / "events.jsonl").read_bytes().splitlines(keepends=True)


def replayed(path: Path, *pieces: bytes) -> list[dict[str, Any]]:
    """The session objects at the last record of these bytes."""
    path.write_bytes(b"".join(pieces))
    replay = Replay("opencode", Rules())
    replay.run(Recording([path]).observations(), lambda last: last)
    return replay.shown()


def ends(path: Path, *pieces: bytes) -> dict[tuple[str, str], str]:
    """The turns that have ended, and how."""
    path.write_bytes(b"".join(pieces))
    running: dict[str, str] = {}
    ended: dict[tuple[str, str], str] = {}
    for session, signal in Recording([path]).observations():
        if isinstance(signal, g.TurnStarted):
            assert (session, signal.turn) not in ended, "a turn that ended begins no more"
            running[session] = signal.turn
        elif isinstance(signal, g.TurnEnded):
            ended[session, running.pop(session)] = signal.outcome
    return ended


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_stream_that_is_cut_anywhere_tells_no_end_that_was_not_told(case: Path, tmp_path: Path) -> None:
    lines, path = lines_of(case), tmp_path / "x.jsonl"
    whole = ends(path, *lines)
    for n, line in enumerate(lines):
        for half in (b"", line[: len(line) // 2]):
            seen = ends(path, *lines[:n], half)
            assert seen.items() <= whole.items(), f"cut at line {n}"
        for session in replayed(path, *lines[:n]):
            assert session["verdicts"] == []
            assert session["turns"]["died"] == session["turns"]["abandoned"] == 0


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_events_that_are_told_twice_change_nothing(case: Path, tmp_path: Path) -> None:
    lines, path = lines_of(case), tmp_path / "x.jsonl"
    once = replayed(path, *lines)
    twice = [line for line in lines for _ in range(2)]
    assert replayed(path, *twice) == once
    assert ends(path, *twice) == ends(path, *lines)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_what_is_told_again_later_opens_no_turn_again(case: Path, tmp_path: Path) -> None:
    lines, path = lines_of(case), tmp_path / "x.jsonl"
    whole = ends(path, *lines)
    again = [json.dumps(d | {"t": d["t"] + 90}).encode() + b"\n" for d in map(json.loads, lines)]
    seen = ends(path, *lines, *again)
    assert {turn: seen[turn] for turn in whole} == whole
    open_at_first = {s["session"] for s in replayed(path, *lines) if s["turn"] and not s["turn"]["ended_at"]}
    assert {session for session, _ in seen.keys() - whole.keys()} <= open_at_first


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_neighbours_that_change_places_begin_and_end_the_same_turns(case: Path, tmp_path: Path) -> None:
    lines, path = lines_of(case), tmp_path / "x.jsonl"
    whole = ends(path, *lines)
    data = [json.loads(line) for line in lines]
    for n in range(len(data) - 1):
        swapped = [dict(d) for d in data]
        swapped[n]["data"], swapped[n + 1]["data"] = data[n + 1]["data"], data[n]["data"]
        told = [json.dumps(d).encode() + b"\n" for d in swapped]
        assert ends(path, *told).keys() == whole.keys(), f"lines {n} and {n + 1}"
        assert all(s["verdicts"] == [] for s in replayed(path, *told))
