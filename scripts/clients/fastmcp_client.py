"""FastMCP's client: `fastmcp_client.py stdio|http auto|legacy TARGET`."""

import asyncio
import os
import sys

from checks import PythonClient, all_checks
from fastmcp import Client as FastClient
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport

LOG_LEVEL = "io.modelcontextprotocol/logLevel"


class Client(PythonClient):
    report, meta = None, None

    def __init__(self, transport, mode, target):
        super().__init__()
        self.transport, self.mode, self.target = transport, mode, target

    def open(self):
        target = self.target
        if self.transport == "stdio":
            binary, folder = target.split(" ", 1)
            target = StdioTransport(command=binary, args=["serve"], cwd=folder, env={**os.environ, "HOME": f"{folder}/home"})
        return FastClient(
            target, mode=self.mode, elicitation_handler=self.on_elicit, sampling_handler=self.on_sample,
            log_handler=self.on_log, progress_handler=self.on_progress,
        )

    def revision(self):
        return self.session.session.protocol_version

    async def again(self, command):
        async with self.open() as self.session:
            return await self.run(command)

    async def on_elicit(self, message, response_type, params, _context):
        if getattr(params, "url", None):
            self.asked.append(params.url)
            return ElicitResult(action="accept")
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
        return await self.session.call_tool_mcp("run", {"command": command}, meta=self.meta)

    async def set_level(self):
        if self.revision() < "2026-07-28":
            await super().set_level()
        else:
            self.meta = {LOG_LEVEL: "debug"}


async def main(*target):
    client = Client(*target)
    async with client.open() as client.session:
        await all_checks(client)


asyncio.run(main(*sys.argv[1:]))
