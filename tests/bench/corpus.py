"""A corpus of transcripts to measure with: the records, their key order and their sizes are those of real ones.

Half the lines are below 1.2 KB, one in ten is above 8 KB, one in a hundred above 53 KB, the longest is
468 KB. A turn is a prompt, then blocks of thinking, text and tool calls, each call with its result, and the
bookkeeping between them. Texts look like code: a newline every 40 characters or so, quotes, non-ASCII
letters here and there. The same seed gives the same bytes.
"""

import json
import math
import random
import string
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

MB = 1_000_000
MEDIAN, SPREAD, LONGEST = 1200, 1.55, 468_000  # bytes of a line: a log-normal's median and sigma, cut off
ENVELOPE = 640  # bytes around the content, about
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Writer:
    """Makes the lines of sessions, one after the other."""

    def __init__(self, seed: int = 7) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - the same lines each time
        letters = string.ascii_lowercase + string.ascii_lowercase + "_.(){}=é"
        words = ["".join(self.chance.choices(letters, k=self.chance.randint(1, 11))) for _ in range(5000)]
        code = (
            f'{" " * self.chance.randint(0, 12)}{" ".join(self.chance.choices(words, k=5))} = "'
            f'{self.chance.choice(words)}"'
            for _ in range(30_000)
        )
        self.text = "\n".join(code)
        self.now = BEGAN

    def session(self, session: str) -> Iterator[dict[str, object]]:
        """Give the records of one session, without end."""
        self.envelope = {
            "userType": "external",
            "entrypoint": "sdk-cli",
            "cwd": "/home/agent/project",
            "sessionId": session,
            "version": "2.1.332",
            "gitBranch": "main",
        }
        while True:
            yield {
                "type": "queue-operation",
                "operation": "dequeue",
                "timestamp": self._stamp(),
                "sessionId": session,
            }
            prompt = {"role": "user", "content": self._content()}
            yield self._record("user", prompt, promptId=self._id(), promptSource="sdk", turnOrigin="sdk")
            yield {
                "type": "attachment",
                "attachment": {"type": "skills", "content": self._content()},
                **self._tail(),
            }
            for _ in range(self.chance.randint(2, 12)):
                yield from self._step()
            done = [{"type": "text", "text": self._content()}]
            yield self._record("assistant", self._message(done, "end_turn"))
            yield {"type": "last-prompt", "lastPrompt": "…", "leafUuid": self._id(), "sessionId": session}

    def _step(self) -> Iterator[dict[str, object]]:
        """A message of a few blocks: perhaps thought, one call or several, then their results."""
        message = self._id()
        if self.chance.random() < 0.4:
            thought = {"type": "thinking", "thinking": self._content(), "signature": self._id() * 8}
            yield self._record("assistant", self._message([thought], "tool_use", message))
        calls = [f"toolu_{self._id()}" for _ in range(1 + (self.chance.random() < 0.2))]
        for call in calls:
            block = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": self._content()}}
            yield self._record("assistant", self._message([block], "tool_use", message))
        for call in calls:
            text = self._content(0.5)
            result = [{"tool_use_id": call, "type": "tool_result", "content": text, "is_error": False}]
            told = {"stdout": text, "stderr": "", "interrupted": False}
            yield self._record("user", {"role": "user", "content": result}, toolUseResult=told)

    def _message(self, content: list[dict[str, Any]], stop: str, message: str = "") -> dict[str, object]:
        usage = {
            "input_tokens": 17,
            "cache_creation_input_tokens": 1893,
            "cache_read_input_tokens": 100_000,
            "cache_creation": {"ephemeral_5m_input_tokens": 1893, "ephemeral_1h_input_tokens": 0},
            "output_tokens": self.chance.randint(1, 5000),
            "service_tier": "standard",
        }
        return {
            "model": "claude-some-model",
            "id": f"msg_{message or self._id()}",
            "type": "message",
            "role": "assistant",
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }

    def _record(self, kind: str, message: object, **more: object) -> dict[str, object]:
        head = {"parentUuid": self._id(), "isSidechain": False}
        if kind == "user":
            result = {key: more.pop(key) for key in ("toolUseResult",) if key in more}
            return {
                **head,
                **more,
                "type": kind,
                "message": message,
                **self._tail(),
                **result,
                **self.envelope,
            }
        request = {"requestId": "req_1", "requestRef": self._id(), "requestedModel": "claude-some-model"}
        return {
            **head,
            "message": message,
            "apiBlockIndex": 0,
            **request,
            "type": kind,
            **self._tail(),
            **self.envelope,
        }

    def _tail(self) -> dict[str, object]:
        return {"uuid": self._id(), "timestamp": self._stamp()}

    def _content(self, part: float = 1.0) -> str:
        size = min(LONGEST, int(MEDIAN * math.exp(self.chance.gauss(0, SPREAD)))) - ENVELOPE
        size = max(20, int(size * part))
        at = self.chance.randrange(len(self.text) - LONGEST)
        return self.text[at : at + size]

    def _id(self) -> str:
        return str(uuid.UUID(int=self.chance.getrandbits(128)))

    def _stamp(self) -> str:
        self.now += timedelta(milliseconds=self.chance.randint(50, 9000))
        return self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fill(root: Path, size: int, each: int = MB) -> list[str]:
    """Write transcripts of ``each`` bytes below a configuration folder, ``size`` bytes in all."""
    writer = Writer()
    folder = root / "projects" / "-home-agent-project"
    folder.mkdir(parents=True)
    paths = []
    for _ in range(math.ceil(size / each)):
        session = writer._id()
        path = folder / f"{session}.jsonl"
        with path.open("wb") as file:
            for record in writer.session(session):
                line = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()
                file.write(line + b"\n")
                if file.tell() >= each:
                    break
        paths.append(str(path))
    return paths
