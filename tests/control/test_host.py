"""Acting through hosts: whose session it is, what their turn is, and every way not to answer."""

from __future__ import annotations

import socket
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from sidecar.agent import Answer, Can, Order
from sidecar.clock import RecordedClock, parse
from sidecar.control.host import HostControl, Hosted, Settings
from tests.control.api_server import Server, serving, session

if TYPE_CHECKING:
    from collections.abc import Iterator

NOON = parse("2026-11-30T12:00:00Z") or 0.0
CLOCK = RecordedClock(NOON + 3000)


def order(
    action: Any = "interrupt", name: str = "s1", *, at: float | None = NOON, force: bool = False
) -> Order:
    return Order(action, name, "t1", "no progress for 45m00s", at, force)


def control(url: str, **settings: Any) -> HostControl:
    return HostControl(Settings(url=url, **settings), CLOCK)


@pytest.fixture
def run() -> Iterator[Path]:
    """A folder for sockets, whose names have to be short."""
    with TemporaryDirectory(prefix="run") as folder:
        yield Path(folder)


# Whose session it is.


async def test_an_order_goes_to_the_host_that_lists_the_session_with_that_hosts_turn(run: Path) -> None:
    mine, other = Server(session("s1")), Server(session("s2"))
    async with serving(mine, run / "a.sock"), serving(other, run / "b.sock"):
        answer = await control(f"unix:{run}/*.sock").interrupt(order())
    assert answer == Answer("accepted", "HTTP 202")
    assert mine.orders == [{"turn": "host-turn-7", "reason": "no progress for 45m00s"}]
    assert other.orders == []


async def test_a_box_with_many_sessions_is_asked_over_http() -> None:
    box = Server(session("s1", turn="one"), session("s2", turn="two"))
    async with serving(box) as url:
        answer = await control(url).interrupt(order(name="s2"))
    assert answer.result == "accepted"
    assert box.requests[-1] == ("POST", "/v1/sessions/s2/interrupt")
    assert box.orders[0]["turn"] == "two"


async def test_a_session_that_nobody_lists_has_failed(run: Path) -> None:
    async with serving(Server(session("s2")), run / "a.sock"):
        assert await control(f"unix:{run}/*.sock").interrupt(order()) == Answer(
            "failed", "no host lists this session"
        )


async def test_a_session_that_two_hosts_claim_is_left_alone(run: Path) -> None:
    one, two = Server(session("s1")), Server(session("s1"))
    async with serving(one, run / "a.sock"), serving(two, run / "b.sock"):
        acting = control(f"unix:{run}/*.sock")
        assert await acting.interrupt(order()) == Answer("failed", "2 hosts claim this session")
        assert acting.can("s1") == Can(interrupt=False, reap=False)
    assert one.orders == two.orders == []


async def test_no_socket_at_all_is_a_failed_answer(run: Path) -> None:
    assert (await control(f"unix:{run}/*.sock").interrupt(order())).result == "failed"
    answer = await control(f"unix:{run}/control.sock").interrupt(order())
    assert answer.detail == "no host lists this session"


@pytest.mark.parametrize(
    ("name", "path"),
    [("a/b?c#d%", "a%2Fb%3Fc%23d%25"), ("..", "%2E%2E"), ("\u2028 é", "%E2%80%A8%20%C3%A9")],
)
async def test_an_id_is_one_segment_of_the_path_whatever_is_in_it(name: str, path: str) -> None:
    box = Server(session(name))
    async with serving(box) as url:
        assert (await control(url).interrupt(order(name=name))).result == "accepted"
    assert box.requests[-1] == ("POST", f"/v1/sessions/{path}/interrupt")


# Looking again.


@pytest.mark.parametrize(("late", "result"), [(-60.0, "accepted"), (4.9, "accepted"), (6.0, "superseded")])
async def test_a_turn_that_its_host_saw_move_since_is_superseded(late: float, result: str) -> None:
    box = Server(session())
    async with serving(box) as url:
        answer = await control(url).interrupt(order(at=NOON - late))
    assert answer.result == result
    assert len(box.orders) == (result == "accepted")


async def test_stamps_may_be_numbers_and_are_told_apart_from_the_cores_clock() -> None:
    box = Server(session(last_activity_at=NOON))

    class Shifted(RecordedClock):
        def core(self, wall: float) -> float:
            return wall - NOON

    async with serving(box) as url:
        acting = HostControl(Settings(url=url), Shifted())
        assert (await acting.interrupt(order(at=0.0))).result == "accepted"
        assert (await acting.interrupt(order(at=-60.0))).result == "superseded"


