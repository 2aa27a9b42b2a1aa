"""The scripted model behind OpenAI's chat completions, as agents with a provider of their own ask it.

The steps are those of `model`, with two more: `headers` answers with headers and never with a body, `begun`
names a tool and never says all of what it is to be called with. Requests that bring no tools (titles,
summaries) are answered at once and follow no script.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Json = dict[str, Any]
StepFor = Callable[[list[Json]], str]

FOREVER = 1e9
DELTAS = 40


def call(at: int, name: str, arguments: Json) -> Json:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"index": at, "id": f"call_{time.monotonic_ns()}", "type": "function", "function": function}


def calls_for(step: str) -> list[Json]:
    """The tool calls of a step; none where it is a text."""
    verb, _, rest = step.partition(" ")
    if verb in ("bash", "par"):
        commands = [rest] if verb == "bash" else rest.split("||")
        return [call(n, "bash", {"command": c.strip(), "description": "x"}) for n, c in enumerate(commands)]
    if verb == "agent":
        script = rest.strip().removeprefix("{{").removesuffix("}}").replace(",,", ";;")
        task = {"description": "a task", "prompt": f"[[{script}]]", "subagent_type": "general"}
        return [call(0, "task", task)]
    if verb == "ask":
        options = [{"label": word, "description": word} for word in ("one", "two")]
        question = {"question": "Which one?", "header": "Which", "options": options}
        return [call(0, "question", {"questions": [question]})]
    if verb == "tool":
        name, _, arguments = rest.partition(" ")
        return [call(0, name, json.loads(arguments or "{}"))]
    return []


async def chunks_for(step: str) -> AsyncIterator[Json]:
    """What is streamed, and when."""
    verb, _, rest = step.partition(" ")
    if verb == "headers":
        await asyncio.sleep(FOREVER)
    if verb == "begun":
        torn = call(0, rest, {})
        torn["function"]["arguments"] = '{"command": "tou'
        yield {"delta": {"role": "assistant", "tool_calls": [torn]}}
        await asyncio.sleep(FOREVER)
    calls = calls_for(step)
    for each in calls:
        yield {"delta": {"role": "assistant", "tool_calls": [each]}}
    text = rest if verb == "text" else "word " * DELTAS
    for n, word in enumerate([] if calls else re.findall(r"\S+\s*", text)):
        if verb == "stall" and n == int(rest):
            await asyncio.sleep(FOREVER)
        await asyncio.sleep(float(rest) / DELTAS if verb == "slow" else 0)
        yield {"delta": {"role": "assistant", "content": word}}
    yield {"delta": {}, "finish_reason": "tool_calls" if calls else "stop"}


def failure(status: int) -> web.Response:
    return web.json_response({"error": {"message": "as the script says", "type": "x"}}, status=status)


async def perform(request: web.Request, body: Json, step: str) -> web.StreamResponse:
    verb, _, rest = step.partition(" ")
    if verb == "blackhole":
        await asyncio.sleep(FOREVER)
    if verb == "error":
        return failure(int(rest))
    frame = {"id": "chatcmpl-1", "created": int(time.time()), "model": body["model"]}
    if not body.get("stream"):
        message = {"role": "assistant", "content": "ok"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response(frame | {"object": "chat.completion", "choices": [choice]})
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    frame |= {"object": "chat.completion.chunk"}
    async for choice in chunks_for(step):
        piece = frame | {"choices": [{"index": 0, "finish_reason": None} | choice]}
        await response.write(f"data: {json.dumps(piece)}\n\n".encode())
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    await response.write(f"data: {json.dumps(frame | {'choices': [], 'usage': usage})}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


def mount(app: web.Application, stats: dict[str, int], step_for: StepFor) -> None:
    """Serve it beside the other API, counted together."""

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        scripted = bool(body.get("tools"))
        stats["requests"] += scripted
        stats["open"] += scripted
        try:
            return await perform(request, body, step_for(body["messages"]) if scripted else "text a title")
        finally:
            stats["open"] -= scripted

    app.router.add_post("/v1/chat/completions", answer)
