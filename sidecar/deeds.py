"""What was decided and done comes back as signals, and is folded here: warnings, verdicts, acts.

A part of the fold: called by nothing else. That a turn was interrupted once, that it ended by us,
that a verdict was observed: all of it is data of the session, written in this one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar import changes as c
from sidecar.phases import phase
from sidecar.session import KEPT_VERDICTS, Session, Verdict
from sidecar.turns import Out, close_turn, idle_from, last_progress, leave, settle

if TYPE_CHECKING:
    from sidecar import signals as g


def warned(s: Session, x: g.Warned, out: Out) -> None:
    """A warning is said once."""
    if x.key not in s.warned:
        s.warned.add(x.key)
        out.append(c.WarningGiven(x.at, x.bound, x.reason, s.turn))


def judged(s: Session, x: g.Judged, out: Out) -> None:
    """A verdict joins the list; whoever acts gives it its outcome."""
    verdict = Verdict(x.at, x.turn, x.bound, x.key, x.action, x.evidence, x.reason, progress_at=s.progress_at)
    s.judged.add(x.key)
    s.interrupted = s.interrupted or x.action == "interrupt"
    s.verdicts = [*s.verdicts[1 - KEPT_VERDICTS :], verdict]
    if x.bound == "limited":
        s.limit, s.floor = None, max(s.floor, x.at)
        idle_from(s, x.at)  # it kept the agent from working: whoever waited for its end has his time
    out.append(c.VerdictGiven(x.at, verdict, s.turn))


def intended(s: Session, x: g.Intended, out: Out) -> None:
    """The reason is written: from here on the turn ends by us."""
    if s.turn is not None and s.turn.id == x.turn:
        s.turn.ending = "sent"
    out.append(c.ActIntended(x.at, x.action, x.reason, x.bound, s.turn))


def acted(s: Session, x: g.Acted, out: Out) -> None:
    """What became of it. An effective interrupt ended the turn, whether or not a record says so."""
    _answered(s, x)
    turn = s.turn if s.turn is not None and s.turn.id == x.turn else None
    out.append(c.ActEnded(x.at, x.action, x.outcome, x.bound, turn or s.last))
    if turn is None:
        return
    if x.outcome == "ineffective" and turn.ending == "sent":
        turn.ending = "spent"
    elif x.outcome != "effective" and x.action != "report" and x.intended:
        turn.ending = ""
    if x.outcome == "effective" and x.action == "interrupt":
        close_turn(s, turn, x.at, "stalled", out)
    if x.outcome == "reported" and x.bound == "gone":
        close_turn(s, turn, x.at if s.gone_at is None else s.gone_at, "died", out)
    if x.outcome == "reported" and x.bound == "idle_in_turn":
        close_turn(s, turn, last_progress(s, turn), "abandoned", out)


def _answered(s: Session, x: g.Acted) -> None:
    for verdict in reversed(s.verdicts):
        if (verdict.turn, verdict.bound, verdict.key) == (x.turn, x.bound, x.key):
            verdict.outcome = x.outcome
            if x.outcome == "superseded" and x.bound == "idle":
                _release(s, verdict)  # due again when it has been idle for as long once more
                idle_from(s, x.at)
            elif x.outcome == "superseded" and s.progress_at != verdict.progress_at:
                _release(s, verdict)
            elif x.outcome == "superseded" and not x.intended:
                _unspend(s, verdict)
            return


def _release(s: Session, verdict: Verdict) -> None:
    """The turn moved while it was looked at again: if it hangs once more, that is another verdict."""
    s.judged.discard(verdict.key)
    s.warned.discard(verdict.key)
    _unspend(s, verdict)


def _unspend(s: Session, verdict: Verdict) -> None:
    """Nothing was sent, so the turn's one interrupt is still there for another bound."""
    if verdict.action == "interrupt" and not (s.turn is not None and s.turn.ending):
        s.interrupted = False


def closed(s: Session, x: g.Closed, out: Out) -> None:
    """The session is over; what was provisional or open about its turn is settled."""
    settle(s, out)
    if s.turn is not None:
        close_turn(s, s.turn, last_progress(s, s.turn), "abandoned", out)
    s.registered_at = s.process = s.status = s.wait = s.rss = s.cpu = None
    s.heard.clear()
    s.rested, s.background = True, 0
    leave(s, x.at, phase(s), out, into="closed")
    s.closed, s.closed_at = x.why, x.at
    out.append(c.SessionClosed(x.at, x.why))
