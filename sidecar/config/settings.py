"""Every setting, grouped by concern: its unit, its default and why that is the default.

Durations are written with a unit (`90s`, `20m`, `1h30m`, `2d`) and are seconds here. The bounds are
in `bounds`, what an agent needs beside the common part is declared by its adapter.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from sidecar.config.bounds import Bounds
from sidecar.config_units import Address, FilePath, Seconds, Url


class Actions(Struct, frozen=True, kw_only=True):
    """How acts are carried out, and what holds them back."""

    escalate: Literal["none", "reap"] = "none"
    """What follows an interrupt that was accepted and had no effect. `none`: it is reported, for a
    reap loses the session's process and nobody asked for that."""

    grace: Seconds = 30.0
    """How long an act may take to show its effect before it counts as ineffective. Agents end a
    turn within seconds; 30s covers a tool that must be stopped first."""

    max: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Acts within `per`, over all agents. Ten stalls at once are an outage of the provider, and
    ending all of them helps nobody; those held back are counted."""

    per: Seconds = 600.0
    """The window that `max` counts in; 10m is about how long providers' short outages last."""

    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.1
    """A share of each limit, 0 to 1, of which every session gets a random part on top when acting,
    so that a fleet does not end in the same second. No effect in observe mode."""

    deadline: Seconds = 10.0
    """How long one look at an agent or one call to it may take. 10s: an agent that is slower to
    answer is busy or gone, and the act is better judged anew."""

    hold_file: FilePath | None = None
    """While this file holds anything but nothing, `0` or `false`, or exists and cannot be read,
    nothing is ended. Read before every act: a mounted ConfigMap key stops a whole fleet. Off: there
    is none."""


class Otlp(Struct, frozen=True, kw_only=True):
    """Where traces and metrics are pushed to. `OTEL_*` variables count as the SDK reads them."""

    endpoint: Url | None = None
    """The collector's base URL. Off: what OTEL_EXPORTER_OTLP_ENDPOINT says."""

    protocol: Literal["http", "grpc"] | None = None
    """`http` is protobuf over HTTP, which passes every proxy; `grpc` costs 15 MB of memory more.
    Off: what OTEL_EXPORTER_OTLP_PROTOCOL says, else http."""

    headers_file: FilePath | None = None
    """Headers for the collector, `name: value` a line, such as its credentials. Off: none."""

    timeout: Seconds = 10.0
    """How long one push may take; it runs beside the watching and delays nothing."""

    traces: bool = True
    """Whether turns are exported as traces."""

    metrics: bool = True
    """Whether the metrics are pushed too: jobs shorter than two scrapes are seen only so."""

    logs: bool = True
    """Whether verdicts and acts are sent as log events, with their trace, in place of lines: told
    twice, they would be counted twice."""


class Telemetry(Struct, frozen=True, kw_only=True):
    """What is told of the sessions, apart from the scrape."""

    otlp: Otlp | None = None
    """Push to a collector. Off: nothing is pushed unless OTEL_EXPORTER_OTLP_ENDPOINT says where to."""

    liveness_after: Seconds | None = 60.0
    """Silence after which an open turn starts to send liveness spans, so that a turn that hangs is
    seen while it hangs. 60s: a working turn is rarely silent for longer. Off: none."""

    lines: bool = True
    """Whether lifecycle lines are written to standard output, one JSON object an event."""

    turn_progress: bool = False
    """Whether a line is written for progress too. False: that is a line for every block."""


class Metrics(Struct, frozen=True, kw_only=True):
    """What the scrape shows."""

    per_session: bool = False
    """Whether gauges are labelled with the session. False: sessions come and go, and every one
    would leave its series behind in Prometheus."""


class Settings(Struct, frozen=True, kw_only=True):
    """The configuration file."""

    PIECEWISE: ClassVar[bool] = True

    mode: Literal["observe", "enforce"] = "observe"
    """`observe` judges, counts and reports every act it would have done and touches nothing;
    `enforce` acts. Turn it on when the would-be acts look right."""

    listen: Address = "127.0.0.1:9475"
    """HOST:PORT of metrics, health, the API and the page. Loopback: the API names sessions and
    people use it from the same pod or machine, or through a port-forward."""

    scrape_listen: Address | None = None
    """HOST:PORT that serves only /metrics, /healthz and /readyz, for Prometheus and probes that
    come over the network; usually 0.0.0.0:9476. Off: nothing listens beyond loopback unasked."""

    allowed_hosts: tuple[str, ...] = ()
    """Names that requests to `listen` may be addressed to, besides localhost, its own host and any
    bare IP address. Empty: a foreign name in a request is a web page trying to read the API."""

    state_dir: FilePath = "~/.local/state/agent-sidecar"
    """Where the journal is kept, size-bounded. A container mounts a volume that
    outlives restarts, usually /var/lib/agent-sidecar."""

    agents: list[Any] | UnsetType = UNSET
    """The agents to watch. Left out: those of this machine, found where they keep their files."""

    bounds: Bounds = field(default_factory=Bounds)
    """How long each state may last, for all agents; `agents[].bounds` and `agents[].preset` are
    nearer and win."""

    actions: Actions = Actions()
    """How acts are carried out."""

    token_file: FilePath | None = None
    """A file with the bearer token for `interrupt` and `reap` over the API, read at every request.
    Off: those two do not exist."""

    telemetry: Telemetry = Telemetry()
    """What is told of the sessions."""

    metrics: Metrics = Metrics()
    """What the scrape shows."""


class Common(Struct, frozen=True, kw_only=True):
    """What every entry of `agents` may say; its adapter declares the rest."""

    kind: str
    """Which agent this is. Required."""

    name: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")] | None = None
    """The `agent` label of everything shown. Default: the preset, else the kind. Unique."""

    preset: str | None = None
    """A set of documented numbers and settings below those given here. Off: none."""

    attended: bool | None = None
    """Whether somebody sits there: attended sessions are reported and never ended by a bound.
    Default: what the adapter sees."""

    bounds: Bounds = field(default_factory=Bounds)
    """As the top-level `bounds`, for this agent alone."""
