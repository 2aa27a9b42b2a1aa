"""What the configuration says of a stream of events: where it is, and what its events mean."""

from __future__ import annotations

from msgspec import Struct

from sidecar.agents.http.paths import steps
from sidecar.agents.http.template import checked_path
from sidecar.config_units import Seconds
from sidecar.signals import Outcome


class Events(Struct, frozen=True, kw_only=True):
    """A stream of server-sent events of one session, listened to only while it is busy."""

    path: str
    """What is asked for, with GET and the session's `{id}` in it. Required."""

    listen: bool = True
    """Whether to listen at all. False where the stream has a single consumer, as long as that is
    somebody else: it then serves for recordings only."""

    replayed: str | None = None
    """The type that says that everything that was kept has been sent again. The server is then asked
    with `Last-Event-ID`: first for all that it kept, later for what was missed. Off: it keeps nothing."""

    stamp: str | None = None
    """When an event happened: ISO 8601, or seconds or milliseconds since 1970. What is sent again
    counts from then. Off: everything counts at its arrival."""

    session: str | None = None
    """Where an event names its session. Only recordings need it."""

    type: tuple[str, ...] = ("type",)
    """Where an event says what it is: the first path that leads somewhere."""

    turn: str | None = None
    """Where an event names its turn. Off: a turn is named by the time of its first work that was heard, so
    that what works on after a restart of the sidecar is a new one to it."""

    turn_started: tuple[str, ...] = ()
    """The types that open a turn, such as the prompt told again. None: its first work does."""

    progress: tuple[str, ...] = ()
    """The types that are work done. All others are presence, unless named below."""

    tool_started: tuple[str, ...] = ()
    """The types that say that a tool runs."""

    tool_start: str | None = None
    """Where only a tool's start leads, of the types that tell its end, too. Off: any that is no end."""

    tool_prepared: dict[str, str] = {}
    """Paths with the value that each has while the model still writes what a tool is to be called with:
    that is work of the model's, and no tool runs yet. None: one runs from its first word on."""

    tool_ended: tuple[str, ...] = ()
    """The types that say that it has ended, or what has become of it: see `tool_state`."""

    call: tuple[str, ...] = ("call",)
    """Where they name the call."""

    tool: tuple[str, ...] = ("tool",)
    """Where they name the tool."""

    tool_state: str | None = None
    """Where they tell the tool's state, if one type tells all of them. Off: the type says it."""

    tool_over: tuple[str, ...] = ("completed", "failed")
    """The states in which it has ended."""

    ends: dict[str, Outcome] = {}
    """The types that end a turn, each with how."""

    outcome: str | None = None
    """Where an end says how the turn ended, where `outcomes` has a word for it. Off: by its type."""

    outcomes: dict[str, Outcome] = {}
    """What those words mean."""

    silence: Seconds = 60.0
    """Without a byte for this long the stream is dead. 60s: servers send a comment every 15 to 30 s."""

    def __post_init__(self) -> None:
        """Every path has to be one."""
        if "{id}" not in checked_path(self.path):
            raise ValueError("path has no {id} in it")
        named = (self.tool_state, self.tool_start, self.stamp, self.session, self.turn, self.outcome)
        for path in (*self.type, *self.call, *self.tool, *self.tool_prepared, *named):
            if path is not None:
                steps(path)
