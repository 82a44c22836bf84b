"""Compares `file.grep` to ripgrep on a generated tree: both must find the same number of lines."""

import random
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
from measure import Turn, in_turns, milliseconds
from report import Bar, Row
from stdio_client import ServerProblem
from subjects import Project, expect, run

FILE_BYTES = 40_000
FILES_A_FOLDER = 100
NEEDLES = 150
SEED = 7
WORDS = "value return index buffer stream length offset header record parser socket thread signal window memory cursor".split()
CASES = [
    ("a literal, few matches", "needle_of_gold"),
    ("a regular expression, few matches", r"needle_(of|in)_\w+"),
    ("ignoring case, few matches", r"(?i)NEEDLE_OF_GOLD"),
    ("a pattern without a match", r"\bzebra\d{4}\b"),
]


def rows(settings) -> Iterator[Row]:
    megabytes = 1000 if settings.full else 200
    ripgrep = shutil.which("rg")
    with Project() as project, project.serve(settings.onetool) as ours:
        count = generate(project.folder / "tree", megabytes * 1_000_000)
        ours.initialize()
        for title, pattern in CASES:
            title = f"file.grep: {title}, {megabytes} MB"
            code = f'len(file.grep(pattern=r"{pattern}", path="tree", output="matches", max_matches=1000)["matches"])'
            lines = run(ours, code).text
            own = Turn(lambda: expect(run(ours, code), lines), warm_up=1)
            if ripgrep is None:
                (found,) = in_turns(settings.repetitions(9), own)
                yield Row(title, "ms", found, note="no ripgrep here to compare with")
                continue
            command = [ripgrep, "--line-number", "--no-heading", "--color=never", pattern, "tree"]
            theirs = Turn(lambda: milliseconds(lambda: search(command, project.folder)), warm_up=1)
            if (other := search(command, project.folder)) != int(lines):
                raise ServerProblem(f"{pattern}: ours finds {lines} lines, ripgrep {other}")
            before = seconds_of(ours.pid), seconds_of_children()
            found, peers = in_turns(settings.repetitions(15), own, theirs)
            used = seconds_of(ours.pid) - before[0], seconds_of_children() - before[1]
            note = f"peer: {version(ripgrep)}, its start included; {count:,} files, {lines} lines match"
            yield Row(title, "ms", found, peers, Bar(1.5, times=True), note)
            # Less affected by other load on the machine than elapsed time.
            searches = len(found.values) + own.warm_up
            yield Row("… processor time", "ms", *(seconds / searches * 1e3 for seconds in used), Bar(1.5, times=True))


def generate(folder: Path, size: int) -> int:
    """Writes text files like source code, always the same; a few lines match the searches. Returns their number."""
    random_source = random.Random(SEED)
    lines = [" ".join(random_source.choices(WORDS, k=random_source.randint(3, 14))) for _ in range(5000)]
    count = size // FILE_BYTES
    marked = {count * number // NEEDLES for number in range(NEEDLES)}
    for number in range(count):
        if number % FILES_A_FOLDER == 0:
            (folder / f"part{number // FILES_A_FOLDER:04}").mkdir(parents=True)
        text, length = [], 0
        while length < FILE_BYTES:
            text.append(random_source.choice(lines))
            length += len(text[-1]) + 1
        if number in marked:
            text[len(text) // 2] = f"    needle_of_gold = {number}"
        (folder / f"part{number // FILES_A_FOLDER:04}" / f"file{number:05}.txt").write_text("\n".join(text) + "\n")
    return count


def seconds_of(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def seconds_of_children() -> float:
    """Returns the processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def search(command: list[str], folder: Path) -> int:
    """Runs ripgrep and returns the number of lines it printed."""
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    if done.returncode > 1:
        raise ServerProblem(f"ripgrep: {done.stderr.decode(errors='replace')[:300]}")
    return done.stdout.count(b"\n")


def version(ripgrep: str) -> str:
    shown = subprocess.run([ripgrep, "--version"], capture_output=True, text=True, timeout=30)
    return shown.stdout.split("\n")[0].split(" (")[0]
