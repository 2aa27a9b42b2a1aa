"""Real processes."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from sidecar.sources import process
from sidecar.sources.process import Process

Spawn = Callable[..., "subprocess.Popen[bytes]"]
NAMESPACE = "pid:[4026531836]"
NO_PID = 1 << 22  # the largest pid Linux allows is one less


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    children: list[subprocess.Popen[bytes]] = []

    def start(*words: str, **options: str) -> "subprocess.Popen[bytes]":
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=options.get("cwd"))
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream:
                stream.close()


def started(child: "subprocess.Popen[bytes]") -> int:
    start = process.start_ticks(child.pid)
    assert start is not None
    return start


def fail(code: int) -> Callable[..., NoReturn]:
    def failing(*_: object, **__: object) -> NoReturn:
        raise OSError(code, os.strerror(code))

    return failing


def test_a_process_lives_until_it_ends(spawn: Spawn) -> None:
    child = spawn("sleep", "100")
    start = started(child)
    assert process.alive(child.pid, start) is True
    assert process.alive(child.pid, None) is True
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process.alive(child.pid, start) is False  # not collected yet
    child.wait()
    assert process.alive(child.pid, start) is False
    assert process.start_ticks(child.pid) is None


def test_another_process_with_the_same_pid_is_another_one(spawn: Spawn) -> None:
    child = spawn("sleep", "100")
    start = started(child)
    assert process.alive(child.pid, start - 1) is False
    assert process.usage(child.pid, start - 1) is None
    assert process.signal_process(child.pid, start - 1, signal.SIGKILL) is False
    assert child.poll() is None


@pytest.mark.parametrize("pid", [0, -1, NO_PID, 1 << 40])
def test_no_such_process(pid: int) -> None:
    assert process.alive(pid, 1) is False
    assert process.start_ticks(pid) is None
    assert process.signal_process(pid, 1, signal.SIGKILL) is False
    if 0 < pid <= NO_PID:
        assert process.usage(pid, 1) is None
        assert process.descendants(pid) == []
        assert process.holds(pid, "/proc/self/stat") is False


@pytest.mark.parametrize("name", ["a) b", "(", ") S 1 2 3", "x y z", "))))"])
def test_commands_with_brackets_and_spaces(spawn: Spawn, tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    shutil.copy("/bin/sleep", program)
    child = spawn(str(program), "100")
    assert process.start_ticks(child.pid) == round(
        (psutil.Process(child.pid).create_time() - psutil.boot_time()) * os.sysconf("SC_CLK_TCK")
    )
    assert process.alive(child.pid, started(child)) is True


@pytest.mark.parametrize("content", [b"", b"1 (x) S", b"1 (x) S 1 2 3 4 5 6 7 8 9 a b c d e f g h i"])
def test_what_cannot_be_understood_is_unknown(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    monkeypatch.setattr("builtins.open", lambda *_: os.fdopen(read, "rb"))
    assert process.alive(1, 1) is None


def test_what_may_not_be_seen_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.open", fail(errno.EACCES))
    assert process.alive(os.getpid(), 1) is None
    assert process.start_ticks(os.getpid()) is None


@pytest.mark.parametrize(("code", "expected"), [(errno.EPERM, None), (errno.ESRCH, False)])
def test_hidden_by_the_mount_option(
    monkeypatch: pytest.MonkeyPatch, code: int, *, expected: bool | None
) -> None:
    monkeypatch.setattr("builtins.open", fail(errno.ENOENT))
    monkeypatch.setattr(os, "kill", fail(code))
    assert process.alive(4711, 1) is expected


def test_hidden_though_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.open", fail(errno.ENOENT))
    assert process.alive(os.getpid(), 1) is None


def test_the_name_of_our_pid_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = process.pid_namespace()
    assert ours is not None
    assert int(ours.removeprefix("pid:[").removesuffix("]")) == Path("/proc/self/ns/pid").stat().st_ino
    monkeypatch.setattr(Path, "readlink", fail(errno.EACCES))
    assert process.pid_namespace() is None


@pytest.mark.parametrize(
    ("ours", "domain", "expected"),
    [
        (NAMESPACE, "linux:0123abcd:pid:[4026531836]", True),
        (NAMESPACE, "linux:0123abcd:pid:[4026532000]", False),
        ("pid:[4026532000]", "linux:0123abcd:pid:[4026532000]", True),
        ("pid:[4026532000]", "linux:0123abcd:pid:[4026531836]", False),
        (NAMESPACE, None, True),
        (NAMESPACE, "", True),
        ("pid:[4026532000]", None, None),
        (NAMESPACE, "darwin:0123abcd", None),
        (None, "linux:0123abcd:pid:[4026531836]", None),
        (None, None, None),
    ],
)
def test_same_namespace(
    monkeypatch: pytest.MonkeyPatch, ours: str | None, domain: str | None, *, expected: bool | None
) -> None:
    monkeypatch.setattr(process, "pid_namespace", lambda: ours)
    assert process.same_namespace(domain) is expected


@pytest.mark.parametrize(
    ("ours", "domain", "expected"),
    [
        ("a" * 32, f"linux:{'a' * 32}:pid:[4026531836]", False),
        ("a" * 32, f"linux:{'b' * 32}:pid:[4026531836]", True),
        (None, f"linux:{'b' * 32}:pid:[4026531836]", True),
        (None, f"linux:{'0' * 32}:pid:[4026531836]", False),
        ("", f"linux:{'0' * 32}:pid:[4026531836]", False),
        ("a" * 32, f"linux:{'b' * 32}:pid:[4026532000]", False),
        ("a" * 32, "linux:x:pid:[4026531836]", False),
        ("a" * 32, None, False),
    ],
)
def test_the_first_namespace_of_another_machine(
    monkeypatch: pytest.MonkeyPatch, ours: str | None, domain: str | None, *, expected: bool
) -> None:
    read = fail(errno.ENOENT) if ours is None else lambda _: f"{ours}\n"
    monkeypatch.setattr(Path, "read_text", read)
    assert process.other_machine(domain) is expected


def test_usage(spawn: Spawn) -> None:
    child = spawn(sys.executable, "-c", "sum(range(3_000_000)); print(flush=True); input()")
    assert child.stdout is not None
    child.stdout.readline()
    used = process.usage(child.pid, started(child))
    assert used is not None
    assert used.rss > 1 << 20
    assert used.cpu > 0


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program of a name that nothing else on the machine has."""
    program = tmp_path / "bin" / f"agent-{os.getpid()}"
    program.parent.mkdir()
    shutil.copy("/bin/sleep", program)
    return program


