"""OpenCode's events, written one by one, and what a decoder and the fold make of them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from sidecar import signals as g
from sidecar.agents.opencode.decode import Decoder
from sidecar.agents.opencode.tracks import Tracks
from sidecar.clock import RecordedClock
from sidecar.limits import Rules
from sidecar.replay import Replay

if TYPE_CHECKING:
    from sidecar.session import Session

WORK = "/home/agent/a"
DOES = (g.TurnStarted, g.Progress, g.ToolStarted, g.ToolEnded)


def event(kind: str, /, directory: str | None = None, **properties: Any) -> bytes:
    told = {"id": "evt_1", "type": kind, "properties": properties}
    return json.dumps(told if directory is None else {"directory": directory, "payload": told}).encode()


def session_info(session: str = "ses_1", parent: str | None = None, **time: float) -> dict[str, Any]:
    info = {"id": session, "directory": WORK, "version": "1.18.33", "title": "secret"}
    info["time"] = {"created": 0, "updated": 0} | time  # type: ignore[assignment]
    return info if parent is None else info | {"parentID": parent}


class Stream:
    """One server's stream: told in seconds, seen as signals and as a session."""

    def __init__(self, *, attended: bool | None = None, directories: tuple[str, ...] = ()) -> None:
        clock = RecordedClock(math.inf)
        self.tracks = Tracks(clock, attended=attended, directories=directories)
        self.decoder = Decoder(self.tracks)
        self.fleet = Replay("opencode", Rules()).fleet
        self.now = 0.0
        self.session = "ses_1"

    def at(self, now: float) -> Stream:
        self.now = now
        return self

    def tell(self, data: bytes) -> list[g.Signal]:
        """One event; gives the signals of it."""
        seen = self.decoder.feed(data, self.now)
        self.fleet.observe("opencode", seen, self.now)
        return [o.signal for o in seen]

    def seen(self, session: str = "ses_1") -> Session:
        found = self.fleet.get("opencode", session)
        assert found is not None
        return found

    def turn(self) -> str | None:
        turn = self.seen().turn
        return None if turn is None else turn.id

    def created(self, session: str = "ses_1", parent: str | None = None) -> list[g.Signal]:
        self.session = session
        info = session_info(session, parent, created=self.now * 1000)
        return self.tell(event("session.created", sessionID=session, info=info))

    def asked(self, message: str = "msg_1u", **info: Any) -> list[g.Signal]:
        told = {"id": message, "role": "user", "time": {"created": self.now * 1000}} | info
        return self.tell(event("message.updated", sessionID=self.session, info=told))

    def status(self, kind: str, **more: Any) -> list[g.Signal]:
        return self.tell(event("session.status", sessionID=self.session, status={"type": kind} | more))

    def busy(self) -> list[g.Signal]:
        return self.status("busy")

    def idle(self) -> list[g.Signal]:
        return self.status("idle") + self.tell(event("session.idle", sessionID=self.session))

    def answer(self, message: str = "msg_1a", to: str = "msg_1u", **more: Any) -> list[g.Signal]:
        time = {"created": self.now * 1000} | more.pop("time", {})
        info = {"id": message, "role": "assistant", "parentID": to, "modelID": "m", "time": time} | more
        return self.tell(event("message.updated", sessionID=self.session, info=info))

    def completed(self, message: str = "msg_1a", to: str = "msg_1u", **more: Any) -> list[g.Signal]:
        return self.answer(message, to, time={"completed": self.now * 1000}, **more)

    def part(self, kind: str, part: str = "prt_1", message: str = "msg_1a", **more: Any) -> list[g.Signal]:
        told = {"id": part, "messageID": message, "sessionID": self.session, "type": kind} | more
        return self.tell(event("message.part.updated", sessionID=self.session, part=told))

    def delta(self, text: str, part: str = "prt_1", message: str = "msg_1a") -> list[g.Signal]:
        told = {"messageID": message, "partID": part, "field": "text", "delta": text}
        return self.tell(event("message.part.delta", sessionID=self.session, **told))

    def tool(self, status: str, call: str = "call_1", tool: str = "bash", **more: Any) -> list[g.Signal]:
        message = more.pop("message", "msg_1a")
        state = {"status": status, "input": {"command": "secret"}} | more
        return self.part("tool", f"prt_{call}", message, tool=tool, callID=call, state=state)

    def error(self, name: str) -> list[g.Signal]:
        failed = {"name": name, "data": {"message": "secret"}}
        return self.tell(event("session.error", sessionID=self.session, error=failed))

    def permission(self, request: str = "per_1", **more: Any) -> list[g.Signal]:
        told = {"id": request, "permission": "bash", "tool": {"messageID": "msg_1a"}} | more
        return self.tell(event("permission.asked", sessionID=self.session, **told))

    def working(self) -> Stream:
        """A created session whose first turn runs."""
        self.created()
        self.asked()
        self.busy()
        self.answer()
        return self


def does(signals: list[g.Signal]) -> bool:
    """Whether any of them is work."""
    return any(isinstance(signal, DOES) for signal in signals)
