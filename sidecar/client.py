"""Talking to the running sidecar: what the commands that look and ask are made of.

Standard library only, so that `agent-sidecar sessions` answers at once.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

TIMEOUT: Final = 10.0
"""Seconds for a question; a request to end something waits for its effect instead."""

ACT_TIMEOUT: Final = 120.0

NO_ROUTE: Final = "Not Found"
"""What the server says of a path that it does not serve, as opposed to a session it does not have."""

LARGEST: Final = 64 << 20


class Unanswered(Exception):  # noqa: N818 - it says what happened
    """The sidecar cannot be asked, or refused; the text says why."""


class Client:
    """One sidecar's API."""

    def __init__(self, address: str, token_file: str | None = None) -> None:
        """`address` is HOST:PORT or a URL."""
        parts = urlsplit(address if "://" in address else f"http://{address}")
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or 9475
        self._host = "127.0.0.1" if self._host in ("0.0.0.0", "::") else self._host  # noqa: S104 - asked, not bound
        self._token_file = token_file

    def sessions(self) -> list[dict[str, Any]]:
        """Every session that is listed."""
        found = self._asked("GET", "/api/sessions")["sessions"]
        return list(found)

    def full(self, beginning: str) -> str:
        """The id that begins so, where only one does; else what was given."""
        ids = {s["session"] for s in self.sessions() if str(s["session"]).startswith(beginning)}
        return ids.pop() if len(ids) == 1 else beginning

    def explain(self, session: str, agent: str | None) -> dict[str, Any]:
        """One session with its evidence."""
        return self._asked("GET", f"/api/sessions/{quote(session, safe='')}?explain=1{_agent(agent)}")

    def act(self, action: str, session: str, agent: str | None, body: dict[str, Any]) -> dict[str, Any]:
        """Ask for an end; the answer names the outcome."""
        path = f"/api/sessions/{quote(session, safe='')}/{action}?{_agent(agent).lstrip('&')}"
        return self._asked("POST", path, body)

    def _asked(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
            if self._token_file is not None:
                headers["Authorization"] = f"Bearer {self._token()}"
        connection = http.client.HTTPConnection(
            self._host, self._port, timeout=TIMEOUT if body is None else ACT_TIMEOUT
        )
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            told = json.loads(answer.read(LARGEST) or b"{}")
        except OSError as error:
            raise Unanswered(
                f"no sidecar answers at {self._host}:{self._port} ({error.strerror or error}); "
                "start one with: agent-sidecar run"
            ) from error
        except (http.client.HTTPException, ValueError):
            told = None
        finally:
            connection.close()
        if not isinstance(told, dict):
            raise Unanswered(f"what answers at {self._host}:{self._port} is no sidecar")
        if answer.status >= http.HTTPStatus.BAD_REQUEST and "outcome" not in told:
            raise Unanswered(_refusal(answer.status, told, method))
        return told

    def _token(self) -> str:
        try:
            return Path(self._token_file or "").read_text().strip()
        except OSError as error:
            raise Unanswered(f"token file {self._token_file}: {error.strerror}") from error


def _agent(agent: str | None) -> str:
    return "" if agent is None else f"&agent={quote(agent, safe='')}"


def _refusal(status: int, told: dict[str, Any], method: str) -> str:
    if status == http.HTTPStatus.NOT_FOUND and method == "POST" and told.get("error") in (None, NO_ROUTE):
        return "the sidecar has no token_file, so it ends nothing for anybody"
    why = told.get("error", "refused")
    candidates = told.get("candidates")
    return f"{why} (HTTP {status})" + (f": {json.dumps(candidates)}" if candidates else "")
