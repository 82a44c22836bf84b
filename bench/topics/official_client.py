"""The same runs through the official Python client: checks compatibility, and measures what its users see."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator

from mcp import Client, StdioServerParameters, stdio_client
from measure import Sample
from report import Row
from stdio_client import ServerProblem
from subjects import Project, python_server

WARM_UP = 10
PATIENCE_SECONDS = 60


def rows(settings) -> Iterator[Row]:
    with Project() as project:
        ours = StdioServerParameters(
            command=str(settings.onetool), args=["serve"], cwd=str(project.folder), env=project.environment()
        )
        command = python_server("fastmcp_code_mode")
        other = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
        own = asyncio.run(asyncio.wait_for(drive(ours, "run", "command", settings.repetitions(200)), PATIENCE_SECONDS))
        theirs = asyncio.run(asyncio.wait_for(drive(other, "execute", "code", settings.repetitions(60)), PATIENCE_SECONDS))
    versions = f"protocol {own[0]} and {theirs[0]}"
    yield Row('run("1+1") through the official Python client', "ms", own[1], theirs[1], note=versions)


async def drive(server: StdioServerParameters, tool: str, parameter: str, count: int) -> tuple[str, Sample]:
    """Connects, lists tools and runs `1+1`; returns the protocol version and the times."""
    taken = []
    async with Client(stdio_client(server, errlog=sys.__stderr__)) as client:
        listed = await client.list_tools()
        if tool not in [one.name for one in listed.tools]:
            raise ServerProblem(f"no tool {tool} in {listed}")
        for index in range(WARM_UP + count):
            started = time.perf_counter()
            result = await client.call_tool(tool, {parameter: "1+1"})
            if index >= WARM_UP:
                taken.append((time.perf_counter() - started) * 1e3)
            if result.is_error or result.content[0].text != "2":
                raise ServerProblem(f"1+1 gave {result}")
        return str(client.protocol_version), Sample(tuple(taken))
