"""Bad configurations, each with its exact sentence; a mistake must never pass for a setting."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config import ConfigError, load
from tests.test_config import HOME, KINDS, problems

ALLOWED = (
    "actions, agents, allowed_hosts, bounds, listen, metrics, mode, scrape_listen, state_dir, telemetry, "
    "token_file"
)
ADDRESS = "is not an address; write HOST:PORT, for example 127.0.0.1:9475 or [::1]:9475"
URL = "is not a URL; write http://HOST:PORT, https://… or unix:/path"
BAD_YAML = "the configuration is not valid YAML"
EXAMPLES = "90s, 20m, 1h30m or 2d"

SENTENCES = [
    # keys
    ("lisen: x", f"lisen: unknown setting (given: 'x'); did you mean listen?; allowed here: {ALLOWED}"),
    ("zzz: {a: 1}", f"zzz: unknown setting (given: a map); allowed here: {ALLOWED}"),
    ("zzz: [1]", f"zzz: unknown setting (given: a list); allowed here: {ALLOWED}"),
    ("zzz:", f"zzz: unknown setting (given: nothing); allowed here: {ALLOWED}"),
    (
        "metrics: {per_sesion: true}",
        (
            "metrics.per_sesion: unknown setting (given: true); did you mean per_session?; "
            "allowed here: per_session"
        ),
    ),
    (
        "token: hunter2",
        f"token: unknown setting; secrets are read from files: use token_file; allowed here: {ALLOWED}",
    ),
    ("my_secret: hunter2", f"my_secret: unknown setting; allowed here: {ALLOWED}"),
    ("mode: observe\nmode: enforce", "mode: is set twice (lines 1 and 2)"),
    ("bounds:\n  tool:\n    x: 1m\n    x: 2m", "bounds.tool.x: is set twice (lines 3 and 4)"),
    ("agents: [{kind: opencode, kind: http}]", "agents.0.kind: is set twice (lines 1 and 1)"),
    ("1: x", "has a key that is not text (line 1); put it in quotes"),
    ("bounds: {off: 1m}", "bounds: has a key that is not text (line 1); put it in quotes"),
    ("? [a]\n: b", "has a key that is not text (line 1); put it in quotes"),
    # shapes
    ("- a", "the configuration is not a map of settings"),
    ("text", "the configuration is not a map of settings"),
    ("metrics: true", "metrics: true is not a map; allowed in it: per_session"),
    ("allowed_hosts: a", "allowed_hosts: 'a' is not a list"),
    ("allowed_hosts: [1]", "allowed_hosts.0: 1 is not text; put it in quotes"),
    ("bounds: {tool: 5m}", "bounds.tool: '5m' is not a map"),
    # words and numbers
    ("mode: off", "mode: off is not one of: enforce, observe"),
    ("mode: kill", "mode: 'kill' is not one of: enforce, observe"),
    ("mode: 1", "mode: 1 is not one of: enforce, observe"),
    ("metrics: {per_session: 1}", "metrics.per_session: 1 is not true or false"),
    ("metrics: {per_session: 'true'}", "metrics.per_session: 'true' is not true or false"),
    ("actions: {max: 0}", "actions.max: 0 is out of range; allowed: 1 to 1000"),
    ("actions: {max: 1.5}", "actions.max: 1.5 is not a whole number"),
    ("actions: {max: true}", "actions.max: true is not a whole number"),
    ("actions: {max: '3'}", "actions.max: '3' is not a whole number"),
    ("actions: {jitter: 2}", "actions.jitter: 2 is out of range; allowed: 0 to 1"),
    ("actions: {jitter: .nan}", "actions.jitter: nan is not a number"),
    ("actions: {escalate: kill}", "actions.escalate: 'kill' is not one of: none, reap"),
    ("telemetry: {otlp: {protocol: json}}", "telemetry.otlp.protocol: 'json' is not one of: grpc, http"),
    # durations
    (
        "bounds: {waiting: 300}",
        f"bounds.waiting: 300 has no unit; write 300s, or a duration such as {EXAMPLES}",
    ),
    (
        "bounds: {waiting: '5'}",
        f"bounds.waiting: '5' has no unit; write 5s, or a duration such as {EXAMPLES}",
    ),
    (
        "bounds: {waiting: 1:30}",
        f"bounds.waiting: 90 has no unit; write 90s, or a duration such as {EXAMPLES}",
    ),
    ("bounds: {waiting: 0}", "bounds.waiting: 0 could mean at once or never; use off to disable it"),
    ("bounds: {waiting: 0s}", "bounds.waiting: '0s' could mean at once or never; use off to disable it"),
    ("bounds: {waiting: 0m0s}", "bounds.waiting: '0m0s' could mean at once or never; use off to disable it"),
    ("bounds: {waiting: -5m}", f"bounds.waiting: '-5m' is not a duration; write one such as {EXAMPLES}"),
    ("bounds: {waiting: -5}", f"bounds.waiting: -5 is not a duration; write one such as {EXAMPLES}"),
    ("bounds: {waiting: 5 m}", f"bounds.waiting: '5 m' is not a duration; write one such as {EXAMPLES}"),
    ("bounds: {waiting: 5min}", f"bounds.waiting: '5min' is not a duration; write one such as {EXAMPLES}"),
    ("bounds: {waiting: 30s5m}", f"bounds.waiting: '30s5m' is not a duration; write one such as {EXAMPLES}"),
    ("bounds: {waiting: true}", f"bounds.waiting: true is not a duration; write one such as {EXAMPLES}"),
    ("bounds: {waiting: [5m]}", f"bounds.waiting: a list is not a duration; write one such as {EXAMPLES}"),
    ("bounds: {waiting: 30d1s}", "bounds.waiting: '30d1s' is longer than 30d"),
    ("bounds: {waiting: 9999999h}", "bounds.waiting: '9999999h' is longer than 30d"),
    (
        "actions: {grace: off}",
        f"actions.grace: off is not possible here; write a duration such as {EXAMPLES}",
    ),
    ("actions: {grace: 0}", "actions.grace: 0 could mean at once or never; it cannot be disabled"),
    (
        "telemetry: {liveness_after: 0}",
        "telemetry.liveness_after: 0 could mean at once or never; use off to disable it",
    ),
    # addresses, paths, URLs
    ("listen: 9475", "listen: 9475 is not text; put it in quotes"),
    ("listen: localhost", f"listen: 'localhost' {ADDRESS}"),
    ("listen: ':9475'", f"listen: ':9475' {ADDRESS}"),
    ("listen: a:99999", f"listen: 'a:99999' {ADDRESS}"),
    ("listen: '::1:9475'", f"listen: '::1:9475' {ADDRESS}"),
    ("listen: http://a:1", f"listen: 'http://a:1' {ADDRESS}"),
    ("listen: off", "listen: off is not text; put it in quotes"),
    ("state_dir: var", "state_dir: 'var' is not an absolute path; begin it with / or ~/"),
    ("token_file: ./token", "token_file: './token' is not an absolute path; begin it with / or ~/"),
    (
        "telemetry: {otlp: {endpoint: 'collector:4318'}}",
        f"telemetry.otlp.endpoint: 'collector:4318' {URL}",
    ),
    (
        "telemetry: {otlp: {endpoint: 'http://u:hunter2@c'}}",
        "telemetry.otlp.endpoint: the URL has credentials in it; they are read from files only",
    ),
    (
        "telemetry: {otlp: {endpoint: 'http://hunter2@c'}}",
        "telemetry.otlp.endpoint: the URL has credentials in it; they are read from files only",
    ),
    (
        "telemetry: {otlp: {endpoint: 'http://'}}",
        f"telemetry.otlp.endpoint: 'http://' {URL}",
    ),
    ("listen: a:65536", f"listen: 'a:65536' {ADDRESS}"),
    ("{listen: 'a:65535', x: 1}", f"x: unknown setting (given: 1); allowed here: {ALLOWED}"),
    ("listen: 'a b:1'", f"listen: 'a b:1' {ADDRESS}"),
    ("listen: '[::1:1'", f"listen: '[::1:1' {ADDRESS}"),
    (
        "telemetry: {otlp: {endpoint: 'http://c:x'}}",
        f"telemetry.otlp.endpoint: 'http://c:x' {URL}",
    ),
    # bounds
    (
        "bounds: {gone: 5m}",
        (
            "bounds.gone: unknown setting (given: '5m'); allowed here: busy, compacting, delegated, idle, "
            "idle_in_turn, limited, model, retrying, starting, tool, turn, unsafe, waiting"
        ),
    ),
    ("bounds: {waiting: {action: reap}}", "bounds.waiting.action: 'reap' is not one of: interrupt, report"),
    ("bounds: {waiting: {action: off}}", "bounds.waiting.action: off is not one of: interrupt, report"),
    ("bounds: {idle: {action: interrupt}}", "bounds.idle.action: 'interrupt' is not one of: reap, report"),
    ("bounds: {starting: {action: interrupt}}", "bounds.starting.action: 'interrupt' is not one of: report"),
    ("bounds: {limited: {action: reap}}", "bounds.limited.action: 'reap' is not one of: report"),
    (
        "bounds: {retrying: {warn: 1m}}",
        "bounds.retrying.warn: unknown setting (given: '1m'); allowed here: action, limit",
    ),
    ("bounds: {delegated: 5m}", "bounds.delegated: '5m' is not a map; allowed in it: action"),
    (
        "bounds: {waiting: {unprompted: true}}",
        "bounds.waiting.unprompted: unknown setting (given: true); allowed here: action, limit, warn",
    ),
    ("bounds: {waiting: {limit: 5m, warn: 5m}}", "bounds.waiting.warn: 5m is not below the limit of 5m"),
    ("bounds: {waiting: {warn: 6m}}", "bounds.waiting.warn: 6m is not below the limit of 5m"),
    ("bounds: {turn: {warn: 6m}}", "bounds.turn.warn: 6m has no limit to warn of"),
    ("bounds: {waiting: {limit: off, warn: 6m}}", "bounds.waiting.warn: 6m has no limit to warn of"),
    (
        "bounds: {model: {record: 59s}}",
        (
            "bounds.model.record: 59s is below the floor of 1m: a transcript gains a line per finished block,"
            " and blocks take a minute; `unsafe: true` lifts it"
        ),
    ),
    (
        "bounds: {model: {delta: {limit: 4s}}}",
        (
            "bounds.model.delta: 4s is below the floor of 5s: pauses of seconds between two pieces of a"
            " stream are normal; `unsafe: true` lifts it"
        ),
    ),
    (
        "bounds: {starting: 9s}",
        (
            "bounds.starting: 9s is below the floor of 10s: an agent takes seconds to start; "
            "`unsafe: true` lifts it"
        ),
    ),
    (
        "bounds: {idle: 59s}",
        (
            "bounds.idle: 59s is below the floor of 1m: a person takes that long to write the next prompt; "
            "`unsafe: true` lifts it"
        ),
    ),
    # agents
    ("agents: []", "agents: is empty; leave it out to find the agents of this machine"),
    ("agents: off", "agents: off is not a list"),
    ("agents: {kind: opencode}", "agents: a map is not a list"),
    ("agents: [claude-code]", "agents.0: 'claude-code' is not a map; an agent needs at least its kind"),
    (
        "agents: [{name: x}]",
        "agents.0.kind: is required; supported kinds: claude-code, http, opencode, redcode",
    ),
    (
        "agents: [{kind: droid, url: 'http://a'}]",
        "agents.0.kind: 'droid' is not supported; supported kinds: claude-code, http, opencode, redcode",
    ),
    ("agents: [{kind: opencode}]", "agents.0.url: is required"),
    (
        "agents: [{kind: claude-code, config_dr: /x}]",
        (
            "agents.0.config_dr: unknown setting (given: '/x'); did you mean config_dir?; "
            "allowed here: attended, bounds, config_dir, control, kind, name, preset"
        ),
    ),
    (
        "agents: [{kind: opencode, url: 'http://a', password: hunter2}]",
        (
            "agents.0.password: unknown setting; secrets are read from files: use password_file; "
            "allowed here: attended, bounds, codes, control, every, headers, kind, name, password_file, preset, url"
        ),
    ),
    (
        "agents: [{kind: opencode, url: 'https://a'}]",
        "agents.0: an https agent needs a password_file",
    ),
    (
        "agents: [{kind: http, url: 'http://a', preset: nope}]",
        "agents.0.preset: 'nope' is not supported; presets of http: kbc-box, sdk-box",
    ),
    (
        "agents: [{kind: opencode, url: 'http://a', preset: kbc-box}]",
        "agents.0.preset: 'kbc-box' is not supported; presets of opencode: none",
    ),
    (
        "agents: [{kind: claude-code, control: {kind: pty}}]",
        "agents.0.control.kind: 'pty' is not supported; controls of claude-code: host, signal",
    ),
    (
        "agents: [{kind: claude-code, control: {}}]",
        "agents.0.control.kind: is required; controls of claude-code: host, signal",
    ),
    (
        "agents: [{kind: claude-code, control: host}]",
        "agents.0.control: 'host' is not a map; it needs at least its kind",
    ),
    ("agents: [{kind: claude-code, control: {kind: host}}]", "agents.0.control.url: is required"),
    (
        "agents: [{kind: claude-code, control: {kind: signal, sig: INT}}]",
        "agents.0.control.sig: unknown setting (given: 'INT'); allowed here: kind",
    ),
    (
        "agents: [{kind: claude-code, name: 'a b'}]",
        "agents.0.name: 'a b' does not match ^[a-zA-Z0-9_.-]{1,64}$",
    ),
    (
        "agents: [{kind: claude-code, name: 'a\\n'}]",
        "agents.0.name: 'a\\\\n' does not match ^[a-zA-Z0-9_.-]{1,64}$",
    ),
    ("agents: [{kind: claude-code, name: ''}]", "agents.0.name: '' is empty; leave the setting out instead"),
    (
        "agents: [{kind: claude-code}, {kind: claude-code}]",
        "agents.1.name: 'claude-code' is the name of agents.0 already; give each its own",
    ),
    (
        "agents: [{kind: claude-code, config_dir: /a}, {kind: claude-code, name: b, config_dir: /a}]",
        "agents.1: watches the very same as agents.0; leave one out",
    ),
    (
        "agents: [{kind: claude-code, bounds: {idle: 5s}}]",
        (
            "agents.0.bounds.idle: 5s is below the floor of 1m: a person takes that long to write the next "
            "prompt; `unsafe: true` lifts it"
        ),
    ),
    # YAML itself
    (
        "a: [",
        f"{BAD_YAML}: expected the node content, but found '<stream end>' (line 1, column 5)",
    ),
    ("a: *b", f"{BAD_YAML}: found undefined alias 'b' (line 1, column 4)"),
    (
        "bounds: {tool: {*: 1m}}",
        (f"{BAD_YAML}: expected alphabetic or numeric character, but found ':' (line 1, column 18)"),
    ),
    (
        "mode: !!python/object:os.system x",
        (
            f"{BAD_YAML}: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object:os.system' (line 1, column 7)"
        ),
    ),
    ("a: 1\n---\nb: 2", f"{BAD_YAML}: but found another document (line 2, column 1)"),
    ("a: &a [*a]", "the configuration contains itself (line 1, column 4)"),
    ("[" * 40 + "]" * 40, "the configuration is nested deeper than 32 levels"),
    ("[" * 100_000, "the configuration is nested deeper than 32 levels"),
    ("a: [" + "1," * 20_001 + "]", "the configuration has more than 20000 values"),
    ("a: " + "x" * (1 << 20), "the configuration is larger than 1048576 bytes"),
]


@pytest.mark.parametrize(("text", "sentence"), SENTENCES, ids=[text[:50] for text, _ in SENTENCES])
def test_a_bad_configuration_says_what_is_wrong(text: str, sentence: str) -> None:
    assert problems(text) == [sentence]


def test_aliases_within_aliases_are_counted_as_what_they_stand_for() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    wrong = "the configuration has more than 20000 values, aliases counted as what they stand for"
    assert problems("\n".join(lines)) == [wrong]


def test_aliases_within_aliases_do_not_nest_without_end() -> None:
    lines = ["a0: &a0 [1]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 40))]
    wrong = "the configuration is nested deeper than 32 levels, aliases counted as what they stand for"
    assert problems("\n".join(lines)) == [wrong]


def test_every_mistake_is_told_at_once() -> None:
    text = """
