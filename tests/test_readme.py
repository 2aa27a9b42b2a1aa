"""The README against the code: what it lists is all there is, and what it shows works."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from inspect import getsource
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
import yaml
from msgspec import structs

from sidecar import changes as c
from sidecar import cli, host
from sidecar.agents.registry import KINDS
from sidecar.config import load
from sidecar.config.describe import describe_settings
from sidecar.config_units import written
from sidecar.limits import Limit, Rules
from sidecar.server.app import Api, Options
from sidecar.session import PHASES, Session, Turn, Verdict
from sidecar.telemetry import names as n
from sidecar.telemetry.lines import LINES, silence
from sidecar.telemetry.resource import K8S, resource

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROSE = FENCE.sub("", TEXT)
BLOCKS = FENCE.findall(TEXT)
NOTHING = "\N{EN DASH}"


class Table(NamedTuple):
    """A table of the README: cells without their quotes."""

    head: list[str]
    rows: list[list[str]]

    def by(self, *columns: str) -> dict[str, Any]:
        """The rows by their first cell, with some of the others; no two may begin alike."""
        picked = [self.head.index(column) for column in columns]
        firsts = [row[0] for row in self.rows]
        assert len(set(firsts)) == len(firsts), [first for first in firsts if firsts.count(first) > 1]
        return {row[0]: row[picked[0]] if len(picked) == 1 else [row[i] for i in picked] for row in self.rows}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" |")]


def table(first: str) -> Table:
    """The table whose first column is called so."""
    found = re.findall(rf"^\| {first} \|.*\n\|[-|]+\n(?:\|.*\n)+", PROSE, re.MULTILINE)
    assert len(found) == 1, f"{len(found)} tables of {first}"
    head, _, *rows = found[0].splitlines()
    return Table(cells(head), [[cell.replace("`", "") for cell in cells(row)] for row in rows])


def listed(cell: str) -> list[str]:
    return [] if cell in ("", NOTHING) else cell.split(", ")


def blocks(*kinds: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind in kinds]


def spoken() -> Iterator[list[str]]:
    """The words after `agent-sidecar`, for every use of it in a block."""
    for text in blocks("sh", "console"):
        for line in text.replace("\\\n", " ").splitlines():
            if not line.startswith("agent-sidecar:"):  # it speaks
                words = shlex.split(line.removeprefix("$ "), comments=True) if "agent-sidecar" in line else []
                if "agent-sidecar" in words:
                    yield words[words.index("agent-sidecar") + 1 :]


COMMANDS = list(spoken())


def subparsers() -> dict[str, argparse.ArgumentParser]:
    parser = cli._parser()
    (choices,) = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(choices)


def test_every_setting_has_one_row_with_its_type_and_default() -> None:
    rows = {s.path: s for s in describe_settings(KINDS)}
    told = table("Setting").by("Type", "Default", "Meaning")
    assert told.keys() == rows.keys()
    for path, setting in rows.items():
        kind, default, meaning = told[path]
        assert default == (setting.default or NOTHING), path
        words = f": {setting.allowed.replace(' | ', ', ')}" if setting.type.startswith("word") else ""
        assert kind == setting.type + words, path
        assert meaning.endswith("."), path


def test_every_phase_has_a_row_in_the_order_in_which_they_hold() -> None:
    assert [row[0] for row in table("Phase").rows] == list(PHASES)


@pytest.mark.parametrize(
    "name", [name for name, rule in structs.asdict(Rules()).items() if isinstance(rule, Limit) and rule.limit]
)
def test_the_bounds_table_has_the_limits_that_are_judged_by(name: str) -> None:
    rule: Limit = getattr(Rules(), name)
    phase = "model" if name.startswith("model") else name
    limit, follows = table("Phase").by("Limit", "What follows")[phase]
    assert rule.limit is not None
    assert written(rule.limit) in re.split(r"[ ;,]+", limit)
    assert rule.warn is None or f"warned at {written(rule.warn)}" in limit
    assert follows.startswith(rule.action)


def test_every_metric_has_a_row_with_its_type_and_labels() -> None:
    told = table("Metric").by("Type", "Labels")
    assert {name: (kind, tuple(listed(labels))) for name, (kind, labels) in told.items()} == {
        metric.name: (metric.kind, metric.labels) for metric in n.METRICS
    }


def test_metrics_that_the_text_speaks_of_exist() -> None:
    spoken = set(re.findall(r"\b(?:ai_agent|agent_sidecar)_[a-z_]*[a-z]", TEXT))
    assert spoken - {metric.name for metric in n.METRICS} == set()


TURN = Turn("t", 0.0, ended_at=1.0)
VERDICT = Verdict(0.0, "t", "idle", "idle", "reap", "transcript", "because")
CHANGES: dict[type[c.Change], list[c.Change]] = {
    c.SessionOpened: [c.SessionOpened(0.0)],
    c.SessionClosed: [c.SessionClosed(0.0, "over")],
    c.TurnOpened: [c.TurnOpened(0.0, TURN)],
    c.TurnClosed: [c.TurnClosed(1.0, TURN)],
    c.WarningGiven: [c.WarningGiven(0.0, "model", "because", TURN)],
    c.VerdictGiven: [c.VerdictGiven(0.0, VERDICT, TURN)],
    c.GapClosed: [c.GapClosed(2.0, "model", 2.0, 0.0, TURN)],
    c.ActIntended: [c.ActIntended(0.0, "reap", "because", "idle", TURN)],
    c.ActEnded: [c.ActEnded(0.0, "reap", "effective", "idle", TURN)],
    c.SourceChanged: [c.SourceChanged(0.0, "transcript", up=up) for up in (True, False)],
}
"""One of each change that is told, so that every event is made once."""


def test_every_lifecycle_event_has_a_row_with_its_fields_and_its_log_event() -> None:
    session = Session("claude-code", "s", 0.0)
    made = {"silence": silence(session, TURN, 60.0)}
    for kind, describe in LINES.items():
        for change in CHANGES[kind]:
            made |= {event: fields for event, fields, _ in describe(session, change)}
    told = table("Event").by("Fields", "Log event")
    assert {event: listed(fields) for event, (fields, _) in told.items()} == {
        event: list(fields) for event, fields in made.items()
    }
    assert {event: log for event, (_, log) in told.items() if log} == n.EVENTS
    assert set(told) == set(n.LINES)


def constants(heading: str) -> set[str]:
    """The names that stand below a comment in `names`, up to the next comment of its own line."""
    section = getsource(n).partition(f"\n# {heading}")[2].partition("\n# ")[0]
    found = set(re.findall(r'^[A-Z_]+: Final = "(.+?)"', section, re.MULTILINE))
    assert found, heading
    return found


def test_every_span_has_a_row() -> None:
    told = [name.partition(" ")[0] for name in table("Span").by("What it is")]
    assert len(set(told)) == len(told)
    assert set(told) == constants("Spans.")


def test_every_attribute_has_a_place() -> None:
    told = {name for row in table("Attributes").rows for name in listed(row[0])}
    known = constants("Attributes of the conventions.") | constants("Our own.")
    assert {name.removesuffix("PHASE") for name in told} == known


def test_every_deviation_from_the_conventions_has_a_row_with_its_reason() -> None:
    told = table("Convention").by("What we do, and why")
    assert told == {name: why.replace("`", "") for name, why in n.DEVIATIONS.items()}
    assert n.CONVENTIONS in TEXT.replace("`", "")


def test_the_resource_is_described() -> None:
    told = {name for row in table("Resource").rows for name in listed(row[0])}
    found = {*resource("1").attributes} | {*K8S, "service.namespace", "container.id"}
    assert told == {name for name in found if not name.startswith("telemetry.sdk.")}


def test_every_command_has_a_row() -> None:
    assert table("Command").by("What it does").keys() == subparsers().keys()


def test_every_option_that_the_commands_table_names_exists() -> None:
    for name, says in table("Command").by("What it does").items():
        for option in re.findall(r"--[a-z-]+", says):
            assert option in subparsers()[name]._option_string_actions, f"{name} {option}"


def test_every_kind_and_every_preset_has_a_row() -> None:
    assert table("Kind").by("What it watches").keys() == KINDS.keys()
    assert table("Preset").by("Of kind") == {
        preset: name for name, kind in KINDS.items() for preset in kind.presets
    }


def test_every_control_has_a_row() -> None:
    controls = {name for kind in KINDS.values() for name in kind.control_kinds}
    assert set(table("Control").by("Interrupt")) == controls | {"none"}


def test_every_request_of_the_api_has_a_row() -> None:
    nobody = cast("Any", None)
    app = Api(nobody, nobody, Options("127.0.0.1:9475", (), "/token")).app()
    routes = {
        f"{route.method} {route.resource and route.resource.canonical}" for route in app.router.routes()
    }
    told = set(re.findall(r"^\| `((?:GET|POST) /(?!v1)\S*)` \|", PROSE, re.MULTILINE))
    acts = {f"POST /api/sessions/{{id}}/{action}" for action in ("interrupt", "reap")}
    assert told - acts == {route for route in routes if route.startswith("GET")}
    assert {route for route in routes if route.startswith("POST")} == {"POST /api/sessions/{id}/{action}"}
    assert told >= acts


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_configuration_loads(text: str) -> None:
    assert yaml.safe_load(text)
    assert load(text, {"HOME": "/home/agent"}, KINDS).agents


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_is_understood(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.md").write_text("a prompt")
    if words[0] == "host":
        assert host.options_from(words[1:]).command
    else:
        assert callable(cli._parser().parse_args(words).run)


def test_commands_are_found() -> None:
    assert {words[0] for words in COMMANDS} >= {"run", "replay", "sessions", "explain", "interrupt", "host"}


def test_every_object_is_json_and_the_session_object_has_its_keys(
    capsys: pytest.CaptureFixture[str], recordings: Path
) -> None:
    case = recordings / "claude-code" / "2.1.332" / "p_sigterm_blackhole"
    assert cli.main(["replay", "--json", "--until", "+1h", str(case)]) == 0
    real = json.loads(capsys.readouterr().out.splitlines()[0])
    *lines, shown = blocks("json")
    assert json.loads(shown) == real
    events = [json.loads(line) for text in lines for line in text.splitlines()]
    assert {event["event"] for event in events} <= set(n.LINES)


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_links_lead_somewhere() -> None:
    headings = {anchor(heading) for heading in re.findall(r"^#+ (.+)$", PROSE, re.MULTILINE)}
    links = re.findall(r"\]\(([^)]+)\)", PROSE)
    assert links
    for link in links:
        assert link[1:] in headings if link.startswith("#") else (ROOT / link).exists(), link


def test_paths_of_this_project_exist() -> None:
    named = set(re.findall(r"`((?:sidecar|tests)/[a-z0-9_./]*)`", PROSE))
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_what_make_is_asked_for_exists() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make (\w+)`", PROSE)) <= targets