@pytest.mark.parametrize("stamp", [None, "yesterday"])
async def test_a_host_that_tells_no_activity_is_taken_at_its_turn(stamp: str | None) -> None:
    async with serving(Server(session(last_activity_at=stamp))) as url:
        assert (await control(url).interrupt(order())).result == "accepted"


async def test_what_a_person_asks_is_not_compared_with_any_progress() -> None:
    async with serving(Server(session(last_activity_at=NOON + 2999))) as url:
        assert (await control(url).interrupt(order(at=None))).result == "accepted"


async def test_a_host_without_a_turn_has_nothing_to_interrupt() -> None:
    box = Server(session(turn=None, status="idle"))
    async with serving(box) as url:
        assert (await control(url).interrupt(order())).result == "superseded"
    assert box.orders == []


async def test_a_host_that_knows_no_turns_is_sent_none() -> None:
    box = Server(session(turn=None, status="busy"))
    async with serving(box) as url:
        assert (await control(url).interrupt(order())).result == "accepted"
    assert box.orders[0]["turn"] is None


async def test_a_reap_of_a_session_at_rest_names_no_turn_and_no_force() -> None:
    box = Server(session(turn=None, status="idle"))
    async with serving(box) as url:
        assert (await control(url).reap(order("reap"))).result == "accepted"
    assert box.requests[-1] == ("POST", "/v1/sessions/s1/reap")
    assert box.orders == [{"turn": None, "force": False, "reason": "no progress for 45m00s"}]


@pytest.mark.parametrize(
    "facts", [{}, {"turn": None}, {"turn": None, "status": "waiting"}, {"turn": None, "status": "?"}]
)
async def test_a_reap_that_is_not_forced_leaves_a_session_that_works(facts: dict[str, object]) -> None:
    box = Server(session(**facts))
    async with serving(box) as url:
        assert (await control(url).reap(order("reap"))).result == "superseded"
        assert box.orders == []
        assert (await control(url).reap(order("reap", force=True))).result == "accepted"
    assert box.orders[0]["force"] is True


async def test_what_a_host_says_it_cannot_it_is_not_asked_for() -> None:
    box = Server(session(can={"interrupt": False, "reap": False}))
    async with serving(box) as url:
        acting = control(url)
        assert (await acting.interrupt(order())).result == "unsupported"
        assert (await acting.reap(order("reap", force=True))).result == "unsupported"
        assert acting.can("s1") == Can(interrupt=False, reap=False)
    assert box.orders == []


async def test_what_can_be_done_is_as_last_listed(run: Path) -> None:
    host = Server(session("s1", can={"interrupt": True, "reap": False}))
    acting = control(f"unix:{run}/*.sock")
    assert acting.can("s1") == Can(interrupt=True, reap=True)  # nobody asked yet
    async with serving(host, run / "a.sock"):
        await acting.sessions()
        assert acting.can("s1") == Can(interrupt=True, reap=False)
        assert acting.can("s2") == Can(interrupt=False, reap=False)
    (run / "a.sock").unlink(missing_ok=True)
    (run / "b.sock").touch()
    await acting.sessions()
    assert acting.can("s1") == Can(interrupt=False, reap=False)


async def test_a_session_whose_host_does_not_answer_may_still_be_there(run: Path) -> None:
    host = Server(session("s1"))
    acting = control(f"unix:{run}/a.sock")

    async def unwell(_: web.Request) -> web.StreamResponse:
        return web.Response(status=500)

    async with serving(host, run / "a.sock"):
        await acting.sessions()
        host.listing = unwell
        await acting.sessions()
        assert acting.can("s1") == Can(interrupt=True, reap=True)
    await acting.sessions()
    assert acting.can("s1") == Can(interrupt=False, reap=False), "nobody listens: it has ended"


# Answers.


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (202, "accepted"),
        (200, "accepted"),
        (409, "superseded"),
        (404, "failed"),
        (501, "unsupported"),
        (503, "failed"),
        (401, "failed"),
        (500, "failed"),
        (307, "failed"),
    ],
)
async def test_the_status_is_the_answer(status: int, result: Any) -> None:
    box = Server(session())
    box.status = status
    async with serving(box) as url:
        assert await control(url).interrupt(order()) == Answer(result, f"HTTP {status}")


