"""Recorded listings of the compile box, replayed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sidecar.agents.http.recording import Recording
from sidecar.replay import Replay
from tests.agents.http.fakes import configured

if TYPE_CHECKING:
    from pathlib import Path


def runs(recordings: Path) -> list[Path]:
    """The listings alone, as a server that nothing else is known of leaves them."""
    return sorted((recordings / "kbc-box" / "e149c792").glob("*/listing.jsonl"))


@pytest.mark.parametrize(("run", "ended", "waiting"), [("r1", 2, 1), ("r3", 1, 1), ("r5", 5, 0)])
def test_life_and_death_are_seen_and_no_turn(recordings: Path, run: str, ended: int, waiting: int) -> None:
    replay = Replay("kbc-box", configured("kbc-box").rules)
    listing = recordings / "kbc-box" / "e149c792" / run / "listing.jsonl"
    replay.run(Recording([listing]).observations(), lambda last: last)
    seen = [s for s in replay.shown() if s["status"] is not None or s["phase"] == "unknown"]
    phases = [session["phase"] for session in seen]
    assert (len(replay.shown()) - len(phases), phases.count("waiting")) == (ended, waiting)
    assert not any(any(session["turns"].values()) for session in replay.shown())


def test_left_to_themselves_they_would_be_closed_and_reaped(recordings: Path) -> None:
    replay = Replay("kbc-box", configured("kbc-box").rules)
    replay.run(Recording(runs(recordings)).observations(), lambda last: last + 3600)
    verdicts = [(v["bound"], v["action"], v["outcome"]) for s in replay.shown() for v in s["verdicts"]]
    assert set(verdicts) <= {("waiting", "interrupt", "observed"), ("idle", "reap", "observed")}
    assert len(verdicts) >= 3


def test_the_clock_starts_where_the_first_session_was_made(recordings: Path) -> None:
    (first, *_) = Recording([recordings / "kbc-box" / "e149c792" / "r1" / "listing.jsonl"]).observations()
    assert first.signal.at == 1_796_065_695.0


def test_what_nobody_understands_gives_nothing(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(
        json.dumps({"t": 1, "data": {"sessions": []}}) + '\n{"t": 2, "data": [1]}\nnot json\n{"t":'
    )
    assert Recording([file]).observations() == []


def test_other_presets_are_told_by_their_answers(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    status = {"status": "running", "agent_type": "claude", "transport": "pty"}
    file.write_text("".join(json.dumps({"t": n, "data": status}) + "\n" for n in (1, 2)))
    (session,) = {o.session for o in Recording([file]).observations()}
    assert session == "agent"


@pytest.mark.parametrize(
    ("case", "turn"),
    [
        ("qwen-serve/0.24.4/cancelled", "31620829-2578-441e-8d41-d2bc48d5e289"),
        ("hermes-runs/0.19.0/stopped", "run_5d2d9eb981d34707b09b3428e7df5303"),
    ],
)
def test_a_stream_is_read_as_it_was_sent_too(recordings: Path, tmp_path: Path, case: str, turn: str) -> None:
    lines = (recordings / case / "events.jsonl").read_text().splitlines()
    file = tmp_path / "events.txt"
    file.write_text(
        "retry: 3000\n\n"
        + "".join(f": keepalive\n\ndata: {json.dumps(json.loads(x)['data'])}\n\n" for x in lines)
    )
    as_sent = Recording([tmp_path]).observations()
    assert as_sent == Recording([recordings / case]).observations()
    assert [getattr(o.signal, "turn", None) for o in as_sent].count(turn) >= 1


def test_events_without_stamps_are_dated_by_the_recorder(tmp_path: Path) -> None:
    events = [
        {"event": "message.delta", "run_id": "r"},
        {"event": "run.failed", "run_id": "r"},
        {"run_id": "r"},
    ]
    told = [{"t": n * 10.0, "data": event} for n, event in enumerate(events)]
    told[1]["data"] |= {"timestamp": 1_796_061_971.0}  # type: ignore[operator]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told))
    found = Recording([tmp_path]).observations()
    assert [(type(o.signal).__name__, o.signal.at) for o in found] == [
        ("SourceUp", 1_796_061_961.0),
        ("Progress", 1_796_061_961.0),
        ("TurnEnded", 1_796_061_971.0),
    ]
