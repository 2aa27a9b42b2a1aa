"""A replay as one HTML file: how long silences lasted against the limits, and the turns as strips.

Without scripts and addresses, so that it can be passed on: ids, names of phases, numbers; no content.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from sidecar import changes as c
from sidecar.clock import iso
from sidecar.session import Turn
from sidecar.wording import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sidecar.limits import Limit, Rules
    from sidecar.session import Session

ROWS: Final = 500
"""Turns drawn: more make a page that nobody reads and a browser chokes on."""

FINEST: Final = 0.001
"""The share of its turn below which a phase is not drawn."""

BINS: Final = 200
"""Columns of a silence strip."""

LONGEST: Final = 86_400.0
"""Seconds at the right edge of a silence strip; its left edge is one second."""

MARKS: Final = (("1s", 1), ("10s", 10), ("1m", 60), ("10m", 600), ("1h", 3600), ("6h", 21_600))

HEAD: Final = """<!doctype html><html lang=en><meta charset=utf-8>
<meta name=viewport content="width=device-width">
<meta http-equiv=Content-Security-Policy content="default-src 'none'; style-src 'unsafe-inline'">"""

STYLE: Final = """
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem }
h2 { margin: 2rem 0 .5rem } table { border-collapse: collapse; width: 100% }
td, th { padding: .2rem .6rem .2rem 0; text-align: left; vertical-align: top; white-space: nowrap }
td.wide { width: 60%; white-space: normal } code { font-size: 12px }
.strip { position: relative; height: 1.3rem; background: #8883; border-radius: 2px; overflow: hidden }
.strip i, .strip b { position: absolute; top: 0; bottom: 0 } .strip b { width: 2px; background: #d00 }
.axis { position: relative; height: 1.3rem; font-size: 11px; opacity: .7 } .axis span { position: absolute }
.key i { display: inline-block; width: .9em; height: .9em; margin: 0 .3em 0 1em; border-radius: 2px }
.model { background: #3b7dd8 } .tool { background: #2e9e6b } .waiting { background: #e0a100 }
.retrying { background: #d9621e } .compacting { background: #8a63d2 } .delegated { background: #1aa3b8 }
.idle_in_turn { background: #b0568f } .limited { background: #7a4a2a } .unknown, .gone { background: #777 }
.gap { background: #3b7dd8 } .bad { color: #d00; font-weight: 600 }
"""

Key = tuple[str, str]


class Strip(Struct):
    """One turn as it is drawn. Times are core seconds."""

    session: str
    turn: Turn
    parts: list[tuple[str, float, float]] = field(default_factory=list)
    tripped: list[tuple[float, str]] = field(default_factory=list)
    recovered: bool = False
    longest: tuple[float, str] = (0.0, "")


class Chart:
    """Listens to a replay and draws it."""

    def __init__(self) -> None:
        self._strips: dict[Key, Strip] = {}
        self._gaps: dict[str, list[float]] = {}

    def __call__(self, session: Session, change: c.Change, /) -> None:
        """Take what is drawn of a change."""
        turn: Turn | None = getattr(change, "turn", None)
        if turn is None:
            return
        strip = self._strips.setdefault((session.id, turn.id), Strip(session.id, turn))
        if isinstance(change, c.PhaseLeft):
            strip.parts.append((change.phase, change.since, change.at))
        elif isinstance(change, c.GapClosed):
            self._gaps.setdefault(change.phase, []).append(change.seconds)
            strip.longest = max(strip.longest, (change.seconds, change.phase))
        elif isinstance(change, c.VerdictGiven):
            strip.tripped.append((change.verdict.at, change.verdict.reason))
        elif isinstance(change, c.Recovered):
            strip.recovered = True

    def page(self, agent: str, sessions: Sequence[Session], rules: Rules, now: float) -> str:
        """Draw everything as it is at core time `now`."""
        for s in sessions:
            if s.turn is not None:
                strip = self._strips.setdefault((s.id, s.turn.id), Strip(s.id, s.turn))
                strip.parts.append((s.phase, s.phase_since, now))
                strip.longest = max(strip.longest, (s.silence(now), s.phase))
        order = sorted(self._strips.values(), key=lambda t: (not t.tripped, -t.longest[0]))
        title = f"Replay of {escape(agent)}: {len(sessions)} sessions, {len(order)} turns"
        body = [
            f"<h1>{title}</h1>",
            f"<p>Run on to {iso(now)}. Nothing was ended: a red line is where a limit was reached.</p>",
            "<h2>How long silences lasted</h2>",
            *self._silences(rules),
            "<h2>Turns</h2>",
            "<p>Those that reached a limit first, then by their longest silence.</p>",
            f"<p class=key>{''.join(_legend(order))}</p>",
            "<table><tr><th>Session, turn<th>Began<th>Lasted<th>Outcome<th>Longest silence<th>Phases",
            *(_row(strip, now) for strip in order[:ROWS]),
            "</table>",
        ]
        if len(order) > ROWS:
            body.append(f"<p>{len(order) - ROWS} more turns were silent for less than these.</p>")
        return "\n".join([HEAD, f"<title>{title}</title>", f"<style>{STYLE}</style>", *body, "</html>", ""])

    def _silences(self, rules: Rules) -> Iterable[str]:
        """Each phase's silences on a scale from a second to a day, darker where there were more."""
        if not self._gaps:
            yield "<p>No silence of a second or more.</p>"
            return
        axis = "".join(f'<span style="left:{_place(at):.1f}%">{name}</span>' for name, at in MARKS)
        yield "<p>Darker where there were more; a red line is a limit.</p>"
        yield f"<table><tr><th>In<th>Silences<th>Longest<td class=wide><div class=axis>{axis}</div>"
        for phase, gaps in sorted(self._gaps.items()):
            lines = "".join(
                f'<b style="left:{_place(x.limit):.1f}%"'
                f' title="{escape(name)}: {duration(x.limit)}, {x.action}"></b>'
                for name, x in _limits(phase, rules)
                if x.limit is not None
            )
            yield (
                f"<tr><td>{phase}<td>{len(gaps)}<td>{duration(max(gaps))}"
                f"<td class=wide><div class=strip>{''.join(_heat(gaps))}{lines}</div>"
            )
        yield "</table>"


def _limits(phase: str, rules: Rules) -> Sequence[tuple[str, Limit]]:
    if phase == "model":
        return (("by the transcript", rules.model_record), ("where pieces are seen", rules.model_delta))
    if phase == "tool":
        return sorted(rules.tool.items())
    return ((phase, getattr(rules, phase)),) if phase in rules.__struct_fields__ else ()


def _place(seconds: float) -> float:
    """Where a duration lies on the scale, in percent."""
    return 100 * min(1.0, math.log(max(1.0, seconds)) / math.log(LONGEST))


def _heat(gaps: Iterable[float]) -> Iterable[str]:
    """Columns, as dark as the logarithm of their count."""
    counts: dict[int, int] = {}
    for gap in gaps:
        at = min(BINS - 1, int(_place(gap) * BINS / 100))
        counts[at] = counts.get(at, 0) + 1
    most = math.log1p(max(counts.values()))
    for at, count in sorted(counts.items()):
        shade = 0.25 + 0.75 * math.log1p(count) / most
        left, width = at * 100 / BINS, 100 / BINS
        yield (f'<i class=gap title={count} style="left:{left:g}%;width:{width:g}%;opacity:{shade:.2f}"></i>')


def _legend(strips: Iterable[Strip]) -> Iterable[str]:
    for phase in sorted({part[0] for strip in strips for part in strip.parts}):
        yield f"<i class={phase}></i>{phase}"


def _row(strip: Strip, now: float) -> str:
    turn = strip.turn
    ended = now if turn.ended_at is None else turn.ended_at
    whole = max(ended - turn.started_at, 0.001)

    def percent(at: float) -> float:
        return 100 * min(1.0, max(0.0, (at - turn.started_at) / whole))

    drawn = "".join(
        f'<i class={phase} title="{phase}: {duration(to - since)}"'
        f' style="left:{percent(since):.2f}%;width:{percent(to) - percent(since):.2f}%"></i>'
        for phase, since, to in strip.parts
        if to - since >= FINEST * whole
    )
    drawn += "".join(
        f'<b style="left:{percent(at):.2f}%" title="{escape(reason)}"></b>' for at, reason in strip.tripped
    )
    fate = "went on: a false kill" if strip.recovered else "reached a limit"
    outcome = (turn.outcome or "open") + (f" <span class=bad>{fate}</span>" if strip.tripped else "")
    silence = f"{duration(strip.longest[0])} {strip.longest[1]}".strip()
    return (
        f"<tr><td><code>{escape(strip.session[:8])} {escape(turn.id[:8])}</code><td>{iso(turn.started_at)}"
        f"<td>{duration(whole)}<td>{outcome}<td>{silence}<td class=wide><div class=strip>{drawn}</div>"
    )
