"""The gauges: what is true now, read from the live state at the moment of a scrape.

A gauge of something that is not running is absent, never 0; counts of sessions are always there.
Nothing here is labelled by session unless that was asked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from prometheus_client.core import GaugeMetricFamily

from sidecar.policy import Bound, bounds
from sidecar.telemetry import names as n
from sidecar.telemetry.counts import counter
from sidecar.telemetry.labels import BOUNDS, OTHER, PHASE_NAMES, WATCH_LOSSES, clean, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client.metrics_core import Metric as Family

    from sidecar.session import Session
    from sidecar.telemetry.watched import Facts, Watched

Labels = tuple[str, ...]
T = TypeVar("T")

SHOWN_SESSIONS: Final = 1000
"""Sessions with series of their own, where asked for; those with an open turn come first."""

SHOWN_VERSIONS: Final = 5
"""Versions of one agent told apart; an upgrade shows two."""

TRIES: Final = 5


class Running(NamedTuple):
    """A session and the bounds that run for it."""

    session: Session
    bounds: list[Bound]


def steady(read: Callable[[], T]) -> T:
    """Read the live state; once more where the loop changed it under a scrape's thread."""
    for _ in range(TRIES):
        try:
            return read()
        except (RuntimeError, AttributeError, KeyError, TypeError):
            continue
    return read()


def running(watched: Watched) -> list[Running]:
    """Return the live sessions and their bounds."""
    return [Running(s, bounds(s, watched.rules(s))) for s in list(watched.sessions())]


def gauges(watched: Watched, seen: list[Running], now: float) -> list[Family]:
    """Return the gauges of what is watched and of the sidecar itself."""
    agents = [name for name, _ in watched.agents()]
    facts = watched.facts()
    return [
        _sessions(agents, seen),
        gauge(n.SESSIONS_LIMIT, {(agent,): cap for agent, cap in facts.caps.items()}),
        *_silence(watched, seen, now),
        *_bounds(agents, seen, now),
        _memory(seen),
        _versions(seen),
        *_sources(watched, facts),
        *_own(facts),
    ]


def per_session(seen: list[Running], now: float) -> list[Family]:
    """Return silence and phase by session."""
    shown = sorted((r.session for r in seen), key=lambda s: s.turn is None)[:SHOWN_SESSIONS]
    silence: dict[Labels, float] = {(s.agent, clean(s.id)): s.silence(now) for s in shown}
    phases: dict[Labels, float] = {(s.agent, clean(s.id), s.phase): 1.0 for s in shown}
    return [gauge(n.SESSION_SILENCE, silence), gauge(n.SESSION_PHASE, phases)]


def gauge(metric: n.Metric, values: Mapping[Labels, float]) -> GaugeMetricFamily:
    """Make a gauge family of numbers by label values."""
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


def _sessions(agents: Iterable[str], seen: list[Running]) -> Family:
    flags = ("false", "true")
    counts: dict[Labels, float] = {(a, p, f): 0 for a in agents for p in PHASE_NAMES for f in flags}
    for session, _ in seen:
        key = (session.agent, session.phase, flags[session.attended])
        counts[key] = counts.get(key, 0) + 1
    return gauge(n.SESSIONS, counts)


def _silence(watched: Watched, seen: list[Running], now: float) -> list[Family]:
    longest: dict[Labels, float] = {}
    oldest: dict[Labels, float] = {}
    for session, _ in seen:
        key = (session.agent, session.phase)
        longest[key] = max(longest.get(key, 0.0), session.silence(now))
        if session.progress_at is not None:
            wall = watched.clock.wall(session.progress_at)
            oldest[key] = min(oldest.get(key, wall), wall)
    return [gauge(n.SILENCE, longest), gauge(n.LAST_PROGRESS, oldest)]


def _bounds(agents: Iterable[str], seen: list[Running], now: float) -> list[Family]:
    """Show the nearest deadline of each name, one that has not tripped before one that has."""
    nearest: dict[Labels, tuple[bool, float, float]] = {}
    overdue: dict[Labels, float] = {(agent, name): 0.0 for agent in agents for name in BOUNDS}
    unended: dict[Labels, float] = {}
    for session, running_bounds in seen:
        past = {b.name for b in running_bounds if b.remaining(now) <= 0}
        for name in past:
            key = (session.agent, name)
            overdue[key] = overdue.get(key, 0.0) + 1
        for name in {b.name for b in running_bounds if _ends(session, b)}:
            key = (session.agent, name)
            unended[key] = unended.get(key, 0.0) + (name in past)
        for b in running_bounds:
            key = (session.agent, b.name)
            row = (b.remaining(now) <= 0, b.remaining(now), b.limit)
            nearest[key] = min(nearest.get(key, row), row)
    limits = {key: limit for key, (_, _, limit) in nearest.items()}
    left = {key: remaining for key, (_, remaining, _) in nearest.items()}
    counted = (gauge(n.OVERDUE, overdue), gauge(n.UNENDED, unended))
    return [gauge(n.BOUND_LIMIT, limits), gauge(n.BOUND_REMAINING, left), *counted]


def _ends(session: Session, bound: Bound) -> bool:
    """Whether the bound is to end something: the one interrupt of a turn may be spent already."""
    return not session.attended and (bound.action != "report" or session.interrupted)


def _memory(seen: list[Running]) -> Family:
    """Sum up the processes; several sessions may share one."""
    processes = {(s.agent, s.process): s.rss for s, _ in seen if s.process and s.rss is not None}
    sums: Counter[Labels] = Counter()
    for (agent, _), rss in processes.items():
        sums[agent,] += rss
    return gauge(n.MEMORY, sums)


def _versions(seen: list[Running]) -> Family:
    met: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for session, _ in seen:
        if session.version is not None:
            known = met[session.agent]
            fits = session.version in known or len(known) < SHOWN_VERSIONS
            known[(plain(session.version) if fits else None) or OTHER] = None
    return gauge(n.AGENT_INFO, {(agent, v): 1.0 for agent, known in met.items() for v in known})


def _sources(watched: Watched, facts: Facts) -> list[Family]:
    states = list(watched.sources())
    up: dict[Labels, float] = {(s.agent, s.source): float(s.up) for s in states}
    read: dict[Labels, float] = {(s.agent, s.source): s.last_read for s in states if s.last_read is not None}
    controls: dict[Labels, float] = {(c.agent, c.source): float(c.up) for c in facts.controls}
    return [gauge(n.SOURCE_UP, up), gauge(n.SOURCE_READ, read), gauge(n.CONTROL_UP, controls)]


def _own(facts: Facts) -> list[Family]:
    return [
        gauge(n.LOOP_LAG, {(): facts.loop_lag}),
        gauge(n.INFO, {(facts.version, facts.mode, facts.config_hash): 1.0}),
        gauge(n.RELOAD_OK, {(): float(facts.reload_ok)}),
        gauge(n.WATCH_MODE, {(facts.watch_mode,): 1.0}),
        counter(n.WATCH_LOSSES, {(loss,): facts.watch_losses.get(loss, 0) for loss in WATCH_LOSSES}),
    ]
