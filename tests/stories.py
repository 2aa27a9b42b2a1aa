"""Sessions told as stories: signals in a row, at minutes and seconds a reader can follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidecar import signals as g
from sidecar.fold import fold
from sidecar.limits import Rules
from sidecar.policy import judge
from sidecar.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sidecar.changes import Change

MIN = 60.0
HOUR = 3600.0
RULES = Rules()


def up(at: float = 0.0, source: str = "transcript", resolution: g.Resolution | None = "record") -> g.SourceUp:
    return g.SourceUp(at, source, resolution)


def prompt(at: float, turn: str = "t1") -> g.TurnStarted:
    return g.TurnStarted(at, turn, at)


def block(at: float) -> g.Progress:
    return g.Progress(at, f"stamp-{at}")


def delta(at: float) -> g.Progress:
    return g.Progress(at)


def tool(at: float, name: str = "Bash", call: str = "c1", *, delegates: bool = False) -> g.ToolStarted:
    return g.ToolStarted(at, call, name, delegates, f"stamp-{at}")


def result(at: float, call: str = "c1") -> g.ToolEnded:
    return g.ToolEnded(at, call)


def end(at: float, outcome: g.Outcome = "completed", settle: float = 0.0) -> g.TurnEnded:
    return g.TurnEnded(at, outcome, settle)


def status(at: float, word: g.Word | None, waiting_for: str | None = None, source: str = "") -> g.Status:
    return g.Status(at, word, at, waiting_for, source=source)


def told(*signals: g.Signal, **facts: Any) -> tuple[Session, list[Change]]:
    """A session after these signals, and everything that changed."""
    session = Session("claude-code", "s1", 0.0, **facts)
    changes: list[Change] = []
    for signal in signals:
        changes += fold(session, signal)
    return session, changes


def story(*signals: g.Signal, **facts: Any) -> Session:
    """A session after these signals."""
    return told(*signals, **facts)[0]


def verdicts(session: Session, now: float, rules: Rules = RULES) -> list[tuple[str, str]]:
    """What trips at `now`, as (bound, action); folded, as the loop does."""
    found: list[tuple[str, str]] = []
    for said in judge(session, rules, now):
        fold(session, said)
        if isinstance(said, g.Judged):
            found.append((said.bound, said.action))
    return found


def of(changes: Iterable[Change], kind: type[Change]) -> list[Any]:
    """The changes of one kind."""
    return [change for change in changes if isinstance(change, kind)]
