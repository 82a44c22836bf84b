"""Many clients at once over HTTP: the cost of a run compared to a request that does nothing, and to FastMCP; and the
memory that the server keeps when it is idle again."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Sample, memory_of
from report import Bar, Row
from stdio_client import ServerProblem
from subjects import Project, python_server
from topics.rest import EXIT_SECONDS, START_SECONDS, free_port

CONNECTIONS = 16
SECONDS = 3
# Number of requests made before memory is measured, with --full; a twentieth otherwise.
MANY = 1_500_000
ERA = "2026-07-28"
PACKAGE = "autocannon@8"
# Idle seconds after which the server frees what a burst needed.
QUIET = 1


def rows(settings) -> Iterator[Row]:
    if not (shutil.which("wrk") or shutil.which("npx")):
        yield Row("skipped", "", note="wrk, or npx to fetch autocannon, is needed")
        return
    nothing, run, worst, theirs, theirs_worst = [], [], [], [], []
    with Project(json.dumps({"run": {"idle_timeout": QUIET}})) as project, ours(settings.onetool, project) as (port, pid), peer() as other:
        before = memory_of(pid)
        # In turns, so that other load on the machine affects all of them.
        for _ in range(settings.repetitions(5)):
            nothing.append(measured(port, "server/discover", {})["ms"])
            loaded = measured(port, "tools/call", {"name": "run", "arguments": {"command": "1"}})
            run.append(loaded["ms"])
            worst.append(loaded["p99"])
            loaded = measured(other, "tools/call", {"name": "execute", "arguments": {"code": "return 1"}})
            theirs.append(loaded["ms"])
            theirs_worst.append(loaded["p99"])
        many, made = MANY if settings.full else MANY // 20, 0
        while made < many:
            made += measured(port, "tools/call", {"name": "run", "arguments": {"command": "1"}}, seconds=10)["requests"]
        busy = memory_of(pid)
        time.sleep(QUIET * 4 + 2)
        after = memory_of(pid)
    yield Row(f"server/discover, {CONNECTIONS} connections, a request", "ms", Sample(tuple(nothing)))
    yield Row(f'run("1"), {CONNECTIONS} connections, a request', "ms", Sample(tuple(run)), Sample(tuple(theirs)), Bar(0.125), "8,000 a second")
    yield Row('run("1"), the slowest of a hundred', "ms", Sample(tuple(worst)), Sample(tuple(theirs_worst)), Bar(10))
    yield Row("memory before, of all processes", "MB", before.proportional, note=f"{before.processes} processes")
    yield Row(f"… after {made:,} runs", "MB", busy.proportional, note=f"{busy.processes} processes")
    yield Row("… and some quiet seconds", "MB", after.proportional, note=f"{after.processes} processes")


@contextmanager
def ours(onetool: Path, project: Project) -> Iterator[tuple[int, int]]:
    """Starts our server; yields its port and process id."""
    port = free_port()
    command = [str(onetool), "serve", f"--http=127.0.0.1:{port}"]
    with started(command, port, cwd=project.folder, env=project.environment()) as pid:
        yield port, pid


@contextmanager
def peer() -> Iterator[int]:
    """Starts FastMCP over HTTP; yields its port."""
    port = free_port()
    with started(python_server("fastmcp_code_mode", "--port", str(port)), port, env=dict(os.environ)):
        yield port


@contextmanager
def started(command: list[str], port: int, **options) -> Iterator[int]:
    """Starts a server and waits until it listens on the port; yields its process id."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **quiet, **options)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not listens(port):
            if time.monotonic() > deadline or process.poll() is not None:
                raise ServerProblem(f"nothing listens: {' '.join(command)}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(timeout=EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=EXIT_SECONDS)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def measured(port: int, method: str, params: dict, seconds: int = SECONDS) -> dict[str, float]:
    """Returns the server's milliseconds per request, the 99th percentile of the latency, and the number of requests.

    On a busy machine, no request may be answered in that time; then it measures again, for longer."""
    try:
        return loaded(port, method, params, seconds)
    except NothingAnswered:
        return loaded(port, method, params, seconds * 5)


class NothingAnswered(ServerProblem):
    """No request failed, but none was answered."""


def loaded(port: int, method: str, params: dict, seconds: int) -> dict[str, float]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": ERA,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}})
    headers = {
        "content-type": "application/json", "accept": "application/json, text/event-stream",
        "mcp-protocol-version": ERA, "mcp-method": method,
    }
    if "name" in params:
        headers["mcp-name"] = params["name"]
    url = f"http://127.0.0.1:{port}/mcp"
    return (with_wrk if shutil.which("wrk") else with_autocannon)(url, headers, body, seconds)


WRK = """
wrk.method = "POST"
wrk.body = {body}
{headers}
done = function(summary, latency, requests)
    local errors = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
    print(string.format("RESULT %d %d %d %d", summary.requests, summary.duration, latency:percentile(99), errors))
end
"""


def with_wrk(url: str, headers: dict[str, str], body: str, seconds: int) -> dict[str, float]:
    """Measures with wrk, which itself needs little processor time."""
    lines = "\n".join(f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in headers.items())
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(WRK.format(body=json.dumps(body), headers=lines))
        script.flush()
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s", "-s", script.name, url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=True)
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+)", done.stdout)
    if not found:
        raise ServerProblem(f"wrk says nothing of its requests: {done.stdout[-300:]}{done.stderr[-300:]}")
    requests, microseconds, p99, errors = map(int, found.groups())
    if errors:
        raise ServerProblem(f"{errors} requests failed, {requests} were answered")
    if not requests:
        raise NothingAnswered(f"none of {CONNECTIONS} connections had an answer within {seconds} s")
    return {"ms": microseconds / 1000 / requests, "p99": p99 / 1000, "requests": requests}


def with_autocannon(url: str, headers: dict[str, str], body: str, seconds: int) -> dict[str, float]:
    command = ["npx", "--yes", PACKAGE, "--json", "-c", str(CONNECTIONS), "-d", str(seconds), "-m", "POST", "-b", body]
    for name, value in headers.items():
        command += ["-H", f"{name}={value}"]
    done = subprocess.run([*command, url], capture_output=True, text=True, timeout=seconds + 120, check=True)
    result = json.loads(done.stdout)
    if result["non2xx"] or result["errors"]:
        raise ServerProblem(f"{result['non2xx']} refusals and {result['errors']} errors")
    if not result["requests"]["total"]:
        raise NothingAnswered(f"none of {CONNECTIONS} connections had an answer within {seconds} s")
    requests = result["requests"]["total"]
    return {"ms": 1000 * result["duration"] / requests, "p99": result["latency"]["p99"], "requests": requests}
