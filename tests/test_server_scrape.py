"""The scrape listener: it answers while the event loop is blocked, and bears what a network sends."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from sidecar.server.listen import ListenError
from sidecar.server.scrape import Limits, Scrape
from tests.test_server import METRICS, World

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICK = Limits(loop=0.05)


@contextmanager
def scraped(world: World, limits: Limits = QUICK, address: str = "127.0.0.1:0") -> Iterator[Scrape]:
    scrape = Scrape(address, world, asyncio.get_running_loop(), limits)
    scrape.start()
    try:
        yield scrape
    finally:
        scrape.stop()


def get(scrape: Scrape, path: str, method: str = "GET", accept: str = "") -> tuple[int, bytes, str]:
    """Ask in this very thread: the event loop that runs here is blocked until there is an answer."""
    host, port = scrape.address.rsplit(":", 1)
    with closing(http.client.HTTPConnection(host, int(port), timeout=10)) as connection:
        connection.request(method, path, headers={"Accept": accept} if accept else {})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers["Content-Type"]


def raw(scrape: Scrape) -> socket.socket:
    host, port = scrape.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=10)


async def test_health_is_answered_while_the_loop_is_blocked() -> None:
    world = World()
    with scraped(world) as scrape:
        assert get(scrape, "/healthz")[0] == 200
        world.dead = ["ticker"]
        status, body, kind = get(scrape, "/healthz")
        assert (status, kind) == (503, "application/json")
        assert json.loads(body) == {"alive": False, "stale": ["ticker"]}
        world.late = ["the first look is under way"]
        assert get(scrape, "/readyz")[0] == 503


async def test_a_health_check_that_breaks_is_not_healthy() -> None:
    world = World()
    world.broken = [ValueError("x")]
    with scraped(world) as scrape:
        assert get(scrape, "/healthz")[0] == 503


async def test_metrics_are_made_beside_a_blocked_loop() -> None:
    world = World()
    with scraped(world) as scrape:
        assert get(scrape, "/metrics", accept="text/plain") == (200, b"up 1\n# EOF\n", METRICS)
        await asyncio.sleep(0)
        assert world.rendered == ["text/plain"]  # and not once more when the loop went on


async def test_metrics_are_made_on_the_loop_s_own_thread_while_that_answers() -> None:
    world = World()
    threads = []
    render = world.render

    def rendering(accept: str) -> tuple[bytes, str]:
        threads.append(asyncio.get_running_loop())  # raises beside the loop
        return render(accept)

    world.render = rendering  # type: ignore[method-assign]
    with scraped(world, Limits(loop=30)) as scrape:
        assert (await asyncio.to_thread(get, scrape, "/metrics"))[0] == 200
    assert threads == [asyncio.get_running_loop()]


async def test_state_that_changes_while_it_is_read_is_read_again() -> None:
    world = World()
    world.broken = [RuntimeError("dictionary changed size during iteration")] * 2
    with scraped(world) as scrape:
        assert get(scrape, "/metrics")[0] == 200
        world.broken = [RuntimeError("dictionary changed size during iteration")] * 3
        assert get(scrape, "/metrics")[0] == 500
        world.broken = [ValueError("a mistake")]
        assert get(scrape, "/metrics")[0] == 500
    assert len(world.rendered) == 7


async def test_a_rendering_that_takes_too_long_is_given_up_and_holds_up_the_next() -> None:
    world = World()
    go_on = threading.Event()

    def slow(_: str) -> tuple[bytes, str]:
        go_on.wait(10)
        return b"", METRICS

    def ask() -> list[str]:
        try:
            with ThreadPoolExecutor(2) as pool:
                answers = pool.map(get, [scrape] * 2, ["/metrics"] * 2)
                return sorted(json.loads(body)["error"] for _, body, _ in answers)
        finally:
            go_on.set()

    world.render = slow  # type: ignore[assignment,method-assign]
    with scraped(world, Limits(loop=0.02, render=0.02)) as scrape:
        assert await asyncio.to_thread(ask) == [
            "another scrape is still being answered",
            "rendering the metrics takes too long",
        ]


async def test_metrics_are_there_after_the_loop_has_ended() -> None:
    world = World()
    ended = asyncio.new_event_loop()
    ended.close()
    with scraped(world) as scrape:
        scrape._loop = ended
        assert get(scrape, "/metrics")[0] == 200


@pytest.mark.parametrize("path", ["/", "/api/sessions", "/api/events", "/metrics/", "/healthz/.."])
async def test_nothing_else_is_served(path: str) -> None:
    with scraped(World()) as scrape:
        status, body, _ = get(scrape, path)
        assert status == 404
        assert json.loads(body) == {"error": "only /metrics, /healthz and /readyz are served here"}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "X\x7f"])
async def test_nothing_but_reading_is_possible(method: str) -> None:
    with scraped(World()) as scrape, raw(scrape) as connection:
        connection.sendall(f"{method} /metrics HTTP/1.0\r\n\r\n".encode())
        assert connection.recv(100).split()[1] in (b"501", b"400")


async def test_a_query_and_a_head_are_fine() -> None:
    with scraped(World()) as scrape:
        assert get(scrape, "/metrics?x=1")[0] == 200
        status, body, _ = get(scrape, "/metrics", "HEAD")
        assert (status, body) == (200, b"")


async def test_answers_say_no_more_of_us_than_they_have_to() -> None:
    with scraped(World()) as scrape, raw(scrape) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        head = b""
        while more := connection.recv(4096):
            head += more
        assert head.count(b"Server: agent-sidecar\r\n") == 1
        assert b"Python" not in head
        assert b"nosniff" in head


async def test_a_client_that_says_nothing_is_let_go() -> None:
    with scraped(World(), Limits(read=0.05)) as scrape, raw(scrape) as connection:
        assert connection.recv(1) == b""


async def test_a_client_that_drips_is_let_go_in_the_end() -> None:
    with scraped(World(), Limits(read=5.0, whole=0.2)) as scrape, raw(scrape) as connection:
        connection.sendall(b"GET /healthz HT")
        assert connection.recv(1) == b""


async def test_there_is_a_most_of_connections() -> None:
    with scraped(World(), Limits(connections=3)) as scrape:
        held = [raw(scrape) for _ in range(3)]
        for connection in held:
            connection.sendall(b"GET /he")
        with raw(scrape) as another:
            assert another.recv(1) == b""  # closed at once
        held[0].sendall(b"althz HTTP/1.0\r\n\r\n")
        assert held[0].recv(12) == b"HTTP/1.0 200"
        while held[0].recv(4096):
            pass
        assert get(scrape, "/healthz")[0] == 200  # its place is free again
        for connection in held:
            connection.close()


async def test_endless_headers_are_refused() -> None:
    with scraped(World()) as scrape, raw(scrape) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\n" + b"X: y\r\n" * 200 + b"\r\n")
        assert connection.recv(12) == b"HTTP/1.0 431"


async def test_it_listens_on_the_address_it_was_told() -> None:
    with scraped(World(), address="[::1]:0") as scrape:
        assert scrape.address.startswith("[::1]:")
        with raw_v6(scrape) as connection:
            connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.0 200"


def raw_v6(scrape: Scrape) -> socket.socket:
    return socket.create_connection(("::1", int(scrape.address.rsplit(":", 1)[1])), timeout=10)


async def test_a_listener_that_was_never_started_can_be_stopped() -> None:
    scrape = Scrape("127.0.0.1:0", World(), asyncio.get_running_loop())
    scrape.stop()
    with pytest.raises(ConnectionRefusedError):
        raw(scrape)


async def test_an_address_in_use_is_said() -> None:
    with (
        scraped(World()) as scrape,
        pytest.raises(ListenError, match=r"scrape_listen: .*: the port is in use"),
    ):
        Scrape(scrape.address, World(), asyncio.get_running_loop())
