"""200 sessions on one listing, asked once a second: what it costs, and how soon a change is a signal.

    python tests/bench/bench_listing.py [SESSIONS] [SECONDS]

The server is a process of its own, so the CPU told is the sidecar's side alone: requests, decoding, the fold
and the judge. The latency is from the moment at which a session's word changed in the server to the moment
at which it is folded; half of the polling interval of it is the interval's.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from multiprocessing import Process, Queue
from pathlib import Path
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[2]))

from sidecar.agents.registry import KINDS
from sidecar.clock import LiveClock
from sidecar.config import load
from sidecar.replay import Replay

EVERY = 1.0
PACE = 0.05
"""Seconds between two changes in the server."""


def serve(ready: Queue[int], changes: Queue[tuple[str, str, float]], sessions: int) -> None:
    """A server of conversations, one of which changes its word now and then."""

    async def run() -> None:
        shown = [
            {
                "id": f"c{n}",
                "execution_status": "idle",
                "created_at": "2026-11-30T12:00:00Z",
                "title": "x" * 200,
            }
            for n in range(sessions)
        ]

        async def search(request: web.Request) -> web.Response:
            first = int(request.query.get("page_id", 0))
            more = str(first + 100) if first + 100 < len(shown) else None
            return web.json_response({"items": shown[first : first + 100], "next_page_id": more})

        app = web.Application()
        app.router.add_get("/api/conversations/search", search)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.put(runner.addresses[0][1])
        turn = 0
        while True:
            await asyncio.sleep(PACE)
            entry = shown[turn % sessions]
            entry["execution_status"] = "idle" if entry["execution_status"] == "running" else "running"
            changes.put((entry["id"], entry["execution_status"], time.time()))
            turn += 1

    asyncio.run(run())


async def watch(port: int, changes: Queue[tuple[str, str, float]], seconds: float) -> dict[str, Any]:
    """Poll, fold and judge for that long."""
    entry = {"kind": "http", "preset": "openhands", "url": f"http://127.0.0.1:{port}", "every": f"{EVERY:g}s"}
    config = load(json.dumps({"agents": [entry]}), {"HOME": "/h"}, KINDS)
    assert config.agents
    loop = asyncio.get_running_loop()
    agent = KINDS["http"].build(config.agents[0], LiveClock(loop.time, time.time))
    fleet = Replay("a", config.agents[0].rules).fleet
    (source,) = agent.sources
    began, cpu, polls = time.monotonic(), time.process_time(), []
    seen: dict[tuple[str, str], list[float]] = {}
    while time.monotonic() - began < seconds:
        at = time.monotonic()
        observed = await source.read()
        fleet.observe("a", observed, loop.time())
        fleet.tick(loop.time())
        polls.append(time.monotonic() - at)
        for session, signal in observed:
            word = getattr(signal, "word", None)
            if word is not None and len(polls) > 1:
                seen.setdefault((session, "running" if word == "busy" else "idle"), []).append(time.time())
        await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - at)))
    spent = time.process_time() - cpu
    wall = time.monotonic() - began
    await agent.close()
    late = []
    while not changes.empty():
        session, word, changed = changes.get()
        after = [t for t in seen.get((session, word), []) if t >= changed]
        if after:
            late.append(min(after) - changed)
    ranked = sorted(late)
    return {
        "sessions": len(fleet.live()),
        "polls": len(polls),
        "cpu_percent": round(100 * spent / wall, 2),
        "poll_ms_p50": round(1000 * statistics.median(polls), 1),
        "latency_s": {
            q: round(ranked[min(len(ranked) - 1, int(float(q[1:]) / 100 * len(ranked)))], 3)
            for q in ("p50", "p99")
        },
        "changes": len(late),
    }


def main() -> None:
    sessions, seconds = (int(a) for a in [*sys.argv[1:], *("200", "30")[len(sys.argv) - 1 :]])
    ready: Queue[int] = Queue()
    changes: Queue[tuple[str, str, float]] = Queue()
    server = Process(target=serve, args=(ready, changes, sessions), daemon=True)
    server.start()
    sys.stdout.write(json.dumps(asyncio.run(watch(ready.get(timeout=10), changes, seconds))) + "\n")
    server.kill()


if __name__ == "__main__":
    main()
