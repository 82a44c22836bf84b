"""Makes many full-Python runs in a row: the server's memory, descriptors and processes must not grow.

    python3 bench/soak.py --onetool target/release/onetool --runs 10000
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from stdio_client import StdioClient

CODE = "class A: pass\nclass B(A): pass\nimport json\njson.dumps(sum(n for n in range(100)))"
# Growth between the first tenth and the end that is tolerated as noise.
MEMORY_MB, DESCRIPTORS, PROCESSES = 8, 4, 1


# Spare interpreters exit a second after the last run.
SETTLE_SECONDS = 2


def children(pid: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += [int(entry), *children(int(entry))]
    return found


def state(pid: int) -> tuple[float, int, int]:
    """Returns the resident megabytes of the process tree, the server's open descriptors and the process count."""
    tree = [pid, *children(pid)]
    pages = 0
    for one in tree:
        try:
            pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
        except OSError:
            pass
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(os.listdir(f"/proc/{pid}/fd")), len(tree)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--onetool", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=10_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, StdioClient([str(chosen.onetool.resolve()), "serve"], cwd=Path(folder)) as client:
        client.initialize()
        before = None
        for number in range(1, chosen.runs + 1):
            assert client.call("run", {"command": CODE}).text == "4950"
            if number == max(20, chosen.runs // 10):
                time.sleep(SETTLE_SECONDS)
                before = state(client.pid)
        time.sleep(SETTLE_SECONDS)
        after = state(client.pid)
    print(f"after a tenth: {before[0]:.1f} MB, {before[1]} descriptors, {before[2]} processes")
    print(f"at the end:    {after[0]:.1f} MB, {after[1]} descriptors, {after[2]} processes")
    grown = [late - early > most for early, late, most in zip(before, after, (MEMORY_MB, DESCRIPTORS, PROCESSES))]
    return 1 if any(grown) else 0


if __name__ == "__main__":
    sys.exit(main())
