"""All outlets together: no content, no exception into the watch, small when only scraped."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from io import StringIO

import pytest

from sidecar import signals as g
from sidecar.changes import Change, SessionClosed, SessionOpened, TurnOpened
from sidecar.session import Session, Turn
from sidecar.telemetry.spans import Spans
from sidecar.telemetry.targets import OtlpSettings
from sidecar.telemetry.telemetry import Settings, Telemetry
from tests.telemetry.collector import over_http
from tests.telemetry.plugged import plugged
from tests.telemetry.world import World, prompt, sees

CANARY = "CANARY do not tell"


def test_nothing_that_could_be_content_gets_out() -> None:
    """Signals carry none by their types; what free text they have is planted here."""
    with over_http() as received:
        world, telemetry = plugged(received.url)
        stream = telemetry.lifecycle._stream
        assert isinstance(stream, StringIO)
        world.see(
            sees(1000),
            g.Described(1000, version=CANARY),
            prompt(1000),
            g.Used(1001, CANARY, input=3),
            g.ToolStarted(1002, "c1", CANARY),
            g.ToolEnded(1003, "c1"),
            g.WaitStarted(1004, CANARY),
            g.WaitEnded(1100),
            g.Retrying(1101, CANARY),
            g.Progress(1130),
            g.Status(1131, "waiting", 1131.0, CANARY),
        )
        world.clock.at = 1200
        telemetry.tick(1200)
        bodies = [telemetry.render(accept)[0].decode() for accept in ("", "application/openmetrics-text")]
        world.see(g.Status(1201, "busy", 1201.0), g.TurnEnded(1202, "completed"), g.Closed(1203, "test"))
        telemetry.shutdown(10)
    sent = "".join(str(request) for request in received.requests)
    assert received.spans
    assert received.pushes
    for out in (*bodies, stream.getvalue(), sent):
        assert "CANARY" not in out
    assert {json.loads(line)["session"] for line in stream.getvalue().splitlines()} == {"s1"}


class Bug(Exception):  # noqa: N818 - it stands for any
    pass


def test_a_bug_in_one_outlet_reaches_neither_the_watch_nor_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def raising(*_: object) -> None:
        raise Bug(CANARY)

    world = World()
    stream = StringIO()
    telemetry = Telemetry(world, stream, Settings())
    monkeypatch.setattr(telemetry._metrics, "_take", {TurnOpened: raising})
    world.told.append(telemetry)
    with caplog.at_level(logging.ERROR):
        world.see(sees(1000), prompt(1000))
        assert '"turn.start"' in stream.getvalue()
        monkeypatch.setattr(telemetry.lifecycle, "tick", raising)
        assert telemetry.tick(1100) is None
    assert [record.message for record in caplog.records] == [
        "Metrics, told of TurnOpened",
        "Lifecycle, at a tick",
    ]


def test_the_reason_is_written_before_anything_else_is_done_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    world = World()
    telemetry = Telemetry(world, StringIO(), Settings())

    def note(name: str) -> Callable[..., None]:
        return lambda *_: order.append(name)

    for listener in telemetry._listeners:
        monkeypatch.setattr(type(listener), "__call__", note(type(listener).__name__))
    telemetry(Session("a", "s", 0.0), SessionOpened(0.0))
    assert order == ["Lifecycle", "Metrics"]


def test_settings_reach_their_outlets() -> None:
    world = World()
    stream = StringIO()
    with over_http() as received:
        settings = Settings(OtlpSettings(received.url), 5.0, per_session=True, progress_lines=True)
        telemetry = Telemetry(world, stream, settings)
        world.told.append(telemetry)
        world.see(sees(1000), prompt(1000), g.Progress(1005))
        assert telemetry.tick(1010) == 1020  # the next liveness span, before the next line
        telemetry.shutdown(10)
        assert [span.name for span in received.spans] == ["agent_sidecar.liveness"]
    assert '"turn.progress"' in stream.getvalue()
    assert (
        b'ai_agent_session_phase{agent="claude-code",phase="model",session="s1"}' in telemetry.render("")[0]
    )


def test_a_listener_of_spans_lets_go_of_what_ended() -> None:
    world = World()
    spans = Spans(world, world.spans.append)
    world.told.append(spans)
    for number in range(50):
        at = 1000.0 + number
        world.see(sees(at), prompt(at), g.TurnEnded(at, "completed"), session=f"a{number}")
        world.see(sees(at), prompt(at), session=f"b{number}")
        world.see(g.Closed(at, "test"), session=f"b{number}")
    assert spans._open == {}
    session = world.see(sees(2000), prompt(2000), session="c")
    world.told.clear()
    world.see(g.TurnEnded(2001, "completed"), session="c")  # an end nobody is told of
    assert len(spans._open) == 1
    spans(session, SessionClosed(2002, "test"))
    assert spans._open == {}


def test_a_change_nobody_knows_is_nobodys_business() -> None:
    class New(Change, frozen=True):
        pass

    world = World()
    telemetry = Telemetry(world, StringIO(), Settings())
    telemetry(Session("a", "s", 0.0, turn=Turn("t", 0.0)), New(1.0))
    telemetry.shutdown(1)


SMALL = """
import io, re, time
began = time.monotonic()
from sidecar.telemetry.targets import OtlpSettings
from sidecar.telemetry.telemetry import Settings, Telemetry
from tests.telemetry.world import World
telemetry = Telemetry(World(), io.StringIO(), Settings())
assert telemetry.render("")[0]
kilobytes = re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read()).group(1)
print(time.monotonic() - began, int(kilobytes) / 1024)
"""


def test_a_sidecar_that_is_only_scraped_is_small_and_quick() -> None:
    done = subprocess.run([sys.executable, "-c", SMALL], check=True, capture_output=True, text=True)
    seconds, megabytes = (float(number) for number in done.stdout.split())
    assert seconds < 1.5
    assert megabytes < 35
