"""From listings to signals: what moved, what waits, what is over, and what is not believed."""

from __future__ import annotations

from typing import Any, Final

import pytest

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.http.entries import Listed, entry, listed, merged
from sidecar.agents.http.track import KEPT_GONE, Track
from sidecar.clock import RecordedClock
from tests.agents.http.fakes import settings

KBC = settings("kbc-box")
OPENHANDS = settings("openhands")


def box(*sessions: dict[str, Any]) -> Listed:
    assert KBC.listing is not None
    return listed(KBC, KBC.listing, {"sessions": list(sessions)})


def told(tid: Any = "t", created: Any = 100, active: Any = 100, **more: Any) -> dict[str, Any]:
    return {"tid": tid, "created_at": created, "last_activity_at": active, "done": False} | more


def of(observations: list[g.Observation]) -> list[g.Signal]:
    return [signal for _, signal in observations]


@pytest.fixture
def track() -> Track:
    return Track(KBC, RecordedClock())


def test_what_was_there_before_us_counts_from_its_stamps(track: Track) -> None:
    assert of(track.feed(box(told(active=150)), set(), 900.0)) == [
        g.Registered(100),
        g.SourceUp(100, "listing"),
        g.Progress(150),
        g.Status(900, "idle", 150, source="listing"),
    ]
    assert of(track.feed(box(told(active=150)), set(), 905.0)) == []


def test_movement_is_progress_and_starts_its_idleness_anew(track: Track) -> None:
    track.feed(box(told()), set(), 900.0)
    assert of(track.feed(box(told(active=903)), set(), 905.0)) == [
        g.Progress(903),
        g.Status(905, "busy", 903, source="listing"),
        g.Status(905, "idle", 903, source="listing"),
    ]
    assert of(track.feed(box(told(active=902)), set(), 910.0)) == []


@pytest.mark.parametrize("stamp", [5, 500, 10_000, 20_000_000_000])
def test_what_moved_under_our_eyes_did_so_now_whatever_its_clock_says(track: Track, stamp: float) -> None:
    track.feed(box(), set(), 900.0)
    track.feed(box(told(active=4)), set(), 905.0)
    assert all(at == 910.0 for at in (s.at for s in of(track.feed(box(told(active=stamp)), set(), 910.0))))


def test_a_stamp_of_the_future_is_now(track: Track) -> None:
    signals = of(track.feed(box(told(created=5_000, active=5_001)), set(), 900.0))
    assert {signal.at for signal in signals} == {900.0}


def test_without_the_word_of_the_preset_movement_is_a_sign_of_life_only() -> None:
    track = Track(OPENHANDS, RecordedClock())
    assert OPENHANDS.listing is not None
    page = {"id": "c", "execution_status": "idle", "created_at": "1970-01-01T00:01:40", "updated_at": 150}
    track.feed(listed(OPENHANDS, OPENHANDS.listing, {"items": [page]}), set(), 900.0)
    moved = listed(OPENHANDS, OPENHANDS.listing, {"items": [page | {"updated_at": 905}]})
    assert [type(s) for s in of(track.feed(moved, set(), 906.0))] == [g.Status, g.Status]


def test_what_is_done_waits_for_its_close_and_no_longer_once_it_lives(track: Track) -> None:
    track.feed(box(told()), set(), 900.0)
    assert of(track.feed(box(told(done=True)), set(), 905.0)) == [
        g.Status(905, "waiting", 905, "its close", source="listing")
    ]
    assert of(track.feed(box(told(done=True)), set(), 910.0)) == []
    assert of(track.feed(box(told(done=False)), set(), 915.0)) == [
        g.Status(915, "idle", 915, source="listing")
    ]


def test_what_is_not_listed_is_over_unless_the_listing_is_broken(track: Track) -> None:
    track.feed(box(told("a"), told("b")), set(), 900.0)
    assert of(track.feed(box(told("a"), {"tid": None}, 7), set(), 905.0)) == []  # type: ignore[arg-type]
    assert track.feed(box(told("a")), set(), 910.0) == [g.Observation("b", g.Unregistered(910))]
    assert of(track.feed(box(told("a")), set(), 915.0)) == []


def test_one_that_comes_back_is_told_from_one_that_was_judged(track: Track) -> None:
    track.feed(box(told()), set(), 900.0)
    track.feed(box(), set(), 905.0)
    words = [s.word for s in of(track.feed(box(told()), set(), 910.0)) if isinstance(s, g.Status)]
    assert words == ["idle", "busy", "idle", "idle"]


