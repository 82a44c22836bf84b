"""The server itself compared to FastMCP's code mode: start, runs, tool calls, memory, large registries and results."""

import time
from collections.abc import Iterator

from measure import MEGABYTE, PeakMemory, Sample, Turn, in_turns, memory_of, more
from report import Bar, Row
from stdio_client import ServerProblem, StdioClient
from subjects import Project, execute, expect, onetool_in, peer, run, start_python_server, tool_files
from topics.official_client import rows as official_rows
from topics.steps import rows as step_rows

CALLS = 100
OUR_LOOP = "for i in range({calls}):\n    v = ot.version()\nv"
PEER_LOOP = "for i in range({calls}):\n    v = await call_tool('version', {{}})\nv"
EMPTY_LOOP = "for i in range(100):\n    v = 'done'\nv"
MANY_FILES, MANY_FUNCTIONS = 100, 50
# The peer scans all of its tools in every call; fewer calls give the same result.
PEER_CALLS_WITH_MANY = 10
SETTLE_SECONDS = 1.5
LARGE_BYTES = 100_000_000


def rows(settings) -> Iterator[Row]:
    yield from start(settings)
    yield from warm(settings)
    yield from step_rows(settings)
    yield from official_rows(settings)
    yield from many_tools(settings)
    yield from large_result(settings)


def start(settings) -> Iterator[Row]:
    """A new process each time; the files themselves are in the page cache."""
    initialized: dict[str, list[float]] = {"ours": [], "peer": []}
    first: dict[str, list[float]] = {"ours": [], "peer": []}

    def once(who: str, client: StdioClient) -> float:
        with client:
            client.initialize()
            initialized[who].append(client.since_start())
            expect(run(client, "1+1") if who == "ours" else execute(client, "1+1"), "2")
            first[who].append(client.since_start())
        return first[who][-1]

    with Project() as project:
        once("ours", project.serve(settings.onetool))
        once("peer", start_python_server("fastmcp_code_mode"))
        for taken in (*initialized.values(), *first.values()):
            taken.clear()
        in_turns(
            settings.repetitions(6),
            Turn(lambda: once("ours", project.serve(settings.onetool)), batch=5),
            Turn(lambda: once("peer", start_python_server("fastmcp_code_mode"))),
        )
    yield Row("start → initialize answered", "ms", sample(initialized["ours"]), sample(initialized["peer"]), Bar(30))
    yield Row("start → first run(\"1+1\") result", "ms", sample(first["ours"]), sample(first["peer"]), Bar(60))


def warm(settings) -> Iterator[Row]:
    rounds = settings.repetitions(15)
    with onetool_in(settings.onetool) as ours, peer() as other:
        own_ping, own, their_ping, theirs = in_turns(
            rounds,
            Turn(lambda: ours.request("ping").milliseconds, batch=30, warm_up=50),
            Turn(lambda: expect(run(ours, "1+1"), "2"), batch=30, warm_up=50),
            Turn(lambda: other.request("ping").milliseconds, batch=10, warm_up=20),
            Turn(lambda: expect(execute(other, "1+1"), "2"), batch=5, warm_up=10),
        )
        yield Row("ping: the transport alone", "ms", own_ping, their_ping)
        yield Row('run("1+1")', "ms", own, theirs, Bar(1 / 20, times=True))
        beyond = more(own, own_ping), more(theirs, their_ping)
        yield Row("… more than a ping: prepare, sandbox, present", "ms", *beyond)
        own, theirs = in_turns(
            rounds,
            Turn(lambda: expect(run(ours, "ot.version()"), "."), batch=30, warm_up=20),
            Turn(lambda: expect(execute(other, "await call_tool('version', {})"), "1.0.0"), batch=5, warm_up=5),
        )
        yield Row("one native tool call in a run", "ms", own, theirs)
        our_loop, peer_loop = OUR_LOOP.format(calls=CALLS), PEER_LOOP.format(calls=CALLS)
        own, theirs = in_turns(
            rounds,
            Turn(lambda: expect(run(ours, our_loop), "."), batch=8, warm_up=8),
            Turn(lambda: expect(execute(other, peer_loop), "1.0.0"), batch=1, warm_up=2),
        )
        yield Row(f"{CALLS} native tool calls in one run", "ms", own, theirs, Bar(1 / 40, times=True))
        time.sleep(SETTLE_SECONDS)  # Lets both sides free unused memory.
        own, theirs = memory_of(ours.pid), memory_of(other.pid)
        note = f"{own.processes} and {theirs.processes} processes"
        yield Row("idle memory of the tree, resident (RSS)", "MB", own.resident, theirs.resident, Bar(45), note)
        yield Row("idle memory of the tree, shared pages once (PSS)", "MB", own.proportional, theirs.proportional, Bar(45))
        sizes = [float(client.request("tools/list").size) for client in (ours, other)]
        yield Row("tools/list reply", "B", *sizes, Bar(1200))


