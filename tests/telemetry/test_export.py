"""Collectors that are dead, slow or mute, the environment, and what is imported when."""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from io import StringIO

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from sidecar import signals as g
from sidecar.telemetry.targets import Protocol
from sidecar.telemetry.telemetry import Settings, Telemetry
from tests.e2e.process import until
from tests.telemetry.collector import mute, over_grpc, over_http, refusing
from tests.telemetry.plugged import plugged
from tests.telemetry.world import World, prompt, scenario, sees


def outcomes(telemetry: Telemetry) -> dict[str, float]:
    families = parse_text(telemetry.render("")[0].decode())
    return {
        sample.labels["outcome"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "agent_sidecar_spans_total"
    }


def test_spans_that_arrived_are_counted() -> None:
    with over_http() as received:
        world, telemetry = plugged(received.url)
        assert outcomes(telemetry) == {"exported": 0, "failed": 0, "dropped": 0}
        scenario(world)
        telemetry.shutdown(10)
        assert outcomes(telemetry) == {"exported": len(received.spans), "failed": 0, "dropped": 0}
        assert len(received.spans) == 9


@pytest.mark.parametrize("broken", [refusing, mute])
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_dead_collector_costs_neither_time_nor_memory(
    broken: Callable[[], AbstractContextManager[str]], protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "20")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    with broken() as url:
        world, telemetry = plugged(url, protocol)
        world.see(sees(1000), prompt(1000))
        started = time.monotonic()
        for number in range(2000):
            world.see(g.ToolStarted(1001, f"c{number}", "Bash"), g.ToolEnded(1002, f"c{number}"))
        assert time.monotonic() - started < 3
        export = telemetry._export
        assert export is not None
        assert export._spans is not None
        assert len(export._spans._queue) <= 100
        started = time.monotonic()
        telemetry.shutdown(1.0)
        assert time.monotonic() - started < 2.0
        counted = outcomes(telemetry)
        assert counted["exported"] == 0
        assert counted["dropped"] >= 1800
        assert counted["dropped"] + counted["failed"] == 2001  # a tool each, and the first `chat`


def test_the_environment_describes_the_sidecar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=box-1,service.namespace=agents")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my-sidecar")
    with over_http() as received:
        world, telemetry = plugged(received.url)
        scenario(world)
        telemetry.shutdown(10)
    assert len(received.scopes) == 3
    for resource, _ in received.scopes:
        assert resource["service.name"] == "my-sidecar"
        assert resource["k8s.pod.name"] == "box-1"
        assert resource["service.namespace"] == "agents"


def test_the_environment_alone_switches_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with over_http() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=a")
        world = World()
        telemetry = Telemetry(world, StringIO(), Settings())
        world.told.append(telemetry)
        scenario(world)
        telemetry.shutdown(10)
        assert received.spans
        assert {headers["x-team"] for headers in received.headers} == {"a"}


def test_a_dead_collector_is_news_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    with refusing() as url, caplog.at_level(logging.WARNING):
        world, telemetry = plugged(url, metrics=False, logs=False)

        def refused(before: int) -> bool:
            return outcomes(telemetry)["failed"] > before

        world.see(sees(1000), prompt(1000))
        for number in range(5):
            world.see(g.ToolStarted(1001, f"c{number}", "Bash"), g.ToolEnded(1002, f"c{number}"))
            until(partial(refused, number), "the push is refused")
        telemetry.shutdown(3)
    assert outcomes(telemetry)["failed"] >= 5
    exporters = [r for r in caplog.records if r.name.startswith("opentelemetry.exporter")]
    assert len(exporters) == 1


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


PLUG = """
import io, sys
from sidecar.telemetry.telemetry import Settings, Telemetry
from sidecar.telemetry.targets import OtlpSettings
from tests.telemetry.world import World, scenario
world = World()
telemetry = Telemetry(world, io.StringIO(), Settings(otlp=OtlpSettings({url!r}, {protocol!r})))
world.told.append(telemetry)
scenario(world)
assert telemetry.render("")[0]
loaded = {{name.split(".")[0] for name in sys.modules}}
print(sorted(loaded & {{"opentelemetry", "grpc", "requests", "google"}}))
telemetry.shutdown(0.3)
"""


def test_without_a_collector_nothing_of_opentelemetry_is_imported() -> None:
    assert run(PLUG.format(url=None, protocol=None)) == "[]"


