"""An MCP server without any package: an image, progress, and tools that ask the client's user and its model."""

import json
import sys
import time

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
TOOLS = ["image", "steps", "ask", "sample"]
own_id = 0


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def request(method, params):
    """Asks the client, and waits for its answer."""
    global own_id
    own_id += 1
    send({"id": f"own-{own_id}", "method": method, "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == f"own-{own_id}":
            return message.get("result") or {"error": message.get("error")}


def call(name, meta):
    if name == "image":
        return [{"type": "image", "data": PNG, "mimeType": "image/png"}]
    if name == "steps":
        for step in range(1, 4):
            if "progressToken" in meta:
                send({"method": "notifications/progress", "params": {"progressToken": meta["progressToken"], "progress": step, "total": 3}})
            time.sleep(0.05)
        return [{"type": "text", "text": "done"}]
    if name == "ask":
        shape = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        answer = request("elicitation/create", {"message": "What is your name?", "requestedSchema": shape})
    else:
        message = {"role": "user", "content": {"type": "text", "text": "Say something"}}
        answer = request("sampling/createMessage", {"messages": [message], "maxTokens": 10})
    return [{"type": "text", "text": "answer: " + json.dumps(answer)}]


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "upstream", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "description": name, "inputSchema": {"type": "object", "properties": {}}} for name in TOOLS]}
    elif method == "tools/call":
        result = {"content": call(params["name"], params.get("_meta") or {})}
    elif method == "ping":
        result = {}
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": f"unknown method {method}"}})
        continue
    send({"id": message["id"], "result": result})
