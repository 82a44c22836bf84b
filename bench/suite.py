"""Runs topics one after the other, prints one table, writes out/results.json."""

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from report import Row, as_json, render

OUT = Path(__file__).resolve().parent / "out"
MODULES = {"core": "topics.core", "worker": "topics.worker", "proxy": "topics.proxy", "http": "topics.rest", "load": "topics.load", "files": "topics.files", "python": "topics.python", "team": "topics.team"}


@dataclass(frozen=True)
class Settings:
    """The settings that every topic gets."""

    onetool: Path
    full: bool
    quick: bool

    def repetitions(self, count: int) -> int:
        return max(3, count // 3) if self.quick else count


def run_topics(chosen: argparse.Namespace) -> int:
    settings = Settings(onetool=chosen.onetool, full=chosen.full, quick=chosen.quick)
    facts = machine(settings)
    built = settings.onetool.stat().st_mtime_ns
    rows: list[Row] = []
    failures: list[str] = []
    for topic in chosen.topics:
        print(f"{topic} ...", file=sys.stderr)
        started = time.monotonic()
        try:
            for row in importlib.import_module(MODULES[topic]).rows(settings):
                row.topic = topic
                rows.append(row)
                print(f"  {row.what}: {row.brief()}", file=sys.stderr)
        except Exception as error:  # noqa: BLE001 - a broken topic must not hide the others
            traceback.print_exc()
            failures.append(f"{topic}: {type(error).__name__}: {error}")
        print(f"{topic}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    failures += [f"{row.topic}: {row.what}: {row.failure}" for row in rows if row.failure]
    if settings.onetool.stat().st_mtime_ns != built:
        failures.append("the binary was built anew meanwhile: the rows are of two binaries")
    facts["load_after"] = load()
    print(render(rows, facts))
    OUT.mkdir(exist_ok=True)
    (OUT / "results.json").write_text(json.dumps(as_json(rows, facts, failures), indent=2) + "\n")
    for failure in failures:
        print(f"does not work: {failure}")
    return 1 if failures else 0


def machine(settings: Settings) -> dict:
    own = subprocess.run([settings.onetool, "--version"], capture_output=True, text=True, timeout=30, check=True)
    return {
        "onetool": own.stdout.strip(),
        "peer": f"FastMCP {version('fastmcp')} (pydantic-monty {version('pydantic-monty')}, mcp {version('mcp')})",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load_before": load(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def load() -> float:
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0
