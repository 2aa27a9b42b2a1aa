"""`sessions/<pid>.json`: what is believed of it, and what never is."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from sidecar import signals as g
from sidecar.agent import SourceDown
from sidecar.agents.claude_code.registrations import EVERY, Registrations
from sidecar.clock import LiveClock
from sidecar.sources import process
from tests.agents.claude_code.homes import WALL, Home

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.agents.claude_code.homes import Script

NOW = 10_000.0


class Desk:
    """A home, its registrations as a source, and what was read to its end."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.script = self.home.session()
        self.ended: list[str] = []
        self.now = NOW
        clock = LiveClock(lambda: self.now, lambda: WALL + self.now - NOW)
        self.source = Registrations(str(root / "sessions"), clock, self._ends)
        self.path = root / "sessions" / f"{os.getpid()}.json"

    def _ends(self, session: str) -> Sequence[g.Observation]:
        self.ended.append(session)
        return [g.Observation(session, g.TurnEnded(self.now, "completed"))]

    def register(
        self, script: Script | None = None, pid: int | None = None, name: str | None = None, **fields: Any
    ) -> Path:
        return self.home.register(script or self.script, pid, name, **fields)

    def read(self) -> list[g.Signal]:
        return [signal for _, signal in self.source.scan()]

    def kinds(self) -> list[str]:
        return [type(signal).__name__ for signal in self.read()]

    def status(self) -> g.Status | None:
        return next((s for s in self.read() if isinstance(s, g.Status)), None)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as running:
        yield running
        running.kill()


def test_a_folder_that_is_not_there_yet_is_no_loss(desk: Desk) -> None:
    assert desk.read() == []


def test_a_folder_that_cannot_be_read_is_one(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: str) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(SourceDown, match="sessions: Permission denied"):
        desk.read()


def test_a_registration_is_a_session_with_its_process_and_its_word(desk: Desk) -> None:
    desk.register(status="busy", statusUpdatedAt=int((WALL - 60) * 1000))
    started = NOW - 7200
    assert desk.read() == [
        g.SourceUp(started, "registry"),
        g.Registered(started),
        g.Described(started, None, "2.1.332", attended=False),
        g.ProcessSeen(started, os.getpid(), started),
        g.Status(NOW - 60, "busy", NOW - 60, source="registry"),
    ]
    assert desk.read() == [], "and it is told once"


def test_one_without_a_status_is_a_registration_without_a_word(desk: Desk) -> None:
    desk.register()
    assert "Status" not in desk.kinds()


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("busy", "busy"),
        ("idle", "idle"),
        ("waiting", "waiting"),
        ("shell", "background"),
        ("brand-new", "busy"),
    ],
)
def test_the_words_in_the_wild(desk: Desk, written: str, word: str) -> None:
    desk.register(status=written)
    told = desk.read()
    assert [s.word for s in told if isinstance(s, g.Status)] == [word]
    assert [s.unknown for s in told if isinstance(s, g.Records)] == ([1] if written == "brand-new" else [])


def test_what_it_waits_for_is_told_only_while_it_waits(desk: Desk) -> None:
    desk.register(status="waiting", waitingFor="permission prompt", statusUpdatedAt=1)
    told = desk.status()
    assert told is not None
    assert told.waiting_for == "permission prompt"
    desk.register(status="busy", waitingFor="permission prompt", statusUpdatedAt=2)
    told = desk.status()
    assert told is not None
    assert told.waiting_for is None


def test_it_is_never_aged_out_by_its_time_of_writing(desk: Desk) -> None:
    path = desk.register(status="busy")
    desk.read()
    os.utime(path, (1, 1))
    desk.now += 36_000
    assert desk.read() == []
    assert desk.script.id in desk.source.sessions


def test_a_half_written_or_foreign_file_keeps_what_was_read_before(desk: Desk) -> None:
    path = desk.register(status="busy")
    desk.read()
    path.write_text('{"pid": 1, "sess')
    assert desk.read() == []
    path.write_text("[]")
    assert desk.read() == []
    assert desk.script.id in desk.source.sessions


def test_files_without_a_process_start_parked_ones_and_keys_are_not_read(desk: Desk) -> None:
    desk.register(name="pid-77.json", procStart=None)
    desk.register(name="78.json", parkedJobId="x")
    (desk.path.parent / "79.abc.key").write_text("secret")
    (desk.path.parent / "notes.json").write_text("{}")
    (desk.path.parent / "80.json").symlink_to("/etc/passwd")
    os.mkfifo(desk.path.parent / "81.json")
    assert desk.read() == []


