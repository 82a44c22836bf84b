#!/usr/bin/env python3
"""Runs `cargo test` with the arguments given, and what failed once more, each test by itself.

Tests go through real processes, and a machine that does too much at once may be late for one of them. What fails by itself
too is broken. Every test that needed its second chance is named at the end, so that nobody has to look for it."""

import re
import subprocess
import sys

TARGET = re.compile(r"^\s+(?:Running (?:unittests )?(?P<path>\S+)|Doc-tests (?P<doc>\S+))")
FAILED = re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\. FAILED$")
AGAIN = re.compile(r"^error: (?:doc)?test failed, to rerun pass `(?P<options>[^`]+)`")
# More than this is not bad luck.
MOST = 12


def first_run(arguments: list[str]) -> tuple[int, list[tuple[str, str]]]:
    """The exit code, and which tests of which targets failed."""
    command = ["cargo", "test", "--no-fail-fast", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    failed: list[tuple[str, str]] = []
    names: list[str] = []
    for line in process.stdout:
        print(line, end="", flush=True)
        if TARGET.match(line):
            names = []
        elif found := FAILED.match(line.rstrip()):
            names.append(found["name"])
        elif found := AGAIN.match(line):
            failed += [(found["options"], name) for name in names] or [(found["options"], "")]
    return process.wait(), failed


def passes_alone(options: str, name: str, arguments: list[str]) -> bool:
    # Of all packages: with one package alone its dependencies would have other features, and be compiled anew.
    target = re.sub(r"-p \S+", "", options).split()
    command = ["cargo", "test", *arguments, *target, "--", "--exact", name]
    print(f"== once more: {' '.join(command)}", flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    print(done.stdout, end="", flush=True)
    return done.returncode == 0 and "1 passed" in done.stdout


def main() -> int:
    arguments = sys.argv[1:]
    code, failed = first_run(arguments)
    if code == 0:
        return 0
    if not failed or len(failed) > MOST or any(not name for _, name in failed):
        return code
    broken = [(options, name) for options, name in failed if not passes_alone(options, name, arguments)]
    for options, name in failed:
        verdict = "FAILED TWICE" if (options, name) in broken else "failed at first and passed by itself"
        print(f"== {name} ({options}): {verdict}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
