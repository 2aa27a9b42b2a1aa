"""The running sidecar in one process: composed, asked, reloaded, stopped."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.agents.registry import KINDS
from sidecar.config import load
from sidecar.config.reload import Reload
from sidecar.config.version import package_version
from sidecar.server import Ask, ListenError
from sidecar.service import Service, chosen, headers_in, lines, telling, unwritable
from sidecar.telemetry.targets import OtlpError
from tests.agents.claude_code import homes
from tests.agents.claude_code.homes import Home
from tests.agents.http.fakes import Site, serving

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


def config_text(root: Path, **more: Any) -> str:
    agents = [{"kind": "claude-code", "config_dir": str(root / "claude")} | more.pop("agent", {})]
    told = {"listen": "127.0.0.1:0", "state_dir": str(root / "state"), "agents": agents}
    return json.dumps(told | more)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The homes' wall clock is the real one here."""
    monkeypatch.setattr(homes, "WALL", time.time())


class Stage:
    """A service that runs while the test looks at it."""

    def __init__(self, root: Path, reload: Reload | None = None, **more: Any) -> None:
        self.stream = io.StringIO()
        config = reload.config if reload else load(config_text(root, **more), {"HOME": str(root)}, KINDS)
        self.service = Service(config, self.stream, reload=reload)
        self.stop = asyncio.Event()

    async def run(self, look: Callable[[], Awaitable[None]]) -> None:
        up = asyncio.Event()
        running = asyncio.create_task(self.service.run(self.stop, up.set))
        async with asyncio.timeout(20):
            await up.wait()
            await until(lambda: not self.service.unready())
            await look()
            self.stop.set()
            await running

    async def get(self, path: str) -> tuple[int, str]:
        def ask() -> tuple[int, str]:
            with urllib.request.urlopen(f"http://{self.service.server.address}{path}") as answer:
                return answer.status, answer.read().decode()

        return await asyncio.to_thread(ask)


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(15):
        while not check():  # noqa: ASYNC110 - whatever is waited for has no event
            await asyncio.sleep(0.01)


async def test_a_session_is_seen_everywhere_at_once(tmp_path: Path) -> None:
    script = Home(tmp_path / "claude").session().prompt(3).calls("Bash", ago=2)
    stage = Stage(tmp_path)

    async def look() -> None:
        status, body = await stage.get("/api/sessions")
        (session,) = json.loads(body)["sessions"]
        assert (status, session["session"], session["phase"]) == (200, script.id, "tool")
        explained = json.loads((await stage.get(f"/api/sessions/{script.id}?explain=1"))[1])
        assert explained["explain"]["sources"] == {"transcript": True}
        assert explained["explain"]["resolution"] == "record"
        first = explained["explain"]["changes"][0]
        assert (first["change"], first["text"]) == ("SessionOpened", "session seen")
        metrics = (await stage.get("/metrics"))[1]
        assert 'ai_agent_sessions{agent="claude-code",attended="false",phase="tool"} 1.0' in metrics
        assert 'agent_sidecar_source_up{agent="claude-code",source="transcript"} 1.0' in metrics
        assert (await stage.get("/healthz"))[0] == 200
        assert (await stage.get("/readyz"))[0] == 200
        assert "</html>" in (await stage.get("/"))[1]

    await stage.run(look)
    events = [json.loads(line)["event"] for line in stage.stream.getvalue().splitlines()]
    assert events[0] == "session.open"


async def test_a_session_that_is_gone_is_explained_as_nothing_and_cannot_be_ended(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def look() -> None:
        assert stage.service.board.explain("claude-code", "nobody") == {}
        done = await stage.service.board.ask(Ask("claude-code", "nobody", "reap", "", force=False))
        assert done.outcome == "superseded"

    await stage.run(look)


async def test_a_person_asks_for_what_nobody_can_do(tmp_path: Path) -> None:
    script = Home(tmp_path / "claude").session().prompt(3)
    stage = Stage(tmp_path)

    async def look() -> None:
        done = await stage.service.board.ask(Ask("claude-code", script.id, "interrupt", "", force=False))
        assert done.outcome == "unsupported"

    await stage.run(look)


async def test_whoever_subscribes_is_told_and_can_leave(tmp_path: Path) -> None:
    script = Home(tmp_path / "claude").session().prompt(3)
    stage = Stage(tmp_path)
    told: list[tuple[str, str]] = []

    async def look() -> None:
        leave = stage.service.board.subscribe(lambda *key: told.append(key))
        script.says(0, stop="tool_use")
        script.calls("Bash")
        await until(lambda: told)
        leave()
        assert told[0] == ("claude-code", script.id)

    await stage.run(look)


async def test_an_address_that_is_taken_is_an_error_with_its_name(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def look() -> None:
        other = Stage(tmp_path, listen=stage.service.server.address)
        with pytest.raises(ListenError, match="listen"):
            await other.service.run(asyncio.Event())

    await stage.run(look)


async def test_a_changed_file_is_taken_and_a_bad_one_leaves_the_old_in_force(tmp_path: Path) -> None:
    script = Home(tmp_path / "claude").session().prompt(120)
    file = tmp_path / "config.yaml"
    file.write_text(config_text(tmp_path))
    reload = Reload(file, {"HOME": str(tmp_path)}, KINDS)
    stage = Stage(tmp_path, reload)

    async def look() -> None:
        session = stage.service.watch.session("claude-code", script.id)
        assert session is not None
        assert session.verdicts == []
        file.write_text(config_text(tmp_path, bounds={"model": "61s"}, scrape_listen="127.0.0.1:1"))
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: session.verdicts)
        assert session.verdicts[0].outcome == "observed"
        file.write_text("mode: kill\n")
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: not stage.service.facts().reload_ok)
        assert stage.service.config.settings.mode == "observe"
        assert "agent_sidecar_config_last_reload_successful 0.0" in (await stage.get("/metrics"))[1]
        file.write_text(config_text(tmp_path, mode="enforce"))
        await until(lambda: stage.service.facts().mode == "enforce")
        assert stage.service.facts().reload_ok
        assert stage.service.acts.settings.mode == "enforce"

    await stage.run(look)


