"""What people read in a terminal, of ids that somebody else chose."""

from __future__ import annotations

import pytest

from sidecar.agent import Finding
from sidecar.clock import RecordedClock
from sidecar.limits import Rules
from sidecar.printed import explained, findings, replayed, table
from sidecar.session import Session
from sidecar.view import view

HOSTILE = "a\nb\x1b]0;owned\x07\u202ec\u2028d é😀"
SHOWN = "a\\nb\\x1b]0;owned\\x07\\u202ec\\u2028d é😀"


def session() -> dict[str, object]:
    return view(Session("box", HOSTILE, 0.0), Rules(), RecordedClock(9.0), 9.0)


def summary() -> dict[str, object]:
    end = {"session": HOSTILE, "turn": HOSTILE, "action": "interrupt"}
    bounds = {"model": {"would_end": [end], "recovered": []}}
    return {"turns": {}, "silence_seconds": {}, "bounds": bounds}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (table([session()]), 2),
        (explained(session()), 4),
        (findings({"box": [Finding(HOSTILE, ok=True, detail=HOSTILE)]}), 2),
        (replayed([], summary()), 4),
    ],
    ids=["sessions", "explain", "check", "replay"],
)
def test_an_id_cannot_write_to_the_terminal_what_it_likes(text: str, lines: int) -> None:
    assert SHOWN in text
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count("\n") == lines
