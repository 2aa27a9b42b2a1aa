"""Recorded transcripts through the same fold and the same judge, with simulated time.

Arrival is the record's own stamp; the clock then runs on to `until`. Nothing is ended: the outcome
of every verdict is `observed`, and the summary says which turns each bound would have ended and
which of those went on by themselves.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from sidecar import changes as c
from sidecar import signals as g
from sidecar.clock import RecordedClock
from sidecar.fleet import Fleet
from sidecar.view import view

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sidecar.limits import Rules
    from sidecar.session import Session, Verdict

Shown = dict[str, Any]

ENDING: Final = frozenset(("waiting", "compacting", "delegated", "tool", "retrying", "model", "turn", "busy"))
"""The bounds that end turns. Those of attended sessions count too: a history is mostly attended,
and it is what one chooses bounds from before nobody watches."""


SLOWEST: Final = 3600.0
"""Seconds of simulated time between two checks: rules do not change while a replay runs."""


class _Law:
    """The rules of a replay: no jitter, no act, no memory."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.fleet: Fleet | None = None

    def rules(self, _: Session) -> Rules:
        return self._rules

    def alone(self, session: Session) -> bool:
        return session.parent is None

    def luck(self) -> float:
        return 0.0

    def opened(self, _: Session) -> Sequence[g.Signal]:
        return ()

    def woken(self, _: Session) -> None:
        return

    def decide(self, session: Session, judged: g.Judged) -> None:
        if self.fleet is not None:
            acted = g.Acted(judged.at, judged.action, judged.turn, judged.bound, "observed", judged.key)
            self.fleet.fold(session, acted)


class Tally:
    """What a replay sums up: silences by phase, and each bound's would-be ends and false kills."""

    def __init__(self) -> None:
        self.gaps: dict[str, list[float]] = defaultdict(list)
        self.ended: dict[str, list[Shown]] = defaultdict(list)
        self.recovered: dict[str, list[Shown]] = defaultdict(list)
        self.turns: dict[str, int] = defaultdict(int)

    def __call__(self, session: Session, change: c.Change, /) -> None:
        """Count a change."""
        if isinstance(change, c.GapClosed):
            self.gaps[change.phase].append(change.seconds)
        elif isinstance(change, c.TurnClosed):
            self.turns[change.turn.outcome or "open"] += 1
        elif isinstance(change, c.VerdictGiven) and change.verdict.bound in ENDING:
            self.ended[change.verdict.bound].append(_where(session, change.verdict))
        elif isinstance(change, c.Recovered) and change.verdict.bound in ENDING:
            self.recovered[change.verdict.bound].append(_where(session, change.verdict))

    def summary(self, sessions: Sequence[Session]) -> Shown:
        """The last line of a replay."""
        still = sum(1 for s in sessions if s.turn is not None)
        return {
            "summary": {
                "sessions": len(sessions),
                "turns": {**self.turns, "open": still},
                "silence_seconds": {
                    phase: {
                        "count": len(gaps),
                        "p50": round(_quantile(gaps, 0.5), 3),
                        "p99": round(_quantile(gaps, 0.99), 3),
                        "max": round(max(gaps), 3),
                    }
                    for phase, gaps in sorted(self.gaps.items())
                },
                "bounds": {
                    bound: {"would_end": ended, "recovered": self.recovered.get(bound, [])}
                    for bound, ended in sorted(self.ended.items())
                },
            }
        }


def _where(session: Session, verdict: Verdict) -> Shown:
    return {"session": session.id, "turn": verdict.turn, "action": verdict.action}


def _quantile(values: Sequence[float], share: float) -> float:
    """The nearest-rank quantile: a value that was really seen."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


class Replay:
    """One run over recorded observations."""

    def __init__(self, agent: str, rules: Rules) -> None:
        self._agent = agent
        self._rules = rules
        self._law = _Law(rules)
        self.clock = RecordedClock()
        self.fleet = Fleet(self._law, told_from=float("-inf"), slowest=SLOWEST)
        self._law.fleet = self.fleet
        self.tally = Tally()
        self.fleet.listeners.append(self.tally)

    def run(self, observations: Sequence[g.Observation], until: Callable[[float], float]) -> None:
        """Fold everything in the order of its time, judging in between, then run on to `until`."""
        ordered = sorted(observations, key=lambda o: o.signal.at)
        for observation in ordered:
            self._advance(observation.signal.at)
            self.fleet.observe(self._agent, [observation], self.clock.at)
        end = until(self.clock.at)
        self._advance(end)
        self._settle(end)

    def shown(self) -> list[Shown]:
        """The session objects at the end."""
        now = self.clock.at
        return [view(s, self._rules, self.clock, now) for s in self.sessions()]

    def sessions(self) -> list[Session]:
        """All sessions, in the order in which they were first seen."""
        return sorted(self.fleet.known(self._agent), key=lambda s: s.first_seen)

    def _advance(self, to: float) -> None:
        """Run the clock to `to`, stopping wherever a session is due."""
        due = self.fleet.tick(self.clock.at) if self.clock.at else to
        while due < to:
            self.clock.at = due
            due = self.fleet.tick(due)
        self.clock.at = max(self.clock.at, to)

    def _settle(self, end: float) -> None:
        """What comes after the last record is not known: pending ends are taken as they are."""
        for session in self.sessions():
            if session.end is not None:
                self.fleet.fold(session, g.Ticked(max(end, session.end.due)))
            if not session.dormant:
                self.fleet.judge(session, end)
