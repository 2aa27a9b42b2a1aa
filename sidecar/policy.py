"""Every rule of judgement: which bound runs, when it trips, and what then follows.

A turn is bounded by silence, not by duration, and each phase has the bound that its evidence
deserves. The rules here read a session and a time and decide; they write nothing and read no
clock. A missed stall costs an hour, a killed healthy turn costs a user: when in doubt, warn.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from math import inf
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from sidecar.life import rests_since, silent_since
from sidecar.limits import LIMIT_SLACK, Limit, Rules
from sidecar.phases import evidence, reported
from sidecar.signals import Action, BoundName, Judged, Warned
from sidecar.wording import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar.session import Session

SLOWEST_CHECK: Final = 15.0
FASTEST_CHECK: Final = 0.1


class Bound(Struct, frozen=True):
    """A deadline that runs: `limit` seconds from `since`; `key` tells bounds of a name apart."""

    name: BoundName
    since: float
    limit: float
    warn: float
    action: Action
    evidence: str
    reason: str
    key: str = ""

    @property
    def deadline(self) -> float:
        """When it trips."""
        return self.since + self.limit

    def remaining(self, now: float) -> float:
        """Seconds left; negative when overdue."""
        return self.deadline - now


def _make(  # noqa: PLR0913 - one bound, its parts
    s: Session,
    name: BoundName,
    limit: Limit,
    since: float,
    what: str,
    *,
    rules: Rules,
    key: str = "",
) -> Iterator[Bound]:
    """A bound of this session, extended by the jitter and by whatever we were late ourselves."""
    if limit.limit is None:
        return
    late = sum(by for at, by in s.late if at > since)
    full = limit.limit * (1 + rules.jitter * s.luck) + late
    warn = (limit.limit / 2 if limit.warn is None else limit.warn) + late
    action: Action = "report" if s.attended else limit.action
    if action == "interrupt" and s.interrupted:
        action = "report"
    yield Bound(name, since, full, min(warn, full), action, evidence(s), what, key or name)


def _model_limit(s: Session, rules: Rules) -> Limit:
    return rules.model_delta if s.resolution == "delta" else rules.model_record


def _gone(s: Session, rules: Rules) -> Iterator[Bound]:
    if s.turn is not None and s.gone_at is not None:
        what = "the process ended with a turn open"
        yield from _make(s, "gone", Limit(0.0, "report", 0.0), s.gone_at, what, rules=rules)


def _limited(s: Session, rules: Rules) -> Iterator[Bound]:
    if s.limit is None or rules.limited.limit is None:
        return
    lasts = rules.limited.limit
    if s.limit.until is not None:
        lasts = max(0.0, s.limit.until - s.limit.since) + LIMIT_SLACK
    bound = Limit(lasts, rules.limited.action, inf)  # its end is announced: nothing to warn of
    yield from _make(s, "limited", bound, s.limit.since, "the usage limit", rules=rules)


def _waiting(s: Session, rules: Rules) -> Iterator[Bound]:
    if s.wait is not None and s.blind:
        return  # the answer would be in what was lost
    since, waits = (s.wait.since, s.wait.waiting_for) if s.wait else (s.first_seen, None)
    if s.wait is None and s.status is not None:
        since, waits = s.status.since, s.status.waiting_for
    what = f"waiting for {waits or 'an answer'}"
    yield from _make(s, "waiting", rules.waiting, since, what, rules=rules)


def _compacting(s: Session, rules: Rules) -> Iterator[Bound]:
    if s.blind:
        return
    since = s.compacting_since if s.compacting_since is not None else s.first_seen
    yield from _make(s, "compacting", rules.compacting, since, "compacting", rules=rules)


def _idle_in_turn(s: Session, rules: Rules) -> Iterator[Bound]:
    stamp = s.status.since if s.status else s.first_seen
    since = max(stamp, stamp if s.progress_at is None else s.progress_at)
    what = "the agent reports idle with a turn open"
    yield from _make(s, "idle_in_turn", rules.idle_in_turn, since, what, rules=rules)


def _delegated(s: Session, rules: Rules) -> Iterator[Bound]:
    """A wait for subagents has no bound of its own; a stuck one trips the turn that waits."""
    if s.turn is None or not s.delegating:
        return
    began = s.turn.started_at  # what hung before keeps no later turn from its own subagents
    stuck = [c for c in s.children.values() if c.stuck and c.running and c.stuck_at >= began]
    for child in stuck[:1]:
        what = f"a subagent cannot be ended alone: {child.stuck}"
        yield from _make(s, "delegated", rules.delegated, child.stuck_at, what, rules=rules)


def tool_limit(tool: str, rules: Rules) -> tuple[str, Limit] | None:
    """The pattern that bounds this tool: an exact name before a pattern, a long one before short.

    None where no pattern matches: a tool that runs has no bound.
    """
    matching = [p for p in rules.tool if fnmatchcase(tool, p)]
    if not matching:
        return None
    best = min(matching, key=lambda p: (p != tool, -len(p)))
    return best, rules.tool[best]


def _tool(s: Session, rules: Rules) -> Iterator[Bound]:
    if s.blind:
        return
    since, told = silent_since(s), set[str]()
    for open_tool in s.tools.values():
        found = tool_limit(open_tool.tool, rules)
        if found is None or found[0] in told:
            continue  # of several calls under one pattern the first stands for all
        pattern, limit = found
        told.add(pattern)
        hint = "; perhaps waiting for a permission" if limit.action == "report" else ""
        what = f"in the tool {open_tool.tool}{hint}"
        yield from _make(s, "tool", limit, since, what, rules=rules, key=f"tool:{pattern}")


def _retrying(s: Session, rules: Rules) -> Iterator[Bound]:
    """Retries are no progress: the announced attempt has the model's time, all have a ceiling."""
    if s.blind:
        return
    since, retry = silent_since(s), s.retry
    ceiling, model = rules.retrying.limit, _model_limit(s, rules).limit
    ends = [since + ceiling] if ceiling is not None else []
    if retry is not None and model is not None:
        due = retry.at if retry.due is None else max(retry.at, retry.due)
        ends.append(max(due, s.floor) + model)
    if ends:
        limit = Limit(min(ends) - since, rules.retrying.action)
        yield from _make(s, "retrying", limit, since, "retrying the provider", rules=rules)


