"""The demo's agent: writes what Claude Code writes, speaks its stream-json, and can be made to hang.

No model, no network: the prompt says what to do. `work` streams and calls a short tool, `long tool`
calls one that outlasts the model's bound, `wedge` waits for an answer that never comes, `slow` for
one that comes after a while, `retry` is refused a few times first, `ask` wants a permission. Everything
else is what the real one does: a transcript line per finished block, a registration that changes at
transitions, an interrupt by control request, exit 0 when its input closes. One file, run as a script.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MODEL = "demo-model"
VERSION = "2.1.332"
"""The version of Claude Code whose formats are written."""

LONG_TOOL = 7.0
"""Seconds of the long tool: well over the demo's model bound of 4 s."""

SLOW = 7.0
"""Seconds of a silence that ends by itself, after the bound: a would-be false kill."""

ASKING = 12.0
"""Seconds until somebody grants a permission after all."""

REFUSALS = (529, 529, 429)
"""What the provider answers before it works again."""

Record = dict[str, Any]


def now() -> str:
    """The time as transcripts stamp it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class Files:
    """The transcript and the registration, as the real agent keeps them."""

    def __init__(self, config: Path) -> None:
        self.session = str(uuid.uuid4())
        self.transcript = config / "projects" / "-demo" / f"{self.session}.jsonl"
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        self.registration = config / "sessions" / f"{os.getpid()}.json"
        self.registration.parent.mkdir(mode=0o700, exist_ok=True)
        self._started = int(time.time() * 1000)

    def write(self, kind: str, **fields: object) -> None:
        """Append one record."""
        record: Record = {"type": kind, "timestamp": now(), "sessionId": self.session, "version": VERSION}
        if kind in ("user", "assistant"):
            record |= {
                "uuid": str(uuid.uuid4()),
                "isSidechain": False,
                "entrypoint": "sdk-cli",
                "cwd": str(Path.cwd()),
            }
        with self.transcript.open("a") as file:
            file.write(json.dumps(record | fields) + "\n")

    def register(self, status: str, **more: str) -> None:
        """Say what we are doing."""
        start = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        stamp = int(time.time() * 1000)
        told = {
            "pid": os.getpid(),
            "sessionId": self.session,
            "cwd": str(Path.cwd()),
            "startedAt": self._started,
            "procStart": start,
            "version": VERSION,
            "kind": "interactive",
            "entrypoint": "sdk-cli",
            "pidDomain": f"linux:demo:{Path('/proc/self/ns/pid').readlink()}",
            "status": status,
            "updatedAt": stamp,
            "statusUpdatedAt": stamp,
        }
        self.registration.write_text(json.dumps(told | more))

    def leave(self) -> None:
        """Exit as the real one does: the registration goes, the transcript stays."""
        self.registration.unlink(missing_ok=True)


class Demo:
    """One session that answers prompts from its input until that closes."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.turn: asyncio.Task[None] | None = None
        self.prompt = ""

    def say(self, kind: str, **fields: object) -> None:
        """A line of stream-json on stdout."""
        sys.stdout.write(json.dumps({"type": kind, "session_id": self.files.session} | fields) + "\n")
        sys.stdout.flush()

    def status(self, word: str) -> None:
        """Idle or busy, in the registration and, where asked for, on stdout."""
        self.files.register(word)
        if os.environ.get("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") == "1":
            self.say("system", subtype="session_state_changed", state="idle" if word == "idle" else "running")

    async def serve(self) -> None:
        """Read prompts and control requests until the input ends, then finish and leave."""
        reader = asyncio.StreamReader(limit=1 << 20)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        self.say("system", subtype="init", model=MODEL, cwd=str(Path.cwd()))
        self.status("idle")
        async for line in reader:
            message = json.loads(line)
            if message["type"] == "user":
                await self.finish()
                self.turn = asyncio.create_task(self.answer(message["message"]["content"]))
            elif message["type"] == "control_request":
                await self.control(message)
        await self.finish()

    async def finish(self) -> None:
        """Wait for the turn that runs."""
        if self.turn is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self.turn

    async def control(self, message: Record) -> None:
        """An interrupt ends the turn and keeps the session."""
        response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
        self.say("control_response", response=response)
        if self.turn is None or self.turn.done():
            return
        self.turn.cancel()
        await self.finish()
        marker = [{"type": "text", "text": "[Request interrupted by user]"}]
        self.files.write("user", promptId=self.prompt, message={"role": "user", "content": marker})
        self.say("result", subtype="error_during_execution", is_error=True)
        self.status("idle")

    async def answer(self, prompt: object) -> None:
        """One turn."""
        self.prompt = str(uuid.uuid4())
        text = prompt if isinstance(prompt, str) else json.dumps(prompt)
        self.status("busy")
        message = {"role": "user", "content": text}
        self.files.write("user", promptId=self.prompt, promptSource="sdk", turnOrigin="sdk", message=message)
        if "wedge" in text:
            self.request()
            await asyncio.Event().wait()
        if "slow" in text:
            self.request()
            await asyncio.sleep(SLOW)
        if "retry" in text:
            await self.retry()
        if "ask" in text:
            await self.ask()
        if "work" in text:
            await self.stream("Looking at it.", 1.5, "tool_use")
            await self.tool(1.0)
        if "long tool" in text:
            await self.tool(LONG_TOOL)
        await self.stream("Done.", 0.6, "end_turn")
        self.say("result", subtype="success", is_error=False, result="Done.")
        self.status("idle")

    def request(self) -> None:
        """The record of a request that was sent: presence, not progress."""
        self.files.write("api-request", id=str(uuid.uuid4()))

    async def retry(self) -> None:
        """Refused by the provider, again and again."""
        for number, code in enumerate(REFUSALS, 1):
            self.request()
            error = {"status": code}
            self.files.write(
                "system", subtype="api_error", error=error, retryInMs=1000.0, retryAttempt=number
            )
            await asyncio.sleep(1.0)

    async def ask(self) -> None:
        """A tool call that waits for a permission first."""
        call = self.call()
        self.files.register("waiting", waitingFor="permission prompt")
        await asyncio.sleep(ASKING)
        self.status("busy")
        self.result(call)

    async def stream(self, text: str, seconds: float, stop: str) -> None:
        """A block, streamed piece by piece and written when it is whole."""
        self.request()
        for piece in text.split():
            await asyncio.sleep(seconds / len(text.split()))
            delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": f"{piece} "}}
            self.say("stream_event", event=delta)
        self.block({"type": "text", "text": text}, stop)

    async def tool(self, seconds: float) -> None:
        """A tool call that runs for a while."""
        call = self.call()
        await asyncio.sleep(seconds)
        self.result(call)

    def call(self) -> str:
        """Call a tool."""
        call = f"toolu_{uuid.uuid4().hex[:12]}"
        self.block({"type": "tool_use", "id": call, "name": "Bash", "input": {"command": "make"}}, "tool_use")
        return call

    def result(self, call: str) -> None:
        """The tool is done."""
        result = [{"type": "tool_result", "tool_use_id": call, "content": "ok"}]
        self.files.write(
            "user", promptId=self.prompt, message={"role": "user", "content": result}, toolUseResult={}
        )

    def block(self, block: Record, stop: str) -> None:
        """A finished content block: a line in the transcript, a message on stdout."""
        usage = {"input_tokens": 900, "output_tokens": 40}
        message = {
            "id": f"msg_{uuid.uuid4().hex[:12]}",
            "role": "assistant",
            "model": MODEL,
            "content": [block],
            "stop_reason": stop,
            "usage": usage,
        }
        self.files.write("assistant", message=message)
        self.say("assistant", message=message)


def main() -> int:
    """Run until the input closes."""
    files = Files(Path(os.environ["CLAUDE_CONFIG_DIR"]))
    try:
        asyncio.run(Demo(files).serve())
    finally:
        files.leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
