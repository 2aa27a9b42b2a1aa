"""One session as the decoder follows it: its turn, what is open in it, and how they begin and end.

What was learned from real streams, and why this is not simpler:

- A turn runs from a user's message until the session rests, over many assistant messages. A prompt
  that comes while it runs is queued, and its turn begins when the first assistant message answers
  it; messages that the server writes to itself (a compaction, "continue") belong to the turn.
- A user's message alone starts nothing: some are only stored. `busy` after it does.
- The session rests several times in a row, and records of a turn come after its end.

A little longer than most: whatever moves a track stands beside what it moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from sidecar import signals as g

if TYPE_CHECKING:
    from sidecar.agents.opencode import records as r

KEPT: Final = 64
"""Ended turns and prompts whose late echoes are recognised."""

LANDING: Final = 60.0
"""Seconds that a prompt waits to be worked on; one that still waits was only stored."""

SOURCE: Final = "events"


class Asked(Struct):
    """The newest user's message that no assistant's answers yet."""

    id: str
    created: float | None
    heard: float
    pieces: int = 0
    own: int = 0
    """How many of its parts the server wrote itself."""


class Answering(Struct):
    """An assistant's message of the open turn, and how far it has come."""

    model: str = "unknown"
    finished: bool = False
    completed: bool = False
    compacts: bool = False
    """Whether it is the summary that a compaction writes."""
    failure: g.Outcome | None = None
    reach: int = 0
    """What the present attempt has written, in characters and tool calls."""
    mark: int = 0
    """The most that an earlier attempt had written: up to there a new one is no progress."""
    lengths: dict[str, int] = field(default_factory=dict)


class Track(Struct):
    """What is remembered of a session."""

    id: str
    directory: str | None = None
    parent: str | None = None
    version: str | None = None
    shown: bool = False
    """Whether anything but hearsay says that it exists."""
    owned: bool = False
    """Whether this very server was seen working on it."""
    registered: bool = False
    archived: bool = False
    deleted: bool = False
    settled: float = float("-inf")
    """Messages up to this stamp (ms) are history."""
    touched: float = 0.0
    """When the server last wrote to it, by its listing."""
    since: float = 0.0
    """When it was first shown."""
    turn: str | None = None
    opened: float = 0.0
    """When the turn was seen to begin."""
    asked: Asked | None = None
    prompts: list[str] = field(default_factory=list)
    """User's messages seen, the newest last."""
    ended: list[str] = field(default_factory=list)
    messages: dict[str, Answering] = field(default_factory=dict)
    past: list[str] = field(default_factory=list)
    """Assistants' messages of ended turns: they are still written to when the next turn runs."""
    tools: dict[str, int] = field(default_factory=dict)
    """Open tool calls, and what of their output was seen."""
    named: str | None = None
    """The tool that only the status told of."""
    waits: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Pending requests: what is waited for, and when that was heard."""
    word: g.Word | None = None
    heard: float = float("-inf")
    """When the stream last told of a beginning or an end."""
    hint: g.Outcome | None = None
    guarded: bool = False
    compacting: bool = False
    attempt: tuple[float | None, float | None] | None = None
    absent: int = 0
    """How many polls in a row did not find it at work."""

    @property
    def answering(self) -> Answering | None:
        """The newest assistant's message of the turn."""
        return next(reversed(self.messages.values()), None)


def show(t: Track, at: float, *, attended: bool | None) -> list[g.Signal]:
    """Something says that the session exists."""
    if t.shown:
        return []
    t.shown, t.since = True, at
    return [g.SourceUp(at, SOURCE, "delta"), g.Described(at, t.parent, t.version, attended)]


def own(t: Track, at: float) -> list[g.Signal]:
    """This server works on it. A subagent is known by its growth, and forgotten when it is done."""
    t.owned, t.touched = True, max(t.touched, at)
    if t.registered or t.parent is not None:
        return []
    t.registered = True
    return [g.Registered(at)]


def say(t: Track, at: float, word: g.Word, since: float | None = None) -> list[g.Signal]:
    """The server's word for it, where it is a new one."""
    if t.word == word:
        return []
    t.word = word
    return [g.Status(at, word, at if since is None else min(at, since))]


def begin(t: Track, turn: str, at: float, stamp: float | None) -> list[g.Signal]:
    """A turn begins."""
    t.turn, t.opened, t.hint, t.guarded, t.absent = turn, at, None, False, 0
    t.messages.clear()
    if t.asked is not None and t.asked.id == turn:
        t.asked = None
    return [*own(t, at), g.TurnStarted(at, turn, at if stamp is None else min(at, stamp))]


def end(t: Track, at: float, outcome: g.Outcome | None = None) -> list[g.Signal]:
    """The turn ends, by what was last told of it unless the outcome is known."""
    if t.turn is None:
        return []
    told = "interrupted" if t.guarded else outcome or outcome_of(t)
    t.ended = [*t.ended[1 - KEPT :], t.turn]
    t.turn, t.named, t.attempt = None, None, None
    t.compacting = False
    t.past = [*t.past, *t.messages][-KEPT:]
    t.messages.clear()
    t.tools.clear()
    t.waits.clear()
    return [g.TurnEnded(at, told, guarded=t.guarded)]


def outcome_of(t: Track) -> g.Outcome:
    """By what was told last. An abort while a request is retried leaves a message without an end or error.

    A server that fails by itself says so after it rests, and leaves a message that is not even completed.
    """
    last = t.answering
    if t.hint is not None:
        return t.hint
    if last is None:
        return "completed"
    if last.failure is not None:
        return last.failure
    if not last.completed:
        return "failed"
    return "interrupted" if t.attempt is not None and not last.finished else "completed"


def rest(t: Track, at: float) -> list[g.Signal]:
    """The session rests: whatever turn was open is over, and one that was taken away is gone."""
    if t.turn is not None:
        t.asked = None  # an abort drops what was queued; a prompt that no turn has taken up may still run
    out = [*end(t, at), *say(t, at, "idle")]
    return [*out, *leave(t, at)]


def leave(t: Track, at: float) -> list[g.Signal]:
    """A deleted or archived session is over as soon as nothing runs in it: its turn outlives it."""
    if not (t.deleted or t.archived) or t.turn is not None or not t.shown:
        return []
    t.shown = t.registered = False
    t.word = None
    return [g.Unregistered(at)]


def failed(failure: r.Failure) -> g.Outcome:
    """Whether somebody ended it or it failed."""
    return "interrupted" if failure.aborted else "failed"


def wait(t: Track, request: str, what: str, at: float) -> list[g.Signal]:
    """Somebody is asked; only a turn that runs can wait."""
    if t.turn is None or request in t.waits:
        return []
    t.waits[request] = (what, at)
    return [g.WaitStarted(at, what)] if len(t.waits) == 1 else []


def answered(t: Track, request: str, at: float) -> list[g.Signal]:
    """Somebody answered. Where more is asked, that wait begins now: somebody is there."""
    if t.waits.pop(request, None) is None:
        return []
    left = next(iter(t.waits.values()), None)
    return [g.WaitEnded(at)] if left is None else [g.WaitEnded(at), g.WaitStarted(at, left[0])]


def compact(t: Track, at: float, *, runs: bool) -> list[g.Signal]:
    """The context is being compacted, or no longer."""
    if t.compacting == runs or t.turn is None:
        return []
    t.compacting = runs
    return [g.CompactionStarted(at) if runs else g.CompactionEnded(at)]
