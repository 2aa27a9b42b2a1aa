"""The loop, on a clock that the tests move: reads, losses, lateness, health."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from sidecar import signals as g
from sidecar.agent import Answer, Can, Finding, Order, Sees, SourceDown
from sidecar.clock import LiveClock
from sidecar.limits import Rules
from sidecar.watch import Settings, Watch
from tests.stories import MIN, block, prompt, up

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sidecar.session import Session

pytestmark = pytest.mark.looptime


class Script:
    """A source that gives what it was told to, read by read."""

    def __init__(self, name: str = "transcript", every: float = 1.0, patience: float = 5.0) -> None:
        self.name = name
        self.every = every
        self.patience = patience
        self.wake: asyncio.Event | None = None
        self.script: list[list[g.Observation] | Exception | float] = []
        self.reads: list[float] = []

    async def read(self) -> Sequence[g.Observation]:
        self.reads.append(asyncio.get_running_loop().time())
        step = self.script.pop(0) if self.script else []
        if isinstance(step, Exception):
            raise step
        if isinstance(step, float):
            await asyncio.sleep(step)
            return []
        return step


class Box:
    """An agent of scripted sources."""

    kind = "claude-code"

    def __init__(self, *sources: Script, name: str = "claude-code") -> None:
        self.name = name
        self.sources = list(sources)
        self.looked: list[str] = []
        self.seen: list[g.Observation] = []

    async def look(self, session: str) -> Sequence[g.Observation]:
        self.looked.append(session)
        return self.seen

    sees = Sees("record", tools=True, waiting=True, status=True)

    def can(self, session: str) -> Can:
        own = session == "alone"
        return Can(interrupt=own, reap=own)

    async def interrupt(self, order: Order) -> Answer:
        raise NotImplementedError(order)

    async def reap(self, order: Order) -> Answer:
        raise NotImplementedError(order)

    async def probe(self) -> Sequence[Finding]:
        return ()

    async def close(self) -> None:
        return


class Doer:
    """Notes what it is asked to carry out."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str, float]] = []
        self.known: list[g.Signal] = []
        self.ticks = 0

    def carry_out(self, session: Session, judged: g.Judged) -> None:
        self.done.append((session.id, judged.bound, judged.at))

    def recall(self, _: Session) -> Iterable[g.Signal]:
        return self.known

    def resume(self, _: Session) -> None:
        return

    def tick(self, _: float) -> None:
        self.ticks += 1


