"""Both listeners, up and down."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from sidecar.config_units import split_address
from sidecar.server.app import Api, Options
from sidecar.server.listen import ListenError, bound_to
from sidecar.server.scrape import Limits, Scrape

if TYPE_CHECKING:
    from sidecar.server.ports import Sessions, Vitals

__all__ = ["Options", "Server"]


class Server:
    """The API on the event loop, and beside it, where configured, the scrape listener."""

    def __init__(
        self,
        sessions: Sessions,
        vitals: Vitals,
        options: Options,
        scrape_listen: str | None = None,
    ) -> None:
        self._options = options
        self._vitals = vitals
        self._scrape_listen = scrape_listen
        self._scrape: Scrape | None = None
        # Streams end by themselves when told, and acts go on by themselves: a stop waits for neither.
        # A handler whose client left is cancelled: its stream has a place that another one needs.
        self._runner = web.AppRunner(
            Api(sessions, vitals, options).app(),
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            shutdown_timeout=0.5,
        )
        self.address = options.listen
        self.scrape_address: str | None = None

    async def start(self, limits: Limits | None = None) -> None:
        """Listen on both addresses, or on neither; raises ListenError."""
        try:
            await self._listen()
            if self._scrape_listen is not None:
                loop = asyncio.get_running_loop()
                self._scrape = Scrape(self._scrape_listen, self._vitals, loop, limits)
                self.scrape_address = self._scrape.address
                self._scrape.start()
        except ListenError:
            await self.stop()
            raise

    async def _listen(self) -> None:
        host, port = split_address(self._options.listen)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, reuse_address=True)
        try:
            await site.start()
        except OSError as error:
            raise ListenError("listen", self._options.listen, error) from error
        server = getattr(site, "_server", None)
        self.address = bound_to(server.sockets[0]) if server else self.address

    async def stop(self) -> None:
        """Close both; what was asked and is under way goes on."""
        await self._runner.cleanup()
        if self._scrape is not None:
            await asyncio.to_thread(self._scrape.stop)
            self._scrape = None
