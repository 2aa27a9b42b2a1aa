"""The page: one file that asks nobody else for anything and puts in nothing as markup."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest

from sidecar.server.page import Page
from tests.test_server import World, serving

HTML = Page().html


def test_nothing_comes_from_elsewhere() -> None:
    assert not re.findall(r"(?i)https?:|//[a-z0-9.-]+\.[a-z]|@import|url\(", HTML)
    assert re.findall(r'(?:src|href)="([^"]*)"', HTML) == ["data:,"]
    asked = re.findall(r'(?:fetch|EventSource)\([`"]([^`"$]*)', HTML)
    assert asked
    assert all(path.startswith(("api/", "healthz")) for path in asked)


@pytest.mark.parametrize(
    "sink",
    [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "srcdoc",
        "DOMParser",
    ],
)
def test_what_agents_wrote_is_put_in_as_text(sink: str) -> None:
    assert sink not in HTML


def test_no_markup_runs_or_styles_on_its_own() -> None:
    assert not re.findall(r"<[^>]+\son\w+=", HTML)
    assert not re.findall(r"<[^>]+\sstyle=", HTML)


def test_it_can_be_read_on_a_phone_in_the_dark_and_aloud() -> None:
    assert 'name="viewport"' in HTML
    assert "prefers-color-scheme: dark" in HTML
    assert '<html lang="en">' in HTML
    assert 'aria-live="polite"' in HTML
    assert 'scope="col"' in HTML


async def test_its_policy_allows_its_own_script_and_style_and_nothing_else() -> None:
    async with serving(World()) as client:
        answer = await client.get("/")
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        text = await answer.text()
        policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert text == HTML
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    for tag in ("script", "style"):
        (code,) = re.findall(rf"<{tag}>(.*?)</{tag}>", HTML, re.DOTALL)
        digest = b64encode(sha256(code.encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"
