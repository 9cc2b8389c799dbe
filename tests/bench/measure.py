"""What is common to the measurements: medians of interleaved rounds, and what they ran on."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

ROUNDS = 5


@dataclass(frozen=True)
class Ratio:
    """A floor's time over ours, the median of the rounds' own ratios: 1 is as fast as the floor.

    `promise`: the least it may be. `ours` and `floor`: what each does a second, in `unit`.
    """

    name: str
    floor_name: str
    promise: float | None
    ratios: tuple[float, ...]
    ours: float
    floor: float
    unit: str

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def holds(self) -> bool:
        return self.promise is None or self.ratio >= self.promise


def compared(
    name: str,
    floor_name: str,
    promise: float | None,
    rounds: list[tuple[float, float]],
    count: int,
    unit: str,
) -> Ratio:
    """The ratio of rounds of (seconds of the floor, seconds of ours), each over `count` things."""
    return Ratio(
        name,
        floor_name,
        promise,
        tuple(floor / ours for floor, ours in rounds),
        ours=count / statistics.median(ours for _, ours in rounds),
        floor=count / statistics.median(floor for floor, _ in rounds),
        unit=unit,
    )


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


@dataclass(frozen=True)
class Machine:
    """What it ran on."""

    processor: str
    cores: int
    memory_gib: float
    python: str
    sqlite: str
    libraries: str
    date: str

    @classmethod
    def here(cls) -> Machine:
        names = ("eventsourcing", "cryptography", "PyNaCl", "isal", "pydantic", "orjson")
        return cls(
            processor=_processor(),
            cores=len(os.sched_getaffinity(0)),
            memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
            python=platform.python_version(),
            sqlite=sqlite3.sqlite_version,
            libraries=", ".join(f"{name} {metadata.version(name)}" for name in names),
            date=datetime.now(UTC).date().isoformat(),
        )

    def __str__(self) -> str:
        return (
            f"{self.date}: {self.processor}, {self.cores} cores, {self.memory_gib:.0f} GiB, "
            f"Python {self.python}, SQLite {self.sqlite}, {self.libraries}"
        )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
