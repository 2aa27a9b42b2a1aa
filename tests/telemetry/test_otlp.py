"""What arrives at collectors that decode it, over HTTP and over gRPC."""

import math
import re
from collections.abc import Callable, Iterator
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from sidecar import signals as g
from sidecar.telemetry import ids
from sidecar.telemetry import names as n
from sidecar.telemetry.targets import OtlpSettings, Protocol
from sidecar.telemetry.telemetry import Settings, Telemetry
from tests.telemetry.collector import Received, over_grpc, over_http, plain
from tests.telemetry.plugged import plugged
from tests.telemetry.world import WALL, World, prompt, scenario, sees

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

Over = tuple[Received, Protocol]


@pytest.fixture(params=["http/protobuf", "grpc"])
def over(request: pytest.FixtureRequest) -> Iterator[Over]:
    protocol: Protocol = request.param
    serve: Callable[[], AbstractContextManager[Received]] = over_grpc if protocol == "grpc" else over_http
    with serve() as received:
        yield received, protocol


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
        body = telemetry.render("application/openmetrics-text")[0].decode()
        telemetry.shutdown(10)
    examples = {int(trace, 16) for trace in re.findall(r'trace_id="(\w+)"', body)}
    assert examples
    assert examples <= {hexed(span.trace_id) for span in received.spans}, (
        "none leads to a trace that is not there"
    )
    per_trace = {hexed(span.trace_id): 0 for span in received.spans}
    for span in received.spans:
        per_trace[hexed(span.trace_id)] += 1
    assert 15 < len(per_trace) < 45
    assert set(per_trace.values()) == {2}


def test_ids_that_are_no_text_do_not_cost_the_batch() -> None:
    with over_http() as received:
        world, telemetry = plugged(received.url)
        world.see(
            sees(1000), prompt(1000, "t\udcff"), g.TurnEnded(1010, "completed"), session="s\udc80" * 2000
        )
        telemetry.shutdown(10)
    assert len(received.spans) == 2
    assert len(plain(received.spans[0].attributes)["gen_ai.conversation.id"]) == 1024
