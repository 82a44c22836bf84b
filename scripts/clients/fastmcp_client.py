"""FastMCP's client: `fastmcp_client.py stdio|http auto TARGET`."""

import asyncio
import os
import sys

from checks import PythonClient, Unsupported, all_checks
from fastmcp import Client as FastClient
from fastmcp.client.transports import StdioTransport


class Client(PythonClient):
    report = None

    async def on_elicit(self, message, response_type, _params, _context):
        self.asked.append(message)
        fields = getattr(response_type, "__annotations__", {})
        return response_type(**{name: True if kind in (bool, "bool") else "yes" for name, kind in fields.items()})

    async def on_sample(self, _messages, _params, _context):
        return "sampled"

    async def on_progress(self, done, _total, _message):
        if self.report:
            self.report(done)

    async def call(self, command, progress):
        self.report = progress
        return await self.session.call_tool_mcp("run", {"command": command})

    async def set_level(self):
        try:
            await super().set_level()
        except Exception as error:
            raise Unsupported(f"it sets no level in this revision ({type(error).__name__})") from None


async def main(transport, mode, target):
    client = Client()
    if transport == "stdio":
        binary, folder = target.split(" ", 1)
        target = StdioTransport(command=binary, args=["serve"], cwd=folder, env={**os.environ, "HOME": f"{folder}/home"})
    async with FastClient(
        target, mode=mode, elicitation_handler=client.on_elicit, sampling_handler=client.on_sample,
        log_handler=client.on_log, progress_handler=client.on_progress,
    ) as client.session:
        await all_checks(client)


asyncio.run(main(*sys.argv[1:]))
