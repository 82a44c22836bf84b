#!/usr/bin/env python3
"""Drives OneTool with MCP clients that others wrote, and checks what each of them sees.

    python3 scripts/try_clients.py [--onetool PATH] [CLIENT ...]

The official Python and TypeScript clients, 1.x and 2.x (by themselves and held to the older revisions), and FastMCP, each over
stdio and HTTP; they are fetched with uv and npm. Timers of the server are shortened, so that a client that is idle is idle for
longer than all of them; over HTTP the server is restarted in the middle. Exit code 1 when something does not work.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NPM = ["@modelcontextprotocol/sdk@1", "@modelcontextprotocol/client@2"]
PYTHON = {
    "python-1": ("mcp<2", "mcp_client.py", "legacy"),
    "python-2": ("mcp>=2,<3", "mcp_client.py", "auto"),
    "python-2-legacy": ("mcp>=2,<3", "mcp_client.py", "legacy"),
    "fastmcp": ("fastmcp>=4,<5", "fastmcp_client.py", "auto"),
    "fastmcp-legacy": ("fastmcp>=4,<5", "fastmcp_client.py", "legacy"),
}
TYPESCRIPT = {"typescript-1": "1", "typescript-2": "2", "typescript-2-legacy": "2-legacy"}
CONFIGURATION = {
    "server": {"session_idle": 0.5, "resume_window": 0.5},
    "security": {"policy": {"file.write": "ask"}},
    "snippets": {"greet": {"params": {"name": {"required": True}}, "body": "print('hello', {{ name | literal }})"}},
    # One of the older revisions, and one that knows the newest alone: what they ask reaches clients of every revision.
    "servers": {
        "up": {"command": sys.executable, "args": [str(ROOT / "scripts/clients/upstream.py")]},
        "up_new": {"command": sys.executable, "args": [str(ROOT / "scripts/clients/upstream.py"), "new"]},
    },
}


def node_modules():
    """A folder with the TypeScript clients, installed once."""
    folder = ROOT / "target/typescript-clients"
    if not (folder / "node_modules").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", *NPM], cwd=folder, check=True)
    return folder


def command(name):
    """How a client is started, and where."""
    if name in TYPESCRIPT:
        return ["node", str(ROOT / "scripts/clients/typescript.mjs")], TYPESCRIPT[name], node_modules()
    package, script, mode = PYTHON[name]
    return ["uv", "run", "--no-project", "--quiet", "--with", package, "python", str(ROOT / "scripts/clients" / script)], mode, None


def serve(binary, folder, address="127.0.0.1:0"):
    """Starts the HTTP server; the process and its address."""
    process = subprocess.Popen(
        [binary, "serve", "--http", address], cwd=folder, env={**os.environ, "HOME": str(folder / "home")},
        stderr=subprocess.PIPE, text=True,
    )
    for line in process.stderr:
        if line.startswith("listening at "):
            return process, line.removeprefix("listening at ").strip()
    sys.exit("the server did not start")


class HttpServer:
    """A server that restarts, at the same address, when a file in its folder asks for it."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.process, self.address = serve(binary, folder)
        self.ended = threading.Event()
        self.watching = threading.Thread(target=self.watch)
        self.watching.start()

    def watch(self):
        while not self.ended.wait(0.05):
            if (self.folder / "restart").exists():
                (self.folder / "restart").unlink()
                self.stop()
                self.process, _ = serve(self.binary, self.folder, self.address.removeprefix("http://"))
                (self.folder / "restarted").touch()

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def close(self):
        self.ended.set()
        self.watching.join()
        self.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--onetool", default=str(ROOT / "target/debug/onetool"))
    parser.add_argument("clients", nargs="*", default=[*PYTHON, *TYPESCRIPT])
    arguments = parser.parse_args()
    for program in ("uv", "npm", "node"):
        if not shutil.which(program):
            sys.exit(f"{program} is needed to fetch and run the clients")
    failed = 0
    for name in arguments.clients:
        start, mode, place = command(name)
        for transport in ("stdio", "http"):
            folder = Path(tempfile.mkdtemp())
            (folder / ".onetool").mkdir()
            (folder / "home").mkdir()
            (folder / ".onetool/onetool.yaml").write_text(json.dumps(CONFIGURATION))
            server, target, environment = None, f"{arguments.onetool} {folder}", dict(os.environ)
            if transport == "http":
                server = HttpServer(arguments.onetool, folder)
                target = f"{server.address}/mcp"
                environment["TRY_CLIENTS_RESTART"] = str(folder)
            try:
                output = subprocess.run(
                    [*start, transport, mode, target], cwd=place, env=environment, capture_output=True, text=True, timeout=600
                )
            finally:
                if server:
                    server.close()
                shutil.rmtree(folder, ignore_errors=True)
            try:
                told = json.loads(output.stdout)
                revision, results = told["revision"], told["checks"]
            except ValueError:
                revision, results = "", {"start": "FAILED: " + output.stderr.strip()[-400:]}
            bad = {check: result for check, result in results.items() if result.startswith("FAILED")}
            failed += len(bad)
            works = sum(result == "ok" for result in results.values())
            print(f"{name:20} {transport:6} {revision:10}  {works} of {len(results)} work")
            for check, result in results.items():
                if result != "ok":
                    print(f"    {check}: {result}")
    sys.exit(1 if failed else 0)


main()
