"""What each recording gives: its signals and its final session objects, as files beside it.

`python -m tests.expected` writes them anew; read the difference before you commit it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from sidecar.agents.registry import recordings
from sidecar.limits import Rules
from sidecar.replay import Replay

ROOT = Path(__file__).parent / "recordings"


def cases() -> list[Path]:
    """Every recorded case of an agent that can be read."""
    return [case for kind in recordings() for case in sorted(ROOT.glob(f"{kind}/*/*")) if case.is_dir()]


def signals(case: Path) -> list[str]:
    """The signals of a case, one a line: seconds since the first, session, kind and fields."""
    observed = recordings()[case.parts[-3]]([case]).observations()
    start = min((o.signal.at for o in observed), default=0.0)
    lines = []
    for session, signal in observed:
        fields = msgspec.structs.asdict(signal)
        at = fields.pop("at") - start
        told = {
            name: _relative(name, value, start)
            for name, value in fields.items()
            if value not in (None, 0, "")
        }
        lines.append(
            f"{at:9.3f} {session[:13]} {type(signal).__name__} {json.dumps(told) if told else ''}".rstrip()
        )
    return lines


def sessions(case: Path) -> list[dict[str, Any]]:
    """The session objects at the last record."""
    replay = Replay(case.parts[-3], Rules())
    replay.run(recordings()[case.parts[-3]]([case]).observations(), lambda last: last)
    return replay.shown()


def _relative(name: str, value: Any, start: float) -> Any:
    return round(value - start, 3) if name in ("stamp", "due", "until", "since") else value


def write() -> None:
    """Write what is expected of every case."""
    for case in cases():
        (case / "expected.signals").write_text("\n".join(signals(case)) + "\n")
        (case / "expected.sessions.json").write_text(json.dumps(sessions(case), indent=1) + "\n")


if __name__ == "__main__":
    write()