def test_what_came_and_went_is_not_remembered_for_ever(track: Track) -> None:
    for n in range(3 * KEPT_GONE):
        track.feed(box(told(f"t{n}")), set(), 900.0 + n)
    assert len(track._gone) == KEPT_GONE
    assert len(track.known) == 1


def test_a_status_that_cannot_be_read_is_blindness_for_that_session_alone(track: Track) -> None:
    both = box(told("a"), told("b"))
    track.feed(both, set(), 900.0)
    assert track.feed(both, {"b"}, 905.0) == [g.Observation("b", g.SourceLost(905, "listing"))]
    assert track.feed(both, {"b"}, 910.0) == []
    assert track.feed(both, set(), 915.0) == [g.Observation("b", g.SourceUp(915, "listing"))]
    assert "c" not in Track(KBC, RecordedClock()).known


def test_nothing_is_kept_of_what_could_be_content(track: Track) -> None:
    signals = track.feed(box(told(title="the plan", last_message={"text": "the plan"})), set(), 900.0)
    assert "the plan" not in repr((track.known, signals))


def test_who_sits_there_is_the_configurations_word() -> None:
    signals = of(Track(KBC, RecordedClock(), attended=True).feed(box(told()), set(), 900.0))
    assert [s.attended for s in signals if isinstance(s, g.Described)] == [True]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        None,
        "text",
        7,
        {"error": "x"},
        {"sessions": {}},
        {"sessions": [{"nothing": 1}]},
        {"sessions": [[]]},
    ],
)
def test_what_is_no_listing_is_no_empty_one(answer: Any) -> None:
    assert KBC.listing is not None
    with pytest.raises(SourceDown):
        listed(KBC, KBC.listing, answer)


@pytest.mark.parametrize("tid", ["../x?y", 'a"b', "a\nb", "💥", 17])
def test_ids_are_taken_as_they_are(tid: Any) -> None:
    assert list(box(told(tid)).entries) == [str(tid)]


@pytest.mark.parametrize("tid", ["", None, True, [], {}, "x" * 257, 1.5])
def test_what_is_no_id_is_left_out_and_said(tid: Any) -> None:
    found = box(told("a"), told(tid))
    assert (list(found.entries), found.whole) == (["a"], False)


NONSENSE: Final[list[Any]] = ["", "soon", None, True, -1, 0, 1e300, [], {}, "0001-01-01T00:00:00Z"]


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("2026-11-30T19:08:15Z", 1_796_065_695.0),
        ("2026-11-30T19:08:15", 1_796_065_695.0),
        ("2026-11-30T20:08:15.500+01:00", 1_796_065_695.5),
        (1_796_065_695, 1_796_065_695.0),
        (1_796_065_695_000, 1_796_065_695.0),
        *[(nonsense, None) for nonsense in NONSENSE],
    ],
)
def test_stamps_of_every_kind(stamp: Any, seconds: float | None) -> None:
    assert box(told(created=stamp)).entries["t"].created == seconds


def test_words_waits_and_ends() -> None:
    qwen = settings("qwen-serve", directory="/w")
    assert qwen.listing is not None
    busy = entry(qwen, qwen.listing, "s", {"hasActivePrompt": True})
    waiting = entry(qwen, qwen.listing, "s", {"hasActivePrompt": True, "isWaitingForPermission": True})
    unknown = entry(qwen, qwen.listing, "s", {"hasActivePrompt": "perhaps"})
    job = {"hasRunningBackgroundTasks": True}
    behind = entry(qwen, qwen.listing, "s", {"hasActivePrompt": False} | job)
    beside = entry(qwen, qwen.listing, "s", {"hasActivePrompt": True} | job)
    assert [(e.state, e.waits) for e in (busy, waiting, unknown, behind, beside)] == [
        ("busy", None),
        ("waiting", "permission"),
        ("busy", None),
        ("background", None),
        ("busy", None),
    ]
    assert merged(waiting, busy).waits is None
    assert merged(busy, waiting).waits == "permission"
    hermes = settings("hermes-runs", ids=["r"])
    track = Track(hermes, RecordedClock())
    assert hermes.status is not None
    for status, kinds in (
        ("running", [g.Registered, g.SourceUp, g.Status]),
        ("waiting_for_approval", [g.Status]),
        ("completed", [g.Unregistered]),
        ("completed", []),
    ):
        found = Listed({"r": entry(hermes, hermes.status, "r", {"status": status})})
        assert [type(s) for s in of(track.feed(found, set(), 900.0))] == kinds
