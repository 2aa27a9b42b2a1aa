"""Loading a configuration: defaults, the whole example, agents, presets, controls, the hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from sidecar.config import Config, ConfigError, Control, KindSpec, load
from sidecar.config_units import FilePath, Seconds, Url
from sidecar.limits import Limit, Rules

if TYPE_CHECKING:
    from pathlib import Path


class Files(Struct, frozen=True, kw_only=True):
    """An agent that is read from files."""

    config_dir: FilePath | None = None
    """Where it keeps its files."""


class Endpoint(Struct, frozen=True, kw_only=True):
    """An agent that is asked over HTTP."""

    url: Url
    """Where it listens."""

    password_file: FilePath | None = None
    """A file with its password."""

    every: Seconds = 5.0
    """Seconds between two polls."""

    headers: dict[str, str] = {}
    """Headers to send."""

    codes: tuple[int, ...] = (200, 204)
    """Answers that are good."""

    def __post_init__(self) -> None:
        if self.url.startswith("https://") and self.password_file is None:
            raise ValueError("an https agent needs a password_file")


class Host(Struct, frozen=True, kw_only=True):
    """A host that owns the agent's standard input."""

    url: Url
    """Its socket; `*` stands for one per session."""


class Signals(Struct, frozen=True, kw_only=True):
    """Unix signals."""


class Kind(Struct, frozen=True, kw_only=True):
    """What a registry entry has to offer."""

    settings: type[Struct]
    presets: Mapping[str, Mapping[str, Any]] = {}
    control_kinds: Mapping[str, type[Struct]] = {}


KINDS: dict[str, KindSpec] = {
    "claude-code": Kind(
        settings=Files,
        presets={"claude-remote-control": {}},
        control_kinds={"host": Host, "signal": Signals},
    ),
    "http": Kind(
        settings=Endpoint,
        presets={
            "kbc-box": {"every": "15s", "headers": {"X-Box": "kbc"}},
            "sdk-box": {},
        },
    ),
    "opencode": Kind(settings=Endpoint),
    "redcode": Kind(settings=Files, presets={"redcode": {}}),
}
HOME = {"HOME": "/home/op"}


def read(text: str, **env: str) -> Config:
    return load(text, HOME | env, KINDS)


def problems(text: str, **env: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text, **env)
    assert str(caught.value).split("\n") == [str(problem) for problem in caught.value.problems]
    return [str(problem) for problem in caught.value.problems]


def test_without_a_file_everything_has_a_default_and_nothing_is_touched() -> None:
    config = load(None, HOME, KINDS)
    assert config.settings.mode == "observe"
    assert config.settings.listen == "127.0.0.1:9475"
    assert config.settings.scrape_listen is None
    assert config.settings.token_file is None
    assert config.settings.state_dir == "/home/op/.local/state/agent-sidecar"
    assert config.rules == Rules()
    assert config.agents is None


def test_without_agents_every_kind_that_needs_no_settings_is_ready_to_be_found() -> None:
    config = read("bounds: {waiting: 3m}")
    assert sorted(config.found) == ["claude-code", "redcode"]
    assert config.found["claude-code"].name == "claude-code"
    assert config.found["claude-code"].settings == Files()
    assert config.found["claude-code"].rules.waiting == Limit(180.0, "interrupt")


@pytest.mark.parametrize("text", ["", "# only a comment\n", "bounds:\ntelemetry:\n", "---\n", "---\n...\n"])
def test_an_empty_configuration_is_the_default_one(text: str) -> None:
    assert read(text) == read("")


WHOLE = """
mode: enforce
listen: 127.0.0.1:9475
scrape_listen: 0.0.0.0:9476
allowed_hosts: [sidecar.internal]
state_dir: /var/lib/agent-sidecar
agents:
  - kind: claude-code
    config_dir: /agent/.claude
    attended: false
    control: {kind: host, url: "unix:/run/agent/*.sock"}
  - kind: opencode
    url: http://127.0.0.1:4096/
    password_file: ~/opencode
    headers: {X-Tenant: a}
  - kind: http
    preset: kbc-box
    url: http://127.0.0.1:3000
bounds:
  waiting: 5m
  idle: {limit: 30m, action: report, unprompted: false}
  model: {record: 45m, delta: {limit: 15m, warn: 6m}}
  tool: {"mcp__*": 30m}
actions: {escalate: none, grace: 30s, max: 10, per: 10m, jitter: 0.1, hold_file: /etc/agent-sidecar/hold}
token_file: /run/secrets/agent-sidecar
telemetry: {otlp: {endpoint: "http://otel-collector:4318"}, liveness_after: 60s}
metrics: {per_session: true}
"""


