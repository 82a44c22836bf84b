"""Many clients at once over HTTP: what a run costs beside a request that does nothing, and beside FastMCP."""

import json
import shutil
import subprocess
from collections.abc import Iterator

from measure import Sample
from report import Row
from stdio_client import ServerProblem
from subjects import Project
from topics.rest import Http, free_port, serving, wait_for

CONNECTIONS = 16
SECONDS = 3
ERA = "2026-07-28"
PACKAGE = "autocannon@8"


def rows(settings) -> Iterator[Row]:
    if not shutil.which("npx"):
        yield Row("skipped", "", note="npx is needed to fetch autocannon")
        return
    with Project() as project:
        port = free_port()
        with serving(settings.onetool, f"127.0.0.1:{port}", project):
            wait_for(Http(port))
            nothing, run, worst = [], [], []
            # In turns, so that whatever else the machine does hits both.
            for _ in range(settings.repetitions(5)):
                nothing.append(measured(port, "server/discover", {})["ms"])
                loaded = measured(port, "tools/call", {"name": "run", "arguments": {"command": "1"}})
                run.append(loaded["ms"])
                worst.append(loaded["p99"])
    yield Row(f"server/discover, {CONNECTIONS} connections, a request", "ms", Sample(tuple(nothing)))
    yield Row(f'run("1"), {CONNECTIONS} connections, a request', "ms", Sample(tuple(run)), note="8,000 a second are 0.125 ms")
    yield Row('run("1"), the slowest of a hundred', "ms", Sample(tuple(worst)), note="aimed at: below 10 ms")


def measured(port: int, method: str, params: dict) -> dict[str, float]:
    """Milliseconds of the server per request, and the 99th percentile of what clients wait."""
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
    command = ["npx", "--yes", PACKAGE, "--json", "-c", str(CONNECTIONS), "-d", str(SECONDS), "-m", "POST", "-b", body]
    for name, value in headers.items():
        command += ["-H", f"{name}={value}"]
    done = subprocess.run([*command, f"http://127.0.0.1:{port}/mcp"], capture_output=True, text=True, timeout=120, check=True)
    result = json.loads(done.stdout)
    if result["non2xx"] or result["errors"] or not result["requests"]["total"]:
        raise ServerProblem(f"{method}: {result['non2xx']} refusals and {result['errors']} errors")
    return {"ms": 1000 * result["duration"] / result["requests"]["total"], "p99": result["latency"]["p99"]}
