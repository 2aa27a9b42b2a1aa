"""What changed, as a sentence: a table."""

from __future__ import annotations

import pytest

from sidecar import changes as c
from sidecar.session import Turn, Verdict
from sidecar.story import told

TURN = Turn("t1", 100.0)
DONE = Turn("t1", 100.0, 152.5, "completed")
VERDICT = Verdict(160.0, "t1", "model", "model:t1", "interrupt", "transcript", "no progress for 45m")
SAID = [
    (c.SessionOpened(100.0), "session seen"),
    (c.SessionClosed(100.0, "reaped"), "session closed: reaped"),
    (c.TurnOpened(100.0, TURN), "turn t1 opened"),
    (c.TurnOpened(100.0, Turn("x" * 100_000, 100.0)), f"turn {'x' * 64}… opened"),
    (c.TurnClosed(152.5, DONE), "turn t1 completed after 52s"),
    (c.TurnClosed(152.5, TURN), "turn t1 ended after 52s"),
    (c.PhaseLeft(103.1, "model", 100.0, "tool", TURN, "m", None), "model lasted 3.1s, then tool"),
    (
        c.PhaseLeft(110.0, "waiting", 100.0, "model", TURN, "m", "permission"),
        "waiting for permission lasted 10s, then model",
    ),
    (c.GapClosed(110.0, "tool", 10.0, 100.0, TURN), "progress after 10s of silence, in tool"),
    (c.ToolClosed(110.0, "c1", "Bash", 100.0, TURN, unfinished=False), "tool Bash came back after 10s"),
    (
        c.ToolClosed(110.0, "c1", "Bash", 100.0, TURN, unfinished=True),
        "tool Bash was left without a result after 10s",
    ),
    (c.TokensUsed(110.0, "m", {"input": 1}, TURN), ""),
    (c.RecordsRead(110.0, {"user": 1}), ""),
    (c.RetrySeen(110.0, "overloaded"), "a provider error is retried: overloaded"),
    (c.SourceChanged(110.0, "transcript", up=True), "source transcript regained"),
    (c.SourceChanged(110.0, "transcript", up=False), "source transcript lost"),
    (c.StatusChanged(110.0, "busy", None), "the agent says busy"),
    (c.StatusChanged(110.0, "waiting", "permission"), "the agent says waiting, waiting for permission"),
    (c.StatusChanged(110.0, None, None), "the agent says nothing more"),
    (c.WarningGiven(110.0, "model", "half", TURN), "warning of the bound model (turn t1): half"),
    (
        c.VerdictGiven(160.0, VERDICT, TURN),
        "verdict interrupt by the bound model (turn t1): no progress for 45m",
    ),
    (c.VerdictGiven(160.0, VERDICT, None), "verdict interrupt by the bound model: no progress for 45m"),
    (
        c.ActIntended(160.0, "interrupt", "no progress", "model", TURN),
        "interrupt is about to be tried (turn t1): no progress",
    ),
    (c.ActEnded(160.0, "interrupt", "effective", "model", TURN), "interrupt (turn t1): effective"),
    (
        c.Recovered(160.0, VERDICT, TURN),
        "turn went on by itself after the bound model had tripped (turn t1)",
    ),
]


@pytest.mark.parametrize(("change", "sentence"), SAID, ids=[said or type(x).__name__ for x, said in SAID])
def test_a_change_is_told_in_one_sentence(change: c.Change, sentence: str) -> None:
    assert told(change) == sentence


def test_every_change_is_told_or_only_counted() -> None:
    changes = {x for x in vars(c).values() if isinstance(x, type) and issubclass(x, c.Change)} - {c.Change}
    assert changes == {type(change) for change, _ in SAID}
