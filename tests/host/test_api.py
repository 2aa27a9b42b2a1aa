"""The control API: who may ask, how, and what comes back."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sidecar.host import Endpoint, Server, Session
from tests.host.driver import FAKE, PATIENCE, readable, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.host.conftest import Start
    from tests.host.driver import Hosted

KNOWN = "5e55-10n/é"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def raw(host: Hosted, data: bytes) -> bytes:
    """Send bytes as they are, and read the answer to its end."""
    with host.connect() as peer:
        peer.sendall(data)
        answer = b""
        while readable(peer, PATIENCE) and (chunk := peer.recv(1 << 16)):
            answer += chunk
        return answer


def test_the_session_object_has_exactly_these_fields(start: Start) -> None:
    host = start("--attended")
    session = host.session()
    assert list(session) == [
        *("id", "turn", "status", "waiting_for", "attended", "resolution", "created_at", "last_activity_at"),
        *("pid", "can", "last_verdict"),
    ]
    assert (session["turn"], session["status"], session["waiting_for"]) == (None, "idle", None)
    assert session["attended"]
    assert session["can"] == {"interrupt": True, "reap": True}
    assert session["last_verdict"] is None
    assert TIME.fullmatch(session["created_at"])
    assert TIME.fullmatch(session["last_activity_at"])
    children = Path(f"/proc/{host.process.pid}/task/{host.process.pid}/children").read_text().split()
    assert [str(session["pid"])] == children


def test_a_session_has_a_name_before_the_agent_tells_it_and_keeps_it_valid(start: Start) -> None:
    host = start()
    name = host.session()["id"]
    assert name == f"host-{host.process.pid}"
    host.prompt("hole")
    host.expect(id=KNOWN)
    assert host.call("POST", f"/v1/sessions/{name}/interrupt").status == 202


def test_a_session_is_named_by_the_registration_before_the_first_prompt(start: Start) -> None:
    host = start(command=[*FAKE, "--register", "--session", "from-the-file"])
    host.expect(id="from-the-file", status="idle")


def test_a_name_that_is_given_is_the_sessions_name(start: Start) -> None:
    host = start("--session", "job 7/a")
    host.prompt("hole")
    assert host.expect(status="busy")["id"] == "job 7/a"
    assert host.call("POST", "/v1/sessions/job%207%2Fa/interrupt").status == 202


def test_an_id_is_percent_decoded(start: Start) -> None:
    host = start()
    host.prompt("hole")
    host.expect(id=KNOWN)
    assert host.call("POST", "/v1/sessions/5e55-10n%2F%C3%A9/interrupt").status == 202


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/sessions?all=1", 200),
        ("POST", "/v1/sessions/nobody/interrupt", 404),
        ("POST", "/v1/sessions/nobody/reap", 404),
        ("POST", "/v1/sessions//interrupt", 404),
        ("GET", "/", 404),
        ("GET", "/v2/sessions", 404),
        ("POST", "/v1/sessions", 405),
        ("DELETE", "/v1/sessions", 405),
        ("POST", "/v1/events", 405),
        ("GET", "/v1/sessions/nobody/interrupt", 405),
        ("PUT", "/v1/sessions/nobody/reap", 405),
    ],
)
def test_what_is_not_there_is_404_and_what_cannot_be_done_so_is_405(
    start: Start, method: str, path: str, status: int
) -> None:
    answer = start().call(method, path)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert (status == 405) == ("allow" in answer.headers)


@pytest.mark.parametrize(
    "body",
    [
        *(b"{", b"[]", b'"x"', b"\xff", b"[" * 60_000, b'{"turn":1}', b'{"turn":["t1"]}', b'{"reason":{}}'),
        *(b'{"force":"yes"}', b'{"force":1}', b'{"force":null}'),
    ],
)
def test_a_body_that_is_not_an_order_is_a_400_and_nothing_is_done(start: Start, body: bytes) -> None:
    host = start()
    name = host.session()["id"]
    for act in ("interrupt", "reap"):
        assert host.call("POST", f"/v1/sessions/{name}/{act}", body).status == 400
    assert host.session()["last_verdict"] is None


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /v1/sessions HTTP/2.0\r\n\r\n", 400),
        (b"GET v1/sessions HTTP/1.1\r\n\r\n", 400),
        (b"G\xffT /v1/sessions HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1/sessions HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /v1/sessions HTTP/1.1\r\nbad : name\r\n\r\n", 400),
        (b"POST /v1/sessions/x/reap HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST /v1/sessions/x/reap HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
        (b"POST /v1/sessions/x/reap HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /v1/sessions/x/reap HTTP/1.1\r\ncontent-length: 65537\r\n\r\n", 413),
        (b"POST /v1/sessions/x/reap HTTP/1.1\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"GET /v1/sessions HTTP/1.1\r\nx: " + b"y" * 20_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"y" * 40_000, 431),
        (b"get /v1/sessions HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_a_request_that_is_malformed_or_too_large_is_refused(
    start: Start, request_head: bytes, status: int
) -> None:
    assert raw(start(), request_head).startswith(b"HTTP/1.1 %d " % status)


def test_a_body_of_64_kib_is_taken_and_a_larger_one_is_answered_though_it_is_still_sent(start: Start) -> None:
    host = start()
    name = host.session()["id"]
    fits = json.dumps({"reason": "r" * 60_000}).encode()
    assert host.call("POST", f"/v1/sessions/{name}/interrupt", fits).status == 202
    head = f"POST /v1/sessions/{name}/interrupt HTTP/1.1\r\nContent-Length: 300000\r\n\r\n".encode()
    assert raw(host, head + b"x" * 300_000).startswith(b"HTTP/1.1 413 ")


def test_a_slow_client_is_timed_out(start: Start) -> None:
    host = start()
    with host.connect() as peer:
        peer.sendall(b"GET /v1/sessions HTTP/1.1\r\n")
        assert readable(peer, 10)
        assert peer.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_many_silent_connections_keep_nobody_out(start: Start) -> None:
    host = start()
    with ExitStack() as stack:
        silent = [stack.enter_context(host.connect()) for _ in range(300)]
        assert host.session()["status"] == "idle"
        assert not readable(silent[-1], 0)  # the newest are kept, the oldest had to go
        assert readable(silent[0], PATIENCE)
        threads = len(os.listdir(f"/proc/{host.process.pid}/task"))  # noqa: PTH208 - names only
        assert threads < 140


def test_a_client_that_leaves_at_once_harms_nothing(start: Start) -> None:
    host = start()
    for sent in (b"", b"GET", b"GET /v1/events HTTP/1.1\r\n\r\n", b"GET /v1/sessions HTTP/1.1\r\n\r\n"):
        with host.connect() as peer:
            peer.sendall(sent)
    assert host.session()["status"] == "idle"
    assert host.error.data == b""


def test_events_tell_the_session_at_first_and_then_its_changes(start: Start) -> None:
    host = start()
    with host.events() as events:
        first = next(events)
        assert first == host.session()
        host.prompt("tool")
        seen = [first]
        while seen[-1].get("status") != "busy":
            seen.append(next(events))
        host.interrupt(reason="why")
        while seen[-1].get("status") != "idle":
            seen.append(next(events))
    assert seen[-1]["last_verdict"]["reason"] == "why"
    sessions = [event for event in seen if "status" in event]
    for before, after in pairwise(sessions):
        assert before != after


def test_deltas_are_events_of_their_own_but_not_each_of_them(start: Start) -> None:
    host = start()
    began = time.monotonic()
    with host.events() as events:
        host.prompt("flood 100000")
        seen = [next(events), next(events)]
        while seen[-1].get("status") != "idle":
            seen.append(next(events))
    progress = [event for event in seen if "status" not in event]
    assert progress
    assert all(event == {"id": KNOWN, "progress": True} for event in progress)
    assert len(seen) < 5 * (time.monotonic() - began) + 3


def test_progress_is_new_text_and_finished_work_and_nothing_else(start: Start) -> None:
    host = start()
    host.prompt("retry")
    before = host.expect(status="busy")
    host.out.expect(lambda data: b'"ping"' in data, "the retries have been reported")
    with host.events(0.5) as events:
        assert [event.get("progress") for event in events] == [None]
    after = host.expect(resolution="delta")
    assert after["last_activity_at"] == before["last_activity_at"]


def test_text_that_is_streamed_again_is_no_progress(start: Start) -> None:
    host = start()
    host.prompt("rerun one two three four")
    host.out.expect(lambda data: data.count(b'"two"') == 2, "the half is streamed twice")
    before = host.expect(resolution="delta")["last_activity_at"]
    with host.events(0.5) as events:
        assert [event.get("progress") for event in events] == [None]
    assert host.session()["last_activity_at"] == before


def test_the_resolution_is_delta_from_the_first_partial_message_on(start: Start) -> None:
    host = start()
    host.prompt("quiet answer")
    host.out.message(type="result")
    assert host.expect(status="idle")["resolution"] == "record"
    host.prompt("text answer")
    host.out.message(2, type="result")
    assert host.expect(status="idle", resolution="delta")


def test_work_moves_the_time_of_the_last_activity(start: Start) -> None:
    host = start()
    created = host.session()["created_at"]
    assert host.session()["last_activity_at"] == created
    host.prompt("quiet answer")
    host.out.message(type="result")
    idle = host.expect(status="idle")
    assert idle["created_at"] == created
    assert idle["last_activity_at"] > created


def test_a_reader_of_events_that_is_stuck_blocks_neither_the_agent_nor_the_others(start: Start) -> None:
    host = start()
    with host.connect() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        peer.sendall(b"GET /v1/events HTTP/1.1\r\n\r\n")
        for number in range(3):
            host.prompt(f"flood {number + 2000}")
            host.out.message(number + 1, type="result")
        assert host.expect(status="idle")
        host.close_stdin()
        assert host.wait() == 0


def test_event_streams_are_bounded_and_end_with_the_agent(start: Start) -> None:
    host = start()
    with ExitStack() as stack:
        readers = [stack.enter_context(host.events()) for _ in range(16)]
        assert [next(reader)["status"] for reader in readers] == ["idle"] * 16
        assert host.call("GET", "/v1/events").status == 503
        host.close_stdin()
        assert host.wait() == 0
        assert [list(reader) for reader in readers] == [[]] * 16


def test_a_reader_that_has_gone_makes_room_for_another(start: Start) -> None:
    host = start()
    with ExitStack() as stack:
        for _ in range(16):
            next(stack.enter_context(host.events()))

    def served() -> bool:
        with host.events() as events:
            return next(events, None) is not None

    until(served, "a place is free", 5)  # sooner than a heartbeat would find out


def test_a_socket_for_the_same_user_has_mode_0600_and_is_gone_afterwards(start: Start) -> None:
    host = start()
    host.session()
    assert stat.S_IMODE(Path(host.socket).stat().st_mode) == 0o600
    host.close_stdin()
    assert host.wait() == 0
    assert not Path(host.socket).exists()


def test_a_socket_for_a_group_has_mode_0660_and_that_group(start: Start) -> None:
    group = os.getgid()
    host = start("--group", str(group))
    host.session()
    status = Path(host.socket).stat()
    assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o660, group)


@pytest.fixture
def passage() -> Iterator[Path]:
    """Lend a folder that everybody may pass through, as no temporary folder of a test's is."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def listening_in(folder: Path, start: Start, *options: str) -> Hosted:
    host = start("--listen", f"unix:{folder}/control.sock", *options)
    host.socket = f"{folder}/control.sock"
    return host


