"""Where telemetry goes: the configuration's endpoint, else what the standard variables say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

SignalKind = Literal["traces", "metrics", "logs"]
Protocol = Literal["http/protobuf", "grpc"]

KINDS: Final[tuple[SignalKind, ...]] = ("traces", "metrics", "logs")
PROTOCOLS: Final[tuple[Protocol, ...]] = ("http/protobuf", "grpc")


class OtlpSettings(Struct, frozen=True):
    """What the configuration says of OTLP. Unset, the standard variables decide."""

    endpoint: str | None = None
    """Base URL of the collector, e.g. http://otel-collector:4318; wins over the environment."""
    protocol: Protocol | None = None
    """`http/protobuf` by default; `grpc` loads gRPC, 15 MB more."""
    traces: bool = True
    metrics: bool = True
    logs: bool = True
    """Verdicts and acts as log events, in place of their lifecycle lines."""
    headers: dict[str, str] | None = None
    """Sent with every push, for instance credentials; win over the environment's of the same name."""
    timeout: float | None = None
    """Seconds that one push may take; 10 where the environment does not say either."""


class Target(Struct, frozen=True):
    """Where one signal goes; without an endpoint the exporter reads the environment itself."""

    endpoint: str | None
    protocol: Protocol
    headers: dict[str, str] | None = None
    timeout: float | None = None


class OtlpError(ValueError):
    """The environment asks for something that is not built."""


def targets(settings: OtlpSettings, environ: Mapping[str, str]) -> dict[SignalKind, Target]:
    """Return the signals to send and where to; empty where OTLP is not configured."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    return {kind: _target(kind, settings, environ) for kind in KINDS if _wanted(kind, settings, environ)}


def _wanted(kind: SignalKind, settings: OtlpSettings, environ: Mapping[str, str]) -> bool:
    if not getattr(settings, kind) or environ.get(f"OTEL_{kind.upper()}_EXPORTER", "") == "none":
        return False
    named = (f"OTEL_EXPORTER_OTLP_{kind.upper()}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return bool(settings.endpoint) or any(environ.get(name) for name in named)


def _target(kind: SignalKind, settings: OtlpSettings, environ: Mapping[str, str]) -> Target:
    named = (f"OTEL_EXPORTER_OTLP_{kind.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    asked = next((environ[name] for name in named if environ.get(name)), PROTOCOLS[0])
    protocol = settings.protocol or next((p for p in PROTOCOLS if p == asked), None)
    if protocol is None:
        raise OtlpError(f"OTLP over {asked} is not supported; it is one of {', '.join(PROTOCOLS)}")
    endpoint = settings.endpoint
    if endpoint and protocol != "grpc":
        endpoint = f"{endpoint.rstrip('/')}/v1/{kind}"
    headers = settings.headers and {name.lower(): value for name, value in settings.headers.items()}
    return Target(endpoint, protocol, headers, settings.timeout)