def test_a_registration_removed_ends_the_session_after_its_file_was_read_to_the_end(desk: Desk) -> None:
    desk.register()
    desk.read()
    desk.path.unlink()
    assert desk.kinds() == ["TurnEnded", "Unregistered"]
    assert desk.ended == [desk.script.id]
    assert desk.source.sessions == {}


def test_the_end_waits_for_all_pieces_of_a_file_that_is_far_behind(desk: Desk) -> None:
    desk.register()
    desk.read()
    desk.path.unlink()
    left = [NOW + 9.0, NOW + 2.0, NOW + 1.0]

    def piece(session: str) -> Sequence[g.Observation]:
        return [g.Observation(session, g.Progress(left.pop(0)))]

    desk.source._ends, desk.source.unread = piece, lambda _: bool(left)
    assert desk.read() == [g.Progress(NOW + 9)]
    assert desk.source.every == 0.0
    assert desk.read() == [g.Progress(NOW + 2)]
    assert desk.read() == [g.Progress(NOW + 1), g.Unregistered(NOW + 9)]
    assert (desk.source.every, desk.read()) == (EVERY, [])


def test_who_registers_again_while_the_last_is_read_has_not_ended(desk: Desk) -> None:
    desk.register()
    desk.read()
    desk.path.unlink()
    desk.source.unread = lambda _: True
    assert desk.kinds() == ["TurnEnded"]
    desk.register()
    desk.source.unread = lambda _: False
    assert "Unregistered" not in desk.kinds()
    assert desk.source.every == EVERY


def test_another_session_in_the_same_process_ends_the_one_before(desk: Desk) -> None:
    desk.register()
    desk.read()
    other = desk.home.session()
    desk.register(other)
    told = desk.source.scan()
    assert [(o.session, type(o.signal).__name__) for o in told][:3] == [
        (desk.script.id, "TurnEnded"),
        (desk.script.id, "Unregistered"),
        (other.id, "SourceUp"),
    ]


def test_a_killed_process_is_gone_though_its_registration_stays(
    desk: Desk, child: subprocess.Popen[bytes]
) -> None:
    desk.register(pid=child.pid, status="busy")
    assert "ProcessSeen" in desk.kinds()
    child.kill()
    child.wait()
    assert desk.kinds() == ["TurnEnded", "ProcessGone"]
    assert desk.read() == []
    assert desk.source.sessions == {}


def test_a_pid_that_another_process_has_now_is_gone(desk: Desk) -> None:
    desk.register(procStart="7", status="busy")
    assert desk.kinds() == ["TurnEnded", "ProcessGone"]
    assert desk.source.process(desk.script.id) is None


def test_pids_of_another_namespace_prove_nothing(desk: Desk) -> None:
    desk.register(pid=999_999, pidDomain="linux:x:pid:[1]", procStart="7", status="busy")
    assert desk.kinds() == ["SourceUp", "Registered", "Described", "Status"]
    assert desk.source.process(desk.script.id) is None


def test_a_registration_left_by_an_earlier_container_is_no_proof_of_life(desk: Desk) -> None:
    desk.register(pid=999_999, pidDomain="linux:x:pid:[1]", procStart="7", status="busy")
    desk.read()
    new = desk.home.session()
    desk.register(new, 999_998, pidDomain="linux:x:pid:[2]", procStart="7", startedAt=int(WALL * 1000))
    told = desk.source.scan()
    assert (desk.script.id, "ProcessGone") in [(o.session, type(o.signal).__name__) for o in told]
    assert set(desk.source.sessions) == {new.id}


def test_a_stale_one_is_not_told_at_the_start(desk: Desk) -> None:
    desk.register(pid=999_999, pidDomain="linux:x:pid:[1]", procStart="7", status="busy")
    new = desk.home.session()
    desk.register(new, 999_998, pidDomain="linux:x:pid:[2]", procStart="7", startedAt=int(WALL * 1000))
    assert {o.session for o in desk.source.scan()} == {new.id}


