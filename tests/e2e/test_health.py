"""`/healthz` speaks of the sidecar alone: a worker that hangs turns it, an agent or a collector never does.

The listeners are real and asked over sockets. A worker hangs here by a source made for it, beside the real
ones; what else could hang one (pipes under the names of files, hosts that do not answer) is made for real.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from sidecar.agents.registry import KINDS
from tests.agents.claude_code import homes
from tests.agents.claude_code.homes import Home
from tests.e2e.claude import Claude, prompt
from tests.e2e.process import until
from tests.e2e.sidecar import ROOT, Sidecar
from tests.e2e.test_main_job import control, hosted
from tests.telemetry.collector import mute, refusing
from tests.test_service import Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from sidecar.agent import Agent
    from sidecar.clock import Clock
    from sidecar.signals import Observation
    from tests.e2e.process import Json

Health = tuple[int, list[str]]

GONE = 5.0  # seconds that a terminated sidecar has


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The homes' wall clock is the real one here."""
    monkeypatch.setattr(homes, "WALL", time.time())


class Hanging:
    """A source that reads at once until it is told to hang: waiting for ever, or holding up the loop."""

    name = "hanging"
    every = 0.05
    patience = 0.5
    wake: asyncio.Event | None = None

    def __init__(self) -> None:
        self.waits = asyncio.Event()
        self.waits.set()
        self.holds = threading.Event()
        self.holds.set()

    async def read(self) -> Sequence[Observation]:
        await self.waits.wait()
        assert self.holds.wait(30), "the test has let it go"
        return ()


@pytest.fixture
async def hanging(monkeypatch: pytest.MonkeyPatch) -> Hanging:
    """Every agent that is built from now on has this source too."""
    kind, source = KINDS["claude-code"], Hanging()

    def build(entry: object, clock: Clock) -> Agent:
        agent = kind.build(entry, clock)
        agent.sources.append(source)  # type: ignore[attr-defined] # the adapter's is a list
        return agent

    monkeypatch.setitem(KINDS, "claude-code", structs.replace(kind, build=build))
    return source


@asynccontextmanager
async def serving(root: Path, agent: Json | None = None) -> AsyncIterator[Stage]:
    """A service with both listeners, once it is ready."""
    made, up = Stage(root, scrape_listen="127.0.0.1:0", agent=agent or {}), asyncio.Event()
    running = asyncio.create_task(made.service.run(made.stop, up.set))
    try:
        await up.wait()
        await asyncio.to_thread(until, lambda: not made.service.unready(), "it is ready")
        yield made
    finally:
        made.stop.set()
        await running


def ask(address: str) -> Health:
    """Status and the workers that are named."""
    try:
        with urllib.request.urlopen(f"http://{address}/healthz", timeout=5) as answer:
            return answer.status, json.loads(answer.read())["stale"]
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["stale"]


async def both(on: Stage, wanted: Callable[[Health], bool], what: str) -> None:
    """Wait until both listeners answer so."""
    server = on.service.server
    for address in (server.address, server.scrape_address):
        assert address is not None
        await asyncio.to_thread(until, lambda a=address: wanted(ask(a)), f"{what} at {address}")


async def test_a_worker_that_hangs_is_named_until_it_goes_on(tmp_path: Path, hanging: Hanging) -> None:
    async with serving(tmp_path) as on:
        await both(on, lambda health: health == (200, []), "all is well")
        hanging.waits.clear()
        await both(on, lambda health: health == (503, ["claude-code/hanging"]), "the worker is named")
        assert (await on.get("/readyz"))[0] == 200, "it came up once, and what it knows is there to be read"
        hanging.waits.set()
        await both(on, lambda health: health == (200, []), "all is well again")


async def test_while_the_loop_is_held_up_the_scrape_listener_says_so(
    tmp_path: Path, hanging: Hanging
) -> None:
    seen: list[Health] = []

    def watch(address: str) -> None:
        """From beside the loop: first the worker is named, then the ticker that stands still with it."""

        def named() -> bool:
            seen.append(ask(address))
            return "ticker" in seen[-1][1]

        try:
            until(named, "the ticker is named")
        finally:
            hanging.holds.set()

    async with serving(tmp_path) as on:
        assert on.service.server.scrape_address is not None
        beside = threading.Thread(target=watch, args=(on.service.server.scrape_address,))
        hanging.holds.clear()
        beside.start()
        await asyncio.to_thread(beside.join)
        await both(on, lambda health: health == (200, []), "all is well again")
    told = [health for before, health in zip([None, *seen], seen, strict=False) if health != before]
    named = ["claude-code/hanging", "ticker"]
    assert told[-2:] == [(503, named[:1]), (503, named)]
    assert told[:-2] in ([(200, [])], [])


