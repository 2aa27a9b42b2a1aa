"""The source `host`: pieces as progress, and what a session without a registration is known by."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.claude_code.hosts import RELIST, Hosts
from sidecar.clock import LiveClock
from sidecar.control.api import Can, Hosted
from sidecar.control.events import Event, Lost
from sidecar.control.host import Listing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.looptime

BUSY = Hosted("s1", turn="t9", status="busy", resolution="delta", created_at=1_000_000_000.0)


class Fake:
    """Hosts that list what they are told to, and tell events."""

    def __init__(self, *hosted: Hosted) -> None:
        self.listing = Listing({h.id: h for h in hosted}, {h.id: ["unix:/a.sock"] for h in hosted})
        self.told: asyncio.Queue[Event] = asyncio.Queue()
        self.listings = 0
        self.closed = False

    async def sessions(self) -> Listing:
        self.listings += 1
        return self.listing

    async def events(self) -> AsyncGenerator[Event, None]:
        try:
            while True:
                yield await self.told.get()
        finally:
            self.closed = True


def hosts(fake: Fake, *, registered: bool = False) -> Hosts:
    loop = asyncio.get_running_loop()
    clock = LiveClock(loop.time, lambda: loop.time() + 1_000_000_060.0)
    return Hosts(fake, clock, lambda _: registered)  # type: ignore[arg-type]


async def read(source: Hosts) -> list[g.Signal]:
    found = await source.read()
    assert {o.session for o in found} <= {"s1"}
    return [o.signal for o in found]


async def test_a_hosted_session_is_listed_with_its_resolution_and_its_word() -> None:
    source = hosts(Fake(BUSY))
    assert await read(source) == [
        g.SourceUp(0, "host", "delta"),
        g.Registered(-60),
        g.Status(0, "busy", 0, source="host"),
    ]
    assert await read(source) == []
    await source.close()


async def test_a_registered_session_speaks_for_itself() -> None:
    source = hosts(Fake(BUSY), registered=True)
    assert await read(source) == [g.SourceUp(0, "host", "delta")]
    await source.close()


async def test_its_pieces_are_progress_and_wake_the_reader() -> None:
    fake = Fake(BUSY)
    source = hosts(fake)
    await read(source)
    assert source.wake is not None
    await asyncio.sleep(3)
    fake.told.put_nowait(Event("s1", "progress"))
    fake.told.put_nowait(Event("unheard-of", "progress"))
    await asyncio.wait_for(source.wake.wait(), 1)
    assert await read(source) == [g.Progress(3)]
    await source.close()


async def test_partial_messages_make_it_finer() -> None:
    coarse = Hosted("s1", status="busy", resolution="record")
    fake = Fake(coarse)
    source = hosts(fake, registered=True)
    assert await read(source) == [g.SourceUp(0, "host", None)]
    fake.told.put_nowait(Event("s1", BUSY))
    await asyncio.sleep(0.1)
    assert await read(source) == [g.SourceUp(0.1, "host", "delta")]
    await source.close()


@pytest.mark.parametrize(
    ("status", "word"), [("idle", "idle"), ("waiting", "waiting"), ("brand-new", "busy")]
)
async def test_the_words_of_a_host(status: str, word: str) -> None:
    source = hosts(Fake(Hosted("s1", status=status, waiting_for="permission prompt")))
    told = [s for s in await read(source) if isinstance(s, g.Status)]
    assert [(s.word, s.waiting_for) for s in told] == [
        (word, "permission prompt" if word == "waiting" else None)
    ]
    await source.close()


async def test_a_list_overtakes_what_was_told_before_it() -> None:
    earlier = Hosted("s1", status="idle", last_activity_at=1_000_000_010.0)
    later = Hosted("s1", status="busy", turn="t9", last_activity_at=1_000_000_020.0)
    fake = Fake(later)
    source = hosts(fake)
    await read(source)
    await asyncio.sleep(RELIST)
    fake.told.put_nowait(Event("s1", earlier))
    await asyncio.sleep(0.1)
    assert await read(source) == [], "it comes with the next list"
    fake.told.put_nowait(Event("s1", earlier))
    await asyncio.sleep(0.1)
    assert await read(source) == [], "and after it"
    equal = Hosted("s1", status="idle", last_activity_at=1_000_000_020.0)
    fake.told.put_nowait(Event("s1", equal))
    await asyncio.sleep(0.1)
    assert [s.word for s in await read(source) if isinstance(s, g.Status)] == ["idle"]
    await source.close()


async def test_somebody_who_sits_there_is_told() -> None:
    source = hosts(Fake(Hosted("s1", attended=True)), registered=True)
    assert g.Described(0, attended=True) in await read(source)
    await source.close()


async def test_a_lost_stream_is_blindness_until_it_is_back() -> None:
    fake = Fake(BUSY)
    source = hosts(fake, registered=True)
    await read(source)
    fake.told.put_nowait(Event("s1", Lost("gone")))
    fake.told.put_nowait(Event("s1", Lost("gone")))
    fake.told.put_nowait(Event("never-seen", Lost("gone")))
    await asyncio.sleep(0.1)
    assert await read(source) == [g.SourceLost(0.1, "host")]
    fake.told.put_nowait(Event("s1", BUSY))
    await asyncio.sleep(0.1)
    assert await read(source) == [g.SourceUp(0.2, "host", "delta")]
    await source.close()


@pytest.mark.parametrize(
    ("registered", "kinds"), [(False, ["SourceLost", "Unregistered"]), (True, ["SourceLost"])]
)
async def test_a_session_that_no_host_has_any_more_is_delisted(registered: bool, kinds: list[str]) -> None:
    fake = Fake(BUSY)
    source = hosts(fake, registered=registered)
    await read(source)
    fake.listing = Listing()
    await asyncio.sleep(RELIST)
    assert [type(s).__name__ for s in await read(source)] == kinds
    await source.close()


async def test_while_a_host_cannot_be_asked_nothing_is_delisted() -> None:
    fake = Fake(BUSY)
    source = hosts(fake)
    await read(source)
    fake.listing = Listing(where={"other": ["unix:/b.sock"]}, errors={"unix:/a.sock": "timeout"})
    await asyncio.sleep(RELIST)
    assert await read(source) == []
    await source.close()


async def test_hosts_that_cannot_be_asked_at_all_are_a_lost_source() -> None:
    fake = Fake()
    fake.listing = Listing(errors={"unix:/a.sock": "timeout"})
    source = hosts(fake)
    with pytest.raises(SourceDown, match=r"unix:/a\.sock: timeout"):
        await source.read()
    await source.close()


async def test_no_host_at_all_is_no_loss() -> None:
    source = hosts(Fake())
    assert await read(source) == []
    await source.close()


async def test_closing_ends_the_streams_and_may_come_before_the_first_read() -> None:
    fake = Fake()
    source = hosts(fake)
    await source.close()
    await source.read()
    await asyncio.sleep(0)
    await source.close()
    assert fake.closed


async def test_a_session_without_a_name_is_shown_only_when_it_stays_without_one() -> None:
    fake = Fake(Hosted("host-7", status="busy"))
    source = hosts(fake)
    assert list(await source.read()) == []
    await asyncio.sleep(2 * RELIST)
    assert {o.session for o in await source.read()} == {"host-7"}
    await source.close()


async def test_check_says_which_hosts_answer_and_what_they_can_do() -> None:
    fake = Fake(BUSY, Hosted("s2", can=Can(interrupt=False, reap=False)))
    fake.listing.errors["unix:/b.sock"] = "timeout"
    found = {f.what: (f.ok, f.detail) for f in await hosts(fake).probe()}
    assert found == {
        "control unix:/b.sock": (False, "timeout"),
        "control of s1": (True, "interrupt and reap"),
        "control of s2": (False, "nothing"),
    }
    assert [f.detail for f in await hosts(Fake()).probe()] == [
        "no host listens yet; hosts come with sessions"
    ]
