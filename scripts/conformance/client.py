#!/usr/bin/env python3
"""The client leg of the official MCP conformance suite: OneTool as the client of the suite's servers.

    scripts/conformance/client.py [--revision REVISION]... [--scenario NAME]   run the suite (needs npm; builds nothing)
    scripts/conformance/client.py ONETOOL URL                                  one client, as the suite starts it

The suite starts a server and then this file with its address. A project is made whose one server it is; a program over
`onetool serve` then does what the scenario asks of a client: list and call tools, answer questions, sign in. `ONETOOL`
names the binary (default: target/debug/onetool); `CONFORMANCE_DIR` where the suite is installed.
"""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
REVISIONS = ["2025-11-25", "2026-07-28"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"


class OneTool:
    """`onetool serve` on standard input and output, spoken to in the revision with a handshake."""

    def __init__(self, binary, project, environment):
        self.process = subprocess.Popen(
            [binary, "--project", project, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.answers, self.next_id = {}, 0
        threading.Thread(target=self.read, daemon=True).start()
        capabilities = {"elicitation": {"form": {"applyDefaults": True}, "url": {}}, "sampling": {}}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": capabilities,
                                "clientInfo": {"name": "conformance", "version": "1"}})
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" in message and "id" in message:
                threading.Thread(target=self.answer, args=(message,), daemon=True).start()
            elif "id" in message and message["id"] in self.answers:
                self.answers[message["id"]].put(message)

    def answer(self, message):
        """What a user does: accepts with the defaults, opens addresses, lets the model say something."""
        params = message["params"]
        if message["method"] == "elicitation/create" and params.get("mode") == "url":
            visit(params["url"])
            result = {"action": "accept"}
        elif message["method"] == "elicitation/create":
            properties = params["requestedSchema"].get("properties", {})
            content = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
            result = {"action": "accept", "content": content}
        elif message["method"] == "sampling/createMessage":
            result = {"role": "assistant", "model": "none", "content": {"type": "text", "text": "ok"}}
        else:
            result = {}
        self.send({"id": message["id"], "result": result})

    def ask(self, method, params):
        self.next_id += 1
        id, self.answers[self.next_id] = self.next_id, queue.Queue()
        self.send({"id": id, "method": method, "params": params})
        return self.answers[id].get(timeout=240)

    def run(self, code):
        answer = self.ask("tools/call", {"name": "run", "arguments": {"command": code}})
        result = answer.get("result") or {}
        text = "\n".join(part.get("text", "") for part in result.get("content", []))
        print(f">>> {code}\n{text or answer}", file=sys.stderr)
        return None if result.get("isError") or "error" in answer else text

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)


def visit(url):
    """What a browser does: follows the address to where it ends."""
    try:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(url, timeout=20) as page:
            page.read()
    except Exception as error:
        print(f"the browser ends at: {error}", file=sys.stderr)


@contextlib.contextmanager
def one_of_few():
    """Waits for a place: the suite starts all its clients at once, and some of its servers have clocks of their own, which begin
    when a client comes."""
    folder = os.environ.get("CONFORMANCE_PLACES")
    while folder:
        for number in range(os.cpu_count() or 2):
            with open(pathlib.Path(folder, f"place-{number}"), "w") as place:
                try:
                    fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield
                return
        time.sleep(0.05)
    yield


def client(binary, url):
    """One scenario."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
    with tempfile.TemporaryDirectory() as folder:
        project = pathlib.Path(folder)
        (project / ".onetool").mkdir()
        server = {"type": "http", "url": url, "timeout": 60, "auth": {"client_metadata_url": CLIENT_METADATA}}
        if revision:
            server["era"] = "modern" if revision >= "2026" else "legacy"
        if context.get("client_id"):
            server["auth"] |= {"client_id": context["client_id"], "client_secret": context.get("client_secret", "")}
        (project / ".onetool/onetool.yaml").write_text(json.dumps({"servers": {"it": server}}))
        environment = {**os.environ, "HOME": folder}
        with one_of_few():
            tool = OneTool(binary, folder, environment)
            try:
                work(tool, scenario, context)
            finally:
                tool.stop()


def signatures(tool):
    """Names of the server's functions, and the arguments that each needs."""
    lines = json.loads(tool.run('__format__ = "json"\n[t["signature"] for t in ot.tools(pattern="it.", info="full")]') or "[]")
    values = {"int": 5, "float": 5, "bool": True, "list": [], "dict": {}}
    found = {}
    for line in lines:
        name, rest = line.removeprefix("it.").split("(", 1)
        needed = {}
        for part in rest.rsplit(")", 1)[0].split(", "):
            key, _, annotation = part.partition(":")
            if annotation and "=" not in annotation and key.isidentifier():
                needed[key] = values.get(annotation.strip().split("[")[0], "x")
        found[name] = needed
    return found


