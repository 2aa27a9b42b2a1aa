"""The Agent Control API as its client: what a host or a box says, asked for with every bound on.

The other end is whoever owns the agent, and may be old, hung, gone or something else altogether.
Answers are read up to a limit, never redirected, never unpacked, and whatever is wrong with an
endpoint is an `Unreachable` with a name, for one endpoint of many. Longer than other modules: the shapes of
the API stand beside what reads them, so that a field and its bounds are found in one place.
"""

from __future__ import annotations

import errno
import glob
import os
import stat
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import Struct, structs
from yarl import URL

from sidecar.clock import parse
from sidecar.config_units import FilePath, Seconds, Url
from sidecar.sources.records import mending
from sidecar.sources.unanswered import unanswered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_ANSWER: Final = 1 << 20
GONE: Final = (errno.ENOENT, errno.ECONNREFUSED)
MAX_SOCKETS: Final = 256
MAX_TOKEN: Final = 4096
LONGEST_ID: Final = 256
"""Characters of the id of a session, turn or call; what is longer is none: all that we show carries it."""
MOST_TOOLS: Final = 100
"""Open calls of one session that are kept; agents run a handful at once."""
MENDED: Final = "\ufffd"
"""Where half a character was: an id that has one may be that of several."""
OK: Final = 200
HEADERS: Final = {"Accept-Encoding": "identity"}


WAITS: Final = frozenset(("permission prompt", "input needed", "permission", "question", "dialog"))
"""What a box may be said to wait for."""


class Settings(Struct, frozen=True, kw_only=True):
    """Where the agents' hosts listen."""

    url: Url
    """`unix:/run/agent/*.sock` for hosts with a session each: every socket that the pattern finds
    is asked, and their session ids decide. Or `http://127.0.0.1:PORT` for a box. Required."""

    token_file: FilePath | None = None
    """A file with the bearer token, read at every request. Off: none is sent, the usual case for
    a socket, which checks who connects."""

    timeout: Seconds = 5.0
    """How long one request may take. 5s: a host answers within milliseconds, and one that hangs
    must not hold up the others."""


class Can(Struct, frozen=True):
    """What the host can do to the session; what it does not say is found out by asking for it."""

    interrupt: bool = True
    reap: bool = True


class Verdict(Struct, frozen=True):
    """The last order that a host or box was given, as it tells it."""

    at: str | float | None = None
    action: str | None = None
    reason: str | None = None


class Hosted(Struct, frozen=True):
    """A session as its host sees it."""

    id: str
    turn: str | None = None
    """The host's own name for the turn that runs; opaque, and to be sent back as it is."""
    status: str = "busy"
    waiting_for: str | None = None
    attended: bool | None = None
    resolution: Literal["record", "delta"] | None = None
    created_at: str | float | None = None
    last_activity_at: str | float | None = None
    pid: int | None = None
    can: Can = Can()
    last_verdict: Verdict | None = None
    tools: dict[str, str] = {}
    """Open tool calls by id, with the tool's name; not every box tells."""

    @property
    def works(self) -> bool:
        """Whether anything would be lost; a word that nobody knows is no idleness."""
        return self.turn is not None or self.status != "idle"

    @property
    def waits(self) -> str | None:
        """What it waits for, where it does; words that could be content are not repeated."""
        if self.status != "waiting" or self.waiting_for is None:
            return None
        return self.waiting_for if self.waiting_for in WAITS else "something else"

    @property
    def active_at(self) -> float | None:
        """The host's newest progress, wall-clock."""
        return wall(self.last_activity_at)


class Unreachable(Exception):  # noqa: N818 - it says what happened; no caller has erred
    """An endpoint does not answer as it should; the text says how, without content."""


class Vacant(Unreachable):
    """Nobody listens at a socket: its host has ended, and took its session along."""


class _Listed(Struct):
    sessions: list[msgspec.Raw]


_LISTED: Final = msgspec.json.Decoder(_Listed).decode
_HOSTED: Final = msgspec.json.Decoder(Hosted).decode


def wall(stamp: str | float | None) -> float | None:
    """A stamp as epoch seconds, however it is written."""
    return parse(stamp) if isinstance(stamp, str) else stamp


def endpoints(settings: Settings) -> list[str]:
    """Where hosts listen now."""
    pattern = settings.url.removeprefix("unix:")
    if pattern == settings.url:
        return [settings.url]
    found = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]  # noqa: PTH207 - absolute
    return [f"unix:{path}" for path in found if _is_socket(path) or path == pattern][:MAX_SOCKETS]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116 - of what glob found
    except OSError:
        return False


