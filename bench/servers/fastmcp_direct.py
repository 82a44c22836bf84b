"""A trivial tool served by FastMCP as it is meant to be: called by the client, one call a request."""

from fastmcp import FastMCP

server = FastMCP("direct")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.run(transport="stdio", show_banner=False)
