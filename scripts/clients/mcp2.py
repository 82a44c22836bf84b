"""The official Python client, 2.x: `mcp2.py stdio|http auto|legacy TARGET`."""

import asyncio
import os
import sys

from checks import Unsupported, all_checks
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp import types


class Client:
    def __init__(self):
        self.asked, self.messages = [], []

    async def on_elicit(self, _context, params):
        self.asked.append(params.message)
        schema = getattr(params, "requested_schema", None) or getattr(params, "requestedSchema", None) or {}
        properties = schema.get("properties", {})
        content = {name: True if shape.get("type") == "boolean" else "yes" for name, shape in properties.items()}
        return types.ElicitResult(action="accept", content=content)

    async def on_sample(self, _context, _params):
        return types.CreateMessageResult(role="assistant", model="test", content=types.TextContent(type="text", text="sampled"))

    async def on_log(self, params):
        self.messages.append(params)

    async def run(self, command, progress=None):
        async def report(done, _total, _message):
            progress(done)

        result = await self.client.call_tool("run", {"command": command}, progress_callback=report if progress else None)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        return text, bool(result.is_error), [block.type for block in result.content]

    async def logged(self, command):
        self.messages.clear()
        if self.client.protocol_version < "2026-07-28":
            await self.client.set_logging_level("debug")
        await self.run(command)
        for _ in range(50):
            if self.messages:
                break
            await asyncio.sleep(0.1)
        return list(self.messages)

    async def read(self, uri):
        return (await self.client.read_resource(uri)).contents[0].text

    async def prompt(self, name, arguments):
        return (await self.client.get_prompt(name, arguments)).messages[0].content.text


async def main(transport, mode, target):
    client = Client()
    if transport == "stdio":
        binary, folder = target.split(" ", 1)
        target = StdioServerParameters(command=binary, args=["serve"], cwd=folder, env={**os.environ, "HOME": folder})
    async with McpClient(
        target, mode=mode, elicitation_callback=client.on_elicit, sampling_callback=client.on_sample,
        logging_callback=client.on_log, log_level="debug" if mode != "legacy" else None,
    ) as inner:
        client.client = inner
        await all_checks(client)


asyncio.run(main(*sys.argv[1:]))
