"""An MCP server for tests, without dependencies. It can misbehave on demand.

    server.py [--mode MODE] [--refuse HOW] [--news] [--description TEXT] [--http | --sse]

In the mode `modern` it knows only the newer era of the protocol, in `dual` both, otherwise only the older one; --refuse
says how it refuses the era that it does not know: with the code of an error, or with `silence`, `exit` or `later exit`.
With --news it announces changes. The variable FIXTURE_MODE replaces --mode. With --http (streamable) and --sse (the
older transport) it listens on a free port, which it prints as its first line.
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="normal")
parser.add_argument("--refuse", default="-32601")
parser.add_argument("--news", action="store_true")
parser.add_argument("--tally")
parser.add_argument("--until")
parser.add_argument("--description", default="Say it back.")
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--http", action="store_true")
parser.add_argument("--sse", action="store_true")
options = parser.parse_args()

options.mode = os.environ.get("FIXTURE_MODE", options.mode)
if options.tally:
    with open(options.tally, "a") as tally:
        tally.write("x")
description = options.description
methods = []
listeners = []
watched = []
modern_tasks = []
has_extra_tool = False
cancelled = []
tasks = []
asked = {}
next_id = 1000
lock = threading.Lock()
meeting, parties = threading.Lock(), {}


def schema(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def tools():
    listed = [
        {"name": "echo", "description": description, "inputSchema": schema(text=TEXT)},
        {
            "name": "add",
            "inputSchema": schema(a=NUMBER, b=NUMBER),
            "outputSchema": {"type": "object", "properties": {"result": NUMBER}, "x-fastmcp-wrap-result": True},
        },
        {"name": "image", "inputSchema": schema()},
        {"name": "several", "inputSchema": schema()},
        {"name": "fail", "inputSchema": schema()},
        {"name": "steps", "inputSchema": schema(count={"type": "integer"}, pause=NUMBER)},
        {"name": "meet", "inputSchema": schema(count={"type": "integer"})},
        {"name": "hang", "inputSchema": schema()},
        {"name": "later", "inputSchema": schema(what=TEXT), "execution": {"taskSupport": "required"}},
        {"name": "tasks", "inputSchema": schema()},
        {"name": "freeze", "inputSchema": schema()},
        {"name": "cancelled", "inputSchema": schema()},
        {"name": "crash", "inputSchema": schema()},
        {"name": "rubbish", "inputSchema": schema()},
        {"name": "shout", "inputSchema": schema(kib={"type": "integer"})},
        {"name": "large", "inputSchema": schema(kib={"type": "integer"})},
        {"name": "change", "inputSchema": schema(description=TEXT)},
        {"name": "ask", "inputSchema": schema()},
        {"name": "environment", "inputSchema": schema()},
        {"name": "processes", "inputSchema": schema()},
        {
            "name": "search-repos",
            "inputSchema": {
                "type": "object",
                "properties": {"query": TEXT, "per-page": {"type": "integer"}},
                "required": ["query"],
            },
        },
        {"inputSchema": "a tool without a name"},
    ]
    if options.mode == "hostile":
        listed += [
            {"name": "malformed", "inputSchema": schema(line=TEXT)},
            {"name": "verbose", "inputSchema": schema(kib={"type": "integer"})},
            {"name": "die-after", "inputSchema": schema(file=TEXT)},
        ]
    if options.mode == "odd":
        listed = odd_tools()
    if options.mode in ("modern", "dual") or options.refuse != "-32601" or options.news:
        listed += [
            {"name": "methods", "inputSchema": schema()},
            {"name": "era", "inputSchema": schema()},
            {"name": "want", "inputSchema": schema(what=TEXT)},
            {"name": "publish", "inputSchema": schema(what=TEXT)},
        ]
    if has_extra_tool:
        listed.append({"name": "extra", "inputSchema": schema()})
    return listed


def odd_tools():
    """Tools with unexpected schemas and names."""
    cyclic = {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node"}, "self": {"$ref": "#"}, "gone": {"$ref": "#/$defs/Gone"}},
        "$defs": {
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}},
            "A": {"$ref": "#/$defs/B"},
            "B": {"$ref": "#/$defs/A"},
        },
    }
    around = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    deep = {"type": "string"}
    for _ in range(60):
        deep = {"type": "object", "properties": {"x": deep}}
    odd = [
        {"name": "twice", "description": "the first"},
        {"name": "twice", "description": "the second"},
        {"name": "sch\u00e9ma \"quoted\" \n 'newline'\u202e", "inputSchema": {"type": "object"}},
        {"name": "\u6587\u5b57", "inputSchema": {"type": "object"}},
        {"name": "\U0001f600", "inputSchema": {"type": "object"}},
        {"name": "class", "inputSchema": {"type": "object"}},
        {"name": "__init__", "inputSchema": {"type": "object"}},
        {"name": "", "inputSchema": {"type": "object"}},
        {"name": 5, "inputSchema": {"type": "object"}},
        {"name": "n" * 200, "inputSchema": {"type": "object"}},
        {"name": "bidi", "description": "Adds\u200b two\u202e numbers\u2066.\x07\U000e0041", "inputSchema": {"type": "object"}},
        {"name": "long", "description": "word " * 100000, "inputSchema": {"type": "object"}},
        {"name": "list_schema", "inputSchema": ["string"]},
        {"name": "no_schema"},
        {"name": "true_schema", "inputSchema": True},
        {"name": "text_schema", "inputSchema": {"type": "string"}},
        {"name": "odd_parts", "inputSchema": {"type": "object", "properties": [1], "required": "all"}},
        {"name": "null_parts", "inputSchema": {"type": None, "properties": {"a": None, "b": 5, "c": []}, "required": [1, None, "a"]}},
        {"name": "cyclic", "inputSchema": cyclic},
        {"name": "around", "inputSchema": around},
        {"name": "deep", "inputSchema": deep},
        {"name": "huge", "inputSchema": {"type": "object", "properties": {"p%d" % i: {"type": "string", "description": "x" * 100} for i in range(4000)}}},
        None,
        "a string",
        [],
    ]
    return odd + [{"name": f"tool_{number}", "description": "one of many", "inputSchema": schema(text=TEXT)} for number in range(5000)]


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def call(name, arguments, request, emit):
    global description, has_extra_tool
    token = request["params"].get("_meta", {}).get("progressToken")
    if name == "echo":
        return text(arguments["text"])
    if name == "add":
        value = arguments["a"] + arguments["b"]
        return {**text(str(value)), "structuredContent": {"result": value}}
    if name == "image":
        data = base64.b64encode(b"\x89PNG").decode()
        return {"content": [{"type": "text", "text": "look"}, {"type": "image", "mimeType": "image/png", "data": data}]}
    if name == "tasks":
        return text(json.dumps(tasks))
    if name == "several":
        return {"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
    if name == "fail":
        return {**text("it did not work"), "isError": True}
    if name == "steps":
        for step in range(arguments["count"]):
            time.sleep(arguments["pause"])
            emit({"method": "notifications/progress", "params": {
                "progressToken": token, "progress": step + 1, "total": arguments["count"], "message": f"step {step + 1}"}})
        return text("done")
    if name == "meet":
        with meeting:
            party = parties.setdefault(arguments["count"], threading.Barrier(arguments["count"]))
        party.wait(timeout=25)
        return text("met")
    if name == "hang":
        return None
    if name == "freeze":
        lock.acquire()  # blocks all further writes
        return None
    if name == "cancelled":
        return text(json.dumps(cancelled))
    if name == "crash":
        print("Traceback: the last straw", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "rubbish":
        raw("this is not JSON")
        raw('{"jsonrpc": "2.0", "id": 999999, "result": {}}')
        raw('{"jsonrpc": "2.0", "unknown": true}')
        raw("[1, 2, 3]")
        return text("after the rubbish")
    if name == "shout":
        for _ in range(arguments["kib"]):
            sys.stderr.write("x" * 1023 + "\n")
        sys.stderr.flush()
        return text("quiet again")
    if name == "large":
        return text("y" * (arguments["kib"] * 1024))
    if name == "malformed":
        raw(arguments["line"].replace("ID", str(request["id"])))
        return None
    if name == "verbose":
        error = {"code": -32000, "message": "no " * (arguments["kib"] * 342), "data": "z" * (arguments["kib"] * 1024)}
        return {"error": error}
    if name == "die-after":
        with open(arguments["file"], "a") as file:
            file.write("x")
        os._exit(9)
    if name == "change":
        description, has_extra_tool = arguments["description"], True
        emit({"method": "notifications/tools/list_changed"})
        return text("changed")
    is_modern = "io.modelcontextprotocol/protocolVersion" in (request["params"].get("_meta") or {})
    if name == "methods":
        return text(json.dumps({"methods": methods}))
    if name == "era":
        return text("modern" if is_modern else "legacy")
    if name == "publish":
        return publish(arguments["what"], emit)
    if name == "want":
        return want(arguments["what"], request, emit, is_modern)
    if name == "ask" and options.mode == "modern":
        answers = request["params"].get("inputResponses")
        if answers is not None:
            assert request["params"]["requestState"] == "half way"
            return text(json.dumps(answers["who"]))
        question = {"method": "elicitation/create", "params": {
            "mode": "form", "message": "Your name?",
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}}
        return {"resultType": "input_required", "inputRequests": {"who": question}, "requestState": "half way"}
    if name == "ask":
        answer = ask(emit, "elicitation/create", {
            "message": "Your name?",
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}})
        return text(json.dumps(answer))
    if name == "environment":
        return text(json.dumps(dict(os.environ)))
    if name == "processes":
        child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
        return text(json.dumps([os.getpid(), child.pid]))
    if name == "search-repos":
        return text(json.dumps(arguments))
    if name == "extra":
        return text("extra")
    return {"error": {"code": -32602, "message": f"no tool {name}"}}


QUESTIONS = {
    "form": ("elicitation/create", {"mode": "form", "message": "Your name?", "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string"}}}}),
    "url": ("elicitation/create", {
        "mode": "url", "message": "Sign in", "url": "https://example.org/in", "elicitationId": "e1"}),
    "sample": ("sampling/createMessage", {"maxTokens": 5, "messages": [
        {"role": "user", "content": {"type": "text", "text": "Hello?"}}]}),
}


def want(what, request, emit, is_modern):
    """Asks the client, in the manner of its era."""
    method, params = QUESTIONS[what]
    if not is_modern:
        return text(json.dumps(ask(emit, method, params)))
    answers = request["params"].get("inputResponses")
    if answers is not None:
        return text(json.dumps(answers["it"]))
    return {"resultType": "input_required", "inputRequests": {"it": {"method": method, "params": params}}, "requestState": "s"}


def publish(what, emit):
    """Announces a change: to every client in the older era, to subscribers in the newer one."""
    news = {
        "tools": ("notifications/tools/list_changed", {}, "toolsListChanged"),
        "prompts": ("notifications/prompts/list_changed", {}, "promptsListChanged"),
        "resources": ("notifications/resources/list_changed", {}, "resourcesListChanged"),
    }
    method, params, key = news.get(what) or ("notifications/resources/updated", {"uri": what}, "resourceSubscriptions")
    if options.mode != "modern":
        if key != "resourceSubscriptions" or what in watched:
            emit({"method": method, "params": params})
        return text(json.dumps(watched))
    for id, wanted, tell in listeners:
        if wanted.get(key) is True or what in (wanted.get(key) or []):
            tell({"method": method, "params": {**params, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}})
    return text(json.dumps([wanted for _, wanted, _ in listeners]))


def modern_task(method, request, emit):
    """Tasks of the extension: created by the server, with the result in their state."""
    params = request["params"]
    if method == "tools/call":
        task = {"id": f"task-{len(tasks)}", "what": params["arguments"]["what"], "status": "working", "looks": 0}
        tasks.append(task)
        return {"resultType": "task", **modern_state(task)}
    task = next(task for task in tasks if task["id"] == params["taskId"])
    if method == "tasks/cancel":
        task["status"] = "cancelled"
        return {"resultType": "complete"}
    if method == "tasks/update":
        task["answer"] = params["inputResponses"]["which"]
        return {"resultType": "complete"}
    task["looks"] += 1
    state = modern_state(task)
    if task["what"] == "stop":
        task["status"] = state["status"] = "cancelled"
    elif task["what"] == "ask" and "answer" not in task:
        task["status"] = state["status"] = "input_required"
        state["inputRequests"] = {"which": {"method": "elicitation/create", "params": {
            "mode": "form", "message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}}}
    elif task["looks"] >= 2 and task["what"] == "fail":
        task["status"] = state["status"] = "failed"
        state["error"] = {"code": -32000, "message": "it did not work, later"}
    elif task["looks"] >= 2 and task["what"] != "never":
        task["status"] = state["status"] = "completed"
        done = json.dumps(task["answer"]) if "answer" in task else f"{task['what']}, later"
        state["result"] = {"resultType": "complete", **text(done)}
    return {"resultType": "complete", **state}


def modern_state(task):
    return {"taskId": task["id"], "status": task["status"], "statusMessage": f"look {task['looks']}", "ttlMs": 60000,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "pollIntervalMs": 20}


def make_task(params):
    """A task is done after it has been polled twice, unless its name says otherwise."""
    if "task" not in params:
        refused = "it requires task augmentation"
        if params["arguments"]["what"] == "fail":
            return {**text(f"MCP error -32601: {refused}"), "isError": True}
        return {"error": {"code": -32601, "message": refused}}
    with lock:
        task = {"id": f"task-{len(tasks)}", "what": params["arguments"]["what"], "status": "working", "looks": 0}
        tasks.append(task)
    return {"task": shown(task)}


def shown(task):
    return {"taskId": task["id"], "status": task["status"], "statusMessage": f"look {task['looks']}", "ttl": 60000,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "pollInterval": 20}


def of_task(method, params, emit):
    task = next(task for task in tasks if task["id"] == params["taskId"])
    if method == "tasks/get":
        task["looks"] += 1
        if task["looks"] >= 2 and task["what"] != "never":
            task["status"] = "input_required" if task["what"] == "ask" else "completed"
        if task["what"] == "stop":
            task["status"] = "cancelled"
        return shown(task)
    if method == "tasks/cancel":
        task["status"] = "cancelled"
        return shown(task)
    if task["what"] == "ask":
        reply = ask(emit, "elicitation/create", {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}})
        task["status"] = "completed"
        return text(json.dumps(reply))
    if task["what"] == "fail":
        return {**text("it did not work, later"), "isError": True}
    return text(f"{task['what']}, later")


def ask(emit, method, params):
    global next_id
    next_id += 1
    asked[next_id] = Queue()
    emit({"id": next_id, "method": method, "params": params})
    reply = asked[next_id].get(timeout=30)
    return reply.get("result") or {"error": reply["error"]["message"]}


def refusal(method):
    if options.refuse in ("silence", "later exit"):
        return None
    if options.refuse == "exit":
        print(f"unexpected {method}", file=sys.stderr, flush=True)
        os._exit(4)
    return {"error": {"code": int(options.refuse), "message": f"{method} is not for this server"}}


def answer(request, emit):
    method, params = request["method"], request.get("params") or {}
    methods.append(method)
    told = {"listChanged": True} if options.news else {}
    if options.refuse == "later exit" and method == "tools/list" and "server/discover" in methods:
        os._exit(4)
    if method == "initialize" and options.mode == "modern":
        return refusal(method)
    if method == "server/discover" and options.mode not in ("modern", "dual"):
        return refusal(method)
    if method == "subscriptions/listen" and options.mode == "modern":
        wanted = params["notifications"]
        listeners[:] = [(request["id"], wanted, emit)]
        emit({"method": "notifications/subscriptions/acknowledged", "params": {
            "notifications": wanted, "_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]}}})
        return None
    if method in ("resources/subscribe", "resources/unsubscribe") and options.mode != "modern":
        (watched.append if method == "resources/subscribe" else watched.remove)(params["uri"])
        return {}
    if options.mode == "modern" and (method.startswith("tasks/") or method == "tools/call" and params["name"] == "later"):
        return modern_task(method, request, emit)
    if method == "initialize":
        if options.mode == "chatty":
            emit({"method": "notifications/message", "params": {"level": "error", "data": "all is lost, it says"}})
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": options.news, **told},
                             "prompts": told, "logging": {}, "completions": {}},
            "serverInfo": {"name": "fixture", "version": "1", "title": "Fixture"},
            "instructions": "Use\u200b echo.",
        }
    if method == "server/discover":
        capabilities = {"tools": told}
        if options.news:
            capabilities |= {"prompts": told, "resources": {"subscribe": True, **told}, "completions": {}}
        if options.description == "rich":
            capabilities |= {"prompts": {}, "resources": {}, "completions": {}, "logging": {}, "tools": {"listChanged": True}, "extensions": {"a/b": {}}}
        return {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "ttlMs": 0,
            "cacheScope": "private",
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        listed, start = tools(), int(params.get("cursor") or 0)
        size = 1000 if options.mode == "odd" else 7
        page = {"tools": listed[start:start + size]}
        if start + size < len(listed):
            page["nextCursor"] = str(start + size)
        return page
    if method == "tools/call" and params["name"] == "later":
        return make_task(params)
    if method.startswith("tasks/"):
        return of_task(method, params, emit)
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {}, request, emit)
    if method == "resources/list":
        return {"resources": [{"uri": "note://1", "name": "a note", "description": "x\u200by"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "note://{id}", "name": "notes"}]}
    if method == "completion/complete":
        given = json.dumps([params["ref"].get("name") or params["ref"].get("uri"), params.get("context")])
        values = [value for value in ("Ada", "Adam", "Bob", given) if value.startswith(params["argument"]["value"])]
        return {"completion": {"values": values, "total": len(values), "hasMore": False}}
    if method in ("resources/read", "prompts/get") and "form" in (params.get("uri"), params.get("name")):
        is_modern = "io.modelcontextprotocol/protocolVersion" in (params.get("_meta") or {})
        result = want("form", request, emit, is_modern)
        if "content" not in result:
            return result
        said = json.loads(result["content"][0]["text"])["content"]["name"]
        if method == "resources/read":
            return {"contents": [{"uri": "form", "text": f"for {said}"}]}
        return {"messages": [{"role": "user", "content": {"type": "text", "text": f"for {said}"}}]}
    if method == "resources/read" and params["uri"] == "note://gone":
        return {"error": {"code": -32002, "message": "there is no such note"}}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": f"text of {params['uri']}"}]}
    if method == "prompts/list":
        return {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]}
    if method == "prompts/get":
        if params["name"] == "label":
            return {"messages": [{"role": "user", "content": {"type": "text", "text": f"Label {params['arguments']['name']}"}}]}
        who = params["arguments"]["who"]
        return {"messages": [{"role": "user", "content": {"type": "text", "text": f"Greet {who}"}}]}
    return {"error": {"code": -32601, "message": f"unknown method {method}"}}


def handle(message, emit):
    """Handles one message; `emit` sends one. Returns whether a reply was sent."""
    if "method" not in message:
        if message.get("id") in asked:
            asked[message["id"]].put(message)
        return
    if "id" not in message:
        if message["method"] == "notifications/cancelled":
            cancelled.append(message["params"].get("requestId"))
        return
    result = answer(message, emit)
    if result is None:
        return
    key = {"error": result["error"]} if set(result) == {"error"} else {"result": result}
    emit({"id": message["id"], **key})


def raw(line):
    with lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def stdio():
    if options.mode == "exit":
        print("no such module: flux", file=sys.stderr)
        sys.exit(7)
    if options.mode == "banner":
        raw("Welcome to the server! " * 20)
    if options.until and not os.path.exists(options.until):
        options.mode = "silent"
    if options.mode == "silent":
        print("waiting for the tide", file=sys.stderr, flush=True)
    emit = lambda message: raw(json.dumps({"jsonrpc": "2.0", **message}))
    for line in sys.stdin:
        if options.mode == "silent":
            continue
        message = json.loads(line)
        threading.Thread(target=handle, args=(message, emit), daemon=True).start()
    # The end of input ends the server, even with calls that hang.
    os._exit(0)


class Streamable(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def plain(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        if options.mode != "aside":
            return self.plain(405)
        # The stream that belongs to no request takes a while to open.
        time.sleep(0.5)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        queue = Queue()
        streams.append(queue)
        while True:
            self.wfile.write(f"event: message\ndata: {json.dumps(queue.get())}\n\n".encode())
            self.wfile.flush()

    def do_DELETE(self):
        self.plain(200)

    def as_json(self, message):
        """Answers with one body, which is endless if a tool is asked for that much."""
        replies = []
        handle(message, lambda reply: replies.append(json.dumps({"jsonrpc": "2.0", **reply}).encode()))
        self.send_response(200)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(replies[-1])
        endless = message["method"] == "tools/call" and message["params"]["name"] == "large"
        while endless:
            self.wfile.write(b" " * 65536)
        self.close_connection = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("X-Key") != "sesame-open":
            return self.plain(403)
        message = json.loads(body)
        if "id" not in message or "method" not in message:
            handle(message, lambda _: None)
            return self.plain(202)
        if options.mode == "json":
            return self.as_json(message)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Mcp-Session-Id", "session-1")
        self.send_header("Connection", "close")
        self.end_headers()
        def emit(reply):
            if options.mode == "aside" and "method" in reply:
                # Like servers that do not say which call a question belongs to: without a stream, it is lost.
                for queue in streams:
                    queue.put({"jsonrpc": "2.0", **reply})
                return
            reply = json.dumps({"jsonrpc": "2.0", **reply})
            self.wfile.write(f"event: message\ndata: {reply}\n\n".encode())
            self.wfile.flush()
        handle(message, emit)
        if options.refuse == "silence" and message["method"] == "initialize" and options.mode == "modern":
            time.sleep(60)
        if message["method"] == "subscriptions/listen":
            time.sleep(600)
        if message["method"] == "tools/call" and message["params"]["name"] in ("hang", "freeze"):
            time.sleep(60)
        self.close_connection = True


streams = []


class Older(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        queue = Queue()
        streams.append(queue)
        self.wfile.write(f"event: endpoint\ndata: /messages?session={len(streams) - 1}\n\n: a comment\n\n".encode())
        while True:
            reply = json.dumps(queue.get(), indent=1)
            data = "".join(f"data: {line}\r\n" for line in reply.splitlines())
            self.wfile.write(f"event: message\r\n{data}\r\n".encode())
            self.wfile.flush()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.startswith("/messages"):
            self.send_response(405)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        queue = streams[int(self.path.split("=")[1])]
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        emit = lambda reply: queue.put({"jsonrpc": "2.0", **reply})
        threading.Thread(target=handle, args=(json.loads(body), emit), daemon=True).start()


if options.http or options.sse:
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Streamable if options.http else Older)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)
else:
    stdio()
