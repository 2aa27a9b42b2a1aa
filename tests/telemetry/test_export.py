"""OTLP against collectors that decode it, and against ones that are dead, slow or mute."""

import logging
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from io import StringIO
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from sidecar import signals as g
from sidecar.telemetry import ids
from sidecar.telemetry import names as n
from sidecar.telemetry.targets import OtlpSettings, Protocol
from sidecar.telemetry.telemetry import Settings, Telemetry
from tests.telemetry.collector import Received, mute, over_grpc, over_http, plain, refusing
from tests.telemetry.world import WALL, World, prompt, scenario, sees

Over = tuple[Received, Protocol]


@pytest.fixture(params=["http/protobuf", "grpc"])
def over(request: pytest.FixtureRequest) -> Iterator[Over]:
    protocol: Protocol = request.param
    serve: Callable[[], AbstractContextManager[Received]] = over_grpc if protocol == "grpc" else over_http
    with serve() as received:
        yield received, protocol


def plugged(url: str, protocol: Protocol = "http/protobuf", **more: bool) -> tuple[World, Telemetry]:
    world = World()
    otlp = msgspec.structs.replace(OtlpSettings(url, protocol), **more)
    telemetry = Telemetry(world, StringIO(), Settings(otlp))
    world.told.append(telemetry)
    return world, telemetry


def hexed(value: bytes) -> int:
    return int.from_bytes(value, "big")


def test_a_turn_arrives_as_it_was_built(over: Over) -> None:
    received, protocol = over
    world, telemetry = plugged(received.url, protocol)
    world.see(
        sees(1000), prompt(1000, "p"), g.ToolStarted(1001, "c", "Task", delegates=True), session="parent"
    )
    world.see(g.Described(1002, parent="parent"), sees(1002), prompt(1002))
    world.judge(1002 + 2700)
    world.see(g.Intended(3702, "interrupt", "t1", "model", "why"), g.TurnEnded(3702, "interrupted"))
    telemetry.shutdown(10)
    by_name = {span.name: span for span in received.spans}
    assert set(by_name) == {"invoke_agent claude-code", "chat", "agent_sidecar.stall"}
    root, chat = by_name["invoke_agent claude-code"], by_name["chat"]
    key = ("claude-code", "s1", "t1")
    assert hexed(root.trace_id) == ids.trace_id(*key)
    assert hexed(root.span_id) == hexed(chat.parent_span_id) == ids.span_id(*key)
    assert root.parent_span_id == b""
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (
        (int(WALL) + 1002) * 10**9,
        (int(WALL) + 3702) * 10**9,
    )
    assert (root.kind, chat.kind) == (1, 3)  # internal, client
    assert root.status.code == 2
    assert root.status.message.startswith("no progress for 45m00s")
    assert chat.status.code == 0
    assert plain(root.attributes)["error.type"] == "stalled"
    (link,) = root.links
    assert hexed(link.trace_id) == ids.trace_id("claude-code", "parent", "p")
    assert hexed(link.span_id) == ids.tool_span_id("claude-code", "parent", "p", "c")
    resource, scope = next((r, s) for r, s in received.scopes if getattr(s, "spans", ()))
    assert resource["service.name"] == "agent-sidecar"
    assert resource["service.version"] == "1.2.3"
    assert (scope.scope.name, scope.scope.version) == ("agent-sidecar", "1.2.3")


