"""One server, asked with every bound on: the other end may be hung, hostile or something else.

Answers are read up to a limit and in time, never redirected, never unpacked. Whatever is wrong is a
`SourceDown` that says what, without content; an error page is no listing.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import msgspec
from yarl import URL

from sidecar.agent import SourceDown
from sidecar.sources.records import mending
from sidecar.sources.sse import Cutter, Sent
from sidecar.sources.unanswered import unanswered

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from sidecar.agents.http.settings import Settings

MAX_ANSWER: Final = 1 << 20
"""Bytes of one answer: a thousand entries are a quarter of that."""

MAX_EVENT: Final = 1 << 20
"""Bytes of one event: whole tool outputs travel in them."""

MAX_TOKEN: Final = 4096

OK: Final = 200
MULTIPLE_CHOICES: Final = 300
BAD_REQUEST: Final = 400
GONE: Final = (404, 410)


class Missing(SourceDown):
    """The server knows no such thing."""


class Unsent(SourceDown):
    """The request did not leave: nothing can have come of it."""


class Server:
    """Requests to one server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.dated: float | None = None
        """What the server's clock said with its newest answer, where it said so; whole seconds."""
        self._made: tuple[tuple[int, ...], ssl.SSLContext] | None = None

    async def get(self, path: str) -> Any:  # noqa: ANN401 - JSON is anything
        """The JSON that is there. Raises SourceDown."""
        async with self._request("GET", path) as answer:
            _check(answer.status)
            self.dated = _moment(answer.headers.get("Date"))
            body = bytearray()
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise SourceDown("its answer is too large")
        try:
            return mending(msgspec.json.decode, bytes(body))
        except (ValueError, RecursionError) as error:
            raise SourceDown("its answer is no JSON") from error

    async def order(
        self, method: str, path: str, headers: Mapping[str, str], body: str | None, deadline: float
    ) -> int:
        """Ask for something to be done; gives the status. Raises SourceDown."""
        options: dict[str, Any] = {"timeout": aiohttp.ClientTimeout(total=deadline)}
        if body is not None:
            options["data"] = body.encode()
            headers = {"Content-Type": "application/json"} | dict(headers)
        async with self._request(method, path, headers, **options) as answer:
            return answer.status

    async def events(self, path: str, silence: float, after: str | None = None) -> AsyncGenerator[Sent, None]:
        """Nothing once the stream is there, then each server-sent event that says something.

        `after`: the id of the event that the server is to go on from; None: from now on.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.settings.timeout, sock_read=silence)
        headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": after})
        async with self._request("GET", path, headers, timeout=timeout) as answer:
            _check(answer.status)
            if answer.content_type != "text/event-stream":
                raise SourceDown("its answer is no event stream")
            yield Sent(b"", after)
            cutter = Cutter(MAX_EVENT, SourceDown, after)
            async for chunk in answer.content.iter_any():
                for sent in cutter.feed(chunk):
                    if sent.data:
                        yield sent

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        **options: Any,  # noqa: ANN401 - aiohttp's own
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An open answer; everything that can go wrong with it is SourceDown."""
        settings = self.settings
        base = "http://server" if settings.url.startswith("unix:") else settings.url
        options = {"timeout": aiohttp.ClientTimeout(total=settings.timeout)} | options
        try:
            async with (
                aiohttp.ClientSession(
                    connector=self._connector(), auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
                ) as http,
                http.request(
                    method,
                    URL(base + path, encoded=True),
                    headers={"Accept-Encoding": "identity"} | dict(headers or {}) | self._token(),
                    allow_redirects=False,
                    **options,
                ) as answer,
            ):
                yield answer
        except TimeoutError as error:
            raise SourceDown("it did not answer in time") from error
        except aiohttp.ClientConnectorError as error:
            raise Unsent(unanswered(error)) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SourceDown(unanswered(error)) from error

    def _connector(self) -> aiohttp.BaseConnector:
        settings = self.settings
        if settings.url.startswith("unix:"):
            return aiohttp.UnixConnector(settings.url.removeprefix("unix:"))
        if not settings.url.startswith("https:"):
            return aiohttp.TCPConnector()
        try:
            return aiohttp.TCPConnector(ssl=self._context())
        except (OSError, ValueError) as error:
            raise Unsent("its certificate files cannot be read") from error

    def _context(self) -> ssl.SSLContext:
        """Made anew when a file changes: certificates are renewed under a running sidecar."""
        settings = self.settings
        files = (settings.ca_file, settings.client_cert_file, settings.client_key_file)
        stamps = tuple(Path(file).stat().st_mtime_ns for file in files if file is not None)
        if self._made is None or self._made[0] != stamps:
            context = ssl.create_default_context(cafile=settings.ca_file)
            if settings.client_cert_file is not None:
                context.load_cert_chain(settings.client_cert_file, settings.client_key_file)
            self._made = stamps, context
        return self._made[1]

    def _token(self) -> dict[str, str]:
        name, file = self.settings.token_header, self.settings.token_file
        if file is None:
            return {}
        try:
            with Path(file).open("rb") as opened:
                token = opened.read(MAX_TOKEN).strip().decode("ascii")
        except (OSError, ValueError) as error:
            raise Unsent("the token file cannot be read") from error
        if not token.isprintable():
            raise Unsent("the token file holds more than one line")
        return {name: f"Bearer {token}" if name.lower() == "authorization" else token}


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is gone, whatever it came to."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _moment(date: str | None) -> float | None:
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None


def _check(status: int) -> None:
    if status in GONE:
        raise Missing(f"HTTP {status}")
    if MULTIPLE_CHOICES <= status < BAD_REQUEST:
        raise SourceDown(f"HTTP {status}: it sends elsewhere")
    if status != OK:
        raise SourceDown(f"HTTP {status}")
