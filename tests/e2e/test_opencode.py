"""The main job on the real OpenCode: what hangs is ended, what works is left alone, and blindness ends nothing."""

from __future__ import annotations

import signal
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.e2e.opencode import BINARY, Beside, OpenCode
from tests.e2e.process import Json, until

if TYPE_CHECKING:
    from tests.e2e.sandbox import Sandbox

pytestmark = pytest.mark.timeout(120)

SHORT = {"model": "5s", "retrying": "8s"}


@pytest.fixture
def opencode(sandbox: Sandbox) -> OpenCode:
    return OpenCode(sandbox)


def at(line: Json) -> float:
    return datetime.fromisoformat(line["at"]).timestamp()


def warmed(opencode: OpenCode) -> str:
    """The first turn of a server takes seconds to begin; let that not be the one that is measured."""
    session = opencode.session()
    opencode.prompt(session, "[[text hello]]")
    until(lambda: opencode.answers(session) == ["hello"], "the first answer")
    return session


def goes_on(opencode: OpenCode, sidecar: Beside, session: str) -> None:
    """The same session answers the next question."""
    opencode.prompt(session, "[[text still here]]")
    until(lambda: opencode.answers(session)[-1] == "still here", "the next answer")
    sidecar.expect("turn.end", session=session, outcome="completed")


@pytest.mark.parametrize("script", ["[[blackhole]]", "[[headers]]", "[[stall 3]]", "[[begun bash]]"])
def test_a_hung_turn_is_ended_within_its_bound_and_the_session_goes_on(
    opencode: OpenCode, script: str
) -> None:
    with Beside(opencode) as sidecar:
        warmed(opencode)
        session = opencode.session()
        opencode.prompt(session, script)
        verdict = sidecar.expect("turn.stalled", session=session, bound="model", action="interrupt")
        intent = sidecar.expect("action.intent", session=session, action="interrupt")
        ended = sidecar.expect("turn.end", session=session, outcome="stalled")
        sidecar.expect("action.outcome", session=session, outcome="effective")
        silence = until(lambda: sidecar.sessions()[session], "the session")
        assert at(verdict) <= at(intent) <= at(ended)
        assert at(ended) - at(verdict) < 1.0
        assert verdict["evidence"] == "stream"
        assert silence["verdicts"][0]["reason"].startswith("no progress for 5")
        assert opencode.busy() == {}
        goes_on(opencode, sidecar, session)
        assert sidecar.metric('ai_agent_turns_total{agent="opencode",outcome="stalled"}') == 1


@pytest.mark.parametrize("script", ["[[blackhole]]", "[[stall 3]]"])
def test_the_agents_own_retries_and_the_text_they_repeat_are_no_progress(
    sandbox: Sandbox, script: str
) -> None:
    opencode = OpenCode(sandbox, headerTimeout=2000, chunkTimeout=2000)
    with Beside(opencode, bounds={"model": "30s", "retrying": "9s"}) as sidecar:
        warmed(opencode)
        session = opencode.session()
        opencode.prompt(session, script)
        verdict = sidecar.expect("turn.stalled", session=session, bound="retrying", action="interrupt")
        ended = sidecar.expect("turn.end", session=session, outcome="stalled")
        started = sidecar.expect("turn.start", session=session)
        assert 9.0 <= at(verdict) - at(started) <= 11.0
        assert at(ended) - at(verdict) < 1.0
        assert sidecar.metric('ai_agent_retries_total{agent="opencode",cause="timeout"}') >= 2
        goes_on(opencode, sidecar, session)


def test_an_abort_in_the_pause_between_two_attempts_ends_the_turn_though_no_error_tells_of_it(
    opencode: OpenCode,
) -> None:
    """Its attempts come after 2, 4 and 8 s: nine seconds after the first there is a pause."""
    with Beside(opencode, bounds={"model": "30s", "retrying": "9s"}) as sidecar:
        warmed(opencode)
        session = opencode.session()
        opencode.prompt(session, "[[error 500]]")
        verdict = sidecar.expect("turn.stalled", session=session, bound="retrying", action="interrupt")
        assert opencode.busy().get(session, {}).get("type") in ("retry", None)
        ended = sidecar.expect("turn.end", session=session, outcome="stalled")
        assert at(ended) - at(verdict) < 1.0
        goes_on(opencode, sidecar, session)