def ask_as(host: Hosted, user: int, group: int, groups: list[int]) -> str:
    """Ask for the sessions as somebody else; the answer's first line."""
    asking = (
        "import os,socket,sys\n"
        f"os.setgroups({groups}); os.setgid({group}); os.setuid({user})\n"
        "peer = socket.socket(socket.AF_UNIX)\n"
        f"peer.connect({host.socket!r})\n"
        "peer.sendall(b'GET /v1/sessions HTTP/1.1\\r\\n\\r\\n')\n"
        "print(peer.recv(65536).decode().splitlines()[0])"
    )
    asked = subprocess.run([sys.executable, "-c", asking], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or asked.stderr.strip().splitlines()[-1]


@needs_root
def test_only_the_same_user_and_root_may_ask_whatever_the_mode_of_the_socket(
    start: Start, passage: Path
) -> None:
    host = listening_in(passage, start)
    host.session()
    assert "PermissionError" in ask_as(host, 12345, 12345, [])
    Path(host.socket).chmod(0o666)
    assert ask_as(host, 12345, 12345, []) == "HTTP/1.1 403 Forbidden"
    assert ask_as(host, 0, 0, []) == "HTTP/1.1 200 OK"


@needs_root
def test_a_group_lets_its_members_in_and_nobody_else(start: Start, passage: Path) -> None:
    host = listening_in(passage, start, "--group", "54321")
    host.session()
    assert ask_as(host, 12345, 54321, []) == "HTTP/1.1 200 OK"
    assert ask_as(host, 12345, 12345, [54321]) == "HTTP/1.1 200 OK"
    Path(host.socket).chmod(0o666)
    assert ask_as(host, 12345, 12345, [12345]) == "HTTP/1.1 403 Forbidden"


def test_a_loopback_port_asks_for_the_token(start: Start, home: Path) -> None:
    token = home / "token"
    token.write_text("s3cret\n")
    host = start("--listen", "127.0.0.1:0", "--token-file", str(token))
    told = host.error.expect(lambda data: re.findall(rb"127\.0\.0\.1:(\d+)\n", data), "the port")
    port = int(told[0])

    def ask(*headers: str) -> bytes:
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as peer:
            peer.sendall("\r\n".join(["GET /v1/sessions HTTP/1.1", *headers, "", ""]).encode())
            return peer.recv(12)

    assert ask("Authorization: Bearer s3cret") == b"HTTP/1.1 200"
    assert ask("authorization: bearer s3cret") == b"HTTP/1.1 200"
    for wrong in ("Bearer s3cre", "Bearer s3cret2", "Bearer", "Basic s3cret", "s3cret", "Bearer \xe9"):
        assert ask(f"Authorization: {wrong}") == b"HTTP/1.1 401"
    assert ask() == b"HTTP/1.1 401"
    token.write_text("another")
    assert ask("Authorization: Bearer another") == b"HTTP/1.1 200"
    token.unlink()
    assert ask("Authorization: Bearer another") == b"HTTP/1.1 401"
    assert ask("Authorization: Bearer ") == b"HTTP/1.1 401"


def test_a_unix_socket_asks_for_a_token_where_one_is_given(start: Start, home: Path) -> None:
    (home / "token").write_text("s3cret")
    host = start("--token-file", str(home / "token"))
    refused = host.call("GET", "/v1/sessions")
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert host.call("GET", "/v1/sessions", Authorization="Bearer s3cret").status == 200


class Slow:
    """Acts that take until they are let go."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def sessions(self) -> list[dict[str, object]]:
        self.asked.set()
        self.go.wait(PATIENCE)
        return []


def test_what_was_taken_is_answered_before_the_host_ends(home: Path) -> None:
    endpoint, slow = Endpoint(f"{home}/one.sock", "", 0, None, None), Slow()
    server = Server(endpoint, slow, Session(None, attended=False))  # type: ignore[arg-type]
    with endpoint.listen() as listener, socket.socket(socket.AF_UNIX) as peer:
        threading.Thread(target=server.serve, args=(listener,), daemon=True).start()
        peer.connect(endpoint.path)
        peer.sendall(b"GET /v1/sessions HTTP/1.1\r\nHost: h\r\n\r\n")
        assert slow.asked.wait(PATIENCE)
        server.finish(0.01)
        assert not readable(peer, 0), "it does not wait longer than it is told to"
        threading.Timer(0.1, slow.go.set).start()
        server.finish(PATIENCE)
        assert readable(peer, 0)
        assert peer.recv(12) == b"HTTP/1.1 200"
        listener.shutdown(socket.SHUT_RDWR)
