"""The environment: every scalar can be set by it, and nothing that is no setting passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import Struct
from msgspec import inspect as i

from sidecar.config.decode import fields, plain
from sidecar.config.settings import Settings
from sidecar.limits import Limit
from tests.test_config import Endpoint, Files, Host, problems, read

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_variable_wins_over_the_file() -> None:
    config = read("bounds: {waiting: 5m}", AGENT_SIDECAR__BOUNDS__WAITING="10m")
    assert config.rules.waiting == Limit(600.0, "interrupt")


def test_a_variable_needs_no_file() -> None:
    config = read(
        "",
        AGENT_SIDECAR__MODE="enforce",
        AGENT_SIDECAR__ACTIONS__MAX="3",
        AGENT_SIDECAR__ACTIONS__JITTER="0.25",
        AGENT_SIDECAR__METRICS__PER_SESSION="yes",
        AGENT_SIDECAR__TELEMETRY__OTLP__ENDPOINT="http://c:4318",
        AGENT_SIDECAR__TELEMETRY__LIVENESS_AFTER="off",
        AGENT_SIDECAR__SCRAPE_LISTEN="0.0.0.0:9476",
    )
    assert config.settings.mode == "enforce"
    assert (config.settings.actions.max, config.settings.actions.jitter) == (3, 0.25)
    assert config.settings.metrics.per_session
    assert config.settings.telemetry.otlp is not None
    assert config.settings.telemetry.otlp.endpoint == "http://c:4318"
    assert config.settings.telemetry.liveness_after is None
    assert config.settings.scrape_listen == "0.0.0.0:9476"


@pytest.mark.parametrize("file", ["", "scrape_listen: '0.0.0.0:9476'", "scrape_listen: off"])
@pytest.mark.parametrize("word", ["off", "null"])
def test_off_disables_what_can_be_off(file: str, word: str) -> None:
    assert read(file, AGENT_SIDECAR__SCRAPE_LISTEN=word).settings.scrape_listen is None


@pytest.mark.parametrize("word", ["off", "false", "no"])
def test_a_boolean_that_may_be_unset_is_false_when_it_is_off(word: str) -> None:
    agents = read(
        "agents: [{kind: claude-code, attended: true}]", AGENT_SIDECAR__AGENTS__0__ATTENDED=word
    ).agents
    assert agents is not None
    assert agents[0].attended is False


def test_a_map_that_is_off_in_the_file_can_be_begun() -> None:
    env = {"AGENT_SIDECAR__TELEMETRY__OTLP__ENDPOINT": "http://c:4318"}
    assert read("telemetry: {otlp: off}", **env).settings.telemetry.otlp is not None


def test_a_map_that_may_be_off_can_be_switched_off() -> None:
    text = "telemetry: {otlp: {endpoint: 'http://c:4318'}}"
    assert read(text, AGENT_SIDECAR__TELEMETRY__OTLP="off").settings.telemetry.otlp is None


@pytest.mark.parametrize(
    "file", ["waiting: 4m", "waiting: {limit: 4m}", "waiting: {limit: 4m, action: interrupt}"]
)
def test_a_part_of_a_bound_leaves_the_rest_of_it(file: str) -> None:
    config = read(f"bounds: {{{file}}}", AGENT_SIDECAR__BOUNDS__WAITING__ACTION="report")
    assert config.rules.waiting == Limit(240.0, "report")


def test_the_short_form_sets_the_limit_and_leaves_the_action() -> None:
    config = read("bounds: {waiting: {limit: 4m, action: report}}", AGENT_SIDECAR__BOUNDS__WAITING="9m")
    assert config.rules.waiting == Limit(540.0, "report")


def test_the_short_form_of_the_model_sets_both_resolutions() -> None:
    config = read("bounds: {model: {record: 50m}}", AGENT_SIDECAR__BOUNDS__MODEL="30m")
    assert (config.rules.model_record.limit, config.rules.model_delta.limit) == (1800.0, 1800.0)
    one = read("bounds: {model: 50m}", AGENT_SIDECAR__BOUNDS__MODEL__DELTA__LIMIT="10m").rules
    assert (one.model_record.limit, one.model_delta.limit) == (3000.0, 600.0)


def test_a_bound_that_is_off_in_the_file_can_be_switched_on() -> None:
    assert read("bounds: {waiting: off}", AGENT_SIDECAR__BOUNDS__WAITING="9m").rules.waiting.limit == 540.0


def test_an_agent_is_overridden_by_its_number() -> None:
    text = "agents: [{kind: claude-code}, {kind: opencode, url: 'http://a'}]"
    agents = read(
        text,
        AGENT_SIDECAR__AGENTS__1__URL="http://b:4096",
        AGENT_SIDECAR__AGENTS__1__PASSWORD_FILE="/run/p",  # noqa: S106 - a path
        AGENT_SIDECAR__AGENTS__0__BOUNDS__WAITING="2m",
        AGENT_SIDECAR__AGENTS__0__CONTROL__KIND="host",
        AGENT_SIDECAR__AGENTS__0__CONTROL__URL="unix:/run/h.sock",
    ).agents
    assert agents is not None
    assert agents[1].settings == Endpoint(url="http://b:4096", password_file="/run/p")  # noqa: S106 - a path
    assert agents[0].rules.waiting.limit == 120.0
    assert agents[0].control is not None
    assert agents[0].control.settings == Host(url="unix:/run/h.sock")


def test_agents_can_be_made_of_variables_alone() -> None:
    agents = read(
        "",
        AGENT_SIDECAR__AGENTS__0__CONFIG_DIR="/agent",
        AGENT_SIDECAR__AGENTS__0__KIND="claude-code",
        AGENT_SIDECAR__AGENTS__1__PRESET="kbc-box",
        AGENT_SIDECAR__AGENTS__1__URL="http://b",
        AGENT_SIDECAR__AGENTS__1__KIND="http",
    ).agents
    assert agents is not None
    assert [agent.name for agent in agents] == ["claude-code", "kbc-box"]
    assert agents[0].settings == Files(config_dir="/agent")
    assert type(agents[0].kind) is str
    assert type(agents[1].name) is str


WRONG = [
    ({"FOO": "1"}, "AGENT_SIDECAR__FOO: the configuration has no setting 'foo'"),
    (
        {"BOUNDS__WAITNG": "5m"},
        "AGENT_SIDECAR__BOUNDS__WAITNG: bounds has no setting 'waitng'; did you mean WAITING?",
    ),
    ({"MODE": ""}, "AGENT_SIDECAR__MODE: is empty; unset it, or write off to disable the setting"),
    ({"": "x"}, "AGENT_SIDECAR__: the configuration has no setting ''"),
    ({"MODE__X": "1"}, "AGENT_SIDECAR__MODE__X: mode is a single value"),
    (
        {"BOUNDS__TOOL__BASH": "5m"},
        "AGENT_SIDECAR__BOUNDS__TOOL__BASH: the keys of bounds.tool are your own; set them in the file",
    ),
    (
        {"BOUNDS__TOOL": "5m"},
        "AGENT_SIDECAR__BOUNDS__TOOL: names a list or a map of your own keys; set it in the file",
    ),
    (
        {"METRICS": "1"},
        "AGENT_SIDECAR__METRICS: names a map; go on with one of: PER_SESSION",
    ),
    (
        {"AGENTS__1__KIND": "opencode"},
        "AGENT_SIDECAR__AGENTS__1__KIND: agents has 0 entries; the next one is number 0",
    ),
    (
        {"AGENTS__X__KIND": "opencode"},
        "AGENT_SIDECAR__AGENTS__X__KIND: agents has 0 entries; the next one is number 0",
    ),
    ({"AGENTS__0__URL": "http://a"}, "AGENT_SIDECAR__AGENTS__0__URL: agents.0 has no setting 'url'"),
    ({"MODE": "kill"}, "mode: 'kill' is not one of: enforce, observe (from AGENT_SIDECAR__MODE)"),
    ({"ACTIONS__MAX": "x"}, "actions.max: 'x' is not a whole number (from AGENT_SIDECAR__ACTIONS__MAX)"),
    ({"ACTIONS__MAX": "1.5"}, "actions.max: '1.5' is not a whole number (from AGENT_SIDECAR__ACTIONS__MAX)"),
    (
        {"METRICS__PER_SESSION": "maybe"},
        "metrics.per_session: 'maybe' is not true or false (from AGENT_SIDECAR__METRICS__PER_SESSION)",
    ),
    (
        {"BOUNDS__WAITING": "300"},
        (
            "bounds.waiting.limit: '300' has no unit; write 300s, or a duration such as 90s, 20m, 1h30m or 2d"
            " (from AGENT_SIDECAR__BOUNDS__WAITING)"
        ),
    ),
    (
        {"BOUNDS__WAITING": "0"},
        (
            "bounds.waiting.limit: '0' could mean at once or never; use off to disable it "
            "(from AGENT_SIDECAR__BOUNDS__WAITING)"
        ),
    ),
]


@pytest.mark.parametrize(("env", "sentence"), WRONG, ids=[sentence[:60] for _, sentence in WRONG])
def test_a_wrong_variable_is_named(env: dict[str, str], sentence: str) -> None:
    assert problems("", **{f"AGENT_SIDECAR__{name}": value for name, value in env.items()}) == [sentence]


def test_a_variable_of_an_agent_that_has_no_such_setting_is_an_error() -> None:
    told = problems("agents: [{kind: claude-code}]", AGENT_SIDECAR__AGENTS__0__URL="http://a")
    assert told == ["AGENT_SIDECAR__AGENTS__0__URL: agents.0 has no setting 'url'"]


def test_a_wrong_variable_leaves_no_half_of_an_agent() -> None:
    told = problems("agents: [{kind: claude-code}]", AGENT_SIDECAR__AGENTS__1__URL="http://a")
    assert told == ["AGENT_SIDECAR__AGENTS__1__URL: agents.1 has no setting 'url'"]


def test_a_file_that_has_something_else_in_the_place_is_not_overruled() -> None:
    told = problems("metrics: 5", AGENT_SIDECAR__METRICS__PER_SESSION="true")
    assert told[0] == "AGENT_SIDECAR__METRICS__PER_SESSION: the file has 5 in its place"


def test_other_variables_of_a_similar_name_are_not_ours() -> None:
    assert read("", AGENT_SIDECAR_CONFIG="x", AGENT_SIDECARS__MODE="y") == read("")


def scalars(cls: type[Struct], prefix: str) -> Iterator[tuple[str, i.Type]]:
    for name, field in fields(cls).items():
        inner = plain(field.type)
        if isinstance(inner, i.StructType):
            yield from scalars(inner.cls, f"{prefix}{name.upper()}__")
        elif not isinstance(inner, i.ListType | i.VarTupleType | i.DictType):
            yield prefix + name.upper(), inner


EVERY = dict(scalars(Settings, "AGENT_SIDECAR__"))


def sample(kind: i.Type) -> str:
    if isinstance(kind, i.LiteralType):
        return str(kind.values[0])
    if isinstance(kind, i.Metadata):
        samples = {"duration": "9m", "path": "/x", "url": "http://x", "address": "127.0.0.1:1"}
        return samples[(kind.extra or {})["unit"]]
    return {i.BoolType: "true", i.IntType: "5", i.FloatType: "0.5"}[type(kind)]


@pytest.mark.parametrize("name", EVERY)
def test_every_scalar_can_be_set_by_a_variable(name: str) -> None:
    extra = {"AGENT_SIDECAR__BOUNDS__TURN__LIMIT": "1h", "AGENT_SIDECAR__BOUNDS__BUSY__LIMIT": "1h"}
    value = "1m" if name.endswith("WARN") else sample(EVERY[name])
    assert read("", **(extra | {name: value})) is not None


def test_there_are_as_many_scalars_as_one_would_think() -> None:
    assert len(EVERY) > 50
