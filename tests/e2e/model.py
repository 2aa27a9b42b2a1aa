"""A stand-in for the Anthropic Messages API whose behaviour is written into the prompt.

Real agents are only worth testing against a model that hangs, crawls and fails on demand. The newest
`[[...]]` in a request's user messages is a script, its steps parted by `;;`; each assistant message after
it has used up one step. A step ends the model's message:

    text WORDS          answers                      slow SECONDS    one text block, evenly over that time
    blackhole           accepts and never answers    stall DELTAS    that many deltas, then silence
    pings               keep-alives and no more      error STATUS    an API error
    limit [SECONDS]     usage limit, reset then      ask             asks the user a question
    bash COMMAND        runs a command               par A || B      several at once
    agent {{SCRIPT}}    a subagent with that script (steps parted by `,,`)
    tool NAME JSON      any tool

Nothing of a request is kept but counts: `GET /_stats` tells how many there were and how many are open, so
that tests wait for facts instead of time.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import itertools
import json
import re
import socket
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Json = dict[str, Any]
Event = tuple[float, Json]  # seconds to wait before it, and what to send

STATS = web.AppKey("stats", dict[str, int])
SCRIPT = re.compile(r"\[\[(.+?)\]\]", re.DOTALL)
FOREVER = 1e9
DELTAS = 40
IDS = itertools.count(1)


def step_for(messages: list[Json]) -> str:
    """Find the step that this request has reached; a prompt without a script is answered with `ok`."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at]["role"] != "user":
            continue
        scripts = [script for text in texts(messages[at]) for script in SCRIPT.findall(text)]
        if scripts:
            done = sum(1 for message in messages[at + 1 :] if message["role"] == "assistant")
            steps = scripts[-1].split(";;")
            return str(steps[done]).strip() if done < len(steps) else "text ok"
    return "text ok"


def texts(message: Json) -> list[str]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [block["text"] for block in blocks if block["type"] == "text"]


def tool(name: str, arguments: Json) -> Json:
    return {"type": "tool_use", "id": f"toolu_{next(IDS):06d}", "name": name, "input": arguments}


def bash(command: str) -> Json:
    return tool("Bash", {"command": command.strip(), "description": "a command"})


def blocks_for(step: str) -> list[Json]:
    """Turn a step that answers into the content blocks of its message."""
    verb, _, rest = step.partition(" ")
    if verb == "bash":
        return [bash(rest)]
    if verb == "par":
        return [bash(command) for command in rest.split("||")]
    if verb == "agent":
        script = rest.strip().removeprefix("{{").removesuffix("}}").replace(",,", ";;")
        arguments = {"description": "a task", "prompt": f"[[{script}]]", "subagent_type": "general-purpose"}
        return [tool("Agent", arguments)]
    if verb == "tool":
        name, _, arguments_json = rest.partition(" ")
        return [tool(name, json.loads(arguments_json or "{}"))]
    if verb == "ask":
        options = [{"label": word, "description": word} for word in ("one", "two")]
        question = {"question": "Which one?", "header": "Which", "multiSelect": False, "options": options}
        return [tool("AskUserQuestion", {"questions": [question]})]
    return [{"type": "text", "text": rest if verb == "text" else "word " * DELTAS}]


def message_for(request: Json, step: str) -> Json:
    blocks = blocks_for(step)
    return {
        "id": f"msg_{next(IDS):06d}",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": blocks,
        "stop_reason": "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 5,
        },
    }


def events_for(message: Json, step: str) -> list[Event]:
    """Stream a message: what a step does with time is decided here."""
    verb, _, rest = step.partition(" ")
    start = message | {"content": [], "stop_reason": None, "usage": message["usage"] | {"output_tokens": 1}}
    events: list[Event] = [(0, {"type": "message_start", "message": start}), (0, {"type": "ping"})]
    if verb == "pings":
        return events + [(0.5, {"type": "ping"})] * 10_000
    pace = float(rest) / DELTAS if verb == "slow" else 0
    for index, block in enumerate(message["content"]):
        events += block_events(index, block, pace)
    if verb == "stall":
        deltas = [at for at, event in enumerate(events) if event[1]["type"] == "content_block_delta"]
        return [*events[: deltas[int(rest) - 1] + 1], (FOREVER, {"type": "ping"})]
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append((0, {"type": "message_delta", "delta": ending, "usage": message["usage"]}))
    events.append((0, {"type": "message_stop"}))
    return events


