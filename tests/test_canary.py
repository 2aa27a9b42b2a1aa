"""Never content: a word planted in every place of the recordings that holds some comes out nowhere.

Two things are checked of the planting itself, so that silence means something: the word is in the files many
times over, and the planted recordings give the very same signals and session objects as those beside them.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
import urllib.request
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from sidecar import cli
from sidecar.agents.registry import KINDS
from sidecar.config import load
from sidecar.service import Service
from sidecar.sources.process import pid_namespace, start_ticks
from tests.expected import ROOT, cases, sessions, signals
from tests.telemetry.collector import over_http

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from tests.telemetry.collector import Received

Json = dict[str, Any]

WORD = "canary_c0ffee"  # would pass for the name of a tool or a model, were it taken for one
CASES = cases()
NAMES = ["/".join(case.parts[-3:]) for case in CASES]
KIND = "claude-code"  # the one that is read from files: a folder of its recordings is all that it takes
FILES = [case for case in CASES if case.parts[-3] == KIND]

# What the decoders need as it is: ids, types, times, and words of closed sets.
RECORD = {
    *("type", "subtype", "timestamp", "sessionId", "uuid", "parentUuid", "version", "entrypoint"),
    *("agentId", "promptId", "promptSource", "turnOrigin", "apiError", "toolDenialKind"),
}
MESSAGE = {"id", "model", "role", "stop_reason", "type"}
BLOCK = {"id", "type", "tool_use_id"}
REGISTRATION = {
    *("sessionId", "procStart", "pidDomain", "version", "kind", "entrypoint"),
    *("status", "waitingFor"),
}
EVENT = {
    *("id", "type", "sessionID", "messageID", "callID", "partID", "parentID", "aggregateID"),
    *("sessionId", "parentSessionId", "role", "tool", "status", "modelID", "providerID", "name"),
    *("version", "finish", "field", "reason", "permission"),
}
STREAM = {
    *("t", "type", "sessionId", "promptId", "sessionUpdate", "stopReason", "serverTimestamp"),
    *("event", "run_id", "timestamp", "toolCallId", "toolName", "kind", "status", "phase"),
}
ASKED = ("input", "output", "raw")  # whatever is in these, under whatever name, is somebody's words
# Beginnings by which a decoder tells one text from another; the word follows them.
BEGINNINGS = re.compile(r"\[Request interrupted by user|<[a-z-]+>|You've hit your [\w-]+ limit|stub 5\d\d|")


def tainted(value: Any) -> Any:
    """Every text in it is the word now, behind a beginning that matters, and long as it was or longer."""
    if isinstance(value, str):
        beginning = BEGINNINGS.match(value)
        told = beginning.group() if beginning else ""
        return f"{told}{WORD}{'x' * (len(value) - len(told))}" if value else ""
    if isinstance(value, list):
        return [tainted(part) for part in value] or [WORD]
    if isinstance(value, dict):
        return {key: tainted(part) for key, part in value.items()} | {WORD: WORD}
    return value


def kept(value: Json, keys: set[str]) -> Json:
    """A map with some of its entries as they were, and one more that nobody knows."""
    return {key: part if key in keys else tainted(part) for key, part in value.items()} | {WORD: WORD}


def of_claude_code(record: Json) -> Json:
    made = kept(record, RECORD)
    message = record.get("message")
    if isinstance(message, dict):
        made["message"] = kept(message, MESSAGE)
        if isinstance(message.get("content"), list):
            made["message"]["content"] = [block_of(block) for block in message["content"]]
    result = record.get("toolUseResult")
    if isinstance(result, dict):
        made["toolUseResult"] = kept(result, {"status"})
    return made


def block_of(block: Json) -> Json:
    made = kept(block, BLOCK | ({"name"} if block["type"] == "tool_use" else set()))
    if isinstance(block.get("input"), dict):
        made["input"] = tainted(block["input"] | {"type": "text", "name": "x", "status": "x", "id": "x"})
    return made


def of_events(value: Any, key: str = "") -> Any:
    """An event and all that it holds: what stays does so under its name, wherever it is."""
    if isinstance(value, dict) and value.get("type") == "retry":  # its message says why it is retried
        return {name: part if name == "message" else of_events(part, name) for name, part in value.items()}
    if isinstance(value, dict) and key not in ASKED:
        return {name: of_events(part, name) for name, part in value.items()} | unknown(value)
    if isinstance(value, list):
        return [of_events(part, key) for part in value]
    return value if key in EVENT else tainted(value)


def unknown(value: Json) -> Json:
    """An entry more that nobody knows, but not in a map whose keys are ids, or would be."""
    return {WORD: WORD} if value and not any(name.startswith("ses_") for name in value) else {}


def of_listing(record: Json) -> Json:
    """What a box could tell beside what is asked for: all of it is content."""
    if "data" not in record:
        return record
    extra = dict.fromkeys(("title", "prompt", "reply", "detail"), WORD)
    listed = [entry | extra for entry in record["data"]["sessions"]]
    return record | {"data": record["data"] | extra | {"sessions": listed}}


def of_stream(value: Any) -> Any:
    """An event of a stream by template: what the presets read of it stays, the rest is content."""
    if isinstance(value, dict):
        return {k: v if k in STREAM else of_stream(v) for k, v in value.items()} | {WORD: [WORD] * 3}
    return tainted(value)


def of_box(record: Json) -> Json:
    """A line of any of the files of a recorded box."""
    if "data" in record:
        return of_listing(record)
    if "file" not in record:
        return of_claude_code(record) | ({"cwd": record["cwd"]} if "cwd" in record else {})
    extra = dict.fromkeys(("title", "prompt", "reply", "detail"), WORD)
    if record["content"] is None:
        return record | extra
    told = json.loads(record["content"])
    return record | extra | {"content": json.dumps(kept(told, REGISTRATION | {"cwd"}))}


PLANT: dict[str, Callable[[Json], Json]] = {
    "claude-code": of_claude_code,
    "opencode": of_events,
    "redcode": of_events,
    "qwen-serve": of_stream,
    "hermes-runs": of_stream,
    "kbc-box": of_box,
}
"""How to plant in the recordings of each agent; one that is missing here is not checked, so that fails."""


def lines_of(path: Path, kind: str) -> list[Json]:
    return [PLANT[kind](json.loads(line)) for line in path.read_text().splitlines()]


def transcripts(case: Path) -> list[Path]:
    return sorted(case.rglob("*.jsonl"))


def copy(case: Path, to: Path) -> Path:
    """The case with the word in it, under the same three names."""
    made = to.joinpath(*case.parts[-3:])
    for path in transcripts(case):
        target = made / path.relative_to(case)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(json.dumps(record) + "\n" for record in lines_of(path, case.parts[-3])))
    for path in case.rglob("*.meta.json"):
        (made / path.relative_to(case)).write_text(json.dumps(tainted(json.loads(path.read_text()))))
    return made


def planted_often(folder: Path) -> bool:
    """Whether each line of the transcripts below has it several times over."""
    texts = [path.read_text() for path in folder.rglob("*.jsonl")]
    return sum(text.count(WORD) for text in texts) >= 4 * sum(text.count("\n") for text in texts) > 0


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_replay_tells_the_same_and_none_of_it(
    case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = copy(case, tmp_path)
    assert planted_often(made)
    assert signals(made) == (case / "expected.signals").read_text().splitlines()
    assert sessions(made) == json.loads((case / "expected.sessions.json").read_text())
    drawn = tmp_path / "drawn.html"
    for option in ("--json", "--until=+3h", f"--html={drawn}"):
        assert cli.main(["replay", "--agent", case.parts[-3], option, str(made)]) == 0
    shown = capsys.readouterr()
    told = json.loads((case / "expected.sessions.json").read_text())
    assert all(session["session"] in shown.out for session in told)
    assert WORD not in shown.out + shown.err + caplog.text + drawn.read_text()


class Home:
    """A configuration folder that grows as the recordings did, a piece of every file at a time."""

    PIECES = 6

    def __init__(self, root: Path) -> None:
        self.root = root
        self.left: list[tuple[Path, Iterator[list[Json]]]] = []
        self.sessions: list[str] = []
        self.lines = 0
        (root / "sessions").mkdir(parents=True)
        for case in FILES:
            for path in transcripts(case):
                records = [*lines_of(path, KIND), {"type": WORD, "content": WORD}]
                size = -(-len(records) // self.PIECES)
                pieces = iter([records[at : at + size] for at in range(0, len(records), size)])
                self.left.append((root / "projects" / f"-{WORD}" / path.relative_to(case), pieces))
            (top,) = case.glob("*.jsonl")
            self.sessions.append(top.stem)
        self.register("busy")
        (root / "sessions" / "1.key").write_text(WORD)
        (root / "history.jsonl").write_text(json.dumps({"display": WORD}) + "\n")

    def register(self, status: str) -> None:
        """Every session is a process that lives: ours."""
        (recorded,) = (json.loads(p.read_text()) for p in ROOT.rglob("permission_pending/registration.json"))
        for number, session in enumerate(self.sessions, 1):
            ours: Json = {
                "pid": os.getpid(),
                "procStart": str(start_ticks(os.getpid())),
                "sessionId": session,
            }
            ours |= {"pidDomain": f"linux:x:{pid_namespace()}", "status": status}
            told = kept(recorded, REGISTRATION) | ours
            (self.root / "sessions" / f"{number}.json").write_text(json.dumps(told))

    def grow(self) -> bool:
        """Write the next piece of every file, with times of now; whether there was any."""
        grown = False
        for path, pieces in self.left:
            for record in next(pieces, []):
                self._append(path, json.dumps(stamped(record)).encode() + b"\n")
                grown = True
        return grown

    def go_on(self) -> None:
        """Write one more block into every session, after the silence in which it was judged."""
        for path, _ in self.left:
            block = {"type": "text", "text": WORD}
            record = {
                "type": "assistant",
                "sessionId": path.stem,
                "timestamp": "",
                "message": {"content": [block]},
            }
            self._append(path, json.dumps(stamped(record)).encode() + b"\n")

    def spoil(self) -> None:
        """End every file with what is no record, and with the beginning of one."""
        for path, _ in self.left:
            self._append(path, f'{{"type":"user","message":{{"content":"{WORD}\n'.encode())
            self._append(path, f'{{"type":"{WORD}"'.encode())

    def _append(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
        self.lines += data.count(b"\n")


def stamped(record: Json) -> Json:
    if isinstance(record.get("timestamp"), str):
        return record | {"timestamp": datetime.now(UTC).isoformat(timespec="milliseconds")}
    return record


class Running:
    """A whole sidecar that acts, by commands that do nothing, on bounds of a second."""

    def __init__(self, root: Path, endpoint: str | None) -> None:
        self.home = Home(root / WORD)
        self.state = root / "state"
        self.config = root / "config.yaml"
        self.stream = io.StringIO()
        control = {"kind": "exec", "interrupt": ["true", "{reason}"], "reap": ["false"]}
        agent = {"kind": "claude-code", "config_dir": str(self.home.root), "control": control}
        seconds = dict.fromkeys(("model", "waiting", "retrying", "idle_in_turn", "compacting"), "1s")
        told: Json = {
            "mode": "enforce",
            "listen": "127.0.0.1:0",
            "state_dir": str(self.state),
            "agents": [agent],
            "bounds": {"unsafe": True, "tool": {"*": "1s"}, "idle": {"limit": "1s", "action": "reap"}}
            | seconds,
            "actions": {"jitter": 0, "grace": "1s", "max": 1000},
            "metrics": {"per_session": True},
            "telemetry": {"turn_progress": True, "liveness_after": "1s"},
        }
        if endpoint is not None:
            told["telemetry"]["otlp"] = {"endpoint": endpoint}
        self.config.write_text(json.dumps(told))
        self.service = Service(load(self.config, {"HOME": str(root)}, KINDS), self.stream)

    async def get(self, path: str, accept: str = "*/*") -> str:
        """What the API answers; of a stream, what there is at first."""
        request = urllib.request.Request(f"{self.url}{path}", headers={"Accept": accept})

        def ask() -> bytes:
            with urllib.request.urlopen(request, timeout=10) as answer:
                if path != "/api/events":
                    return bytes(answer.read())
                return b"".join(iter(answer.readline, b"event: listed\n"))

        return (await asyncio.to_thread(ask)).decode()

    @property
    def url(self) -> str:
        return f"http://{self.service.server.address}"

    async def read_all(self) -> None:
        """Wait until every line that was written has been read."""
        await until(lambda: self._read() == self.home.lines, "every line is read")

    def _read(self) -> int:
        metrics = self.service.telemetry.render("")[0].decode()
        rows = re.findall(r"^agent_sidecar_records_total\{.*\} (\S+)$", metrics, re.MULTILINE)
        return sum(int(float(row)) for row in rows)


async def until(check: Any, what: str) -> None:
    try:
        async with asyncio.timeout(20):
            while not check():  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"not within 20 s: {what}")


@asynccontextmanager
async def running(root: Path, endpoint: str | None) -> AsyncIterator[Running]:
    made = Running(root, endpoint)
    stop, up = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(made.service.run(stop, up.set))
    await up.wait()
    try:
        yield made
    finally:
        stop.set()
        await task


async def shown(sidecar: Running, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Everything that can be asked of a running sidecar, by what was asked."""
    openmetrics = "application/openmetrics-text; version=1.0.0"
    found = {
        path: await sidecar.get(path) for path in ("/", "/metrics", "/healthz", "/readyz", "/api/events")
    }
    found["/metrics, the other format"] = await sidecar.get("/metrics", openmetrics)
    found["/api/sessions"] = await sidecar.get("/api/sessions")
    commands = [["sessions"], ["sessions", "--json"]]
    for session in [s["session"] for s in json.loads(found["/api/sessions"])["sessions"]]:
        found[session] = await sidecar.get(f"/api/sessions/{session}?explain=1")
        commands += [["explain", session], ["explain", "--json", session]]
    explained = 0
    for command in commands:
        words = [*command, "--url", sidecar.url, "--config", str(sidecar.config)]
        done = await asyncio.to_thread(cli.main, words)
        assert done == 0 or command[0] == "explain", "only a session may end meanwhile"
        explained += command[0] == "explain" and done == 0
        found[" ".join(command)] = capsys.readouterr().out
    assert explained
    return found


