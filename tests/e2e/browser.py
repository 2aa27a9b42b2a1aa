"""A real browser: Chromium without a screen, driven over its debugging protocol."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import ClientSession

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiohttp import ClientWebSocketResponse

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--remote-debugging-port=0"),
]


class Tab:
    """One page."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._sent = 0
        self.errors: list[str] = []
        """What the page's own script threw, and what the browser refused it."""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._sent += 1
        await self._socket.send_json({"id": self._sent, "method": method, "params": parameters})
        while True:
            told: dict[str, Any] = await self._socket.receive_json()
            if told.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(told["params"]["exceptionDetails"]))
            elif told.get("method") == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.errors.append(str(told["params"]["entry"]["text"]))
            elif told.get("id") == self._sent:
                return told

    async def look(self, url: str, *, width: int = 1280, scheme: str = "light") -> None:
        """Open a page on a screen that is so wide."""
        screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        await self.call("Emulation.setDeviceMetricsOverride", **screen)
        prefers = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=prefers)
        await self.call("Page.navigate", url=url)

    async def value(self, script: str) -> Any:
        """What an expression comes to, as JSON has it."""
        told = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in told["result"], told
        return told["result"]["result"].get("value")

    async def until(self, script: str, seconds: float = 15) -> None:
        """Wait for an expression to become true."""
        async with asyncio.timeout(seconds):
            while not await self.value(script):  # noqa: ASYNC110 - another program's state
                await asyncio.sleep(0.05)


@asynccontextmanager
async def browsing(profile: Path) -> AsyncIterator[Tab]:
    """Start the browser with an empty profile, and end it."""
    assert CHROMIUM is not None
    quiet = asyncio.subprocess.DEVNULL
    words = (*OPTIONS, f"--user-data-dir={profile}", "about:blank")
    process = await asyncio.create_subprocess_exec(CHROMIUM, *words, stdout=quiet, stderr=quiet)
    try:
        told = profile / "DevToolsActivePort"
        async with asyncio.timeout(30):
            while not (told.exists() and told.read_text().strip()):  # noqa: ASYNC110 - another program's file
                await asyncio.sleep(0.05)
        port = told.read_text().split()[0]
        async with ClientSession() as client:
            async with client.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [tab for tab in await answer.json() if tab["type"] == "page"]
            async with client.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                for domain in ("Runtime", "Log", "Page"):
                    await tab.call(f"{domain}.enable")
                yield tab
    finally:
        process.terminate()
        await process.wait()
