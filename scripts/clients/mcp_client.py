"""The official Python client, 1.x and 2.x: `mcp_client.py stdio|http auto|legacy TARGET`."""

import asyncio
import contextlib
import os
import sys

from checks import PythonClient, Unsupported, all_checks
from mcp import ClientSession, StdioServerParameters, types

try:
    from mcp import Client as McpClient
except ImportError:  # 1.x
    McpClient = None


class Client(PythonClient):
    # Set by the clients that shake hands themselves.
    agreed = None

    def __init__(self, *target):
        super().__init__()
        self.numbers = {}
        self.open = lambda: opened(self, *target)

    async def on_elicit(self, _context, params):
        if getattr(params, "url", None):
            self.asked.append(params.url)
            return types.ElicitResult(action="accept")
        schema = getattr(params, "requested_schema", None) or getattr(params, "requestedSchema", None) or {}
        return types.ElicitResult(action="accept", content=self.answer(params.message, schema.get("properties", {})))

    async def on_sample(self, _context, _params):
        return types.CreateMessageResult(role="assistant", model="test", content=types.TextContent(type="text", text="sampled"))

    async def call(self, command, progress):
        async def report(done, _total, _message):
            progress(done)

        if McpClient is None:
            self.numbers[command] = self.session._request_id
        return await self.session.call_tool("run", {"command": command}, progress_callback=report if progress else None)

    async def tell_cancelled(self, command):
        if McpClient is None:
            # 1.x leaves it to its user.
            params = types.CancelledNotificationParams(requestId=self.numbers[command])
            await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))

    async def set_level(self):
        if McpClient is None or self.session.protocol_version < "2026-07-28":
            await super().set_level()

    def revision(self):
        return self.agreed or self.session.protocol_version

    async def again(self, command):
        async with self.open() as self.session:
            return await self.run(command)

    async def task(self, command):
        experimental = getattr(self.session, "experimental", None)
        if not hasattr(experimental, "call_tool_as_task"):
            raise Unsupported("it has no tasks")
        created = await experimental.call_tool_as_task("run", {"command": command}, ttl=60000)
        async for _ in experimental.poll_task(created.task.taskId):
            pass
        return self.read_result(await experimental.get_task_result(created.task.taskId, types.CallToolResult))


@contextlib.asynccontextmanager
async def opened(client, transport, mode, target):
    callbacks = {
        "elicitation_callback": client.on_elicit, "sampling_callback": client.on_sample, "logging_callback": client.on_log,
    }
    if transport == "stdio":
        binary, folder = target.split(" ", 1)
        target = StdioServerParameters(command=binary, args=["serve"], cwd=folder, env={**os.environ, "HOME": f"{folder}/home"})
    if McpClient is not None:
        level = "debug" if mode != "legacy" else None
        async with McpClient(target, mode=mode, log_level=level, **callbacks) as session:
            yield session
        return
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client

    streams = stdio_client(target) if transport == "stdio" else streamablehttp_client(target)
    async with streams as (read, write, *_), ClientSession(read, write, **callbacks) as session:
        client.agreed = (await session.initialize()).protocolVersion
        yield session


async def main(transport, mode, target):
    client = Client(transport, mode, target)
    async with client.open() as client.session:
        await all_checks(client)


asyncio.run(main(*sys.argv[1:]))
