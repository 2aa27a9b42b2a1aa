"""What every adapter promises, whichever agent it is for: one suite over all kinds."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from sidecar.agent import Can, Order, Sees, SourceDown
from sidecar.agents.registry import KINDS
from sidecar.clock import LiveClock
from sidecar.config import load
from sidecar.phases import evidence
from sidecar.policy import bound
from tests.agents.rooms import LISTINGS, MORE, Listed, Room, room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Sequence
    from pathlib import Path

    from sidecar.agent import Agent
    from sidecar.limits import Rules
    from sidecar.session import Session

NOWHERE = "http://127.0.0.1:9"
"""A port that nobody listens on."""

ENTRIES: dict[str, dict[str, Any]] = {
    "claude-code": {"kind": "claude-code", "config_dir": "/nowhere/claude"},
    "control-api": {"kind": "control-api", "url": NOWHERE},
    "opencode": {"kind": "opencode", "url": NOWHERE},
    "redcode": {"kind": "redcode", "url": NOWHERE},
} | {name: {"kind": "http", "preset": name, "url": NOWHERE} | MORE.get(name, {}) for name in LISTINGS}


class Claim(NamedTuple):
    """What a kind or preset says that it sees and can do, as it stands before its server."""

    sees: Sees
    can: Can


ALL = {"tools": True, "waiting": True, "status": True}
TURNLESS = Sees(None, tools=False, waiting=True, status=True)
BOTH, NEITHER = Can(interrupt=True, reap=True), Can(interrupt=False, reap=False)
ENDS = Can(interrupt=True, reap=False)

CLAIMS: dict[str, Claim] = {
    "claude-code": Claim(Sees("record", **ALL), NEITHER),
    "claude-code, hosted": Claim(Sees("delta", **ALL), BOTH),
    "control-api": Claim(Sees("delta", **ALL), BOTH),
    "opencode": Claim(Sees("delta", **ALL), BOTH),
    "redcode": Claim(Sees("delta", **ALL), BOTH),
    "kbc-box": Claim(Sees(None, tools=False, waiting=True, status=False), Can(interrupt=False, reap=True)),
    "qwen-serve": Claim(Sees("delta", **ALL), BOTH),
    "hermes-runs": Claim(TURNLESS, ENDS),
    "openhands": Claim(TURNLESS, ENDS),
    "agentapi": Claim(Sees(None, tools=False, waiting=False, status=True), ENDS),
}
EVIDENCE = {"delta": "stream", "record": "transcript", None: "status"}
NOBODY = "../no such session?\n"


async def said(asked: Awaitable[Sequence[Any]]) -> Sequence[Any]:
    """What was found; nothing where the answer is a loss, which has to say why."""
    try:
        return await asked
    except SourceDown as down:
        return () if str(down) else ["a loss without a reason"]


def test_every_kind_and_preset_is_held_to_it() -> None:
    assert set(ENTRIES) == set(KINDS) - {"http"} | set(KINDS["http"].presets)
    assert set(CLAIMS) - {"claude-code, hosted"} == set(ENTRIES)


@pytest.fixture(params=sorted(ENTRIES))
async def agent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Agent]:
    entry = ENTRIES[request.param]
    config = load(json.dumps({"agents": [entry]}), {"HOME": str(tmp_path)}, KINDS)
    assert config.agents is not None
    loop = asyncio.get_running_loop()
    made = KINDS[entry["kind"]].build(config.agents[0], LiveClock(loop.time, time.time))
    yield made
    await made.close()


async def test_it_is_named_by_its_preset_or_its_kind(agent: Agent) -> None:
    assert agent.kind in KINDS
    assert agent.name in ENTRIES
    assert agent.kind == ENTRIES[agent.name]["kind"]


async def test_its_sources_have_names_of_their_own_and_a_pace(agent: Agent) -> None:
    names = [source.name for source in agent.sources]
    assert names
    assert len(names) == len(set(names))
    assert all(source.every >= 0 and source.patience > 0 for source in agent.sources)


async def test_what_cannot_be_reached_is_a_lost_source_or_nothing_and_never_another_error(
    agent: Agent,
) -> None:
    for source in agent.sources:
        async with asyncio.timeout(20):
            assert list(await said(source.read())) == []


async def test_nobody_can_be_ended_who_is_not_there(agent: Agent) -> None:
    assert isinstance(agent.can(NOBODY), Can)
    for action in ("interrupt", "reap"):
        order = Order(action, NOBODY, None, "silence", None)
        async with asyncio.timeout(20):
            answer = await (agent.interrupt(order) if action == "interrupt" else agent.reap(order))
        assert answer.result != "accepted"
        assert answer.detail, "a refusal says why"


async def test_a_look_at_nobody_finds_nothing_or_says_that_it_is_blind(agent: Agent) -> None:
    async with asyncio.timeout(20):
        assert list(await said(agent.look(NOBODY))) == []


async def test_check_finds_something_to_say(agent: Agent) -> None:
    async with asyncio.timeout(20):
        found = await agent.probe()
    assert found
    assert not any(finding.ok for finding in found), "nothing of it can be reached here"
    assert all(finding.what and finding.detail for finding in found)


async def test_it_may_be_closed_before_it_was_read_and_twice(agent: Agent) -> None:
    await agent.close()
    await agent.close()


@pytest.fixture
async def place(label: str, tmp_path: Path) -> AsyncIterator[Room]:
    async with room(label, tmp_path) as made:
        yield made


def named(session: Session, rules: Rules) -> str | None:
    """The bound that runs."""
    running = bound(session, rules)
    return None if running is None else running.name


async def at_rest(place: Room) -> Session:
    """The session is there, and nothing runs; one that no poll shows at rest begins busy."""
    await place.be("busy" if isinstance(place, Listed) and place.preset == "hermes-runs" else "idle")
    session = await place.until(lambda s: s is not None and s.phase != "starting", "it is listed")
    assert session is not None
    return session


@pytest.mark.parametrize("label", CLAIMS)
async def test_what_it_claims_to_see_is_seen_and_nothing_else(label: str, place: Room) -> None:
    sees = CLAIMS[label].sees
    assert place.agent.sees == sees
    session = await at_rest(place)
    assert (session.turn, session.had_turn) == (None, False)

    await place.be("busy")
    await place.do("turn")
    await place.until(lambda s: s is not None and (s.turn is not None) == bool(sees.resolution), "a turn")
    await place.until(lambda s: s is not None and (s.phase == "model") == (sees.status), "it works")
    assert (named(session, place.rules) == "model") == bool(sees.resolution), (
        "what cannot be seen has no bound"
    )
    assert evidence(session) == EVIDENCE[sees.resolution]
    assert (session.status is not None and session.status.word == "busy") == sees.status

    if sees.resolution is not None:
        before = session.progress_at or 0.0
        await place.do("piece")
        await place.until(lambda s: ((s and s.progress_at) or 0.0) > before, "progress")
    if sees.tools:
        await place.do("tool")
        await place.until(lambda s: s is not None and s.phase == "tool", "an open tool")
        assert [t.tool for t in session.tools.values()] in (["Bash"], ["bash"])
        assert named(session, place.rules) is None
        await place.do("tool over")
        await place.until(lambda s: s is not None and s.phase == "model", "the tool is over")
    if sees.waiting:
        await place.be("waiting")
        await place.until(lambda s: s is not None and s.phase == "waiting", "a wait")
        assert named(session, place.rules) == "waiting"
        await place.be("busy")
        await place.until(lambda s: s is not None and s.phase != "waiting", "the wait is over")
    if label != "hermes-runs":
        await place.do("end")
        await place.be("idle")
        await place.until(lambda s: s is not None and s.phase == "idle", "it rests")
        assert (session.turn, named(session, place.rules)) == (None, "idle")
        assert session.turns["completed"] == (1 if sees.resolution else 0)
    if label != "agentapi":
        await place.be("gone")
        await place.until(lambda s: s is None, "it is gone")
    assert session.verdicts == []


@pytest.mark.parametrize("label", CLAIMS)
async def test_what_it_claims_to_do_is_done_and_anything_else_refused_with_a_reason(
    label: str, place: Room
) -> None:
    can = CLAIMS[label].can
    session = await at_rest(place)
    await place.be("busy")
    await place.do("turn")
    await place.until(lambda s: s is not None and (s.phase == "model") == place.agent.sees.status, "busy")
    said = place.agent.can(place.id)
    assert (said.interrupt, said.reap) == (can.interrupt, can.reap)
    turn = None if session.turn is None else session.turn.id
    for action, able in (("interrupt", can.interrupt), ("reap", can.reap)):
        before = place.orders()
        order = Order(action, place.id, turn, "silence", session.progress_at, force=action == "reap")  # type: ignore[arg-type]
        if action == "reap" and label in ("opencode", "redcode"):
            await place.be("idle")
        answer = await (place.agent.interrupt(order) if action == "interrupt" else place.agent.reap(order))
        assert answer.result == ("accepted" if able else "unsupported"), answer.detail
        assert answer.detail or able, "a refusal says why"
        assert (place.orders() > before) == able
