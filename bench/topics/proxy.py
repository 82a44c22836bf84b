"""Other MCP servers as packs: the overhead over calling that server directly, and a start with 50 of them."""

import json
import time
from collections.abc import Iterator

from measure import Difference, Turn, in_turns, more
from report import Bar, Row
from stdio_client import ServerProblem, StdioClient
from subjects import Project, expect, python_server, run, start_python_server

LOOP = 'for i in range(100):\n    v = {pack}.echo(text="hi")\nv'
EMPTY_LOOP = 'for i in range(100):\n    v = "hi"\nv'
CONNECT_SECONDS = 60
SERVERS = 50


def rows(settings) -> Iterator[Row]:
    for name, title in [("bare_echo", "a server without any package"), ("mcp_echo", "a server made with the mcp package")]:
        with (
            Project(servers({"echo": stdio(python_server(name))})) as project,
            project.serve(settings.onetool) as ours,
            start_python_server(name) as direct,
        ):
            ours.initialize()
            direct.initialize()
            wait_until_connected(ours, "echo")
            yield from overhead(settings, ours, direct, title)
    yield from fifty(settings)


def overhead(settings, ours: StdioClient, direct: StdioClient, title: str) -> Iterator[Row]:
    def directly() -> float:
        return expect(direct.call("echo", {"text": "hi"}), "hi")

    empty, own, looped, theirs = in_turns(
        settings.repetitions(12),
        Turn(lambda: expect(run(ours, EMPTY_LOOP), "hi"), batch=10, warm_up=10),
        # The same batch size as for direct calls: on both sides, the first ones after a pause take longer.
        Turn(lambda: expect(run(ours, 'echo.echo(text="hi")'), "hi"), batch=40, warm_up=40),
        Turn(lambda: expect(run(ours, LOOP.format(pack="echo")), "hi"), batch=2, warm_up=1),
        Turn(directly, batch=40, warm_up=40),
    )
    inner = more(looped, empty, 100)
    beyond = Difference(inner.median - theirs.median, inner.best - theirs.best)
    yield Row(f"{title}: run with one call; peer: the call itself", "ms", own, theirs)
    yield Row("… more than calling it directly", "ms", more(own, theirs), bar=Bar(0.3))
    yield Row(f"{title}: one call more in a run; peer: the call itself", "ms", inner, theirs)
    yield Row("… more than calling it directly", "ms", beyond, bar=Bar(0.3))


def fifty(settings) -> Iterator[Row]:
    """Half of the servers work; the others are missing, exit at once, are silent, send garbage or do not listen."""
    broken = [
        {"type": "stdio", "command": "no-such-program-here"},
        stdio(["sh", "-c", "exit 3"]),
        stdio(["sleep", "600"]),
        stdio(["sh", "-c", "while read line; do echo rubbish; done"]),
        {"type": "http", "url": "http://127.0.0.1:9/mcp"},
    ]
    good = stdio(python_server("bare_echo"))
    half = SERVERS // 2
    configured = {f"good{number}": good for number in range(half)}
    configured |= {f"broken{number}": broken[number % len(broken)] for number in range(SERVERS - half)}
    initialized, answered, called = [], [], []
    with Project(servers(configured)) as project, Project() as plain:

        def once() -> float:
            with project.serve(settings.onetool) as client:
                client.initialize()
                initialized.append(client.since_start())
                expect(run(client, "1+1"), "2")
                answered.append(client.since_start())
                wait_until_connected(client, "good7")
                called.append(client.since_start())
            return initialized[-1]

        def alone() -> float:
            with plain.serve(settings.onetool) as client:
                client.initialize()
                return client.since_start()

        with_servers, without = in_turns(settings.repetitions(9), Turn(once, warm_up=1), Turn(alone, warm_up=1))
    note = f"peer: ours without servers; first run after {middle(answered[1:]):.0f} ms, first call of a server after {middle(called[1:]):.0f} ms"
    yield Row(f"start → initialize answered, {SERVERS} servers, half broken", "ms", with_servers, without, Bar(30), note)


def middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def stdio(command: list[str]) -> dict:
    return {"type": "stdio", "command": command[0], "args": command[1:]}


def servers(configured: dict[str, dict]) -> str:
    """Returns the configuration as JSON, which is also YAML."""
    return json.dumps({"servers": configured})


def wait_until_connected(client: StdioClient, pack: str) -> None:
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            expect(run(client, f'{pack}.echo(text="hi")'), "hi")
            return
        except ServerProblem:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