@pytest.mark.parametrize("collector", [False, True], ids=["lines", "otlp"])
async def test_a_running_sidecar_tells_none_of_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    *,
    collector: bool,
) -> None:
    caplog.set_level(logging.DEBUG)
    with over_http() as received:
        async with running(tmp_path, received.url if collector else None) as sidecar:
            while sidecar.home.grow():
                await sidecar.read_all()
            acted = re.compile(r'ai_agent_actions_total\{action="interrupt",.*outcome="ineffective"\} [1-9]')
            await until(lambda: acted.search(sidecar.service.telemetry.render("")[0].decode()), "an act")
            sidecar.home.go_on()
            await until(lambda: '"turn.progress"' in sidecar.stream.getvalue(), "progress after a silence")
            sidecar.home.spoil()
            sidecar.home.register("waiting")
            await until(lambda: _waits(sidecar), "every registration is read again")
            found = await shown(sidecar, capsys)
            checked = await asyncio.to_thread(cli.main, ["check", "--config", str(sidecar.config)])
            assert checked == 0
            # The folder of the configuration is named by whoever configured it, and `check` names it back.
            found["check"] = capsys.readouterr().out.replace(str(sidecar.home.root), "")
        found["stderr"] = capsys.readouterr().err
        found["lines"] = sidecar.stream.getvalue()
        found["journal"] = "".join(p.read_text() for p in sidecar.state.rglob("*") if p.is_file())
        found["log"] = caplog.text
    found["sent"] = "".join(str(request) for request in received.requests)
    assert planted_often(sidecar.home.root)
    complete(sidecar, found, received)
    assert [what for what, text in found.items() if WORD in text] == []


