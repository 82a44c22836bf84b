"""An MCP server without any package: an image, progress, and tools that ask the client's user and its model. It counts how often
`tick` is called, so that a run that was cancelled can be told from one that goes on.

It speaks the revisions up to 2025-11-25, in which a server sends requests of its own; as `upstream.py new` it speaks 2026-07-28
alone, in which a result says what is needed.
"""

import json
import sys
import time

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
TOOLS = ["image", "steps", "ask", "open", "sample", "tick", "ticks"]
NEW = sys.argv[1:] == ["new"]
QUESTIONS = {
    "ask": ("elicitation/create", {"mode": "form", "message": "What is your name?", "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}),
    "open": ("elicitation/create", {"mode": "url", "message": "Please sign in", "url": "https://example.org/in", "elicitationId": "e-1"}),
    "sample": ("sampling/createMessage", {"maxTokens": 10, "messages": [
        {"role": "user", "content": {"type": "text", "text": "Say something"}}]}),
}
own_id = tick_count = 0


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
    if name in ("tick", "ticks"):
        global tick_count
        tick_count += name == "tick"
        time.sleep(0.01)
        return [{"type": "text", "text": str(tick_count)}]
    if name == "steps":
        for step in range(1, 4):
            if "progressToken" in meta:
                send({"method": "notifications/progress", "params": {"progressToken": meta["progressToken"], "progress": step, "total": 3}})
            time.sleep(0.05)
        return [{"type": "text", "text": "done"}]
    return [{"type": "text", "text": "answer: " + json.dumps(request(*QUESTIONS[name]))}]


def call_new(params):
    """The same in the newest revision."""
    name = params["name"]
    if name not in QUESTIONS:
        return {"resultType": "complete", "content": call(name, params.get("_meta") or {})}
    answers = params.get("inputResponses")
    if answers is None:
        method, question = QUESTIONS[name]
        return {"resultType": "input_required", "requestState": name, "inputRequests": {"it": {"method": method, "params": question}}}
    assert params["requestState"] == name
    return {"resultType": "complete", "content": [{"type": "text", "text": "answer: " + json.dumps(answers["it"])}]}


def tools():
    return [{"name": name, "description": name, "inputSchema": {"type": "object", "properties": {}}} for name in TOOLS]


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if NEW and method == "server/discover":
        result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "upstream", "version": "2"}, "ttlMs": 0, "cacheScope": "private"}
    elif NEW and method == "tools/list":
        result = {"resultType": "complete", "tools": tools(), "ttlMs": 0, "cacheScope": "private"}
    elif NEW and method == "tools/call":
        result = call_new(params)
    elif not NEW and method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "upstream", "version": "1"}}
    elif not NEW and method == "tools/list":
        result = {"tools": tools()}
    elif not NEW and method == "tools/call":
        result = {"content": call(params["name"], params.get("_meta") or {})}
    elif not NEW and method == "ping":
        result = {}
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": f"unknown method {method}"}})
        continue
    send({"id": message["id"], "result": result})
