"""A watch for telemetry tests: real sessions through the real fold, on a clock that tests move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar import signals as g
from sidecar.changes import SessionOpened
from sidecar.fold import fold
from sidecar.limits import Rules
from sidecar.policy import judge
from sidecar.session import Session
from sidecar.telemetry.watched import Facts, SourceState

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.changes import Change
    from sidecar.telemetry.records import Event, Span

START = 1000.0
WALL = 1_800_000_000.0
"""The wall clock at core time 0: tests on both clocks see when one is taken for the other."""


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> float:
        return self.at

    def core(self, wall: float) -> float:
        return wall - WALL

    def wall(self, core: float) -> float:
        return core + WALL


class World:
    """Implements `Watched`, and plays the watch: signals in, changes to the listeners."""

    def __init__(self, *agents: str) -> None:
        self.clock = HandClock()
        self.names = agents or ("claude-code",)
        self.limits = Rules()
        self.told: list[Callable[[Session, Change], None]] = []
        self.by_id: dict[str, Session] = {}
        self.states: list[SourceState] = []
        self.now_true = Facts(
            "1.2.3", "observe", "abc123", watch_mode="inotify", watch_losses={"overflow": 2}
        )
        self.spans: list[Span] = []
        self.events: list[Event] = []

    def sessions(self) -> list[Session]:
        return list(self.by_id.values())

    def rules(self, _: Session, /) -> Rules:
        return self.limits

    def agents(self) -> list[tuple[str, str]]:
        return [(name, name) for name in self.names]

    def sources(self) -> list[SourceState]:
        return self.states

    def facts(self) -> Facts:
        return self.now_true

    def see(self, *signals: g.Signal, session: str = "s1", agent: str = "claude-code") -> Session:
        """Fold signals, each at its own time, and tell of what changed."""
        found = self.by_id.get(session)
        if found is None:
            at = signals[0].at
            found = self.by_id[session] = Session(agent, session, at, phase_since=at)
            self.tell(found, SessionOpened(at))
        for signal in signals:
            self.clock.at = max(self.clock.at, signal.at)
            for change in fold(found, signal):
                self.tell(found, change)
            if found.closed is not None:
                del self.by_id[session]
        return found

    def tell(self, session: Session, change: Change) -> None:
        for listener in self.told:
            listener(session, change)

    def judge(self, now: float, session: str = "s1") -> list[g.Warned | g.Judged]:
        """Let the policy speak, and fold what it says."""
        said = judge(self.by_id[session], self.limits, now)
        self.see(*said, session=session)
        return said

    def tick(self, tick: Callable[[float], float | None], until: float, step: float = 1.0) -> None:
        """Let time pass, a tick per step."""
        while self.clock.at < until:
            self.clock.at += step
            tick(self.clock.at)


def prompt(at: float, turn: str = "t1") -> g.TurnStarted:
    return g.TurnStarted(at, turn, at)


def sees(at: float) -> g.SourceUp:
    return g.SourceUp(at, "transcript", "record")


def scenario(world: World) -> None:
    """Play a turn with tools, tokens, a retry, a wait and a stall, on two sessions of an agent."""
    world.see(
        sees(1000),
        g.Described(1000, version="2.1.0"),
        g.ProcessSeen(1000, 41, 1000.0),
        prompt(1000),
        g.Records(1000, progress=1, presence=2, unknown=1),
        g.Used(1012, "claude-x-1", input=100, output=20, cache_read=5),
        g.ToolStarted(1012, "c1", "Bash"),
        g.ToolEnded(1052, "c1"),
        g.Retrying(1060, "overloaded"),
        g.Retrying(1061, "a cause nobody listed"),
        g.Progress(1070),
        g.WaitStarted(1071, "permission prompt"),
        g.WaitEnded(1100),
        g.Progress(1101),
        g.TurnEnded(1101, "completed"),
        g.ProcessUsed(1101, 200_000_000, 7.5),
    )
    world.see(sees(1000), prompt(1001), session="s2")
    world.judge(1001 + 1200, "s2")
    world.judge(1001 + 2700, "s2")
    world.see(g.Acted(3701, "interrupt", "t1", "model", "observed", "model"), session="s2")
    world.see(g.Progress(3702), session="s2")
    world.see(sees(3600), g.Registered(3600), session="s3")
    world.clock.at = 3720.0