def test_a_liveness_span_arrives_while_the_turn_hangs(over: Over, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    received, protocol = over
    world, telemetry = plugged(received.url, protocol, metrics=False)
    world.see(sees(1000), prompt(1000))
    world.clock.at = 1061
    assert telemetry.tick(1061) == 1181
    received.wait(1, "spans")
    assert [span.name for span in received.spans] == [n.LIVENESS]
    telemetry.shutdown(5)


def test_verdicts_and_acts_arrive_as_log_events_in_the_turns_trace(over: Over) -> None:
    received, protocol = over
    world, telemetry = plugged(received.url, protocol)
    world.see(sees(1000), prompt(1000))
    world.judge(3700)
    world.see(g.Acted(3700, "interrupt", "t1", "model", "observed", "model"))
    telemetry.shutdown(10)
    stalled, outcome = received.logs
    assert (stalled.event_name, outcome.event_name) == ("agent_sidecar.turn.stalled", "agent_sidecar.action")
    assert hexed(stalled.trace_id) == ids.trace_id("claude-code", "s1", "t1")
    assert hexed(stalled.span_id) == ids.span_id("claude-code", "s1", "t1")
    assert stalled.time_unix_nano == (int(WALL) + 3700) * 10**9
    assert (stalled.severity_number, outcome.severity_number) == (13, 9)
    assert plain(outcome.attributes)["agent_sidecar.action.outcome"] == "observed"


def numbers(push: dict[str, Any]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Flatten a push into what the text format would show of it."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for name, metric in push.items():
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            labels = plain(point.attributes)
            if kind != "histogram":
                found[name, frozenset(labels.items())] = point.as_double
                continue
            found[f"{name}_count", frozenset(labels.items())] = point.count
            found[f"{name}_sum", frozenset(labels.items())] = point.sum
            below = 0
            bounds = [*point.explicit_bounds, math.inf]
            for bound, count in zip(bounds, point.bucket_counts, strict=True):
                below += count
                le = "+Inf" if math.isinf(bound) else str(float(bound))
                found[f"{name}_bucket", frozenset({**labels, "le": le}.items())] = below
    return found


def test_the_numbers_over_otlp_are_those_of_a_scrape(over: Over) -> None:
    received, protocol = over
    world, telemetry = plugged(received.url, protocol, traces=False)
    scenario(world)
    scraped = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse_text(telemetry.render("")[0].decode())
        for sample in family.samples
    }
    telemetry.shutdown(10)
    push = received.pushes[-1]
    assert numbers(push) == scraped
    turns = push["ai_agent_turns_total"]
    assert (turns.sum.is_monotonic, turns.sum.aggregation_temporality) == (True, 2)
    assert turns.description == "Turns that ended."
    assert push["ai_agent_silence_seconds"].unit == "s"
    assert push["ai_agent_process_resident_memory_bytes"].unit == "By"
    duration = push["ai_agent_turn_duration_seconds"].histogram
    assert duration.aggregation_temporality == 2
    (point,) = duration.data_points
    assert not point.HasField("min")
    assert [hexed(e.trace_id) for e in point.exemplars] == [ids.trace_id("claude-code", "s1", "t1")]
    assert point.exemplars[0].as_double == 101.0
    assert 0 < point.start_time_unix_nano < point.time_unix_nano


def test_metrics_are_pushed_every_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
    with over_http() as received:
        world, telemetry = plugged(received.url)
        received.wait(1, "pushes")
        world.see(sees(1000), prompt(1000), g.TurnEnded(1005, "completed"))
        received.wait(len(received.pushes) + 2, "pushes")
        done = ("ai_agent_turns_total", frozenset({("agent", "claude-code"), ("outcome", "completed")}))
        assert numbers(received.pushes[-1])[done] == 1
        telemetry.shutdown(5)


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


def test_a_collector_that_answers_no_has_failed() -> None:
    with over_http() as received:
        received.status = 404
        world, telemetry = plugged(received.url)
        scenario(world)
        telemetry.shutdown(10)
        assert outcomes(telemetry) == {"exported": 0, "failed": 9, "dropped": 0}


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


def test_headers_and_time_are_as_configured(over: Over, monkeypatch: pytest.MonkeyPatch) -> None:
    received, protocol = over
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "77")
    settings = OtlpSettings(received.url, protocol, headers={"X-Key": "secret"}, timeout=3.5)
    telemetry = Telemetry(World(), StringIO(), Settings(settings))
    export = telemetry._export
    assert export is not None
    for exporter in export._otlp._exporters:
        inner = exporter if protocol == "grpc" else exporter._client
        assert inner._timeout == 3.5
    telemetry.shutdown(10)
    assert [headers["x-key"] for headers in received.headers] == ["secret"]


def test_a_sampler_of_the_environment_keeps_or_drops_whole_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    with over_http() as received:
        world, telemetry = plugged(received.url)
        for number in range(60):
            at = 1000.0 + number
            world.see(sees(at), prompt(at), g.TurnEnded(at + 0.5, "completed"), session=f"s{number}")
        telemetry.shutdown(10)
    per_trace = {hexed(span.trace_id): 0 for span in received.spans}
    for span in received.spans:
        per_trace[hexed(span.trace_id)] += 1
    assert 15 < len(per_trace) < 45
    assert set(per_trace.values()) == {2}


def test_a_dead_collector_is_news_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    with refusing() as url, caplog.at_level(logging.WARNING):
        world, telemetry = plugged(url, metrics=False, logs=False)
        world.see(sees(1000), prompt(1000))
        for number in range(5):
            world.see(g.ToolStarted(1001, f"c{number}", "Bash"), g.ToolEnded(1002, f"c{number}"))
            deadline = time.monotonic() + 10
            while outcomes(telemetry)["failed"] <= number and time.monotonic() < deadline:
                time.sleep(0.01)
        telemetry.shutdown(3)
    assert outcomes(telemetry)["failed"] >= 5
    exporters = [r for r in caplog.records if r.name.startswith("opentelemetry.exporter")]
    assert len(exporters) == 1


def test_ids_that_are_no_text_do_not_cost_the_batch() -> None:
    with over_http() as received:
        world, telemetry = plugged(received.url)
        world.see(
            sees(1000), prompt(1000, "t\udcff"), g.TurnEnded(1010, "completed"), session="s\udc80" * 2000
        )
        telemetry.shutdown(10)
    assert len(received.spans) == 2
    assert len(plain(received.spans[0].attributes)["gen_ai.conversation.id"]) == 1024


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
