#!/usr/bin/env python3
"""Drives OneTool against MCP servers that others wrote, tool by tool, and checks what comes back.

    python3 scripts/try_servers.py [--onetool PATH]

`@modelcontextprotocol/server-everything` over stdio, streamable HTTP and server-sent events, `server-filesystem`, and
`mcp-server-time` from PyPI. They are fetched with npm and uv; where one of these is missing, the servers that need it are
left out, and said to be. Exit code 1 when something does not work.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60
failures = []


class Client:
    """An MCP client on standard input and output that answers elicitation and sampling."""

    def __init__(self, binary, folder):
        environment = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
        self.process = subprocess.Popen(
            [binary, "serve"], cwd=folder, env={**environment, "HOME": str(folder)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        self.replies, self.progress, self.logs, self.asked = {}, {}, [], []
        self.arrived = threading.Condition()
        self.next_id = 0
        threading.Thread(target=self.read, daemon=True).start()
        self.ask("initialize", {
            "protocolVersion": "2025-06-18",
            "capabilities": {"elicitation": {}, "sampling": {}},
            "clientInfo": {"name": "try_servers", "version": "1"},
        })
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            with self.arrived:
                if message.get("method") == "notifications/progress":
                    params = message["params"]
                    self.progress.setdefault(params["progressToken"], []).append(params["progress"])
                elif message.get("method") == "notifications/message":
                    self.logs.append(message["params"])
                elif "method" in message and "id" in message:
                    self.asked.append(message["method"])
                    self.send({"id": message["id"], "result": answer(message)})
                elif "id" in message:
                    self.replies[message["id"]] = message
                self.arrived.notify_all()

    def start(self, method, params):
        self.next_id += 1
        self.send({"id": self.next_id, "method": method, "params": params})
        return self.next_id

    def wait(self, is_so, patience=PATIENCE):
        with self.arrived:
            return self.arrived.wait_for(is_so, patience)

    def ask(self, method, params):
        number = self.start(method, params)
        if not self.wait(lambda: number in self.replies):
            raise TimeoutError(f"no answer to {method}")
        return self.replies[number]

    def begin(self, code):
        return self.start("tools/call", {
            "name": "run", "arguments": {"command": code}, "_meta": {"progressToken": self.next_id + 1},
        })

    def run(self, code):
        """The text of the result, the kinds of its content, and whether it failed."""
        number = self.begin(code)
        if not self.wait(lambda: number in self.replies):
            raise TimeoutError(f"no answer to {code}")
        result = self.replies[number]["result"]
        text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
        return text, [part["type"] for part in result["content"]], result.get("isError", False)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def answer(request):
    if request["method"] == "elicitation/create":
        wanted = request["params"]["requestedSchema"]
        return {"action": "accept", "content": {name: "Ada" for name in wanted.get("required", ["name"])}}
    return {"role": "assistant", "model": "none", "content": {"type": "text", "text": "a sampled answer"}}


def check(what, holds, seen=""):
    print(f"  {'ok  ' if holds else 'FAIL'} {what}" + ("" if holds else f": {str(seen)[:400]}"), flush=True)
    if not holds:
        failures.append(what)


def says(client, code, *words, kinds=None, fails=False):
    try:
        text, seen, failed = client.run(code)
    except TimeoutError as error:
        return check(code, False, error)
    fits = failed == fails and all(word in text for word in words) and all(kind in seen for kind in kinds or [])
    check(code, fits, (failed, seen, text))


def everything(client, pack):
    print(f"{pack}: server-everything")
    says(client, f"{pack}.echo(message='grüße')", "Echo: grüße")
    says(client, f"{pack}.get_sum(a=2, b=3)", "5")
    says(client, f"{pack}.get_env()", "PATH") if pack == "stdio" else None
    says(client, f"{pack}.get_structured_content(location='Chicago')['conditions']")
    says(client, f"{pack}.get_tiny_image()", "image/png", kinds=["image"])
    says(client, f"{pack}.get_annotated_message(messageType='error', includeImage=True)", "Operation failed", kinds=["image"])
    says(client, f"{pack}.get_resource_links(count=2)", kinds=["resource_link"])
    says(client, f"{pack}.get_resource_reference(resourceType='Text', resourceId=1)", kinds=["resource"])
    says(client, f"{pack}.gzip_file_as_resource(name='x.gz', data='data:text/plain,hello', outputType='resource')", kinds=["resource"])
    says(client, f"{pack}.toggle_subscriber_updates()", "Started")
    says(client, f"{pack}.get_sum(a='x', b=1)", "must be float", fails=True)
    says(client, f"{pack}.trigger_sampling_request(prompt='say', maxTokens=10)", "a sampled answer")
    says(client, f"{pack}.trigger_elicitation_request()", "Ada")
    check("both questions reached the client", {"sampling/createMessage", "elicitation/create"} <= set(client.asked), client.asked)
    client.asked.clear()
    says(client, f"{pack}.get_env()", "PATH")
    says(client, f"{pack}.simulate_research_query(topic='python', ambiguous=True)", "Research Report")
    check("a task's question reached the client", "elicitation/create" in client.asked, client.asked)
    client.asked.clear()
    says(client, f"len({pack}.resources()) > 0 and {pack}.read('demo://resource/dynamic/text/1')", "plaintext resource")
    says(client, f"[p['name'] for p in {pack}.prompts()]", "args-prompt")
    says(client, f"{pack}.prompt('args-prompt', city='Rome')", "Rome")
    number = client.begin(f"{pack}.trigger_long_running_operation(duration=1, steps=4)")
    client.wait(lambda: number in client.replies)
    check("progress comes, in order", client.progress.get(number) == [1, 2, 3, 4], client.progress.get(number))
    cancel(client, pack)
    logging(client, pack)


def cancel(client, pack):
    number = client.begin(f"{pack}.trigger_long_running_operation(duration=30, steps=60)")
    client.wait(lambda: len(client.progress.get(number, [])) >= 2)
    client.send({"method": "notifications/cancelled", "params": {"requestId": number, "reason": "enough"}})
    started = time.monotonic()
    says(client, f"{pack}.echo(message='still here')", "still here")
    came = len(client.progress.get(number, []))
    more = client.wait(lambda: len(client.progress.get(number, [])) > came + 1, 2)
    check("a cancelled call ends at once, and its progress with it", not more and time.monotonic() - started < 10)


def logging(client, pack):
    client.ask("logging/setLevel", {"level": "debug"})
    says(client, f"{pack}.toggle_simulated_logging()", "Started")
    heard = client.wait(lambda: any("-level message" in json.dumps(log) for log in client.logs), 30)
    check("its log messages reach ours", heard, client.logs[-3:])
    says(client, f"{pack}.toggle_simulated_logging()", "Stopped")
    client.logs.clear()


def filesystem(client, folder):
    print("fs: server-filesystem")
    at = lambda name: repr(str(folder / name))
    says(client, "fs.list_allowed_directories()", str(folder))
    says(client, f"fs.write_file(path={at('a.txt')}, content='one\\ntwo')", "Successfully")
    says(client, f"fs.read_text_file(path={at('a.txt')}, head=1)", "one")
    says(client, f"fs.edit_file(path={at('a.txt')}, edits=[{{'oldText': 'one', 'newText': 'ONE'}}])", "+ONE")
    says(client, f"fs.create_directory(path={at('d')})", "Successfully")
    says(client, f"fs.move_file(source={at('a.txt')}, destination={at('d/b.txt')})", "Successfully")
    says(client, f"fs.read_multiple_files(paths=[{at('d/b.txt')}])", "two")
    for tool in ("list_directory", "list_directory_with_sizes", "directory_tree"):
        says(client, f"fs.{tool}(path={at('d')})", "b.txt")
    says(client, f"fs.search_files(path={at('')}, pattern='**/*.txt')", "b.txt")
    says(client, f"fs.get_file_info(path={at('d/b.txt')})", "size")
    (folder / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    says(client, f"fs.read_media_file(path={at('dot.png')})", kinds=["image"])
    says(client, "fs.read_file(path='/etc/passwd')", "Access denied", fails=True)


def times(client):
    print("clock: mcp-server-time")
    says(client, "clock.get_current_time(timezone='Europe/Rome')['timezone']", "Europe/Rome")
    says(client, "clock.convert_time(source_timezone='UTC', time='12:00', target_timezone='Asia/Tokyo')", "+9.0h")
    says(client, "clock.get_current_time(timezone='No/Where')", "Invalid timezone", fails=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def listening(command):
    """A server on a port of its own; the port."""
    port = free_port()
    server = subprocess.Popen(command, env={**os.environ, "PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield port
    finally:
        server.kill()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onetool", default=str(ROOT / "target/release/onetool"))
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onetool-servers-")))
        files = home / "files"
        files.mkdir()
        servers, walks = {}, []
        if shutil.which("npm") and shutil.which("node"):
            packages = ["@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem"]
            subprocess.run(["npm", "install", "--silent", "--no-fund", "--prefix", str(home / "npm"), *packages], check=True)
            script = str(home / "npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
            http = stack.enter_context(listening(["node", script, "streamableHttp"]))
            older = stack.enter_context(listening(["node", script, "sse"]))
            servers["stdio"] = {"command": "node", "args": [script, "stdio"]}
            servers["http"] = {"type": "http", "url": f"http://127.0.0.1:{http}/mcp"}
            servers["sse"] = {"type": "http", "url": f"http://127.0.0.1:{older}/sse"}
            servers["fs"] = {"command": "node", "args": [str(home / "npm/node_modules/.bin/mcp-server-filesystem"), str(files)]}
            walks += [lambda client, pack=pack: everything(client, pack) for pack in ("stdio", "http", "sse")]
            walks.append(lambda client: filesystem(client, files))
        else:
            print("left out: server-everything and server-filesystem, because npm or node is missing")
        if shutil.which("uv"):
            python = home / "python"
            subprocess.run(["uv", "venv", "--quiet", str(python)], check=True)
            subprocess.run(["uv", "pip", "install", "--quiet", "--python", str(python), "mcp-server-time"], check=True)
            servers["clock"] = {"command": str(python / "bin/mcp-server-time")}
            walks.append(times)
        else:
            print("left out: mcp-server-time, because uv is missing")
        (home / ".onetool").mkdir()
        (home / ".onetool/onetool.yaml").write_text(json.dumps({"servers": servers, "log_level": "DEBUG"}))
        client = Client(str(Path(options.onetool).resolve()), home)
        stack.callback(client.close)
        for walk in walks:
            walk(client)
        says(client, "ot.health()", "connected")
    print(f"{len(failures)} failed" if failures else "all of it works")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
