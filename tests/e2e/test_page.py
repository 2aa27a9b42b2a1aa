"""The page in a real browser: what it says first, of whom, and that it fits a phone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.browser import CHROMIUM, browsing
from tests.test_server import World, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; on Debian: apt-get install chromium")

HEADLINE = "document.getElementById('headline').textContent"
ROWS = "[...document.querySelectorAll('#rows tr')].map(row => row.innerText)"
READY = "document.querySelectorAll('#rows tr').length"
CALLED = '<img src=x onerror="document.title=1">'


def session(name: str, phase: str, silence: float, **more: Any) -> dict[str, Any]:
    since = (datetime.now(UTC) - timedelta(seconds=silence)).isoformat().replace("+00:00", "Z")
    limit = {"model": 900.0, "waiting": 300.0}.get(phase)
    turn: dict[str, Any] = {"id": f"t-{name}", "started_at": since, "ended_at": None, "outcome": None}
    turn |= {"phase_seconds": {}, "tool_calls": 1, "tokens": {"input": 5}}
    bound = limit and {"name": phase, "limit_seconds": limit, "remaining_seconds": limit - silence}
    made: dict[str, Any] = {
        "agent": "claude-code",
        "session": name,
        "parent": None,
        "attended": False,
        "phase": phase,
    }
    made |= {"since": since, "silence_seconds": silence, "evidence": "stream", "status": None, "turns": {}}
    made |= {"waiting_for": None, "open_tools": [], "turn": turn, "verdicts": []}
    return made | {"bound": bound and bound | {"action": "interrupt"}, **more}


async def test_what_waits_is_not_working_and_nothing_is_stuck(tmp_path: Path) -> None:
    waits = session("w", "waiting", 10, waiting_for="permission prompt")
    works = session("b", "tool", 10, open_tools=[{"call": "c", "tool": CALLED, "since": "x"}])
    async with serving(World(waits, works)) as client, browsing(tmp_path / "profile") as tab:
        await tab.look(str(client.make_url("/")))
        await tab.until(f"{READY} == 2")
        assert await tab.value(HEADLINE) == "Nothing is stuck."
        assert await tab.value("document.getElementById('more').textContent") == (
            "2 sessions: 1 waiting, 1 working"
        )
        first, second = await tab.value(ROWS)
        assert first.startswith("waiting\n")
        assert "waiting: permission prompt since" in first
        assert second.startswith("working\n")
        assert CALLED in second  # as text
        assert await tab.value("document.title") == "agent-sidecar"
    assert tab.errors == []


async def test_what_is_stuck_comes_first_with_where_since_when_and_what_is_done(tmp_path: Path) -> None:
    stuck = session("5f48d15c-b702-4d8d-b2e1-41f11a64b701", "model", 2 * 86400.0)
    said = {"at": datetime.now(UTC).isoformat(), "turn": stuck["turn"]["id"], "bound": "model"}
    stuck["verdicts"] = [{**said, "action": "interrupt", "outcome": "observed", "reason": "no progress"}]
    world = World(session("w", "waiting", 10), stuck)
    async with serving(world) as client, browsing(tmp_path / "profile") as tab:
        await tab.look(str(client.make_url("/")))
        await tab.until(f"{READY} == 2")
        day = datetime.fromisoformat(stuck["since"]).strftime("%b %-d")
        headline = await tab.value(HEADLINE)
        assert headline.startswith(
            "Stuck: claude-code 5f48d15c…b701, waiting for the model, silent for 48h00m"
        )
        assert f"(since {day}, " in headline  # two days ago, not today
        assert headline.endswith("; interrupt would follow (observe mode).")
        assert (await tab.value(ROWS))[0].startswith("OVERDUE\n")
        assert await tab.value("document.title") == "(1 stuck) agent-sidecar"


async def test_why_is_told_in_sentences(tmp_path: Path) -> None:
    asked = session("w", "waiting", 10, open_tools=[{"call": "c", "tool": CALLED, "since": "x"}])
    async with serving(World(asked)) as client, browsing(tmp_path / "profile") as tab:
        await tab.look(str(client.make_url("/")))
        await tab.until(f"{READY} == 1")
        await tab.value("document.querySelector('#rows button').click()")
        await tab.until("document.getElementById('explained-text').textContent")
        told = await tab.value("document.getElementById('explained-text').textContent")
        assert told.splitlines()[1:] == [
            "evidence: stream, status none, attended false",
            "source transcript: up",
            f"open tool: {CALLED} since x",
            "bound model: 15m00s from x, then interrupt: 1m00s left",
            "bound model: 15m00s from x, tripped",
            "",
            "y turn <i>t1</i> opened",
        ]
    assert tab.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_fits_a_phone_and_can_be_read(tmp_path: Path, scheme: str) -> None:
    world = World(session("x" * 200, "model", 2000.0), session("w", "waiting", 10))
    async with serving(world) as client, browsing(tmp_path / "profile") as tab:
        await tab.look(str(client.make_url("/")), width=360, scheme=scheme)
        await tab.until(f"{READY} == 2")
        assert await tab.value("document.documentElement.scrollWidth") == 360
        for part, on in (("small", "body"), (".mark", "body"), ("#headline", "#head"), ("#more", "#head")):
            text = await tab.value(f"getComputedStyle(document.querySelector('{part}')).color")
            back = await tab.value(f"getComputedStyle(document.querySelector('{on}')).backgroundColor")
            assert contrast(text, back) >= 4.5, part  # WCAG AA


async def test_a_session_that_changes_or_closes_is_followed_and_a_lost_sidecar_is_said(
    tmp_path: Path,
) -> None:
    world = World(session("w", "waiting", 10))
    async with browsing(tmp_path / "profile") as tab:
        async with serving(world) as client:
            await tab.look(str(client.make_url("/")))
            await tab.until(f"{READY} == 1")
            world.all["claude-code", "w"] = session("w", "tool", 1)
            world.tell[0]("claude-code", "w")
            await tab.until(f"{ROWS}[0].startsWith('working')")
            del world.all["claude-code", "w"]
            world.tell[0]("claude-code", "w")
            await tab.until(f"{HEADLINE} == 'No sessions.'")
        await tab.until(f"{HEADLINE}.startsWith('No connection to the sidecar')")


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG defines it, 1 to 21."""

    def luminance(color: str) -> float:
        parts = [int(part) / 255 for part in color.removeprefix("rgb(").rstrip(")").split(",")]
        red, green, blue = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
