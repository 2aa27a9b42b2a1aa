"""The metrics: fed by changes, read from the live state, shown as text, OpenMetrics and OTLP.

A collector of our own in a registry of our own: what a scrape shows is computed when it asks, so
there are no shadow copies of the state to keep true. Only what happened since the sidecar started
is counted; for each configured agent the series exist at 0 before anything did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from sidecar import changes as c
from sidecar.telemetry import ids, labels
from sidecar.telemetry import names as n
from sidecar.telemetry.counts import Counts, Spread, Trace, counter
from sidecar.telemetry.live import Running, gauges, per_session, running, steady
from sidecar.telemetry.running import CpuTime, PhaseTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.metrics_core import Metric as Family

    from sidecar.session import Session, Turn
    from sidecar.telemetry.watched import Watched


class Metrics(Collector):
    """A listener for changes, and a collector for scrapes, which may come from any thread."""

    def __init__(self, watched: Watched, *, per_session: bool = False) -> None:
        """`per_session` adds series for each session: many, and gone when it is."""
        self._watched = watched
        self._per_session = per_session
        started = watched.clock.now()
        self._phases, self._cpu = PhaseTime(started), CpuTime(started)
        self._models = labels.Models()
        self._turns, self._durations = Counts(n.TURNS), Spread(n.TURN_DURATION)
        self._gaps = Spread(n.SILENCE_GAP)
        self._verdicts, self._recovered = Counts(n.VERDICTS), Counts(n.RECOVERED)
        self._actions = Counts(n.ACTIONS)
        self._tools, self._tool_durations = Counts(n.TOOL_CALLS), Spread(n.TOOL_DURATION)
        self._tokens, self._retries = Counts(n.TOKENS), Counts(n.RETRIES)
        self._records = Counts(n.RECORDS)
        self.spans = Counts(n.SPANS)
        """What became of spans; whoever exports them counts here."""
        self.spans.zero((outcome,) for outcome in labels.SPAN_OUTCOMES)
        self.keeps: Callable[[int], bool] = lambda _: True
        """Whether a trace is kept: an example that leads to none is worse than an older one."""
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        self._take: dict[type[c.Change], Callable[[Session, Any], None]] = {
            c.PhaseLeft: self._phase_left,
            c.TurnClosed: self._turn_closed,
            c.GapClosed: self._gap_closed,
            c.ToolClosed: self._tool_closed,
            c.TokensUsed: self._tokens_used,
            c.RetrySeen: self._retry_seen,
            c.RecordsRead: self._records_read,
            c.VerdictGiven: self._verdict_given,
            c.Recovered: self._did_recover,
            c.ActEnded: self._act_ended,
        }

    def __call__(self, session: Session, change: c.Change) -> None:
        """Count what the change is about."""
        take = self._take.get(type(change))
        if take is not None:
            take(session, change)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return the body and content type that an `Accept` header asks for."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> list[Family]:
        """Return every family that has a series now, in the order of the table."""
        families = {family.name: family for family in self._collect()}
        order = [metric.name.removesuffix("_total") for metric in n.METRICS]
        return [families[name] for name in order if name in families and families[name].samples]

    def _collect(self) -> list[Family]:
        seen = steady(lambda: running(self._watched))
        self._zero(seen)
        agents = [name for name, _ in self._watched.agents()]
        zeros = [(agent, phase) for agent in agents for phase in labels.PHASE_NAMES]
        now = self._watched.clock.now()
        sessions = [session for session, _ in seen]
        return [
            *steady(lambda: gauges(self._watched, seen, now)),
            *(per_session(seen, now) if self._per_session else ()),
            counter(n.PHASE_SECONDS, self._phases.values(zeros, sessions, now)),
            counter(n.CPU, self._cpu.values(sessions)),
            *(counts.family() for counts in self._counts()),
            *(spread.family() for spread in (self._durations, self._gaps, self._tool_durations)),
        ]

    def _counts(self) -> tuple[Counts, ...]:
        turns = (self._turns, self._verdicts, self._recovered, self._actions)
        return (*turns, self._tools, self._tokens, self._retries, self._records, self.spans)

    def _zero(self, seen: list[Running]) -> None:
        """Let series exist before they count: an agent's own, and those of what runs now."""
        for agent, _ in self._watched.agents():
            self._turns.zero((agent, outcome) for outcome in labels.TURN_OUTCOMES)
            self._verdicts.zero((agent, *pair) for pair in labels.VERDICT_PAIRS)
            self._recovered.zero((agent, *pair) for pair in labels.RECOVERY_PAIRS)
            self._actions.zero((agent, *pair) for pair in labels.ACTION_PAIRS)
            self._tools.zero((agent, kind) for kind in labels.TOOL_CLASSES)
            self._tokens.zero((agent, labels.OTHER, kind) for kind in labels.TOKEN_TYPES)
            self._retries.zero((agent, cause) for cause in labels.RETRY_CAUSES)
            self._records.zero((agent, kind) for kind in labels.RECORD_KINDS)
            self._gaps.zero((agent, phase) for phase in labels.GAP_PHASES)
            self._durations.zero([(agent,)])
            self._tool_durations.zero([(agent,)])
        for session, bounds in seen:
            tripping = [(session.agent, b.name, b.evidence) for b in bounds]
            self._verdicts.zero(tripping)
            if session.turn is not None:
                self._recovered.zero(tripping)
                self._gaps.zero([(session.agent, session.phase)])

    def _trace(self, session: Session, turn: Turn | None, at: float) -> Trace | None:
        if turn is None:
            return None
        key = (session.agent, session.id, turn.id)
        trace, span = ids.trace_id(*key), ids.span_id(*key)
        if not self.keeps(trace):
            return None
        return Trace(ids.hex_trace(trace), ids.hex_span(span), self._watched.clock.wall(at))

    def _phase_left(self, session: Session, x: c.PhaseLeft) -> None:
        self._phases.left(session.agent, x.phase, x.since, x.at)

    def _turn_closed(self, session: Session, x: c.TurnClosed) -> None:
        turn = x.turn
        self._turns.add(session.agent, turn.outcome or labels.OTHER)
        seconds = (x.at if turn.ended_at is None else turn.ended_at) - turn.started_at
        self._durations.observe(session.agent, value=seconds, trace=self._trace(session, turn, x.at))

    def _gap_closed(self, session: Session, x: c.GapClosed) -> None:
        trace = self._trace(session, x.turn, x.at)
        self._gaps.observe(session.agent, x.phase, value=x.seconds, trace=trace)

    def _tool_closed(self, session: Session, x: c.ToolClosed) -> None:
        self._tools.add(session.agent, labels.tool_class(x.tool))
        if not x.unfinished:
            trace = self._trace(session, x.turn, x.at)
            self._tool_durations.observe(session.agent, value=x.at - x.since, trace=trace)

    def _tokens_used(self, session: Session, x: c.TokensUsed) -> None:
        model = self._models.label(x.model)
        for kind, count in x.types.items():
            if kind in labels.TOKEN_TYPES:
                self._tokens.add(session.agent, model, kind, by=count)

    def _retry_seen(self, session: Session, x: c.RetrySeen) -> None:
        self._retries.add(session.agent, labels.retry_cause(x.cause))

    def _records_read(self, session: Session, x: c.RecordsRead) -> None:
        for kind, count in x.kinds.items():
            if kind in labels.RECORD_KINDS:
                self._records.add(session.agent, kind, by=count)

    def _verdict_given(self, session: Session, x: c.VerdictGiven) -> None:
        self._verdicts.add(session.agent, x.verdict.bound, x.verdict.evidence)

    def _did_recover(self, session: Session, x: c.Recovered) -> None:
        self._recovered.add(session.agent, x.verdict.bound, x.verdict.evidence)

    def _act_ended(self, session: Session, x: c.ActEnded) -> None:
        self._actions.add(session.agent, x.action, x.outcome)
