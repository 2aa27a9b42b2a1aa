"""The agents that can be watched, by kind: a literal table, one entry each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from sidecar.agent import Agent
from sidecar.agents import control_api
from sidecar.agents.claude_code import adapter as claude_code
from sidecar.agents.claude_code import recording as claude_code_recording
from sidecar.agents.claude_code.recording import Recording as ClaudeCodeRecording
from sidecar.agents.http import adapter as http
from sidecar.agents.http import recording as http_recording
from sidecar.agents.http import track as http_track
from sidecar.agents.http.presets import PRESETS as HTTP_PRESETS
from sidecar.agents.http.recording import Recording as HttpRecording
from sidecar.agents.joined.adapter import Joined
from sidecar.agents.joined.join import Join
from sidecar.agents.joined.recording import Recording as JoinedRecording
from sidecar.agents.joined.recording import Timed
from sidecar.agents.opencode import adapter as opencode
from sidecar.agents.opencode.recording import Recording as OpenCodeRecording
from sidecar.clock import Clock
from sidecar.control import exec as exec_control
from sidecar.control import host as host_control
from sidecar.control import signal as signal_control

if TYPE_CHECKING:
    from sidecar.signals import Observation


class Recording(Protocol):
    """What an agent left behind, to be read once."""

    def observations(self) -> list[Observation]:
        """Everything recorded, in file order per file; times are the records' own."""


class Entry(Protocol):
    """A configured agent, as `config` gives it."""

    @property
    def name(self) -> str:
        """The `agent` label."""

    @property
    def settings(self) -> Any:  # noqa: ANN401 - each kind's own
        """The kind's own settings."""

    @property
    def attended(self) -> bool | None:
        """Whether somebody sits there; None: as the adapter sees it."""

    @property
    def control(self) -> Any:  # noqa: ANN401 - a kind and its settings
        """The configured control; None: none."""


class Kind(Struct, frozen=True):
    """An agent kind: its settings, how it is watched, and how its recordings are read."""

    settings: type[Struct]
    control_kinds: Mapping[str, type[Struct]]
    build: Callable[[Any, Clock], Agent]
    """From its entry and the clock, the adapter."""
    recording: Callable[[Sequence[Path]], Recording] | None = None
    """None: it leaves nothing behind that could be replayed."""
    presets: Mapping[str, Mapping[str, Any]] = {}
    found: Callable[[], bool] = bool
    """Whether this machine has such an agent where it keeps its files by default."""


CONTROLS: Final[dict[str, type[Struct]]] = {
    "host": host_control.Settings,
    "signal": signal_control.Settings,
    "exec": exec_control.Settings,
}


def recordings() -> dict[str, Callable[[Sequence[Path]], Recording]]:
    """How to read what each kind or preset leaves behind, for those that leave something."""
    readers = {name: kind.recording for name, kind in KINDS.items() if kind.recording is not None}
    named = dict.fromkeys(KINDS["http"].presets, readers["http"])  # a listing or stream tells whose it is
    return readers | named | {"kbc-box": _kbc_box}


def _claude_code(entry: Entry, clock: Clock) -> Agent:
    agent = claude_code.ClaudeCode(entry.name, entry.settings, clock, attended=entry.attended)
    control = entry.control
    if control is None:
        return agent
    if control.kind == "host":
        agent.hosted(host_control.HostControl(control.settings, clock))
    elif control.kind == "signal":
        agent.control = signal_control.SignalControl(control.settings, agent.process)
    else:
        agent.control = exec_control.ExecControl(control.settings, agent.process)
    return agent


def _control_api(entry: Entry, clock: Clock) -> Agent:
    return control_api.ControlApi(entry.name, entry.settings, clock, attended=entry.attended)


def _opencode(entry: Entry, clock: Clock) -> Agent:
    return opencode.OpenCode(entry.name, entry.settings, clock, attended=entry.attended)


def _http(entry: Entry, clock: Clock) -> Agent:
    agent = http.Http(entry.name, entry.settings, clock, attended=entry.attended)
    folder = entry.settings.claude_config_dir
    if folder is None:
        return agent
    behind = claude_code.ClaudeCode(entry.name, claude_code.Settings(folder), clock, attended=entry.attended)
    return Joined(agent, behind, _join(behind.cwd), clock)


def _join(cwd: Callable[[str], str | None]) -> Join:
    return Join(cwd, http_track.SOURCE, http_track.CLOSE)


class _KbcBox:
    """The parts of a recorded compile box."""

    def listing(self, file: Path) -> tuple[float, Timed]:
        return http_recording.answers(file, "kbc-box")

    def transcripts(self, folder: Path) -> tuple[list[Observation], dict[str, str]]:
        read = ClaudeCodeRecording([folder])
        return read.observations(), read.cwds

    def registrations(self, file: Path, start: float) -> tuple[Timed, dict[str, str]]:
        return claude_code_recording.registered(file, start)


def _kbc_box(paths: Sequence[Path]) -> Recording:
    return JoinedRecording(paths, _KbcBox(), _join)


KINDS: Final[dict[str, Kind]] = {
    "claude-code": Kind(
        claude_code.Settings,
        CONTROLS,
        _claude_code,
        ClaudeCodeRecording,
        {"claude-remote-control": {}},
        found=lambda: Path(claude_code.default_root()).is_dir(),
    ),
    "control-api": Kind(control_api.Settings, {}, _control_api, presets={"sdk-box": {}}),
    "http": Kind(http.Settings, {}, _http, HttpRecording, HTTP_PRESETS),
    "opencode": Kind(opencode.Settings, {}, _opencode, OpenCodeRecording),
    "redcode": Kind(opencode.RedcodeSettings, {}, _opencode, OpenCodeRecording, {"redcode": {}}),
}
