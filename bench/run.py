#!/usr/bin/env python3
"""Benchmarks the release binary against a peer, both driven by the same MCP client. See README.md.

    python3 bench/run.py [TOPIC ...] [--onetool PATH] [--full] [--quick]

The first run creates a virtual environment next to this file; nothing is installed elsewhere.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".venv"
REQUIREMENTS = HERE / "requirements.txt"
TOPICS = ["core", "worker", "proxy", "http", "load", "files", "python", "team"]


def environment_python() -> Path:
    """Returns the interpreter of our own environment; creates the environment anew if the pinned versions changed."""
    python = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin") / "python"
    marker = ENVIRONMENT / "requirements.sha256"
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if python.exists() and marker.exists() and marker.read_text() == digest:
        return python
    print("preparing bench/.venv ...", file=sys.stderr)
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS], check=True)
    marker.write_text(digest)
    return python


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"which to run, of {', '.join(TOPICS)}; all if none is given")
    parser.add_argument("--onetool", type=Path, default=HERE.parent / "target/release/onetool", help="the binary to measure")
    parser.add_argument("--full", action="store_true", help="search a tree of 1 GB instead of 200 MB")
    parser.add_argument("--quick", action="store_true", help="a third of the repetitions")
    chosen = parser.parse_args()
    unknown = [topic for topic in chosen.topics if topic not in TOPICS]
    if unknown:
        parser.error(f"no topic {', '.join(unknown)}; there are {', '.join(TOPICS)}")
    chosen.topics = chosen.topics or TOPICS
    chosen.onetool = chosen.onetool.resolve()
    if not chosen.onetool.is_file():
        parser.error(f"{chosen.onetool} does not exist; build it with `cargo build --release`, or name it with --onetool")
    return chosen


def main() -> int:
    chosen = arguments()
    python = environment_python()
    if Path(sys.prefix).resolve() != ENVIRONMENT.resolve():
        os.execv(python, [str(python), str(Path(__file__).resolve()), *sys.argv[1:]])
    from suite import run_topics

    return run_topics(chosen)


if __name__ == "__main__":
    sys.exit(main())
