"""Extension tools in their worker, compared to the same tool in FastMCP, called by the client, one call per request."""

from collections.abc import Iterator

from measure import Sample, Turn, in_turns, more
from report import Bar, Row
from stdio_client import StdioClient
from subjects import Project, execute, expect, peer, run, start_python_server

TOOL_FILE = '''"""Sums."""

pack = "sums"


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: Another.
    """
    return a + b
'''
CALL = "sums.add(a=1, b=2)"
LOOP = "for i in range(100):\n    v = sums.add(a=i, b=2)\nv"
EMPTY_LOOP = "for i in range(100):\n    v = i + 2\nv"
PEER_LOOP = "for i in range(100):\n    v = await call_tool('version', {})\nv"


def rows(settings) -> Iterator[Row]:
    with Project() as project:
        project.write(".onetool/tools/sums/sums_tools.py", TOOL_FILE)
        first = Sample(tuple(until_called(project.serve(settings.onetool)) for _ in range(settings.repetitions(5))))
        peer_first = Sample(tuple(until_called_directly() for _ in range(settings.repetitions(3))))
        yield Row("start → first call of the tool", "ms", first, peer_first, note="worker started on the way")
        with (
            project.serve(settings.onetool) as ours,
            start_python_server("fastmcp_direct") as direct,
            peer() as code_mode,
        ):
            ours.initialize()
            direct.initialize()
            yield from calls(settings, ours, direct)
            yield from loops(settings, ours, direct, code_mode)


def calls(settings, ours: StdioClient, direct: StdioClient) -> Iterator[Row]:
    plain, own, theirs = in_turns(
        settings.repetitions(15),
        Turn(lambda: expect(run(ours, "1+2"), "3"), batch=20, warm_up=30),
        Turn(lambda: expect(run(ours, CALL), "3"), batch=20, warm_up=30),
        Turn(lambda: expect(direct.call("add", {"a": 1, "b": 2}), "3"), batch=10, warm_up=30),
    )
    yield Row("run with one warm call of a worker's tool", "ms", own, theirs)
    yield Row("… more than the same run without the call", "ms", more(own, plain), bar=Bar(0.3))


def loops(settings, ours: StdioClient, direct: StdioClient, code_mode: StdioClient) -> Iterator[Row]:
    def hundred_requests() -> float:
        return sum(expect(direct.call("add", {"a": index, "b": 2}), str(index + 2)) for index in range(100))

    empty, own, theirs, in_code = in_turns(
        settings.repetitions(10),
        Turn(lambda: expect(run(ours, EMPTY_LOOP), "101"), batch=10, warm_up=10),
        Turn(lambda: expect(run(ours, LOOP), "101"), batch=5, warm_up=5),
        Turn(hundred_requests, warm_up=1),
        Turn(lambda: expect(execute(code_mode, PEER_LOOP), "1.0.0"), warm_up=1),
    )
    yield Row("100 calls in one run; peer: 100 requests", "ms", own, theirs, Bar(30))
    yield Row("100 calls in one run; peer: its code mode", "ms", own, in_code)
    yield Row("one call more in a run", "ms", more(own, empty, 100), theirs.median / 100, Bar(0.3))


def until_called(client: StdioClient) -> float:
    with client:
        client.initialize()
        expect(run(client, CALL), "3")
        return client.since_start()


def until_called_directly() -> float:
    with start_python_server("fastmcp_direct") as client:
        client.initialize()
        expect(client.call("add", {"a": 1, "b": 2}), "3")
        return client.since_start()
