"""The recorded compile boxes, read by hand: what each session did, and how it ended."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from sidecar import cli
from sidecar.agents.registry import recordings as readers
from sidecar.replay import Replay
from tests.agents.http.fakes import configured

if TYPE_CHECKING:
    from pathlib import Path

    from sidecar.signals import Observation

Ends = dict[str, tuple[str, dict[str, int], str | None, list[str]]]

# By the beginning of the session's id: phase, turns, what the last turn came to, bounds that tripped.
READ: dict[str, Ends] = {
    "r1": {
        # Text, a tool, a stream, a stream that the box's own watchdog ended, text, a tool of 20 s; closed.
        "bf08": ("idle", {"completed": 5, "interrupted": 1}, "completed", []),
        # A black hole that the watchdog ended, text, three 529s and text; killed at rest, left over.
        "f163": ("waiting", {"completed": 2, "interrupted": 1}, "completed", []),
        # Never used; the box closed it.
        "2b9e": ("idle", {}, None, []),
    },
    "r3": {
        # A stopped process wrote nothing; rebuilt, two answers, and a black hole as the box was stopped.
        "1595": ("model", {"completed": 2}, None, []),
        # Closed in a black hole: the turn has no end in the transcript.
        "d26b": ("gone", {}, None, ["gone"]),
        # Interrupted at rest, which ends the process; left over.
        "cb67": ("waiting", {}, None, []),
    },
    "r5": {
        # Four black holes, closed once, twice, twice, and in the midst of the box's own teardown.
        **dict.fromkeys(("ddf2", "e749", "3e6f", "f7e5"), ("gone", {}, None, ["gone"])),
        # Never used, closed by the box; and opened as the box was stopped, which then did not answer.
        "67a7": ("idle", {}, None, []),
        "eaf1": ("unknown", {}, None, []),
    },
}


def observed(path: Path) -> list[Observation]:
    return readers()["kbc-box"]([path]).observations()


def replayed(path: Path, after: float = 0.0) -> Ends:
    replay = Replay("kbc-box", configured("kbc-box").rules)
    replay.run(observed(path), lambda last: last + after)
    return {s["session"][:4]: ends(s) for s in replay.shown()}


def ends(session: dict[str, Any]) -> tuple[str, dict[str, int], str | None, list[str]]:
    turns = {name: count for name, count in session["turns"].items() if count}
    outcome = session["turn"] and session["turn"]["outcome"]
    return session["phase"], turns, outcome, [v["bound"] for v in session["verdicts"]]


@pytest.fixture
def boxes(recordings: Path) -> Path:
    return recordings / "kbc-box" / "e149c792"


@pytest.mark.parametrize("run", READ)
def test_a_box_ends_as_a_reader_finds_it(boxes: Path, run: str) -> None:
    assert replayed(boxes / run) == READ[run]


def test_the_listing_alone_shows_no_turn(boxes: Path) -> None:
    for run, read in READ.items():
        alone = replayed(boxes / run / "listing.jsonl")
        assert alone.keys() == read.keys()
        assert {turns == {} and outcome is None for _, turns, outcome, _ in alone.values()} == {True}
        assert "gone" not in {phase for phase, *_ in alone.values()}


def test_of_a_folder_of_boxes_each_is_read(boxes: Path) -> None:
    assert {o.session[:4] for o in observed(boxes)} == {tid for ends in READ.values() for tid in ends}


def test_without_registrations_the_newest_transcript_counts(boxes: Path, tmp_path: Path) -> None:
    shutil.copytree(boxes, tmp_path / "boxes", ignore=shutil.ignore_patterns("sessions_files.jsonl"))
    for run, read in READ.items():
        assert replayed(tmp_path / "boxes" / run) == read


def test_the_process_that_compiles_is_no_session(boxes: Path) -> None:
    names = {"r1": "b74d91cb", "r3": "7104524a", "r5": "8eed668f"}
    for run, compile_run in names.items():
        assert compile_run in (boxes / run / "sessions_files.jsonl").read_text()
        seen = {o.session for o in observed(boxes / run)}
        assert not any(name == "work" or name.startswith(compile_run) for name in seen)


def test_left_alone_a_stalled_turn_is_reported_and_a_rest_ends_after_35_minutes(boxes: Path) -> None:
    later = replayed(boxes / "r3", 3600)
    assert later["1595"][3] == ["model"]
    assert later["cb67"][3] == ["waiting"]
    assert replayed(boxes / "r1", 3600)["f163"][3] == ["waiting"]


def test_a_registration_that_was_half_written_is_left_out(tmp_path: Path) -> None:
    stamp = "2026-11-30T19:08:15Z"
    entry = {"tid": "t", "created_at": stamp, "last_activity_at": stamp, "done": False}
    (tmp_path / "listing.jsonl").write_text(json.dumps({"t": 1, "data": {"sessions": [entry]}}) + "\n")
    lines = [
        {"t": 2, "file": "1.json", "content": '{"pid":1,"sess'},
        {"t": 3, "file": "1.json", "content": None},
    ]
    (tmp_path / "sessions_files.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert replayed(tmp_path) == {"t": ("idle", {}, None, [])}


def test_the_command_replays_a_box_by_its_presets_limits(
    boxes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["replay", "--agent", "kbc-box", "--json", "--until", "+31m"]
    assert cli.main([*asked, str(boxes / "r1" / "listing.jsonl")]) == 0
    *sessions, summary = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    (left,) = (s for s in sessions if s["session"].startswith("f163"))
    assert [(v["bound"], v["outcome"]) for v in left["verdicts"]] == [("waiting", "observed")]
    assert summary["summary"]["sessions"] == 3


def test_a_configured_entry_wins_over_the_preset(
    boxes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    box = "{kind: http, preset: kbc-box, url: 'http://127.0.0.1:1', bounds: {waiting: 1h}}"
    file.write_text(f"agents: [{box}]\n")
    listing = str(boxes / "r1" / "listing.jsonl")
    options = ["--config", str(file), "--json", "--until", "+31m"]
    assert cli.main(["replay", "--agent", "kbc-box", *options, listing]) == 0
    assert "its close for" not in capsys.readouterr().out