def _model(s: Session, rules: Rules) -> Iterator[Bound]:
    """`busy` proves nothing: with the transcript visible the bound runs whatever it says."""
    if s.turn is None:
        since = max(s.status.since if s.status else s.first_seen, s.floor)
        yield from _make(s, "busy", rules.busy, since, "busy without a turn", rules=rules)
        return
    if s.blind or s.end is not None:
        return
    what = "waiting for the model"
    yield from _make(s, "model", _model_limit(s, rules), silent_since(s), what, rules=rules)


def _starting(s: Session, rules: Rules) -> Iterator[Bound]:
    since = s.registered_at if s.registered_at is not None else s.first_seen
    if s.process is not None and s.registered_at is None:
        since = s.process.started
    what = "never registered" if s.registered_at is None else "its prompt never landed"
    yield from _make(s, "starting", rules.starting, since, what, rules=rules)


def _idle(s: Session, rules: Rules) -> Iterator[Bound]:
    """An idle session is reported or reaped; one that waits for its first prompt is never reaped.

    Where a new turn or the end of other work would go unseen, rest is not judged.
    """
    if not all(s.sources.values()) or (s.blind and not reported(s, "idle")):
        return
    unused = not s.had_turn and not rules.unprompted
    limit = replace(rules.idle, action="report") if unused else rules.idle
    yield from _make(s, "idle", limit, rests_since(s), "idle", rules=rules)


_BOUNDS: Final = {
    "gone": _gone,
    "limited": _limited,
    "waiting": _waiting,
    "compacting": _compacting,
    "idle_in_turn": _idle_in_turn,
    "delegated": _delegated,
    "tool": _tool,
    "retrying": _retrying,
    "model": _model,
    "starting": _starting,
    "idle": _idle,
}


def bounds(s: Session, rules: Rules) -> list[Bound]:
    """Every deadline that runs for this session, the nearest first."""
    if s.phase == "unknown" or s.behind or s.closed is not None:
        return []
    found = list(_BOUNDS[s.phase](s, rules))
    if s.turn is not None and s.phase != "gone":
        what = "the turn's own ceiling"
        found += _make(s, "turn", rules.turn, s.turn.started_at, what, rules=rules)
    return sorted(found, key=lambda b: b.deadline)


def bound(s: Session, rules: Rules) -> Bound | None:
    """The deadline to show: the nearest that has not tripped, else the nearest."""
    running = bounds(s, rules)
    fresh = [b for b in running if b.key not in s.judged]
    return next(iter(fresh or running), None)


def _runs(s: Session) -> bool:
    """Whether there is anything to interrupt: a visible turn, or one the agent speaks of."""
    if s.turn is not None:
        return True
    return s.status is not None and not s.status.inherited and s.status.word in ("busy", "waiting")


def judge(s: Session, rules: Rules, now: float) -> list[Warned | Judged]:
    """What has tripped by now and was not said before: one verdict per turn and bound."""
    said: list[Warned | Judged] = []
    turn = s.turn.id if s.turn else (s.last.id if s.last else None)
    interrupting = s.interrupted
    for b in bounds(s, rules):
        if b.key in s.judged:
            continue
        if now >= b.deadline:
            action: Action = b.action
            if action == "interrupt":
                action = "interrupt" if _runs(s) and not interrupting else "report"
                interrupting = True
            reason = sentence(s, b, now)
            said.append(Judged(now, b.name, b.key, action, b.evidence, reason, turn))
        elif now >= b.since + b.warn and b.key not in s.warned and b.warn < b.limit:
            said.append(Warned(now, b.name, b.key, sentence(s, b, now)))
    return said


def interval(s: Session, rules: Rules, now: float, slowest: float = SLOWEST_CHECK) -> float:
    """Seconds until this session is worth judging again: a quarter of what is left.

    The quarter homes in on a deadline without a timer per bound; it is clamped so that a far
    deadline still sees a late change of rules and a near one does not spin.
    """
    nearest = slowest * 4
    for b in bounds(s, rules):
        if b.key not in s.judged:
            marks = (b.deadline, b.since + b.warn if b.key not in s.warned else b.deadline)
            nearest = min([nearest, *(mark - now for mark in marks if mark > now)])
    if s.end is not None:
        nearest = min(nearest, max(0.0, s.end.due - now))
    return min(slowest, max(FASTEST_CHECK, nearest / 4))
