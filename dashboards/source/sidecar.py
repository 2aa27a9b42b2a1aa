"""The dashboard of the sidecars: whether what the other one shows can be trusted. Long, for it is a list."""

from __future__ import annotations

from typing import Final

from dashboards.source.board import Board, Row
from dashboards.source.panels import Column, Query, series, stat, table
from dashboards.source.queries import AT, ONE, PLACE

JOB: Final = f'job=~".*agent-sidecar.*",{PLACE}'
"""What Prometheus itself says of its targets has no label of ours, only the job's name."""

FIRST = Row(
    "Can it be trusted?",
    [
        stat(
            "Sidecars down",
            "Targets of a job called agent-sidecar that do not answer.",
            Query(f"count(up{{{JOB}}} == 0)"),
            size=(3, 4),
            runbook="agentsidecardown",
        ),
        stat(
            "Blind",
            "Sidecars that have lost every source of an agent.",
            Query(f"count(max by ({ONE}, agent) (agent_sidecar_source_up{{{AT}}}) == 0)"),
            size=(3, 4),
            runbook="agentsidecarblind",
        ),
        stat(
            "Sources lost",
            "Sources that cannot be read.",
            Query(f"count(agent_sidecar_source_up{{{AT}}} == 0)"),
            size=(3, 4),
            at=((1, "orange"),),
            runbook="agentsidecarblind",
        ),
        stat(
            "Controls out of reach",
            "Controls through which turns would be ended.",
            Query(f"count(agent_sidecar_control_up{{{AT}}} == 0)"),
            size=(3, 4),
            at=((1, "orange"),),
            runbook="agentcontroldown",
        ),
        stat(
            "Acts held",
            "Acts that a brake held back in the time shown.",
            Query(f'sum(increase(ai_agent_actions_total{{{AT},outcome="held"}}[$__range]))', kind="instant"),
            size=(3, 4),
            at=((1, "orange"),),
            runbook="agentactsheld",
        ),
        stat(
            "Configurations refused",
            "Sidecars that run with another configuration than the one on their disk.",
            Query(f"count(agent_sidecar_config_last_reload_successful{{{PLACE}}} == 0)"),
            size=(3, 4),
            at=((1, "orange"),),
            runbook="agentsidecarconfigrejected",
        ),
        stat(
            "Spans lost",
            "Spans refused or dropped in the time shown.",
            Query(
                f'sum(increase(agent_sidecar_spans_total{{{PLACE},outcome=~"failed|dropped"}}[$__range]))',
                kind="instant",
            ),
            size=(3, 4),
            at=((1, "orange"),),
            runbook="agentsidecarexportfailing",
        ),
        stat(
            "Loop lag",
            "How late the latest clockwork runs. Bounds are stretched by it.",
            Query(f"max(agent_sidecar_loop_lag_seconds{{{PLACE}}})"),
            "s",
            size=(3, 4),
            at=((0.25, "orange"), (1, "red")),
            runbook="agentsidecarlagging",
        ),
        table(
            "Sidecars",
            "Version, mode, configuration and how changes of files are noticed.",
            [
                Query(
                    f"max by ({ONE}, version, mode, config_hash) (agent_sidecar_info{{{PLACE}}})"
                    f" * on ({ONE}) group_left (watch) label_replace("
                    f'max by ({ONE}, mode) (agent_sidecar_watch_mode{{{PLACE}}}), "watch", "$1", "mode", "(.+)")',
                    kind="table",
                )
            ],
            [
                Column("cluster", "Cluster"),
                Column("namespace", "Namespace"),
                Column("pod", "Pod"),
                Column("instance", "Sidecar"),
                Column("version", "Version"),
                Column("mode", "Mode"),
                Column("config_hash", "Configuration"),
                Column("watch", "Files watched by"),
            ],
            size=(24, 6),
        ),
    ],
)

