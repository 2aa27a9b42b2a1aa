"""The client of the running sidecar: what it asks, and what it says when nobody answers as they should."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.client import Client, Unanswered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Answering(BaseHTTPRequestHandler):
    status = 200
    body: bytes = b"{}"
    asked: list[tuple[str, str, str | None, bytes]] = []  # noqa: RUF012 - reset by the fixture

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        entry = (self.command, self.path, self.headers.get("Authorization"), self.rfile.read(length))
        self.asked.append(entry)
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET  # noqa: N815 - the base class's name

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    Answering.asked, Answering.status, Answering.body = [], 200, b"{}"
    with HTTPServer(("127.0.0.1", 0), Answering) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def client(server: HTTPServer, tmp_path: Path) -> Client:
    (tmp_path / "token").write_text("secret\n")
    return Client(f"0.0.0.0:{server.server_port}", str(tmp_path / "token"))


def says(status: int, body: Any) -> None:
    Answering.status, Answering.body = status, json.dumps(body).encode()


def test_the_sessions_are_asked_for(client: Client) -> None:
    says(200, {"sessions": [{"session": "s1"}]})
    assert client.sessions() == [{"session": "s1"}]
    assert Answering.asked == [("GET", "/api/sessions", None, b"")]


def test_ids_are_percent_encoded(client: Client) -> None:
    says(200, {"session": "x"})
    assert client.explain("../a b?", "x&y") == {"session": "x"}
    assert Answering.asked[0][1] == "/api/sessions/..%2Fa%20b%3F?explain=1&agent=x%26y"


def test_a_request_to_end_something_carries_the_token_and_the_outcome_comes_back(client: Client) -> None:
    says(504, {"outcome": "ineffective"})
    assert client.act("interrupt", "s1", None, {"reason": "r"}) == {"outcome": "ineffective"}
    assert Answering.asked == [("POST", "/api/sessions/s1/interrupt?", "Bearer secret", b'{"reason": "r"}')]


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (404, {"error": "no such session"}, r"no such session \(HTTP 404\)"),
        (409, {"error": "two", "candidates": ["a", "b"]}, r'two \(HTTP 409\): \["a", "b"\]'),
        (401, {"error": "wrong token"}, "wrong token"),
        (500, {}, r"refused \(HTTP 500\)"),
        (200, [], "is no sidecar"),
    ],
)
def test_a_refusal_says_why(client: Client, status: int, body: Any, text: str) -> None:
    says(status, body)
    with pytest.raises(Unanswered, match=text):
        client.explain("s1", None)


def test_without_routes_to_end_things_the_missing_token_file_is_named(client: Client) -> None:
    for body in ({}, {"error": "Not Found"}):
        says(404, body)
        with pytest.raises(Unanswered, match="has no token_file"):
            client.act("reap", "s1", None, {})


def test_something_else_behind_the_port_is_told(client: Client) -> None:
    Answering.body = b"<html>"
    with pytest.raises(Unanswered, match="is no sidecar"):
        client.sessions()


def test_a_token_file_that_cannot_be_read_is_told(server: HTTPServer) -> None:
    with pytest.raises(Unanswered, match="token file /nowhere: No such file"):
        Client(f"http://127.0.0.1:{server.server_port}", "/nowhere").act("reap", "s1", None, {})


def test_nobody_there_is_told() -> None:
    with pytest.raises(Unanswered, match=r"no sidecar answers at 127\.0\.0\.1:1 \(Connection refused\)"):
        Client("127.0.0.1:1").sessions()


def test_without_a_token_none_is_sent(server: HTTPServer) -> None:
    says(200, {"outcome": "effective"})
    Client(f"127.0.0.1:{server.server_port}").act("reap", "s1", "a", {})
    assert Answering.asked == [("POST", "/api/sessions/s1/reap?agent=a", None, b"{}")]


@pytest.mark.parametrize(("given", "full"), [("abc", "abcd"), ("a", "a"), ("x", "x"), ("abcd", "abcd")])
def test_the_beginning_of_an_id_is_enough_where_only_one_begins_so(
    client: Client, given: str, full: str
) -> None:
    says(200, {"sessions": [{"session": "abcd"}, {"session": "aef"}]})
    assert client.full(given) == full
