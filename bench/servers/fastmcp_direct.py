"""A trivial tool served by FastMCP in the usual way: called by the client, one call per request."""

from fastmcp import FastMCP

server = FastMCP("direct")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.run(transport="stdio", show_banner=False)
