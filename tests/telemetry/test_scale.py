"""What a fleet costs whoever stores it: counted on the real thing, multiplied, and held against the README."""

import re
from pathlib import Path

from sidecar import signals as g
from sidecar.telemetry import names as n
from sidecar.telemetry.liveness import Liveness
from sidecar.telemetry.watched import ControlState, Facts, SourceState
from tests.telemetry.scraped import samples, told
from tests.telemetry.traced import watched
from tests.telemetry.world import WALL, World, prompt, scenario, sees

README = (Path(__file__).parents[2] / "README.md").read_text()
PODS = 10_000
SCRAPES = 30  # seconds between two of them
TURNS = 4  # an hour
TOOLS = 10  # of a turn


def busy(*, kinds: int = 1, sessions: int = 0) -> int:
    """Series of a sidecar whose agent worked, stalled and waits: with sources, control and processes."""
    others = [f"agent-{number}" for number in range(1, kinds)]
    world = World("claude-code", *others)
    agents = ["claude-code", *others]
    world.states = [SourceState(a, name, up=True, last_read=WALL) for a in agents for name in ("x", "y", "z")]
    controls = tuple(ControlState(agent, "host", up=True) for agent in agents)
    world.now_true = Facts("1", "enforce", "x", controls=controls)
    metrics = told(world, per_session=bool(sessions))
    scenario(world)
    for number in range(sessions - len(world.by_id)):
        world.see(sees(3000), prompt(3000), session=f"more-{number}")
    return len(samples(metrics))


def spans_of_a_turn() -> int:
    """A turn that thinks, calls a tool, thinks about its result, and so on, and answers."""
    world = watched()
    world.see(sees(1000), prompt(1000))
    for number in range(TOOLS):
        at = 1010 + 20 * number
        world.see(g.ToolStarted(at, f"c{number}", "Bash"), g.ToolEnded(at + 10, f"c{number}"))
    world.see(g.Progress(1300), g.TurnEnded(1301, "completed"))
    return len(world.spans)


def liveness_spans(seconds: float) -> int:
    world = World()
    liveness = Liveness(world, world.spans.append)
    world.see(sees(1000), prompt(1000))
    world.tick(liveness.tick, 1000 + seconds)
    assert {span.name for span in world.spans} == {n.LIVENESS}
    return len(world.spans)


def told_by_the_readme() -> dict[str, list[int]]:
    """The table's rows: for each, the numbers of one sidecar and of all."""
    section = README.partition("### At ten thousand pods\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| ([a-z].*?) \| ([\d,]+) \| ([\d,]+) \|$", section, re.MULTILINE)
    return {name: [int(number.replace(",", "")) for number in numbers] for name, *numbers in rows}


def test_the_readme_counts_as_we_do() -> None:
    series, more = busy(), busy(kinds=2) - busy()
    by_session = busy(sessions=10) - busy()
    spans = spans_of_a_turn() * TURNS
    assert told_by_the_readme() == {
        "series, one agent kind": [series, series * PODS],
        "series, each further kind": [more, more * PODS],
        "series, `metrics.per_session` with 10 sessions": [by_session, by_session * PODS],
        f"samples a minute, one kind scraped every {SCRAPES}s": [
            series * 60 // SCRAPES,
            series * PODS * 60 // SCRAPES,
        ],
        f"spans an hour, {TURNS} turns of {TOOLS} tool calls": [spans, spans * PODS],
        "spans an hour, a turn that hangs": [liveness_spans(3600), liveness_spans(3600) * PODS],
    }


def test_one_kind_and_each_further_one_stay_within_their_budgets() -> None:
    assert busy() <= 250
    for kinds in (2, 3, 8):
        assert busy(kinds=kinds) - busy(kinds=kinds - 1) <= 150 + 7, (
            "seven are of its three sources and control"
        )
