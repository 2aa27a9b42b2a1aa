"""One OpenCode server over HTTP, asked with every bound on.

The other end may be hung, gone, behind a proxy or something else altogether. Answers are read up
to a limit, never redirected, never unpacked; whatever is wrong is a `SourceDown` without content.
"""

from __future__ import annotations

import base64
import ssl
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from sidecar.agent import SourceDown
from sidecar.agents.opencode import records as r
from sidecar.sources.records import mending
from sidecar.sources.unanswered import unanswered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from typing import TypeVar

    from sidecar.agents.opencode.settings import Settings

    T = TypeVar("T")

MAX_ANSWER: Final = 8 << 20
"""Bytes of one answer: a thousand sessions are one megabyte, a message with its tools' output a few."""

MAX_PASSWORD: Final = 4096
OK: Final = 200
MULTIPLE_CHOICES: Final = 300
BAD_REQUEST: Final = 400
UNAUTHORIZED: Final = 401
NOT_FOUND: Final = 404


class Refused(SourceDown):
    """The server answers, but not this."""


class Server:
    """Requests to one server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def get(
        self,
        decode: Callable[[bytes], T],
        *path: str,
        directory: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> T | None:
        """What is there; None where there is no such thing. Raises SourceDown."""
        async with self.request("GET", *path, directory=directory, query=query) as answer:
            if answer.status == NOT_FOUND:
                return None
            check(answer.status)
            body = await _body_of(answer)
        try:
            return mending(decode, body)
        except r.ERRORS as error:
            raise SourceDown("its answer is not what this endpoint gives") from error

    async def order(self, method: str, *path: str, directory: str | None, body: object = None) -> int:
        """Ask for something to be done; gives the status. Raises SourceDown."""
        options: dict[str, Any] = {} if body is None else {"json": body}
        async with self.request(method, *path, directory=directory, **options) as answer:
            return answer.status

    @asynccontextmanager
    async def request(
        self,
        method: str,
        *path: str,
        directory: str | None = None,
        query: Mapping[str, str] | None = None,
        **options: Any,  # noqa: ANN401 - aiohttp's own
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An open answer; everything that can go wrong with it is SourceDown."""
        try:
            headers = {"Accept-Encoding": "identity"} | self._authorization()
            if directory is not None:
                headers["x-opencode-directory"] = quote(directory, safe="/")
            options = {"timeout": aiohttp.ClientTimeout(total=self.settings.timeout)} | options
            async with (
                aiohttp.ClientSession(
                    connector=self._connector(), auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
                ) as http,
                http.request(
                    method, self._url(path, query), headers=headers, allow_redirects=False, **options
                ) as answer,
            ):
                yield answer
        except TimeoutError as error:
            raise SourceDown("it did not answer in time") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SourceDown(unanswered(error)) from error

    def _url(self, path: tuple[str, ...], query: Mapping[str, str] | None) -> URL:
        """Ids are data, down to the dots."""
        base = "http://opencode" if self.settings.url.startswith("unix:") else self.settings.url
        parts = [quote(part, safe="").replace(".", "%2E") for part in path]
        return URL("/".join([base, *parts]), encoded=True).with_query(query)

    def _connector(self) -> aiohttp.BaseConnector:
        settings = self.settings
        if settings.url.startswith("unix:"):
            return aiohttp.UnixConnector(settings.url.removeprefix("unix:"))
        if not settings.url.startswith("https:"):
            return aiohttp.TCPConnector()
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.client_cert_file is not None:
            context.load_cert_chain(settings.client_cert_file, settings.client_key_file)
        return aiohttp.TCPConnector(ssl=context)

    def _authorization(self) -> dict[str, str]:
        if self.settings.password_file is None:
            return {}
        try:
            with Path(self.settings.password_file).open("rb") as file:
                password = file.read(MAX_PASSWORD).rstrip(b"\r\n")
        except OSError as error:
            raise SourceDown("the password file cannot be read") from error
        pair = self.settings.username.encode() + b":" + password
        return {"Authorization": "Basic " + base64.b64encode(pair).decode()}


def check(status: int) -> None:
    """Raise Refused for any status but success."""
    if status == UNAUTHORIZED:
        raise Refused("HTTP 401: it wants another user or password")
    if MULTIPLE_CHOICES <= status < BAD_REQUEST:
        raise Refused(f"HTTP {status}: it sends elsewhere")
    if status != OK:
        raise Refused(f"HTTP {status}")


async def _body_of(answer: aiohttp.ClientResponse) -> bytes:
    """The body, whole and bounded."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > MAX_ANSWER:
            raise SourceDown("its answer is too large")
    return bytes(body)
