"""What counts as progress in what the agent says, line by line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.host import LINE_LIMIT, Answers, Conversation, Session

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]


class Heard:
    """A conversation, and what is known after it."""

    def __init__(self) -> None:
        self.session = Session(None, attended=False)
        self.conversation = Conversation(self.session, Answers(hide_states=True))

    def says(self, *messages: Json) -> None:
        self.conversation.from_agent(passing(messages))

    def is_told(self, *messages: Json) -> None:
        self.conversation.from_client(passing(messages))


def passing(messages: Iterable[Json]) -> list[bytes]:
    """Spell messages as far as they are looked at."""
    return [json.dumps(message).encode()[:LINE_LIMIT] for message in messages]


def state(name: str) -> Json:
    return {"type": "system", "subtype": "session_state_changed", "state": name}


def content(kind: str, **block: object) -> Json:
    return {"type": kind, "message": {"role": kind, "model": "a-model", "content": [block]}}


def streamed(**event: object) -> Json:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None}


DELTA = streamed(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "new"})
SYNTHETIC = {"type": "assistant", "message": {"model": "<synthetic>", "content": []}}


@pytest.fixture
def heard() -> Heard:
    heard = Heard()
    heard.says(state("running"))
    return heard


@pytest.mark.parametrize(
    "message",
    [
        DELTA,
        content("assistant", type="text", text="hello"),
        content("assistant", type="tool_use", name="Bash"),
        content("user", tool_use_id="toolu_1", type="tool_result", content="done"),
        {**DELTA, "parent_tool_use_id": "toolu_1"},
        {**content("assistant", type="text", text="x" * 100_000)},
    ],
)
def test_work_is_progress(heard: Heard, message: Json) -> None:
    before = heard.session.progress
    heard.says(message)
    assert heard.session.progress == before + 1


@pytest.mark.parametrize(
    "message",
    [
        streamed(type="message_start", message={"content": []}),
        streamed(type="ping"),
        streamed(type="content_block_start", content_block={"type": "text", "text": ""}),
        streamed(type="content_block_delta", delta={"type": "text_delta", "text": ""}),
        streamed(type="content_block_delta", delta={"type": "signature_delta", "signature": "c2ln"}),
        streamed(type="message_stop"),
        SYNTHETIC,
        content("user", type="text", text="[Request interrupted by user]"),
        {"type": "system", "subtype": "api_retry", "attempt": 1},
        {"type": "system", "subtype": "status", "status": "requesting"},
        {"type": "system", "subtype": "init", "session_id": "s"},
        {"type": "tool_progress", "elapsed_time_seconds": 3},
        {"type": "keep_alive"},
        {"type": "control_request", "request_id": "r", "request": {"subtype": "can_use_tool"}},
        {"type": "result", "is_error": False},
        {"type": "a new kind"},
        state("running"),
    ],
)
def test_a_sign_of_life_is_no_progress(heard: Heard, message: Json) -> None:
    before = heard.session.progress
    heard.says(message)
    assert heard.session.progress == before


def test_a_new_turn_is_progress() -> None:
    heard = Heard()
    heard.is_told(content("user", type="text", text="hello"))
    assert heard.session.turn
    assert heard.session.progress == 1
    heard.says(state("running"))
    assert heard.session.progress == 1


def test_only_a_request_for_a_permission_is_waiting(heard: Heard) -> None:
    for subtype in ("hook_callback", "mcp_message", "initialize"):
        heard.says({"type": "control_request", "request_id": "r0", "request": {"subtype": subtype}})
    heard.says({"type": "control_request", "request_id": "r0", "request": {"subtype": "x" * 100_000}})
    quoting = {"subtype": "mcp_message", "message": {"subtype": "can_use_tool"}}
    heard.says({"type": "control_request", "request_id": "r0", "request": quoting})
    assert heard.session.turns.waiting_for is None


@pytest.mark.parametrize("size", [10, 200_000])
def test_a_permission_is_seen_and_its_end_too_however_large_it_is(heard: Heard, size: int) -> None:
    request = {"subtype": "can_use_tool", "tool_name": "Write", "input": {"content": "x" * size}}
    heard.says({"type": "control_request", "request_id": "r1", "request": request})
    asked = heard.session.turns.waiting_for
    response = {"subtype": "success", "request_id": "r1", "response": {"updatedInput": "x" * size}}
    heard.is_told({"type": "control_response", "response": response})
    assert (asked, heard.session.turns.waiting_for) == ("permission prompt", None)


def test_a_withdrawn_permission_is_waited_for_no_more(heard: Heard) -> None:
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}}
    heard.says({"type": "control_request", "request_id": "r1", "request": request})
    heard.says({"type": "control_cancel_request", "request_id": "r1"})
    assert heard.session.turns.waiting_for is None


def test_the_newest_beginning_names_the_session(heard: Heard) -> None:
    heard.says({"type": "assistant", "message": {}, "session_id": "one"})
    heard.says({"type": "assistant", "message": {}, "session_id": "of-a-subagent"})
    first = heard.session.id
    heard.says({"type": "system", "subtype": "init", "session_id": "two"})
    assert (first, heard.session.id) == ("one", "two")


def test_what_is_no_message_changes_nothing(heard: Heard) -> None:
    before = heard.session.as_json(interruptible=True)
    odd = [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"type":7}',
        b'{"type":"system","subtype":[]}',
        b"\xff",
        b'{"type":"result"',
    ]
    odd += [b'{"type":"control_response","response":7}', b'{"type":"control_request","request_id":{}}']
    odd += [
        b'{"type":"system","subtype":"background_tasks_changed","tasks":7}',
        b'{"type":"control_response"',
    ]
    heard.conversation.from_agent(odd)
    heard.conversation.from_client([line for line in odd if b"result" not in line])
    assert heard.session.as_json(interruptible=True) == before