SOURCES = Row(
    "Sources and controls",
    [
        series(
            "Share of sources up",
            "Per agent and source: 100 % where every sidecar can read it.",
            [Query(f"avg by (agent, source) (agent_sidecar_source_up{{{AT}}})", "{{agent}} {{source}}")],
            "percentunit",
            size=(6, 8),
            runbook="agentsidecarblind",
        ),
        series(
            "Time since the last read",
            "Of the source that was read longest ago, per agent. A poll shows its interval; a file that is only read when "
            "it changes shows how long it has not.",
            [
                Query(
                    f"max by (agent, source) (time() - agent_sidecar_source_last_read_timestamp_seconds{{{AT}}})",
                    "{{agent}} {{source}}",
                )
            ],
            "s",
            size=(6, 8),
        ),
        series(
            "Share of controls up",
            "Per agent and kind of control.",
            [Query(f"avg by (agent, source) (agent_sidecar_control_up{{{AT}}})", "{{agent}} {{source}}")],
            "percentunit",
            size=(6, 8),
            runbook="agentcontroldown",
        ),
        series(
            "File events missed",
            "Changes that the kernel did not tell of. `overflow`: everything was looked at once. Anything else: the "
            "folder is polled from then on, a second late at most.",
            [
                Query(
                    f"sum by (reason) (increase(agent_sidecar_watch_losses_total{{{PLACE}}}[$__rate_interval]))",
                    "{{reason}}",
                )
            ],
            size=(6, 8),
        ),
    ],
)

RECORDS = Row(
    "Records",
    [
        series(
            "Records by kind",
            "Progress is work; presence is any other sign of life. Unknown counts as presence.",
            [
                Query(
                    f"sum by (kind) (rate(agent_sidecar_records_total{{{AT}}}[$__rate_interval])) > 0",
                    "{{kind}}",
                )
            ],
            "ops",
            stack="normal",
        ),
        series(
            "Share of records that are not understood",
            "Unknown, malformed or oversized, per agent. A step up is an agent whose format has moved.",
            [
                Query(
                    "sum by (agent, kind) (rate(agent_sidecar_records_total"
                    f'{{{AT},kind=~"unknown|malformed|oversized"}}[$__rate_interval])) / on (agent) group_left '
                    f"clamp_min(sum by (agent) (rate(agent_sidecar_records_total{{{AT}}}[$__rate_interval])), 1e-9)",
                    "{{agent}} {{kind}}",
                )
            ],
            "percentunit",
            runbook="agentformatdrift",
        ),
    ],
)

WORK = Row(
    "Clockwork, exports, brakes",
    [
        series(
            "Loop lag over time",
            "How late the clockwork runs: the latest sidecar, and the middle one.",
            [
                Query(f"max(agent_sidecar_loop_lag_seconds{{{PLACE}}})", "latest"),
                Query(f"quantile(0.5, agent_sidecar_loop_lag_seconds{{{PLACE}}})", "median"),
            ],
            "s",
            size=(8, 8),
            runbook="agentsidecarlagging",
        ),
        series(
            "Spans by outcome",
            "Exported, failed (refused by the collector) and dropped (it was too slow). 0 where no collector is set.",
            [
                Query(
                    f"sum by (outcome) (rate(agent_sidecar_spans_total{{{PLACE}}}[$__rate_interval]))",
                    "{{outcome}}",
                )
            ],
            "ops",
            size=(8, 8),
            runbook="agentsidecarexportfailing",
        ),
        series(
            "Acts held by a brake",
            "By agent and action: the hold file, the budget, or a journal that cannot be written.",
            [
                Query(
                    "sum by (agent, action) (increase(ai_agent_actions_total"
                    f'{{{AT},outcome="held"}}[$__rate_interval]))',
                    "{{agent}} {{action}}",
                )
            ],
            size=(8, 8),
            stack="normal",
            bars=True,
            runbook="agentactsheld",
        ),
        series(
            "Duration of scrapes",
            "As Prometheus measures it.",
            [Query(f"max(scrape_duration_seconds{{{JOB}}})", "longest")],
            "s",
        ),
        series(
            "Samples per scrape",
            "About 250 for one kind of agent and 150 for each further one; more with `metrics.per_session`.",
            [
                Query(f"max(scrape_samples_scraped{{{JOB}}})", "most"),
                Query(f"sum(scrape_samples_scraped{{{JOB}}})", "of all sidecars"),
            ],
        ),
    ],
)

SIDECAR = Board(
    "agent-sidecar-sidecar",
    "Agent sidecar",
    "The sidecars themselves: whether they see their agents, can reach their controls, and run on time.",
    "agent_sidecar_source_up",
    [FIRST, SOURCES, RECORDS, WORK],
)
