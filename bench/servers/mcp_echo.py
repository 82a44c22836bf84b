"""A trivial MCP server made with the official package: one tool that returns its text."""

from mcp.server import MCPServer

server = MCPServer("echo")


@server.tool()
def echo(text: str) -> str:
    """Give back a text."""
    return text


server.run("stdio")