def work(tool, scenario, context):
    functions = signatures(tool)
    # Nobody is signed in: a call asks for it, and then they are known. Where the authorization server changes on the way,
    # the next call asks again.
    for _ in range(2 if scenario == "auth/authorization-server-migration" else 1):
        if functions:
            break
        tool.run("it.nothing_yet()")
        functions = signatures(tool)
    if scenario == "initialize":
        return
    for call in context.get("toolCalls") or []:
        # An argument that is null is one that is left out.
        arguments = {key: value for key, value in call["arguments"].items() if value is not None}
        tool.run(f"it.{call['name']}(**{arguments!r})")
    if context.get("toolCalls"):
        return
    for name, arguments in functions.items():
        if name not in ("resources", "read", "prompts", "prompt"):
            tool.run(f"it.{name}(**{arguments!r})")
    if "resources" in functions:
        listed = json.loads(tool.run('__format__ = "json"\nit.resources()') or "[]")
        for resource in [resource for resource in listed if "uri" in resource][:3]:
            tool.run(f"it.read(uri={resource['uri']!r})")
    if "prompts" in functions:
        listed = json.loads(tool.run('__format__ = "json"\nit.prompts()') or "[]")
        for prompt in listed[:3]:
            needed = {argument["name"]: "x" for argument in prompt.get("arguments") or []}
            tool.run(f"it.prompt({prompt['name']!r}, **{needed!r})")


def suite(revisions, scenario):
    folder = pathlib.Path(os.environ.get("CONFORMANCE_DIR", ROOT / "target/conformance"))
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "node_modules/.bin/conformance"
    if not program.exists():
        subprocess.run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--silent", "node@22", SUITE], check=True)
    binary = os.environ.get("ONETOOL", str(ROOT / "target/debug/onetool"))
    if not shutil.which(binary):
        sys.exit(f"{binary} is missing\nhint: cargo build -p onetool")
    environment = {**os.environ, "CONFORMANCE_PLACES": str(folder), "PATH": f"{folder / 'node_modules/.bin'}:{os.environ['PATH']}"}
    failed = False
    for revision in revisions:
        command = [program, "client", "--command", f"{sys.executable} {__file__} {binary}", "--timeout", "600000", "-o", folder / f"client-{revision}"]
        command += ["--scenario", scenario, "--spec-version", revision] if scenario else ["--requirements", revision]
        baseline = pathlib.Path(__file__).with_name(f"client-{revision}.yml")
        if baseline.exists() and not scenario:
            command += ["--expected-failures", baseline]
        outcome = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
        log = folder / f"client-{revision}.txt"
        log.write_text(outcome.stdout + outcome.stderr)
        summary = outcome.stdout[outcome.stdout.rfind("=== SUMMARY"):] if "=== SUMMARY" in outcome.stdout else outcome.stdout[-3000:]
        print(f"client {revision}: {'ok' if outcome.returncode == 0 else 'FAILED'} ({log})\n{summary}", flush=True)
        failed |= outcome.returncode != 0
    sys.exit(failed)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2].startswith("http"):
        client(sys.argv[1], sys.argv[2])
    else:
        parser = argparse.ArgumentParser(description="the client leg of the MCP conformance suite")
        parser.add_argument("--revision", action="append")
        parser.add_argument("--scenario")
        options = parser.parse_args()
        suite(options.revision or REVISIONS, options.scenario)