mode: maybe
agents:
  - kind: droid
  - {kind: opencode, every: 5}
  - {kind: claude-code, bounds: {waiting: 0, idle: 5s}}
bounds: {waiting: 3, model: {record: 5s}}
actions: {max: -1}
"""
    told = problems(text, AGENT_SIDECAR__NOPE="1")
    assert [line.split(": ", 1)[0] for line in told] == [
        "AGENT_SIDECAR__NOPE",
        "mode",
        "bounds.waiting",
        "actions.max",
        "bounds.model.record",
        "agents.0.kind",
        "agents.1.url",
        "agents.1.every",
        "agents.2.bounds.waiting",
        "agents.2.bounds.idle",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "token: hunter2",
        "agents: [{kind: opencode, url: 'http://a', api_key: hunter2}]",
        "agents: [{kind: opencode, url: 'http://u:hunter2@a'}]",
        "agents: [{kind: opencode, url: 'ftp://u:hunter2@a'}]",
        "Authorization: hunter2",
    ],
)
def test_what_may_be_a_secret_is_not_repeated(text: str) -> None:
    assert "hunter2" not in "\n".join(problems(text))


def test_a_long_or_odd_key_cannot_break_the_line() -> None:
    told = problems(yaml.safe_dump({"bounds": {"a\nb\x1b[2J": 1, "k" * 500: "v" * 500}}))
    assert len(told) == 2
    assert all("\n" not in line and "\x1b" not in line and len(line) < 400 for line in told)


WORDS = st.sampled_from(
    ["kind", "claude-code", "http", "url", "bounds", "model", "record", "limit", "warn", "tool", "5m", "off"]
)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), WORDS, st.dates()
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)
TOP = st.sampled_from(
    ["mode", "listen", "agents", "bounds", "actions", "telemetry", "allowed_hosts", "state_dir"]
)


@given(st.dictionaries(TOP, TREES, max_size=4))
def test_whatever_is_written_it_is_a_configuration_or_an_error_with_its_path(tree: dict[str, Any]) -> None:
    told = tell(yaml.safe_dump(tree))
    assert all(line and "\n" not in line for line in told)


@given(st.text(max_size=60))
def test_whatever_text_it_is_nothing_else_is_raised(text: str) -> None:
    assert all(tell(text))


def tell(text: str) -> list[str]:
    """The problems of a text, none where it is a configuration."""
    try:
        load(text, HOME, KINDS)
    except ConfigError as error:
        return [str(problem) for problem in error.problems] or [""]
    return []
