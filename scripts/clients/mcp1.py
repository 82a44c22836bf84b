"""The official Python client, 1.x: `mcp1.py stdio|http legacy TARGET`."""

import asyncio
import os
import sys

from checks import Unsupported, all_checks
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


class Client:
    def __init__(self):
        self.asked, self.messages = [], []

    async def on_elicit(self, _context, params):
        self.asked.append(params.message)
        properties = (getattr(params, "requestedSchema", None) or {}).get("properties", {})
        content = {name: True if shape.get("type") == "boolean" else "yes" for name, shape in properties.items()}
        return types.ElicitResult(action="accept", content=content)

    async def on_sample(self, _context, _params):
        return types.CreateMessageResult(role="assistant", model="test", content=types.TextContent(type="text", text="sampled"))

    async def on_log(self, params):
        self.messages.append(params)

    async def run(self, command, progress=None):
        async def report(done, _total, _message):
            progress(done)

        result = await self.session.call_tool("run", {"command": command}, progress_callback=report if progress else None)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        return text, bool(result.isError), [block.type for block in result.content]

    async def logged(self, command):
        await self.session.set_logging_level("debug")
        self.messages.clear()
        await self.run(command)
        for _ in range(50):
            if self.messages:
                break
            await asyncio.sleep(0.1)
        return list(self.messages)

    async def read(self, uri):
        return (await self.session.read_resource(uri)).contents[0].text

    async def prompt(self, name, arguments):
        return (await self.session.get_prompt(name, arguments)).messages[0].content.text


async def main(transport, _mode, target):
    client = Client()
    if transport == "stdio":
        binary, folder = target.split(" ", 1)
        parameters = StdioServerParameters(command=binary, args=["serve"], cwd=folder, env={**os.environ, "HOME": folder})
        streams = stdio_client(parameters)
    else:
        streams = streamablehttp_client(target)
    async with streams as (read, write, *_):
        async with ClientSession(
            read, write, elicitation_callback=client.on_elicit, sampling_callback=client.on_sample, logging_callback=client.on_log
        ) as session:
            await session.initialize()
            client.session = session
            await all_checks(client)


asyncio.run(main(*sys.argv[1:]))
