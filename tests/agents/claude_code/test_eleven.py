"""Eleven sessions that every peer got wrong somewhere, in one home, from a running sidecar."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from sidecar.agents.claude_code.adapter import ClaudeCode, Settings
from sidecar.clock import LiveClock
from sidecar.limits import Rules
from sidecar.view import view
from sidecar.watch import Settings as WatchSettings
from sidecar.watch import Watch
from tests.agents.claude_code.homes import WALL, Home

if TYPE_CHECKING:
    from pathlib import Path

    from sidecar.session import Session

pytestmark = pytest.mark.looptime

MIN = 60.0
HOUR = 3600.0


class Eleven:
    """The home of all eleven, each registered as a process of ours that lives."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.ids: dict[str, str] = {}
        self._letters = 0

    def a(self) -> None:
        self._live("A", "busy", 40 * MIN).prompt(41 * MIN).calls("Bash", ago=40 * MIN)

    def b(self) -> None:
        self._live("B", None, 0).prompt(52 * MIN)

    def c(self) -> None:
        script = self._live("C", "waiting", 10 * MIN, waitingFor="permission prompt")
        script.prompt(11 * MIN).calls("Edit", ago=10 * MIN)

    def d(self) -> None:
        self._live("D", "idle", 2 * HOUR).prompt(2 * HOUR + 60).says(2 * HOUR)

    def e(self) -> None:
        script = self._live("E", "busy", 17 * MIN).prompt(17 * MIN).calls("Agent", ago=16 * MIN)
        script.subagent("abc").prompt(16 * MIN, promptSource=None).says(5, stop="tool_use")

    def f(self) -> None:
        script = self._live("F", "busy", 10 * HOUR).prompt(10 * HOUR + 9).says(10 * HOUR, stop="tool_use")
        script.record("ai-title", None, uuid=None).record("mode", None, uuid=None)

    def g(self) -> None:
        script = (
            self._live("G", "busy", 60).prompt(60).raw(b'{"type":"assistant\xff\n').says(3, stop="tool_use")
        )
        script.raw(b'{"type":"assist')

    def h(self) -> None:
        script = self._live("H", "idle", 60).prompt(90)
        text = f"Claude AI usage limit reached|{int(WALL + HOUR)}"
        script.says(60, "stop_sequence", "<synthetic>", text=text, isApiErrorMessage=True)

    def i(self) -> None:
        script = self.home.session()
        self.ids["I"] = script.id
        script.prompt(8 * MIN).says(7 * MIN, stop="tool_use")
        self.home.register(script, 1, "99999.json", procStart="7", status="busy")

    def j(self) -> None:
        script = self._live("J", "busy", 11 * MIN).prompt(11 * MIN)
        for minute in range(10, 0, -1):
            script.record(
                "system", minute * MIN, subtype="api_error", retryInMs=60_000, error={"status": 529}
            )

    def k(self) -> None:
        self._live("K", "shell", HOUR).prompt(HOUR + 60).says(HOUR)

    def _live(self, letter: str, status: str | None, since: float, **fields: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
        script = self.home.session(folder=f"-{letter}")
        self.ids[letter] = script.id
        self._letters += 1
        told = {"status": status, "statusUpdatedAt": int((WALL - since) * 1000)} if status else {}
        self.home.register(script, None, f"{self._letters}.json", **told, **fields)
        return script


async def watched(root: Path) -> Watch:
    loop = asyncio.get_running_loop()
    clock = LiveClock(loop.time, lambda: loop.time() + WALL)
    agent = ClaudeCode("claude-code", Settings(config_dir=str(root)), clock)
    watch = Watch([agent], WatchSettings({"claude-code": Rules()}, lambda: 0.0), clock)
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(2)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await agent.close()
    return watch


async def test_all_eleven_come_out_right(tmp_path: Path) -> None:
    eleven = Eleven(tmp_path)
    for letter in "abcdefghijk":
        getattr(eleven, letter)()
    watch = await watched(tmp_path)
    found: dict[str, Session] = {}
    for letter, session_id in eleven.ids.items():
        session = watch.session("claude-code", session_id)
        assert session is not None, letter
        found[letter] = session
    shown = {k: view(s, Rules(), watch.clock, watch.clock.now()) for k, s in found.items()}
    phases = {letter: session.phase for letter, session in found.items()}
    assert phases == {
        "A": "tool",
        "B": "model",
        "C": "waiting",
        "D": "idle",
        "E": "delegated",
        "F": "model",
        "G": "model",
        "H": "limited",
        "I": "gone",
        "J": "retrying",
        "K": "delegated",
    }
    verdicts = {k: [(v.bound, v.action) for v in s.verdicts] for k, s in found.items()}
    assert verdicts == {
        "A": [],
        "B": [("model", "interrupt")],
        "C": [("waiting", "interrupt")],
        "D": [("idle", "report")],
        "E": [],
        "F": [("model", "interrupt")],
        "G": [],
        "H": [],
        "I": [("gone", "report")],
        "J": [],
        "K": [],
    }
    assert shown["A"]["bound"] is None
    assert shown["C"]["waiting_for"] == "permission prompt"
    assert shown["E"]["silence_seconds"] == pytest.approx(7, abs=1)
    assert shown["F"]["silence_seconds"] == pytest.approx(10 * HOUR + 2, abs=1)
    assert shown["G"]["silence_seconds"] == pytest.approx(5, abs=1)
    assert shown["H"]["bound"]["limit_seconds"] == pytest.approx(HOUR + 60 + 5 * MIN, abs=1)
    assert shown["J"]["silence_seconds"] == pytest.approx(11 * MIN, abs=3)
    assert shown["J"]["bound"]["name"] == "retrying"
    assert shown["K"]["bound"] is None