def many_tools(settings) -> Iterator[Row]:
    """30 tools compared to 5,000: ours as Python tool files, the peer's registered in the server."""
    count = MANY_FILES * MANY_FUNCTIONS
    with Project() as few, Project() as many:
        tool_files(few, 1, 7)
        tool_files(many, MANY_FILES, MANY_FUNCTIONS)
        yield from many_started(settings, many, count)
        with (
            few.serve(settings.onetool) as ours_few,
            many.serve(settings.onetool) as ours_many,
            peer("--tools", "30") as peer_few,
            peer("--tools", str(count)) as peer_many,
        ):
            for client in (ours_few, ours_many):
                client.initialize()
            yield from inner_calls(settings, ours_few, ours_many, peer_few, peer_many, count)
            yield from discovery(settings, ours_many, peer_many, count)
            sizes = [float(client.request("tools/list").size) for client in (ours_many, peer_many)]
            yield Row(f"tools/list reply, {count:,} tools", "B", *sizes, Bar(1200))
            own, theirs = memory_of(ours_many.pid), memory_of(peer_many.pid)
            yield Row(f"idle memory (RSS), {count:,} tools", "MB", own.resident, theirs.resident)
    with Project() as plain, Project() as project:
        tool_files(project, 1000, 1)
        without, own = in_turns(
            settings.repetitions(9),
            Turn(lambda: until_answered(plain.serve(settings.onetool), "1+1"), warm_up=1),
            Turn(lambda: until_answered(project.serve(settings.onetool), "1+1"), warm_up=1),
        )
        yield Row("added to start → first run result by 1,000 tool files", "ms", more(own, without), bar=Bar(100))


def many_started(settings, many: Project, count: int) -> Iterator[Row]:
    initialized, answered, searched = [], [], []

    def once() -> float:
        with many.serve(settings.onetool) as client:
            client.initialize()
            initialized.append(client.since_start())
            expect(run(client, "1+1"), "2")
            answered.append(client.since_start())
            searched.append(expect(run(client, 'ot.help(query="fetch invoice")'), "fetch_invoice"))
        return answered[-1]

    once()
    for taken in (initialized, answered, searched):
        taken.clear()
    _, theirs = in_turns(
        settings.repetitions(3),
        Turn(once, batch=5),
        Turn(lambda: until_initialized(start_python_server("fastmcp_code_mode", "--tools", str(count)))),
    )
    yield Row(f"start → initialize answered, {count:,} tools", "ms", sample(initialized), theirs, Bar(60))
    yield Row(f"start → first run result, {count:,} tools", "ms", sample(answered), bar=Bar(60))
    yield Row(f"first ot.help after that, {count:,} tools", "ms", sample(searched))


