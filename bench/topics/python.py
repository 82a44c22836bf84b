"""Full Python: runs that need CPython, compared to `python3 -c` with the same code."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator

from measure import Sample, Turn, in_turns, memory_of, milliseconds
from report import Bar, Row
from subjects import Project, expect, run

# A class with a base needs full Python.
SMALL = "class A: pass\nclass B(A): pass\n1 + 1"
CALLS = "class A: pass\nclass B(A): pass\nfor i in range(100):\n    v = ot.version()\nv"
AT_ONCE = 16
SETTLE_SECONDS = 1.5


def rows(settings) -> Iterator[Row]:
    peer = lambda: milliseconds(lambda: subprocess.run([sys.executable, "-c", SMALL], check=True))
    with Project() as project:
        first = []
        for _ in range(settings.repetitions(6)):
            with project.serve(settings.onetool) as client:
                client.initialize()
                time.sleep(SETTLE_SECONDS)
                first.append(expect(run(client, SMALL), "2"))
        yield Row("full Python: the first run after the start", "ms", Sample(tuple(first)), bar=Bar(30))
        with project.serve(settings.onetool) as ours:
            ours.initialize()
            time.sleep(SETTLE_SECONDS)
            own, theirs = in_turns(
                settings.repetitions(15),
                Turn(lambda: expect(run(ours, SMALL), "2"), batch=10, warm_up=5),
                Turn(peer, batch=3, warm_up=1),
            )
            yield Row('full Python: run("1+1"), back to back', "ms", own, theirs, Bar(5))
            (calls,) = in_turns(settings.repetitions(10), Turn(lambda: expect(run(ours, CALLS), "."), batch=3, warm_up=2))
            yield Row("full Python: 100 native tool calls", "ms", calls, bar=Bar(8))
            together = [taken for _ in range(settings.repetitions(6)) for taken in at_once(ours)]
            yield Row(f"full Python: {AT_ONCE} runs at once, each", "ms", Sample(tuple(together)), bar=Bar(25))
            time.sleep(2 * SETTLE_SECONDS)  # Processes that were kept for a further burst end first.
            yield Row("idle memory with the zygote", "MB", memory_of(ours.pid).resident, bar=Bar(48))


def at_once(client) -> list[float]:
    """Sends all requests, then reads the replies as they arrive; returns the time of each."""
    started = {}
    for _ in range(AT_ONCE):
        client._next_id += 1
        message = {
            "jsonrpc": "2.0",
            "id": client._next_id,
            "method": "tools/call",
            "params": {"name": "run", "arguments": {"command": SMALL}},
        }
        started[client._next_id] = time.perf_counter()
        client._write(message)
    taken = []
    while started:
        reply = json.loads(client._read_line(time.perf_counter() + 60))
        if reply.get("id") in started:
            taken.append((time.perf_counter() - started.pop(reply["id"])) * 1e3)
            assert reply["result"]["content"][0]["text"] == "2", reply
    return taken
