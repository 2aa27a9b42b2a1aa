"""Every name that leaves this process by telemetry: metrics, spans, attributes, events.

Metrics are the product's own (`ai_agent_*` what is watched, `agent_sidecar_*` the watcher), the
same over Prometheus and OTLP. Spans follow the OpenTelemetry conventions for GenAI, pinned at
`CONVENTIONS`, with what they have no name for under `agent_sidecar.`; `DEVIATIONS` says where we
differ and why, and `CARRIES` which span or event has which attributes: a test holds what is really
sent against both. It is one table in one place, which is why it is longer than other modules.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

CONVENTIONS: Final = "semantic-conventions-genai v0.1.0"
"""The first release of the repository of its own that the GenAI conventions moved to."""
SCOPE: Final = "agent-sidecar"

Kind = Literal["counter", "gauge", "histogram"]


class Metric(NamedTuple):
    """A metric as both outlets show it. `buckets` are upper bounds; `+Inf` comes on top."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def unit(self) -> str:
        """The unit as OTLP spells it, from the name."""
        bare = self.name.removesuffix("_total")
        if bare.endswith("_seconds"):
            return "s"
        return "By" if bare.endswith("_bytes") else ""


SESSIONS: Final = Metric("ai_agent_sessions", "gauge", "Sessions by phase.", ("agent", "phase", "attended"))
SESSIONS_LIMIT: Final = Metric(
    "ai_agent_sessions_limit", "gauge", "Sessions the agent allows at once.", ("agent",)
)
SILENCE: Final = Metric(
    "ai_agent_silence_seconds",
    "gauge",
    "Longest time without progress of any session in this phase.",
    ("agent", "phase"),
)
LAST_PROGRESS: Final = Metric(
    "ai_agent_last_progress_timestamp_seconds",
    "gauge",
    "Oldest last progress of any session in this phase.",
    ("agent", "phase"),
)
BOUND_LIMIT: Final = Metric(
    "ai_agent_bound_limit_seconds", "gauge", "Limit of the bound that trips next.", ("agent", "bound")
)
BOUND_REMAINING: Final = Metric(
    "ai_agent_bound_remaining_seconds",
    "gauge",
    "Time left to the bound that trips next; negative when it is past.",
    ("agent", "bound"),
)
OVERDUE: Final = Metric(
    "ai_agent_sessions_overdue", "gauge", "Sessions past a bound and still there.", ("agent", "bound")
)
UNENDED: Final = Metric(
    "ai_agent_sessions_unended",
    "gauge",
    "Unattended sessions past a bound that is to end their turn or them, and still there.",
    ("agent", "bound"),
)
TURNS: Final = Metric("ai_agent_turns_total", "counter", "Turns that ended.", ("agent", "outcome"))
TURN_DURATION: Final = Metric(
    "ai_agent_turn_duration_seconds",
    "histogram",
    "Duration of turns.",
    ("agent",),
    (1, 10, 60, 600, 3600, 28800),
)
PHASE_SECONDS: Final = Metric(
    "ai_agent_phase_seconds_total",
    "counter",
    "Time that sessions spent in each phase, the running one included.",
    ("agent", "phase"),
)
SILENCE_GAP: Final = Metric(
    "ai_agent_silence_gap_seconds",
    "histogram",
    "Silences within turns, each when it ended: what to tune bounds with.",
    ("agent", "phase"),
    (1, 10, 60, 300, 1200, 3600),
)
VERDICTS: Final = Metric(
    "ai_agent_verdicts_total", "counter", "Bounds that tripped.", ("agent", "bound", "evidence")
)
RECOVERED: Final = Metric(
    "ai_agent_verdicts_recovered_total",
    "counter",
    "Verdicts that were only observed and whose turn went on by itself: would-be false kills.",
    ("agent", "bound", "evidence"),
)
ACTIONS: Final = Metric(
    "ai_agent_actions_total",
    "counter",
    "What became of verdicts and of people's requests.",
    ("agent", "action", "outcome"),
)
TOOL_CALLS: Final = Metric(
    "ai_agent_tool_calls_total", "counter", "Tool calls that ended.", ("agent", "tool")
)
TOOL_DURATION: Final = Metric(
    "ai_agent_tool_duration_seconds",
    "histogram",
    "Duration of tool calls that got a result.",
    ("agent",),
    (0.1, 1, 10, 60, 600, 3600),
)
TOKENS: Final = Metric("ai_agent_tokens_total", "counter", "Tokens spent.", ("agent", "model", "type"))
RETRIES: Final = Metric("ai_agent_retries_total", "counter", "Provider errors retried.", ("agent", "cause"))
MEMORY: Final = Metric(
    "ai_agent_process_resident_memory_bytes",
    "gauge",
    "Resident memory of the agent's processes.",
    ("agent",),
)
CPU: Final = Metric(
    "ai_agent_process_cpu_seconds_total", "counter", "CPU time of the agent's processes.", ("agent",)
)
AGENT_INFO: Final = Metric(
    "ai_agent_info", "gauge", "Versions of the agent that are running.", ("agent", "version")
)
SOURCE_UP: Final = Metric(
    "agent_sidecar_source_up", "gauge", "Whether the source can be read.", ("agent", "source")
)
SOURCE_READ: Final = Metric(
    "agent_sidecar_source_last_read_timestamp_seconds",
    "gauge",
    "Last successful read of the source.",
    ("agent", "source"),
)
CONTROL_UP: Final = Metric(
    "agent_sidecar_control_up", "gauge", "Whether the agent's control can be reached.", ("agent", "source")
)
RECORDS: Final = Metric(
    "agent_sidecar_records_total",
    "counter",
    "Records read from the agent's sources, by what they say of its work.",
    ("agent", "kind"),
)
LOOP_LAG: Final = Metric(
    "agent_sidecar_loop_lag_seconds", "gauge", "How late the sidecar's own clockwork runs."
)
INFO: Final = Metric("agent_sidecar_info", "gauge", "This sidecar.", ("version", "mode", "config_hash"))
RELOAD_OK: Final = Metric(
    "agent_sidecar_config_last_reload_successful",
    "gauge",
    "Whether the configuration on disk is the one in use.",
)
SPANS: Final = Metric("agent_sidecar_spans_total", "counter", "Spans by what became of them.", ("outcome",))
WATCH_MODE: Final = Metric(
    "agent_sidecar_watch_mode", "gauge", "How changes of files are noticed.", ("mode",)
)
WATCH_LOSSES: Final = Metric(
    "agent_sidecar_watch_losses_total",
    "counter",
    "Changes of files that the kernel did not tell of, and why.",
    ("reason",),
)
SESSION_SILENCE: Final = Metric(
    "ai_agent_session_silence_seconds",
    "gauge",
    "Time without progress of one session; only where asked for.",
    ("agent", "session"),
)
SESSION_PHASE: Final = Metric(
    "ai_agent_session_phase",
    "gauge",
    "The phase one session is in; only where asked for.",
    ("agent", "session", "phase"),
)

