"""What hosts tell as it happens: merged, followed, lost with a name, and found again."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agent import Can
from sidecar.clock import RecordedClock
from sidecar.control.api import Hosted
from sidecar.control.events import Event, Lost, event_of
from sidecar.control.host import HostControl, Settings
from tests.control.api_server import Server, serving, session

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator


@pytest.fixture
def run() -> Iterator[Path]:
    """A folder for sockets, whose names have to be short."""
    with TemporaryDirectory(prefix="run") as folder:
        yield Path(folder)


def control(run: Path) -> HostControl:
    return HostControl(Settings(url=f"unix:{run}/*.sock"), RecordedClock())


async def take(told: AsyncGenerator[Event, None], count: int) -> list[tuple[str, str]]:
    """The next events, as (session, what)."""
    return [shown(await anext(told)) for _ in range(count)]


def shown(event: Event) -> tuple[str, str]:
    what = event.what
    if isinstance(what, Hosted):
        return event.session, what.status
    return event.session, f"lost: {what.why}" if isinstance(what, Lost) else what


async def test_sessions_and_progress_come_from_all_hosts(run: Path) -> None:
    one, two = Server(), Server()
    async with (
        serving(one, run / "a.sock"),
        serving(two, run / "b.sock"),
        aclosing(control(run).events()) as told,
    ):
        one.tell(session("s1"))
        one.tell({"id": "s1", "progress": True})
        two.tell(session("s2", status="idle"))
        events = await take(told, 3)
    assert sorted(events) == [("s1", "busy"), ("s1", "progress"), ("s2", "idle")]
    assert [what for name, what in events if name == "s1"] == ["busy", "progress"]


@pytest.mark.looptime
async def test_a_host_that_starts_later_is_found(run: Path) -> None:
    host = Server()
    async with aclosing(control(run).events()) as told:
        first = asyncio.ensure_future(anext(told))
        await asyncio.sleep(5)
        async with serving(host, run / "late.sock"):
            host.tell(session("s1"))
            assert shown(await first) == ("s1", "busy")


@pytest.mark.looptime
async def test_a_host_that_goes_away_is_told_for_each_of_its_sessions(run: Path) -> None:
    host = Server()
    async with aclosing(control(run).events()) as told:
        async with serving(host, run / "a.sock"):
            for name in ("s1", "s2", "s1"):
                host.tell(session(name))
            await take(told, 3)
        assert sorted(await take(told, 2)) == [
            ("s1", "lost: its stream ended"),
            ("s2", "lost: its stream ended"),
        ]


@pytest.mark.looptime
async def test_a_host_that_comes_back_is_heard_again(run: Path) -> None:
    async with aclosing(control(run).events()) as told:
        for _ in range(2):
            host = Server()
            (run / "a.sock").unlink(missing_ok=True)
            async with serving(host, run / "a.sock"):
                host.tell(session("s1"))
                assert await take(told, 1) == [("s1", "busy")]
            assert await take(told, 1) == [("s1", "lost: its stream ended")]


@pytest.mark.looptime
async def test_a_stream_that_falls_silent_is_dead(run: Path) -> None:
    host = Server()
    async with serving(host, run / "a.sock"), aclosing(control(run).events()) as told:
        host.tell(session("s1"))
        await take(told, 1)
        assert await take(told, 1) == [("s1", "lost: it did not answer in time")]
        assert asyncio.get_running_loop().time() >= 60
        await host.listening.wait()


@pytest.mark.looptime
async def test_a_heartbeat_keeps_a_quiet_stream(run: Path) -> None:
    host = Server()
    async with serving(host, run / "a.sock"), aclosing(control(run).events()) as told:
        host.tell(session("s1"))
        await take(told, 1)
        quiet = asyncio.ensure_future(anext(told))
        for _ in range(10):
            await asyncio.sleep(15)
            host.events.put_nowait(b": beat\n\n")
        assert not quiet.done()
        host.tell(session("s1", status="idle"))
        assert shown(await quiet) == ("s1", "idle")
    assert host.listeners == 1


@pytest.mark.looptime
async def test_a_host_that_refuses_is_asked_again_and_again_but_ever_less_often(run: Path) -> None:
    (run / "a.sock").unlink(missing_ok=True)
    host = Server()
    host.refuses = True
    async with serving(host, run / "a.sock"), aclosing(control(run).events()) as told:
        first = asyncio.ensure_future(anext(told))
        await asyncio.sleep(300)
        assert 8 < len(host.requests) < 20
        host.refuses = False
        host.tell(session("s1"))
        assert shown(await first) == ("s1", "busy")


async def test_what_a_host_tells_is_what_can_be_done_from_then_on(run: Path) -> None:
    host = Server(session("s1"))
    acting = control(run)
    async with serving(host, run / "a.sock"), aclosing(acting.events()) as told:
        await acting.sessions()
        assert acting.can("s1") == Can(interrupt=True, reap=True)
        host.tell(session("s1", can={"interrupt": False, "reap": True}))
        await take(told, 1)
        assert acting.can("s1") == Can(interrupt=False, reap=True)


async def test_whoever_stops_listening_leaves_nothing_behind(run: Path) -> None:
    host = Server()
    before = len(asyncio.all_tasks())
    async with serving(host, run / "a.sock"):
        async with aclosing(control(run).events()) as told:
            host.tell(session("s1"))
            await take(told, 1)
        assert not [task for task in asyncio.all_tasks() if "events of" in task.get_name()]
    assert len(asyncio.all_tasks()) <= before + 1


# The wire.


@given(st.binary(max_size=300))
def test_nothing_that_is_told_raises(data: bytes) -> None:
    event_of(data)


@pytest.mark.parametrize(
    "told", [{}, {"progress": True}, {"id": "s1", "turn": 5}, {"id": 1, "progress": True}, [], None, "s1"]
)
def test_an_event_that_makes_no_sense_is_none(told: Any) -> None:
    assert event_of(json.dumps(told).encode()) is None


def test_progress_has_to_be_true_to_be_progress() -> None:
    event = event_of(b'{"id":"s1","progress":false}')
    assert event is not None
    assert isinstance(event.what, Hosted)
