"""What agents use: tools, tokens, retries, processes, and the cap on their sessions."""

from __future__ import annotations

from dashboards.source.board import Row
from dashboards.source.panels import Column, Query, series, table
from dashboards.source.queries import AT, ONE, quantiles

TOOLS = Row(
    "Tools, tokens, retries",
    [
        series(
            "Tool calls by class",
            "Tool calls that ended.",
            [
                Query(
                    f"sum by (tool) (rate(ai_agent_tool_calls_total{{{AT}}}[$__rate_interval])) > 0",
                    "{{tool}}",
                )
            ],
            "ops",
            stack="normal",
            size=(8, 8),
        ),
        series(
            "Duration of tool calls",
            "Quantiles of those that got a result. The diamonds lead to traces.",
            quantiles("ai_agent_tool_duration_seconds"),
            "s",
            size=(8, 8),
        ),
        series(
            "Retries by cause",
            "Provider errors that agents retried.",
            [
                Query(
                    f"sum by (cause) (increase(ai_agent_retries_total{{{AT}}}[$__rate_interval])) > 0",
                    "{{cause}}",
                )
            ],
            size=(8, 8),
            stack="normal",
            bars=True,
            runbook="agentverdictratehigh",
        ),
        series(
            "Tokens by type",
            "Tokens per second.",
            [Query(f"sum by (type) (rate(ai_agent_tokens_total{{{AT}}}[$__rate_interval])) > 0", "{{type}}")],
            "suffix: tok/s",
            stack="normal",
        ),
        series(
            "Tokens by model",
            "Tokens per second.",
            [
                Query(
                    f"sum by (model) (rate(ai_agent_tokens_total{{{AT}}}[$__rate_interval])) > 0", "{{model}}"
                )
            ],
            "suffix: tok/s",
            stack="normal",
        ),
    ],
)

PROCESSES = Row(
    "Capacity and processes",
    [
        series(
            "Sessions against the cap",
            "Where an agent tells how many it allows at once: the fullest one.",
            [
                Query(
                    f'max by (agent) (sum by ({ONE}, agent) (ai_agent_sessions{{{AT},phase!="gone"}}) '
                    f"/ on ({ONE}, agent) ai_agent_sessions_limit{{{AT}}})",
                    "{{agent}}",
                )
            ],
            "percentunit",
            size=(6, 8),
            runbook="agentsessionsnearlimit",
        ),
        series(
            "Memory of agents",
            "Resident memory of the agents' processes, where they are visible.",
            [Query(f"sum by (agent) (ai_agent_process_resident_memory_bytes{{{AT}}})", "{{agent}}")],
            "bytes",
            size=(6, 8),
        ),
        series(
            "CPU of agents",
            "Cores that the agents' processes use, where they are visible.",
            [
                Query(
                    f"sum by (agent) (rate(ai_agent_process_cpu_seconds_total{{{AT}}}[$__rate_interval]))",
                    "{{agent}}",
                )
            ],
            size=(6, 8),
        ),
        table(
            "Versions",
            "Versions of agents that are running, and how many sidecars see them.",
            [Query(f"count by (agent, version) (ai_agent_info{{{AT}}})", kind="table")],
            [Column("agent", "Agent"), Column("version", "Version"), Column("Value", "Sidecars", "short")],
            size=(6, 8),
            runbook="agentformatdrift",
        ),
    ],
)
