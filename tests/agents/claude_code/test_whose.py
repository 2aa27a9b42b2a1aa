"""Whose a record is does not depend on whose the one before it was, however alike they look."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from sidecar import signals as g
from sidecar.agents.claude_code.transcript import Transcript, by_entrypoint
from sidecar.clock import RecordedClock, iso

SESSION = "748d9cee-5ae2-4993-9fd5-0e9e258913ca"
NOW = 1_767_225_700.0

ENVELOPES = st.fixed_dictionaries(
    {},
    optional={
        "sessionId": st.sampled_from((SESSION, SESSION, "other", None)),
        "agentId": st.sampled_from(("a1", "a2", None)),
        "isSidechain": st.booleans(),
        "cwd": st.sampled_from(("/a", "/b", "", None)),
        "version": st.sampled_from(("1", "2")),
        "entrypoint": st.sampled_from(("cli", "sdk-cli", None)),
    },
)


def plainly(envelopes: list[dict[str, Any]], session: str | None) -> tuple[list[Any], str | None]:
    """Each record's session and each change of its facts, without a memory of the record before."""
    told: list[Any] = []
    facts: dict[str, Any] = {}
    cwd = None
    for x in envelopes:
        names, agent = x.get("sessionId"), x.get("agentId") if x.get("isSidechain") else None
        session = agent or session or names
        if session is None or (agent is None and names not in (None, session)):
            told.append(None)
            continue
        told.append(session)
        cwd = x.get("cwd") or cwd
        now = (x.get("version"), x.get("entrypoint"))
        if facts.get(session) != now:
            facts[session] = now
            parent = names if agent else None
            told.append((session, parent, now[0], by_entrypoint(session, now[1])))
    return told, cwd


@given(st.lists(ENVELOPES, max_size=8), st.sampled_from((SESSION, "no id")))
@example([{"sessionId": SESSION, "cwd": "/a"}, {"sessionId": SESSION, "cwd": "/b"}], SESSION)
@example([{"sessionId": SESSION}, {"sessionId": "other"}], SESSION)
@example([{"agentId": "a1", "isSidechain": False}, {"agentId": "a1", "isSidechain": True}], SESSION)
@example([{"agentId": "a1", "isSidechain": True}, {"agentId": "a2", "isSidechain": True}], SESSION)
def test_each_record_is_told_of_its_own_session(envelopes: list[dict[str, Any]], stem: str) -> None:
    transcript = Transcript(stem, RecordedClock(NOW), by_entrypoint)
    found: list[Any] = []
    for number, envelope in enumerate(envelopes):
        stamp = iso(NOW - 100 + number)
        record = {"type": "assistant", "timestamp": stamp, "message": {"stop_reason": "tool_use"}} | envelope
        told = transcript.feed([json.dumps(record).encode()], None)
        works = [session for session, signal in told if isinstance(signal, g.Progress)]
        found += works or [None]
        found += [
            (session, x.parent, x.version, x.attended) for session, x in told if isinstance(x, g.Described)
        ]
    assert (found, transcript.cwd) == plainly(envelopes, stem if stem == SESSION else None)
