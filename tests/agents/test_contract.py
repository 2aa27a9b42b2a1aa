"""What every adapter promises, whichever agent it is for: one suite over all kinds."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.agent import Can, Order, SourceDown
from sidecar.agents.registry import KINDS
from sidecar.clock import LiveClock
from sidecar.config import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Sequence
    from pathlib import Path

    from sidecar.agent import Agent

NOWHERE = "http://127.0.0.1:9"
"""A port that nobody listens on."""

ENTRIES: dict[str, dict[str, Any]] = {
    "claude-code": {"config_dir": "/nowhere/claude"},
    "control-api": {"url": NOWHERE},
    "opencode": {"url": NOWHERE},
    "redcode": {"url": NOWHERE},
    "http": {"preset": "kbc-box", "url": NOWHERE},
}
NOBODY = "../no such session?\n"


async def said(asked: Awaitable[Sequence[Any]]) -> Sequence[Any]:
    """What was found; nothing where the answer is a loss, which has to say why."""
    try:
        return await asked
    except SourceDown as down:
        return () if str(down) else ["a loss without a reason"]


def test_every_kind_is_held_to_it() -> None:
    assert set(ENTRIES) == set(KINDS)


@pytest.fixture(params=sorted(ENTRIES))
async def agent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Agent]:
    kind = request.param
    text = f"agents: [{{kind: {kind}, " + ", ".join(f"{k}: '{v}'" for k, v in ENTRIES[kind].items()) + "}]"
    config = load(text, {"HOME": str(tmp_path)}, KINDS)
    assert config.agents is not None
    loop = asyncio.get_running_loop()
    made = KINDS[kind].build(config.agents[0], LiveClock(loop.time, time.time))
    yield made
    await made.close()


async def test_it_is_named_by_its_preset_or_its_kind(agent: Agent) -> None:
    assert agent.kind in KINDS
    assert agent.name in (agent.kind, ENTRIES[agent.kind].get("preset"))


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
