"""A session as it is known now: its turn, its open work, its sources, and its phase.

This file holds the state and reads it; `fold` is the one place that writes it. A session is in
exactly one phase, the first of `phase()` that holds. Nothing here reads a clock: phases do not
depend on the time, only on what was seen; deadlines are `policy`'s.
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

PHASES: tuple[Phase, ...] = get_args(Phase)

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

KEPT_LATE = 256
"""Latenesses of the observer remembered; a machine that sleeps each night fills it in months."""

KEPT_VERDICTS = 50
"""Verdicts kept for the session object; older ones live in the log and the journal."""


class Tool(Struct):
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
    ending: Literal["", "sent", "spent"] = ""
    """Our own interrupt: under way, or accepted without any effect so far."""


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
    stuck_at: float = 0.0


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
        """What shows turns and tools was lost, or all that shows progress: silence proves nothing."""
        lost = [r for name, r in self.resolutions.items() if not self.sources.get(name)]
        return "record" in lost or bool(lost and len(lost) == len(self.resolutions))

    @property
    def had_turn(self) -> bool:
        """Whether any turn was ever seen."""
        return self.turn is not None or self.last is not None

    @property
    def child_running(self) -> bool:
        """Whether any subagent works."""
        return any(child.running for child in self.children.values())

    @property
    def delegating(self) -> bool:
        """Whether the open turn waits for a subagent."""
        return any(tool.delegates for tool in self.tools.values())

    @property
    def in_background(self) -> bool:
        """Whether work goes on that belongs to no turn of this session."""
        reported = self.status is not None and self.status.word == "background"
        return self.child_running or self.background > 0 or reported

    def silence(self, now: float) -> float:
        """Seconds since the last progress (or since first sight, where there was none)."""
        return max(0.0, now - (self.first_seen if self.progress_at is None else self.progress_at))


def _reported(session: Session, *words: Word) -> bool:
    return session.status is not None and session.status.word in words


def _idle_in_turn(session: Session) -> bool:
    """The agent says idle, and said so after this turn began: the turn was left behind."""
    status, turn = session.status, session.turn
    if turn is None or session.end is not None or status is None:
        return False
    return status.word in ("idle", "background") and status.since >= turn.started_at


def _open_work(session: Session) -> Phase:
    """The phase of an open turn that nothing stronger speaks about."""
    if session.delegating:
        return "delegated"
    if session.tools:
        return "tool"
    return "retrying" if session.retry is not None else "model"


def _no_turn(session: Session) -> Phase:
    if session.in_background:
        return "delegated"
    if _reported(session, "busy"):
        return "model"
    silent_start = session.status is None and not session.had_turn
    known = session.registered_at is not None or session.process is not None
    if silent_start and known and session.progress_at is None:
        return "starting"
    return "idle"


def phase(session: Session) -> Phase:  # noqa: PLR0911 - a list of rules, read from the top
    """The one phase the session is in: the first that holds, strongest evidence first."""
    if session.sources and not any(session.sources.values()):
        return "unknown"
    if session.gone_at is not None:
        return "gone"
    if session.limit is not None:
        return "limited"
    if session.wait is not None or _reported(session, "waiting"):
        return "waiting"
    if session.compacting_since is not None:
        return "compacting"
    if _idle_in_turn(session):
        return "idle_in_turn"
    return _no_turn(session) if session.turn is None else _open_work(session)


def evidence(session: Session) -> str:
    """What the judgement of this session rests on, as one word of a closed set."""
    if session.phase == "waiting" and session.wait is None:
        return "status"
    if session.resolution == "delta":
        return "stream"
    if session.resolution == "record":
        return "transcript"
    return "status" if session.status is not None else "process"


def waiting_for(session: Session) -> str | None:
    """What the session waits for, where it waits."""
    if session.wait is not None:
        return session.wait.waiting_for
    status = session.status
    return status.waiting_for if status is not None and status.word == "waiting" else None
