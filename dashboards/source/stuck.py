"""The first row of the agents' dashboard: what one asks at 3 a.m."""

from __future__ import annotations

from dashboards.source.board import Row
from dashboards.source.panels import Column, Panel, Query, ranking, stat, table
from dashboards.source.queries import AT, ONE, PLACE, TURN, WORKING


def _stuck() -> Panel:
    """The table of what is stuck: one row per sidecar, agent and bound."""
    by = f"{ONE}, agent, bound"
    overdue = f"sum by ({by}) (ai_agent_sessions_overdue{{{AT},{TURN}}}) > 0"
    phase = f'label_replace({{}}, "bound", "$1", "phase", "(.+)") and on ({by}) ({overdue})'
    silence = phase.replace("{}", f"max by ({ONE}, agent, phase) (ai_agent_silence_seconds{{{AT}}})")
    last = f"min by ({ONE}, agent, phase) (ai_agent_last_progress_timestamp_seconds{{{AT}}}) * 1000"
    unended = f"sum by ({by}) (ai_agent_sessions_unended{{{AT},{TURN}}}) and on ({by}) ({overdue})"
    mode = f"({overdue}) * on ({ONE}) group_left (mode) agent_sidecar_info{{{PLACE}}}"
    return table(
        "What is stuck",
        "Sessions past a bound of their turn, per sidecar and bound: where, since when (the oldest last progress of the "
        "phase), and what is done about it. `To be ended`: an act is decided and the session is still there; in "
        "`observe` mode it stays so. Empty: nothing is stuck.",
        [
            Query(mode, kind="table"),
            Query(unended, kind="table"),
            Query(silence, kind="table"),
            Query(phase.replace("{}", last), kind="table"),
        ],
        [
            Column("cluster", "Cluster"),
            Column("namespace", "Namespace"),
            Column("pod", "Pod"),
            Column("instance", "Sidecar"),
            Column("agent", "Agent"),
            Column("bound", "Bound"),
            Column("mode", "Mode"),
            Column("Value #A", "Overdue", "short"),
            Column("Value #B", "To be ended", "short"),
            Column("Value #D", "Last progress", "dateTimeFromNow"),
            Column("Value #C", "Silence", "s"),
        ],
        size=(24, 6),
        runbook="agentturnsoverdue",
    )


FIRST = Row(
    "Is anything stuck, where, since when, and what is being done?",
    [
        stat(
            "Overdue turns",
            "Sessions past a bound of their turn and still there, those that are only reported included.",
            Query(f"sum(ai_agent_sessions_overdue{{{AT},{TURN}}})"),
            runbook="agentturnsoverdueobserved",
        ),
        stat(
            "To be ended, still there",
            "Of those, the unattended ones whose bound is to end them. In `enforce` mode this is above 0 for seconds; in "
            "`observe` mode it stays.",
            Query(f"sum(ai_agent_sessions_unended{{{AT},{TURN}}})"),
            runbook="agentturnsoverdue",
        ),
        stat(
            "Longest silence at work",
            "Longest time without progress of any session that works. A tool may take long: see which phase it is.",
            Query(f"max(ai_agent_silence_seconds{{{AT},{WORKING}}})"),
            "s",
            at=((1200, "orange"), (3600, "red")),
            runbook="agentlongbusy",
        ),
        stat(
            "Waiting, nobody there",
            "Unattended sessions in which a permission, a question or a dialog is pending.",
            Query(f'sum(ai_agent_sessions{{{AT},phase="waiting",attended="false"}})'),
            at=((1, "orange"),),
            runbook="agentwaitingunattended",
        ),
        stat(
            "Blind",
            "Sessions whose every source is lost. Nothing is ended there, and nothing that hangs is seen.",
            Query(f'sum(ai_agent_sessions{{{AT},phase="unknown"}})'),
            runbook="agentsidecarblind",
        ),
        stat(
            "Sidecars by mode",
            "`enforce` acts; `observe` only says what it would do.",
            Query(f"count by (mode) (agent_sidecar_info{{{PLACE}}})", "{{mode}}"),
            at=(),
        ),
        _stuck(),
        ranking(
            "What was done, in the time shown",
            "What became of verdicts and of people's requests. `held`: a brake; `ineffective`, `failed`: the agent runs on; "
            "`observed`: would have been done; `reported`: only said.",
            Query(
                f"sum by (action, outcome) (increase(ai_agent_actions_total{{{AT}}}[$__range])) > 0",
                "{{action}}: {{outcome}}",
                "instant",
            ),
            size=(12, 6),
            runbook="agentactsheld",
        ),
        table(
            "Alerts that fire",
            "The alerts of rules.yaml. The runbook has a section for each.",
            [Query('ALERTS{alertname=~"Agent.+",alertstate="firing",cluster=~"$cluster"}', kind="table")],
            [
                Column("alertname", "Alert"),
                Column("severity", "Severity"),
                Column("namespace", "Namespace"),
                Column("agent", "Agent"),
            ],
            size=(12, 6),
        ),
    ],
)
