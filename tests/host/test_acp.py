"""The mode `acp`: several sessions on one connection, each seen and ended by itself."""

from __future__ import annotations

import itertools
import json
import random
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar import host as module
from sidecar.host import Dialogue, Prompts, Session, Sieve, beginning
from tests.host.driver import Hosted, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.host.conftest import Start
    from tests.host.driver import Answer

Json = dict[str, Any]
Seen = tuple[bool, str | None, list[str], int]  # a turn is open, what is waited for, open tools, progress
FAKE = [sys.executable, "-S", str(Path(__file__).with_name("fake_acp.py"))]
RECORDINGS = Path(__file__).parents[1] / "recordings"
IDS = itertools.count(1)


class Client:
    """An ACP client behind a host."""

    def __init__(self, host: Hosted, name_request: Callable[[int], object] = int) -> None:
        self.host, self._name_request = host, name_request

    def ask(self, method: str, **params: object) -> object:
        """Send a request; give its id."""
        name = self._name_request(next(IDS))
        self.host.send({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
        return name

    def notify(self, method: str, **params: object) -> None:
        self.host.send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, request: object, **result: object) -> None:
        self.host.send({"jsonrpc": "2.0", "id": request, "result": result})

    def choose(self, request: object, option: str) -> None:
        self.answer(request, outcome={"outcome": "selected", "optionId": option})

    def told(self, request: object) -> Json:
        """Wait for the answer to a request."""

        def answers() -> list[Json]:
            return [m for m in self.host.out.messages(id=request) if "method" not in m]

        return self.host.out.expect(lambda _: answers(), f"an answer to {request}")[0]

    def asked(self, count: int = 1) -> Json:
        """Wait for the agent's question."""
        methods = ("session/request_permission", "elicitation/create", "fs/read_text_file")

        def questions() -> list[Json]:
            return [m for m in self.host.out.messages() if m.get("method") in methods]

        return self.host.out.expect(lambda _: questions()[count - 1 :], f"question {count}")[0]

    def open(self) -> str:
        """Open a session and give its id."""
        return str(self.told(self.ask("session/new", cwd="/", mcpServers=[]))["result"]["sessionId"])

    def prompt(self, session: str, text: str) -> object:
        return self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def ends(self, request: object, reason: str) -> None:
        assert self.told(request)["result"]["stopReason"] == reason

    def sessions(self) -> dict[str, Json]:
        listed = self.host.call("GET", "/v1/sessions").body["sessions"]
        return {one["id"]: one for one in listed}

    def expect(self, session: str, **fields: object) -> Json:
        """Wait until a session has these fields."""

        def found() -> Json | None:
            one = self.sessions().get(session)
            return one if one is not None and fields.items() <= one.items() else None

        hit = until(found, f"{session} has {fields}")
        assert hit
        return hit

    def order(self, session: str, act: str, **order: object) -> Answer:
        name = quote(session, safe="")
        return self.host.call("POST", f"/v1/sessions/{name}/{act}", json.dumps(order).encode())

    def finish(self, status: int) -> None:
        self.host.close_stdin()
        assert self.host.wait() == status


@pytest.fixture
def client(start: Start) -> Client:
    return Client(start("--mode", "acp", command=FAKE))


def call(update: str, **fields: object) -> Json:
    return {"sessionUpdate": update, "toolCallId": "t1", **fields}


def recorded(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_session_is_listed_when_it_is_opened_and_a_prompt_is_its_turn(client: Client) -> None:
    client.told(client.ask("initialize", protocolVersion=1))
    assert client.sessions() == {}
    session = client.open()
    idle = client.sessions()[session]
    assert (idle["turn"], idle["status"], idle["tools"], idle["resolution"]) == (None, "idle", {}, "record")
    assert idle["can"] == {"interrupt": True, "reap": True}
    hole = client.prompt(session, "hole")
    busy = client.expect(session, status="busy")
    assert busy["turn"]
    assert busy["pid"]
    client.notify("session/cancel", sessionId=session)
    client.ends(hole, "cancelled")
    assert client.expect(session, status="idle")["turn"] is None
    client.finish(0)


def test_two_sessions_at_once_are_seen_and_ended_each_by_itself(client: Client) -> None:
    first, second = client.open(), client.open()
    holes = [client.prompt(session, "hole") for session in (first, second)]
    turns = [client.expect(session, status="busy")["turn"] for session in (first, second)]
    assert turns[0] != turns[1]
    assert client.order(first, "interrupt", turn=turns[1]).status == 409
    answer = client.order(first, "interrupt", turn=turns[0], reason="no progress for 20m")
    assert (answer.status, answer.body) == (202, {"turn": turns[0]})
    client.ends(holes[0], "cancelled")
    one, other = (client.sessions()[session] for session in (first, second))
    assert (one["status"], one["last_verdict"]["reason"]) == ("idle", "no progress for 20m")
    assert (other["turn"], other["last_verdict"]) == (turns[1], None)
    client.ends(client.prompt(first, "text still here"), "end_turn")
    assert client.order(second, "interrupt", turn=None).status == 202
    client.ends(holes[1], "cancelled")
    assert b"interrupt: no progress for 20m\n" in client.host.error.data


def test_events_tell_of_each_session(client: Client) -> None:
    first, second = client.open(), client.open()
    with client.host.events() as events:
        seen = [next(events), next(events)]
        assert {event["id"] for event in seen} == {first, second}
        client.prompt(second, "tool")
        while seen[-1].get("tools") != {"t1": "execute"}:
            seen.append(next(events))
        client.notify("session/update", sessionId=second)
        client.prompt(first, "hole")
        while seen[-1].get("status") != "busy" or seen[-1]["id"] != first:
            seen.append(next(events))
    assert {event["id"] for event in seen[2:-1]} == {second}


def test_an_interrupt_of_an_idle_session_is_harmless_and_one_of_nobody_404(start: Start, home: Path) -> None:
    client = Client(start("--mode", "acp", command=[*FAKE, "--record", str(home / "record")]))
    session = client.open()
    assert client.order(session, "interrupt", turn=None).status == 202
    assert client.order(session, "interrupt", turn="t1").status == 409
    for nobody in ("nobody", "", f"host-{client.host.process.pid}"):
        assert client.order(nobody, "interrupt").status == 404
    client.ends(client.prompt(session, "text hello"), "end_turn")
    client.finish(0)
    assert not [m for m in recorded(home / "record") if m["method"] == "session/cancel"]


def test_a_turn_is_interrupted_once_and_a_deaf_agent_is_no_end(start: Start, home: Path) -> None:
    client = Client(start("--mode", "acp", command=[*FAKE, "--record", str(home / "record")]))
    session = client.open()
    client.prompt(session, "deaf")
    turn = client.expect(session, status="busy")["turn"]
    assert client.order(session, "interrupt", turn=turn).status == 202
    assert "note" in client.order(session, "interrupt", turn=turn).body
    assert client.sessions()[session]["turn"] == turn
    assert len([m for m in recorded(home / "record") if m["method"] == "session/cancel"]) == 1
    assert client.order(session, "reap", turn=turn, force=True).status == 202
    assert client.host.wait() == 75


@pytest.mark.parametrize("text_ids", [False, True])
@pytest.mark.parametrize(
    ("prompt", "waits_for", "cancelled"),
    [
        ("ask", "permission", {"outcome": {"outcome": "cancelled"}}),
        ("elicit", "question", {"action": "cancel"}),
    ],
)
def test_what_is_asked_is_answered_as_cancelled_and_the_clients_own_answer_is_kept_back_once(  # noqa: PLR0913, PLR0917 - rows of two tables
    start: Start,
    home: Path,
    prompt: str,
    waits_for: str,
    cancelled: Json,
    text_ids: bool,
) -> None:
    ids = ["--text-ids"] * text_ids
    client = Client(start("--mode", "acp", command=[*FAKE, *ids, "--record", str(home / "record")]))
    first, second = client.open(), client.open()
    mine, theirs = client.prompt(first, prompt), client.prompt(second, "ask")
    question, other = client.asked(1)["id"], client.asked(2)["id"]
    waiting = client.expect(first, status="waiting")
    assert waiting["waiting_for"] == waits_for
    assert client.order(first, "interrupt", turn=waiting["turn"]).status == 202
    client.ends(mine, "cancelled")
    assert client.expect(first, status="idle")["waiting_for"] is None
    assert client.sessions()[second]["waiting_for"] == "permission"
    client.choose(question, "yes")  # too late
    client.choose(other, "no")
    client.ends(theirs, "end_turn")
    client.choose(question, "yes")  # a second one is the client's own affair
    client.host.out.text(b"fake/stray")
    answers = [m for m in recorded(home / "record") if m.get("id") == question and "result" in m]
    assert [m["result"] for m in answers] == [cancelled, answers[1]["result"]]
    client.finish(0)


def test_an_answered_question_is_a_wait_no_more_and_an_allowed_tool_is_open(client: Client) -> None:
    session = client.open()
    for count, (prompt, option) in enumerate(
        (("ask untold", "yes"), ("ask untold", "no"), ("ask", "yes")), 1
    ):
        asked = client.prompt(session, prompt)
        assert client.expect(session, status="waiting")["tools"] == ({"t1": "execute"} if count == 3 else {})
        client.choose(client.asked(count)["id"], option)
        if option == "yes":
            assert client.expect(session, status="busy")["tools"] == {"t1": "execute"}
            client.notify("fake/finish", sessionId=session)
        client.ends(asked, "end_turn")
        assert client.expect(session, status="idle")["tools"] == {}


def test_a_tool_is_open_until_it_has_ended_and_is_called_by_its_kind(client: Client) -> None:
    session = client.open()
    asked = client.prompt(session, "tool")
    client.expect(session, tools={"t1": "execute"})
    assert b"CANARY" not in json.dumps(client.sessions()).encode()
    client.notify("fake/finish", sessionId=session)
    client.ends(asked, "end_turn")
    assert client.expect(session, status="idle")["tools"] == {}


@pytest.mark.parametrize(
    ("updates", "opened"),
    [
        ([call("tool_call", status="pending", kind="fetch")], {"t1": "fetch"}),
        ([call("tool_call", status="in_progress", kind="curl CANARY")], {"t1": "other"}),
        (
            [call("tool_call", status="in_progress", kind="read"), call("tool_call_update", kind=7)],
            {"t1": "read"},
        ),
        ([call("tool_call", status="in_progress"), call("tool_call_update", status="gone")], {}),
        # While it is being written it does not run, where an agent tells of both.
        ([call("tool_call", status="pending", _meta={"phase": "preparing"})], {}),
        (
            [
                call("tool_call", status="pending"),
                call("tool_call_update", status="in_progress"),
                {**call("tool_call", status="pending"), "toolCallId": "t2"},
            ],
            {"t1": "other"},
        ),
    ],
)
def test_a_call_is_open_while_it_may_run(updates: list[Json], opened: dict[str, str]) -> None:
    turns = Prompts()
    for update in updates:
        turns.advance(update)
    assert turns.calls == opened


def test_a_request_for_a_file_is_no_wait(client: Client) -> None:
    session = client.open()
    client.prompt(session, "fs")
    client.asked()
    assert client.sessions()[session]["status"] == "busy"
    assert client.sessions()[session]["waiting_for"] is None


def test_news_that_are_no_work_are_no_progress(client: Client) -> None:
    session = client.open()
    client.prompt(session, "noise")
    began = client.expect(session, status="busy")["last_activity_at"]
    client.host.out.text(b"fake/noise")
    now = client.sessions()[session]
    assert (now["last_activity_at"], now["resolution"]) == (began, "record")
    assert client.order(session, "interrupt").status == 202


def test_pieces_are_seen_as_pieces(client: Client) -> None:
    session = client.open()
    client.ends(client.prompt(session, "block hello"), "end_turn")
    before = client.expect(session, status="idle")
    assert before["resolution"] == "record"
    client.ends(client.prompt(session, "text one two three"), "end_turn")
    after = client.expect(session, status="idle")
    assert after["resolution"] == "delta"
    assert after["last_activity_at"] > before["created_at"]


@pytest.mark.parametrize(
    ("updates", "works"),
    [
        ([{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}] * 2, [1, 1]),
        ([{"sessionUpdate": "agent_thought_chunk", "content": {"type": "image"}}], [1]),
        ([{"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": ""}}], [0]),
        ([{"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "x"}}], [0]),
        ([{"sessionUpdate": "plan", "entries": []}], [0]),
        ([call("tool_call", status="pending"), call("tool_call", status="pending")], [1, 0]),
        ([call("tool_call"), call("tool_call_update", content=[])], [1, 0]),
        ([call("tool_call_update", status=["completed"]), call("tool_call_update")], [0, 0]),
        ([call("tool_call"), call("tool_call_update", status="in_progress")], [1, 1]),
        (
            [call("tool_call_update", status="completed"), call("tool_call_update", status="completed")],
            [1, 0],
        ),
        ([{"sessionUpdate": "tool_call", "toolCallId": "t" * 201, "status": "pending"}], [0]),
    ],
)
def test_work_is_progress_in_a_turn_and_nothing_is_outside(updates: list[Json], works: list[int]) -> None:
    talk = Dialogue(Session(None, attended=False))
    session = talk._begin("s")
    assert session

    def counted(update: Json) -> int:
        before = session.progress
        message = {"method": "session/update", "params": {"sessionId": "s", "update": update}}
        talk.from_agent([json.dumps(message).encode()])
        return session.progress - before

    assert [counted(update) for update in updates] == [0] * len(updates)
    talk.from_client([b'{"id":1,"method":"session/prompt","params":{"sessionId":"s"}}'])
    assert [counted(update) for update in updates] == works
    ends = call("tool_call_update", status="failed")
    assert counted(ends) == 1
    assert counted({**ends, "status": "in_progress"}) == 1
    with session.update() as turns:
        turns.interrupting()
    assert counted(ends) == 0, "the echo of our own act"
    assert session.turns.calls == {}


def test_a_loaded_session_has_no_turn_and_its_history_is_no_progress(client: Client) -> None:
    loading = client.ask("session/load", sessionId="of old", cwd="/", mcpServers=[])
    client.told(loading)
    loaded = client.expect("of old", status="idle")
    assert (loaded["turn"], loaded["tools"]) == (None, {})
    client.ask("session/load", sessionId="of old", cwd="/", mcpServers=[], hold=True)
    client.host.out.expect(lambda data: data.count(b"fake/replayed") == 2, "the history again")
    assert client.sessions()["of old"] == loaded
    client.ends(client.prompt("of old", "text goes on"), "end_turn")


def test_history_that_is_told_in_mid_turn_is_no_progress(client: Client) -> None:
    session = client.open()
    client.prompt(session, "hole")
    began = client.expect(session, status="busy")
    client.ask("session/load", sessionId=session, cwd="/", mcpServers=[], hold=True)
    client.host.out.text(b"fake/replayed")
    assert client.sessions()[session] == began


def test_a_session_that_is_closed_is_not_listed(client: Client) -> None:
    first, second = client.open(), client.open()
    client.told(client.ask("session/close", sessionId=first))
    assert list(client.sessions()) == [second]
    assert client.order(first, "interrupt").status == 404


def test_a_prompt_in_mid_turn_has_a_turn_of_its_own(client: Client) -> None:
    session = client.open()
    holes = [client.prompt(session, "hole"), client.prompt(session, "hole")]
    first = client.expect(session, status="busy")["turn"]
    client.notify("session/cancel", sessionId=session)
    client.ends(holes[0], "cancelled")
    second = client.expect(session, status="busy")["turn"]
    assert second != first
    assert client.order(session, "interrupt", turn=first).status == 409
    assert client.order(session, "interrupt", turn=second).status == 202
    client.ends(holes[1], "cancelled")


def test_ids_of_requests_may_be_texts_and_each_side_has_its_own(start: Start) -> None:
    client = Client(start("--mode", "acp", command=FAKE), name_request=str)
    session = client.open()
    client.prompt(session, "ask")
    question = client.asked()["id"]
    assert question == 0
    client.host.send({"jsonrpc": "2.0", "id": "0", "result": {"outcome": {}}})  # not an answer to 0
    client.host.out.text(b"fake/stray")
    turn = client.expect(session, status="waiting")["turn"]
    client.host.send({"jsonrpc": "2.0", "id": 0, "method": "session/list", "params": {}})  # nor is a request
    assert client.order(session, "interrupt", turn=turn).status == 202
    client.expect(session, status="idle")


def test_the_clients_own_cancel_is_not_ours(client: Client) -> None:
    session = client.open()
    hole = client.prompt(session, "hole")
    client.expect(session, status="busy")
    client.notify("session/cancel", sessionId=session)
    client.ends(hole, "cancelled")
    assert client.expect(session, status="idle")["last_verdict"] is None
    client.finish(0)
    assert client.host.error.data == b""


def test_a_prompt_that_fails_ends_its_turn(client: Client) -> None:
    session = client.open()
    client.prompt(session, "hole")
    client.expect(session, status="busy")
    client.notify("fake/fail", sessionId=session)
    client.expect(session, status="idle", turn=None)
    client.finish(0)


def test_the_exit_status_is_that_of_the_last_turn(start: Start) -> None:
    def ended(*prompts: str) -> int:
        client = Client(start("--mode", "acp", command=FAKE))
        session = client.open()
        for prompt in prompts:
            asked = client.prompt(session, prompt)
            if prompt == "hole":
                client.order(session, "interrupt", turn=client.expect(session, status="busy")["turn"])
            if not prompt.startswith("exit"):
                client.told(asked)
        client.host.close_stdin()
        return client.host.wait()

    assert ended("hole") == 75
    assert ended("hole", "text fine") == 0
    assert ended("text fine", "exit 0") == 75
    assert ended("text fine") == 0


def test_a_termination_in_mid_turn_is_no_success_and_an_idle_one_is_the_agents_own(start: Start) -> None:
    for prompt, status in (("hole", 75), ("text done", 143)):
        client = Client(start("--mode", "acp", command=FAKE))
        session = client.open()
        client.prompt(session, prompt)
        client.expect(session, status="busy" if prompt == "hole" else "idle")
        client.host.process.send_signal(signal.SIGTERM)
        assert client.host.wait() == status


def test_the_end_of_input_waits_for_a_turn_but_not_for_one_that_waits_for_the_client(start: Start) -> None:
    for prompt, ends_at_once in (("tool", False), ("ask", True), ("fs", True)):
        client = Client(start("--mode", "acp", command=FAKE))
        session = client.open()
        client.prompt(session, prompt)
        client.expect(session, turn=client.expect(session)["turn"])
        if ends_at_once:
            client.asked()
            client.finish(75)
            continue
        client.host.close_stdin()
        turn = client.expect(session, status="busy")["turn"]
        assert client.order(session, "interrupt", turn=turn).status == 202
        assert client.host.wait() == 75


def test_a_reap_ends_the_agent_and_what_would_be_missed_refuses_it(client: Client) -> None:
    first, second = client.open(), client.open()
    assert client.order(first, "reap").status == 409, "the second is newer"
    hole = client.prompt(first, "hole")
    client.expect(first, status="busy")
    assert client.order(first, "reap", force=False).status == 409, "it is busy itself"
    assert client.order(second, "reap", force=True).status == 409, "the first is busy"
    client.notify("session/cancel", sessionId=first)
    client.ends(hole, "cancelled")
    client.expect(first, status="idle")
    assert client.order(second, "reap").status == 409, "the first has worked since"
    assert client.order(first, "reap", reason="idle for 30m").status == 202
    assert client.host.wait() == 0
    assert client.host.error.rest() == b"agent-sidecar: reap: idle for 30m\n"


def test_a_forced_reap_ends_the_turn_and_the_agent(client: Client) -> None:
    session, hung = client.open(), client.open()
    client.prompt(hung, "deaf")
    turn = client.expect(hung, status="busy")["turn"]
    hole = client.prompt(session, "hole")
    client.expect(session, status="busy")
    assert client.order(session, "reap", force=True).status == 409, "the other one works"
    client.order(hung, "interrupt", turn=turn)
    assert client.order(session, "reap", force=True, reason="enough").status == 202, "that one was judged too"
    client.ends(hole, "cancelled")
    assert client.host.wait() == 75


def test_an_interrupt_goes_only_between_the_clients_lines(start: Start, home: Path) -> None:
    command = [*FAKE, "--record", str(home / "record")]
    client = Client(start("--mode", "acp", "--line-deadline", "0.2", command=command))
    session = client.open()
    hole = client.prompt(session, "hole")
    turn = client.expect(session, status="busy")["turn"]
    client.host.write(b'{"jsonrpc":"2.0","method":"x/half",')
    until(client.host.has_read, "half a line")
    assert client.order(session, "interrupt", turn=turn).status == 503
    client.host.write(b'"params":{}}\n')
    until(lambda: client.order(session, "interrupt", turn=turn).status == 202, "the line's end")
    client.ends(hole, "cancelled")
    client.finish(75)
    assert [m["method"] for m in recorded(home / "record")][-2:] == ["x/half", "session/cancel"]


def test_a_line_that_is_too_long_to_be_read_is_known_by_its_beginning(client: Client) -> None:
    session = client.open()
    asked = client.prompt(session, "text " + "x" * 3_000_000)
    client.ends(asked, "end_turn")
    client.expect(session, status="idle")
    client.prompt(session, "grown")
    client.host.out.text(b"fake/grown")
    busy = client.expect(session, status="busy")
    assert busy["tools"] == {}
    assert client.order(session, "interrupt", turn=busy["turn"]).status == 202


def lines_at_random(seed: int) -> bytes:
    """Many lines of which some look like the protocol, and some are broken, long or no JSON."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    methods = [
        "session/prompt",
        "session/update",
        "session/request_permission",
        "session/load",
        "x/y",
        "session/close",
    ]
    out = []
    for _ in range(6000):
        message: Json = {
            "jsonrpc": "2.0",
            "id": dice.choice([None, 1, 2, "1", "a", 1.5, [], {}]),
            "method": dice.choice([*methods, None, 7, []]),
            "params": dice.choice(
                [None, [], 3, {"sessionId": dice.choice(["s", "t", 4, None]), "update": []}]
            ),
            "result": dice.choice([None, {"stopReason": "end_turn"}, {"sessionId": "s"}]),
        }
        kept = {key: value for key, value in message.items() if dice.random() < 0.8}
        line = json.dumps(kept).encode()
        shape = dice.random()
        if shape < 0.1:
            line = line[: dice.randrange(len(line))]
        elif shape < 0.15:
            line = b"[" + line + b"]"
        elif shape < 0.2:
            line = dice.randbytes(dice.randrange(200))
        elif shape < 0.205:
            line = line[:-1] + b',"x":"' + b"x" * dice.randrange(2_000_000) + b'"}'
        out.append(line + dice.choice([b"\n", b"\r\n", b"\n\n"]))
    return b"".join(out) + b'{"id":'


def test_everything_else_passes_byte_for_byte_both_ways(start: Start) -> None:
    stream = lines_at_random(7)
    host = start("--mode", "acp", command=["cat"])
    host.write(stream)
    host.close_stdin()
    host.out.expect(lambda data: len(data) >= len(stream), "everything")
    assert host.out.data == stream
    host.process.terminate()
    host.wait()
    assert host.out.rest() == stream
    assert host.error.data == b""


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from(["s", "t", "", "pending", "completed", "yes"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "sessionId",
                    "update",
                    "sessionUpdate",
                    "toolCallId",
                    "toolCall",
                    "status",
                    "options",
                    "optionId",
                    "kind",
                    "outcome",
                    "requestId",
                    "content",
                    "text",
                    "stopReason",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "id": json_values,
        "method": st.sampled_from(
            [
                *module.OPENS,
                *module.ENDS,
                *module.CANCELLED,
                "session/prompt",
                "session/update",
                "$/cancel_request",
                "x",
            ]
        )
        | json_values,
        "params": json_values,
        "result": json_values,
        "error": json_values,
    },
)


@given(st.lists(st.tuples(st.booleans(), messages), max_size=30))
def test_no_message_of_any_shape_stops_the_reading(sent: list[tuple[bool, Json]]) -> None:
    talk = Dialogue(Session(None, attended=False))
    talk._begin("s")
    for by_client, message in sent:
        line = json.dumps(message).encode()
        (talk.from_client if by_client else talk.from_agent)([line])
        talk.may_end()
        for session in talk.sessions.values():
            json.dumps(session.as_json(interruptible=True))
            talk.waits_of(session)


@given(
    st.lists(
        st.sampled_from(
            [b'{"id":7,"result":{}}', b'{"id":"7","result":1}', b'{"id":7,"method":"x"}', b"[]", b"{"]
        )
    ),
    st.lists(st.integers(min_value=0), max_size=12),
)
def test_one_late_answer_is_kept_back_and_nothing_else_however_the_stream_is_cut(
    lines: list[bytes], places: list[int]
) -> None:
    talk = Dialogue(Session(None, attended=False))
    talk._begin("s")
    talk.from_agent([b'{"id":7,"method":"session/request_permission","params":{"sessionId":"s"}}'])
    assert talk.answer(7)
    assert not talk.answer(7)
    stream = b"".join(line + b"\n" for line in lines)
    marks = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    sieve = Sieve(talk.may_be_late, talk.is_late, talk.may_become_late)
    passed = (
        b"".join(sieve.feed(stream[start:end]) for start, end in itertools.pairwise(marks)) + sieve.rest()
    )
    if lines and lines[0] != b"{":
        expected = list(lines)
        if b'{"id":7,"result":{}}' in expected:
            expected.remove(b'{"id":7,"result":{}}')
        assert passed == b"".join(line + b"\n" for line in expected)


def test_an_id_that_is_used_again_is_answered_by_the_client() -> None:
    talk = Dialogue(Session(None, attended=False))
    talk._begin("s")
    question = b'{"id":7,"method":"session/request_permission","params":{"sessionId":"s"}}'
    talk.from_agent([question])
    talk.answer(7)
    talk.from_agent([question])
    assert not talk.is_late(b'{"id":7,"result":{}}')


def test_a_question_that_the_agent_withdraws_is_a_wait_no_more() -> None:
    talk = Dialogue(Session(None, attended=False))
    session = talk._begin("s")
    assert session
    talk.from_client([b'{"id":1,"method":"session/prompt","params":{"sessionId":"s"}}'])
    talk.from_agent([b'{"id":7,"method":"elicitation/create","params":{"requestId":1}}'])
    assert session.turns.waiting_for == "question"
    talk.from_agent([b'{"method":"$/cancel_request","params":{"requestId":7}}'])
    assert session.turns.waiting_for is None


def test_what_is_awaited_and_listed_is_bounded() -> None:
    talk = Dialogue(Session(None, attended=False))
    for number in range(3000):
        talk.from_client([b'{"id":%d,"method":"session/new"}' % number])
        talk.from_agent([b'{"id":%d,"result":{"sessionId":"s%d"}}' % (number, number)])
        talk.from_client([b'{"id":"p%d","method":"session/prompt","params":{"sessionId":"s0"}}' % number])
        talk.from_agent([b'{"id":%d,"method":"fs/read","params":{"sessionId":"s0"}}' % number])
    assert len(talk.sessions) == module.MOST_SESSIONS
    assert "s0" in talk.sessions, "a turn runs there"
    assert "s2999" in talk.sessions
    assert len(talk._of_agent) <= module.MOST_ASKED
    assert len(talk._of_client) <= module.MOST_ASKED


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            b'{"id":3,"method":"m","params":{"a":"x,{[\\"","b":[1,{"c":"',
            {"id": 3, "method": "m", "params": {"a": 'x,{["', "b": [1]}},
        ),
        (b'{"a":[[1,2],3],"b":"', {"a": [[1, 2], 3]}),
        (b'{"a":"', {}),
        (b"[" * 1000, {}),
        (b"\xff", {}),
    ],
)
def test_of_a_line_that_is_cut_off_what_is_whole_is_read(line: bytes, found: Json) -> None:
    assert beginning(line + b"x" * module.ACP_LINE) == found


def test_a_recorded_conversation_of_an_agent_that_tells_of_a_tool_only_when_it_has_ended() -> None:
    talk = Dialogue(Session(None, attended=False))
    seen: list[Seen] = []
    for line in (RECORDINGS / "gemini" / "0.61.0" / "acp" / "rpc.jsonl").read_text().splitlines():
        entry = json.loads(line)
        (talk.from_client if entry["dir"] == "->" else talk.from_agent)([json.dumps(entry["m"]).encode()])
        for one in talk.sessions.values():
            now = (one.turn is not None, one.turns.waiting_for, list(one.turns.calls.values()), one.progress)
            seen += [now] if now not in seen[-1:] else []
    answered: list[Seen] = [
        (False, None, [], 0),
        (True, None, [], 1),
        (True, None, [], 2),
        (False, None, [], 2),
    ]
    hung: list[Seen] = [(True, None, [], 3), (False, None, [], 3)]
    asked: list[Seen] = [
        (True, None, [], 4),
        (True, None, [], 5),
        (True, None, [], 6),
        (True, "permission", [], 6),
    ]
    ran: list[Seen] = [(True, None, ["execute"], 6), (True, None, [], 7), (False, None, [], 7)]
    again: list[Seen] = [(True, None, [], 8), (True, None, [], 9), (False, None, [], 9)]
    assert seen == answered + hung + asked + ran + again