def block_events(index: int, block: Json, pace: float) -> list[Event]:
    if block["type"] == "text":
        empty: Json = {"type": "text", "text": ""}
        words = re.findall(r"\S+\s*", block["text"])
        deltas: list[Json] = [{"type": "text_delta", "text": word} for word in words]
    else:
        empty = block | {"input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    return [
        (0, {"type": "content_block_start", "index": index, "content_block": empty}),
        *((pace, {"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas),
        (0, {"type": "content_block_stop", "index": index}),
    ]


def failure(kind: str, text: str, status: int, headers: dict[str, str] | None = None) -> web.Response:
    body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": f"req_{next(IDS):06d}"}
    return web.json_response(body, status=status, headers=headers)


def usage_limit(seconds: int) -> web.Response:
    """Refuse as a subscription's limit does: the time it ends travels in headers."""
    reset = str(int(time.time()) + seconds)
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": reset,
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-ratelimit-unified-5h-status": "rejected",
        "anthropic-ratelimit-unified-5h-reset": reset,
        "retry-after": str(seconds),
        "x-should-retry": "false",
    }
    return failure("rate_limit_error", "This request would exceed your account's rate limit.", 429, headers)


async def answer(request: web.Request) -> web.StreamResponse:
    stats = request.app[STATS]
    stats["requests"] += 1
    stats["open"] += 1
    try:
        body = await request.json()
        return await perform(request, body, step_for(body["messages"]))
    finally:
        stats["open"] -= 1


async def perform(request: web.Request, body: Json, step: str) -> web.StreamResponse:
    verb, _, rest = step.partition(" ")
    if verb == "blackhole":
        await asyncio.sleep(FOREVER)
    if verb == "error":
        kind = {"529": "overloaded_error", "400": "invalid_request_error", "401": "authentication_error"}
        return failure(kind.get(rest, "api_error"), "as the script says", int(rest))
    if verb == "limit":
        return usage_limit(int(rest or 3600))
    message = message_for(body, step)
    if not body.get("stream"):
        return web.json_response(message)
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    async for event in paced(events_for(message, step)):
        await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    return response


async def paced(events: list[Event]) -> AsyncIterator[Json]:
    for wait, event in events:
        await asyncio.sleep(wait)
        yield event


async def stats_of(request: web.Request) -> web.Response:
    return web.json_response(request.app[STATS])


async def count_tokens(_request: web.Request) -> web.Response:
    return web.json_response({"input_tokens": 10})


async def anything(_request: web.Request) -> web.Response:
    return web.json_response({})


def application() -> web.Application:
    sys.path.insert(0, str(Path(__file__).parents[2]))  # this file is run as a script
    from tests.e2e import openai_model  # noqa: PLC0415

    app = web.Application(client_max_size=256 * 1024 * 1024)
    app[STATS] = {"requests": 0, "open": 0}
    app.router.add_post("/v1/messages", answer)
    app.router.add_post("/v1/messages/count_tokens", count_tokens)
    openai_model.mount(app, app[STATS], step_for)
    app.router.add_get("/_stats", stats_of)
    app.router.add_route("*", "/{rest:.*}", anything)
    return app


def raise_loopback() -> None:
    """Bring `lo` up: a new network namespace starts with it down, and not every image has `ip`."""
    flags_up_running = 0x1 | 0x40
    set_flags = 0x8914
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, set_flags, struct.pack("16sh14x", b"lo", flags_up_running))


async def serve(options: argparse.Namespace) -> None:
    # Without cancellation a request whose client has gone would count as open for ever.
    runner = web.AppRunner(application(), handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", options.port).start()
    if options.socket:
        await web.UnixSite(runner, options.socket).start()
    await asyncio.sleep(FOREVER)


def main() -> None:
    parser = argparse.ArgumentParser(description="a scripted Messages API")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--socket", help="serve on this unix socket too, for peers outside the namespace")
    parser.add_argument("--raise-loopback", action="store_true")
    options = parser.parse_args()
    if options.raise_loopback:
        raise_loopback()
    asyncio.run(serve(options))


if __name__ == "__main__":
    main()
