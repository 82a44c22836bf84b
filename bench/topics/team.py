"""Servers that share a PostgreSQL: a run, a PUT and a stored result compared to files; throughput with more servers."""

import os
import shutil
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from database import postgres, program
from measure import Sample, Turn, in_turns
from report import Bar, Row
from stdio_client import ServerProblem
from subjects import Project, expect, run
from topics.load import measured
from topics.rest import Http, serving, uuid7, wait_for

NODES = (1, 2, 4)
CONFIGURATION = "http: {allowed_hosts: [example.com]}\n"
PUT_BODY = {"type": "http", "description": "asks", "argSchema": {"type": "object"}, "impl": {"urlTemplate": "https://example.com/"}}


def rows(settings) -> Iterator[Row]:
    if not program("initdb"):
        yield Row("skipped", "", note="PostgreSQL's initdb is needed (Debian: apt-get install postgresql)")
        return
    with postgres() as address, Project(CONFIGURATION) as files, Project(f"{CONFIGURATION}state: {address('one')}\n") as shared:
        with files.serve(settings.onetool) as plain, shared.serve(settings.onetool) as team:
            team.initialize()
            plain.initialize()
            ours, peer = in_turns(
                settings.repetitions(30),
                Turn(lambda: expect(run(team, "1+1"), "2"), batch=50, warm_up=100),
                Turn(lambda: expect(run(plain, "1+1"), "2"), batch=50, warm_up=100),
            )
        yield Row('run("1+1") with PostgreSQL; peer: with files', "ms", ours, peer, bar=Bar(1.1, times=True))
        yield from over_http(settings, files, shared)
        yield from nodes(settings, address("nodes"))


def over_http(settings, files: Project, shared: Project) -> Iterator[Row]:
    with ExitStack() as stack:
        apis = []
        for project in (shared, files):
            api = Http(stack.enter_context(serving(settings.onetool, project)))
            wait_for(api)
            bundle = f"/tools/bundles/{uuid7()}"
            api.request("PUT", bundle, {"slug": "bench"})
            apis.append((api, bundle))

        def put(api: Http, bundle: str) -> float:
            return api.request("PUT", f"{bundle}/tools/t{uuid.uuid4().hex[:12]}/version/v1", PUT_BODY)[0]

        def store(api: Http, _: str) -> float:
            code = f"'{uuid.uuid4().hex}' * 4000"
            taken, reply = api.request("POST", "/api/runs", {"command": code})
            if "handle" not in reply["text"]:
                raise ServerProblem(f"not stored: {reply}")
            return taken

        for what, work in (("PUT of a tool", put), ("a run whose result of 128 kB is stored", store)):
            ours, peer = in_turns(
                settings.repetitions(15), *(Turn(lambda at=at: work(*at), batch=10, warm_up=5) for at in apis)
            )
            yield Row(f"{what}, with PostgreSQL; peer: with files", "ms", ours, peer)


def nodes(settings, address: str) -> Iterator[Row]:
    if not (shutil.which("wrk") or shutil.which("npx")):
        yield Row("throughput: skipped", "", note="wrk, or npx to fetch autocannon, is needed")
        return
    for count in NODES:
        with ExitStack() as stack:
            ports = []
            for _ in range(count):
                project = stack.enter_context(Project(f"state: {address}\n"))
                port = stack.enter_context(serving(settings.onetool, project))
                wait_for(Http(port))
                ports.append(port)
            taken = []
            for _ in range(settings.repetitions(5)):
                with ThreadPoolExecutor(count) as pool:
                    work = [pool.submit(measured, port, "tools/call", {"name": "run", "arguments": {"command": "1"}}) for port in ports]
                    # Milliseconds per request, for all servers together.
                    taken.append(1 / sum(1 / one.result()["ms"] for one in work))
        note = f"{1000 / Sample(tuple(taken)).median:.0f} runs a second on {os.cpu_count()} cores"
        yield Row(f'run("1") on {count} server{"s" if count > 1 else ""}, a request', "ms", Sample(tuple(taken)), note=note)
