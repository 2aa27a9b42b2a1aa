"""A session as it is known now: its turn, its open work, its sources.

This file holds the state and answers the plainest questions about it; `fold` is the one place that
writes it, `phases` says which phase it is in. Nothing here reads a clock.
"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct, field

# What the structs below are made of is named in `signals`; they are data, so imported for real.
from sidecar.signals import Action, ActOutcome, BoundName, Outcome, Resolution, Word

Phase = Literal[
    "unknown",
    "gone",
    "limited",
    "waiting",
    "compacting",
    "idle_in_turn",
    "delegated",
    "tool",
    "retrying",
    "model",
    "starting",
    "idle",
]

Ending = Literal["", "sent", "passed", "spent"]

PHASES: tuple[Phase, ...] = get_args(Phase)

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

INHERITED = "(parent)"
"""What a parent's word is kept under beside those of a session's own sources."""

KEPT_LATE = 256
"""Latenesses of the observer remembered; a machine that sleeps each night fills it in months."""

KEPT_VERDICTS = 50
"""Verdicts kept for the session object; older ones live in the log and the journal."""


class Tool(Struct, gc=False):
    """An open tool call."""

    tool: str
    since: float
    delegates: bool = False


class Turn(Struct):
    """One question and the work on it."""

    id: str
    started_at: float
    ended_at: float | None = None
    outcome: Outcome | None = None
    phase_seconds: dict[str, float] = field(default_factory=dict)
    tool_calls: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    model: str | None = None
    ending: Ending = ""
    """Our own interrupt: under way, passed over by work that came after it, or accepted without any
    effect so far."""


class Verdict(Struct):
    """A bound that tripped, what was decided and what became of it."""

    at: float
    turn: str | None
    bound: BoundName
    key: str
    action: Action
    evidence: str
    reason: str
    outcome: ActOutcome | None = None
    recovered: bool = False
    progress_at: float | None = None
    """The progress that was judged."""


class Report(Struct, frozen=True):
    """The agent's own word, since when, and what it waits for."""

    word: Word
    since: float
    waiting_for: str | None = None
    inherited: bool = False


class Wait(Struct, frozen=True):
    """A pending permission or question seen in the record of work."""

    since: float
    waiting_for: str


class Retry(Struct, frozen=True):
    """The newest retry record and the announced next attempt."""

    at: float
    due: float | None


class Limit(Struct, frozen=True):
    """A reached usage limit and its reset time, where told."""

    since: float
    until: float | None


class End(Struct, frozen=True):
    """An end of the turn that still has to settle."""

    at: float
    due: float
    outcome: Outcome


class Child(Struct):
    """A subagent as its parent sees it."""

    running: bool
    progress: float
    stuck: str | None = None
    """The reason of its verdict, where it cannot be ended alone."""
    stuck_at: float = 0.0

    @property
    def works(self) -> bool:
        """Whether its turn runs and was not found to hang: a hung one would count for ever."""
        return self.running and self.stuck is None


class Process(Struct, frozen=True):
    """The process that holds the session."""

    pid: int
    started: float


class Session(Struct):
    """Everything known of one session. Times are core seconds."""

    agent: str
    id: str
    first_seen: float
    parent: str | None = None
    attended: bool = False
    version: str | None = None
    model: str | None = None
    luck: float = 0.0
    """This session's share of the jitter, 0 … 1, so that a fleet does not end in one second."""
    progress_at: float | None = None
    sources: dict[str, bool] = field(default_factory=dict)
    resolutions: dict[str, Resolution] = field(default_factory=dict)
    registered_at: float | None = None
    process: Process | None = None
    rss: int | None = None
    cpu: float | None = None
    status: Report | None = None
    """The word that is believed now."""
    heard: dict[str, Report] = field(default_factory=dict)
    """The last word of each source, the newest last; the parent's under `INHERITED`."""
    rested: bool = False
    """Idle was said since the last busy or waiting: without a visible turn, the next is another."""
    turn: Turn | None = None
    last: Turn | None = None
    ended_ids: list[str] = field(default_factory=list)
    end: End | None = None
    tools: dict[str, Tool] = field(default_factory=dict)
    wait: Wait | None = None
    compacting_since: float | None = None
    retry: Retry | None = None
    limit: Limit | None = None
    background: int = 0
    children: dict[str, Child] = field(default_factory=dict)
    gone_at: float | None = None
    idle_since: float | None = None
    floor: float = float("-inf")
    """The latest end of a wait, compaction, limit or blindness: the model's bound starts there."""
    behind: bool = False
    """Records lie there unread, so what was read so far is not the present."""
    late: list[tuple[float, float]] = field(default_factory=list)
    """When the observer was late and by how much; a bound counts what came after it began."""
    phase: Phase = "idle"
    phase_since: float = 0.0
    phase_turn: Turn | None = None
    phase_waits: str | None = None
    judged: set[str] = field(default_factory=set)
    warned: set[str] = field(default_factory=set)
    interrupted: bool = False
    """The one interrupt of this turn was decided."""
    verdicts: list[Verdict] = field(default_factory=list)
    turns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    closed: str | None = None
    closed_at: float | None = None
    dormant: bool = True
    """Known, but not shown: nothing says that it lives."""

    @property
    def resolution(self) -> Resolution | None:
        """The finest resolution of progress at hand; None where no source shows progress."""
        seen = {r for name, r in self.resolutions.items() if self.sources.get(name)}
        if "delta" in seen:
            return "delta"
        return "record" if "record" in seen else None

    @property
    def blind(self) -> bool:
        """Nothing shows progress now, or what shows turns and tools was lost: silence proves nothing."""
        lost = [r for name, r in self.resolutions.items() if not self.sources.get(name)]
        return "record" in lost or self.resolution is None

    @property
    def had_turn(self) -> bool:
        """Whether any turn was ever seen."""
        return self.turn is not None or self.last is not None

    @property
    def child_running(self) -> bool:
        """Whether any subagent works."""
        return bool(self.children) and any(child.works for child in self.children.values())

    @property
    def delegating(self) -> bool:
        """Whether the open turn waits for a subagent."""
        for tool in self.tools.values():  # noqa: SIM110 - a generator costs more than one open tool
            if tool.delegates:
                return True
        return False

    @property
    def in_background(self) -> bool:
        """Whether work goes on that belongs to no turn of this session."""
        said = self.status is not None and self.status.word == "background" and not self.status.inherited
        return self.child_running or self.background > 0 or said

    def silence(self, now: float) -> float:
        """Seconds since the last progress (or since first sight, where there was none)."""
        return max(0.0, now - (self.first_seen if self.progress_at is None else self.progress_at))
