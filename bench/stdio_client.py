"""A minimal MCP client on a child's standard streams, so that times are those of the server, not of the client.

A reply is timed from the moment before its request is written to the moment its last byte is read, before it is parsed.
Requests from the server are refused, and notifications are ignored. Every wait has a timeout.
"""

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROTOCOL = "2025-06-18"
PATIENCE_SECONDS = 120.0
EXIT_SECONDS = 10.0
READ_BYTES = 1 << 20
STDERR_TAIL = 2000


class ServerProblem(Exception):
    """The server failed, timed out or returned an error."""


@dataclass(frozen=True)
class Reply:
    result: Any
    milliseconds: float
    size: int

    @property
    def text(self) -> str:
        return "".join(block.get("text", "") for block in self.result["content"])


class StdioClient:
    """One server process. `since_start()` counts from just before it was spawned."""

    def __init__(self, command: list[str], *, cwd: Path, environment: dict[str, str] | None = None) -> None:
        self._stderr = tempfile.TemporaryFile()
        self._next_id = 0
        self._rest = bytearray()
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
            # A process group to kill at the end, but not a session: Linux schedules by session, and all must be equal.
            process_group=0,
        )
        self._out = self._process.stdout.fileno()
        self._in = self._process.stdin.fileno()
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN | select.POLLHUP)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> "StdioClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def since_start(self) -> float:
        return (time.perf_counter() - self.started) * 1e3

    def initialize(self) -> Reply:
        reply = self.request(
            "initialize",
            {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
        )
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return reply

    def call(self, tool: str, arguments: dict[str, Any]) -> Reply:
        """Calls a tool; raises if the result is an error."""
        reply = self.request("tools/call", {"name": tool, "arguments": arguments})
        if reply.result.get("isError"):
            raise ServerProblem(f"{tool}: {reply.text[:STDERR_TAIL]}")
        return reply

    def request(self, method: str, params: dict[str, Any] | None = None) -> Reply:
        self._next_id += 1
        message = {"jsonrpc": "2.0", "id": self._next_id, "method": method}
        if params is not None:
            message["params"] = params
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        started = time.perf_counter()
        self._send(line)
        while True:
            raw = self._read_line(started + PATIENCE_SECONDS)
            arrived = time.perf_counter()
            reply = json.loads(raw)
            if "method" in reply:
                if "id" in reply:
                    self._write({"jsonrpc": "2.0", "id": reply["id"], "error": {"code": -32601, "message": "not offered"}})
                continue
            if reply.get("id") != self._next_id:
                continue
            if "error" in reply:
                raise ServerProblem(f"{method}: {reply['error']}")
            return Reply(reply["result"], (arrived - started) * 1e3, len(raw) + 1)

    def close(self) -> None:
        """Closes the server's input and waits for it to exit; then kills what is left of its process group."""
        for stream in (self._process.stdin, self._process.stdout):
            stream.close()
        try:
            self._process.wait(timeout=EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait(timeout=EXIT_SECONDS)
        self._stderr.close()

    def _write(self, message: dict[str, Any]) -> None:
        self._send(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def _send(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._in, line) :]
        except BrokenPipeError as error:
            raise ServerProblem(f"the server is gone: {self._last_words()}") from error

    def _read_line(self, deadline: float) -> bytes:
        searched = 0
        while True:
            end = self._rest.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._rest[:end])
                del self._rest[: end + 1]
                return line
            searched = len(self._rest)
            left = deadline - time.perf_counter()
            if left <= 0 or not self._poll.poll(left * 1e3):
                raise ServerProblem(f"no answer within {PATIENCE_SECONDS:.0f} s: {self._last_words()}")
            chunk = os.read(self._out, READ_BYTES)
            if not chunk:
                raise ServerProblem(f"the server ended: {self._last_words()}")
            self._rest += chunk

    def _last_words(self) -> str:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - STDERR_TAIL))
        return self._stderr.read().decode(errors="replace").strip() or "(nothing on stderr)"
