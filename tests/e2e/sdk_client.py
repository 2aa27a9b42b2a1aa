"""Asks one question through the Python SDK; runs in the SDK's own environment: `CLI PROMPT`."""

from __future__ import annotations

import asyncio
import sys

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage


async def main(cli: str, prompt: str) -> None:
    """Print the answer."""
    async with ClaudeSDKClient(ClaudeAgentOptions(cli_path=cli)) as client:
        await client.query(prompt)
        async for message in client.receive_response():
            if isinstance(message, ResultMessage):
                sys.stdout.write(f"{message.result}\n")


asyncio.run(main(*sys.argv[1:]))