def test_the_whole_example_is_read() -> None:
    config = read(WHOLE)
    settings = config.settings
    assert settings.scrape_listen == "0.0.0.0:9476"
    assert settings.allowed_hosts == ("sidecar.internal",)
    assert settings.actions.hold_file == "/etc/agent-sidecar/hold"
    assert settings.token_file == "/run/secrets/agent-sidecar"  # noqa: S105 - a path
    assert settings.telemetry.otlp is not None
    assert settings.telemetry.otlp.endpoint == "http://otel-collector:4318"
    assert settings.metrics.per_session
    assert config.agents is not None
    claude, opencode, box = config.agents
    assert claude.settings == Files(config_dir="/agent/.claude")
    assert claude.attended is False
    assert claude.control == Control("host", Host(url="unix:/run/agent/*.sock"))
    assert opencode.settings == Endpoint(
        url="http://127.0.0.1:4096",
        password_file="/home/op/opencode",  # noqa: S106 - a path
        headers={"X-Tenant": "a"},
    )
    assert opencode.attended is None
    assert box.name == "kbc-box"
    assert config.found == {}


def test_a_path_and_its_text_come_to_the_same(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(WHOLE, "utf-8")
    assert load(file, HOME, KINDS) == read(WHOLE)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"\xef\xbb\xbfmode: enforce\n")
    assert load(file, HOME, KINDS).settings.mode == "enforce"


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda _: None, "cannot be read: No such file or directory"),
        (lambda file: file.mkdir(), "cannot be read: Is a directory"),
        (lambda file: file.write_bytes(b"\xff\xfe"), "is not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, make: Any, wrong: str) -> None:
    file = tmp_path / "config.yaml"
    make(file)
    with pytest.raises(ConfigError) as caught:
        load(file, HOME, KINDS)
    assert str(caught.value) == f"{file}: {wrong}"


def test_jitter_counts_only_where_something_is_ended() -> None:
    assert read("actions: {jitter: 0.3}").rules.jitter == 0.0
    assert read("{mode: enforce, actions: {jitter: 0.3}}").rules.jitter == 0.3
    agents = read("{mode: enforce, agents: [{kind: claude-code}]}").agents
    assert agents is not None
    assert agents[0].rules.jitter == 0.1


def test_a_preset_lies_below_what_the_entry_says() -> None:
    config = read("agents: [{kind: http, preset: kbc-box, url: 'http://a', headers: {X-Me: b}, every: 9s}]")
    assert config.agents is not None
    assert config.agents[0].preset == "kbc-box"
    assert config.agents[0].settings == Endpoint(
        url="http://a", every=9.0, headers={"X-Box": "kbc", "X-Me": "b"}
    )


def test_what_a_preset_says_of_attendance_can_be_overruled() -> None:
    entry = "{kind: claude-code, preset: claude-remote-control"
    agents = read(f"agents: [{entry}}}, {entry}, name: mine, config_dir: /b, attended: true}}]").agents
    assert agents is not None
    assert [agent.attended for agent in agents] == [False, True]


def test_a_control_of_another_kind_replaces_that_of_the_preset() -> None:
    kinds: dict[str, KindSpec] = {
        "x": Kind(
            settings=Files,
            presets={"p": {"control": {"kind": "host", "url": "unix:/a"}}},
            control_kinds={"host": Host, "signal": Signals},
        )
    }
    text = "agents: [{kind: x, preset: p, name: a}, {kind: x, preset: p, name: b, config_dir: /b, control: {kind: signal}},"
    text += "{kind: x, preset: p, name: c, config_dir: /c, control: off},"
    text += "{kind: x, preset: p, name: d, config_dir: /d, control: {kind: host, url: 'unix:/d'}}]"
    agents = load(text, HOME, kinds).agents
    assert agents is not None
    assert [agent.control for agent in agents] == [
        Control("host", Host(url="unix:/a")),
        Control("signal", Signals()),
        None,
        Control("host", Host(url="unix:/d")),
    ]


def test_the_hash_is_that_of_what_is_in_force() -> None:
    same = {
        read("mode: observe").config_hash,
        read("").config_hash,
        read("bounds: {waiting: 300s}").config_hash,
    }
    assert len(same) == 1
    others = [
        read("mode: enforce"),
        read("bounds: {waiting: 4m}"),
        read("agents: [{kind: claude-code}]"),
        read("agents: [{kind: claude-code, bounds: {waiting: 4m}}]"),
        read("", AGENT_SIDECAR__METRICS__PER_SESSION="true"),
    ]
    hashes = {config.config_hash for config in others} | same
    assert len(hashes) == len(others) + 1
    assert all(len(text) == 12 for text in hashes)


def test_aliases_are_values_of_their_own() -> None:
    text = "bounds: {waiting: &five {limit: 4m}, compacting: *five}"
    config = read(text, AGENT_SIDECAR__BOUNDS__WAITING="7m")
    assert (config.rules.waiting.limit, config.rules.compacting.limit) == (420.0, 240.0)


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        read("").settings.mode = "enforce"  # type: ignore[misc]