async def test_pipes_and_sockets_under_the_names_of_files_hang_nobody(tmp_path: Path) -> None:
    home = Home(tmp_path / "claude")
    first, second = home.session(), home.session()
    first.prompt(2)
    sessions = home.root / "sessions"
    sessions.mkdir()
    os.mkfifo(first.path.with_name("0e1f2a3b-0000-4000-8000-000000000001.jsonl"))
    os.mkfifo(sessions / "12.json")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(short(tmp_path) / "13.json"))
        async with serving(tmp_path) as on:
            second.prompt(0)
            home.register(second, status="busy")
            await asyncio.to_thread(until, lambda: status_of(on, second.id) == "busy", "it is read on")
            await both(on, lambda health: health == (200, []), "all is well")
            metrics = (await on.get("/metrics"))[1]
    for source in ("transcript", "registry", "process"):
        assert f'agent_sidecar_source_up{{agent="claude-code",source="{source}"}} 1.0' in metrics


def short(root: Path) -> Path:
    """The folder of registrations under a name that fits a unix socket's address."""
    link = Path(tempfile.mkdtemp(prefix="health-")) / "s"
    link.symlink_to(root / "claude" / "sessions")
    return link


def status_of(on: Stage, session: str) -> str | None:
    found = on.service.watch.session("claude-code", session)
    return None if found is None or found.status is None else found.status.word


@contextmanager
def mute_host(folder: Path) -> Iterator[None]:
    """A socket that accepts and never answers."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "mute.sock"))
        listening.listen()
        yield


@contextmanager
def stopped_host(folder: Path) -> Iterator[None]:
    """A real host whose process stands still: its kernel accepts, nobody answers."""
    listen = f"unix:{folder}/{{pid}}.sock"
    command = [sys.executable, str(ROOT / "sidecar" / "host.py"), "--listen", listen, "--mode", "plain"]
    with subprocess.Popen([*command, "--", "cat"], stdin=subprocess.PIPE) as host:
        try:
            until((folder / f"{host.pid}.sock").exists, "the host listens")
            host.send_signal(signal.SIGSTOP)
            yield
        finally:
            host.send_signal(signal.SIGCONT)
            host.terminate()


@pytest.mark.parametrize("silent", [mute_host, stopped_host])
async def test_a_host_that_never_answers_is_a_lost_source_and_no_hang(
    tmp_path: Path, silent: Callable[[Path], AbstractContextManager[None]]
) -> None:
    stalled = Home(tmp_path / "claude").session().prompt(3600)
    seen: list[Health] = []
    with tempfile.TemporaryDirectory(prefix="health-") as folder, silent(Path(folder)):
        hosts: Json = {"control": {"kind": "host", "url": f"unix:{folder}/*.sock"}}
        async with serving(tmp_path, agent=hosts) as on:

            def down() -> bool:
                lost = not on.service.watch.states["claude-code", "host"].up
                seen.append(ask(on.service.server.address))
                return lost

            await asyncio.to_thread(until, down, "the source is called lost")
            metrics = (await on.get("/metrics"))[1]
            session = on.service.watch.session("claude-code", stalled.id)
            assert session is not None
            assert [v.bound for v in session.verdicts] == ["model"], "the others are judged all the same"
    assert 'agent_sidecar_source_up{agent="claude-code",source="host"} 0.0' in metrics
    assert {status for status, _ in seen} == {200}


@pytest.mark.parametrize("collector", [refusing, mute])
def test_neither_a_stalled_agent_nor_a_dead_collector_makes_the_sidecar_unhealthy(
    claude: Claude, collector: Callable[[], AbstractContextManager[str]]
) -> None:
    with collector() as endpoint:
        telemetry = {"otlp": {"endpoint": endpoint, "timeout": "1s"}, "liveness_after": "1s"}
        sidecar = Sidecar(claude, control(claude), mode="observe", telemetry=telemetry)
        sidecar.env["OTEL_BSP_SCHEDULE_DELAY"] = "100"
        with sidecar:
            conversation = hosted(claude)
            conversation.send(prompt("[[blackhole]]"))
            until(lambda: verdict_outcomes(sidecar) == ["observed"], "the verdict")
            failed = 'agent_sidecar_spans_total{outcome="failed"}'
            until(lambda: sidecar.metric(failed) >= 1, "a span that did not arrive")
            assert sidecar.metric('ai_agent_sessions_overdue{agent="claude-code",bound="model"}') == 1
            assert sidecar.get("/healthz") == (200, '{"alive":true,"stale":[]}\n')
            assert sidecar.get("/readyz")[0] == 200
            asked = time.monotonic()
            assert sidecar.stop(signal.SIGTERM) == 0
            assert time.monotonic() - asked < GONE


def verdict_outcomes(sidecar: Sidecar) -> list[str]:
    return [v["outcome"] for s in sidecar.sessions().values() for v in s["verdicts"]]
