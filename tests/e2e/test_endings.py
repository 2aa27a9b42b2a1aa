"""How a sidecar ends: asked, it says what it still knows and is gone in time; killed, it has lost no reason."""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import sys
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.e2e.claude import Claude, prompt
from tests.e2e.process import until
from tests.e2e.receiver import Receiver
from tests.e2e.sidecar import Sidecar
from tests.e2e.test_main_job import control, hosted
from tests.host.driver import FAKE, Hosted
from tests.telemetry.collector import mute, over_http

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.process import Json

GONE = 5.0  # seconds that a terminated sidecar has
HOSTS = 6
ROUNDS = 10
RELEASE = "the next round begins"
REASON = re.compile(rb"^agent-sidecar: interrupt: (?!%s)(.+)$" % RELEASE.encode(), re.MULTILINE)


def intents(state: Path) -> list[Json]:
    """The journal's intents; a torn last line is none."""
    journal = state / "journal.jsonl"
    lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
    return [entry for line in lines if line and (entry := json.loads(line))["event"] == "intent"]


def arrived(hosts: list[Hosted]) -> int:
    """How many interrupts have reached an agent's host."""
    return sum(len(REASON.findall(host.error.data)) for host in hosts)


def more_than(before: int, hosts: list[Hosted]) -> bool:
    return arrived(hosts) > before


def at_rest(host: Hosted) -> bool:
    return host.session()["turn"] is None


def subscribe(sidecar: Sidecar) -> socket.socket:
    """Somebody who watches the page."""
    peer = socket.create_connection(("127.0.0.1", sidecar.port), timeout=5)
    peer.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert peer.recv(15) == b"HTTP/1.1 200 OK"
    return peer


@pytest.mark.parametrize("collector", ["takes everything", "never answers"])
def test_sigterm_in_the_middle_of_an_act_flushes_and_is_gone_in_time(claude: Claude, collector: str) -> None:
    with ExitStack() as stack:
        if collector == "never answers":
            endpoint: Json = {"endpoint": stack.enter_context(mute())}
        else:
            receiver = Receiver(received := stack.enter_context(over_http()), "http")
            endpoint = receiver.settings
        sidecar = Sidecar(claude, control(claude), telemetry={"otlp": endpoint, "liveness_after": "1s"})
        # Nothing is sent by itself before the end: what arrives was flushed.
        sidecar.env |= {"OTEL_BSP_SCHEDULE_DELAY": "600000", "OTEL_METRIC_EXPORT_INTERVAL": "600000"}
        stack.enter_context(sidecar)
        stack.enter_context(subscribe(sidecar))
        conversation = hosted(claude)
        conversation.send(prompt("[[blackhole]]"))
        sidecar.expect("turn.warned")
        conversation.signal(signal.SIGSTOP)  # the call will hang
        until(lambda: intents(claude.sandbox.root / "state"), "the reason in the journal")
        asked = time.monotonic()
        assert sidecar.stop(signal.SIGTERM) == 0
        assert time.monotonic() - asked < GONE
        (intent,) = intents(claude.sandbox.root / "state")
        conversation.signal(signal.SIGCONT)
        if collector == "takes everything":
            assert {event.name for event in receiver.events()} >= {
                "agent_sidecar.turn.stalled",
                "agent_sidecar.action",
            }
            assert receiver.spans("agent_sidecar.liveness")
            assert "ai_agent_verdicts_total" in received.pushes[-1]
            told = [event.attributes.get("agent_sidecar.reason") for event in receiver.events()]
            assert intent["reason"] in told


def test_killed_at_any_moment_it_has_lost_no_reason_and_asks_nobody_twice(claude: Claude) -> None:
    luck = random.Random(20261130)  # noqa: S311 - moments, no secrets
    root = claude.sandbox.root
    agents = [
        {"kind": "control-api", "name": f"box-{number}", "url": f"unix:{root}/{number}.sock"}
        for number in range(HOSTS)
    ]
    actions = {"max": 1000, "jitter": 0.5}
    sidecar = Sidecar(claude, agents=agents, bounds={"model": "1s"}, actions=actions)
    with ExitStack() as stack:
        hosts = []
        for number in range(HOSTS):
            host = Hosted(
                root / f"{number}.sock", (), [*FAKE, "--session", f"s{number}"], HOME=str(root / "h")
            )
            stack.callback(host.close)
            hosts.append(host)
        for round_ in range(ROUNDS):
            for host in hosts:  # a turn whose call was cut off is not asked again by anybody
                turn = host.session()["turn"]
                if turn is not None:
                    host.interrupt(turn=turn, reason=RELEASE)
                    until(partial(at_rest, host), "the turn's end")
            sidecar.start()
            stack.push(sidecar.__exit__)
            for host in hosts:
                host.prompt("hole")
            asked = arrived(hosts)
            if round_ % 2:  # as soon as anything is done
                until(partial(more_than, asked, hosts), "an interrupt")
            else:
                time.sleep(1 + luck.random())
            before = intents(root / "state")
            sidecar.stop(signal.SIGKILL)
            assert intents(root / "state")[: len(before)] == before, "what was written stays"
        written = intents(root / "state")
        reasons = sorted(r.decode() for host in hosts for r in REASON.findall(host.error.data))
        assert len(reasons) >= HOSTS
        journaled = sorted(entry["reason"] for entry in written)
        missing = [reason for reason in reasons if reason not in journaled]
        assert missing == [], "no turn was ended without its reason on the disk"
        turns = [(entry["session"], entry["turn"]) for entry in written]
        assert len(set(turns)) == len(turns)
        assert len(reasons) <= len(written)
        print(f"\n{len(written)} acts, {len(reasons)} arrived, {ROUNDS} kills", file=sys.stderr)  # noqa: T201
