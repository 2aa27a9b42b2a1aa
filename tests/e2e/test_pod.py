"""The layout of a pod, with the real Claude Code in it: what `k8s/` says of mounts and users is tried here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.e2e.claude import prompt
from tests.e2e.pod import CONTROL, HOME, PORT, SETTINGS, STATE, Agent, Pod, PodSidecar, User, fetch
from tests.e2e.process import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.process import Json
    from tests.e2e.sandbox import Sandbox

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make containers and their users")

GONE = 5.0  # seconds that a terminated sidecar has


class Layout(NamedTuple):
    """Who runs as whom."""

    agent: User
    sidecar: User
    options: tuple[str, ...] = ()  # of the host


SAME_USER = Layout(User(10001), User(10001))
SHARED_GROUP = Layout(User(10001, 20001), User(10002, 20001), ("--share-group", "20001"))


def reasons(pod: Pod) -> list[str]:
    """What hosts wrote to stderr before they acted."""
    lines = (pod.sandbox.root / "stderr").read_text().splitlines()
    return [line for line in lines if line.startswith("agent-sidecar: interrupt: ")]


def journal(pod: Pod) -> list[Json]:
    """The whole lines of the sidecar's journal."""
    text = (pod.volume("state") / "journal.jsonl").read_bytes()
    return [json.loads(line) for line in text.split(b"\n")[:-1] if line]


