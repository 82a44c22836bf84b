"""Time samples, taken in turns, and the memory of process trees."""

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

MEGABYTE = 1_000_000
# How often the process tree is listed again while its peak is measured; in between, only known processes are read.
RELIST_SECONDS = 0.02


@dataclass(frozen=True)
class Sample:
    """Repeated measurements of one thing."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]

    @property
    def best(self) -> float:
        return min(self.values)

    def as_json(self) -> dict:
        return {"median": self.median, "p95": self.p95, "best": self.best, "worst": max(self.values), "n": len(self.values)}


@dataclass(frozen=True)
class Difference:
    """The difference between two samples, of their medians and of their best values."""

    median: float
    best: float

    def as_json(self) -> dict:
        return {"median": self.median, "best": self.best}


def more(one: Sample, other: Sample, share: int = 1) -> Difference:
    """Returns `one` minus `other`, divided by `share`."""
    return Difference((one.median - other.median) / share, (one.best - other.best) / share)


@dataclass(frozen=True)
class Turn:
    """One contestant: `once` does the work and returns its milliseconds; each round calls it `batch` times in a row."""

    once: Callable[[], float]
    batch: int = 1
    warm_up: int = 0


def in_turns(rounds: int, *turns: Turn) -> list[Sample]:
    """Measures all in batches, in turns, round after round, so that other load on the machine affects all equally."""
    for turn in turns:
        for _ in range(turn.warm_up):
            turn.once()
    values: list[list[float]] = [[] for _ in turns]
    for _ in range(rounds):
        for turn, taken in zip(turns, values, strict=True):
            taken.extend(turn.once() for _ in range(turn.batch))
    return [Sample(tuple(taken)) for taken in values]


def milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


@dataclass(frozen=True)
class Memory:
    """Memory of a whole process tree in MB: RSS, and PSS, which divides shared pages among the processes."""

    resident: float
    proportional: float
    processes: int


def tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def memory_of(pid: int) -> Memory:
    resident = proportional = 0
    processes = tree(pid)
    for process in processes:
        info = process.memory_full_info()
        resident += info.rss
        proportional += getattr(info, "pss", info.rss)
    return Memory(resident / MEGABYTE, proportional / MEGABYTE, len(processes))


class PeakMemory:
    """Samples the resident memory of a process tree on a thread; `peak` is in MB, valid after the block."""

    def __init__(self, pid: int) -> None:
        self.peak = 0.0
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(timeout=10)

    def _watch(self) -> None:
        known: list[psutil.Process] = []
        listed = 0.0
        while not self._done.wait(0.001):
            if time.monotonic() - listed > RELIST_SECONDS:
                known, listed = tree(self._pid), time.monotonic()
            total = 0
            for process in known:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak = max(self.peak, total / MEGABYTE)
