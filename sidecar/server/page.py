"""The page at `/`: one file, nothing from elsewhere, and a policy that allows nothing else."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from aiohttp import web


class Page:
    """The page and the content security policy that names its own script and style by hash."""

    def __init__(self) -> None:
        self.html = files("sidecar").joinpath("page", "index.html").read_text("utf-8")
        self.policy = "; ".join(
            (
                "default-src 'none'",
                "connect-src 'self'",
                "img-src data:",
                f"script-src {_hashes('script', self.html)}",
                f"style-src {_hashes('style', self.html)}",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            )
        )

    async def serve(self, _: web.Request) -> web.Response:
        """Answer `/`."""
        headers = {"Content-Security-Policy": self.policy}
        return web.Response(text=self.html, content_type="text/html", headers=headers)


def _hashes(tag: str, html: str) -> str:
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    return " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in found)
