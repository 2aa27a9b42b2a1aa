"""What a parent and PID 1 has to do: signals, orphans, exit statuses, the terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.host.driver import FAKE, HOST, PATIENCE, PYTHON, Api, Pipe, alive, running, until

if TYPE_CHECKING:
    from tests.host.conftest import Start

DETACH = "import os,sys,time\nif os.fork(): sys.exit()\nos.setsid()\nif os.fork(): sys.exit()\n"
LEFT_BEHIND = f"{DETACH}open(sys.argv[1], 'w').write(str(os.getpid()))\ntime.sleep(60)"
STUBBORN = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{LEFT_BEHIND}"


def pid_in(path: Path) -> int:
    return int(until(lambda: path.exists() and path.read_text(), f"a pid in {path.name}"))


def leaving(path: Path, script: str) -> list[str]:
    """Spell an agent that starts a process which leaves its family, and then waits for its input to end."""
    return ["sh", "-c", '"$0" -c "$1" "$2"; cat', sys.executable, script, str(path)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on_to_the_agent(start: Start, number: signal.Signals) -> None:
    listening = (
        "import os,select,signal\n"
        f"signal.signal({int(number)}, lambda *_: (os.write(1, b'got it'), os._exit(5)))\n"
        "os.write(1, b'ready, ')\nwhile True: select.select([], [], [], 0.05)"
    )
    host = start(command=[sys.executable, "-c", listening])
    host.out.text(b"ready")
    host.process.send_signal(number)
    assert host.wait() == 5
    assert host.out.rest() == b"ready, got it"


def test_a_termination_in_mid_turn_is_no_success_and_an_idle_one_is_the_agents_own(start: Start) -> None:
    for prompt, status in (("hole", 75), ("text done", 143)):
        host = start()
        host.prompt(prompt)
        host.expect(id="5e55-10n/é", status="busy" if prompt == "hole" else "idle")
        host.process.terminate()
        assert host.wait() == status


def test_an_agent_ended_by_a_signal_of_ours_is_no_success_whatever_it_says(start: Start) -> None:
    host = start(
        "--mode", "plain", command=["sh", "-c", "trap 'exit 0' INT; echo half; while :; do sleep 0.05; done"]
    )
    host.out.text(b"half")
    host.process.send_signal(signal.SIGINT)
    assert host.wait() == 75


def test_a_sigint_that_the_terminal_sent_is_not_passed_on_a_second_time(home: Path) -> None:
    counting = (
        "import os,select,signal\ngot = []\nsignal.signal(signal.SIGINT, lambda *_: got.append(1))\n"
        "os.write(1, b'ready')\nwhile not got: select.select([], [], [], 0.05)\n"
        "for _ in range(6): select.select([], [], [], 0.05)\nos.write(1, b'got %d' % len(got))"
    )
    master, slave = os.openpty()
    line = [PYTHON, str(HOST), "--listen", f"unix:{home}/control.sock", "--", sys.executable, "-c", counting]
    with running(["setsid", "--ctty", *line], stdin=slave, stdout=slave, stderr=slave) as process:
        screen = Pipe(os.dup(master))
        screen.text(b"ready")
        os.write(master, b"\x03")
        assert b"got 1" in screen.text(b"got ")
        assert process.wait(PATIENCE) == 0
    os.close(slave)
    screen.close()
    os.close(master)


def test_zombies_that_are_left_to_the_host_are_buried(start: Start, home: Path) -> None:
    brief = f"{DETACH}open(sys.argv[1], 'w').write(str(os.getpid()))"
    host = start(command=leaving(home / "pid", brief))
    pid = pid_in(home / "pid")
    until(lambda: not Path(f"/proc/{pid}").exists(), "the orphan is buried")
    host.close_stdin()
    assert host.wait() == 0


@pytest.mark.parametrize("script", [LEFT_BEHIND, STUBBORN])
def test_what_the_agent_leaves_behind_is_ended_with_it(start: Start, home: Path, script: str) -> None:
    host = start("--grace", "0.3", command=leaving(home / "pid", script))
    pid = pid_in(home / "pid")
    until(
        lambda: f"\nPPid:\t{host.process.pid}\n" in Path(f"/proc/{pid}/status").read_text(), "it is adopted"
    )
    assert alive(pid)
    host.close_stdin()
    assert host.wait() == 0
    assert not alive(pid)


def test_a_reap_ends_the_agent_first_and_then_what_it_left(start: Start, home: Path) -> None:
    order = f"trap 'kill -0 $(cat {home}/pid) && echo agent first; exit 0' TERM"
    agent = f'{order}; "$0" -c "$1" "$2"; while :; do sleep 0.05; done'
    host = start(
        "--grace", "0.3", command=["sh", "-c", agent, sys.executable, LEFT_BEHIND, str(home / "pid")]
    )
    pid = pid_in(home / "pid")
    host.reap(reason="over")
    assert host.wait() == 0
    assert host.out.rest() == b"agent first\n"
    assert not alive(pid)


def test_processes_that_are_not_the_agents_are_left_alone(start: Start) -> None:
    with running(["sleep", "60"]) as bystander:
        assert start(command=["true"]).wait() == 0
        assert bystander.poll() is None


def test_the_agent_goes_with_a_host_that_is_killed(start: Start) -> None:
    host = start(command=["sleep", "60"])
    pid = host.session()["pid"]
    host.process.kill()
    host.wait()
    until(lambda: not alive(pid), "the agent has gone too")


def test_as_pid_1_it_buries_ends_and_tells_the_status(home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes a pid namespace here")
    agent = leaving(home / "pid", LEFT_BEHIND)
    line = [PYTHON, str(HOST), "--listen", f"unix:{home}/control.sock", "--", *agent[:3], *agent[3:]]
    isolated = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *line]
    with running(isolated, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        until((home / "pid").exists, "the orphan is there")
        assert process.stdin
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    stopping = [*isolated[: -len(agent)], *FAKE]
    with running(stopping, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        host = until(lambda: children_of(process.pid), "the host")[0]
        until(lambda: children_of(host), "the agent")
        until((home / "control.sock").exists, "the host listens")
        os.kill(host, signal.SIGTERM)
        assert process.wait(PATIENCE) in (143, 128 + signal.SIGTERM)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_output_that_the_client_has_not_read_at_the_agents_end_is_not_lost(home: Path) -> None:
    agent = ["sh", "-c", f"echo $$ > {home}/pid; exec head -c 100000 /dev/zero"]
    line = [PYTHON, str(HOST), "--listen", f"unix:{home}/control.sock", "--", *agent]
    with running(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        pid = pid_in(home / "pid")
        until(lambda: not alive(pid), "the agent's end")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        assert process.stdout
        assert len(process.stdout.read()) == 100_000  # more than one pipe holds, less than two
        assert process.wait(PATIENCE) == 0


def test_an_output_that_somebody_else_holds_open_does_not_hold_up_the_end(start: Start, home: Path) -> None:
    fifo = home / "fifo"
    os.mkfifo(fifo)
    with running(["sh", "-c", f"read pid < {fifo}; exec 3>/proc/$pid/fd/1; echo open > {fifo}; sleep 60"]):
        host = start(command=["sh", "-c", f"echo $$ > {fifo}; read _ < {fifo}; echo last words"])
        assert host.wait() == 0
        assert host.out.rest() == b"last words\n"


def test_the_agent_has_the_signals_and_files_it_would_have_had_without_the_host(start: Start) -> None:
    script = "grep -E '^(SigBlk|SigIgn)' /proc/self/status; ls /proc/self/fd | wc -l"
    bare = subprocess.run(["sh", "-c", script], stdin=subprocess.PIPE, capture_output=True, check=True).stdout
    assert start(command=["sh", "-c", script]).out.rest() == bare


def test_a_closed_stdin_stays_an_end_of_input(home: Path) -> None:
    line = f"exec {PYTHON} {HOST} --listen unix:{home}/control.sock -- sh -c 'cat; echo done' <&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n", b"")


def test_a_closed_stream_is_not_mistaken_for_something_else(home: Path) -> None:
    line = f"exec {PYTHON} {HOST} --listen unix:{home}/control.sock -- sh -c 'cat > {home}/heard' >&- 2>&-"
    api = Api(home / "control.sock")
    with running(["sh", "-c", line], stdin=subprocess.PIPE) as process, api.connect() as silent:
        until(lambda: api.interrupt(reason="why").status == 202, "an act with a reason")
        process.communicate(b"hello\n", PATIENCE)
        assert process.returncode == 0
        told = b"".join(iter(lambda: silent.recv(1 << 16), b""))
    # A deaf agent's answer and a silent client's request have the same five seconds.
    assert told == b"" or (told.startswith(b"HTTP/1.1 408 ") and told.endswith(b'too long"}')), told
    heard = (home / "heard").read_bytes()
    assert heard.count(b"\n") == 2
    assert heard.endswith(b"hello\n")
    assert b"why" not in heard


@pytest.mark.parametrize(("command", "status"), [("no-such-agent", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_run_is_told_as_a_shell_does(
    start: Start, command: str, status: int
) -> None:
    host = start(command=[command])
    assert host.wait() == status
    assert f"cannot run {command}: ".encode() in host.error.rest()
    assert not Path(host.socket).exists()


def test_a_stale_socket_is_replaced_and_a_live_one_is_not(start: Start, home: Path) -> None:
    first = start()
    first.session()
    second = start("--listen", f"unix:{first.socket}")
    assert second.wait() == 2
    assert b"somebody listens" in second.error.rest()
    assert first.session()["status"] == "idle"
    first.process.kill()
    first.wait()
    assert Path(first.socket).exists()
    third = start("--listen", f"unix:{first.socket}")
    third.socket = first.socket
    assert third.session()["pid"]
    (home / "file").write_text("keep me")
    refused = start("--listen", f"unix:{home}/file")
    assert refused.wait() == 2
    assert (home / "file").read_text() == "keep me"


def test_many_hosts_share_a_directory_by_their_pids(start: Start, home: Path) -> None:
    hosts = [start("--listen", f"unix:{home}/agent-{{pid}}.sock") for _ in range(2)]
    for host in hosts:
        host.socket = f"{home}/agent-{host.process.pid}.sock"
        assert host.session()["id"] == f"host-{host.process.pid}"