@pytest.mark.parametrize("names", [("7.json", "9.json"), ("9.json", "7.json")])
def test_of_two_unseen_processes_of_one_session_the_newer_speaks(desk: Desk, names: tuple[str, str]) -> None:
    """A container that starts anew may get the number of its pid namespace again, so the domains are equal."""
    fields: dict[str, Any] = {"pidDomain": "linux:x:pid:[1]", "procStart": "7"}
    old, new = ({**fields, "startedAt": int((WALL - ago) * 1000)} for ago in (7200, 60))
    desk.register(pid=999_999, name=names[0], status="busy", **old)
    assert "Status" in desk.kinds()
    desk.register(pid=999_998, name=names[1], status="idle", **new)
    told = desk.read()
    assert [s.word for s in told if isinstance(s, g.Status)] == ["idle"]
    assert not [s for s in told if isinstance(s, g.ProcessGone)]
    assert desk.source.sessions[desk.script.id].pid == 999_998
    desk.register(pid=999_999, name=names[0], status="waiting", **old)
    assert desk.status() is None


def test_a_process_on_another_machine_is_not_gone_for_being_unseen(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home folder may be shared by machines; the first pid namespace has the same number on all."""
    monkeypatch.setattr(process, "pid_namespace", lambda: "pid:[4026531836]")
    far = f"linux:{'f' * 32}:pid:[4026531836]"
    started = int(WALL * 1000)
    desk.register(pid=999_999, name="1.json", pidDomain=far, status="busy")
    near = desk.home.session()
    desk.register(near, name="2.json", pidDomain=f"linux:{'e' * 32}:pid:[4026531836]", startedAt=started)
    assert "ProcessGone" not in desk.kinds()
    assert set(desk.source.sessions) == {desk.script.id, near.id}, (
        "and the newer one there takes none here along"
    )
    desk.register(desk.home.session(), name="3.json", pidDomain=far)  # ours after all: a container's own id
    assert desk.kinds().count("ProcessGone") == 1


@pytest.mark.parametrize(
    ("fields", "attended"),
    [
        ({"entrypoint": "cli"}, True),
        ({"entrypoint": "cli", "kind": "bg"}, False),
        ({"entrypoint": "sdk-py"}, False),
    ],
)
def test_who_sits_there(desk: Desk, fields: dict[str, Any], attended: bool) -> None:
    desk.register(**fields)
    assert [s.attended for s in desk.read() if isinstance(s, g.Described)] == [attended]


def test_the_configuration_overrides_who_sits_there(desk: Desk) -> None:
    desk.source.attended = True
    desk.register(entrypoint="sdk-py")
    assert [s.attended for s in desk.read() if isinstance(s, g.Described)] == [True]


def test_a_status_from_the_future_counts_now(desk: Desk) -> None:
    desk.register(status="idle", statusUpdatedAt=int((WALL + 600) * 1000))
    told = desk.status()
    assert told is not None
    assert told.since == NOW


def test_every_living_session_is_wanted_whatever_the_age_of_its_file(desk: Desk) -> None:
    wanted: list[str] = []
    desk.source.wants = wanted.append
    desk.register()
    desk.read()
    assert wanted == [desk.script.id]


def test_check_says_whose_process_is_alive(desk: Desk) -> None:
    desk.register(name="1.json")
    desk.register(desk.home.session(), name="2.json", procStart="7")
    desk.register(desk.home.session(), name="3.json", pidDomain="linux:x:pid:[1]")
    found = sorted((f.ok, f.detail.partition(": ")[2]) for f in desk.source.probe())
    assert found == [(False, "gone"), (True, "alive"), (True, "its processes are not visible from here")]


def test_the_start_time_is_field_22_of_the_kernels() -> None:
    assert process.alive(os.getpid(), process.start_ticks(os.getpid()))


def test_a_session_that_another_process_holds_by_now_is_not_gone(
    desk: Desk, child: subprocess.Popen[bytes]
) -> None:
    desk.register(procStart="7", status="busy", name="1.json")
    desk.register(pid=child.pid, status="idle", name="2.json")
    assert "ProcessGone" not in desk.kinds()
    desk.register(status="idle", name="3.json")
    desk.read()
    (desk.path.parent / "3.json").unlink()
    assert "Unregistered" not in desk.kinds()
    child.kill()
    child.wait()
    assert "ProcessGone" in desk.kinds()


def test_what_could_be_content_is_not_repeated(desk: Desk) -> None:
    desk.register(status="waiting", waitingFor="a secret question")
    told = desk.status()
    assert told is not None
    assert told.waiting_for == "something else"


def test_the_end_comes_after_all_that_was_written_before_it(desk: Desk) -> None:
    desk.register()
    desk.read()
    desk.path.unlink()

    def late(session: str) -> Sequence[g.Observation]:
        return [g.Observation(session, g.Progress(NOW + 0.5))]

    desk.source._ends = late
    assert desk.read() == [g.Progress(NOW + 0.5), g.Unregistered(NOW + 0.5)]
