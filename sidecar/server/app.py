"""The HTTP API: what is asked by which path, and what is answered.

Reading needs no token, since it shows ids, states and numbers, never content; ending something
does, and without a token file those two routes do not exist at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Struct

from sidecar.server import answers, guard
from sidecar.server.page import Page
from sidecar.server.ports import Ask, Done, Sessions, Shown, Vitals
from sidecar.server.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sidecar.signals import ActOutcome

    Next = Callable[[web.Request], Awaitable[web.StreamResponse]]

LARGEST_BODY: Final = 4096
LONGEST_REASON: Final = 200

STATUS: Final[dict[ActOutcome, int]] = {
    "effective": 200,
    "ineffective": 504,
    "failed": 502,
    "superseded": 409,
    "unsupported": 501,
    "observed": 200,
    "reported": 200,
    "held": 503,
}
"""How the outcome of a request reads in HTTP; the body names it."""


log = logging.getLogger("sidecar.server")


class Options(Struct, frozen=True):
    """What of the configuration the API needs."""

    listen: str
    allowed_hosts: Sequence[str] = ()
    token_file: str | None = None


class Wish(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request to end something."""

    reason: str = ""
    force: bool = False


class Api:
    """The handlers."""

    def __init__(self, sessions: Sessions, vitals: Vitals, options: Options) -> None:
        self._sessions = sessions
        self._vitals = vitals
        self._hosts = guard.Hosts(options.listen, options.allowed_hosts)
        self._token_file = None if options.token_file is None else Path(options.token_file)
        self._page = Page()
        self._streams = Streams(sessions)
        self._asked: set[asyncio.Task[Done]] = set()

    def app(self) -> web.Application:
        """Every route."""
        app = web.Application(middlewares=[self._guarded], client_max_size=LARGEST_BODY)
        app.on_response_prepare.append(_headers)
        app.on_shutdown.append(lambda _: self._streams.close())
        app.add_routes(
            [
                web.get("/", self._page.serve),
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/api/sessions", self._list),
                web.get("/api/sessions/{id}", self._one),
                web.get("/api/events", self._streams.serve, allow_head=False),
            ]
        )
        if self._token_file is not None:
            app.router.add_post("/api/sessions/{id}/{action:interrupt|reap}", self._end)
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Next) -> web.StreamResponse:
        """Refuse foreign names, and say errors in JSON."""
        if not self._hosts.allow(request.headers.get("Host")):
            wrong = "this Host is not allowed; `allowed_hosts` in the configuration can name it"
            return _web(answers.said(403, {"error": wrong}))
        try:
            return await handler(request)
        except web.HTTPException as error:
            headers = {
                name: error.headers[name] for name in ("Allow", "Retry-After") if name in error.headers
            }
            return _web(answers.said(error.status, {"error": error.reason}), headers)
        except Exception:
            log.exception("a request could not be answered")
            return _web(answers.said(500, {"error": "internal error; see the log"}))

    async def _metrics(self, request: web.Request) -> web.Response:
        return _web(answers.metrics(self._vitals, request.headers.get("Accept", "")))

    async def _healthz(self, _: web.Request) -> web.Response:
        return _web(answers.alive(self._vitals))

    async def _readyz(self, _: web.Request) -> web.Response:
        return _web(answers.ready(self._vitals))

    async def _list(self, _: web.Request) -> web.Response:
        return _web(answers.said(200, {"sessions": list(self._sessions.sessions())}))

    async def _one(self, request: web.Request) -> web.Response:
        found = self._found(request)
        if isinstance(found, web.Response):
            return found
        if request.query.get("explain", "0") not in ("0", "false"):
            found = found | {"explain": self._sessions.explain(found["agent"], found["session"])}
        return _web(answers.said(200, found))

    def _found(self, request: web.Request) -> Shown | web.Response:
        """The session that a path names, or why there is not exactly one."""
        found = self._sessions.session(request.match_info["id"], request.query.get("agent"))
        if not found:
            return _web(answers.said(404, {"error": "there is no such session"}))
        if len(found) > 1:
            wrong = "several agents use this id; choose one with ?agent="
            return _web(answers.said(409, {"error": wrong, "candidates": [s["agent"] for s in found]}))
        return found[0]

    async def _end(self, request: web.Request) -> web.Response:
        refused = await self._unauthorized(request)
        if refused is not None:
            return refused
        body = await request.read()
        try:
            wish = msgspec.json.decode(body, type=Wish) if body.strip() else Wish()
        except msgspec.MsgspecError as error:
            return _web(answers.said(400, {"error": f"the body is not as expected: {error}"}))
        found = self._found(request)
        if isinstance(found, web.Response):
            return found
        ask = Ask(found["agent"], found["session"], _action(request), _one_line(wish.reason), wish.force)
        # Its own task: a client that leaves, or a server that stops, must not cut an act in two.
        task = asyncio.ensure_future(self._sessions.ask(ask))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        done = await asyncio.shield(task)
        return _web(answers.said(STATUS[done.outcome], done))

    async def _unauthorized(self, request: web.Request) -> web.Response | None:
        assert self._token_file is not None  # noqa: S101 - without one the route does not exist
        try:
            token = await asyncio.to_thread(guard.read_token, self._token_file)
        except guard.TokenUnreadableError as error:
            return _web(answers.said(503, {"error": str(error)}))
        if guard.bearer(request.headers.get("Authorization"), token):
            return None
        challenge = {"WWW-Authenticate": 'Bearer realm="agent-sidecar"'}
        return _web(answers.said(401, {"error": "a bearer token is needed"}), challenge)


def _action(request: web.Request) -> Literal["interrupt", "reap"]:
    return "reap" if request.match_info["action"] == "reap" else "interrupt"


def _one_line(reason: str) -> str:
    """A person's reason as one printable line: it goes to logs and terminals."""
    clean = "".join(c if c.isprintable() else " " for c in reason)
    return " ".join(clean.split())[:LONGEST_REASON]


def _web(answer: answers.Answer, headers: dict[str, str] | None = None) -> web.Response:
    # As a header, since aiohttp takes apart the content type it is given and Prometheus' has more parts.
    named = {"Content-Type": answer.type} | (headers or {})
    return web.Response(status=answer.status, body=answer.body, headers=named)


async def _headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in guard.HEADERS.items():
        if name == "Server" or name not in response.headers:
            response.headers[name] = value
