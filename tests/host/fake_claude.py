"""A stand-in for Claude Code in stream-json: what a prompt does is its first word.

    text WORDS     answers, word by word              hole        says nothing more until it is interrupted
    tool           runs a tool until told to finish   ask         asks for a permission and waits
    retry          reports provider retries           fail        ends with an error
    deaf           a hole that ignores interrupts     stubborn    a hole that refuses interrupts
    background     leaves a task running behind       rerun WORDS streams half of it, retries, streams it all
    exit STATUS    leaves in mid-turn                 die SIGNAL  is killed in mid-turn
    quiet WORDS    answers without partial messages   flood COUNT that many deltas, as fast as they go

`{"type":"fake","do":"finish"}` on stdin ends the tool or the task. A closed stdin ends it when it is idle.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]
SESSION = "5e55-10n/é"  # needs percent-encoding in a path


class Fake:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.tells_states = (
            os.environ.get("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") == "1" and not options.mute
        )
        self.running = ""  # the first word of the prompt that runs
        self.queue: list[str] = []
        self.behind = False
        self.asked = 0
        home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path(os.environ["HOME"], ".claude"))
        self.registration = home / "sessions" / f"{os.getpid()}.json"

    def say(self, message: Json) -> None:
        spaced = (", ", ": ") if self.options.spaced else (",", ":")
        sys.stdout.write(json.dumps(message, separators=spaced) + "\n")
        sys.stdout.flush()

    def state(self, state: str) -> None:
        if self.options.register:
            self.register({"running": "busy", "requires_action": "waiting"}.get(state, state))
        if self.tells_states:
            message = {"type": "system", "subtype": "session_state_changed", "state": state}
            self.say({**message, "session_id": self.options.session})

    def register(self, status: str) -> None:
        self.registration.parent.mkdir(parents=True, exist_ok=True)
        started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        entry = {
            "pid": os.getpid(),
            "sessionId": self.options.session,
            "procStart": started,
            "status": status,
        }
        if status == "waiting":
            entry["waitingFor"] = "permission prompt"
        self.registration.write_text(json.dumps({**entry, "statusUpdatedAt": int(time.time() * 1000)}))

    def event(self, event: Json) -> None:
        self.say({"type": "stream_event", "event": event, "parent_tool_use_id": None})

    def delta(self, word: str) -> None:
        delta = {"type": "text_delta", "text": word}
        self.event({"type": "content_block_delta", "index": 0, "delta": delta})

    def message(self, **block: object) -> None:
        message = {"role": "assistant", "model": "a-model", "content": [block]}
        self.say({"type": "assistant", "message": message, "session_id": self.options.session})

    def result(self, **fields: object) -> None:
        # The real one puts its type somewhere in the middle.
        self.say({"duration_api_ms": 1, "is_error": False, "subtype": "success", **fields, "type": "result"})

    def prompt(self, text: str) -> None:
        if self.running:
            self.queue.append(text)
            return
        self.state("running")
        self.run(text)

    def run(self, text: str) -> None:
        verb, _, rest = text.partition(" ")
        self.running = verb
        self.say({"type": "system", "subtype": "init", "session_id": self.options.session, "tools": []})
        act = getattr(self, f"do_{verb}", None)
        if act:
            act(rest)

    def end(self, **result: object) -> None:
        self.result(**result)
        self.running = ""
        if self.queue:
            self.run(self.queue.pop(0))
        else:
            self.state("idle")

    def do_text(self, rest: str) -> None:
        self.event({"type": "message_start"})
        for word in rest.split(" "):
            self.delta(word)
        self.message(type="text", text=rest)
        self.event({"type": "message_stop"})
        self.end(result=rest)

    def do_rerun(self, rest: str) -> None:
        words = rest.split(" ")
        self.event({"type": "message_start"})
        for word in words[: len(words) // 2]:
            self.delta(word)
        self.event({"type": "message_start"})
        for word in words[: len(words) // 2]:
            self.delta(word)

    def do_quiet(self, rest: str) -> None:
        self.message(type="text", text=rest)
        self.end(result=rest)

    def do_flood(self, rest: str) -> None:
        self.event({"type": "message_start"})
        for number in range(int(rest)):
            self.delta(f"word {number} ")
        self.end(result="flooded")

    def do_tool(self, _rest: str) -> None:
        self.message(type="tool_use", id="toolu_1", name="Bash", input={})

    def do_ask(self, _rest: str) -> None:
        self.asked += 1
        request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}}
        self.state("requires_action")
        self.say({"type": "control_request", "request_id": f"ask-{self.asked}", "request": request})

    def do_retry(self, _rest: str) -> None:
        for attempt in range(3):
            self.say({"type": "system", "subtype": "api_retry", "attempt": attempt})
        self.event({"type": "ping"})

    def do_fail(self, _rest: str) -> None:
        self.message(type="text", text="API Error: 400")
        self.end(is_error=True, result="API Error: 400")

    def do_background(self, _rest: str) -> None:
        self.behind = True
        tasks: Json = {"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_id": "b1"}]}
        self.say(tasks)
        self.end(result="left behind")

    def do_exit(self, rest: str) -> None:
        sys.exit(int(rest))

    def do_die(self, rest: str) -> None:
        os.kill(os.getpid(), getattr(signal, rest))

    def interrupt(self, request: str) -> None:
        if self.running == "deaf":
            return
        response: Json = {"subtype": "success", "request_id": request, "response": {"still_queued": []}}
        if self.running == "stubborn":
            response = {"subtype": "error", "request_id": request, "error": "not today"}
        if self.running == "ask":
            self.say({"type": "control_cancel_request", "request_id": f"ask-{self.asked}"})
        self.say({"type": "control_response", "response": response})
        if self.running and self.running != "stubborn":
            if self.running == "tool":
                self.tool_result("rejected")
            text = {"type": "text", "text": "[Request interrupted by user]"}
            self.say({"type": "user", "message": {"role": "user", "content": [text]}})
            self.end(is_error=True, subtype="error_during_execution", result=None)

    def tool_result(self, content: str) -> None:
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
        self.say({"type": "user", "message": {"role": "user", "content": [block]}})

    def finish(self) -> None:
        if self.behind:
            self.behind = False
            self.say({"type": "system", "subtype": "background_tasks_changed", "tasks": []})
        elif self.running == "tool":
            self.tool_result("done")
            self.do_text("after the tool")
        elif self.running == "ask":
            self.state("running")
            self.tool_result("done")
            self.do_text("allowed")

    def print(self) -> None:
        verb, _, rest = self.options.print.partition(" ")
        if self.options.register:
            self.register("busy")
        while verb == "hole":
            select.select([], [], [], 0.05)
        sys.stdout.write(rest + "\n")

    def hear(self, line: bytes) -> None:
        message = json.loads(line)
        if message["type"] == "user":
            self.prompt(message["message"]["content"])
        elif message["type"] == "control_request":
            self.interrupt(message["request_id"])
        elif message["type"] == "control_response" or message.get("do") == "finish":
            self.finish()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--session", default=SESSION)
    parser.add_argument("--mute", action="store_true", help="tell no states on stdout")
    parser.add_argument("--register", action="store_true", help="write the registration")
    parser.add_argument("--spaced", action="store_true", help="put blanks into the JSON")
    parser.add_argument("--record", type=Path, help="write what comes in there")
    parser.add_argument("--stay", action="store_true", help="outlive the end of stdin")
    parser.add_argument("--unkillable", action="store_true", help="ignore SIGTERM too")
    parser.add_argument("--print", metavar="PROMPT", help="text mode: answer this prompt and leave")
    fake = Fake(parser.parse_args())
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    signal.signal(signal.SIGTERM, signal.SIG_IGN if fake.options.unkillable else lambda *_: os._exit(143))
    if fake.options.register:
        fake.register("idle")
    if fake.options.print:
        fake.print()
        return
    for line in sys.stdin.buffer:
        if fake.options.record:
            with fake.options.record.open("ab") as record:
                record.write(line)
        fake.hear(line)
    while fake.running or fake.options.stay or fake.options.unkillable:
        select.select([], [], [], 0.05)  # signal.pause() would miss a signal that comes just before it


if __name__ == "__main__":
    main()