METRICS: Final = tuple(row for row in globals().values() if isinstance(row, Metric))
"""All of them, in the order above."""

# Spans. What stands in braces is filled in.

INVOKE_AGENT: Final = "invoke_agent"  # invoke_agent {agent}: the turn
CHAT: Final = "chat"  # chat {model}
EXECUTE_TOOL: Final = "execute_tool"  # execute_tool {tool}
WAITING: Final = "agent_sidecar.waiting"
RETRYING: Final = "agent_sidecar.retrying"
COMPACTING: Final = "agent_sidecar.compacting"
STALL: Final = "agent_sidecar.stall"
LIVENESS: Final = "agent_sidecar.liveness"

# Attributes of the conventions.

OPERATION: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_VERSION: Final = "gen_ai.agent.version"
CONVERSATION: Final = "gen_ai.conversation.id"
MODEL: Final = "gen_ai.request.model"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL: Final = "gen_ai.tool.call.id"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
ERROR_TYPE: Final = "error.type"

# Our own.

TURN_ID: Final = "agent_sidecar.turn.id"
TURN_OUTCOME: Final = "agent_sidecar.turn.outcome"
TURN_TOOL_CALLS: Final = "agent_sidecar.turn.tool_calls"
PHASE_TIME: Final = "agent_sidecar.phase_seconds."  # and the phase's name
PARENT: Final = "agent_sidecar.session.parent"
ATTENDED: Final = "agent_sidecar.session.attended"
UNFINISHED: Final = "agent_sidecar.tool.unfinished"
WAITING_FOR: Final = "agent_sidecar.waiting_for"
PHASE: Final = "agent_sidecar.phase"
STATUS: Final = "agent_sidecar.status"
SILENT_FOR: Final = "agent_sidecar.silence_seconds"
BOUND: Final = "agent_sidecar.bound.name"
REMAINING: Final = "agent_sidecar.bound.remaining_seconds"
TRIPPED: Final = "agent_sidecar.stall.tripped"
ENDED_BY: Final = "agent_sidecar.stall.ended_by"
EVIDENCE: Final = "agent_sidecar.evidence"
REASON: Final = "agent_sidecar.reason"
ACTION: Final = "agent_sidecar.action.name"
ACTION_OUTCOME: Final = "agent_sidecar.action.outcome"

