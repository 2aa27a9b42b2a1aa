"""Synthetic configuration folders of Claude Code, built record by record."""

from __future__ import annotations

import json
import os
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sidecar.sources.process import pid_namespace, start_ticks

if TYPE_CHECKING:
    from pathlib import Path

WALL = 1_800_000_000.0
"""The wall clock of the tests, in epoch seconds."""


def stamp(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class Home:
    """A configuration folder with sessions in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def session(self, name: str | None = None, folder: str = "-work") -> Script:
        return Script(self, name or str(uuid.uuid4()), folder)

    def register(
        self, script: Script, pid: int | None = None, name: str | None = None, **fields: Any
    ) -> Path:
        pid = os.getpid() if pid is None else pid
        folder = self.root / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        told = {
            "pid": pid,
            "sessionId": script.id,
            "cwd": "/work",
            "startedAt": int((WALL - 7200) * 1000),
            "procStart": str(start_ticks(pid) or 1),
            "version": "2.1.332",
            "kind": "interactive",
            "entrypoint": "sdk-cli",
            "pidDomain": f"linux:x:{pid_namespace()}",
        } | fields
        path = folder / (name or f"{pid}.json")
        path.write_text(json.dumps({key: value for key, value in told.items() if value is not None}))
        return path


class Script:
    """Writes one session's transcript."""

    def __init__(self, home: Home, session: str, folder: str) -> None:
        self.home = home
        self.id = session
        self.path = home.root / "projects" / folder / f"{session}.jsonl"
        self.extra: dict[str, Any] = {"isSidechain": False, "sessionId": session}

    def raw(self, data: bytes) -> Script:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(data)
        os.utime(self.path, (WALL, WALL))
        return self

    def record(self, kind: str, ago: float | None = 0.0, **fields: Any) -> Script:
        record: dict[str, Any] = {"type": kind, "uuid": str(uuid.uuid4()), "version": "2.1.332"}
        if ago is not None:
            record["timestamp"] = stamp(WALL - ago)
        if kind in ("user", "assistant", "system"):
            record |= {"entrypoint": "sdk-cli", "cwd": "/work"}
        return self.raw(json.dumps(record | self.extra | fields).encode() + b"\n")

    def prompt(self, ago: float = 0.0, text: str = "do it", **fields: Any) -> Script:
        told = {
            "promptId": str(uuid.uuid4()),
            "promptSource": "sdk",
            "message": {"role": "user", "content": text},
        }
        return self.record("user", ago, **(told | fields))

    def says(self, ago: float = 0.0, stop: str = "end_turn", model: str = "opus", **fields: Any) -> Script:
        block = {"type": "text", "text": fields.pop("text", "well")}
        return self._assistant(ago, block, stop, model, **fields)

    def calls(self, tool: str, call: str = "c1", ago: float = 0.0) -> Script:
        block = {"type": "tool_use", "id": call, "name": tool, "input": {}}
        return self._assistant(ago, block, "tool_use", "opus")

    def result(self, call: str = "c1", ago: float = 0.0, **fields: Any) -> Script:
        block = {"type": "tool_result", "tool_use_id": call, "content": "ok"}
        return self.record("user", ago, message={"role": "user", "content": [block]}, **fields)

    def interrupted(self, ago: float = 0.0) -> Script:
        block = {"type": "text", "text": "[Request interrupted by user]"}
        return self.record("user", ago, message={"role": "user", "content": [block]})

    def subagent(self, agent: str) -> Script:
        child = Script(self.home, self.id, self.path.parent.name)
        child.path = self.path.parent / self.id / "subagents" / f"agent-{agent}.jsonl"
        child.extra = {"isSidechain": True, "sessionId": self.id, "agentId": agent}
        return child

    def _assistant(self, ago: float, block: dict[str, Any], stop: str, model: str, **fields: Any) -> Script:
        message = {
            "id": f"msg-{uuid.uuid4().hex[:8]}",
            "role": "assistant",
            "model": model,
            "content": [block],
            "stop_reason": stop,
            "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3},
        }
        return self.record("assistant", ago, message=message, **fields)
