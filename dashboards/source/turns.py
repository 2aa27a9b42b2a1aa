"""Turns: how they end, how long they take, what they spend their time on, how long they are silent."""

from __future__ import annotations

from dashboards.source.board import Row
from dashboards.source.panels import Query, heatmap, series
from dashboards.source.queries import AT, quantiles

TURNS = Row(
    "Turns",
    [
        series(
            "Turns by outcome",
            "Turns that ended. `stalled`: ended by us; `interrupted`: by somebody else.",
            [
                Query(
                    f"sum by (outcome) (increase(ai_agent_turns_total{{{AT}}}[$__rate_interval])) > 0",
                    "{{outcome}}",
                )
            ],
            stack="normal",
            bars=True,
        ),
        series(
            "Duration of turns",
            "Quantiles. The diamonds are turns: each leads to its trace, where the data source says where traces are.",
            quantiles("ai_agent_turn_duration_seconds"),
            "s",
        ),
        series(
            "Share of time by phase",
            "How sessions spend their time, idling left out.",
            [
                Query(
                    f'sum by (phase) (rate(ai_agent_phase_seconds_total{{{AT},phase!="idle"}}[$__rate_interval])) > 0',
                    "{{phase}}",
                )
            ],
            "percent",
            stack="percent",
        ),
        series(
            "Silence gaps against the bounds",
            "How long silences last that end by themselves, per phase, and dashed the limits. A limit below the p99 of its "
            "phase ends healthy turns. The diamonds are gaps: each leads to the trace with its stall.",
            [
                *quantiles("ai_agent_silence_gap_seconds", by="phase", of=(0.5, 0.99)),
                Query(
                    f'min by (bound) (ai_agent_bound_limit_seconds{{{AT},bound=~"model|tool|retrying|waiting"}})',
                    "{{bound}} limit",
                ),
            ],
            "s",
            log=True,
            dashed=".* limit",
            runbook="agentverdictsrecovered",
        ),
        heatmap(
            "Silence gaps by length",
            "Silences within turns, each when it ended. Compare the highest rows with the limits of the panel beside it.",
            Query(
                f"sum by (le) (increase(ai_agent_silence_gap_seconds_bucket{{{AT}}}[$__rate_interval]))",
                "{{le}}",
                "heatmap",
                exemplars=True,
            ),
            size=(24, 7),
        ),
    ],
)