# Which span or event carries what, beside `EVERYWHERE`.

EVERYWHERE: Final = (AGENT_NAME, CONVERSATION)
_TOKENS: Final = (INPUT_TOKENS, OUTPUT_TOKENS, CACHE_READ_TOKENS, CACHE_WRITE_TOKENS)
_TURN: Final = (TURN_ID, TURN_OUTCOME, TURN_TOOL_CALLS, PHASE_TIME, PARENT, ATTENDED)

CARRIES: Final[dict[str, tuple[str, ...]]] = {
    INVOKE_AGENT: (OPERATION, AGENT_VERSION, MODEL, *_TOKENS, *_TURN, ERROR_TYPE),
    CHAT: (OPERATION, MODEL, *_TOKENS),
    EXECUTE_TOOL: (OPERATION, TOOL_NAME, TOOL_CALL, UNFINISHED, ERROR_TYPE),
    WAITING: (WAITING_FOR,),
    RETRYING: (),
    COMPACTING: (),
    STALL: (BOUND, TRIPPED, ENDED_BY, REASON, SILENT_FOR, ERROR_TYPE),
    LIVENESS: (TURN_ID, PHASE, SILENT_FOR, STATUS, BOUND, REMAINING),
    "agent_sidecar.turn.stalled": (TURN_ID, PARENT, BOUND, ACTION, EVIDENCE, REASON),
    "agent_sidecar.action": (TURN_ID, PARENT, BOUND, ACTION, ACTION_OUTCOME, REASON),
    "agent_sidecar.session.reaped": (TURN_ID, PARENT, BOUND),
}

DEVIATIONS: Final = {
    "gen_ai.provider.name": "never sent, though required there: what agents leave behind does not say who"
    " served the model (its maker, a cloud, a gateway), and a guess would be worse than a gap",
    MODEL: "the model that answered: agents record that one, and not always what was asked for",
    CHAT: "one stretch of waiting for the model: a request given up and repeated within it cannot be told"
    " apart from outside",
    TOOL_NAME: "`other` where the name looks like anything but a name: it could be content",
    CACHE_WRITE_TOKENS: "as the pinned version spells it; the Python package of the conventions, 0.66b2,"
    " still says `cache_creation`",
    "gen_ai.input.messages": "never sent, nor are output messages, tool arguments and results, all opt-in"
    " there: content is never collected",
    "gen_ai.invoke_agent.duration": "never sent, nor are the other metrics of the conventions: the product's"
    " own are the same over Prometheus and OTLP, with bounds, phases and outcomes that have no name there",
}
"""Where we differ from the conventions, by their name for it, and why."""

# Lifecycle lines, and the log events that take the place of some where a collector takes events.

LINES: Final = (
    "session.open",
    "session.close",
    "turn.start",
    "turn.progress",
    "turn.warned",
    "turn.stalled",
    "turn.end",
    "action.intent",
    "action.outcome",
    "ttl.reap",
    "source.lost",
    "source.regained",
    "silence",
)
EVENTS: Final = {
    "turn.stalled": "agent_sidecar.turn.stalled",
    "action.intent": "agent_sidecar.action",
    "action.outcome": "agent_sidecar.action",
    "ttl.reap": "agent_sidecar.session.reaped",
}
