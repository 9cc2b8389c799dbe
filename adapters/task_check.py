"""One task, read and checked: all its records and the ledger's own, in the order they were committed.

`check_task` is `verify` over those records alone: signatures, roles, chains and law are held to just as in
the whole ledger, and the evidence that they commit to is looked at. Where a record's ordinal in the whole log
matters (trust in a retired key ends at a size), and for projections, `causebook verify` is to be asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..domain.errors import NoInput
from ..domain.events import EvidenceErased
from ..domain.evidence import commitments_of
from ..domain.streams import LEDGER, evaluations_prefix, task_stream
from ..projections.facts import TaskFacts, read_stream
from .findings import DIFFERS, INTACT, MEANINGS, CheckName, Finding
from .reading import Source, Unreadable, read
from .store.port import CheckpointRow, EvidenceRow, Row, TileRow
from .verification.verify import verify

CHECKED: Final[tuple[CheckName, ...]] = (
    *("records", "signatures", "roles", "chains", "law", "evidence"),
)
_ITEMS_AT_ONCE: Final = 64


@dataclass(frozen=True)
class TaskRows:
    """The rows of one task and of the stream `ledger`, in commit order: itself a `Source` of just those.

    Evidence is read from `source` when it is asked for, so only while that is open.
    """

    task: str
    location: str
    numbered: Sequence[tuple[int, Row]]
    source: Source
    anomalies: Sequence[str] = ()

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        """(number, row): a number here is the ordinal of the row in the whole log, from 0."""
        return iter(self.numbered)

    def stream(self, name: str) -> list[Row]:
        """The rows of one stream, by version."""
        found = [row for _, row in self.numbered if row.stream == name]
        return sorted(found, key=lambda row: row.version)

    def streams(self, prefix: str = "") -> list[str]:
        """The names of the streams that begin with `prefix`."""
        return sorted({row.stream for _, row in self.numbered if row.stream.startswith(prefix)})

    def count(self) -> int:
        """How many records there are."""
        return len(self.numbered)

    def index_faults(self) -> Sequence[str]:
        """None: the store's own indices are looked at with the whole ledger."""
        return ()

    def position(self, projection: str) -> None:
        """None: a part of a log has no tree and no projections."""

    def tile(self, level: int, number: int) -> None:
        """None, likewise."""

    def tiles(self) -> Iterator[TileRow]:
        """None, likewise."""
        return iter(())

    def tree_size(self) -> int:
        """0, likewise."""
        return 0

    def checkpoint(self, size: int | None = None) -> None:
        """None: a checkpoint is of the whole log."""

    def checkpoints(self) -> Sequence[CheckpointRow]:
        """None, likewise."""
        return ()

    def erasures(self) -> tuple[Mapping[str, int], EvidenceErased | None]:
        """Up to which version of each stream evidence was erased by name, and the newest erasure.

        What was recorded later cannot have been erased before: a claim to it covers none of it.
        """
        heads: dict[str, int] = {}
        erased: dict[str, int] = {}
        newest: EvidenceErased | None = None
        for _, row in self.numbered:
            heads[row.stream] = row.version
            if row.stream != LEDGER:
                continue
            try:
                event = read(row)[1]
            except Unreadable:
                continue  # the check of the records says so
            if isinstance(event, EvidenceErased) and event.task == self.task:
                newest = event
                for gone in event.streams:
                    known = min(gone.version, heads.get(gone.stream, 0))
                    erased[gone.stream] = max(known, erased.get(gone.stream, 0))
        return erased, newest

    def evidence(self, commitment: str) -> EvidenceRow | None:
        """One item of evidence."""
        return self.source.evidence(commitment)

    def evidence_items(self, commitments: Sequence[str]) -> Iterator[EvidenceRow]:
        """A few items of evidence, those that are there."""
        return self.source.evidence_items(commitments)

    def evidence_commitments(self) -> Iterator[tuple[str, str]]:
        """(commitment, task) of the evidence that these records commit to, and that is there, sorted."""
        named = sorted(self._named())
        for first in range(0, len(named), _ITEMS_AT_ONCE):
            rows = self.source.evidence_items(named[first : first + _ITEMS_AT_ONCE])
            yield from sorted((row.commitment, row.task) for row in rows)

    def _named(self) -> set[str]:
        named: set[str] = set()
        for _, row in self.numbered:
            try:
                named.update(commitments_of(read(row)[1]))
            except Unreadable:
                continue
        return named

    def facts(self) -> TaskFacts:
        """What is recorded of the task. Raises `BadData` naming a record that cannot be read."""
        own = task_stream(self.task)
        entries = {
            name: read_stream(name, [row.record for row in self.stream(name)])
            for name in self.streams(evaluations_prefix(self.task))
        }
        return TaskFacts(
            self.task, read_stream(own, [row.record for row in self.stream(own)]), entries
        )


def task_rows(source: Source, task: str) -> TaskRows:
    """Read the task named `task`. Raises `NoInput` where nothing is recorded of it."""
    own, prefix = task_stream(task), evaluations_prefix(task)
    numbered = [
        (number, row)
        for number, (_, row) in enumerate(source.rows())
        if row.stream == LEDGER or row.stream == own or row.stream.startswith(prefix)
    ]
    if all(row.stream == LEDGER for _, row in numbered):
        raise NoInput(
            f"task {task}: nothing is recorded of it in {source.location}",
            hint="causebook tasks lists what is",
        )
    return TaskRows(task, source.location, numbered, source)


@dataclass(frozen=True)
class TaskCheck:
    """What checking one task found. `code`: 0, or the exit code of the worst finding. `evidence`: what was
    seen of it, in a few words.
    """

    records: int
    code: int
    findings: tuple[Finding, ...]
    evidence: str = ""

    @property
    def holds(self) -> bool:
        """Whether signatures, chains, law and evidence hold."""
        return self.code == INTACT

    @property
    def records_hold(self) -> bool:
        """Whether the records do: at most evidence is missing."""
        return self.code in (INTACT, DIFFERS)

    @property
    def meaning(self) -> str:
        """The answer in a word or two."""
        return "evidence is missing" if self.code == DIFFERS else MEANINGS[self.code]


def check_task(rows: TaskRows) -> TaskCheck:
    """Check the records of one task, and their evidence. Its source is still open."""
    report = verify(rows, processes=0, whole=False)
    checks = [report[name] for name in CHECKED]
    findings = tuple(finding for check in checks for finding in check.findings)
    codes = {code for check in checks for code in check.codes}
    return TaskCheck(rows.count(), max(codes, default=INTACT), findings, report["evidence"].note)
