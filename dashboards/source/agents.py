"""The dashboard of the agents: its first row answers what one asks at 3 a.m."""

from __future__ import annotations

from dashboards.source.board import Board
from dashboards.source.resources import PROCESSES, TOOLS
from dashboards.source.sessions import ACTS, SESSIONS
from dashboards.source.stuck import FIRST
from dashboards.source.turns import TURNS

AGENTS = Board(
    "agent-sidecar-agents",
    "Agents",
    "AI agents as agent-sidecar sees them: what is stuck, where, since when, and what is being done about it.",
    "ai_agent_sessions",
    [FIRST, SESSIONS, ACTS, TURNS, TOOLS, PROCESSES],
)
