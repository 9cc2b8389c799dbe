"""Verifying a whole ledger, against the checks of its signatures alone.

Ours: `verify` as the command runs it, every check but that of the projections, over a snapshot.

The floor: each signature of the ledger checked once by the same library, one after the other, over bytes that
are at hand. Ours has other processes check them where there is more than one processor; with one process for
everything it is another line, which has no promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from causebook.adapters.signatures import Library, verifier
from causebook.adapters.store.snapshot import open_snapshot
from causebook.adapters.verification.verify import verify
from causebook.domain.events import KeyEnrolled, LedgerFounded, event_from
from causebook.domain.keyring import keyid_of, raw_key, spki_of
from causebook.domain.record import parse
from causebook.domain.streams import LEDGER

from .measure import ROUNDS, Ratio, compared, seconds

FLOOR = "its signature checks alone, by the same library"
PROMISE = 0.8


MEASURED: tuple[tuple[Library, int | None, float | None], ...] = (
    ("openssl", None, PROMISE),
    ("libsodium", None, PROMISE),
    ("openssl", 0, None),
    ("libsodium", 0, None),
)
"""(library, processes beside this one, the least the ratio may be); None: as many as are of use."""


@dataclass(frozen=True)
class Verified:
    """The measurements, and how large the ledger was."""

    ratios: tuple[Ratio, ...]
    records: int


def measure(url: str) -> Verified:
    """Verify the ledger at `url` `ROUNDS` times, between as many rounds of its signature checks."""
    jobs = _signatures(url)
    ratios = []
    for library, processes, promise in MEASURED:
        how = f"{library}, one process" if processes == 0 else library
        rounds = []
        for _ in range(ROUNDS):
            floor = seconds(_checks(jobs, library))
            rounds.append((floor, seconds(_verification(url, library, processes))))
        ratios.append(compared(f"verify ({how})", FLOOR, promise, rounds, len(jobs), "records/s"))
    return Verified(tuple(ratios), len(jobs))


Job = tuple[bytes, bytes, bytes]
"""(public key, signature, message)."""


def _checks(jobs: list[Job], library: Library) -> Callable[[], None]:
    check = verifier(library)

    def run() -> None:
        for job in jobs:
            if not check(*job):
                raise ValueError("a signature does not hold")

    return run


def _verification(url: str, library: Library, processes: int | None) -> Callable[[], None]:
    def run() -> None:
        with open_snapshot(url) as snapshot:
            report = verify(snapshot, library=library, processes=processes)
        if report.findings:
            raise ValueError(f"the ledger does not hold: {report.findings[0]}")

    return run


def _signatures(url: str) -> list[Job]:
    keys: dict[str, bytes] = {}
    jobs = []
    with open_snapshot(url) as snapshot:
        for row in snapshot.stream(LEDGER):
            event = event_from(row.type, parse(row.record).data)
            if isinstance(event, LedgerFounded | KeyEnrolled):
                text = event.root_key if isinstance(event, LedgerFounded) else event.public_key
                public = raw_key(text)
                keys[keyid_of(spki_of(public))] = public
        for _, row in snapshot.rows():
            record = parse(row.record)
            jobs.append((keys[record.keyid], record.signature, record.signed_bytes()))
    return jobs
