"""Reading a ledger for verification: one snapshot, nothing written, no event store, no server code loaded.

A verifier asks a ledger that may have been tampered with. Rows of the wrong shape are therefore handed out as
well as they can be, and noted in `anomalies`; what is no ledger at all is a `BadData`.

    with open_snapshot("sqlite:///ledger.db") as snapshot:
        for row_id, row in snapshot.rows():
            ...

On SQLite the snapshot is one of three, and none leaves a file behind beside the ledger:

- no filled `-wal` beside it: the file is read with `immutable=1`, which takes no lock, works on a read-only
  mount, and holds only while nobody checkpoints: at the end, size and time of the file must be what they were
- a filled `-wal`: the file and the log are copied to a private folder, and read there
- `live=True` and a `-wal`: read in place, in one transaction, while others write

On PostgreSQL it is one REPEATABLE READ, READ ONLY transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, LiteralString, Self

from .location import SQLiteLocation, locate
from .port import EvidenceRow, Position, ProjectionRow, Row
from .shared import prefix_end

ANOMALIES_MAX = 1000


@dataclass(frozen=True)
class Inventory:
    """What the snapshot holds, in numbers of rows; `projections` by the name of a projection."""

    records: int
    evidence: int
    projections: dict[str, int]


class Snapshot(ABC):
    """A ledger as it stood at one moment. `location` may be shown to anybody.

    `anomalies` grows while rows are read: one line for each value of a wrong type, at most `ANOMALIES_MAX`
    and a last line that says so. Every method raises `BadData`, `IOFailure` or `StoreUnavailable` where
    reading fails.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self.anomalies: list[str] = []

    @abstractmethod
    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        """(row id, row) in commit order, streamed, from the first row id above `after`.

        `after=0` begins with the first row, even where somebody gave a row an id of 0 or less.
        """

    @abstractmethod
    def count(self) -> int:
        """How many records there are."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise `IOFailure` where the file was changed while it was read; leaving the `with` does so too."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _select(
        self, query: LiteralString, parameters: tuple[object, ...] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a query whose parameters are written `?` and whose tables carry no schema."""

    def stream(self, name: str) -> list[Row]:
        """The rows of one stream, by version."""
        found = self._select(
            "SELECT originator_id, originator_version, topic, state FROM stored_events"
            " WHERE originator_id = ? ORDER BY originator_version",
            (name,),
        )
        return [self._row(f"stream {name!r}", row) for row in found]

    def streams(self, prefix: str = "") -> list[str]:
        """The names of the streams that begin with `prefix`, sorted by code point."""
        end = prefix_end(prefix)
        query = "SELECT DISTINCT originator_id FROM stored_events WHERE originator_id >= ?"
        if end is None:
            found = self._select(f"{query} ORDER BY originator_id", (prefix,))
        else:
            query += " AND originator_id < ? ORDER BY originator_id"
            found = self._select(query, (prefix, end))
        return [self._text("a stream's name", name) for (name,) in found]

    def evidence(self, commitment: str) -> EvidenceRow | None:
        return next(self.evidence_items([commitment]), None)

    def evidence_items(self, commitments: Sequence[str]) -> Iterator[EvidenceRow]:
        """The evidence rows of a few commitments, in any order, those that are there.

        One query for all: over a connection, one each would cost more than everything else of a check.
        """
        marks = ", ".join("?" * len(commitments))
        query = f"SELECT commitment, salt, task, body FROM evidence WHERE commitment IN ({marks})"  # noqa: S608
        for commitment, salt, task, body in self._select(query, tuple(commitments)):
            where = f"evidence {commitment}"
            yield EvidenceRow(
                self._text(where, commitment),
                self._bytes(f"{where}: salt", salt),
                self._text(f"{where}: task", task),
                self._bytes(f"{where}: body", body),
            )

    def evidence_commitments(self) -> Iterator[tuple[str, str]]:
        """(commitment, task) of every evidence row, by commitment."""
        query = "SELECT commitment, task FROM evidence ORDER BY commitment"
        for commitment, task in self._select(query):
            yield self._text("a commitment", commitment), self._text("evidence: task", task)

    def position(self, projection: str) -> Position | None:
        query = "SELECT version, row_id, digest FROM projection_positions WHERE projection = ?"
        for version, row_id, digest in self._select(query, (projection,)):
            where = f"position of {projection!r}"
            return Position(
                self._int(f"{where}: version", version),
                self._int(f"{where}: row id", row_id),
                self._text(f"{where}: digest", digest),
            )
        return None

    def projected(self, projection: str, key: str | None = None) -> Iterator[ProjectionRow]:
        """The rows of a projection, by key; one row where `key` is given."""
        query = "SELECT key, value FROM projection_rows WHERE projection = ?"
        if key is None:
            found = self._select(f"{query} ORDER BY key", (projection,))
        else:
            found = self._select(f"{query} AND key = ?", (projection, key))
        where = f"a row of {projection!r}"
        for name, value in found:
            yield ProjectionRow(
                self._text(f"{where}: key", name), self._bytes(f"{where}: value", value)
            )

    def inventory(self) -> Inventory:
        query = "SELECT projection, count(*) FROM projection_rows GROUP BY projection ORDER BY 1"
        projections = {self._text("a projection", name): n for name, n in self._select(query)}
        (evidence,) = next(self._select("SELECT count(*) FROM evidence"))
        return Inventory(records=self.count(), evidence=evidence, projections=projections)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.check_unchanged()
        finally:
            self.close()

    def _row(self, where: str, columns: tuple[Any, ...]) -> Row:
        """A row whose columns may be anything: stream, version, type and record."""
        stream, version, label, record = columns
        return Row(
            self._text(f"{where}: originator_id", stream),
            self._int(f"{where}: originator_version", version),
            self._text(f"{where}: topic", label),
            self._bytes(f"{where}: state", record),
        )

    def _text(self, where: str, value: object) -> str:
        if isinstance(value, str):
            return value
        self._note(where, "text", value)
        if isinstance(value, bytes):
            return value.decode(errors="backslashreplace")
        return "" if value is None else str(value)

    def _int(self, where: str, value: object) -> int:
        if isinstance(value, int):
            return value
        self._note(where, "an integer", value)
        try:
            return int(value)  # type: ignore[call-overload, no-any-return]
        except (TypeError, ValueError, OverflowError):
            return -1

    def _bytes(self, where: str, value: object) -> bytes:
        if isinstance(value, bytes):
            return value
        self._note(where, "bytes", value)
        return b"" if value is None else str(value).encode(errors="backslashreplace")

    def _note(self, where: str, expected: str, value: object) -> None:
        found = "NULL" if value is None else type(value).__name__
        self._anomaly(f"{where}: expected {expected}, found {found}")

    def _anomaly(self, line: str) -> None:
        if len(self.anomalies) < ANOMALIES_MAX:
            self.anomalies.append(line)
        elif len(self.anomalies) == ANOMALIES_MAX:
            self.anomalies.append(f"and more than these {ANOMALIES_MAX}")


def open_snapshot(url: str, *, live: bool = False) -> Snapshot:
    """Open a ledger for reading, as a context manager. `live`: it is in use, read it in place.

    Raises `NoInput`, `BadData`, `Busy`, `IOFailure`, `Denied`, `StoreUnavailable`, `Misuse`.
    """
    where = locate(url)
    if isinstance(where, SQLiteLocation):
        from .snapshot_sqlite import open_sqlite_snapshot

        return open_sqlite_snapshot(where, live=live)
    from .url import postgres_module

    module = postgres_module("snapshot_postgres", where.shown)
    snapshot: Snapshot = module.PostgresSnapshot(where)
    return snapshot
