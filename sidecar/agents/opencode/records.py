"""The fields of OpenCode's events and answers that say what it does; nothing else is decoded.

Content is never materialised: texts stay undecoded bytes, of which only the length matters. Ids
and stamps are declared as loosely as they are written. A little longer than most: it is one table.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct, field

NOTHING: Final = Raw(b"")


class Time(Struct):
    """Stamps in epoch milliseconds, by the server's clock."""

    created: float | None = None
    updated: float | None = None
    completed: float | None = None
    archived: float | None = None
    start: float | None = None
    end: float | None = None


class Failure(Struct):
    """Why a message failed; its text is content."""

    name: str = ""
    data: Raw = NOTHING

    @property
    def aborted(self) -> bool:
        """Whether somebody ended it."""
        return self.name == "MessageAbortedError"

    @property
    def guarded(self) -> bool:
        """Whether redcode's own guard did: what a person or an act of ours ends says `Aborted`."""
        return self.aborted and b'"stopped: ' in bytes(memoryview(self.data)[:200])


class Info(Struct):
    """A session or a message: events and answers carry both under the same name."""

    id: str = ""
    role: str | None = None
    session_id: str | None = field(default=None, name="sessionID")
    parent_id: str | None = field(default=None, name="parentID")
    directory: str | None = None
    version: str | None = None
    time: Time = field(default_factory=Time)
    error: Failure | None = None
    finish: str | None = None
    model_id: str | None = field(default=None, name="modelID")
    mode: str | None = None
    summary: Raw = NOTHING


class State(Struct):
    """Where a tool call stands."""

    status: str = ""
    time: Time | None = None
    metadata: Raw = NOTHING


class Cache(Struct):
    """Tokens that the provider remembered."""

    read: float = 0
    write: float = 0


class Tokens(Struct):
    """Tokens of one step."""

    input: float = 0
    output: float = 0
    reasoning: float = 0
    cache: Cache = field(default_factory=Cache)


class Part(Struct):
    """A piece of a message: text, reasoning, a tool call, the end of a step."""

    id: str = ""
    type: str = ""
    message_id: str = field(default="", name="messageID")
    text: Raw = NOTHING
    time: Time | None = None
    synthetic: bool | None = None
    tool: str | None = None
    call_id: str | None = field(default=None, name="callID")
    state: State | None = None
    tokens: Tokens | None = None


class Word(Struct):
    """What the server says of a session. `phase`, `tool` and `since` are redcode's."""

    type: str = ""
    attempt: float | None = None
    message: Raw = NOTHING
    next: float | None = None
    phase: str | None = None
    tool: str | None = None
    since: float | str | None = None


class Call(Struct):
    """The tool call that a request for a permission belongs to."""

    message_id: str | None = field(default=None, name="messageID")


class Request(Struct):
    """A pending permission or question, and what an event says of one."""

    id: str = ""
    session_id: str = field(default="", name="sessionID")
    request_id: str | None = field(default=None, name="requestID")
    permission: str | None = None
    tool: Call | None = None


class Guard(Struct):
    """What redcode's own guard did; its sentence ends with the time of the end where it will end it."""

    session_id: str = field(default="", name="sessionID")
    guard: str = ""
    action: str = ""
    detail: Raw = NOTHING


class Told(Struct):
    """What the other events carry."""

    session_id: str = field(default="", name="sessionID")
    info: Info | None = None
    part: Part | None = None
    message_id: str = field(default="", name="messageID")
    part_id: str = field(default="", name="partID")
    delta: Raw = NOTHING
    status: Word | None = None
    error: Failure | None = None


class Message(Struct):
    """A message as the server keeps it."""

    info: Info
    parts: list[Part] = []


class Health(Struct):
    """The server of itself."""

    healthy: bool
    """Required: what does not say so is no such server."""
    version: str | None = None


class Event(Struct):
    """An event; what it is about stands under `properties`, in later servers under `data`."""

    type: str = ""
    properties: Raw = NOTHING
    data: Raw = NOTHING
    directory: str | None = None
    payload: Event | None = None
    """The event itself, where the stream is the one of all directories."""

    @property
    def body(self) -> Raw:
        """What it is about, wherever it stands."""
        return self.properties if memoryview(self.properties) else self.data


def length(text: Raw) -> int:
    """How long a text is, as written (JSON-escaped); of anything else nothing."""
    written = memoryview(text)
    return len(written) - 2 if len(written) > 1 and written[0] == ord('"') else 0


ERRORS: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What any decoder may throw at a damaged or foreign answer."""

event = msgspec.json.Decoder(Event).decode
told = msgspec.json.Decoder(Told).decode
request = msgspec.json.Decoder(Request).decode
guard = msgspec.json.Decoder(Guard).decode
words = msgspec.json.Decoder(dict[str, Word]).decode
requests = msgspec.json.Decoder(list[Request]).decode
infos = msgspec.json.Decoder(list[Info]).decode
info = msgspec.json.Decoder(Info).decode
messages = msgspec.json.Decoder(list[Message]).decode
health = msgspec.json.Decoder(Health).decode
message = msgspec.json.Decoder(Message).decode
