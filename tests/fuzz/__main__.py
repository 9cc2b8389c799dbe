"""Coverage-guided fuzzing of every parser of bytes from outside, by atheris.

    python -m tests.fuzz --minutes 10               all of them in turn, one process at a time
    python -m tests.fuzz --minutes 1 --only note    one of them

Needs `pip install atheris`, which has wheels for some Pythons only. Prints, for each parser, how many inputs
it was given, how many of them in a second, how many were kept for reaching something new, and how many edges
were reached. What raised something else than a named error is kept as a file below `--folder`, once for each
place that raised it, with the traceback beside it. Exits 1 where there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .mutations import CHANGES, changed

if TYPE_CHECKING:
    from .targets import Target

INPUT_SECONDS_MAX = 20
MEMORY_MEGABYTES_MAX = 2048
LENGTH_MAX = 8 * 1024
"""Unless valid input is longer. What takes its time is tried elsewhere (test_parsers.py), with 100 KB."""


class Figures(NamedTuple):
    """What fuzzing one parser came to."""

    name: str
    executions: int
    seconds: int
    edges: int
    kept: int
    crashes: int

    @property
    def line(self) -> str:
        """A row of the table in docs/performance.md."""
        rate = self.executions // max(1, self.seconds)
        return (
            f"| {self.name} | {self.executions:,} | {rate:,} | {self.edges:,} | {self.kept:,} | "
            f"{self.crashes} |"
        )


def main() -> int:
    """Fuzz, print the figures; 1 where something crashed."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0, help="for all parsers together")
    options.add_argument("--only", metavar="NAME", help="one parser")
    options.add_argument("--folder", type=Path, help="for what crashed, by default a new one")
    given = options.parse_args()
    try:
        import atheris
    except ImportError:
        sys.stderr.write("error: atheris is not installed\nhint: pip install atheris\n")
        return 69
    with atheris.instrument_imports(include=["causebook", "tomllib"], enable_loader_override=False):
        from .targets import TARGETS
    if given.only not in (None, *TARGETS):
        sys.stderr.write(f"error: expected one of {', '.join(TARGETS)}\n")
        return 64
    targets = [TARGETS[given.only]] if given.only else list(TARGETS.values())
    folder = given.folder or Path(tempfile.mkdtemp(prefix="causebook-crashes-"))
    seconds = max(1, round(given.minutes * 60 / len(targets)))
    _say("| parser | inputs | a second | edges | kept | crashes |\n|---|---|---|---|---|---|")
    found = []
    for target in targets:
        found.append(_in_turn(atheris, target, seconds, folder))
        _say(found[-1].line)
    total = Figures("all", *(sum(column) for column in list(zip(*found, strict=True))[1:]))
    _say(f"{total.line}\n\n{total.seconds:,} s; what crashed is in {folder}")
    return 1 if total.crashes else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _in_turn(atheris: Any, target: Target, seconds: int, folder: Path) -> Figures:
    """Fuzz one parser in a child, since libFuzzer ends the process that it is done in."""
    place = folder / re.sub(r"[^a-zA-Z0-9]+", "-", target.name)
    place.mkdir(parents=True, exist_ok=True)
    target.seeds()  # made once, for all
    child = os.fork()
    if child == 0:
        log = os.open(place / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            _fuzz(atheris, target, seconds, place)
        finally:
            os._exit(70)
    _, status = os.waitpid(child, 0)
    told = (place / "log").read_text(errors="replace")
    crashes = sum(len(list(place.glob(f"{kind}-*"))) for kind in ("crash", "oom", "timeout"))
    crashes += len(list(place.glob("raised-*.input")))
    if status != 0 and not crashes:
        raise SystemExit(f"error: {target.name}: ended with {status}: {told[-2000:]}")
    return Figures(
        target.name,
        _last(r"stat::number_of_executed_units:\s*(\d+)", told),
        seconds,
        _last(r"\bcov: (\d+)", told),
        _last(r"stat::new_units_added:\s*(\d+)", told),
        crashes,
    )


def _last(pattern: str, told: str) -> int:
    found = re.findall(pattern, told)
    return int(found[-1]) if found else 0


def _fuzz(atheris: Any, target: Target, seconds: int, folder: Path) -> None:
    """Fuzz one parser in this process, which does not return from it."""
    seeds = target.seeds() or (b"",)
    length_max = max(LENGTH_MAX, *(2 * len(seed) for seed in seeds))
    corpus = tempfile.mkdtemp(prefix="corpus-", dir=folder)
    for number, seed in enumerate(seeds):
        Path(corpus, f"seed-{number}").write_bytes(seed)

    def mutate(data: bytes, size_max: int, number: int) -> bytes:
        chance = random.Random(number)
        if chance.random() < 0.5:
            mutated: bytes = atheris.Mutate(data, size_max)
            return mutated
        if chance.random() < 0.5:  # what is kept is mostly refused early, and its mutations too
            data = chance.choice(seeds)
        steps = [
            (chance.choice(list(CHANGES)), chance.randrange(2**31), chance.randrange(2**31))
            for _ in range(chance.choice((1, 1, 2, 3)))
        ]
        return changed(data, steps, chance.choice(seeds), bytes_max=size_max)

    arguments = [
        *(sys.argv[0], f"-max_total_time={seconds}", f"-max_len={length_max}"),
        *(f"-timeout={INPUT_SECONDS_MAX}", f"-rss_limit_mb={MEMORY_MEGABYTES_MAX}"),
        *(f"-artifact_prefix={folder}/", "-print_final_stats=1", corpus),
    ]
    atheris.Setup(arguments, _keeping(target.attempt, folder), custom_mutator=mutate)
    atheris.Fuzz()


def _keeping(attempt: Callable[[bytes], bool], folder: Path) -> Callable[[bytes], None]:
    """The parser, which goes on after an input that it should not have raised for, and keeps that."""

    def once(data: bytes) -> None:
        try:
            attempt(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it was not named
            frames = traceback.extract_tb(error.__traceback__)
            place = "".join(f"{frame.filename}:{frame.lineno}" for frame in frames)
            kept = hashlib.sha256(f"{type(error)} {place}".encode()).hexdigest()[:12]
            (folder / f"raised-{kept}.input").write_bytes(data)
            (folder / f"raised-{kept}.txt").write_text(ascii(traceback.format_exc()))

    return once


if __name__ == "__main__":
    sys.exit(main())