def writes(sidecar: PodSidecar, path: str) -> bool:
    """Whether the sidecar's user can write there, in its container."""
    mounts = ["nsenter", f"--target={sidecar.container.pid}", "--mount", "--root", "--pid", "--"]
    user = ["setpriv", f"--reuid={sidecar.container.status('Uid').split()[0]}", "--clear-groups"]
    touch = ["sh", "-c", f"echo x >{path}/probe"]
    return subprocess.run([*mounts, *user, *touch], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("layout", [SAME_USER, SHARED_GROUP], ids=["same user", "another user, shared group"])
def test_a_stalled_turn_is_ended_through_the_socket_and_a_restarted_agent_is_a_new_one(
    sandbox: Sandbox, layout: Layout
) -> None:
    pod = Pod(sandbox, layout.agent.group)
    agent = Agent(pod, layout.agent, *layout.options)
    with PodSidecar(pod, layout.sidecar) as sidecar:
        in_a_pod(agent, sidecar, layout)
        agent.stream.send(prompt("[[blackhole]]"))
        verdict = sidecar.expect("turn.stalled", bound="model", action="interrupt")
        sidecar.expect("action.outcome", outcome="effective")
        assert reasons(pod) == [f"agent-sidecar: interrupt: {verdict['reason']}"]
        agent.stream.send(prompt("[[text still here]]"))
        assert agent.stream.expect(type="result", subtype="success")["result"] == "still here"
        sidecar.expect("turn.end", outcome="completed")
        again(pod, agent, sidecar, layout)


def in_a_pod(agent: Agent, sidecar: PodSidecar, layout: Layout) -> None:
    """Only the network is shared, nobody is privileged, and nothing is writable that need not be."""
    one, other = agent.container, sidecar.container
    same = {kind for kind, name in one.namespaces().items() if other.namespaces()[kind] == name}
    assert same == {"net"}
    for container, user in ((one, layout.agent), (other, layout.sidecar)):
        assert container.status("Uid").split() == [str(user.uid)] * 4
        assert {int(container.status(name), 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {0}
        assert container.status("NoNewPrivs") == "1"
        assert container.status("NSpid").split()[-1] == "1"
    places = ("/", "/etc", HOME, f"{HOME}/.claude", CONTROL, SETTINGS)
    assert [place for place in places if writes(sidecar, place)] == []
    assert writes(sidecar, STATE)
    assert fetch(other.pid, PORT + 1, "/healthz")[0] == 200


def again(pod: Pod, agent: Agent, sidecar: PodSidecar, layout: Layout) -> None:
    """The agent's container dies in mid-turn and comes again; its pids are the same ones."""
    ((name, old),) = agent.registrations().items()
    agent.stream.send(prompt("[[blackhole]]"))
    begun = until(lambda: sidecar.events("turn.start")[2:], "the third turn")[0]
    agent.kill()
    fresh = Agent(pod, layout.agent, *layout.options)
    fresh.stream.send(prompt("[[blackhole]]"))

    def registered() -> Json:
        """The newcomer's entry, under the name of the old one: its pid is used again."""
        entry = fresh.registrations().get(name, old)
        return entry if entry["sessionId"] != old["sessionId"] else {}

    new = until(registered, "the new registration")
    assert (new["pid"], list(fresh.registrations())) == (old["pid"], [name])
    verdict = sidecar.expect("turn.stalled", session=new["sessionId"])
    sidecar.expect("action.outcome", session=new["sessionId"], outcome="effective")
    sidecar.expect("turn.end", turn=begun["turn"], outcome="died")
    assert [line for line in sidecar.events("action.intent") if line["turn"] == begun["turn"]] == []
    assert reasons(pod)[1:] == [f"agent-sidecar: interrupt: {verdict['reason']}"]
    fresh.stream.send(prompt("[[text here again]]"))
    assert fresh.stream.expect(type="result", subtype="success")["result"] == "here again"


@contextmanager
def small(volume: Path) -> Iterator[Path]:
    """A volume that is soon full, and a file that fills it."""
    mounted = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=777", "tmpfs", str(volume)]
    subprocess.run(mounted, check=True)
    try:
        yield volume / "ballast"
    finally:
        subprocess.run(["umount", "--lazy", str(volume)], check=True)


def fill(ballast: Path) -> None:
    """Write until there is no room left."""
    filled = subprocess.run(
        ["dd", "if=/dev/zero", f"of={ballast}", "bs=4k"], capture_output=True, check=False
    )
    assert b"No space left" in filled.stderr


def test_a_full_state_volume_ends_nothing_and_never_stops_the_watching(sandbox: Sandbox) -> None:
    pod = Pod(sandbox)
    with small(pod.volume("state")) as ballast:
        agent = Agent(pod, SAME_USER.agent)
        with PodSidecar(pod, SAME_USER.sidecar) as sidecar:
            fill(ballast)
            agent.stream.send(prompt("[[blackhole]]"))
            sidecar.expect("turn.stalled", bound="model", action="interrupt")
            sidecar.expect("action.outcome", outcome="held")
            assert sidecar.session()["phase"] == "model"
            assert sidecar.metric('ai_agent_sessions_overdue{agent="claude-code",bound="model"}') == 1
            assert sidecar.get("/healthz")[0] == 200
            assert reasons(pod) == [], "without its reason on the disk nothing is done"
            withdrawn = {"type": "control_request", "request_id": "r1", "request": {"subtype": "interrupt"}}
            agent.stream.send(withdrawn)
            sidecar.expect("turn.end", outcome="interrupted")
            ballast.unlink()
            agent.stream.send(prompt("[[blackhole]]"))
            sidecar.expect("action.outcome", outcome="effective")
            assert len(reasons(pod)) == 1
            assert {line["event"] for line in journal(pod)} >= {"intent", "outcome"}


def test_a_swapped_config_map_counts_at_once_and_a_bad_one_leaves_the_old_in_force(sandbox: Sandbox) -> None:
    pod = Pod(sandbox)
    taken = "agent_sidecar_config_last_reload_successful"
    agent = Agent(pod, SAME_USER.agent)
    with PodSidecar(pod, SAME_USER.sidecar, bounds={"model": "10m"}) as sidecar:
        agent.stream.send(prompt("[[blackhole]]"))
        sidecar.expect("turn.start")
        assert sidecar.metric(taken) == 1
        sidecar.configure(json.dumps(sidecar.settings | {"modus": "enforce"}))
        until(lambda: sidecar.metric(taken) == 0, "the bad one is refused")
        assert sidecar.session()["bound"]["limit_seconds"] == 600
        assert "modus" in sidecar.errors.read_text()
        sidecar.configure(json.dumps(sidecar.settings | {"bounds": {"unsafe": True, "model": "2s"}}))
        sidecar.expect("action.outcome", outcome="effective")
        assert sidecar.metric(taken) == 1
        asked = time.monotonic()
        assert sidecar.stop(signal.SIGTERM) == 0, "process 1 of its container too"
        assert time.monotonic() - asked < GONE


def test_the_hold_beside_the_configuration_counts_with_the_swap_that_brings_it(sandbox: Sandbox) -> None:
    pod = Pod(sandbox)
    agent = Agent(pod, SAME_USER.agent)
    with PodSidecar(pod, SAME_USER.sidecar) as sidecar:
        for number, (hold, outcome) in enumerate((("1", "held"), ("0", "effective"), ("1", "held")), 1):
            sidecar.configure(json.dumps(sidecar.settings), hold)
            agent.stream.send(prompt("[[blackhole]]"))
            assert nth(sidecar, number, "action.outcome")["outcome"] == outcome
            if outcome == "held":
                withdrawn = {
                    "type": "control_request",
                    "request_id": "r",
                    "request": {"subtype": "interrupt"},
                }
                agent.stream.send(withdrawn)
            nth(sidecar, number, "turn.end")
        assert len(reasons(pod)) == 1


def nth(sidecar: PodSidecar, number: int, event: str) -> Json:
    """The number-th event of this name."""
    return until(lambda: sidecar.events(event)[number - 1 :], f"{event} {number}")[0]
