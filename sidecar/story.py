"""What changed, in one sentence each, as `explain` and the page tell it: names and numbers, never content."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Final

from sidecar import changes as c
from sidecar.wording import duration

if TYPE_CHECKING:
    from sidecar.session import Turn

LONGEST: Final = 64
"""Characters of an id that are told: more than those of any agent known have."""


@singledispatch
def told(change: c.Change, /) -> str:
    """Say what a change was; nothing for those that are only counted."""
    del change
    return ""


@told.register
def _(change: c.SessionOpened, /) -> str:
    del change
    return "session seen"


@told.register
def _(change: c.SessionClosed, /) -> str:
    return f"session closed: {change.why}"


@told.register
def _(change: c.TurnOpened, /) -> str:
    return f"turn {_name(change.turn)} opened"


@told.register
def _(change: c.TurnClosed, /) -> str:
    turn = change.turn
    return f"turn {_name(turn)} {turn.outcome or 'ended'} after {duration(change.at - turn.started_at)}"


@told.register
def _(change: c.PhaseLeft, /) -> str:
    waited = f" for {change.waiting_for}" if change.waiting_for else ""
    return f"{change.phase}{waited} lasted {duration(change.at - change.since)}, then {change.into}"


@told.register
def _(change: c.GapClosed, /) -> str:
    return f"progress after {duration(change.seconds)} of silence, in {change.phase}"


@told.register
def _(change: c.ToolClosed, /) -> str:
    end = "was left without a result" if change.unfinished else "came back"
    return f"tool {change.tool} {end} after {duration(change.at - change.since)}"


@told.register
def _(change: c.RetrySeen, /) -> str:
    return f"a provider error is retried: {change.cause}"


@told.register
def _(change: c.SourceChanged, /) -> str:
    return f"source {change.source} {'regained' if change.up else 'lost'}"


@told.register
def _(change: c.StatusChanged, /) -> str:
    waited = f", waiting for {change.waiting_for}" if change.waiting_for else ""
    return f"the agent says {change.word or 'nothing more'}{waited}"


@told.register
def _(change: c.WarningGiven, /) -> str:
    return f"warning of the bound {change.bound}{_of(change.turn)}: {change.reason}"


@told.register
def _(change: c.VerdictGiven, /) -> str:
    verdict = change.verdict
    return f"verdict {verdict.action} by the bound {verdict.bound}{_of(change.turn)}: {verdict.reason}"


@told.register
def _(change: c.ActIntended, /) -> str:
    return f"{change.action} is about to be tried{_of(change.turn)}: {change.reason}"


@told.register
def _(change: c.ActEnded, /) -> str:
    return f"{change.action}{_of(change.turn)}: {change.outcome}"


@told.register
def _(change: c.Recovered, /) -> str:
    return f"turn went on by itself after the bound {change.verdict.bound} had tripped{_of(change.turn)}"


def _of(turn: Turn | None) -> str:
    return f" (turn {_name(turn)})" if turn else ""


def _name(turn: Turn) -> str:
    """Its id, which an agent chose: a sentence has to stay one."""
    return turn.id if len(turn.id) <= LONGEST else f"{turn.id[:LONGEST]}…"