def test_agents_by_executable(spawn: Spawn, program: Path, tmp_path: Path) -> None:
    child = spawn(str(program), "100", cwd=str(tmp_path))
    (found,) = process.agents({program.name, "other"})
    assert found == process.Running(child.pid, started(child), program.name, str(tmp_path), str(program))


def test_agents_by_a_script_behind_options(spawn: Spawn, tmp_path: Path) -> None:
    name = f"agent-{os.getpid()}"
    script = tmp_path / "node_modules/@vendor" / name / "dist/cli.py"
    script.parent.mkdir(parents=True)
    script.write_text("print(flush=True); input()")
    child = spawn(sys.executable, "-u", "-B", str(script))
    assert child.stdout is not None
    child.stdout.readline()
    assert [found.pid for found in process.agents([name])] == [child.pid]


def test_an_agent_that_ends_while_it_is_looked_at(
    spawn: Spawn, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn(str(program), "100")
    with monkeypatch.context() as racing:
        racing.setattr(process, "alive", lambda *_: False)
        assert process.agents({program.name}) == []
    with monkeypatch.context() as racing:
        racing.setattr(process, "start_ticks", lambda *_: None)
        assert process.agents({program.name}) == []


def test_an_agent_of_another_user(spawn: Spawn, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = spawn(str(program), "100")

    def denied(_: psutil.Process) -> NoReturn:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "exe", denied)
    monkeypatch.setattr(psutil.Process, "cwd", denied)
    (found,) = process.agents({program.name})
    assert (found.pid, found.exe, found.cwd) == (child.pid, None, None)


@pytest.mark.parametrize(
    ("exe", "words", "expected"),
    [
        ("/usr/bin/claude", [], {"claude"}),
        ("/home/a/.local/share/claude/versions/2.1.332", ["claude", "-p"], {"2.1.332", "claude"}),
        (None, ["/opt/bin/codex", "exec"], {"codex"}),
        ("/usr/bin/node", ["node", "/usr/bin/gemini", "-p"], {"node", "gemini"}),
        ("/usr/bin/node", ["node", "--max-old-space-size=8192", "/usr/bin/qwen"], {"node", "qwen"}),
        (
            "/usr/bin/node",
            ["/usr/bin/node", "/opt/claude-code/cli.js"],
            {"node", "cli.js", "cli", "claude-code"},
        ),
        (
            "/usr/bin/node",
            ["node", "/usr/lib/node_modules/@google/gemini-cli/dist/index.js"],
            {"node", "index.js", "index", "dist", "gemini-cli"},
        ),
        ("/usr/bin/node", ["node", "/app/node_modules/a/claude/x.js"], {"node", "x.js", "x", "a"}),
        ("/usr/bin/python3.11", ["python3", "-m", "hermes"], {"python3.11", "python3", "hermes"}),
        ("/usr/bin/dash", ["/bin/sh", "/usr/local/bin/claude"], {"dash", "sh"}),
        ("/usr/bin/vim", ["vim", "/home/claude/claude-code/cli.js"], {"vim"}),
        ("/usr/bin/node", ["node", "/home/claude/app/server.js"], {"node", "server.js", "server"}),
        ("/usr/bin/node", ["node"], {"node"}),
        (None, [], set()),
        (None, [""], set()),
    ],
)
def test_the_names_a_program_goes_by(exe: str | None, words: list[str], expected: set[str]) -> None:
    assert set(process._names(exe, words)) == expected


def test_holds_an_open_file(spawn: Spawn, tmp_path: Path) -> None:
    path, link, other = tmp_path / "lock", tmp_path / "link", tmp_path / "other"
    path.touch()
    other.touch()
    link.symlink_to(path)
    child = spawn(sys.executable, "-c", f"f = open({str(path)!r}); print(flush=True); input()")
    assert child.stdout is not None
    child.stdout.readline()
    assert process.holds(child.pid, str(path)) is True
    assert process.holds(child.pid, str(link)) is True
    assert process.holds(child.pid, str(other)) is False
    assert process.holds(child.pid, str(tmp_path / "absent")) is False


def test_holds_is_unknown_where_it_may_not_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "scandir", fail(errno.EACCES))
    assert process.holds(os.getpid(), "/proc/self/stat") is None


