"""Paths into answers, and values put into addresses and bodies, whatever they are made of."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from sidecar.agents.http.paths import MISSING, find, find_all, items, word
from sidecar.agents.http.template import body_of, checked_path, path_of

DATA: dict[str, Any] = {"a": {"b": [{"c": 1}, {"c": 2}, 3, {}]}, "list": [[1], [2, 3]], "null": None, "": 7}
HOSTILE = [
    "../x?y",
    "a/../../b",
    'qu"ote',
    "new\nline\r\n\r\nGET / HTTP/1.1",
    "ünïcødé 💥",
    "%2e%2e%2f",
    "{id}",
    "{reason}",
    "#frag",
    ".a",
    "..a",
    "\\",
    "\0",
]


def test_paths_lead_somewhere_or_nowhere() -> None:
    assert find(DATA, "a.b[].c") == 1
    assert find_all(DATA, "a.b[].c") == [1, 2]
    assert find_all(DATA, "list[][]") == [1, 2, 3]
    assert find(DATA, "null") is None
    assert find(DATA, ".") is DATA
    for nowhere in ("x", "a.x", "a.b.c", "null.x", "list[].x", "a[]"):
        assert find(DATA, nowhere) is MISSING


@pytest.mark.parametrize("path", ["", "a..b", "a[", "a]b", "a[0]", "a.[x]", "a[]b", ".a"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is no path"):
        find(DATA, path)


def test_a_list_that_is_not_there_is_not_an_empty_one() -> None:
    assert items({"sessions": []}, "sessions[]") == []
    assert items([1], "[]") == [1]
    assert items({"a": {"b": []}}, "a.b[]") == []
    assert items({"one": 1}, ".") == [{"one": 1}]
    answers: list[Any] = [{"error": "x"}, {"sessions": None}, {"sessions": {}}, [], None, "html", 7]
    for answer in answers:
        assert items(answer, "sessions[]") is None
    assert items([], ".") is None


def test_entries_in_groups_are_all_of_them_and_a_group_without_its_list_is_none() -> None:
    groups = {"pages": [{"jobs": [1, 2]}, {"jobs": []}, {"jobs": [3]}]}
    assert items(groups, "pages[].jobs[]") == [1, 2, 3]
    assert items({"pages": []}, "pages[].jobs[]") == []
    assert items([[1], [2]], "[][]") == [1, 2]
    for odd in ({"error": "x"}, {"jobs": None}, 7):
        assert items({"pages": [{"jobs": [1]}, odd]}, "pages[].jobs[]") is None
    assert items({"pages": {"jobs": [1]}}, "pages[].jobs[]") is None


def test_words_are_what_settings_can_say() -> None:
    values: list[Any] = [True, False, 3, 1.5, "x", None, [], "y" * 257]
    assert [word(v) for v in values] == ["true", "false", "3", "1.5", "x", None, None, None]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_an_id_stays_one_segment_of_the_address(hostile: str) -> None:
    path = path_of("/session/{id}/close", {"id": hostile})
    assert path.isascii()
    assert path.isprintable()
    url = URL(f"http://box{path}", encoded=True)
    assert len(url.raw_parts) == 4
    assert (url.host, url.raw_query_string, url.raw_fragment) == ("box", "", "")
    assert (url.parts[1], url.parts[2], url.parts[3]) == ("session", hostile, "close")


@pytest.mark.parametrize("hostile", ["", ".", "..", "..."])
def test_one_that_would_be_a_step_up_is_refused(hostile: str) -> None:
    with pytest.raises(ValueError, match="cannot be part of an address"):
        path_of("/session/{id}/close", {"id": hostile})


@given(st.text(min_size=1).filter(lambda text: text.strip(".")))
def test_so_it_is_with_any_text(text: str) -> None:
    path = path_of("/a/{id}/b?r={reason}", {"id": text, "reason": text})
    assert path.split("/")[3].startswith("b?r=")
    assert path.count("/") == 3
    assert path.count("?") == 1


@given(st.text(), st.text())
def test_a_body_stays_the_body_that_it_was(one: str, other: str) -> None:
    template = '{"id": "{id}", "why": "because {reason}!", "turn": "{turn}", "{id}x": {"a": 1}}'
    made = json.loads(body_of(template, {"id": one, "turn": None, "reason": other}))
    assert made.pop("id") == one
    assert made.pop("why") == f"because {other}!"
    assert made.pop("turn") is None
    assert list(made.values()) == [{"a": 1}]


@pytest.mark.parametrize(
    "template", ["x", "", "//evil/x", "/a b", "/a\n", "/{what}", "/{id", "/id}", "/#x", "/\\x", "http://x/"]
)
def test_what_is_no_template_of_an_address_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        checked_path(template)
