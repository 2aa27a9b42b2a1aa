"""The documented servers. Bounds that hold for one of them stand in `config.presets`, as for all."""

from __future__ import annotations

from typing import Any, Final

KBC_BOX: Final[dict[str, Any]] = {
    # The listing shows life and death, never a turn, and nothing in it tells a session that was
    # never used from one at rest: the box itself ends both. What is done stays listed, and is closed.
    # Two closes of one session at once leave its process behind: a call answers when all is torn
    # down, 10 s at worst, and without an answer nothing more is asked. Its event stream has one
    # consumer and is never read.
    "bounds": {"idle": {"unprompted": True}},
    "listing": {
        "path": "/test-sessions",
        "items": "sessions[]",
        "id": "tid",
        "created": "created_at",
        "last_activity": "last_activity_at",
        "done": "done",
    },
    # It moves with retries too, but it is the only clock there is.
    "last_activity_is_progress": True,
    "leftovers": True,
    "reap": {"path": "/test-session/{id}/close", "deadline": "15s", "rest": "60s"},
}

QWEN_SERVE: Final[dict[str, Any]] = {
    # The listing holds the stored sessions too: only those that run say what they are at. A listener
    # counts as a client and keeps a session from being idle: only busy ones are listened to.
    "listing": {
        "path": "/workspace/{directory}/sessions",
        "items": "sessions[]",
        "id": "sessionId",
        "live": "activeWorkState",
        "created": "createdAt",
        "status": "hasActivePrompt",
        "words": {"true": "busy", "false": "idle"},
        "waiting": {"isWaitingForPermission": "permission", "isWaitingForUserQuestion": "question"},
        "background": "hasRunningBackgroundTasks",
        "next": "nextCursor",
    },
    # Of one folder, as the listing is; what all folders may have together is a cap of its own.
    "capacity": {"path": "/daemon/status", "limit": "limits.maxSessions"},
    # `prompt_cancelled` is no end: it also comes before an error, and where nothing runs. A call is told
    # of as soon as the model names the tool, and once more when it runs, which has its kind; heartbeats
    # of it have none. One that had to be permitted is not told of again: its request is its start.
    "events": {
        "path": "/session/{id}/events",
        "replayed": "replay_complete",
        "stamp": "_meta.serverTimestamp",
        "session": "data.sessionId",
        "type": ["data.update.sessionUpdate", "type"],
        "turn": "promptId",
        "turn_started": ["user_message_chunk"],
        "progress": ["agent_message_chunk", "agent_thought_chunk", "plan"],
        "tool_started": ["tool_call", "tool_call_update", "permission_request"],
        "tool_start": "data.update.kind",
        "tool_prepared": {"data.update._meta.phase": "preparing"},
        "tool_ended": ["tool_call_update"],
        "tool_state": "data.update.status",
        "call": ["data.update.toolCallId", "data.toolCall.toolCallId"],
        "tool": ["data.update._meta.toolName", "data.update.kind", "data.toolCall._meta.toolName"],
        "ends": {"turn_complete": "completed", "turn_error": "failed", "session_died": "died"},
        "outcome": "data.stopReason",
        "outcomes": {"cancelled": "interrupted"},
    },
    "interrupt": {"path": "/session/{id}/cancel"},
    "reap": {"method": "DELETE", "path": "/session/{id}"},
}

HERMES_RUNS: Final[dict[str, Any]] = {
    # Nothing lists runs: `ids` or `ids_file` names them. `updated_at` stands still while text streams:
    # it says nothing of progress. The stream has a single consumer, usually who started the run.
    "status": {
        "path": "/v1/runs/{id}",
        "status": "status",
        "words": {
            "queued": "busy",
            "started": "busy",
            "running": "busy",
            "stopping": "busy",
            "waiting_for_approval": "waiting",
            "completed": "ended",
            "failed": "ended",
            "cancelled": "ended",
        },
        "created": "created_at",
    },
    "events": {
        "path": "/v1/runs/{id}/events",
        "listen": False,
        "stamp": "timestamp",
        "session": "run_id",
        "type": ["event"],
        "turn": "run_id",
        "progress": ["message.delta", "reasoning.available"],
        "tool_started": ["tool.started"],
        "tool_ended": ["tool.completed"],
        "call": ["tool"],
        "ends": {"run.completed": "completed", "run.failed": "failed", "run.cancelled": "interrupted"},
    },
    "interrupt": {"path": "/v1/runs/{id}/stop"},
}

OPENHANDS: Final[dict[str, Any]] = {
    # Asking for a single conversation counts as activity there and keeps it in memory: only the
    # search is used. Deleting is for ever, so that is nothing a bound may do.
    "listing": {
        "path": "/api/conversations/search?limit=100",
        "items": "items[]",
        "id": "id",
        "status": "execution_status",
        "words": {
            "idle": "idle",
            "running": "busy",
            "paused": "idle",
            "waiting_for_confirmation": "waiting",
            "finished": "idle",
            "error": "idle",
            "stuck": "idle",
            "deleting": "ended",
        },
        "created": "created_at",
        "last_activity": "updated_at",
        "next": "next_page_id",
        "cursor": "page_id",
    },
    "token_header": "X-Session-API-Key",
    "interrupt": {"path": "/api/conversations/{id}/interrupt"},
}

AGENTAPI: Final[dict[str, Any]] = {
    # `running` means that the screen changed: a spinner keeps a wedged agent running, and a dialog
    # reads `stable`. A raw Escape interrupts a terminal; over acp it would be a new prompt.
    "listing": {
        "path": "/status",
        "items": ".",
        "single": "agent",
        "status": "status",
        "words": {"running": "busy", "stable": "idle"},
    },
    "interrupt": {
        "path": "/message",
        "body": '{"type": "raw", "content": "\\u001b"}',
        "when": {"transport": "pty"},
    },
}

PRESETS: Final[dict[str, dict[str, Any]]] = {
    "kbc-box": KBC_BOX,
    "qwen-serve": QWEN_SERVE,
    "hermes-runs": HERMES_RUNS,
    "openhands": OPENHANDS,
    "agentapi": AGENTAPI,
}
