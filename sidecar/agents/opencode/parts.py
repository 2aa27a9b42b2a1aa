"""The parts of a message as progress: new text, new calls, finished tools, and nothing told twice.

A request that is asked again writes its text anew, in the same message, into new parts. What was
written before is no progress: only what goes beyond the furthest attempt is. A call whose input is
still being written is the model at work and no tool: it may be black-holed like any other text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar import signals as g
from sidecar.agent import tool_name
from sidecar.agents.opencode import records as r

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.agents.opencode.track import Answering, Track

DELEGATES: Final = "task"


def grown(m: Answering, part: str, length: int, at: float) -> list[g.Signal]:
    """A part is that long by now."""
    known = m.lengths.get(part, 0)
    if length <= known:
        return []
    m.lengths[part] = length
    m.reach += length - known
    return [g.Progress(at)] if m.reach > m.mark else []


def added(m: Answering, part: str, length: int, at: float) -> list[g.Signal]:
    """A piece was added to a part."""
    return grown(m, part, m.lengths.get(part, 0) + length, at)


def again(m: Answering) -> None:
    """The request is asked once more."""
    m.mark, m.reach = max(m.mark, m.reach), 0
    m.lengths.clear()


def updated(t: Track, m: Answering, part: r.Part, at: float) -> list[g.Signal]:
    """A part as it is now."""
    if part.type in ("text", "reasoning"):
        return grown(m, part.id, r.length(part.text), at)
    if part.type == "tool" and part.state is not None:
        return tool(t, m, part, at)
    if part.type == "step-finish" and part.id not in m.lengths:
        m.lengths[part.id] = 0
        return [g.Progress(at), *used(m, part.tokens, at)]
    return []


def tool(t: Track, m: Answering, part: r.Part, at: float) -> list[g.Signal]:
    """A tool call; `running` comes again with every piece of output, and sometimes without any."""
    call, state = part.call_id or part.id, part.state or r.State()
    if state.status == "pending":
        return grown(m, part.id, 1, at)
    seen = hash(bytes(state.metadata))
    if state.status == "running":
        before = t.tools.get(call)
        if before is None:
            return start(t, call, part.tool, at, seen)
        t.tools[call] = seen
        return [] if before == seen else [g.Progress(at)]
    if state.status not in ("completed", "error") or call in m.lengths:
        return []
    m.lengths[call] = 0
    began = [] if call in t.tools else start(t, call, part.tool, at, seen)
    t.tools.pop(call, None)
    return [*began, g.ToolEnded(at, call)]


def start(t: Track, call: str, told: str | None, at: float, seen: int = 0) -> list[g.Signal]:
    """A tool call begins to run; one that only the status told of is the same."""
    out = unname(t, at)
    t.tools[call] = seen
    name = tool_name(told)
    return [*out, g.ToolStarted(at, call, name, name == DELEGATES)]


def name(t: Track, told: str | None, at: float) -> list[g.Signal]:
    """The status names a tool (or none); it counts only where the stream showed none."""
    told = None if told is None else tool_name(told)
    if told == t.named or t.turn is None:
        return []
    out = unname(t, at)
    if told is not None and not t.tools:
        t.named = told
        out.append(g.ToolStarted(at, f"status-{told}", told, told == DELEGATES))
    return out


def unname(t: Track, at: float) -> list[g.Signal]:
    """Take back the tool that only the status told of."""
    if t.named is None:
        return []
    call, t.named = f"status-{t.named}", None
    return [g.ToolEnded(at, call, echo=True)]


def used(m: Answering, tokens: r.Tokens | None, at: float) -> list[g.Signal]:
    """Tokens of a step."""
    if tokens is None:
        return []
    output = tokens.output + tokens.reasoning
    whole: Callable[[float], int] = int
    return [
        g.Used(
            at,
            m.model,
            whole(tokens.input),
            whole(output),
            whole(tokens.cache.read),
            whole(tokens.cache.write),
        )
    ]
