"""Whose turn it is."""

from itertools import islice

from sidecar.sources.rota import Rota
from sidecar.sources.tail import Read


def read(*, grew: bool = False, behind: int = 0) -> Read:
    return Read([], grew, 0, None, 0, behind, history=False)


def test_due_before_hot_before_backlog() -> None:
    rota = Rota()
    rota.after("hot", read(grew=True), 0, 60)
    rota.later("behind")
    rota.soon("due")
    assert list(rota) == ["due", "hot", "behind"]
    assert not rota.pending


def test_a_backlog_is_not_hastened() -> None:
    rota = Rota()
    for path in ("a", "b"):
        rota.later(path)
    rota.soon("b")
    assert list(rota) == ["a", "b"]


def test_one_round_gives_each_once_though_it_comes_again() -> None:
    rota = Rota()
    rota.later("a")
    rota.later("b")
    order = []
    for path in rota:
        order.append(path)
        rota.after(path, read(behind=1), 0, 60)
    assert order == ["a", "b"]
    assert rota.pending


def test_who_is_not_reached_stays() -> None:
    rota = Rota()
    for path in "abc":
        rota.soon(path)
    assert list(islice(rota, 2)) == ["a", "b"]
    assert list(rota) == ["c"]


def test_it_cools_down() -> None:
    rota = Rota()
    rota.after("a", read(grew=True), 0, 60)
    rota.after("a", read(), 59, 60)
    assert list(rota) == ["a"]
    rota.after("a", read(), 60, 60)
    assert list(rota) == []


def test_it_does_not_stay_hot_for_a_clock_set_back() -> None:
    rota = Rota()
    rota.after("a", read(grew=True), 1e6, 60)
    rota.after("a", read(), 0, 60)
    assert list(rota) == []


def test_it_stays_hot_within_the_second_it_grew_in() -> None:
    rota = Rota()
    rota.after("a", read(grew=True), 7, 60)
    rota.after("a", read(), 7, 60)
    assert list(rota) == ["a"]


def test_what_falls_behind_is_not_due_as_well() -> None:
    rota = Rota()
    rota.soon("a")
    rota.later("a")
    assert list(rota) == ["a"]


def test_what_is_forgotten_never_comes() -> None:
    rota = Rota()
    rota.after("hot", read(grew=True), 0, 60)
    rota.soon("due")
    rota.later("behind")
    for path in ("hot", "due", "behind"):
        rota.forget(path)
    assert list(rota) == []
    assert not rota.pending


def test_renamed_it_keeps_its_places() -> None:
    rota = Rota()
    rota.after("a", read(grew=True, behind=1), 0, 60)
    rota.soon("b")
    rota.rename({"a": "b", "b": "a"})
    assert list(rota) == ["a", "b"]
    rota.forget("b")
    assert list(rota) == []


def test_where_events_tell_of_growth_nobody_looks_again() -> None:
    rota = Rota()
    rota.after("a", read(grew=True), 0, 0)
    assert not rota.hot
    assert list(rota) == []
