"""The same office behind FastMCP's code mode."""

import argparse
import keyword

import office
from fastmcp import FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode, MontySandboxProvider
from fastmcp.tools import Tool

parser = argparse.ArgumentParser()
parser.add_argument("--tools", type=int, default=100)
count = parser.parse_args().tools

sandbox = MontySandboxProvider(limits={"max_feed_duration_secs": 60.0, "max_memory": 1_000_000_000})
server = FastMCP("office", transforms=[CodeMode(sandbox_provider=sandbox, max_tool_calls=None)])
TYPES = {"string": "str", "integer": "int"}


def function(tool: dict):
    """Returns a Python function with the tool's parameters."""
    schema = tool["inputSchema"]
    required, optional = [], []
    for name, described in schema["properties"].items():
        name = f"{name}_" if keyword.iskeyword(name) else name
        kind = f"Annotated[{TYPES[described['type']]}, Field(description={described['description']!r})]"
        if name in schema["required"]:
            required.append(f"{name}: {kind}")
        else:
            optional.append(f"{name}: {kind} = None")
    returns = "list[dict]" if tool["name"].startswith(("list_", "search_", "query_")) else "dict"
    code = f"def {tool['name']}({', '.join(required + optional)}) -> {returns}:\n    return answer({tool['name']!r}, dict(locals()))\n"
    names = {"answer": office.answer}
    exec("from typing import Annotated\nfrom pydantic import Field\n" + code, names)
    made = names[tool["name"]]
    made.__doc__ = tool["description"]
    return made


for _, tool in office.tools(count):
    server.add_tool(Tool.from_function(function(tool), name=tool["name"]))

server.run(transport="stdio", show_banner=False)