def test_an_abort_without_effect_is_found_out_and_the_session_put_away_where_that_is_configured(
    opencode: OpenCode,
) -> None:
    with Beside(opencode, actions={"grace": "2s", "escalate": "reap"}) as sidecar:
        warmed(opencode)
        session = opencode.session()
        opencode.deaf.touch()
        opencode.prompt(session, "[[blackhole]]")
        sidecar.expect("action.outcome", session=session, action="interrupt", outcome="ineffective")
        assert not opencode.deaf.exists(), "the abort was answered"
        sidecar.expect("action.outcome", session=session, action="reap", outcome="effective")
        sidecar.expect("turn.end", session=session, outcome="stalled")
        assert opencode.busy() == {}
        assert opencode.api("GET", f"/session/{session}")["time"]["archived"]


def test_looking_opens_no_folder_and_claims_nothing_of_another_process(opencode: OpenCode) -> None:
    there = opencode.sandbox.work / "there"
    there.mkdir()
    opencode.session(there)
    ours = warmed(opencode)
    other = opencode.sandbox.start([str(BINARY.resolve()), "run", "[[blackhole]]"], opencode.env)
    other.close_stdin()  # it would wait for more of its prompt
    until(lambda: opencode.sandbox.stats()["open"] == 1, "the other process's request")
    listed = {info["id"] for info in opencode.api("GET", "/experimental/session")}
    before = opencode.instances()
    with Beside(opencode, {"every": "200ms"}) as sidecar:
        (theirs,) = [s for s in listed if s != ours and s in sidecar.sessions() and opencode.answers(s)]
        read = 'agent_sidecar_source_last_read_timestamp_seconds{agent="opencode",source="status"}'
        first = until(lambda: sidecar.metric(read), "the first poll")
        until(lambda: sidecar.metric(read) - first > 7, "thirty polls, and a bound that would have passed")
        assert opencode.instances() == before
        assert sidecar.sessions()[theirs]["turn"] is None
        assert sidecar.events("turn.stalled") == sidecar.events("action.intent") == []
        assert opencode.sandbox.stats()["open"] == 1, "it still waits for its answer"


def test_a_long_silent_tool_is_not_touched(opencode: OpenCode) -> None:
    with Beside(opencode) as sidecar:
        session = opencode.session()
        opencode.prompt(session, "[[bash sleep 12;;text done]]")
        ended = sidecar.expect("turn.end", session=session, outcome="completed", seconds=60)
        assert ended["tool_calls"] == 1
        assert sidecar.events("turn.stalled") == []
        assert sidecar.sessions()[session]["turn"]["phase_seconds"]["tool"] >= 11


@pytest.mark.parametrize(
    ("script", "waits"),
    [("[[bash touch x;;text done]]", "permission: bash"), ("[[ask;;text done]]", "question")],
)
def test_what_nobody_answers_is_ended(opencode: OpenCode, script: str, waits: str) -> None:
    with Beside(opencode, bounds={"waiting": "4s"}) as sidecar:
        session = opencode.session()
        opencode.prompt(session, script)
        verdict = sidecar.expect("turn.stalled", session=session, bound="waiting", action="interrupt")
        assert verdict["reason"].startswith(f"waiting for {waits} for 4")
        sidecar.expect("turn.end", session=session, outcome="stalled")
        pending = [len(opencode.api("GET", path)) for path in ("/permission", "/question")]
        assert sum(pending) == 1, "the dead request stays listed"
        opencode.prompt(session, "[[bash sleep 6;;text still here]]")
        sidecar.expect("turn.end", session=session, outcome="completed", seconds=60)
        assert len(sidecar.events("turn.stalled")) == 1, "what was left over was no wait of the next turn"


def test_a_stalled_subagent_is_ended_alone_and_its_parent_goes_on(opencode: OpenCode) -> None:
    with Beside(opencode) as sidecar:
        session = opencode.session()
        opencode.prompt(session, "[[agent {{blackhole}};;text went on]]")
        verdict = sidecar.expect("turn.stalled", action="interrupt")
        assert verdict["parent"] == session
        sidecar.expect("turn.end", session=verdict["session"], outcome="stalled")
        sidecar.expect("turn.end", session=session, outcome="completed")
        assert opencode.answers(session)[-1] == "went on"
        assert len(sidecar.events("turn.stalled")) == 1


