"""Captured streams: their clock, both their shapes, and the command that replays them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sidecar import cli
from sidecar import signals as g
from sidecar.agents.opencode import records as r
from sidecar.agents.opencode.recording import Recording
from tests.agents.opencode.stream import event, session_info
from tests.expected import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

CASES = ROOT / "opencode" / "1.18.33"
PAIRS = json.loads(Path(__file__).with_name("rest.json").read_text())


def captured(path: Path, *events: tuple[float, bytes], rest: str = "") -> Path:
    lines = [json.dumps({"t": t, "data": json.loads(data)}) for t, data in events]
    path.write_text("".join(f"{line}\n" for line in lines) + rest)
    return path


def shape(seen: Sequence[g.Observation]) -> list[tuple[str, str]]:
    return [(o.session, type(o.signal).__name__) for o in seen if not isinstance(o.signal, g.Records)]


def test_the_first_creation_says_when_it_was(tmp_path: Path) -> None:
    created = event("session.created", sessionID="ses_1", info=session_info(created=5_000_000.0))
    path = captured(
        tmp_path / "x.jsonl", (1.0, event("server.connected")), (3.0, created), rest='{"t": 4, "da'
    )
    assert {o.signal.at for o in Recording([path]).observations()} == {5000.0}


def test_without_one_it_was_at_the_epoch(tmp_path: Path) -> None:
    asked = event("message.updated", sessionID="ses_1", info={"id": "msg_1", "role": "user"})
    path = captured(tmp_path / "x.jsonl", (3.0, asked), (9.0, event("server.heartbeat")))
    at = [o.signal.at for o in Recording([path]).observations()]
    assert at[0] == 3.0
    assert at[-1] == 9.0, "the silence behind the last event was seen too"


def test_nothing_is_no_error(tmp_path: Path) -> None:
    assert Recording([captured(tmp_path / "x.jsonl", rest="\n{}\nnot json\n")]).observations() == []


def test_both_streams_tell_the_same() -> None:
    one, all_of_them = (Recording([CASES / case]).observations() for case in ("plain", "plain_global"))
    assert shape(one) == shape(all_of_them)


def test_the_command_replays_them(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "--agent", "opencode", "--json", str(CASES / "hole"), "--until", "+20m")
    (session, summary) = found
    assert session["turns"]["interrupted"] == 1
    assert summary["summary"]["turns"] == {"interrupted": 1, "open": 0}


def test_a_hang_that_was_captured_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (CASES / "hole" / "events.jsonl").read_text().splitlines()
    path = tmp_path / "hang.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines if json.loads(line)["t"] < 20))
    config = tmp_path / "config.yaml"
    config.write_text("agents: [{kind: redcode, url: 'http://127.0.0.1:4096'}]")
    for agent, after, *words in (("opencode", "15m"), ("redcode", "10m", "--config", str(config))):
        session, _ = run(capsys, "--agent", agent, "--json", str(path), "--until", "+30m", *words)
        (verdict,) = [v for v in session["verdicts"] if v["bound"] == "model"]
        assert f"limit {after}00s" in verdict["reason"]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert cli.main(["replay", *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


GOT = [p for p in PAIRS if p["request"]["method"] == "GET" and p["status"] == 200]


@pytest.mark.parametrize("pair", GOT, ids=[f"{n} {p['request']['path']}" for n, p in enumerate(GOT)])
def test_what_a_real_server_answered_can_be_read(pair: dict[str, Any]) -> None:
    path, body = pair["request"]["path"].partition("?")[0], json.dumps(pair["response"]).encode()
    if path == "/session/status":
        assert {word.type for word in r.words(body).values()} == {"busy"}
    elif path in ("/permission", "/question"):
        assert all(asked.session_id and asked.tool for asked in r.requests(body))
    elif path.endswith("/message"):
        (message,) = r.messages(body)
        assert message.info.parent_id
        assert [part.type for part in message.parts] == ["step-start", "text", "tool"]
    elif path in ("/session", "/experimental/session"):
        assert all(info.directory and info.time.updated for info in r.infos(body))
    elif path == "/global/health":
        assert r.health(body).version == "1.18.33"
