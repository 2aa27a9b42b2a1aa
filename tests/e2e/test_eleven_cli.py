"""The eleven sessions that every peer got wrong somewhere, from a sidecar that really runs, over HTTP."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tests.agents.claude_code import homes, test_eleven
from tests.agents.claude_code.test_eleven import HOUR, MIN, Eleven
from tests.e2e.process import until
from tests.e2e.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.claude import Claude
    from tests.e2e.process import Json

LETTERS = "abcdefghijk"

# What each comes to: phase, status, and the verdicts with what was done about them in observe mode.
EXPECTED: dict[str, tuple[str, str | None, list[tuple[str, str, str]]]] = {
    "A": ("tool", "busy", []),
    "B": ("model", None, [("model", "interrupt", "observed")]),
    "C": ("waiting", "waiting", [("waiting", "interrupt", "observed")]),
    "D": ("idle", "idle", [("idle", "report", "reported")]),
    "E": ("delegated", "busy", []),
    "F": ("model", "busy", [("model", "interrupt", "observed")]),
    "G": ("model", "busy", []),
    "H": ("limited", "idle", []),
    "I": ("gone", None, [("gone", "report", "reported")]),
    "J": ("retrying", "busy", []),
    "K": ("delegated", "background", []),
}


@pytest.fixture
def eleven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Eleven:
    now = time.time()
    monkeypatch.setattr(homes, "WALL", now)
    monkeypatch.setattr(test_eleven, "WALL", now)
    built = Eleven(tmp_path / "claude")
    for letter in LETTERS:
        getattr(built, letter)()
    return built


@pytest.fixture
def sidecar(eleven: Eleven, tmp_path: Path) -> Iterator[Sidecar]:
    """`agent-sidecar run` in observe mode, with the default bounds."""
    agent = SimpleNamespace(sandbox=SimpleNamespace(root=tmp_path), config=eleven.home.root)
    bounds = {"unsafe": False, "model": {"record": "45m", "delta": "15m"}}
    with Sidecar(cast("Claude", agent), mode="observe", bounds=bounds) as running:
        yield running


def shown(sidecar: Sidecar, eleven: Eleven) -> dict[str, Json]:
    sessions = sidecar.sessions()
    return {letter: sessions[name] for letter, name in eleven.ids.items() if name in sessions}


def come_to(session: Json) -> tuple[str, str | None, list[tuple[str, str, str]]]:
    verdicts = [(v["bound"], v["action"], v["outcome"]) for v in session["verdicts"]]
    return session["phase"], session["status"], verdicts


def test_all_eleven_come_out_right_over_http(sidecar: Sidecar, eleven: Eleven) -> None:
    until(lambda: len(shown(sidecar, eleven)) == len(LETTERS), "all eleven")
    until(lambda: shown(sidecar, eleven)["I"]["verdicts"], "the one whose process is gone")
    found = shown(sidecar, eleven)
    assert {letter: come_to(session) for letter, session in found.items()} == EXPECTED
    assert found["A"]["bound"] is None
    assert [tool["tool"] for tool in found["A"]["open_tools"]] == ["Bash"]
    assert found["C"]["waiting_for"] == "permission prompt"
    assert found["E"]["silence_seconds"] == pytest.approx(15, abs=15)
    assert found["F"]["silence_seconds"] == pytest.approx(10 * HOUR + 15, abs=15)
    assert found["G"]["silence_seconds"] == pytest.approx(15, abs=15)
    assert found["H"]["bound"]["limit_seconds"] == pytest.approx(HOUR + MIN + 5 * MIN, abs=1)
    assert found["I"]["turn"]["outcome"] == "died"
    assert found["J"]["silence_seconds"] == pytest.approx(11 * MIN + 15, abs=15)
    assert found["J"]["bound"]["name"] == "retrying"
    assert found["K"]["bound"] is None
    (child,) = [s for s in sidecar.sessions().values() if s["parent"] is not None]
    assert (child["session"], child["parent"]) == ("abc", eleven.ids["E"])
    malformed = 'agent_sidecar_records_total{agent="claude-code",kind="malformed"}'
    assert sidecar.metric(malformed) == 1, "the broken line of G; what is not yet a line is none"
    assert sidecar.metric('ai_agent_turns_total{agent="claude-code",outcome="stalled"}') == 0
    assert sidecar.get("/healthz")[0] == 200
