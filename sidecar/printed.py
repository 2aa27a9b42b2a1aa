"""What the commands print for people: ids, states and numbers in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidecar.agent import Finding
from sidecar.wording import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sidecar.agent import Sees

Shown = dict[str, Any]

HEAD = ("AGENT", "SESSION", "PHASE", "SILENCE", "BOUND", "LEFT", "TURN", "LAST VERDICT")


def printable(text: str) -> str:
    """A line for a terminal: ids and names are an agent's, and it could write escape sequences."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns as wide as their widest cell."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(line.rstrip() + "\n" for line in lines)


def table(sessions: Sequence[Shown]) -> str:
    """The sessions, those nearest to their bound first."""
    if not sessions:
        return "no sessions\n"
    return columns([HEAD, *(_row(s) for s in sorted(sessions, key=_urgency))])


def _urgency(s: Shown) -> float:
    return float("inf") if s["bound"] is None else float(s["bound"]["remaining_seconds"])


def _row(s: Shown) -> tuple[str, ...]:
    bound, verdicts, turn = s["bound"], s["verdicts"], s["turn"]
    phase = s["phase"] + (f" ({s['waiting_for']})" if s["waiting_for"] else "")
    left = ""
    if bound is not None:
        left = duration(abs(bound["remaining_seconds"])) + (" over" if bound["remaining_seconds"] < 0 else "")
    last = f"{verdicts[-1]['bound']}: {verdicts[-1]['outcome'] or 'pending'}" if verdicts else ""
    return (
        s["agent"],
        s["session"],
        phase,
        duration(s["silence_seconds"]),
        "" if bound is None else f"{bound['name']} {duration(bound['limit_seconds'])}",
        left,
        "" if turn is None else (turn["outcome"] or "open"),
        last,
    )


def explained(s: Shown) -> str:
    """One session: what it does, what runs, what was decided, what changed last."""
    lines = [
        f"{s['agent']} {s['session']}: {s['phase']} since {s['since']}",
        f"silent for {duration(s['silence_seconds'])}",
        f"evidence: {s['evidence']}, status {s['status'] or 'none'}, attended {str(s['attended']).lower()}",
    ]
    told = s.get("explain", s)
    for name, up in told.get("sources", {}).items():
        lines.append(f"source {name}: {'up' if up else 'lost'}")
    lines += [f"open tool: {t['tool']} since {t['since']}" for t in s["open_tools"]]
    for b in told.get("bounds", []):
        left = f"then {b['action']}: {duration(b['remaining_seconds'])} left"
        limit = duration(b["limit_seconds"])
        lines.append(f"bound {b['name']}: {limit} from {b['since']}, {'tripped' if b['tripped'] else left}")
    for v in s["verdicts"]:
        lines.append(f"verdict {v['at']}: {v['action']} {v['outcome'] or 'pending'}: {v['reason']}")
    if not told.get("bounds"):
        lines.append(f"no bound runs: {'a tool is open' if s['open_tools'] else 'nothing to wait for'}")
    lines += [f"{change['at']} {change['text']}" for change in told.get("changes", [])]
    return "".join(printable(line) + "\n" for line in lines)


def seeing(sees: Sees) -> Finding:
    """What an agent is judged by, as `check` says it."""
    pieces = {"delta": "turns by every streamed piece", "record": "turns by every finished block"}
    turns = "no turns, only life and death" if sees.resolution is None else pieces[sees.resolution]
    more = {"open tools": sees.tools, "waits": sees.waiting, "its own status": sees.status}
    return Finding("sees", ok=True, detail=", ".join([turns, *(what for what, seen in more.items() if seen)]))


def findings(found: Mapping[str, Sequence[Finding]]) -> str:
    """What `check` found, agent by agent."""
    lines = []
    for agent, each in found.items():
        lines.append(f"{agent}:")
        lines += [f"  {'ok  ' if f.ok else 'no  '}{f.what}: {f.detail}" for f in each]
    return "".join(printable(line) + "\n" for line in lines)


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}" + ("" if len(things) == 1 else "s")


def replayed(sessions: Sequence[Shown], summary: Shown) -> str:
    """A replay: the sessions, the silences by phase, and what each bound would have ended."""
    turns = ", ".join(f"{count} {name}" for name, count in summary["turns"].items() if count)
    told_of = [s for s in sessions if s["verdicts"] or (s["turn"] and s["turn"]["ended_at"] is None)]
    out = table(told_of) + "\n" if told_of else ""
    out += f"{_count(sessions, 'session')}; turns: {turns or 'none'}\n"
    gaps = summary["silence_seconds"]
    if gaps:
        rows = [("SILENCE IN", "GAPS", "P50", "P99", "MAX")]
        for phase, g in gaps.items():
            rows.append((phase, str(g["count"]), *(duration(g[key]) for key in ("p50", "p99", "max"))))
        out += "\n" + columns(rows)
    for bound, told in summary["bounds"].items():
        back = {(r["session"], r["turn"]) for r in told["recovered"]}
        out += f"\n{bound} would have ended {_count(told['would_end'], 'turn')}, "
        out += f"{len(back)} of which went on by themselves (false kills):\n"
        for ended in told["would_end"]:
            fate = "went on: a false kill" if (ended["session"], ended["turn"]) in back else "never went on"
            turn = "no turn" if ended["turn"] is None else f"turn {ended['turn']}"
            out += printable(f"  {ended['session']} {turn}: {fate}") + "\n"
    if not summary["bounds"]:
        out += "\nno bound would have ended a turn\n"
    return out