def target(endpoint: str, *path: str) -> URL:
    """The URL of a resource; ids are data, down to the dots."""
    base = "http://host" if endpoint.startswith("unix:") else endpoint
    parts = [quote(part, safe="").replace(".", "%2E") for part in path]
    return URL("/".join([base, "v1", *parts]), encoded=True)


@asynccontextmanager
async def request(
    settings: Settings,
    endpoint: str,
    method: str,
    url: URL,
    **options: Any,  # noqa: ANN401
) -> AsyncIterator[aiohttp.ClientResponse]:
    """An open answer; everything that can go wrong with it is Unreachable."""
    try:
        headers = HEADERS | _authorization(settings)
        socket = endpoint.removeprefix("unix:") if endpoint.startswith("unix:") else None
        connector = aiohttp.UnixConnector(socket) if socket else aiohttp.TCPConnector()
        options = {"timeout": aiohttp.ClientTimeout(total=settings.timeout)} | options
        async with (
            aiohttp.ClientSession(
                connector=connector, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as http,
            http.request(method, url, headers=headers, allow_redirects=False, **options) as answer,
        ):
            yield answer
    except TimeoutError as error:
        raise Unreachable("it did not answer in time") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in GONE and endpoint.startswith("unix:"):
            raise Vacant(unanswered(error)) from error
        raise Unreachable(unanswered(error)) from error


def _authorization(settings: Settings) -> dict[str, str]:
    if settings.token_file is None:
        return {}
    try:
        with Path(settings.token_file).open("rb") as file:
            token = file.read(MAX_TOKEN).strip().decode("ascii")
    except (OSError, ValueError) as error:
        raise Unreachable("the token file cannot be read") from error
    return {"Authorization": f"Bearer {token}"}


async def body_of(answer: aiohttp.ClientResponse) -> bytes:
    """The body, whole and bounded."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > MAX_ANSWER:
            raise Unreachable("its answer is too large")
    return bytes(body)


class Answered(NamedTuple):
    """The sessions of one endpoint, and how many entries of its list made no sense: they may be any."""

    sessions: list[Hosted]
    odd: int
    why: str = ""
    """What is wrong with the first of them: the place and what belongs there, never what stood there."""


async def listed(settings: Settings, endpoint: str) -> Answered:
    """What one endpoint lists. Raises Unreachable."""
    async with request(settings, endpoint, "GET", target(endpoint, "sessions")) as answer:
        if answer.status != OK:
            raise Unreachable(f"HTTP {answer.status}")
        body = await body_of(answer)
    try:
        entries = mending(_LISTED, body).sessions
    except (ValueError, RecursionError) as error:
        raise Unreachable("its answer is no listing") from error
    told = [(entry, decoded(entry)) for entry in entries]
    sessions = [hosted for _, hosted in told if hosted is not None]
    odd = next((entry for entry, hosted in told if hosted is None), None)
    return Answered(sessions, len(entries) - len(sessions), "" if odd is None else wrong(odd))


def wrong(entry: bytes | msgspec.Raw) -> str:
    """What keeps an entry from being a session object."""
    try:
        mending(_HOSTED, bytes(entry))
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$.")
        belongs = "no word of the description" if text.startswith("Invalid enum") else text
        return f"{place.rstrip('`')}: {belongs}" if place else text
    except (ValueError, RecursionError):
        return "no JSON"
    return f"id, turn: of 1 to {LONGEST_ID} whole characters"


def decoded(entry: bytes | msgspec.Raw) -> Hosted | None:
    """A session object; None where it is none."""
    try:
        hosted = mending(_HOSTED, bytes(entry))
    except (ValueError, RecursionError):
        return None
    named = 0 < len(hosted.id) <= LONGEST_ID and MENDED not in hosted.id
    if not named or len(hosted.turn or "") > LONGEST_ID:
        return None
    told = ((call, tool) for call, tool in hosted.tools.items() if len(call) <= LONGEST_ID)
    return structs.replace(hosted, tools=dict(islice(told, MOST_TOOLS))) if hosted.tools else hosted


async def ordered(settings: Settings, endpoint: str, url: URL, order: dict[str, object]) -> int:
    """The status with which an order is answered."""
    async with request(settings, endpoint, "POST", url, json=order) as answer:
        return answer.status
