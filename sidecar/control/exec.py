"""Ending a turn or a session by a command of the operator's: an argument list, never a shell.

Ids come from agents and are data. They are put into the arguments as they are, in one pass and
after the list was cut into arguments, so nothing in them can become another argument, another
placeholder or shell syntax; one that would be read as an option is refused.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from sidecar.agent import Answer, Can, Order
from sidecar.config_units import Seconds

if TYPE_CHECKING:
    from sidecar.control import Holder

_PLACE: Final = re.compile(r"\{(\w*)\}")
_NAMES: Final = ("session", "turn", "reason", "pid")


class Settings(Struct, frozen=True, kw_only=True):
    """The commands, with `{session}`, `{turn}`, `{reason}` and `{pid}` in their arguments."""

    interrupt: tuple[str, ...] = ()
    """The command that ends the turn and keeps the session. Empty: that cannot be done."""

    reap: tuple[str, ...] = ()
    """The command that tears the session down and keeps its history. Empty: that cannot be done."""

    timeout: Seconds = 10.0
    """How long the command may run before it is killed, with its children, and has failed."""

    accepted: tuple[int, ...] = (0,)
    """Exit codes that mean: done, or under way."""

    superseded: tuple[int, ...] = ()
    """Exit codes that mean: the turn had changed, nothing was done."""

    unsupported: tuple[int, ...] = ()
    """Exit codes that mean: this cannot be done. All others mean that it failed."""

    def __post_init__(self) -> None:
        """Refuse templates that could not be filled in."""
        for name, argv in (("interrupt", self.interrupt), ("reap", self.reap)):
            if argv and (not argv[0] or _PLACE.search(argv[0])):
                raise ValueError(f"{name}: the program has to be named, not filled in")
            for word in argv:
                if "\0" in word:
                    raise ValueError(f"{name}: an argument cannot hold a zero byte")
                for place in _PLACE.findall(word):
                    if place not in _NAMES:
                        allowed = ", ".join(f"{{{known}}}" for known in _NAMES)
                        raise ValueError(f"{name}: {{{place}}} is not known; allowed: {allowed}")


class Refused(Exception):  # noqa: N818 - it says what happened; no caller has erred
    """An argument cannot be filled in."""


class ExecControl:
    """Runs the commands."""

    def __init__(self, settings: Settings, holder: Holder | None = None) -> None:
        """`holder` is only asked by commands with a `{pid}`."""
        self._settings = settings
        self._holder = holder

    def can(self, _: str, /) -> Can:
        """What there is a command for."""
        return Can(interrupt=bool(self._settings.interrupt), reap=bool(self._settings.reap))

    async def interrupt(self, order: Order, /) -> Answer:
        """Run the command for it."""
        return await self._run(self._settings.interrupt, order)

    async def reap(self, order: Order, /) -> Answer:
        """Run the command for it, unless a turn runs and that was not meant."""
        if order.turn is not None and not order.force:
            return Answer("superseded", "a turn runs")
        return await self._run(self._settings.reap, order)

    async def close(self) -> None:
        """Commands end with the call that runs them."""

    async def _run(self, template: tuple[str, ...], order: Order) -> Answer:
        if not template:
            return Answer("unsupported", "there is no command for it")
        try:
            argv = filled(template, self._values(template, order))
            code = await self._exit_code(argv)
        except Refused as refused:
            return Answer("failed", str(refused))
        except TimeoutError:
            return Answer("failed", f"the command took longer than {self._settings.timeout:g} s")
        except OSError as error:
            return Answer("failed", f"cannot run the command: {error.strerror}")
        return self._meaning(code)

    def _meaning(self, code: int) -> Answer:
        detail = f"exit code {code}"
        if code in self._settings.accepted:
            return Answer("accepted", detail)
        if code in self._settings.superseded:
            return Answer("superseded", detail)
        return Answer("unsupported" if code in self._settings.unsupported else "failed", detail)

    def _values(self, template: tuple[str, ...], order: Order) -> dict[str, str]:
        values = {"session": order.session, "turn": order.turn or "", "reason": order.reason}
        if any("{pid}" in word for word in template):
            held = self._holder(order.session) if self._holder is not None else None
            if held is None:
                raise Refused("no process of this session can be seen")
            values["pid"] = str(held.pid)
        return values

    async def _exit_code(self, argv: list[str]) -> int:
        """Run the command in a session of its own; its output is nobody's business here."""
        quiet = asyncio.subprocess.DEVNULL
        child = await asyncio.create_subprocess_exec(
            *argv, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )
        try:
            async with asyncio.timeout(self._settings.timeout):
                return await child.wait()
        finally:
            if child.returncode is None:
                with suppress(ProcessLookupError):  # it ended meanwhile
                    os.killpg(child.pid, signal.SIGKILL)
                await child.wait()


def filled(template: tuple[str, ...], values: dict[str, str]) -> list[str]:
    """The arguments, each placeholder replaced once; what is put in is not looked into."""
    argv = []
    for word in template:
        made = _PLACE.sub(lambda place: values[place[1]], word)
        if "\0" in made or not _encodable(made):
            raise Refused("a value cannot be an argument")
        if made.startswith("-") and not word.startswith("-"):
            raise Refused("a value would be read as an option")
        argv.append(made)
    return argv


def _encodable(word: str) -> bool:
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return False
    return True
