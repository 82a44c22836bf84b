"""A small MCP server over standard input and output: two tools, with schemas to be read."""

import json
import sys

TOOLS = [
    {
        "name": "search",
        "description": "Find code in repositories.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "repo": {"type": "string", "description": "owner/name; all when left out"},
                "query": {"type": "string", "description": "what to look for"},
                "page": {"type": "integer", "default": 1, "description": "which page, from 1"},
            },
            "required": ["query"],
        },
    },
    {
        "name": "version",
        "description": "Newest version of a package.",
        "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
]


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "github", "version": "1.0.0"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        text = json.dumps({"tool": params["name"], "arguments": params.get("arguments", {})})
        return {"content": [{"type": "text", "text": text}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