def inner_calls(settings, ours_few, ours_many, peer_few, peer_many, count: int) -> Iterator[Row]:
    """Measures the cost of one more call in a run: a loop of calls minus an empty loop."""
    loop = OUR_LOOP.format(calls=CALLS)
    peer_loop = PEER_LOOP.format(calls=CALLS)
    peer_short = PEER_LOOP.format(calls=PEER_CALLS_WITH_MANY)
    found = in_turns(
        settings.repetitions(10),
        Turn(lambda: expect(run(ours_few, EMPTY_LOOP), "done"), batch=10, warm_up=5),
        Turn(lambda: expect(run(ours_few, loop), "."), batch=10, warm_up=5),
        Turn(lambda: expect(run(ours_many, EMPTY_LOOP), "done"), batch=10, warm_up=5),
        Turn(lambda: expect(run(ours_many, loop), "."), batch=10, warm_up=5),
        Turn(lambda: expect(execute(peer_few, EMPTY_LOOP), "done"), batch=1, warm_up=1),
        Turn(lambda: expect(execute(peer_few, peer_loop), "1.0.0"), batch=1, warm_up=1),
    )
    few_empty, few_loop, many_empty, many_loop, peer_empty, peer_looped = found
    own_few, own_many = more(few_loop, few_empty, CALLS), more(many_loop, many_empty, CALLS)
    their_few = more(peer_looped, peer_empty, CALLS)
    slow_empty, slow_loop = in_turns(
        3,
        Turn(lambda: expect(execute(peer_many, EMPTY_LOOP), "done"), warm_up=1),
        Turn(lambda: expect(execute(peer_many, peer_short), "1.0.0")),
    )
    their_many = more(slow_loop, slow_empty, PEER_CALLS_WITH_MANY)
    yield Row("one inner call, 30 tools", "ms", own_few, their_few)
    # "The same", with a margin for noise.
    yield Row(f"one inner call, {count:,} tools", "ms", own_many, their_many, Bar(own_few.median * 1.25), "bar: as with 30, +25 %")


def discovery(settings, ours: StdioClient, other: StdioClient, count: int) -> Iterator[Row]:
    def search() -> float:
        return expect(other.call("search", {"query": "work invoice 42", "limit": 10}), "work_invoice_42")

    rounds = settings.repetitions(10)
    (theirs,) = in_turns(3, Turn(search, warm_up=1))
    cases = [
        ('ot.tools(pattern="invoice_4")', "invoice_4"),
        ('ot.help(query="fetch invoice")', "fetch_invoice"),
        ('ot.help(query="serch cutsomer")', "customer"),
        ("len(ot.tools())", ""),
    ]
    for code, answer in cases:
        (own,) = in_turns(rounds, Turn(lambda: expect(run(ours, code), answer), batch=3, warm_up=2))
        searching = "help" in code or "pattern" in code
        note = "peer: its search tool" if searching else ""
        yield Row(f"{code}, {count:,} tools", "ms", own, theirs if searching else None, Bar(10) if searching else None, note)


def large_result(settings) -> Iterator[Row]:
    """One run whose value is 100 MB of text."""
    shapes = {"in lines": f'("x" * 99 + "\\n") * {LARGE_BYTES // 100}', "in one line": f'"x" * {LARGE_BYTES}'}
    for shape, code in shapes.items():
        with onetool_in(settings.onetool) as ours:
            expect(run(ours, "1+1"), "2")
            with PeakMemory(ours.pid) as watched:
                own = run(ours, code)
        with peer() as other:
            expect(execute(other, "1+1"), "2")
            with PeakMemory(other.pid) as watched_peer:
                size, took, note = peer_large(other, code)
        yield Row(f"100 MB result {shape}: reply", "B", float(own.size), size, Bar(4000), note)
        yield Row(f"100 MB result {shape}: time", "ms", own.milliseconds, took)
        limit = Bar(3 * LARGE_BYTES / MEGABYTE)
        yield Row(f"100 MB result {shape}: peak memory of the tree", "MB", watched.peak, watched_peer.peak, limit)


def peer_large(other: StdioClient, code: str) -> tuple[float | None, float | None, str]:
    try:
        reply = execute(other, code)
    except ServerProblem as problem:
        return None, None, f"peer: {str(problem)[:80]}"
    return float(reply.size), reply.milliseconds, ""


def until_initialized(client: StdioClient) -> float:
    with client:
        client.initialize()
        return client.since_start()


def until_answered(client: StdioClient, code: str) -> float:
    with client:
        client.initialize()
        run(client, code)
        return client.since_start()


def sample(values: list[float]) -> Sample:
    return Sample(tuple(values))