def test_a_killed_server_is_blindness_and_its_turn_has_died_when_it_is_back(opencode: OpenCode) -> None:
    with Beside(opencode, bounds={"model": "6s"}) as sidecar:
        session = opencode.session()
        opencode.prompt(session, "[[bash sleep 300]]")
        until(lambda: sidecar.sessions().get(session, {}).get("phase") == "tool", "the tool")
        opencode.kill()
        sidecar.expect("source.lost", source="events")
        sidecar.expect("source.lost", source="status")
        until(lambda: sidecar.sessions()[session]["phase"] == "unknown", "blindness")
        assert sidecar.events("turn.end") == []
        opencode.start()
        sidecar.expect("source.regained", source="events")
        sidecar.expect("turn.end", session=session, outcome="died")
        assert sidecar.events("turn.stalled") == []
        assert sidecar.events("action.intent") == []
        goes_on(opencode, sidecar, session)


def test_a_sidecar_that_comes_late_finds_the_turn_that_hangs(opencode: OpenCode) -> None:
    warmed(opencode)
    session = opencode.session()
    opencode.prompt(session, "[[bash true;;blackhole]]")
    until(lambda: opencode.sandbox.stats()["open"] == 1, "the request that hangs")
    with Beside(opencode) as sidecar:
        sidecar.expect("turn.stalled", session=session, bound="model", action="interrupt")
        sidecar.expect("turn.end", session=session, outcome="stalled")
        sidecar.stop(signal.SIGTERM)


def test_two_directories_are_watched_and_looking_opens_neither(opencode: OpenCode) -> None:
    there = opencode.sandbox.work / "ü b"
    there.mkdir()
    with Beside(opencode) as sidecar:
        here_session, there_session = opencode.session(), opencode.session(there)
        opencode.prompt(here_session, "[[blackhole]]")
        opencode.prompt(there_session, "[[blackhole]]", there)
        for session in (here_session, there_session):
            sidecar.expect("turn.end", session=session, outcome="stalled")
        until(lambda: opencode.busy() == {} == opencode.busy(there), "both rest")


def test_a_password_is_sent(sandbox: Sandbox) -> None:
    word = "open: sesame"
    opencode = OpenCode(sandbox, password=word)
    secret = sandbox.root / "password"
    secret.write_text(f"{word}\n")
    with Beside(opencode, {"password_file": str(secret)}) as sidecar:
        session = opencode.session()
        opencode.prompt(session, "[[blackhole]]")
        sidecar.expect("turn.end", session=session, outcome="stalled")


def test_a_session_without_a_prompt_is_never_reaped_and_one_that_rests_is_archived(
    opencode: OpenCode,
) -> None:
    with Beside(opencode, bounds={"idle": {"limit": "3s", "action": "reap"}}) as sidecar:
        created, used = opencode.session(), opencode.session()
        opencode.prompt(used, "[[text hello]]")
        sidecar.expect("turn.end", session=used, outcome="completed")
        sidecar.expect("action.outcome", session=used, action="reap", outcome="effective")
        until(lambda: used not in sidecar.sessions(), "the session is closed")
        assert opencode.api("GET", f"/session/{used}")["time"]["archived"]
        assert opencode.answers(used) == ["hello"], "its history is kept"
        assert sidecar.sessions()[created]["phase"] == "idle"
        assert sidecar.events("action.intent", session=created) == []


def test_a_deleted_session_whose_turn_goes_on_is_still_ended(opencode: OpenCode) -> None:
    with Beside(opencode) as sidecar:
        warmed(opencode)
        session = opencode.session()
        opencode.prompt(session, "[[blackhole]]")
        until(lambda: sidecar.sessions().get(session, {}).get("phase") == "model", "the turn")
        opencode.api("DELETE", f"/session/{session}")
        sidecar.expect("turn.end", session=session, outcome="stalled")
        until(lambda: opencode.busy() == {}, "the ghost rests")
        until(lambda: session not in sidecar.sessions(), "the session is closed")
