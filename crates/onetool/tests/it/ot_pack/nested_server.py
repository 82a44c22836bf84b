"""An MCP server with nested arguments and JSON as text, without any package."""

import json
import sys

COMMENT = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "line": {"type": "integer"},
        "side": {"enum": ["LEFT", "RIGHT"]},
    },
    "required": ["path", "line"],
}
TOOLS = [
    {
        "name": "comment",
        "description": "Comment on lines.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "comments": {"type": "array", "items": COMMENT},
                "draft": {"type": "boolean", "default": False},
            },
            "required": ["comments"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {"ids": {"type": "array", "items": {"type": "integer"}}},
            "required": ["ids"],
        },
    },
    {
        "name": "repeat",
        "description": "Repeat a text.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "count": {"type": "integer", "default": 1}},
            "required": ["text"],
        },
    },
    {"name": "text", "description": "Answer in JSON.", "inputSchema": {"type": "object", "properties": {}}},
]


def answer(method, params):
    if method == "initialize":
        info = {"name": "nested", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        arguments = params.get("arguments") or {}
        if params["name"] == "comment":
            ids = list(range(len(arguments["comments"])))
            return {"content": [], "structuredContent": {"ids": ids}}
        if params["name"] == "repeat":
            text = arguments["text"] * arguments.get("count", 1)
        else:
            text = json.dumps({"answer": 42})
        return {"content": [{"type": "text", "text": text}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message["method"], message.get("params"))}
        print(json.dumps(reply), flush=True)
