"""FastMCP's client: `fastmcp_client.py stdio|http auto TARGET`."""

import asyncio
import os
import sys

from checks import Unsupported, all_checks
from fastmcp import Client as FastClient
from fastmcp.client.transports import StdioTransport


class Client:
    def __init__(self):
        self.asked, self.messages, self.report = [], [], None

    async def on_elicit(self, message, response_type, _params, _context):
        self.asked.append(message)
        fields = getattr(response_type, "__annotations__", {})
        return response_type(**{name: True if kind in (bool, "bool") else "yes" for name, kind in fields.items()})

    async def on_sample(self, _messages, _params, _context):
        return "sampled"

    async def on_log(self, message):
        self.messages.append(message)

    async def on_progress(self, done, _total, _message):
        if self.report:
            self.report(done)

    async def run(self, command, progress=None):
        self.report = progress
        result = await self.client.call_tool_mcp("run", {"command": command})
        text = "\n".join(block.text for block in result.content if block.type == "text")
        failed = getattr(result, "isError", None) or getattr(result, "is_error", None)
        return text, bool(failed), [block.type for block in result.content]

    async def logged(self, command):
        try:
            await self.client.set_logging_level("debug")
        except Exception as error:
            raise Unsupported(f"it sets no level in this revision ({type(error).__name__})") from None
        self.messages.clear()
        await self.run(command)
        for _ in range(50):
            if self.messages:
                break
            await asyncio.sleep(0.1)
        return list(self.messages)

    async def read(self, uri):
        return (await self.client.read_resource(uri))[0].text

    async def prompt(self, name, arguments):
        return (await self.client.get_prompt(name, arguments)).messages[0].content.text


async def main(transport, mode, target):
    client = Client()
    if transport == "stdio":
        binary, folder = target.split(" ", 1)
        target = StdioTransport(command=binary, args=["serve"], cwd=folder, env={**os.environ, "HOME": folder})
    async with FastClient(
        target, mode=mode, elicitation_handler=client.on_elicit, sampling_handler=client.on_sample,
        log_handler=client.on_log, progress_handler=client.on_progress,
    ) as inner:
        client.client = inner
        await all_checks(client)


asyncio.run(main(*sys.argv[1:]))
