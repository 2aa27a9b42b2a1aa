"""Make a transcript fit to be kept: paths of no machine, and none of the vendor's texts.

Keys, types, ids, names and times stay as the agent wrote them; what is removed is prose and long lists.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.e2e.process import Json
    from tests.e2e.sandbox import Sandbox

BLANK = "<blanked>"
LONGEST_LIST = 2
# The parts of a record that hold the vendor's prompts and listings, by the record's type.
PROSE = {
    "attachment": ("attachment", "rendered", "renderedRole"),
    "api-request": ("params", "tail", "cacheControl"),
    "api-request-blob": ("message",),
    "api-request-shape": ("shape",),
    "atis-latch": ("atis",),
    "tools-used": ("tools",),
}
MACHINE = re.compile(r"linux:[0-9a-f]{32}")  # a registration names the machine it was written on
NOTE = re.compile(r"<note>.*?</note>")  # the vendor's, in the message that says a subagent has ended
# What tells one kind of record from another, or links two of them, is kept in those parts too.
FACTS = {
    *("type", "role", "id", "model", "effort"),
    *("commandMode", "prompt", "source_uuid", "delivery_id", "rowSource", "timestamp"),
}


def blank(value: Any, key: str = "") -> Any:  # JSON of any shape
    if isinstance(value, dict):
        return {name: blank(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [blank(part, key) for part in value[:LONGEST_LIST]]
    return BLANK if isinstance(value, str) and key not in FACTS else value


def keep(line: str, sandbox: Sandbox) -> str:
    """Rewrite one line of a transcript."""
    record: Json = json.loads(NOTE.sub(f"<note>{BLANK}</note>", relocate(line, sandbox)))
    for part in PROSE.get(record["type"], ()):
        if part in record:
            record[part] = blank(record[part])
    if record["type"] == "user":
        blank_verdicts(record)
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def blank_verdicts(record: Json) -> None:
    """Blank the vendor's words in a tool's result: a refusal, or a notice in place of what the tool says."""
    result = record.get("toolUseResult")
    if "toolDenialKind" not in record and not (isinstance(result, dict) and result.get("isAsync")):
        return
    for block in record["message"]["content"]:
        block["content"] = blank(block["content"])


def slug(path: str) -> str:
    """Spell a path as Claude Code does in the names of directories."""
    return re.sub(r"[^A-Za-z0-9]", "-", path)


def relocate(text: str, sandbox: Sandbox) -> str:
    """Move everything that was in the sandbox to one agent's home, in paths and in names made of paths."""
    places = {sandbox.home: "/home/agent", sandbox.work: "/home/agent/work", sandbox.tmp: "/tmp"}  # noqa: S108
    for place, home in places.items():
        text = text.replace(str(place), home)
        text = text.replace(slug(str(place)), slug(home))
    return MACHINE.sub("linux:" + "0" * 32, text)