async def test_nobody_is_followed_elsewhere() -> None:
    elsewhere, box = Server(session()), Server()
    async with serving(elsewhere) as there, serving(box) as url:

        async def redirect(_: web.Request) -> web.StreamResponse:
            raise web.HTTPTemporaryRedirect(f"{there}/v1/sessions")

        box.listing = redirect
        listing = await control(url).sessions()
        assert listing.errors == {url: "HTTP 307"}
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "its answer is no listing"),
        (b"[]", "its answer is no listing"),
        (b'{"sessions": 1}', "its answer is no listing"),
        (b"\xff\xfe", "its answer is no listing"),
        (b'{"sessions":' + b"[" * 100_000, "its answer is no listing"),
        (b'{"sessions": ["' + b"x" * (2 << 20) + b'"]}', "its answer is too large"),
    ],
    ids=["empty", "a list", "a number", "no text", "deep", "large"],
)
async def test_an_answer_that_makes_no_sense_is_an_error_with_a_name(body: bytes, why: str) -> None:
    box = Server()

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body)

    box.listing = answer
    async with serving(box) as url:
        listing = await control(url).sessions()
    assert (listing.errors, listing.sessions) == ({url: why}, {})


async def test_a_compressed_bomb_is_not_unpacked() -> None:
    box = Server()

    async def answer(_: web.Request) -> web.StreamResponse:
        response = web.Response(body=b'{"sessions": ["' + b"x" * (64 << 20) + b'"]}')
        response.enable_compression(web.ContentCoding.gzip)
        return response

    box.listing = answer
    async with serving(box) as url:
        assert (await control(url).sessions()).errors == {url: "its answer is no listing"}


async def test_entries_that_make_no_sense_are_left_out() -> None:
    box = Server(session("s1"), {"no": "id"}, session("s2", turn=5), session("s3", can=None), session("s4"))
    async with serving(box) as url:
        assert set((await control(url).sessions()).sessions) == {"s1", "s4"}


async def test_a_listing_says_what_there_is() -> None:
    async with serving(Server(session("s1", waiting_for="permission"))) as url:
        hosted = (await control(url).sessions()).sessions["s1"]
    assert isinstance(hosted, Hosted)
    assert (hosted.turn, hosted.waiting_for, hosted.resolution) == ("host-turn-7", "permission", "delta")
    assert hosted.active_at == NOON


async def test_a_host_that_hangs_or_is_gone_does_not_hold_up_the_others(run: Path) -> None:
    hangs, well = Server(), Server(session("s1"))

    async def answer(_: web.Request) -> web.StreamResponse:
        await hangs.over.wait()
        return web.Response()

    hangs.listing = answer
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(run / "dead.sock"))
    (run / "file.sock").write_text("no socket")
    async with serving(hangs, run / "hangs.sock"), serving(well, run / "well.sock"):
        listing = await control(f"unix:{run}/*.sock", timeout=0.5).sessions()
    assert set(listing.sessions) == {"s1"}
    assert listing.errors == {f"unix:{run}/hangs.sock": "it did not answer in time"}


async def test_a_host_that_goes_away_between_listing_and_order_has_failed(run: Path) -> None:
    host = Server(session())

    async def last_words(_: web.Request) -> web.StreamResponse:
        (run / "a.sock").unlink()
        return web.json_response({"sessions": host.sessions})

    host.listing = last_words
    async with serving(host, run / "a.sock"):
        answer = await control(f"unix:{run}/*.sock").interrupt(order())
    assert answer == Answer("failed", "it cannot be connected to: No such file or directory")


# The token.


async def test_the_token_is_read_from_its_file_at_every_request(tmp_path: Path) -> None:
    token, box = tmp_path / "token", Server(session())
    async with serving(box) as url:
        acting = control(url, token_file=str(token))
        for text in ("one", "two"):
            token.write_text(f"{text}\n")
            await acting.sessions()
            assert box.headers["Authorization"] == f"Bearer {text}"


@pytest.mark.parametrize("content", [None, b"\xff", b"a\r\nX-Evil: 1"])
async def test_a_token_that_cannot_be_read_or_sent_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    token, box = tmp_path / "token", Server(session())
    if content is not None:
        token.write_bytes(content)
    async with serving(box) as url:
        listing = await control(url, token_file=str(token)).sessions()
    assert list(listing.errors) == [url]
    assert box.requests == []


async def test_without_a_token_none_is_sent() -> None:
    box = Server(session())
    async with serving(box) as url:
        await control(url).sessions()
    assert "Authorization" not in box.headers
