"""What an adapter may declare as a setting, beyond what our own settings use."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from sidecar.config import ConfigError, KindSpec, load
from sidecar.config_units import FilePath, Seconds, address, split_address
from tests.test_config import HOME, Kind


class Step(Struct, frozen=True):
    """A step of a template."""

    method: Literal["GET", "POST"]
    path: str = "/"


class Rich(Struct, frozen=True, kw_only=True):
    """Every shape that a setting can have."""

    paths: str | list[str] = "*"
    steps: list[Step] = []
    tree: Any = None
    retries: Annotated[int, Meta(ge=0)] = 3
    share: Annotated[float, Meta(le=1)] = 0.5
    named: Annotated[str, Meta(description="a name")] = "x"
    within: dict[str, Seconds | None] = {}
    home: FilePath = "~/.rich"
    sizes: tuple[int, ...] = ()


KINDS: dict[str, KindSpec] = {"rich": Kind(settings=Rich)}


def rich(text: str, **env: str) -> Rich:
    agents = load(f"agents: [{{kind: rich, {text}}}]", HOME | env, KINDS).agents
    assert agents is not None
    settings = agents[0].settings
    assert isinstance(settings, Rich)
    return settings


def wrong(text: str, **env: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        rich(text, **env)
    return [str(problem).removeprefix("agents.0.") for problem in caught.value.problems]


def test_a_setting_can_have_one_of_several_shapes() -> None:
    assert rich("paths: a").paths == "a"
    assert rich("paths: [a, b]").paths == ["a", "b"]
    assert wrong("paths: 5") == ["paths: 5 is not text; put it in quotes"]


def test_lists_of_maps() -> None:
    assert rich("steps: [{method: GET}, {method: POST, path: /x}]").steps == [Step("GET"), Step("POST", "/x")]
    assert wrong("steps: [{method: PUT}, {path: 1}]") == [
        "steps.0.method: 'PUT' is not one of: GET, POST",
        "steps.1.method: is required",
        "steps.1.path: 1 is not text; put it in quotes",
    ]


def test_a_tree_of_its_own_is_left_as_it_is() -> None:
    assert rich("tree: {a: [1, {b: null}]}").tree == {"a": [1, {"b": None}]}
    assert type(rich("", AGENT_SIDECAR__AGENTS__0__TREE="x").tree) is str


def test_ranges_that_are_open_on_one_side() -> None:
    assert wrong("retries: -1, share: 2") == [
        "retries: -1 is out of range; allowed: 0 or more",
        "share: 2 is out of range; allowed: 1 or less",
    ]


def test_maps_with_keys_of_their_own() -> None:
    assert rich("within: {a: 5s, b: off}").within == {"a": 5.0, "b": None}
    assert wrong("within: {a: 5}") == [
        "within.a: 5 has no unit; write 5s, or a duration such as 90s, 20m, 1h30m or 2d"
    ]
    assert rich("within: null").within == {}


def test_a_default_path_finds_its_home_too() -> None:
    assert rich("named: y").home == "/home/op/.rich"
    assert load("agents: [{kind: rich}]", {}, KINDS).agents[0].settings.home == "/.rich"  # type: ignore[index,union-attr]


def test_lists_of_scalars_can_be_set_entry_by_entry() -> None:
    assert rich("sizes: [1, 2]", AGENT_SIDECAR__AGENTS__0__SIZES__1="7").sizes == (1, 7)
    assert rich("sizes: [1]", AGENT_SIDECAR__AGENTS__0__SIZES__1="7").sizes == (1, 7)
    env = {"AGENT_SIDECAR__AGENTS__0__STEPS__0__METHOD": "GET"}
    assert rich("", **env).steps == [Step("GET")]
    assert wrong("sizes: [1]", AGENT_SIDECAR__AGENTS__0__SIZES="7") == [
        "AGENT_SIDECAR__AGENTS__0__SIZES: names a list or a map of your own keys; set it in the file"
    ]


def test_a_type_that_no_file_can_hold_is_the_programmer_s_mistake() -> None:
    class Odd(Struct):
        data: bytes = b""

    with pytest.raises(TypeError, match="BytesType"):
        load("agents: [{kind: odd, data: x}]", HOME, {"odd": Kind(settings=Odd)})


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:9475", "127.0.0.1", 9475), ("[::1]:80", "::1", 80), ("localhost:0", "localhost", 0)],
)
def test_addresses_are_taken_apart(text: str, host: str, port: int) -> None:
    assert split_address(text) == (host, port)
    assert address(text) == text
