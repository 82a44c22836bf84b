"""The times of a run's steps, from the server's log: preparing and presenting, compared to execution in the sandbox."""

import json
from collections.abc import Iterator

from measure import Sample
from report import Bar, Row
from stdio_client import ServerProblem
from subjects import Project, expect, run

# Name in the table: code, and text that the reply must contain.
COMMANDS = {
    "1+1": ("1+1", "2"),
    "a loop over a tool, in a fence": ("```python\nfound = []\nfor i in range(10):\n    found.append(ot.version())\n{'count': len(found)}\n```", "10"),
}
WARM_UP = 50


def rows(settings) -> Iterator[Row]:
    runs = settings.repetitions(400)
    for name, (code, answer) in COMMANDS.items():
        with Project() as project:
            with project.serve(settings.onetool) as client:
                client.initialize()
                for _ in range(WARM_UP + runs):
                    expect(run(client, code), answer)
            steps = logged(project)[WARM_UP:]
        if len(steps) < runs:
            raise ServerProblem(f"the log tells of {len(steps)} runs, not of {runs}")
        around = [step["prepare_ms"] + step["present_ms"] for step in steps]
        inside = [step["execute_ms"] for step in steps]
        bar = Bar(0.05) if name == "1+1" else None
        yield Row(f"{name}: prepare and present", "ms", Sample(tuple(around)), Sample(tuple(inside)), bar, "peer: its own time in the sandbox")


def logged(project: Project) -> list[dict]:
    """Returns the log entries of whole runs. The log is complete once the server has ended."""
    lines = [line for file in sorted((project.folder / ".onetool/logs").iterdir()) for line in file.read_text().splitlines()]
    return [entry for line in lines if (entry := json.loads(line)).get("span") == "run" and "prepare_ms" in entry]
