"""A stand-in for an agent that speaks the Agent Client Protocol: what a prompt does is its first word.

text WORDS   answers, word by word                    block WORDS  answers in one piece
hole         says nothing more until it is cancelled  deaf         a hole that ignores cancels
ask          asks for a permission and waits          elicit       asks for an input and waits
tool         runs a tool until `fake/finish`          noise        news that are no work, and then a hole
fs           asks for a file and waits                exit STATUS  leaves in mid-turn
grown        a tool call whose output is too long to be read
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]
OPTIONS = [{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]
HISTORY: list[Json] = [
    {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hello"}},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}},
    {"sessionUpdate": "tool_call", "toolCallId": "old", "kind": "edit", "status": "pending"},
]
NOISE: list[Json] = [
    {"sessionUpdate": "available_commands_update", "availableCommands": []},
    {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
    {"sessionUpdate": "usage_update", "used": 1, "size": 2},
    {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hole"}},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}},
    {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": ["completed"], "kind": {}},
    {"sessionUpdate": ["agent_message_chunk"]},
]


class Fake:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.count = 0
        self.prompts: dict[str, list[Json]] = {}  # by session: those without an answer
        self.asked: dict[object, str] = {}  # by the id of a request of ours: the session

    def say(self, **message: object) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def update(self, session: str, update: Json) -> None:
        self.say(method="session/update", params={"sessionId": session, "update": update})

    def piece(self, session: str, text: str) -> None:
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        self.update(session, chunk)

    def call(self, session: str, update: str, status: str, **fields: object) -> None:
        self.update(session, {"sessionUpdate": update, "toolCallId": "t1", **fields, "status": status})

    def ask(self, method: str, session: str, **params: object) -> None:
        name: object = f"ask {len(self.asked)}" if self.options.text_ids else len(self.asked)
        self.asked[name] = session
        self.say(id=name, method=method, params={"sessionId": session, **params})

    def prompt(self, message: Json) -> None:
        session = message["params"]["sessionId"]
        self.prompts.setdefault(session, []).append(message)
        if len(self.prompts[session]) == 1:
            self.run(session)

    def run(self, session: str) -> None:
        verb, _, rest = self.prompts[session][0]["params"]["prompt"][0]["text"].partition(" ")
        act = getattr(self, f"do_{verb}", None)
        if act:
            act(session, rest)

    def end(self, session: str, reason: str = "end_turn") -> None:
        prompt = self.prompts[session].pop(0)
        self.say(id=prompt["id"], result={"stopReason": reason})
        if self.prompts[session]:
            self.run(session)

    def do_text(self, session: str, rest: str) -> None:
        for word in rest.split(" "):
            self.piece(session, word)
        self.end(session)

    def do_block(self, session: str, rest: str) -> None:
        self.piece(session, rest)
        self.end(session)

    def do_noise(self, session: str, _rest: str) -> None:
        for update in NOISE:
            self.update(session, update)
        self.say(id=None, method="fake/noise")

    def do_tool(self, session: str, _rest: str) -> None:
        self.call(session, "tool_call", "in_progress", kind="execute", title="rm -rf CANARY")

    def do_grown(self, session: str, _rest: str) -> None:
        grown = [{"type": "content", "content": {"type": "text", "text": "x" * 3_000_000}}]
        self.call(session, "tool_call", "in_progress", kind="execute")
        update = {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed"}
        self.update(session, {**update, "content": grown})
        self.say(method="fake/grown")

    def do_ask(self, session: str, rest: str) -> None:
        if rest != "untold":
            self.call(session, "tool_call", "pending", kind="execute")
        call = {"toolCallId": "t1", "kind": "execute", "status": "pending"}
        self.ask("session/request_permission", session, toolCall=call, options=OPTIONS)

    def do_elicit(self, session: str, _rest: str) -> None:
        self.ask("elicitation/create", session, mode="form", message="CANARY")

    def do_fs(self, session: str, _rest: str) -> None:
        self.ask("fs/read_text_file", session, path="/CANARY")

    def do_exit(self, _session: str, rest: str) -> None:
        sys.exit(int(rest))

    def cancel(self, session: str) -> None:
        prompts = self.prompts.get(session)
        if prompts and not prompts[0]["params"]["prompt"][0]["text"].startswith("deaf"):
            waiting = session in self.asked.values()
            if not waiting:  # else the answer to the question ends it, as it does in real agents
                self.end(session, "cancelled")

    def answered(self, message: Json) -> None:
        session = self.asked.pop(message["id"], None)
        if session is None:
            self.say(method="fake/stray", params={"id": message["id"]})
            return
        outcome = message["result"].get("outcome", {}).get("outcome", message["result"].get("action"))
        if outcome in ("cancelled", "cancel"):
            self.end(session, "cancelled")
        elif message["result"].get("outcome", {}).get("optionId") == "yes":
            self.say(method="fake/allowed")  # and the tool runs until `fake/finish`
        else:
            self.call(session, "tool_call_update", "failed")
            self.do_text(session, "not then")

    def open(self, message: Json) -> None:
        self.count += 1
        self.say(id=message["id"], result={"sessionId": f"s {self.count}"})

    def load(self, message: Json) -> None:
        for update in HISTORY:
            self.update(message["params"]["sessionId"], update)
        self.say(method="fake/replayed")
        if "hold" not in message["params"]:
            self.say(id=message["id"], result=None)

    def finish(self, session: str) -> None:
        self.call(session, "tool_call_update", "in_progress")
        self.call(session, "tool_call_update", "completed")
        self.piece(session, "done")
        self.end(session)

    def fail(self, session: str) -> None:
        prompt = self.prompts[session].pop(0)
        self.say(id=prompt["id"], error={"code": -32603, "message": "x"})

    def hear(self, message: Json) -> None:
        method = message.get("method")
        requests = {"session/new": self.open, "session/load": self.load, "session/prompt": self.prompt}
        notices = {"session/cancel": self.cancel, "fake/finish": self.finish, "fake/fail": self.fail}
        if method is None and "id" in message:
            self.answered(message)
        elif method in requests:
            requests[method](message)
        elif method in notices:
            notices[method](message["params"]["sessionId"])
        elif method in ("initialize", "session/close"):
            self.say(id=message["id"], result={})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text-ids", action="store_true", help="give our own requests texts for ids")
    parser.add_argument("--record", type=Path, help="write what comes in there")
    fake = Fake(parser.parse_args())
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    for line in sys.stdin.buffer:
        if fake.options.record:
            with fake.options.record.open("ab") as record:
                record.write(line)
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict):
            fake.hear(message)


if __name__ == "__main__":
    main()
