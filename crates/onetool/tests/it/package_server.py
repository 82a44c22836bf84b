# /// script
# requires-python = ">=3.10"
# dependencies = ["mcp>=2,<3"]
# ///
"""An MCP server that uses the official Python package, like most."""

import asyncio

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from pydantic import BaseModel

server = MCPServer("package")


class Weather(BaseModel):
    city: str
    degrees: float


class Name(BaseModel):
    name: str


@server.tool()
def echo(text: str) -> str:
    """Give back a text."""
    return text


@server.tool()
def weather(city: str) -> Weather:
    """Structured content."""
    return Weather(city=city, degrees=21.5)


@server.tool()
def names(count: int) -> list[str]:
    """A list, which the package wraps."""
    return [f"n{number}" for number in range(count)]


@server.tool()
def picture() -> Image:
    """An image."""
    return Image(data=b"\x89PNG\r\n\x1a\n", format="png")


@server.tool()
def broken() -> str:
    """Raises."""
    raise ValueError("no such thing")


@server.tool()
async def steps(count: int, ctx: Context) -> str:
    """Progress."""
    for step in range(count):
        await ctx.report_progress(step + 1, count)
    return "done"


@server.tool()
async def slow(file: str) -> str:
    """Waits until it is cancelled, and leaves a note."""
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        with open(file, "w") as note:
            note.write("cancelled")
        raise
    return "never"


@server.resource("note://{name}")
def note(name: str) -> str:
    return f"a note named {name}"


@server.prompt()
def greeting(who: str) -> str:
    return f"Greet {who}"


server.run("stdio")
