"""One task, read and checked: all its records and the ledger's own, in the order they were committed.

`check_task` is `verify` over those records alone: signatures, roles, chains and law are held to just as in
the whole ledger. Where a record's ordinal in the whole log matters (trust in a retired key ends at a size),
and for evidence and projections, `causebook verify` is to be asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..domain.errors import NoInput
from ..domain.streams import LEDGER, evaluations_prefix, task_stream
from ..projections.facts import TaskFacts, read_stream
from .findings import INTACT, MEANINGS, CheckName, Finding
from .reading import Source
from .store.port import EvidenceRow, Row
from .verify import verify

CHECKED: Final[tuple[CheckName, ...]] = ("records", "signatures", "roles", "chains", "law")


@dataclass(frozen=True)
class TaskRows:
    """The rows of one task and of the stream `ledger`, in commit order: itself a `Source` of just those."""

    task: str
    location: str
    numbered: Sequence[tuple[int, Row]]
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

    def evidence(self, commitment: str) -> EvidenceRow | None:
        """None: evidence is not read here."""
        return None

    def evidence_items(self, commitments: Sequence[str]) -> Iterator[EvidenceRow]:
        """None."""
        return iter(())

    def evidence_commitments(self) -> Iterator[tuple[str, str]]:
        """None."""
        return iter(())

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
    return TaskRows(task, source.location, numbered)


@dataclass(frozen=True)
class TaskCheck:
    """What checking one task found. `code`: 0, or the exit code of the worst finding."""

    records: int
    code: int
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether signatures, chains and law hold."""
        return self.code == INTACT

    @property
    def meaning(self) -> str:
        """The answer in a word or two."""
        return MEANINGS[self.code]


def check_task(rows: TaskRows) -> TaskCheck:
    """Check the records of one task."""
    report = verify(rows, threads=0)
    checks = [report[name] for name in CHECKED]
    findings = tuple(finding for check in checks for finding in check.findings)
    codes = {code for check in checks for code in check.codes}
    return TaskCheck(rows.count(), max(codes, default=INTACT), findings)
