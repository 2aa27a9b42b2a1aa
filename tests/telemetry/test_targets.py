"""Where telemetry goes, by the configuration and the standard variables."""

import pytest

from sidecar.telemetry.export import pace
from sidecar.telemetry.outbox import Pace
from sidecar.telemetry.targets import OtlpError, OtlpSettings, Protocol, Target, targets

BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"
HTTP: Protocol = "http/protobuf"


def test_nothing_is_sent_unless_asked_for() -> None:
    assert targets(OtlpSettings(), {}) == {}
    assert targets(OtlpSettings(), {BASE: ""}) == {}


def test_the_configurations_endpoint_is_a_base_and_wins() -> None:
    found = targets(OtlpSettings("http://here:4318/"), {BASE: "http://there:4318"})
    assert found == {
        "traces": Target("http://here:4318/v1/traces", HTTP),
        "metrics": Target("http://here:4318/v1/metrics", HTTP),
        "logs": Target("http://here:4318/v1/logs", HTTP),
    }


def test_the_exporter_reads_the_environments_endpoint_itself() -> None:
    assert targets(OtlpSettings(), {BASE: "http://there:4318"})["traces"] == Target(None, HTTP)


def test_a_signals_own_endpoint_asks_for_that_signal_only() -> None:
    assert list(targets(OtlpSettings(), {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/v1/traces"})) == [
        "traces"
    ]


def test_signals_can_be_left_out() -> None:
    assert list(targets(OtlpSettings("http://here", metrics=False), {"OTEL_LOGS_EXPORTER": "none"})) == [
        "traces"
    ]
    assert targets(OtlpSettings("http://here"), {"OTEL_SDK_DISABLED": "True"}) == {}


@pytest.mark.parametrize(
    ("settings", "environ", "expected"),
    [
        (OtlpSettings("http://c"), {}, "http/protobuf"),
        (OtlpSettings("http://c"), {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc"),
        (OtlpSettings("http://c"), {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "grpc"),
        (OtlpSettings("http://c", "http/protobuf"), {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"),
        (OtlpSettings("http://c", "grpc"), {}, "grpc"),
    ],
)
def test_the_protocol(settings: OtlpSettings, environ: dict[str, str], expected: str) -> None:
    found = targets(settings, environ)["traces"]
    assert found.protocol == expected
    assert found.endpoint == ("http://c" if expected == "grpc" else "http://c/v1/traces")


def test_a_protocol_that_is_not_built_is_refused_by_name() -> None:
    with pytest.raises(
        OtlpError, match=r"^OTLP over http/json is not supported; it is one of http/protobuf, grpc$"
    ):
        targets(OtlpSettings("http://c"), {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})


def test_queues_read_the_standard_variables_and_survive_nonsense() -> None:
    assert pace({}, "BSP") == Pace(2048, 512, 5.0)
    assert pace({}, "BLRP").every == 1.0
    environ = {
        "OTEL_BSP_MAX_QUEUE_SIZE": "100",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "500",
        "OTEL_BSP_SCHEDULE_DELAY": "250",
    }
    assert pace(environ, "BSP") == Pace(100, 100, 0.25)
    assert pace({"OTEL_BSP_MAX_QUEUE_SIZE": "many", "OTEL_BSP_SCHEDULE_DELAY": "0"}, "BSP").queue == 2048