def test_grpc_is_imported_only_where_it_is_asked_for() -> None:
    with refusing() as url:
        assert run(PLUG.format(url=url, protocol=None)) == "['google', 'opentelemetry', 'requests']"
        assert "grpc" in run(PLUG.format(url=url, protocol="grpc"))


def test_no_provider_of_the_process_is_touched() -> None:
    code = PLUG + "\nimport opentelemetry.trace as t\nassert t._TRACER_PROVIDER is None"
    with refusing() as url:
        run(code.format(url=url, protocol=None))


def told(telemetry: Telemetry) -> list[str]:
    stream = telemetry.lifecycle._stream
    assert isinstance(stream, StringIO)
    return [json.loads(line)["event"] for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("status", [400, 404, 500])
def test_what_a_collector_refuses_is_counted_and_its_events_are_told_after_all(status: int) -> None:
    with over_http() as received:
        received.status = status
        world, telemetry = plugged(received.url)
        scenario(world)
        assert "turn.stalled" not in told(telemetry)
        telemetry.shutdown(10)
    assert outcomes(telemetry) == {"exported": 0, "failed": 9, "dropped": 0}
    assert told(telemetry)[-2:] == ["turn.stalled", "action.outcome"]


@pytest.mark.parametrize("broken", [refusing, mute])
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_verdict_is_told_though_the_collector_is_dead(
    broken: Callable[[], AbstractContextManager[str]], protocol: Protocol
) -> None:
    with broken() as url:
        world, telemetry = plugged(url, protocol, traces=False, metrics=False)
        world.see(sees(1000), prompt(1000))
        world.judge(3700)
        telemetry.shutdown(0.5)
    assert told(telemetry)[-1] == "turn.stalled"
    assert told(telemetry).count("turn.stalled") == 1


def test_what_arrived_is_not_told_twice() -> None:
    with over_http() as received:
        world, telemetry = plugged(received.url)
        scenario(world)
        telemetry.shutdown(10)
        assert len(received.logs) == 2
    assert not {"turn.stalled", "action.outcome"} & {*told(telemetry)}


def test_a_collector_that_is_down_for_a_while_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol's own rule: 503 is tried again, with a growing pause, within the time of one push."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    with over_http() as received:
        received.status = 503
        world, telemetry = plugged(received.url, metrics=False, logs=False)
        world.see(sees(1000), prompt(1000), g.TurnEnded(1010, "completed"))
        received.asked.acquire(timeout=10)
        received.status = 200
        received.wait(2, "spans")
        telemetry.shutdown(10)
    assert outcomes(telemetry) == {"exported": 2, "failed": 0, "dropped": 0}
    assert len(received.spans) == 2


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_slow_collector_gets_everything_and_delays_nothing(
    protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    with over_grpc() if protocol == "grpc" else over_http() as received:
        received.free.clear()
        world, telemetry = plugged(received.url, protocol, metrics=False, logs=False)
        world.see(sees(1000), prompt(1000), g.TurnEnded(1010, "completed"))
        assert received.asked.acquire(timeout=10), "a push is under way, and not answered"
        started = time.monotonic()
        for number in range(200):
            at = 1020.0 + number
            world.see(sees(at), prompt(at, f"t{number}"), g.TurnEnded(at + 1, "completed"), session="s2")
        assert telemetry.tick(2000) is None
        assert time.monotonic() - started < 2
        received.free.set()
        telemetry.shutdown(10)
    assert len(received.spans) == 402
    assert outcomes(telemetry) == {"exported": 402, "failed": 0, "dropped": 0}


def test_what_waits_is_bounded_however_long_the_ids_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    with mute() as url:
        world, telemetry = plugged(url, metrics=False)
        for number in range(50):
            turn = f"{number}" + "\N{SNOWMAN}" * 10_000
            world.see(sees(1000), prompt(1000, turn), g.ToolStarted(1001, "c" * 10_000, "Bash"), session=turn)
            world.see(g.TurnEnded(1002, "died"), session=turn)
        export = telemetry._export
        assert export is not None
        assert export._spans is not None
        waiting = list(export._spans._queue)
        assert len(waiting) >= 100
        assert len({span.trace for span in waiting}) == 50, "ids are of the whole, not of what is shown"
        assert max(len(str(value)) for span in waiting for value in span.attributes.values()) == 1024
        telemetry.shutdown(0.3)
