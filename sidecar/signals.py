"""The vocabulary: everything an agent can be seen doing, as frozen records without content.

A signal says what happened to one session and when it counts (`at`, seconds on the core's one clock). Its
session travels beside it, in `Observation`. Adapters make signals, `fold` is their only reader, and our own
verdicts and acts come back as signals too, so that "interrupt once" is data and not a flag somewhere else.

*Progress* is the agent doing its work; *presence* is any other sign of life: only progress moves the silence.

The union is closed, so it is one file, although a long one.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

Word = Literal["busy", "idle", "waiting", "background"]
"""What an agent reports of itself. `background`: the turn is over, a background job still runs."""

Resolution = Literal["record", "delta"]
"""How finely a source shows progress: a line per finished block, or every streamed piece of it."""

Outcome = Literal["completed", "interrupted", "stalled", "failed", "abandoned", "died"]
"""How a turn ended. `stalled` is ours: we ended it. `interrupted`: somebody else did."""

Action = Literal["report", "interrupt", "reap"]

ActOutcome = Literal[
    "effective", "ineffective", "failed", "superseded", "unsupported", "observed", "reported", "held"
]
"""What became of a verdict. `ineffective`: accepted, no effect. `held`: a brake stopped it."""

BoundName = Literal[
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
    "turn",
    "busy",
]


class Signal(Struct, frozen=True, gc=False):
    """Something that happened to a session; `at` is core seconds."""

    at: float


class Described(Signal, frozen=True, gc=False):
    """Facts about the session itself; None leaves what is known."""

    parent: str | None = None
    version: str | None = None
    attended: bool | None = None


class SourceUp(Signal, frozen=True, gc=False):
    """A source sees this session (again). `resolution` is set where it shows progress."""

    source: str
    resolution: Resolution | None = None


class SourceLost(Signal, frozen=True, gc=False):
    """A source can no longer be read: blindness, which is not silence."""

    source: str


class Registered(Signal, frozen=True, gc=False):
    """The agent (or its process, or a listing) says this session exists since `at`."""


class Unregistered(Signal, frozen=True, gc=False):
    """The registration or listing entry is gone: the session ended, or died with a turn open."""


class ProcessSeen(Signal, frozen=True, gc=False):
    """A live process holds the session; `started` is its start time on the core clock."""

    pid: int
    started: float


class ProcessGone(Signal, frozen=True, gc=False):
    """That very process (pid and start time) ended; its files were read to the end before."""


class ProcessUsed(Signal, frozen=True, gc=False):
    """What the process uses now: resident bytes, and CPU seconds since it started."""

    rss: int
    cpu: float


class Status(Signal, frozen=True, gc=False):
    """The agent's own word since its own stamp; None: it says nothing. Disbelieved while `source` is lost."""

    word: Word | None
    since: float
    waiting_for: str | None = None
    inherited: bool = False
    source: str = ""


class TurnStarted(Signal, frozen=True, gc=False):
    """A prompt opened a turn. `stamp` is the record's own time, `at` when it counts as progress."""

    turn: str
    stamp: float


class TurnEnded(Signal, frozen=True, gc=False):
    """The turn is over; provisional for `settle` seconds where the agent writes no end."""

    outcome: Outcome
    settle: float = 0.0
    guarded: bool = False
    """The agent's own guard ended it: not we, whatever we were about to do or had asked for."""


class Progress(Signal, frozen=True, gc=False):
    """A content block or a streamed piece of new text. `turn` names one to open if none is."""

    turn: str | None = None


class ToolStarted(Signal, frozen=True, gc=False):
    """A tool call is open. `delegates`: it waits for a subagent. `turn` as in `Progress`."""

    call: str
    tool: str
    delegates: bool = False
    turn: str | None = None


class ToolEnded(Signal, frozen=True, gc=False):
    """The tool call has its result. `echo`: somebody else wrote it for a tool that was cut short."""

    call: str
    echo: bool = False


class Background(Signal, frozen=True, gc=False):
    """How many background tasks the agent says are running."""

    count: int


class WaitStarted(Signal, frozen=True, gc=False):
    """A permission, question or dialog is pending, seen in the agent's own record of work."""

    waiting_for: str


class WaitEnded(Signal, frozen=True, gc=False):
    """Nobody is waited for any more."""


class CompactionStarted(Signal, frozen=True, gc=False):
    """The context is being compacted."""


class CompactionEnded(Signal, frozen=True, gc=False):
    """The context was compacted; the model's bound starts afresh, once."""


class Retrying(Signal, frozen=True, gc=False):
    """A provider error is being retried; `due` is when the next attempt was announced for."""

    cause: str
    due: float | None = None


class Limited(Signal, frozen=True, gc=False):
    """The usage limit is reached; `until` is the reset time where it was told."""

    until: float | None = None


class Presence(Signal, frozen=True, gc=False):
    """A sign of life that says nothing about work. `used`: but the session does not lie idle."""

    used: bool = False


class Used(Signal, frozen=True, gc=False):
    """Tokens of one model message, each message once."""

    model: str
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Records(Signal, frozen=True, gc=False):
    """How one read's records were classified; one signal a read."""

    progress: int = 0
    presence: int = 0
    unknown: int = 0
    malformed: int = 0
    oversized: int = 0


class ChildMoved(Signal, frozen=True, gc=False):
    """A subagent of this session did something: whether its turn runs, its newest progress."""

    child: str
    running: bool
    progress: float


class ChildStuck(Signal, frozen=True, gc=False):
    """A subagent tripped a bound and cannot be ended alone; `reason` is its verdict's."""

    child: str
    reason: str


class CatchingUp(Signal, frozen=True, gc=False):
    """Whether records of this session lie there unread: until then nothing is judged."""

    behind: bool


class Late(Signal, frozen=True, gc=False):
    """The observer itself was frozen for `by` seconds: every running bound is extended by that."""

    by: float


class Ticked(Signal, frozen=True, gc=False):
    """Time passed: provisional ends settle."""


class Warned(Signal, frozen=True, gc=False):
    """Half of a bound has gone by; said once per turn and bound."""

    bound: BoundName
    key: str
    reason: str


class Judged(Signal, frozen=True, gc=False):
    """A bound tripped. `key` tells apart bounds of one name (tool patterns)."""

    bound: BoundName
    key: str
    action: Action
    evidence: str
    reason: str
    turn: str | None


class Intended(Signal, frozen=True, gc=False):
    """The reason is written and the call is about to be made. `bound` None: a person asked."""

    action: Action
    turn: str | None
    bound: BoundName | None
    reason: str


class Acted(Signal, frozen=True, gc=False):
    """What became of a verdict or of a person's request."""

    action: Action
    turn: str | None
    bound: BoundName | None
    outcome: ActOutcome
    key: str = ""
    intended: bool = True
    """Whether this act had written its reason: one that had not leaves another's mark alone."""


class Closed(Signal, frozen=True, gc=False):
    """The session is over, or no longer known: it is dropped from the list."""

    why: str


class Observation(NamedTuple):
    """A signal and the session (the agent's own id for it) that it belongs to."""

    session: str
    signal: Signal
