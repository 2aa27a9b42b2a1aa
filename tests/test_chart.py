"""A replay drawn: every turn and silence, against the limits; nothing that an agent wrote becomes markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from sidecar import changes as c
from sidecar import signals as g
from sidecar.chart import ROWS, Chart
from sidecar.limits import Limit, Rules
from sidecar.replay import Replay
from sidecar.session import Session, Turn
from tests.stories import HOUR, MIN, block, end, prompt, result, tool, up

DAY = 1_790_000_000.0
STORY = [
    up(DAY),
    prompt(DAY),
    block(DAY + 50 * MIN),
    end(DAY + 51 * MIN),
    prompt(DAY + 60 * MIN, "t2"),
    tool(DAY + 61 * MIN),
    result(DAY + 62 * MIN),
]


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def titles(self, tag: str) -> list[str]:
        return [title for name, attrs in self.tags if name == tag and (title := attrs.get("title"))]


def drawn(rules: Rules | None = None, *, session: str = "s1", more: float = HOUR) -> Page:
    rules = rules or Rules()
    replay, chart = Replay("claude-code", rules), Chart()
    replay.fleet.listeners.append(chart)
    replay.run([g.Observation(session, signal) for signal in STORY], lambda last: last + more)
    return Page(chart.page("claude-code", replay.sessions(), rules, replay.clock.at))


def test_turns_that_reached_a_limit_are_marked_and_false_kills_called_so() -> None:
    text = drawn().text
    assert "Replay of claude-code: 1 sessions, 2 turns" in text
    assert re.search(r"s1 t2.*open reached a limit1h00m model", text)  # the longest silence first
    assert re.search(r"s1 t1.*completed went on: a false kill50m00s model", text)
    assert text.index("s1 t2") < text.index("s1 t1")


def test_a_turn_is_drawn_by_its_phases_with_what_tripped() -> None:
    page = drawn()
    assert [x for x in page.titles("i") if "tool" in x] == ["tool: 1m00s"]
    tripped = [x for x in page.titles("b") if x.startswith("no progress")]
    assert len(tripped) == 2
    assert tripped[0].startswith("no progress for 45m00s while waiting for the model")


@pytest.mark.parametrize(
    ("rules", "limit"),
    [(Rules(), "by the transcript: 45m00s, interrupt"), (Rules(model_record=Limit(None)), "")],
)
def test_silences_stand_against_the_limits_that_are_set(rules: Rules, limit: str) -> None:
    page = drawn(rules)
    assert ("by the transcript" in str(page.titles("b"))) is bool(limit)
    assert limit in str(page.titles("b"))
    assert "where pieces are seen: 15m00s, interrupt" in page.titles("b")
    assert re.search(r"model250m00s", page.text)  # two, the longest of 50 minutes
    assert re.search(r"tool11m00s", page.text)


def test_a_pattern_of_tools_is_text_too() -> None:
    chart, session, turn = Chart(), Session("claude-code", "s1", DAY), Turn("t1", DAY)
    chart(session, c.GapClosed(DAY + 9, "tool", 9.0, DAY, turn))
    page = Page(chart.page("claude-code", [session], Rules(tool={'a"b<i>*': Limit(60.0)}), DAY + 9))
    assert 'a"b<i>*: 1m00s, interrupt' in page.titles("b")


def test_a_replay_without_silences_says_so() -> None:
    assert "No silence of a second or more." in Chart().page("claude-code", [], Rules(), 0.0)


def test_ids_are_text_and_nothing_is_fetched_or_run() -> None:
    page = drawn(session="<script>x")
    assert "<script> t1" in page.text.replace("&lt;", "<")
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "img", "a"})
    assert any("default-src 'none'" in str(attrs.get("content")) for _, attrs in page.tags)


def test_only_so_many_turns_are_drawn_and_the_rest_is_counted() -> None:
    chart, session = Chart(), Session("claude-code", "s1", 0.0)
    for number in range(ROWS + 7):
        turn = Turn(f"t{number}", float(number), number + 0.5, "completed")
        chart(session, c.TurnClosed(number + 0.5, turn))
    page = Page(chart.page("claude-code", [session], Rules(), 1000.0))
    assert page.text.count("completed") == ROWS
    assert "7 more turns were silent for less than these." in page.text


def test_what_belongs_to_no_turn_is_not_drawn() -> None:
    chart = Chart()
    chart(Session("claude-code", "s1", 0.0), c.SessionOpened(0.0))
    assert "0 turns" in chart.page("claude-code", [], Rules(), 0.0)


def test_a_scale_from_a_second_to_a_day_holds_whatever_lasts_longer() -> None:
    chart, session, turn = Chart(), Session("claude-code", "s1", 0.0), Turn("t", 0.0)
    for seconds in (1.0, 10 * 86_400.0):
        chart(session, c.GapClosed(seconds, "waiting", seconds, 0.0, turn))
    page = Page(chart.page("claude-code", [session], Rules(), 0.0))
    places = [str(attrs["style"]) for _, attrs in page.tags if attrs.get("class") == "gap"]
    assert [place.split(";")[0] for place in places] == ["left:0%", "left:99.5%"]
    assert "waiting: 5m00s, interrupt" in page.titles("b")
