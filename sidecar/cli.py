"""The command line. Exit codes: 0 done, 1 it failed, 2 usage or bad configuration.

Longer than most modules: every command and its options stand in one place, as `--help` has them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidecar.agents.registry import KINDS, recordings
from sidecar.client import Client, Unanswered
from sidecar.config import Config, ConfigError, load
from sidecar.config.version import package_version
from sidecar.printed import explained, findings, printable, replayed, seeing, table
from sidecar.until import until

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_FILE = Path("/etc/agent-sidecar/config.yaml")
"""Read when it exists and no other is named."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["host"]:
        from sidecar import host  # noqa: PLC0415 - it parses its own arguments, and needs nothing of ours

        return host.main(words[1:])
    args = _parser().parse_args(words)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    try:
        return int(args.run(args))
    except ConfigError as error:
        for problem in error.problems:
            _say(f"agent-sidecar: {problem}")
        return 2
    except Unanswered as error:
        _say(f"agent-sidecar: {error}")
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: not our failure
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agent-sidecar",
        description="Watches AI agents beside it, bounds their turns by silence, and shows what they do.",
    )
    parser.add_argument("--version", action="version", version=f"agent-sidecar {package_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, says: str) -> argparse.ArgumentParser:  # noqa: ANN401 - a command's function
        made = commands.add_parser(name, help=says, description=says)
        made.set_defaults(run=run)
        return made

    def configured(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
        made.add_argument("--config", type=Path, metavar="FILE", help=f"default: {DEFAULT_FILE}")
        return made

    def asking(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
        configured(made).add_argument("--url", help="the sidecar's address; default: `listen`")
        return made

    run = configured(command("run", _run, "Watch the agents: those configured, or those of this machine."))
    run.add_argument("--demo", action="store_true", help="watch an agent of our own that works and hangs")
    check = configured(
        command("check", _check, "Check the configuration, and what can be read and controlled.")
    )
    check.add_argument("--url", help="instead, check a box: does it keep to the Agent Control API?")
    check.add_argument("--token-file", help="the box's bearer token")
    check.add_argument("--session", metavar="SESSION", help="a session of the box that may be ended for it")
    sessions = asking(command("sessions", _sessions, "List the sessions of the running sidecar."))
    sessions.add_argument("--json", action="store_true", help="one session object a line")
    sessions.add_argument("--watch", action="store_true", help="again every second")
    explain = asking(command("explain", _explain, "Say what a session's judgement rests on."))
    for action in ("interrupt", "reap"):
        says = {"interrupt": "End a session's turn, keep the session.", "reap": "Tear a session down."}
        made = asking(command(action, _act, says[action]))
        made.set_defaults(action=action)
        made.add_argument("session", metavar="SESSION")
        made.add_argument("--agent", help="where two agents use the same id")
        made.add_argument("--reason", default="", help="told to whoever waits for the turn")
        made.add_argument("--token-file", help="default: `token_file` of the configuration")
        if action == "reap":
            made.add_argument("--force", action="store_true", help="although a turn is open")
    explain.add_argument("session", metavar="SESSION")
    explain.add_argument("--agent", help="where two agents use the same id")
    explain.add_argument("--json", action="store_true", help="everything, as JSON")
    replay = configured(command("replay", _replay, "Run recorded transcripts through the same judge."))
    recorded = sorted(recordings())
    replay.add_argument("--agent", default="claude-code", choices=recorded, help="default: %(default)s")
    replay.add_argument("--until", metavar="TIME|+DURATION", help="run on to then; default: the last record")
    replay.add_argument("--json", action="store_true", help="session objects, one a line, then the summary")
    replay.add_argument("--html", metavar="FILE", type=Path, help="draw it too, as one HTML file")
    replay.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="transcripts, or folders of them")
    command("host", _run, "Own an agent's input so that its turns can be ended: see `host --help`.")
    demo = command("demo", _demo, "An agent works, hangs, is ended with the reason, and answers again.")
    demo.add_argument("--listen", default="127.0.0.1:9475", help="default: %(default)s")
    return parser


def _config(args: argparse.Namespace) -> tuple[Config, Path | None]:
    path = args.config
    if path is None and DEFAULT_FILE.exists():
        path = DEFAULT_FILE
    return load(path, os.environ, KINDS), path


def _run(args: argparse.Namespace) -> int:
    from sidecar.config.reload import Reload  # noqa: PLC0415 - the service is heavy, and most commands need none

    config, path = _config(args)
    if args.demo:
        from sidecar.demo.show import show  # noqa: PLC0415

        return show(config.settings.listen, stay=True)
    return asyncio.run(_serve(config, None if path is None else Reload(path, os.environ, KINDS)))


async def _serve(config: Config, reload: Any) -> int:  # noqa: ANN401 - a Reload or None
    from sidecar.server import ListenError  # noqa: PLC0415
    from sidecar.service import Service, lines  # noqa: PLC0415
    from sidecar.telemetry.targets import OtlpError  # noqa: PLC0415

    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    try:
        service = Service(config, lines(config), reload=reload)
    except OtlpError as error:
        _say(f"agent-sidecar: {error}")
        return 2

    def started() -> None:
        gc.freeze()  # what is loaded stays: looking for cycles in all of it held the loop for 50 ms
        url = f"http://{service.server.address}/"
        logging.getLogger("sidecar").info("%s mode; see %s and %smetrics", config.settings.mode, url, url)

    try:
        await service.run(stop, started)
    except ListenError as error:
        _say(f"agent-sidecar: {error}")
        return 1
    return 0


def _check(args: argparse.Namespace) -> int:
    if args.url is not None:
        return _conform(args)
    from sidecar.clock import LiveClock  # noqa: PLC0415
    from sidecar.server.guard import TokenUnreadableError, read_token  # noqa: PLC0415
    from sidecar.service import chosen, unwritable  # noqa: PLC0415

    config, path = _config(args)

    async def probed() -> dict[str, Any]:
        clock = LiveClock(time.monotonic, time.time)
        found = {}
        for entry in chosen(config):
            agent = KINDS[entry.kind].build(entry, clock)
            found[entry.name] = [seeing(agent.sees), *await agent.probe()]
            await agent.close()
        return found

    where = "no file: the agents of this machine" if path is None else str(path)
    sys.stdout.write(f"configuration: {where}: good, mode {config.settings.mode}\n")
    why = unwritable(Path(config.settings.state_dir))
    if why is not None:
        sys.stdout.write(f"state_dir: {config.settings.state_dir}: {why}; nothing would be ended\n")
    if config.settings.token_file is not None:
        try:
            read_token(Path(config.settings.token_file))
        except TokenUnreadableError as error:
            sys.stdout.write(
                f"token_file: {config.settings.token_file}: {error}; nobody could end anything\n"
            )
    sys.stdout.write(findings(asyncio.run(probed())))
    return 0


def _conform(args: argparse.Namespace) -> int:
    from sidecar.config_units import url  # noqa: PLC0415
    from sidecar.control.api import Settings  # noqa: PLC0415
    from sidecar.control.conformance import conform  # noqa: PLC0415

    try:
        settings = Settings(url=url(args.url), token_file=args.token_file)
    except ValueError as error:
        _say(f"agent-sidecar: --url {args.url!r} {error}")
        return 2
    found = asyncio.run(conform(settings, args.session))
    sys.stdout.write(findings({args.url: found}))
    return 0 if all(f.ok for f in found) else 1


def _client(args: argparse.Namespace) -> Client:
    config, _ = _config(args)
    token = getattr(args, "token_file", None) or config.settings.token_file
    return Client(args.url or config.settings.listen, token)


def _sessions(args: argparse.Namespace) -> int:
    client = _client(args)
    while True:
        found = client.sessions()
        if args.json:
            sys.stdout.write("".join(json.dumps(session) + "\n" for session in found))
        else:
            sys.stdout.write(("\033[H\033[2J" if args.watch else "") + table(found))
        sys.stdout.flush()
        if not args.watch:
            return 0
        try:
            time.sleep(1.0)
        except KeyboardInterrupt:
            return 0


def _explain(args: argparse.Namespace) -> int:
    client = _client(args)
    found = client.explain(client.full(args.session), args.agent)
    sys.stdout.write(json.dumps(found, indent=1) + "\n" if args.json else explained(found))
    return 0


def _act(args: argparse.Namespace) -> int:
    body: dict[str, Any] = {"reason": args.reason}
    if args.action == "reap":
        body["force"] = args.force
    client = _client(args)
    session = client.full(args.session)
    done = client.act(args.action, session, args.agent, body)
    detail = f" ({done['detail']})" if done.get("detail") else ""
    sys.stdout.write(printable(f"{args.action} {session}: {done['outcome']}{detail}") + "\n")
    return 0 if done["outcome"] == "effective" else 1


def _replay(args: argparse.Namespace) -> int:
    from sidecar.chart import Chart  # noqa: PLC0415
    from sidecar.replay import Replay  # noqa: PLC0415

    if missing := [path for path in args.paths if not path.exists()]:
        _say(f"agent-sidecar: {missing[0]}: no such file or folder")
        return 2
    try:
        end = until(args.until)
    except ValueError as error:
        _say(f"agent-sidecar: --until {error}")
        return 2
    config, _ = _config(args)
    named = [*(config.agents or ()), *config.found.values()]
    mine = (entry.rules for entry in named if args.agent in (entry.preset, entry.kind))
    rules = next(mine, config.presets.get(args.agent, config.rules))
    replay, chart = Replay(args.agent, rules), Chart()
    if args.html is not None:
        replay.fleet.listeners.append(chart)
    replay.run(recordings()[args.agent](args.paths).observations(), end)
    shown, summary = replay.shown(), replay.tally.summary(replay.sessions())
    if not shown:
        _say(f"agent-sidecar: no session of {args.agent} in {' '.join(map(str, args.paths))}")
    if args.html is not None:
        page = chart.page(args.agent, replay.sessions(), rules, replay.clock.at)
        try:
            args.html.write_text(page)
        except OSError as error:
            _say(f"agent-sidecar: --html {args.html}: {error.strerror}")
            return 1
    if args.json:
        sys.stdout.write("".join(json.dumps(line) + "\n" for line in [*shown, summary]))
    else:
        sys.stdout.write(replayed(shown, summary["summary"]))
    return 0


def _demo(args: argparse.Namespace) -> int:
    from sidecar.demo.show import show  # noqa: PLC0415

    return show(args.listen, stay=False)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
