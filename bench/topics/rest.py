"""The REST API, if the binary has it: the cost of a call over HTTP, and an HTTP tool compared to its upstream."""

import http.client
import json
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Turn, in_turns, more
from report import Row
from stdio_client import ServerProblem
from subjects import Project, python_server

START_SECONDS = 20
EXIT_SECONDS = 10


def rows(settings) -> Iterator[Row]:
    usage = subprocess.run([settings.onetool, "serve", "--help"], capture_output=True, text=True, timeout=30, check=True).stdout
    if "--http" not in usage:
        yield Row("skipped", "", note="this binary has no `serve --http`")
        return
    with upstream() as upstream_port, Project() as project:
        configuration = {"http": {"allowed_hosts": [f"http://127.0.0.1:{upstream_port}"]}}
        project.write(".onetool/onetool.yaml", json.dumps(configuration))
        with serving(settings.onetool, project) as port:
            api, direct = Http(port), Http(upstream_port)
            wait_for(api)
            native = native_tool(api, "ot.version")
            remote = http_tool(api, f"http://127.0.0.1:{upstream_port}/answer")
            yield from measured(settings, api, direct, native, remote)


def measured(settings, api: "Http", direct: "Http", native: str, remote: str) -> Iterator[Row]:
    def invoke(path: str) -> float:
        taken, reply = api.request("POST", f"{path}/invoke", {"args": {}})
        if reply.get("ok") is not True:
            raise ServerProblem(f"invoke {path}: {reply}")
        return taken

    listed, called, proxied, theirs = in_turns(
        settings.repetitions(15),
        Turn(lambda: api.request("GET", "/tools/tools")[0], batch=10, warm_up=10),
        Turn(lambda: invoke(native), batch=20, warm_up=20),
        Turn(lambda: invoke(remote), batch=20, warm_up=20),
        Turn(lambda: direct.request("GET", "/answer")[0], batch=20, warm_up=20),
    )
    yield Row("GET /tools/tools", "ms", listed)
    yield Row("invoke a native tool over REST", "ms", called)
    yield Row("invoke an HTTP tool over REST; peer: its upstream itself", "ms", proxied, theirs)
    yield Row("… more than asking the upstream directly", "ms", more(proxied, theirs))


class Http:
    """A persistent connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def request(self, method: str, path: str, body: dict | None = None) -> tuple[float, dict]:
        """Returns the milliseconds until the reply is read, and the reply. Raises if the status is not a success."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        started = time.perf_counter()
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        text = response.read()
        taken = (time.perf_counter() - started) * 1e3
        if response.status >= 300:
            raise ServerProblem(f"{method} {path}: {response.status} {text[:300]!r}")
        return taken, json.loads(text)

    def reset(self) -> None:
        self._connection.close()


def native_tool(api: Http, function: str) -> str:
    """Returns the path of a built-in tool."""
    page = ""
    while True:
        _, listed = api.request("GET", f"/tools/tools{page}")
        for tool in listed["tools"]:
            if tool["impl"].get("function") == function:
                return f"/tools/bundles/{tool['bundleID']}/tools/{tool['slug']}/version/{tool['version']}"
        if not listed.get("nextPageToken"):
            raise ServerProblem(f"no tool {function} over REST")
        page = f"?pageToken={listed['nextPageToken']}"


def http_tool(api: Http, url: str) -> str:
    bundle = f"/tools/bundles/{uuid7()}"
    api.request("PUT", bundle, {"slug": "bench", "displayName": "Bench"})
    path = f"{bundle}/tools/answer/version/v1"
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    tool = {"type": "http", "description": "asks the upstream", "argSchema": schema, "impl": {"urlTemplate": url}}
    api.request("PUT", path, tool)
    return path


def uuid7() -> str:
    """Returns a UUID of version 7: the time in milliseconds, then random bits."""
    chance = uuid.uuid4().int & ((1 << 80) - 1)
    number = (time.time_ns() // 1_000_000) << 80 | chance
    return str(uuid.UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 7 << 76 | 2 << 62))


def wait_for(api: Http) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            api.request("GET", "/tools/tools")
            return
        except OSError as error:
            api.reset()
            if time.monotonic() > deadline:
                raise ServerProblem(f"nothing listens after {START_SECONDS} s: {error}") from error
            time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def upstream() -> Iterator[int]:
    command = python_server("http_upstream")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(timeout=EXIT_SECONDS)


@contextmanager
def serving(onetool: Path, project: Project) -> Iterator[int]:
    """Starts a server that picks a free port itself, so that no other process can take it; yields the port."""
    process = subprocess.Popen(
        [onetool, "serve", "--http=127.0.0.1:0"],
        cwd=project.folder,
        env=project.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = []
    for line in process.stderr:
        told.append(line)
        if line.startswith("listening at "):
            break
    else:
        raise ServerProblem(f"the server ended before it listened: {''.join(told[-5:])}")
    # Drains stderr, so that the server never blocks on it.
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        yield int(line.rsplit(":", 1)[1])
    finally:
        process.stdin.close()
        process.terminate()
        try:
            process.wait(timeout=EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=EXIT_SECONDS)