async def test_a_control_that_can_be_asked_is_up(tmp_path: Path) -> None:
    stage = Stage(tmp_path, agent={"control": {"kind": "host", "url": f"unix:{tmp_path}/*.sock"}})

    async def look() -> None:
        metrics = (await stage.get("/metrics"))[1]
        assert 'agent_sidecar_control_up{agent="claude-code",source="host"} 1.0' in metrics

    await stage.run(look)


async def test_the_cap_that_a_server_tells_is_shown(tmp_path: Path) -> None:
    site = Site()
    site.answers["GET /runs"] = {"runs": [{"id": "a"}, {"id": "b"}], "most": 3}
    listing = {"path": "/runs", "items": "runs[]", "id": "id", "limit": "most"}
    async with serving(site) as url:
        stage = Stage(tmp_path, agents=[{"kind": "http", "name": "box", "url": url, "listing": listing}])

        async def look() -> None:
            assert 'ai_agent_sessions_limit{agent="box"} 3.0' in (await stage.get("/metrics"))[1]

        await stage.run(look)


async def test_a_signal_control_is_always_at_hand(tmp_path: Path) -> None:
    for control in ({"kind": "signal"}, {"kind": "exec", "reap": ["true"]}):
        stage = Stage(tmp_path, agent={"control": control})
        assert [c.up for c in stage.service.facts().controls] == [True]


def test_without_configured_agents_those_found_here_are_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load(None, {"HOME": str(tmp_path)}, KINDS)
    assert [agent.kind for agent in chosen(config)] == ["claude-code"], "it may come yet"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert [agent.kind for agent in chosen(config)] == ["claude-code"]


def test_lines_go_to_stdout_unless_switched_off(tmp_path: Path) -> None:
    import sys  # noqa: PLC0415

    config = load(config_text(tmp_path), {"HOME": str(tmp_path)}, KINDS)
    assert lines(config) is sys.stdout
    config = load(config_text(tmp_path, telemetry={"lines": False}), {"HOME": str(tmp_path)}, KINDS)
    with lines(config) as nowhere:
        assert nowhere.name == os.devnull


def test_the_version_is_the_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert package_version()[0].isdigit()
    monkeypatch.setattr("sidecar.config.version.version", _missing)
    assert package_version() == "0"


def _missing(_: str) -> str:
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415

    raise PackageNotFoundError


@pytest.mark.parametrize(
    ("text", "headers"),
    [("authorization: Bearer x\n\nx-scope:  a:b \n", {"authorization": "Bearer x", "x-scope": "a:b"})],
)
def test_the_collectors_headers_come_from_a_file(tmp_path: Path, text: str, headers: dict[str, str]) -> None:
    file = tmp_path / "headers"
    file.write_text(text)
    otlp = {"endpoint": "http://127.0.0.1:1", "headers_file": str(file), "timeout": "3s", "protocol": "grpc"}
    config = load(config_text(tmp_path, telemetry={"otlp": otlp}), {"HOME": str(tmp_path)}, KINDS)
    told = telling(config).otlp
    assert (told.headers, told.timeout, told.protocol) == (headers, 3.0, "grpc")


@pytest.mark.parametrize("text", [None, "no colon\n", ": value\n"])
def test_a_bad_headers_file_is_an_error_with_its_path(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "headers"
    if text is not None:
        file.write_text(text)
    with pytest.raises(OtlpError, match=f"headers_file: {file}"):
        headers_in(file)


def test_a_state_dir_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    assert unwritable(tmp_path / "made" / "here") is None
    assert (tmp_path / "made" / "here").is_dir()
    assert unwritable(tmp_path / "made" / "here") is None
    (tmp_path / "file").write_text("")
    assert unwritable(tmp_path / "file") == "cannot be made (File exists)"
