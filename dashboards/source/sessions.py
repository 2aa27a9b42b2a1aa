"""Sessions and their silence against the bounds; verdicts and acts."""

from __future__ import annotations

from dashboards.source.board import Row
from dashboards.source.panels import Query, series
from dashboards.source.queries import AT

SESSIONS = Row(
    "Sessions and their silence",
    [
        series(
            "Sessions by phase",
            "Every live session is in exactly one phase.",
            [Query(f"sum by (phase) (ai_agent_sessions{{{AT}}}) > 0", "{{phase}}")],
            stack="normal",
        ),
        series(
            "Longest silence against its bound",
            "Per phase the longest time without progress of any session, and dashed the limit that trips next. A line that "
            "climbs to its own dash is a stall to be.",
            [
                Query(f'max by (phase) (ai_agent_silence_seconds{{{AT},phase!="idle"}})', "{{phase}}"),
                Query(
                    f'min by (bound) (ai_agent_bound_limit_seconds{{{AT},bound!~"idle|gone"}})',
                    "{{bound}} limit",
                ),
            ],
            "s",
            dashed=".* limit",
            runbook="agentlongbusy",
        ),
        series(
            "Overdue sessions by bound",
            "Sessions past a bound and still there. Where acts take effect these are spikes.",
            [Query(f"sum by (bound) (ai_agent_sessions_overdue{{{AT}}}) > 0", "{{bound}}")],
            stack="normal",
            bars=True,
            runbook="agentreapsfailing",
        ),
        series(
            "Time left to the nearest bound",
            "Negative where every session with that bound is past it.",
            [
                Query(
                    f'min by (bound) (ai_agent_bound_remaining_seconds{{{AT},bound!~"idle|starting"}})',
                    "{{bound}}",
                )
            ],
            "s",
        ),
    ],
)

ACTS = Row(
    "Verdicts and acts",
    [
        series(
            "Verdicts by bound and evidence",
            "Bounds that tripped, those that are only reported included. Many at once on the model are an outage.",
            [
                Query(
                    f"sum by (bound, evidence) (increase(ai_agent_verdicts_total{{{AT}}}[$__rate_interval])) > 0",
                    "{{bound}} ({{evidence}})",
                )
            ],
            size=(8, 8),
            stack="normal",
            bars=True,
            runbook="agentverdictratehigh",
        ),
        series(
            "What became of verdicts",
            "Acts by outcome.",
            [
                Query(
                    f"sum by (action, outcome) (increase(ai_agent_actions_total{{{AT}}}[$__rate_interval])) > 0",
                    "{{action}}: {{outcome}}",
                )
            ],
            size=(8, 8),
            stack="normal",
            bars=True,
            runbook="agentinterruptsineffective",
        ),
        series(
            "Would-be false kills",
            "Observed verdicts whose turn went on by itself. The number to read before `mode: enforce`.",
            [
                Query(
                    f"sum by (bound, evidence) (increase(ai_agent_verdicts_recovered_total{{{AT}}}[$__rate_interval])) > 0",
                    "{{bound}} ({{evidence}})",
                )
            ],
            size=(8, 8),
            stack="normal",
            bars=True,
            runbook="agentverdictsrecovered",
        ),
    ],
)
