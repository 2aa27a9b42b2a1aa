"""Label values are closed sets: what agents call things is theirs, how many series exist is ours.

Whatever is not in a set is `other`. The pairs that exist at 0 from the start are here too: those
that an agent can reasonably reach; a rarer one begins when it first runs or happens.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, TypeVar, cast, get_args

from sidecar.agent import WatchLoss
from sidecar.session import OUTCOMES, PHASES
from sidecar.signals import BoundName

if TYPE_CHECKING:
    from collections.abc import Mapping


T = TypeVar("T")

OTHER: Final = "other"

TURN_OUTCOMES: Final = OUTCOMES
PHASE_NAMES: Final = PHASES
BOUNDS: Final[tuple[str, ...]] = get_args(BoundName)
RECORD_KINDS: Final = ("progress", "presence", "unknown", "malformed", "oversized")
TOKEN_TYPES: Final = ("input", "output", "cache_read", "cache_write")
SPAN_OUTCOMES: Final = ("exported", "failed", "dropped")
WATCH_LOSSES: Final[tuple[WatchLoss, ...]] = get_args(WatchLoss)
GAP_PHASES: Final = ("model", "tool")
RETRY_CAUSES: Final = ("rate_limit", "overloaded", "server_error", "connection", "timeout", OTHER)

VERDICT_PAIRS: Final = tuple(
    (name, {"busy": "status", "starting": "process"}.get(name, "transcript")) for name in BOUNDS
)
RECOVERY_PAIRS: Final = tuple(
    (name, "transcript") for name in ("waiting", "compacting", "delegated", "tool", "retrying", "model")
)
ACTION_PAIRS: Final = (
    ("report", "reported"),
    *(("interrupt", o) for o in ("effective", "ineffective", "failed", "superseded")),
    *(("interrupt", o) for o in ("unsupported", "observed", "held")),
    *(("reap", o) for o in ("effective", "failed", "observed", "held")),
)

_TOOLS: Final = {
    "Bash": ("bash", "bashoutput", "killshell", "shell", "exec_command", "local_shell", "run_shell_command"),
    "Edit": ("edit", "multiedit", "notebookedit", "apply_patch", "patch", "replace", "str_replace*"),
    "Read": ("read", "read_file", "read_many_files", "view"),
    "Write": ("write", "write_file", "create_file"),
    "Glob": ("glob", "ls", "list", "list_directory"),
    "Grep": ("grep", "search_file_content"),
    "Task": ("task", "agent", "subagent"),
    "WebFetch": ("webfetch", "web_fetch"),
    "WebSearch": ("websearch", "web_search", "google_web_search"),
    "mcp": ("mcp__*", "mcp_*", "mcp.*"),
}
TOOL_CLASSES: Final = (*_TOOLS, OTHER)
_CLASS_OF: Final = {name: kind for kind, names in _TOOLS.items() for name in names if "*" not in name}
_PATTERNS: Final = [(name, kind) for kind, names in _TOOLS.items() for name in names if "*" in name]

_WAITS: Final = {
    "permission": "permission",
    "approval": "permission",
    "confirm": "permission",
    "question": "question",
    "input": "input",
    "dialog": "dialog",
    "plan": "dialog",
}

_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,127}")
MODEL_LENGTH: Final = 64
MODELS: Final = 20
"""Distinct models told apart; a fleet uses a handful, a bug in a transcript could invent thousands."""


def plain(name: str | None) -> str | None:
    """Return a name of a tool or model as it stands; None where it looks like anything else."""
    return name if name is not None and _PLAIN.fullmatch(name) else None


def tool_class(tool: str) -> str:
    """Sort a tool into the few classes that all agents share."""
    name = tool.lower()
    found = _CLASS_OF.get(name)
    return found or next((kind for pattern, kind in _PATTERNS if fnmatchcase(name, pattern)), OTHER)


def retry_cause(cause: str) -> str:
    """Return the cause where it is one of ours."""
    return cause if cause in RETRY_CAUSES else OTHER


def waits_for(text: str | None) -> str:
    """Sort what a session waits for by the word that says so; the text itself may be content."""
    lower = (text or "").lower()
    return next((kind for word, kind in _WAITS.items() if word in lower), OTHER)


class Models:
    """The models met so far, as labels: the first `MODELS` plain names, then `other`."""

    def __init__(self) -> None:
        self._met: set[str] = set()

    def label(self, model: str) -> str:
        """Return the model's label."""
        if model in self._met:
            return model
        if plain(model) is None or len(model) > MODEL_LENGTH or len(self._met) >= MODELS:
            return OTHER
        self._met.add(model)
        return model


def clean(text: str, most: int = 1024) -> str:
    """Make text fit to be sent: of bounded length, and valid UTF-8, which a file's name may not be."""
    return text[:most].encode("utf-8", "replace").decode()


def fit(values: Mapping[str, T]) -> dict[str, T]:
    """Make every text fit, where it is made: what waits to be sent is bounded too."""
    return {name: cast("T", clean(x)) if isinstance(x, str) else x for name, x in values.items()}