def test_descendants(spawn: Spawn) -> None:
    child = spawn("sh", "-c", "sh -c 'sleep 100 & echo $$ $!; read x; :'; :")
    assert child.stdout is not None
    below = [int(pid) for pid in child.stdout.readline().split()]
    found = process.descendants(child.pid)
    assert sorted(p.pid for p in found) == sorted(below)
    assert all(process.start_ticks(p.pid) == p.start for p in found)
    assert Process(child.pid, started(child)) in process.descendants(os.getpid())
    for pid in below:
        os.kill(pid, signal.SIGKILL)


def test_a_signal_reaches_the_process(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    child = spawn("sleep", "100")
    start = started(child)
    monkeypatch.setattr(os, "kill", None)  # by pid it could reach another one
    assert process.signal_process(child.pid, start, signal.SIGTERM) is True
    assert child.wait(10) == -signal.SIGTERM
    assert process.signal_process(child.pid, start, signal.SIGTERM) is False


def test_a_signal_without_process_descriptors(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    child = spawn("sleep", "100")
    monkeypatch.setattr(os, "pidfd_open", fail(errno.ENOSYS))
    assert process.signal_process(child.pid, started(child) - 1, signal.SIGTERM) is False
    assert process.signal_process(child.pid, started(child), signal.SIGTERM) is True
    assert child.wait(10) == -signal.SIGTERM


def test_a_process_that_ends_before_the_signal_is_sent_costs_nobody_else(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = spawn("sleep", "100")
    start = started(child)

    def ends_now(pid: int, _: int) -> bool:
        os.kill(pid, signal.SIGKILL)
        child.wait()
        return True

    monkeypatch.setattr(process, "alive", ends_now)
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    assert process.signal_process(child.pid, start, signal.SIGTERM) is False
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before
