"""`verify`: is this ledger whole, untouched, signed by those who may, and lawful?

One pass over the records in the order they were committed, over a snapshot that cannot be written, with no
store, model or server library loaded. The checks, in the order of the report:

    records      each row holds a canonical record of this ledger, in its place; from the founding on
    signatures   each is signed by a key that the ledger enrolled
    roles        that key's role signs such a record, and was enrolled, and not ended, when it did
    chains       versions count from 1, and each record names the digest of the one before; a stream's first
                 names what it hangs on: TaskOpened the founding, EvaluationOpened its PanelConvened
    tree         each checkpoint is signed by a log key in its span, over the rows as they are; stored tiles
                 agree with the rows (`sealed.py`, `tree.py`)
    consistency  it grew out of what was known of it before: a pin, a checkpoint, a trust file
                 (`held.py`)
    witnesses    others saw the same log, by a trust policy, and lately (`witnesses.py`)
    time         a timestamp authority saw a checkpoint, by a certificate that is given (`time.py`)
    law          every rule of the design's sections 3 and 4, derived again (`law.py`)
    projections  what was derived from the events still is what follows from them
    evidence     what records commit to is there, or erased by name (`evidence.py`)

The first four are in `records.py`. What was not checked is said, and why; one that has to pass and was not
run is a failure. A log is complete as of its newest checkpoint and never simply complete.

A record is parsed and hashed once. Memory grows with streams, checkpoints and items of evidence, not with
bytes: see the modules. From a pin only what came after it is checked in full (`pinned.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from ...domain.errors import BadData, NoInput
from ...domain.note import Verify
from ...domain.proof import ProofError, SplitView
from ...domain.record import digest
from ...domain.streams import LEDGER
from .. import split_view
from ..findings import (
    DIFFERS,
    UNVERIFIABLE,
    Check,
    CheckName,
    Report,
    counted,
    new_checks,
)
from ..reading import Source, Unreadable, read
from ..signature_checks import SignatureChecks
from ..signatures import Library, verifier
from ..store.port import CheckpointRow, Row
from .held import NOTHING, Against, Consistency, Facts, SignedBy
from .pin import Looked, Pin
from .pinned import Hashed, hashed, walk_from
from .records import ROWS_AT_ONCE, Walk
from .sealed import SealedCheck, retired_sizes
from .time import check_time
from .tree import LogTree
from .witnesses import Witnesses


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
_Checks = dict[CheckName, Check]
_RETIRED_SINCE: Final = (
    "all looked at again: a key lost its trust since the pin, for records before it"
)
_OF_THE_LOG: Final[tuple[CheckName, ...]] = ("tree", "consistency", "witnesses", "time")


def verify(
    source: Source,
    *,
    projections_check: ProjectionsCheck | None = None,
    why_no_projections: str = "not asked for",
    anchored: bool = False,
    library: Library = "auto",
    processes: int | None = None,
    whole: bool = True,
    enrolments_whole: bool = True,
    against: Against = NOTHING,
) -> Report:
    """Check a ledger.

    `projections_check` holds the stored projections against the events; without it `why_no_projections` is
    said. `anchored`: the founding was known to be the right one beforehand. `processes`: how many check
    signatures beside this one, as `SignatureChecks` has it. `whole`: the source holds all
    records, so that there is a log to speak of. `enrolments_whole`: it holds all of the stream `ledger`, so
    that a key which is not named there is nobody's, and not one that is unknown here. `against`: what the
    ledger is held against, and what has to pass. Raises `NoInput` where there is no record at all, and what
    `source` raises.
    """
    look = _Look(source, against, library, processes, whole, enrolments_whole)
    passed = look.from_pin() if against.from_pin and whole else None
    if passed is None:
        passed = look.in_full()
    walk, tree, pinned = passed
    checks = walk.checks
    if tree.size == 0:
        raise NoInput(
            f"{source.location}: the ledger holds no record", hint="causebook init founds a ledger"
        )
    facts, split = None, None
    if whole:
        facts = look.facts(passed)
        consistency = Consistency(checks["consistency"], facts, against)
        witnesses = Witnesses(checks["witnesses"], facts, against)
        consistency.run()
        witnesses.run()
        check_time(checks["time"], facts, against)
        anchored = anchored or consistency.anchored or witnesses.anchored
        contradicted = [*consistency.contradicted, *witnesses.contradicted]
        agreed = [(each.signed, each.key) for each in facts.sealed]
        agreed += [*consistency.agreed, *witnesses.agreed]
        split = _split_view(contradicted, agreed, tree, source)
    else:
        for name in _OF_THE_LOG:
            checks[name].skip("a part of the log tells nothing of it")
    if pinned is None:
        _projections(checks["projections"], source, projections_check, why_no_projections)
    else:
        checks["projections"].skip("not from a pin: a full verify compares them")
    _records(checks["records"], source, tree.size)
    if pinned is not None:
        _earlier(checks, pinned[0])
    elif look.why_in_full:
        note = checks["roles"].note
        checks["roles"].note = f"{note}; {look.why_in_full}" if note else look.why_in_full
    _required(checks, against)
    return Report(
        location=source.location,
        origin=walk.origin,
        records=tree.size,
        streams=len(walk.heads) if pinned is None else pinned[1].streams,
        open_evaluations=tuple(walk.law.open_evaluations),
        founding=walk.founding,
        checks=tuple(checks.values()),
        anchored=anchored,
        sealed=facts.sealed[-1].size if facts is not None and facts.sealed else None,
        from_pin=None if pinned is None else pinned[0],
        looked=None if facts is None else _looked(facts),
        split_view=split,
    )


_Pinned = tuple[Pin, Hashed]
_Passed = tuple[Walk, LogTree, _Pinned | None]


@dataclass
class _Look:
    """One look at a source: the pass over its rows, and what it came to.

    `why_in_full`: after `from_pin`, why a look from a pin that holds is not enough, or nothing.
    """

    source: Source
    against: Against
    library: Library
    processes: int | None
    whole: bool
    enrolments_whole: bool

    def __post_init__(self) -> None:
        self.verify: Verify = verifier(self.library)
        self.checkpoints: Sequence[CheckpointRow] = self.source.checkpoints() if self.whole else ()
        self.why_in_full = ""

    def in_full(self) -> _Passed:
        """Check every row. The stream `ledger` is read beforehand, to know which keys come later."""
        known = list(self.source.stream(LEDGER))
        walk, tree = self._walked(known)
        met = sorted(walk.met, key=lambda row: row.version)
        if met != known:
            # Asked by name the store answers other than row by row, as an index of its own may: what the rows
            # themselves say counts.
            walk, tree = self._walked(met)
            said = counted(len(known), "record")
            walk.checks["records"].find(
                LEDGER, "one answer, by name and row by row", f"by name {said}"
            )
        return walk, tree, None

    def from_pin(self) -> _Passed | None:
        """Hash what was verified before, and check the rest; None where there is no pin that holds."""
        known = list(self.source.stream(LEDGER))
        pin = self.against.pin_of(_origin(known))
        if pin is None:
            return None
        checks = new_checks()
        tree = self._tree(known, checks)
        found = hashed(self.source, tree, pin)
        if found is None or found.ledger != known:
            return None  # a full look says what is wrong
        if found.distrusts:
            self.why_in_full = _RETIRED_SINCE
            return None
        with SignatureChecks(self.library, processes=self.processes) as signatures:
            walk = Walk(found.ledger, checks, signatures, self.verify)
            walk_from(self.source, found, walk)
            walk.evidence.finish_named(self.source)  # while the last signatures are checked
            walk.finish()
        return walk, tree, (pin, found)

    def facts(self, passed: _Passed) -> Facts:
        """Answer the check `tree`, and what the checks after it build on."""
        walk, tree, _ = passed
        sealed = SealedCheck(walk.checks["tree"], walk, tree, self.verify)
        return Facts(
            origin=walk.origin,
            founding=walk.founding,
            keyring=walk.keyring,
            digests={row.version: digest(row.record) for row in walk.met},
            ordinals={row.version: at for row, at in zip(walk.met, walk.ordinals, strict=True)},
            tree=tree,
            stored_sizes={row.size for row in self.checkpoints},
            sealed=sealed.run(self.checkpoints),
            verify=self.verify,
        )

    def _walked(self, expected: Sequence[Row]) -> tuple[Walk, LogTree]:
        """One pass over all rows, where the stream `ledger` is expected to hold these."""
        checks = new_checks()
        tree = self._tree(expected, checks)
        with SignatureChecks(self.library, processes=self.processes) as signatures:
            walk = Walk(expected, checks, signatures, self.verify)
            walk.enrolments_whole = self.enrolments_whole
            rows = self.source.rows()
            while some := list(islice(rows, ROWS_AT_ONCE)):
                tree.take(some)
                walk.take([row for _, row in some])
            walk.evidence.finish(self.source)  # while the last signatures are checked
            walk.finish()
        return walk, tree

    def _tree(self, ledger: Sequence[Row], checks: _Checks) -> LogTree:
        if not self.whole:
            return LogTree()
        wanted = [row.size for row in self.checkpoints]
        wanted += retired_sizes(ledger)
        wanted += self.against.sizes(_origin(ledger))
        return LogTree(wanted, source=self.source, check=checks["tree"])


def _origin(ledger: Iterable[Row]) -> str:
    """The origin that the first readable record of the stream `ledger` names; else nothing."""
    for row in ledger:
        try:
            return read(row)[0].ledger
        except Unreadable:
            continue
    return ""


def _looked(facts: Facts) -> Looked:
    version = max(facts.digests, default=0)
    newest = facts.sealed[-1] if facts.sealed else None
    return Looked(
        origin=facts.origin,
        founding=facts.founding,
        root_key=facts.root_key,
        ledger_version=version,
        ledger_digest=facts.digests.get(version, ""),
        size=facts.tree.size,
        root=facts.tree.root(),
        checkpoint=None if newest is None else newest.signed,
        checkpoints=0 if newest is None else facts.stored_up_to(newest.size),
    )


def _split_view(
    contradicted: Sequence[SignedBy], agreed: Sequence[SignedBy], tree: LogTree, source: Source
) -> SplitView | None:
    """Two checkpoints by one log key of which the rows agree with one, the larger, and not with the other."""
    for signed, key in contradicted:
        for other, by in agreed:
            if by != key or other.checkpoint.size < signed.checkpoint.size:
                continue
            try:
                return split_view.find(signed, other, tree.reader(source))
            except (
                ProofError
            ):  # rows that are not read again as they were: another check names them
                continue
    return None


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


def _projections(
    check: Check, source: Source, compare: ProjectionsCheck | None, why_not: str
) -> None:
    if compare is None:
        check.skip(why_not)
        return
    try:
        for difference in compare(source):
            place = f"{difference.projection} {difference.key}".rstrip()
            check.find(place, difference.expected, difference.found, DIFFERS)
    except BadData:
        check.skip("nothing is derived from records that do not hold")
    if check.status == "PASS":
        check.note = "agree with the events"


def _earlier(checks: _Checks, pin: Pin) -> None:
    """Say for each check what was taken from the look that the pin is of."""
    size, date = pin.seen.size, pin.date
    before = f"the first {size:,} verified by {date}"
    for name in ("signatures", "roles", "chains", "law", "evidence"):
        checks[name].earlier = before
    checks["records"].earlier = f"{before}, hashed again"


def _required(checks: _Checks, against: Against) -> None:
    """A check that has to pass and was not run has failed."""
    names = set(against.required)
    if against.policy is not None:
        names.add("witnesses")
    for name, check in checks.items():
        if name in names and check.status == "NOT CHECKED":
            check.find("required", "a check that was run", check.note, UNVERIFIABLE)
            check.note = ""
