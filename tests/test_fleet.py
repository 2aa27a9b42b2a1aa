"""All sessions together: who is shown, who hears of whom, and what is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from sidecar import changes as c
from sidecar import fleet as fleets
from sidecar import signals as g
from sidecar.fleet import Fleet, Past
from tests.stories import HOUR, MIN, RULES, block, end, prompt, status, tool, up

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from sidecar.limits import Rules
    from sidecar.session import Session


class Law:
    """Decides nothing; notes what was asked."""

    def __init__(self, rules: Rules = RULES) -> None:
        self.limits = rules
        self.decided: list[tuple[str, str, str]] = []
        self.known: list[g.Signal] = []
        self.resumed: list[str] = []

    def rules(self, _: Session) -> Rules:
        return self.limits

    def alone(self, session: Session) -> bool:
        return session.parent is None

    def luck(self) -> float:
        return 0.25

    def decide(self, session: Session, judged: g.Judged) -> None:
        self.decided.append((session.id, judged.bound, judged.action))

    def woken(self, session: Session) -> None:
        self.resumed.append(session.id)

    def opened(self, _: Session) -> Iterable[g.Signal]:
        return self.known


class World:
    """A fleet that started at zero, with a listener."""

    def __init__(self, rules: Rules = RULES, told_from: float = 0.0, past: Past | None = None) -> None:
        self.law = Law(rules)
        self.fleet = Fleet(self.law, told_from=told_from, past=past)
        self.told: list[tuple[str, c.Change]] = []
        self.fleet.listeners.append(lambda session, change: self.told.append((session.id, change)))

    def see(self, now: float, *signals: g.Signal, session: str = "s1") -> None:
        self.fleet.observe("claude-code", [g.Observation(session, signal) for signal in signals], now)

    def shown(self) -> list[str]:
        return [session.id for session in self.fleet.live()]

    def get(self, session: str = "s1") -> Session:
        found = self.fleet.get("claude-code", session)
        assert found is not None
        return found

    def kinds(self, session: str = "s1") -> list[str]:
        return [type(change).__name__ for name, change in self.told if name == session]


def child(at: float) -> g.Described:
    return g.Described(at, "s1")


def test_a_session_that_lives_is_shown_and_told_with_what_happened_to_it() -> None:
    world = World()
    world.see(5, up(1), prompt(1), block(3))
    assert world.shown() == ["s1"]
    assert world.kinds() == ["SessionOpened", "TurnOpened", "PhaseLeft", "GapClosed"]
    assert world.get().luck == 0.25


def test_what_was_over_long_ago_is_dormant_and_wakes_on_growth() -> None:
    world = World(told_from=10 * HOUR)
    world.see(10 * HOUR, up(1), prompt(1), block(3), end(3))
    assert world.shown() == []
    assert world.told == []
    world.see(10 * HOUR + 5, prompt(10 * HOUR + 5, "t2"))
    assert world.shown() == ["s1"]
    assert world.kinds() == ["SessionOpened", "TurnOpened", "PhaseLeft"], (
        "finished turns of the past are not new"
    )
    assert world.get().turns["completed"] == 1


def test_an_open_turn_of_the_past_is_judged_from_its_stamps_without_grace() -> None:
    world = World(told_from=HOUR)
    world.see(HOUR, up(1), prompt(1))
    world.fleet.tick(HOUR)
    assert world.law.decided == [("s1", "model", "interrupt")]


def test_history_is_folded_and_not_told() -> None:
    world = World(told_from=100)
    world.see(100, up(1), prompt(1), end(50), prompt(90, "t2"))
    assert world.kinds() == ["SessionOpened"]
    assert world.get().turns["completed"] == 1


class Owed:
    """What a run before owes, by change, and the end that it told of the open turn."""

    def __init__(self, ended: g.TurnEnded | None = None, **owed: bool) -> None:
        self.owed = owed
        self.ended = ended

    def owes(self, _: Session, change: c.Change, /) -> bool | None:
        return self.owed.get(type(change).__name__)

    def end(self, session: Session, signal: g.Signal | None, /) -> g.TurnEnded | None:
        mine = session.turn is not None and session.turn.id == "t1"
        return self.ended if mine and (signal is None or getattr(signal, "turn", None) == "later") else None


def test_a_turn_that_a_run_before_ended_is_over_though_nothing_else_says_so() -> None:
    world = World(told_from=100, past=Owed(g.TurnEnded(60, "died"), TurnClosed=False))
    world.see(100, up(1), prompt(1), block(50))
    assert (world.get().turn, world.get().turns["died"], world.get().idle_since) == (None, 1, 60)
    assert world.kinds() == ["SessionOpened"]
    world.see(101, up(99), g.Registered(99), session="s2")
    world.see(102, prompt(1), session="s2")
    assert world.get("s2").turn is None, "what is read of it late opens it no more"


def test_work_after_an_end_that_a_run_before_told_is_of_the_next_turn() -> None:
    world = World(told_from=100, past=Owed(g.TurnEnded(50, "completed")))
    world.see(100, up(1), prompt(1), block(50), g.TurnEnded(50, "completed", 1.5), g.Progress(90, "later"))
    turn = world.get().turn
    assert turn is not None
    assert (turn.id, turn.started_at, world.get().turns["completed"]) == ("later", 90, 1)


def test_what_a_run_before_owes_is_told_however_old() -> None:
    world = World(told_from=100, past=Owed(TurnClosed=True))
    world.see(100, up(1), prompt(1), end(50), prompt(90, "t2"))
    assert world.kinds() == ["SessionOpened", "TurnClosed"]


def test_what_a_run_before_owes_is_told_though_the_session_is_over_long_ago() -> None:
    world = World(told_from=10 * HOUR, past=Owed(TurnClosed=True))
    world.see(10 * HOUR, up(1), prompt(1), block(3), end(3))
    assert (world.shown(), world.kinds()) == ([], ["TurnClosed"])
    world.see(10 * HOUR + 1, block(10 * HOUR + 1))
    assert world.kinds().count("TurnClosed") == 1


def test_what_a_run_before_told_is_not_told_again_though_it_is_found_out_again_now() -> None:
    world = World(told_from=100, past=Owed(TurnClosed=False))
    world.see(100, up(1), g.Registered(1), prompt(1), g.ProcessGone(101))
    assert "TurnClosed" not in world.kinds()


def test_sources_of_one_session_merge_by_time() -> None:
    world = World()
    world.see(60, status(50, "idle"), up(1), prompt(1), block(40), end(40))
    assert world.get().phase == "idle"
    assert world.get().last is not None
    world.see(70, end(70), prompt(61, "t2"))
    assert world.get().turns["completed"] == 2


def test_a_registered_session_is_shown_however_long_it_is_idle() -> None:
    world = World()
    world.see(10 * HOUR, up(1), g.Registered(0), prompt(1), end(3))
    assert world.shown() == ["s1"]
    world.fleet.tick(10 * HOUR)
    assert world.law.decided == [("s1", "idle", "report")]


def test_a_session_known_by_growth_closes_at_the_idle_limit_without_a_verdict() -> None:
    world = World()
    world.see(3, up(1), prompt(1), end(3))
    world.fleet.tick(3 + 31 * MIN)
    assert world.shown() == []
    assert world.law.decided == []
    assert world.kinds()[-1] == "SessionClosed"


def test_an_ended_session_is_not_shown_again_before_it_goes_on() -> None:
    world = World()
    world.see(3, up(1), g.Registered(0), prompt(1), end(3))
    world.see(4, g.Unregistered(4))
    assert world.shown() == []
    world.see(5, g.Presence(5))
    assert world.shown() == []
    world.see(6, prompt(6, "t2"))
    assert world.shown() == ["s1"]
    assert world.kinds().count("SessionOpened") == 2


def test_the_ticker_is_told_when_to_come_back_and_judges_only_what_is_due() -> None:
    world = World()
    assert world.fleet.tick(0) == 15
    world.see(0, up(0), prompt(0))
    assert world.fleet.tick(0) == 15
    world.see(0, up(0), prompt(0), status(0, "waiting"), session="s2")
    assert world.fleet.tick(0) == 15
    assert world.fleet.tick(2.5 * MIN - 8) == 2.5 * MIN - 8 + 2


def test_a_verdict_is_folded_before_it_is_carried_out() -> None:
    world = World()
    world.see(0, up(0), prompt(0))
    world.fleet.tick(45 * MIN)
    assert world.get().verdicts[0].outcome is None
    assert "VerdictGiven" in world.kinds()
    assert world.law.decided == [("s1", "model", "interrupt")]


def test_a_provisional_end_settles_at_the_tick() -> None:
    world = World()
    world.see(1, up(0), prompt(0), end(1, settle=1.5))
    world.fleet.tick(2.5)
    assert world.get().turn is None


def test_new_rules_judge_everyone_at_the_next_tick() -> None:
    world = World()
    world.see(0, up(0), prompt(0))
    world.fleet.tick(10 * MIN)
    world.law.limits = replace(RULES, model_record=replace(RULES.model_record, limit=MIN, warn=MIN))
    world.fleet.due(10 * MIN)
    world.fleet.tick(10 * MIN)
    assert world.law.decided == [("s1", "model", "interrupt")]


def test_a_subagents_work_is_its_waiting_parents() -> None:
    world = World()
    world.see(2, up(0), prompt(0), tool(2, "Agent", delegates=True))
    world.see(9, up(3), child(3), prompt(3, "a1"), block(9), session="a")
    assert world.get().progress_at == 9
    assert world.get().children["a"].running
    world.see(10, end(10), session="a")
    assert not world.get().children["a"].running


def test_a_parent_seen_after_its_subagent_learns_of_it() -> None:
    world = World()
    world.see(9, up(3), child(3), prompt(3, "a1"), block(9), session="a")
    world.see(10, up(0), prompt(0), end(4))
    assert world.get().phase == "delegated"
    assert world.get().children["a"].progress == 9
    quiet = World()
    quiet.see(9, up(3), child(3), session="a")
    quiet.see(10, up(0), prompt(0), end(4))
    assert quiet.get().children == {}


def test_a_subagent_inherits_its_parents_word_and_its_end() -> None:
    world = World()
    world.see(2, up(0), g.Registered(0), prompt(0), tool(2, "Agent", delegates=True), status(2, "busy"))
    world.see(4, up(3), child(3), prompt(3, "a1"), session="a")
    told = world.get("a").status
    assert told is not None
    assert (told.word, told.inherited) == ("busy", True)
    world.see(5, status(5, "waiting", "permission prompt"))
    assert world.get("a").phase == "waiting"
    world.see(6, g.ProcessGone(6))
    assert world.get("a").phase == "gone"


def test_a_subagent_is_told_when_its_parent_closes() -> None:
    world = World()
    world.see(2, up(0), g.Registered(0), prompt(0), end(2))
    world.see(4, up(3), child(3), prompt(3, "a1"), end(4), session="a")
    world.see(5, g.Unregistered(5))
    assert world.shown() == []


def test_a_stuck_subagent_trips_the_turn_that_waits_for_it() -> None:
    world = World()
    world.see(2, up(0), prompt(0), tool(2, "Agent", delegates=True))
    world.see(4, up(3), child(3), prompt(3, "a1"), session="a")
    world.fleet.tick(3 + 45 * MIN)
    world.fleet.tick(3 + 45 * MIN)
    assert world.law.decided == [("a", "model", "interrupt"), ("s1", "delegated", "interrupt")]


def test_a_stuck_subagent_of_an_unknown_parent_trips_nobody_else() -> None:
    world = World()
    world.see(4, up(3), child(3), prompt(3, "a1"), session="a")
    world.fleet.tick(3 + 45 * MIN)
    assert world.law.decided == [("a", "model", "interrupt")]


def test_two_sessions_are_two() -> None:
    world = World()
    world.see(0, up(0), prompt(0))
    world.see(44 * MIN, up(0), prompt(0), block(44 * MIN), session="s2")
    world.fleet.tick(45 * MIN)
    assert world.law.decided == [("s1", "model", "interrupt")]
    assert world.get("s2").verdicts == []
    assert {name for name, change in world.told if isinstance(change, c.VerdictGiven)} == {"s1"}


def test_what_is_known_from_before_is_folded_when_the_session_is_first_shown() -> None:
    world = World(told_from=HOUR)
    reason = "no progress for 45m00s"
    world.law.known = [
        g.Judged(2700, "model", "model", "interrupt", "transcript", reason, "t1"),
        g.Acted(2701, "interrupt", "t1", "model", "ineffective", "model"),
    ]
    world.see(HOUR, up(0), prompt(0))
    world.fleet.tick(HOUR)
    assert world.law.decided == [], "once per turn, across restarts"
    assert [v.outcome for v in world.get().verdicts] == ["ineffective"]
    assert world.kinds() == ["SessionOpened"], "and it is not told again"
    assert world.law.resumed == ["s1"]


def test_sessions_that_slept_longest_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "KEPT_ASLEEP", 20)
    world = World()
    world.see(0, up(0), prompt(0), session="awake")
    for number in range(40):
        world.see(10 * HOUR, up(0), prompt(0), end(1), session=f"old-{number}")
    assert len(world.fleet.known("claude-code")) <= 20
    assert world.shown() == ["awake"]
    assert world.fleet.get("claude-code", "old-0") is None
    assert world.fleet.get("claude-code", "old-39") is not None


def test_known_are_the_sessions_of_that_agent() -> None:
    world = World()
    world.see(0, up(0), prompt(0))
    assert [s.id for s in world.fleet.known("claude-code")] == ["s1"]
    assert world.fleet.known("codex") == []


def test_a_session_that_ended_stays_closed_when_it_is_looked_at_again_and_its_acts_outcome_is_told() -> None:
    world = World()
    world.see(3, up(1), g.Registered(0), g.ProcessSeen(0, 7, 0), prompt(1), end(3), status(3, "idle"))
    world.see(4, g.Unregistered(4))
    world.see(5, g.Presence(5))
    assert world.shown() == []
    world.fleet.fold(world.get(), g.Acted(6, "reap", "t1", "idle", "effective", "idle"))
    assert world.kinds()[-2:] == ["SessionClosed", "ActEnded"]


def test_a_dormant_session_is_not_judged_and_keeps_nobody_awake() -> None:
    world = World()
    world.see(10 * HOUR, up(1), prompt(1), block(3), end(3))
    assert world.fleet.tick(10 * HOUR) == 10 * HOUR + 15
    assert world.told == []


def test_a_warning_is_told_and_nothing_is_carried_out() -> None:
    world = World()
    world.see(0, up(0), prompt(0))
    world.fleet.tick(20 * MIN)
    assert world.kinds()[-1] == "WarningGiven"
    assert world.law.decided == []


def test_a_forgotten_subagent_hears_nothing_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "KEPT_ASLEEP", 10)
    world = World()
    world.see(10 * HOUR, up(1), child(1), prompt(1, "a1"), end(3), session="a")
    for number in range(20):
        world.see(10 * HOUR, up(1), prompt(1), end(3), session=f"old-{number}")
    assert world.fleet.get("claude-code", "a") is None
    world.see(10 * HOUR, g.Registered(0), status(10 * HOUR, "busy"))
    assert world.shown() == ["s1"]


def test_a_session_without_a_parent_is_adopted_by_nobody() -> None:
    world = World()
    world.see(0, up(0), prompt(0))
    world.fleet._adopt(world.get(), prompt(0))
    assert world.get().status is None


def test_an_end_that_is_found_now_is_told_though_it_is_dated_before_we_started() -> None:
    world = World(told_from=100)
    world.see(100, up(1), prompt(50), block(60), status(70, "idle"))
    world.fleet.fold(world.get(), g.Acted(160, "report", "t1", "idle_in_turn", "reported", "idle_in_turn"))
    (closed,) = [change for _, change in world.told if isinstance(change, c.TurnClosed)]
    assert (closed.at, closed.turn.outcome) == (60, "abandoned")


def test_one_that_only_settles_now_is_history() -> None:
    world = World(told_from=100)
    world.see(100, up(1), g.Registered(0), prompt(50), end(60, settle=1.5))
    world.fleet.tick(100)
    assert world.get().turns["completed"] == 1
    assert "TurnClosed" not in world.kinds()


def test_a_session_was_in_no_phase_while_it_slept() -> None:
    world = World()
    world.see(3, up(1), g.Registered(0), prompt(1), end(3))
    world.see(4, g.Unregistered(4))
    world.see(500, prompt(500, "t2"))
    left = [change for _, change in world.told if isinstance(change, c.PhaseLeft)]
    assert [(x.phase, x.since, x.at) for x in left][-1] == ("idle", 500, 500)


def test_a_fleet_in_no_hurry_comes_back_later() -> None:
    fleet = Fleet(Law(), told_from=0.0, slowest=600.0)
    assert fleet.tick(0) == 600
    fleet.observe("claude-code", [g.Observation("s1", signal) for signal in (up(0), prompt(0), tool(1))], 1)
    assert fleet.tick(1) == 601


def test_more_sessions_at_once_than_are_remembered_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "KEPT_ASLEEP", 20)
    world = World()
    old = [g.Observation(f"old-{n}", signal) for n in range(50) for signal in (up(0), prompt(0), end(1))]
    world.fleet.observe("claude-code", old, 10 * HOUR)
    world.fleet.tick(10 * HOUR)
    assert world.shown() == []


def test_of_more_sessions_at_once_than_are_remembered_those_that_live_are_all_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleets, "KEPT_ASLEEP", 20)
    world = World()
    for batch in range(2):  # the second finds more awake than are remembered asleep
        names = [f"s{batch}-{n}" for n in range(50)]
        found = [g.Observation(name, signal) for name in names for signal in (up(0), prompt(0), end(1))]
        world.fleet.observe("claude-code", found, 2)
    assert len(world.shown()) == 100
    assert sum(isinstance(change, c.TurnClosed) for _, change in world.told) == 100


def test_a_parent_that_ends_ends_the_turns_of_its_subagents_once() -> None:
    world = World()
    world.see(2, up(0), g.Registered(0), prompt(0), end(2))
    world.see(4, up(3), child(3), prompt(3, "a1"), session="a")
    world.see(5, g.Unregistered(5))
    assert world.get("a").phase == "gone"
    world.see(6, g.Unregistered(6))
    assert world.shown() == ["a"]
