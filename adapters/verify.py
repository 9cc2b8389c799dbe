"""`verify`: is this ledger whole, untouched, signed by those who may, and lawful?

One pass over the records in the order they were committed, over a snapshot that cannot be written, with no
store, model or server library loaded. The checks, in the order of the report:

    records      each row holds a canonical record of this ledger, in its place; from the founding on
    signatures   each is signed by a key that the ledger enrolled
    roles        that key's role signs such a record, and was enrolled, and not ended, when it did
    chains       versions count from 1, and each record names the digest of the one before; a stream's first
                 names what it hangs on: TaskOpened the founding, EvaluationOpened its PanelConvened
    law          every rule of the design's sections 3 and 4, derived again (adapters/verify_law.py)
    projections  what was derived from the events still is what follows from them
    evidence     what records commit to is there, or erased by name (adapters/verify_evidence.py)

The first four are in adapters/verify_records.py.

`tree`, `consistency`, `witnesses` and `time` are NOT CHECKED so far, and the report says so. A record is
parsed and hashed once. Memory grows with streams and items of evidence, not with bytes: see the modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

from ..domain.errors import NoInput
from ..domain.streams import LEDGER
from .findings import DIFFERS, Check, Report, counted, new_checks
from .reading import Source
from .signatures import Library, SignatureChecks, verifier
from .store.port import Row
from .verify_records import ROWS_AT_ONCE, Walk


class Difference(Protocol):
    """A row of a projection that is not what follows from the events."""

    @property
    def projection(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def expected(self) -> str: ...
    @property
    def found(self) -> str: ...


ProjectionsCheck = Callable[[Source], Iterable[Difference]]


def verify(
    source: Source,
    *,
    projections_check: ProjectionsCheck | None = None,
    anchored: bool = False,
    library: Library = "auto",
    threads: int | None = None,
) -> Report:
    """Check a whole ledger.

    `projections_check` holds the stored projections against the events. `anchored`: the founding was known
    to be the right one beforehand. `threads`: how many check signatures beside this one; by default as
    many as there are processors. Raises `NoInput` where there is no record at all, and what `source` raises.
    """
    known = list(source.stream(LEDGER))
    walk = _walked(source, known, library, threads)
    met = sorted(walk.met, key=lambda row: row.version)
    if met != known:
        # Asked by name the store answers other than row by row, as an index of its own may: what the rows
        # themselves say counts.
        walk = _walked(source, met, library, threads)
        said = counted(len(known), "record")
        walk.checks["records"].find(LEDGER, "one answer, by name and row by row", f"by name {said}")
    checks = walk.checks
    if walk.number == 0:
        raise NoInput(
            f"{source.location}: the ledger holds no record", hint="causebook init founds a ledger"
        )
    walk.evidence.finish(source)
    _projections(checks["projections"], source, projections_check)
    _records(checks["records"], source, walk.number)
    checks["tree"].skip("no tree is kept yet")
    checks["consistency"].skip("no earlier checkpoint or pin to hold it against")
    checks["witnesses"].skip("no policy given")
    checks["time"].skip("no timestamp on a checkpoint")
    return Report(
        location=source.location,
        origin=walk.origin,
        records=walk.number,
        streams=len(walk.heads),
        open_evaluations=tuple(walk.law.open_evaluations),
        founding=walk.founding,
        checks=tuple(checks.values()),
        anchored=anchored,
    )


def _walked(source: Source, expected: Sequence[Row], library: Library, threads: int | None) -> Walk:
    """One pass over all rows, where the stream `ledger` is expected to hold these."""
    with SignatureChecks(verifier(library), threads=threads) as signatures:
        walk = Walk(expected, new_checks(), signatures, verifier(library))
        rows = (row for _, row in source.rows())
        while some := list(islice(rows, ROWS_AT_ONCE)):
            walk.take(some)
        walk.finish()
    return walk


def _records(check: Check, source: Source, read_rows: int) -> None:
    stored = source.count()
    if stored != read_rows:
        check.find("the store", f"{stored} records, as it counts them", f"{read_rows} read")
    for line in source.anomalies:
        check.find("the store", "rows and triggers as causebook makes them", line)
    for line in source.index_faults():
        check.find("the store", "indices that hold what their tables hold", line)
    if check.status == "PASS":
        check.note = "canonical, complete from the founding"


def _projections(check: Check, source: Source, compare: ProjectionsCheck | None) -> None:
    if compare is None:
        check.skip("not asked for")
        return
    for difference in compare(source):
        place = f"{difference.projection} {difference.key}".rstrip()
        check.find(place, difference.expected, difference.found, DIFFERS)
    if check.status == "PASS":
        check.note = "agree with the events"