def _waits(sidecar: Running) -> bool:
    listed = {s.id: s for s in sidecar.service.sessions()}
    told = [listed[s].status for s in sidecar.home.sessions if s in listed]
    return bool(told) and all(s is not None and s.word == "waiting" for s in told)


def complete(sidecar: Running, found: dict[str, str], received: Received) -> None:
    """What was searched is what a sidecar says of many turns, tools and acts, not nothing at all."""
    listed = json.loads(found["/api/sessions"])["sessions"]
    assert {s["session"] for s in listed} >= set(sidecar.home.sessions)
    assert sum(sum(s["turns"].values()) for s in listed) > 10
    assert {s["waiting_for"] for s in listed if s["parent"] is None} == {"permission prompt"}
    assert 'kind="unknown"} ' in found["/metrics"]
    events = {json.loads(line)["event"] for line in found["lines"].splitlines()}
    assert events >= {"session.open", "turn.start", "turn.end", "turn.progress"}
    acts = {"turn.stalled", "action.intent", "action.outcome"}
    assert events & acts == (set() if received.requests else acts)
    assert "no progress for" in found["journal"]
    if received.requests:
        names = {span.name.partition(" ")[0] for span in received.spans}
        assert names >= {
            "invoke_agent",
            "chat",
            "execute_tool",
            "agent_sidecar.stall",
            "agent_sidecar.liveness",
        }
        assert received.logs
        assert received.pushes
