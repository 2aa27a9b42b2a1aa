"""When a turn is open, decided from what is said; time is a number here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from sidecar.host import PROVISIONAL, RESULT_SETTLE, STATELESS, Registration, Turns

if TYPE_CHECKING:
    from sidecar.host import Child


def registered(status: str, stamp: float = 0.0, waiting_for: str | None = None) -> Registration:
    return Registration("s", status, stamp, waiting_for)


def ended(code: int = 0, *, by_signal: bool = False) -> Child:
    return cast("Child", SimpleNamespace(code=code, ended_by_signal=by_signal))


def broken_off(turns: Turns, child: Child, *, answered: bool = True) -> bool:
    return turns.broken_off(child, answered=answered)


def is_open(turns: Turns) -> bool:
    return turns.current is not None


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def running(turns: Turns) -> Turns:
    turns.prompted(1.0)
    turns.tell("running", 1.1)
    return turns


def test_a_user_message_opens_a_turn_and_the_state_event_keeps_it(turns: Turns) -> None:
    turns.prompted(1.0)
    opened = turns.current
    turns.tell("running", 1.1)
    assert opened
    assert turns.current == opened
    turns.tell("idle", 2.0)
    assert turns.current is None


def test_each_turn_has_a_name_of_its_own(running: Turns) -> None:
    first = running.current
    running.tell("idle", 2.0)
    running.tell("running", 3.0)
    assert running.current
    assert running.current != first


def test_idle_before_the_agent_has_read_the_prompt_ends_nothing(turns: Turns) -> None:
    turns.register(registered("idle"), 0.5)
    turns.prompted(1.0)
    turns.register(registered("idle"), 1.1)
    turns.tick(1.2)
    assert turns.current
    assert not turns.may_end(1.3, 1.3)


def test_a_prompt_that_the_agent_never_begins_is_given_up(turns: Turns) -> None:
    turns.register(registered("idle"), 0.5)
    turns.prompted(1.0)
    turns.tick(1.0 + PROVISIONAL + 0.1)
    assert turns.current is None


def test_a_result_does_not_end_a_turn_where_states_are_told(running: Turns) -> None:
    running.result(2.0, completed=True)
    running.tick(1000.0)
    assert running.current


def test_a_queued_message_that_begins_after_a_result_is_a_turn_of_its_own(running: Turns) -> None:
    first = running.current
    running.prompted(2.0)
    running.begin(2.1)  # the first prompt's own beginning changes nothing
    assert running.current == first
    running.result(3.0, completed=True)
    running.begin(3.1)
    assert running.current not in (None, first)


def test_an_interrupted_prompt_with_another_behind_it_leaves_a_turn_that_can_be_interrupted(
    running: Turns,
) -> None:
    running.prompted(2.0)
    running.interrupting()
    before = running.interrupted
    running.result(3.0, completed=False)
    running.begin(3.1)
    assert (before, running.interrupted) == (True, False)
    running.result(4.0, completed=True)
    running.tell("idle", 4.1)
    assert not running.spoiled


def test_an_agent_that_tells_no_states_is_idle_after_a_result_and_silence(turns: Turns) -> None:
    turns.prompted(1.0)
    turns.heard(2.0)
    turns.result(2.0, completed=True)
    turns.tick(2.0 + RESULT_SETTLE - 0.1)
    assert is_open(turns)
    turns.tick(2.0 + RESULT_SETTLE + 0.1)
    assert not is_open(turns)


def test_an_agent_that_says_nothing_at_all_gets_its_end_of_input_in_the_end(turns: Turns) -> None:
    assert turns.may_end(1.0, 1.0)
    turns.prompted(1.0)
    assert not turns.may_end(2.0, 1.0)
    assert turns.may_end(1.1 + STATELESS, 1.0)
    turns.heard(2.0)
    assert not turns.may_end(1.1 + STATELESS, 1.0)


@pytest.mark.parametrize("status", ["busy", "waiting", "some-new-word"])
def test_a_registration_opens_and_ends_turns_where_no_states_are_told(turns: Turns, status: str) -> None:
    turns.register(registered(status), 1.0)
    assert turns.current
    turns.register(registered("idle"), 2.0)
    assert turns.current is None


def test_a_registration_without_a_status_says_nothing(turns: Turns) -> None:
    turns.register(registered(""), 1.0)
    assert turns.current is None
    assert not turns.works_behind(1.0, 1.0)


def test_state_events_outrank_the_registration(running: Turns) -> None:
    running.register(registered("idle", 99.0), 2.0)
    assert running.current
    running.tell("idle", 3.0)
    running.register(registered("busy", 1.0), 3.1)
    assert running.current is None


def test_a_turn_that_passed_between_two_looks_clears_what_was_before(turns: Turns) -> None:
    turns.register(registered("busy", 1.0), 1.0)
    turns.interrupting()
    turns.register(registered("idle", 2.0), 2.0)
    assert turns.spoiled
    turns.register(registered("idle", 2.0), 2.5)
    assert turns.spoiled
    turns.register(registered("idle", 3.0), 3.0)
    assert not turns.spoiled


def test_a_job_left_running_is_work_though_no_turn_is_open(turns: Turns) -> None:
    turns.register(registered("shell"), 1.0)
    assert turns.current is None
    assert turns.works_behind(1.0, 1.0)


def test_tasks_left_running_hold_back_the_end_of_input(running: Turns) -> None:
    running.background = 1
    running.tell("idle", 2.0)
    assert running.works_behind(2.0, 2.0)
    assert not running.may_end(50.0, 2.0)
    running.background = 0
    assert running.may_end(50.0, 2.0)


def test_a_registration_that_stays_busy_after_the_turn_is_work(running: Turns) -> None:
    running.register(registered("busy", 1.0), 1.2)
    running.tell("idle", 2.0)
    assert not running.works_behind(2.1, 2.1)  # the file follows by some milliseconds
    assert running.works_behind(3.5, 3.5)


def test_a_message_queued_in_the_turn_delays_the_end_of_input(running: Turns) -> None:
    running.prompted(1.5)
    running.tell("idle", 2.0)
    assert not running.may_end(2.1, 1.6)
    assert running.may_end(3.0, 1.6)


def test_a_pending_permission_is_waiting_until_it_is_answered(running: Turns) -> None:
    running.ask("r1")
    asked = running.waiting_for
    running.answered("r1")
    assert (asked, running.waiting_for) == ("permission prompt", None)


def test_the_registration_says_what_is_waited_for(running: Turns) -> None:
    running.tell("requires_action", 2.0)
    assert running.waiting_for == "permission prompt"
    running.register(registered("waiting", 2.0, "input needed"), 2.1)
    assert running.waiting_for == "input needed"


def test_an_ended_turn_waits_for_nothing(running: Turns) -> None:
    running.ask("r1")
    running.tell("idle", 2.0)
    assert running.waiting_for is None
    running.tell("running", 3.0)
    assert running.waiting_for is None


def test_a_turn_that_completes_in_spite_of_an_interrupt_has_ended_by_itself(running: Turns) -> None:
    running.interrupting()
    running.result(2.0, completed=True)
    running.tell("idle", 2.1)
    assert not running.spoiled


def test_a_later_turn_that_completes_clears_what_was_before(running: Turns) -> None:
    running.interrupting()
    running.result(2.0, completed=False)
    running.tell("idle", 2.1)
    assert broken_off(running, ended())
    running.tell("running", 3.0)
    running.tell("idle", 4.0)
    assert not broken_off(running, ended())


def test_an_agent_that_leaves_in_mid_turn_has_not_ended_by_itself(running: Turns) -> None:
    assert broken_off(running, ended(0))
    assert broken_off(running, ended(143))


def test_an_agent_that_leaves_right_after_its_result_has_ended_by_itself(running: Turns) -> None:
    running.result(2.0, completed=False)
    assert not broken_off(running, ended(1))


def test_an_error_before_the_prompt_was_begun_is_the_agents_own(turns: Turns) -> None:
    turns.register(registered("idle"), 0.5)
    turns.prompted(1.0)
    assert not broken_off(turns, ended(1))
    assert broken_off(turns, ended(0))


def test_a_command_that_knows_no_turns_keeps_its_status(turns: Turns) -> None:
    turns.run_for_life(0.0)
    assert not broken_off(turns, ended(0), answered=False)
    assert not broken_off(turns, ended(3), answered=False)
    assert broken_off(turns, ended(137, by_signal=True))


def test_a_registered_agent_that_leaves_without_an_answer_has_been_ended(turns: Turns) -> None:
    turns.run_for_life(0.0)
    turns.register(registered("busy"), 1.0)
    assert broken_off(turns, ended(0), answered=False)
    assert not broken_off(turns, ended(0), answered=True)
