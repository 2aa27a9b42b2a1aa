"""Every setting has a row: a type, a default, what is allowed, and the reason in words."""

from __future__ import annotations

import pytest
from msgspec import Struct

from sidecar.config.bounds import Bounds
from sidecar.config.decode import fields
from sidecar.config.describe import Setting, describe_settings, docs
from sidecar.config.settings import Actions, Common, Metrics, Otlp, Settings, Telemetry
from sidecar.config_units import seconds, written
from tests.test_config import KINDS, Kind

ROWS = describe_settings(KINDS)


def row(path: str) -> Setting:
    (found,) = [setting for setting in ROWS if setting.path == path]
    return found


@pytest.mark.parametrize("cls", [Settings, Actions, Otlp, Telemetry, Metrics, Common, Bounds])
def test_every_setting_says_in_words_what_it_is(cls: type[Struct]) -> None:
    assert set(docs(cls)) == set(fields(cls))
    assert all(text.endswith(".") for text in docs(cls).values())


def test_rows_are_whole_and_once() -> None:
    assert len({setting.path for setting in ROWS}) == len(ROWS)
    assert all(setting.type and setting.doc for setting in ROWS)


def test_a_row_says_type_default_and_what_is_allowed() -> None:
    grace = row("actions.grace")
    assert (grace.type, grace.default) == ("duration", "30s")
    assert row("mode").allowed == "enforce | observe"
    assert row("actions.max").allowed == "1 to 1000"
    assert row("scrape_listen").type == "address or off"
    assert row("telemetry.otlp").default == "off"
    assert row("agents[].attended").type == "true or false or null"
    assert row("agents[].kind").default == "required"


def test_every_default_is_the_documented_one() -> None:
    defaults = {setting.path: setting.default for setting in ROWS if "[" not in setting.path}
    assert {path: text for path, text in defaults.items() if not path.startswith("bounds.")} == {
        "mode": "observe",
        "listen": "127.0.0.1:9475",
        "scrape_listen": "off",
        "allowed_hosts": "",
        "state_dir": "~/.local/state/agent-sidecar",
        "agents": "",
        "actions.escalate": "none",
        "actions.grace": "30s",
        "actions.max": "10",
        "actions.per": "10m",
        "actions.jitter": "0.1",
        "actions.deadline": "10s",
        "actions.hold_file": "off",
        "token_file": "off",
        "telemetry.otlp": "off",
        "telemetry.otlp.endpoint": "off",
        "telemetry.otlp.protocol": "",
        "telemetry.otlp.headers_file": "off",
        "telemetry.otlp.timeout": "10s",
        "telemetry.otlp.traces": "true",
        "telemetry.otlp.metrics": "true",
        "telemetry.otlp.logs": "true",
        "telemetry.liveness_after": "1m",
        "telemetry.lines": "true",
        "telemetry.turn_progress": "false",
        "metrics.per_session": "false",
    }


def test_the_defaults_of_bounds_are_those_that_are_judged_by() -> None:
    assert row("bounds.waiting").default == "5m, interrupt"
    assert row("bounds.model.record").default == "45m, warn 20m, interrupt"
    assert row("bounds.model.delta").allowed == "limit, warn, action (interrupt | report); at least 5s"
    assert row("bounds.turn").default == "off"
    assert "Edit: 15m, report" in row("bounds.tool").default
    assert row("bounds.unsafe").type == "true or false"


def test_what_adapters_declare_has_rows_too() -> None:
    assert row("agents[opencode].every").default == "5s"
    assert row("agents[opencode].url").default == "required"
    assert row("agents[opencode].headers").allowed == "your own keys, each: text"
    assert row("agents[opencode].codes").default == "200, 204"
    assert row("agents[claude-code].control[host].url").type == "url"


def test_a_setting_without_words_is_found() -> None:
    class Bare(Struct):
        silent: int = 0

    with pytest.raises(KeyError, match="silent"):
        describe_settings({"bare": Kind(settings=Bare)})


@pytest.mark.parametrize(
    ("text", "value", "back"),
    [
        ("90s", 90.0, "1m30s"),
        ("20m", 1200.0, "20m"),
        ("1h30m", 5400.0, "1h30m"),
        ("2d", 172_800.0, "2d"),
        ("500ms", 0.5, "500ms"),
        ("1.5s", 1.5, "1s500ms"),
        ("1d2h3m4s5ms", 93_784.005, "1d2h3m4s5ms"),
        ("30d", 2_592_000.0, "30d"),
        ("0.1h", 360.0, "6m"),
    ],
)
def test_durations_are_read_and_written(text: str, value: float, back: str) -> None:
    assert seconds(text) == pytest.approx(value)
    assert written(seconds(text)) == back
    assert seconds(back) == pytest.approx(value)
