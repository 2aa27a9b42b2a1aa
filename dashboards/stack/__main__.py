"""Runs the monitoring kit until Ctrl-C: `make stack`, or `python -m dashboards.stack`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from dashboards.stack.parts import StackError
from dashboards.stack.stack import Ports, Stack, demo


def told(receiver: str, alert: dict[str, Any]) -> None:
    """Say what Alertmanager sent."""
    where = alert["labels"].get("namespace", "here")
    name, says = alert["labels"]["alertname"], alert["annotations"]["summary"]
    say(f"{alert['status']:<9} {name} in {where}, to {receiver}: {says}")


def say(text: str) -> None:
    """A line to whoever watches."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(words: list[str]) -> int:
    """Start everything, tell where it is and what alerts, and end everything."""
    parser = argparse.ArgumentParser(prog="python -m dashboards.stack", description=__doc__)
    for name, port in Ports()._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=port, metavar="PORT", help="default: %(default)s")
    parser.add_argument("--programs", type=Path, help="where debian.sh unpacked; default: the PATH")
    args = parser.parse_args(words)
    ports = Ports(*(getattr(args, name) for name in Ports._fields))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    programs = None if args.programs is None else args.programs.resolve()
    with tempfile.TemporaryDirectory(prefix="agent-sidecar-stack-") as root:
        try:
            whole = Stack(Path(root), ports, demo(ports), programs)
            whole.told = told
            with whole as stack:
                _serve(stack, ports, stop)
        except StackError as error:
            sys.stderr.write(f"stack: {error}\n")
            return 1
    return 0


def _serve(stack: Stack, ports: Ports, stop: threading.Event) -> None:
    at = "http://127.0.0.1:"
    say(f"Alerts        {at}{ports.prometheus}/alerts")
    say(
        f"Query         {at}{ports.prometheus}/graph?g0.expr=ai_agent_sessions_overdue&g0.tab=0&g0.range_input=5m"
    )
    say(f"Alertmanager  {at}{ports.alertmanager}/")
    say(f"Sidecars      {at}{ports.enforce}/ (enforce)  {at}{ports.observe}/ (observe)")
    say(
        "Minutes are seconds here: bounds, rules and routes. What alerts is told below. End it with Ctrl-C.\n"
    )
    while not stop.wait(0.5):
        stack.check()
    say("\nEnding.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
