"""A Job's pod, rehearsed: what `k8s/examples/claude-code-job` runs, with what `k8s/core` configures, to its end."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.pod import CONTROL, Agent, Pod, PodSidecar, User, enter
from tests.e2e.receiver import Receiver
from tests.e2e.sidecar import ROOT
from tests.telemetry.collector import over_http

if TYPE_CHECKING:
    from tests.e2e.sandbox import Sandbox
    from tests.telemetry.collector import Received

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make containers and their users")

GONE = 5.0  # seconds that a terminated sidecar has
USER = User(10001)
JOB = yaml.safe_load((ROOT / "k8s" / "examples" / "claude-code-job" / "job.yaml").read_text())
CORE = yaml.safe_load((ROOT / "k8s" / "core" / "config.yaml").read_text())


def job(pod: Pod, task: str) -> Agent:
    """The agent's container of the Job, started as its manifest says."""
    (pod.volume("task") / "task.md").write_text(task)
    (container,) = JOB["spec"]["template"]["spec"]["containers"]
    options, arguments = split(container["command"])
    assert options[:2] == ["--listen", f"unix:{CONTROL}/{{pid}}.sock"]
    agent = Agent(pod, USER, *options[2:], arguments=arguments)
    agent.stream.close_stdin()  # a container has none
    return agent


def split(command: list[str]) -> tuple[list[str], list[str]]:
    """The host's options, and the agent's arguments."""
    host, *words = command
    middle = words.index("--")
    assert (host, words[middle + 1]) == ("/opt/agent-host/host", "claude")
    return words[:middle], words[middle + 2 :]


def collector(pod: Pod, stack: ExitStack) -> Received:
    """A collector that the pod can reach: its socket is made by a thread within the pod's network."""
    received: list[Received] = []

    def listen() -> None:
        enter(pod.sandbox.holder)
        received.append(stack.enter_context(over_http()))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    return received[0]


@pytest.mark.parametrize(
    ("task", "status", "outcome"),
    [("[[slow 3]]", 0, "completed"), ("[[blackhole]]", 75, "stalled")],
    ids=["its turn ends by itself", "its turn is ended"],
)
def test_a_job_ends_with_its_agent_and_the_sidecar_tells_everything_before_it_goes(
    sandbox: Sandbox, task: str, status: int, outcome: str
) -> None:
    pod = Pod(sandbox)
    with ExitStack() as stack:
        received = collector(pod, stack)
        receiver = Receiver(received, "http")
        sidecar = PodSidecar(pod, USER, agents=CORE["agents"], telemetry={"otlp": receiver.settings})
        # Nothing is sent by itself before the end: what arrives was flushed.
        sidecar.env |= {"OTEL_BSP_SCHEDULE_DELAY": "600000", "OTEL_METRIC_EXPORT_INTERVAL": "600000"}
        stack.enter_context(sidecar)  # a native sidecar starts before the agent
        agent = job(pod, task)
        assert agent.stream.wait(90) == status
        assert not receiver.spans("invoke_agent")
        asked = time.monotonic()  # the agent's container has ended, so the kubelet ends its sidecars
        assert sidecar.stop(signal.SIGTERM) == 0
        assert time.monotonic() - asked < GONE
        (told,) = sidecar.events("turn.end")
        assert told["outcome"] == outcome
        (turn,) = receiver.spans("invoke_agent")
        assert turn.failed == (outcome == "stalled")
        assert received.pushes, "the last metrics"
        (line,) = pod.told("agent").read_text().splitlines() or [""]
        stalled = [event for event in receiver.events() if event.name == "agent_sidecar.turn.stalled"]
        reasons = [
            f"agent-sidecar: interrupt: {event.attributes['agent_sidecar.reason']}" for event in stalled
        ]
        assert reasons == ([line] if line else []), "the container's message in the pod's status"
        assert len(reasons) == (outcome == "stalled")