class Ahead:
    """A clock that runs with the loop and can be stepped: a frozen process sees its own step."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.ahead = ahead

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead


def saw(*signals: g.Signal, session: str = "s1") -> list[g.Observation]:
    return [g.Observation(session, signal) for signal in signals]


def watching(*agents: Box, own: Ahead | None = None, wall: Ahead | None = None) -> Watch:
    clock = LiveClock(own or Ahead(), wall or Ahead(1e9))
    rules = {agent.name: Rules() for agent in agents}
    return Watch(agents, Settings(rules, lambda: 0.0), clock)


async def running(watch: Watch, seconds: float) -> None:
    """Let it run for a while of simulated time."""
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(seconds)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_every_source_is_read_at_its_own_pace() -> None:
    quick, slow = Script("a", every=1.0), Script("b", every=4.0)
    watch = watching(Box(quick, slow))
    await running(watch, 8.5)
    assert quick.reads == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert slow.reads == [0, 4, 8]
    assert watch.ready


async def test_a_wake_brings_the_next_read_forward() -> None:
    source = Script(every=60.0)
    source.wake = asyncio.Event()
    watch = watching(Box(source))
    task = asyncio.create_task(running(watch, 10))
    await asyncio.sleep(3)
    source.wake.set()
    await task
    assert source.reads == [0, 3]


class Backlog(Script):
    """A source with more to read than one read brings."""

    async def read(self) -> Sequence[g.Observation]:
        found = await super().read()
        self.every = 60.0 if len(self.reads) >= 5 else 0.0
        return found


@pytest.mark.parametrize("wake", [False, True])
async def test_what_lies_there_unread_waits_for_no_wake(*, wake: bool) -> None:
    source = Backlog()
    source.wake = asyncio.Event() if wake else None
    await running(watching(Box(source)), 70)
    assert source.reads == [0, 0, 0, 0, 0, 60]


@pytest.mark.parametrize("steps", range(6))
async def test_it_ends_when_it_is_told_to_though_something_comes_in_that_very_moment(steps: int) -> None:
    source = Script(every=60.0)
    source.wake = asyncio.Event()
    watch = watching(Box(source))
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(3.5)
    source.wake.set()
    watch._due.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=3600)
    assert task in done


async def test_a_silent_turn_is_judged_on_time_and_carried_out_once() -> None:
    source = Script()
    source.script = [saw(up(0), prompt(0))]
    watch = watching(Box(source))
    watch.doing = doer = Doer()
    await running(watch, 50 * MIN)
    (act,) = doer.done
    assert act[:2] == ("s1", "model")
    assert 45 * MIN <= act[2] <= 45 * MIN + 0.2


async def test_the_first_reads_of_all_sources_merge_by_time() -> None:
    status, transcript = Script("registry"), Script()
    status.script = [saw(g.Status(50, "idle", 50))]
    transcript.script = [saw(up(0), prompt(0), block(40))]
    watch = watching(Box(status, transcript))
    await asyncio.sleep(60)
    watch.started = 0.0
    await running(watch, 0.5)
    session = watch.session("claude-code", "s1")
    assert session is not None
    assert session.phase == "idle_in_turn"
    assert session.phase_since == 50


async def test_a_source_that_hangs_at_first_does_not_hold_up_the_others() -> None:
    hung, fine = Script("host"), Script()
    hung.script = [100.0]
    fine.script = [saw(up(0), prompt(0))]
    watch = watching(Box(hung, fine))
    await running(watch, 6)
    assert [s.id for s in watch.sessions()] == ["s1"]


async def test_an_agent_without_sources_is_no_error() -> None:
    watch = watching(Box())
    await running(watch, 1)
    assert watch.ready


async def test_a_lost_source_is_logged_once_although_it_has_no_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "sidecar.watch")
    source = Script("listing")
    source.script = [SourceDown("HTTP 401"), SourceDown("HTTP 401"), SourceDown("HTTP 500")]
    await running(watching(Box(source)), 30)
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("WARNING", "source claude-code/listing is lost: HTTP 401"),
        ("INFO", "source claude-code/listing is read again"),
    ]


async def test_a_lost_source_is_told_to_its_sessions_and_regained() -> None:
    source = Script()
    source.script = [saw(up(0), prompt(0)), SourceDown("gone"), SourceDown("gone")]
    watch = watching(Box(source))
    task = asyncio.create_task(running(watch, 20))
    await asyncio.sleep(1.5)
    session = watch.session("claude-code", "s1")
    assert session is not None
    assert str(session.phase) == "unknown"
    state = watch.states["claude-code", "transcript"]
    assert (state.up, state.why) == (False, "gone")
    await task
    assert session.phase == "model"
    assert (state.up, state.why) == (True, None)
    assert source.reads[:5] == [0, 1, 3, 7, 8], "it is tried again, ever more slowly"


async def test_a_loss_concerns_only_those_who_had_the_source() -> None:
    source, other = Script("host"), Script()
    other.script = [saw(up(0), prompt(0))]
    source.script = [[], SourceDown("gone")]
    watch = watching(Box(source, other))
    await running(watch, 9)
    session = watch.session("claude-code", "s1")
    assert session is not None
    assert session.sources == {"transcript": True}


async def test_a_broken_source_is_down_and_the_others_go_on() -> None:
    broken, fine = Script("host"), Script()
    broken.script = [ValueError("a secret in the text")] * 9
    watch = watching(Box(broken, fine))
    await running(watch, 5)
    assert watch.states["claude-code", "host"].why == "ValueError"
    assert len(fine.reads) == 6


async def test_a_frozen_observer_extends_every_bound() -> None:
    own, source = Ahead(), Script(every=30.0)
    source.script = [saw(up(0), prompt(0))]
    watch = watching(Box(source), own=own)
    watch.doing = doer = Doer()
    task = asyncio.create_task(running(watch, 60 * MIN))
    await asyncio.sleep(60)
    own.ahead += 30 * MIN
    await asyncio.sleep(2)
    session = watch.session("claude-code", "s1")
    assert session is not None
    assert sum(by for _, by in session.late) == pytest.approx(30 * MIN, abs=2)
    await task
    (act,) = doer.done
    assert act[2] == pytest.approx(75 * MIN, abs=3)


async def test_what_was_unread_while_frozen_is_read_before_anything_is_judged() -> None:
    own, source = Ahead(), Script(every=30.0)
    source.script = [saw(up(0), prompt(0)), [], saw(g.TurnEnded(61, "completed"))]
    watch = watching(Box(source), own=own)
    watch.doing = doer = Doer()
    task = asyncio.create_task(running(watch, 65))
    await asyncio.sleep(58)
    own.ahead += 600 * MIN
    await task
    assert doer.done == []


async def test_a_step_of_the_wall_clock_is_no_silence_but_reason_to_look_again() -> None:
    wall, source = Ahead(1e9), Script(every=60.0)
    source.script = [saw(up(0), prompt(0))]
    watch = watching(Box(source), wall=wall)
    watch.doing = doer = Doer()
    task = asyncio.create_task(running(watch, 30))
    await asyncio.sleep(10.5)
    wall.ahead += 3600
    await task
    assert doer.done == []
    assert len(source.reads) == 2
    session = watch.session("claude-code", "s1")
    assert session is not None
    assert session.silence(30) == 30


async def test_a_worker_that_hangs_is_named_and_a_quiet_one_is_not() -> None:
    hung, quiet = Script("host", every=1.0, patience=5.0), Script()
    hung.script = [[], 100.0]
    watch = watching(Box(hung, quiet))
    task = asyncio.create_task(running(watch, 20))
    await asyncio.sleep(5)
    assert watch.stale() == []
    await asyncio.sleep(2)
    assert watch.stale() == ["claude-code/host"]
    await task


async def test_a_stalled_agent_and_a_lost_source_are_no_hang() -> None:
    source = Script()
    source.script = [saw(up(0), prompt(0)), SourceDown("gone")]
    watch = watching(Box(source))
    task = asyncio.create_task(running(watch, 60 * MIN))
    await asyncio.sleep(59 * MIN)
    assert watch.stale() == []
    await task


async def test_a_stopped_ticker_is_named() -> None:
    watch = watching(Box())
    await running(watch, 1)
    await asyncio.sleep(10)
    assert watch.stale() == ["ticker"]


async def test_a_refresh_reads_the_session_and_its_subagents_through_the_one_fold() -> None:
    source, box = Script(), Box()
    box.sources = [source]
    source.script = [saw(up(0), prompt(0)) + saw(up(0), g.Described(0, "s1"), prompt(0, "a1"), session="a")]
    watch = watching(box)
    await running(watch, 0.5)
    session = watch.session("claude-code", "s1")
    assert session is not None
    box.seen = saw(g.TurnEnded(0.4, "completed"))
    await watch.refresh(session)
    assert box.looked == ["s1", "a"]
    assert session.turn is None


class Long(Box):
    """An agent whose look takes some pieces; others, in between, read on."""

    def __init__(self, *pieces: g.Signal) -> None:
        super().__init__(Script())
        self.pieces = list(pieces)

    async def look(self, session: str) -> Sequence[g.Observation]:
        return saw(self.pieces.pop(0), session=session)

    def unread(self, _: str) -> bool:
        return bool(self.pieces)


async def test_a_refresh_goes_on_until_nothing_is_unread_and_folds_each_piece_before_the_next() -> None:
    box = Long(g.Progress(1), g.Progress(2), g.TurnEnded(3, "completed"))
    watch = watching(box)
    watch.fleet.observe("claude-code", saw(up(0), prompt(0)), 0)
    session = watch.session("claude-code", "s1")
    assert session is not None
    refreshing = asyncio.create_task(watch.refresh(session))
    served: list[tuple[int, float | None]] = []
    while not refreshing.done():
        await asyncio.sleep(0)
        served.append((len(box.pieces), session.progress_at))
    assert [*dict.fromkeys(served)][:2] == [(2, 1), (1, 2)], "others are served, and see what was read"
    assert (box.pieces, session.turn) == ([], None)


async def test_who_can_be_ended_alone_is_the_agents_to_say() -> None:
    source, box = Script(), Box()
    box.sources = [source]
    child = g.Described(0, "s1")
    source.script = [
        saw(up(0), prompt(0)) + saw(up(0), child, session="a") + saw(up(0), child, session="alone")
    ]
    watch = watching(box)
    await running(watch, 0.5)
    alone = {s.id: watch.alone(s) for s in watch.sessions()}
    assert alone == {"s1": True, "a": False, "alone": True}


async def test_what_the_journal_knows_is_folded_and_a_dormant_session_is_not_shown() -> None:
    source = Script()
    source.script = [
        saw(up(0), prompt(0)) + saw(up(-9e4), prompt(-9e4), g.TurnEnded(-9e4, "completed"), session="old")
    ]
    watch = watching(Box(source))
    watch.doing = doer = Doer()
    doer.known = [g.Judged(-1, "model", "model", "interrupt", "transcript", "r", "t1")]
    await running(watch, 0.5)
    session = watch.session("claude-code", "s1")
    assert session is not None
    assert session.interrupted
    assert watch.session("claude-code", "old") is None
    assert doer.ticks > 0


async def test_the_outcome_of_an_act_is_folded_through_the_same_door() -> None:
    source = Script()
    source.script = [saw(up(0), prompt(0))]
    watch = watching(Box(source))
    await running(watch, 0.5)
    session = watch.session("claude-code", "s1")
    assert session is not None
    watch.fold(session, g.TurnEnded(0.5, "interrupted"))
    assert session.turn is None


async def test_the_last_look_reads_what_was_written_last_and_settles_the_turns_that_ended_in_it() -> None:
    source, hung = Script(every=60.0), Script("host", every=60.0)
    ended = g.TurnEnded(0.5, "completed", 30.0)
    source.script = [saw(up(0), prompt(0)), saw(block(0.4), ended)]
    hung.script = [[], 3600.0]
    watch = watching(Box(source, hung))
    watch.doing = doer = Doer()
    await running(watch, 1.0)
    session = watch.session("claude-code", "s1")
    assert session is not None
    assert session.phase == "model"
    begun = asyncio.get_running_loop().time()
    await watch.last_look(0.5)
    assert asyncio.get_running_loop().time() - begun == pytest.approx(0.5), (
        "one that hangs does not hold it up"
    )
    assert (str(session.phase), session.turns["completed"]) == ("idle", 1)
    assert doer.done == []


class Far(Script):
    """A source that is far behind: it takes some reads to the end."""

    async def read(self) -> Sequence[g.Observation]:
        found = await super().read()
        self.every = 0.0 if self.script else 1.0
        return found


async def test_the_last_look_goes_on_while_there_is_more_to_read() -> None:
    source = Far()
    source.script = [saw(up(0), prompt(0)), saw(block(1)), saw(g.TurnEnded(2, "completed"))]
    watch = watching(Box(source))
    await watch.last_look(0.5)
    session = watch.session("claude-code", "s1")
    assert session is not None
    assert (session.turn, len(source.reads)) == (None, 3)


async def test_the_last_look_ends_in_time_though_there_is_always_more() -> None:
    source = Script(every=0.0)
    source.script = [0.2] * 10
    await watching(Box(source)).last_look(0.5)
    assert len(source.reads) == 3


async def test_the_last_look_leaves_open_turns_open_and_takes_no_loss_for_one() -> None:
    source, gone, broken = Script(every=60.0), Script("host", every=60.0), Script("status", every=60.0)
    source.script = [saw(up(0), prompt(0)), saw(block(0.9))]
    gone.script = [[], SourceDown("gone with its agent")]
    broken.script = [[], ValueError("broken")]
    watch = watching(Box(source, gone, broken))
    await running(watch, 1.0)
    await watch.last_look(0.5)
    session = watch.session("claude-code", "s1")
    assert session is not None
    assert session.turn is not None
    assert session.progress_at == pytest.approx(0.9)
    assert watch.states["claude-code", "host"].up
    assert not watch.states["claude-code", "status"].up
