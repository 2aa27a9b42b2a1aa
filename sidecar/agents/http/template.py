"""Templates of addresses and bodies. What is put in is data: it never becomes part of the template."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES: Final = ("id", "turn", "reason", "directory")

_SLOT: Final = re.compile(r"\{([a-z_]*)\}")
_QUOTED: Final = re.compile(r'"\{(?P<whole>[a-z_]+)\}"|\{(?P<part>id|turn|reason)\}')


def checked_path(template: str) -> str:
    """A template of an address, as it is. Raises ValueError."""
    if not template.startswith("/") or template.startswith("//") or re.search(r"[\s\\#]", template):
        raise ValueError(f"{template!r} is no path; begin it with one /")
    for name in _SLOT.findall(template):
        if name not in NAMES:
            raise ValueError(f"{{{name}}} stands for nothing; allowed: {', '.join(NAMES)}")
    if re.search(r"[{}]", _SLOT.sub("", template)):
        raise ValueError(f"{template!r} has a brace that encloses no name")
    return template


def path_of(template: str, values: Mapping[str, str | None]) -> str:
    """An address with the values in it, percent-encoded down to the dots. Raises ValueError.

    A value that is nothing but dots would be taken for a step up by whoever normalises addresses,
    encoded or not.
    """

    def put(slot: re.Match[str]) -> str:
        value = values.get(slot[1]) or ""
        if not value.strip("."):
            raise ValueError("an id that cannot be part of an address")
        return quote(value, safe="").replace(".", "%2E")

    return _SLOT.sub(put, template)


def body_of(template: str, values: Mapping[str, str | None]) -> str:
    """A JSON body with the values in it: a text that is only a slot becomes the value, or null."""

    def put(slot: re.Match[str]) -> str:
        whole = slot["whole"]
        if whole is not None:
            return json.dumps(values.get(whole)) if whole in NAMES else slot[0]
        return json.dumps(values.get(slot["part"]) or "")[1:-1]

    return _QUOTED.sub(put, template)
