"""Presets as the configuration reads them, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.agents.http import shapes, stream
from sidecar.agents.http.presets import PRESETS
from sidecar.agents.http.settings import Settings
from sidecar.config.decode import fields
from sidecar.config.describe import docs
from sidecar.config.problems import ConfigError
from tests.agents.http.fakes import configured, settings

NEEDS: dict[str, dict[str, Any]] = {"qwen-serve": {"directory": "/w"}, "hermes-runs": {"ids": ["r1"]}}
LISTING = {"path": "/s", "id": "id"}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_needs_little_more_than_an_address_and_gives_its_name(preset: str) -> None:
    entry = configured(preset, **NEEDS.get(preset, {}))
    assert (entry.name, entry.kind, entry.attended) == (preset, "http", None)


def test_the_box_is_reaped_behind_its_own_limit_and_never_interrupted() -> None:
    entry = configured("kbc-box")
    made = settings("kbc-box")
    assert (entry.rules.idle.limit, entry.rules.idle.action, entry.rules.unprompted) == (2100, "reap", True)
    assert (made.interrupt, made.events, made.status) == (None, None, None)
    assert made.reap is not None
    assert (made.reap.method, made.reap.path, made.reap.deadline) == (
        *("POST", "/test-session/{tid}/close".replace("tid", "id")),
        15,
    )


@pytest.mark.parametrize("preset", [preset for preset in PRESETS if preset != "kbc-box"])
def test_no_other_preset_reaps_by_itself(preset: str) -> None:
    assert configured(preset, **NEEDS.get(preset, {})).rules.idle.action == "report"


def test_what_is_given_is_laid_over_the_preset() -> None:
    made = settings("kbc-box", listing={"path": "/other"}, reap={"deadline": "20s"}, every="1s")
    assert made.listing is not None
    assert made.reap is not None
    assert (made.listing.path, made.listing.id, made.reap.deadline, made.every) == ("/other", "tid", 20, 1)
    assert settings("kbc-box", reap="off").reap is None


def test_words_may_be_written_as_yaml_has_them() -> None:
    made = settings(None, listing=LISTING | {"status": "on", "words": {"true": "busy"}})
    assert made.listing is not None
    assert made.listing.words == {"true": "busy"}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, "needs a preset or a listing"),
        ({"listing": {"path": "/s"}}, "needs either id"),
        ({"listing": {"path": "s", "id": "id"}}, "is no path; begin it with one /"),
        ({"listing": LISTING | {"items": "a[0]"}}, "is no path; write names"),
        ({"listing": {"path": "/{directory}", "id": "id"}}, "needs directory"),
        ({"listing": LISTING | {"words": {"x": "sleeping"}}}, "is not one of"),
        ({"status": {"path": "/s", "status": "s"}, "ids": ["a"]}, "has no {id}"),
        ({"status": {"path": "/{id}"}}, "needs a preset or a listing"),
        ({"listing": LISTING, "reap": {"path": "/{what}"}}, "stands for nothing"),
        ({"listing": LISTING, "reap": {"path": "/", "method": "GET"}}, "is not one of"),
        ({"listing": LISTING, "reap": {"path": "/", "body": "{"}}, "body is no JSON"),
        ({"listing": LISTING, "reap": {"path": "/", "headers": {"Host": "x"}}}, "'Host' cannot be set"),
        ({"listing": LISTING, "reap": {"path": "/", "headers": {"A": "x\r\nB: y"}}}, "'A' cannot be set"),
        ({"listing": LISTING, "reap": {"path": "/", "success": [2000]}}, "out of range"),
        ({"listing": LISTING, "client_key_file": "/k"}, "client_key_file needs client_cert_file"),
        ({"listing": LISTING, "token_header": "X Y"}, "no name of a header"),
        ({"listing": LISTING, "token": "secret"}, "use token_file"),
        ({"listing": LISTING, "events": {"path": "/e"}}, "has no {id}"),
        ({"preset": "nobody"}, "is not supported; presets of http"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        configured(**{"preset": None} | entry)
    assert problem in str(error.value)
    assert "secret" not in str(error.value).replace("secrets", "")


@pytest.mark.parametrize(
    "cls", [Settings, shapes.Listing, shapes.StatusOf, stream.Events, shapes.Call, shapes.Fields]
)
def test_every_setting_says_in_words_what_it_is(cls: Any) -> None:
    assert {*docs(cls), *docs(shapes.Fields)} >= set(fields(cls))
