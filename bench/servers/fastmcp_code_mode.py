"""The peer: FastMCP with its code mode and a number of trivial tools.

Its limits (calls in one run, memory) are raised, so that it can do the same work. Uses standard input and output, or
HTTP with --port.
"""

import argparse

from fastmcp import FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode, MontySandboxProvider
from fastmcp.tools import Tool

parser = argparse.ArgumentParser()
parser.add_argument("--tools", type=int, default=30)
parser.add_argument("--port", type=int)
options = parser.parse_args()
count = options.tools

sandbox = MontySandboxProvider(limits={"max_feed_duration_secs": 60.0, "max_memory": 1_000_000_000})
server = FastMCP("peer", transforms=[CodeMode(sandbox_provider=sandbox, max_tool_calls=None)])


@server.tool
def version() -> str:
    """Tell the version."""
    return "1.0.0"


def work(text: str, count: int = 1, exact: bool = False) -> str:
    """Do some work on a text and give what came of it."""
    return text * count


for number in range(count - 1):
    server.add_tool(Tool.from_function(work, name=f"work_invoice_{number}"))

if options.port:
    # Without sessions and access log, for the best speed.
    quiet = {"log_level": "warning", "access_log": False}
    server.run(transport="http", port=options.port, stateless_http=True, json_response=True, show_banner=False, uvicorn_config=quiet)
else:
    server.run(transport="stdio", show_banner=False)
