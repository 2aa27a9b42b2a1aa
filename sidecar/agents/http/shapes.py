"""Templates as the configuration writes them: requests, and where the answers say what."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from sidecar.agents.http.paths import steps
from sidecar.agents.http.template import body_of, checked_path
from sidecar.config_units import Seconds

Codes = tuple[Annotated[int, Meta(ge=100, le=599)], ...]

State = Literal["busy", "idle", "waiting", "background", "ended"]
"""`ended`: the session is over, whether or not it is still listed."""

FORBIDDEN: Final = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding")


class Fields(Struct, frozen=True, kw_only=True):
    """Where an entry says what, as paths from the entry."""

    id: str | None = None
    """The session's id, a text or a number."""

    status: str | None = None
    """The agent's word for its state, translated by `words`. Off: nothing says what it does."""

    words: dict[str, State] = {}
    """What each word means; a word that is not here is taken for busy, which ends nothing. True and
    false are the words `true` and `false`."""

    waiting: dict[str, str] = {}
    """Paths that are true while somebody is waited for, each with the name of what for."""

    created: str | None = None
    """When the session was made: ISO 8601, or seconds or milliseconds since 1970. Off: first sight."""

    last_activity: str | None = None
    """When something last happened in it. What idles is counted from there."""

    done: str | None = None
    """True once the session's process has ended."""

    parent: str | None = None
    """The session that this one works for."""

    background: str | None = None
    """True while something still runs in the background of a session that is otherwise idle."""

    live: str | None = None
    """A path that only sessions that run have: entries without it are of the past, and left out."""

    def __post_init__(self) -> None:
        """Every path has to be one."""
        told = (self.id, self.status, self.created, self.last_activity)
        for path in (*told, self.done, self.parent, self.background, self.live, *self.waiting):
            if path is not None:
                steps(path)


class Listing(Fields, frozen=True, kw_only=True):
    """The request that lists the sessions."""

    path: str
    """What is asked for, with GET; `{directory}` in it is percent-encoded. Required."""

    items: str = "[]"
    """The list of entries in the answer, or the one entry; `groups[].sessions[]` takes those of every
    group. `[]`: the answer is the list."""

    single: str | None = None
    """The name of the only session, where entries have no id."""

    next: str | None = None
    """Where the answer says that there is another page. Off: it is always whole."""

    cursor: str = "cursor"
    """The query parameter that asks for that page."""

    limit: str | None = None
    """Where the answer tells how many sessions there may be. Off: it does not."""

    def __post_init__(self) -> None:
        """Paths are paths, and entries have a name."""
        Fields.__post_init__(self)
        checked_path(self.path)
        for path in (self.items, self.next, self.limit):
            if path is not None:
                steps(path)
        if (self.id is None) == (self.single is None):
            raise ValueError("needs either id, the path of a session's id, or single, the only one's name")


class StatusOf(Fields, frozen=True, kw_only=True):
    """The request that tells of one session what the listing does not."""

    path: str
    """What is asked for, with GET and the session's `{id}` in it. Required."""

    def __post_init__(self) -> None:
        """Without the id every session would be the same."""
        Fields.__post_init__(self)
        if "{id}" not in checked_path(self.path):
            raise ValueError("path has no {id} in it")


class Capacity(Struct, frozen=True, kw_only=True):
    """The request that tells how many sessions there may be, where no listing does."""

    path: str
    """What is asked for, with GET. Required."""

    limit: str
    """Where the answer tells the number. Required."""

    def __post_init__(self) -> None:
        """Nothing stands for anything in it."""
        checked_path(self.path)
        steps(self.limit)


class Call(Struct, frozen=True, kw_only=True):
    """A request that ends something. `{id}`, `{turn}` and `{reason}` stand for what they say."""

    method: Literal["POST", "PUT", "PATCH", "DELETE"] = "POST"
    """How it is asked. POST, as most are; a GET ends nothing."""

    path: str
    """What is asked for; what stands in it is percent-encoded. Required."""

    headers: dict[str, str] = {}
    """Headers beside the token."""

    body: str | None = None
    """The body, as JSON; what stands in its texts is escaped. Off: none."""

    success: Codes = (200, 202, 204)
    """The answers that mean yes; the effect is looked for afterwards."""

    gone: Codes = (404, 410)
    """The answers that mean that there is no such session any more."""

    busy: Codes = (409, 423)
    """The answers that mean that it works again: it is left alone."""

    when: dict[str, str] = {}
    """Paths into its entry with the value that each must have, else it is not asked at all."""

    deadline: Seconds = 15.0
    """How long the answer may take. 15s: some answer only when all is torn down."""

    rest: Seconds = 60.0
    """How long nothing more is asked of a session after a call without an answer: it may still be
    at work there, and a second one beside it can do harm."""

    def __post_init__(self) -> None:
        """Templates are checked before they are needed, which is at night."""
        checked_path(self.path)
        if self.body is not None and not _is_json(body_of(self.body, {"id": '"', "reason": "\n"})):
            raise ValueError("body is no JSON")
        for name, value in self.headers.items():
            odd = not name.isascii() or not value.isprintable() or ":" in name or not name.isprintable()
            if odd or name.lower() in FORBIDDEN:
                raise ValueError(f"headers: {name!r} cannot be set")
        for path in self.when:
            steps(path)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
