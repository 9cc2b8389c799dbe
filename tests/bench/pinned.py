"""Verifying a whole log from a pin, against verifying it in full.

Ours: `verify` from the pin of an earlier look, over a log that grew by one task since: every row is hashed
into the tree, whose root has to be the pin's, and what came since is checked in full.

The floor, which here is to be beaten, is `verify` of the same log in full, with as many threads. Neither
compares projections.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from causebook.adapters.store.snapshot import open_snapshot
from causebook.adapters.verification.held import Against
from causebook.adapters.verification.pin import Pin
from causebook.adapters.verification.verify import verify
from tests.adapters.forge import Forge, long_ledger, reads, verdict
from tests.attacks.intruder import stored

from .measure import ROUNDS, Ratio, compared, seconds

NAME = "verify from a pin"
FLOOR = "a full verify of the same log"
PROMISE = 5.0
TASKS = 300


def measure(folder: Path) -> Ratio:
    """Verify a log of some 22,000 records `ROUNDS` times in full and from a pin, in turns."""
    url = f"sqlite:///{folder / 'pinned.db'}"
    forge = long_ledger(TASKS)
    looked = verify(forge.source()).looked
    if looked is None:
        raise ValueError("the log does not hold")
    pin = Pin(looked, (), "2026-11-29T09:00:00Z")
    _grow(forge)
    stored(forge, url)
    rounds = [
        (
            seconds(_verification(url, Against(pins=[pin]))),
            seconds(_verification(url, Against(pins=[pin], from_pin=True))),
        )
        for _ in range(ROUNDS)
    ]
    name = f"{NAME} ({looked.size:,} of {len(forge.rows):,} records)"
    return compared(name, FLOOR, PROMISE, rounds, len(forge.rows), "records/s")


def _grow(forge: Forge) -> None:
    forge.open_task("T-new")
    forge.panel("T-new", {"security": [reads("src/app.py"), verdict("pass")]})


def _verification(url: str, against: Against) -> Callable[[], None]:
    def run() -> None:
        with open_snapshot(url) as snapshot:
            report = verify(snapshot, against=against)
        if report.findings or (report.from_pin is not None) != against.from_pin:
            raise ValueError(f"the log does not hold: {report.findings[:1]}")

    return run
