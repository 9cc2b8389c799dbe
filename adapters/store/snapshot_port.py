"""What a snapshot of a ledger answers, whichever store it is of.

Rows of the wrong shape are handed out as well as they can be, and noted in `anomalies`: see `snapshot.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, ClassVar, LiteralString, Self

from ...domain.limits import EVIDENCE_BYTES_MAX, RECORD_BYTES_MAX
from .port import CheckpointRow, EvidenceRow, Position, ProjectionRow, Row, TileRow
from .shared import checkpoint_rows, position_of, prefix_end, projection_row, tree_size

ANOMALIES_MAX = 1000
BATCH_ROWS = 2000
RECORDS_AT_ONCE = 500
"""Records read ahead: at most 30 MB of them."""
_BODY_BYTES_MAX = EVIDENCE_BYTES_MAX + 2**20
"""Of evidence as it is packed: what cannot be packed grows by less than that."""
_TILE_BYTES_MAX = 256 * 32
_SEALED_BYTES_MAX = 2**16
"""Of a checkpoint's note, or of one addition to it."""
_NAME_CHARACTERS_MAX = 2048
"""Of a stream's name, a type, a commitment, a salt, a task: none is as long."""
_ADDITIONS_MAX = 1000
"""How many additions to one checkpoint are read; a sealer keeps fewer (adapters/sealing/cosigned.py).

What is beyond it is passed over: additions are no records, and how many there are contradicts nothing.
"""


class Snapshot(ABC):
    """A ledger as it stood at one moment. `location` may be shown to anybody.

    `anomalies` grows while rows are read: one line for each value of a wrong type, at most `ANOMALIES_MAX`
    and a last line that says so. Every method raises `BadData`, `IOFailure` or `StoreUnavailable` where
    reading fails.

    No value is fetched that is longer than its kind can be: a record is then empty and its length is noted, a
    name is cut, so that it is none. `_octets` is how the store counts the bytes of `{}`.
    """

    _octets: ClassVar[LiteralString]

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
    def index_faults(self) -> list[str]:
        """Where an index does not hold what its table holds, one line each, the first few."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise `IOFailure` where the file was changed while it was read; leaving the `with` does so too."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _select(
        self,
        query: LiteralString,
        parameters: tuple[object, ...] = (),
        *,
        batch: int = BATCH_ROWS,
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a query whose parameters are written `?` and whose tables carry no schema.

        `batch` rows at most are in memory at once.
        """

    def stream(self, name: str) -> list[Row]:
        """The rows of one stream, by version."""
        query = f"SELECT {self._record_columns()} FROM stored_events"  # noqa: S608
        found = self._select(
            f"{query} WHERE originator_id = ? ORDER BY originator_version",
            (name,),
            batch=RECORDS_AT_ONCE,
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
        # The length first: a body beyond what a reader unpacks is not fetched.
        names = f"{self._short('commitment')}, {self._short('salt')}, {self._short('task')}"
        query = (
            f"SELECT {names}, length(body), CASE WHEN length(body) <= ? THEN body END"  # noqa: S608
            f" FROM evidence WHERE commitment IN ({marks})"
        )
        values = (_BODY_BYTES_MAX, *commitments)
        for commitment, salt, task, length, body in self._select(query, values, batch=1):
            where = f"evidence {commitment}"
            if isinstance(length, int) and length > _BODY_BYTES_MAX:
                self._anomaly(
                    f"{where}: body: expected at most {_BODY_BYTES_MAX} bytes, found {length}"
                )
                body = b""
            yield EvidenceRow(
                self._text(where, commitment),
                self._bytes(f"{where}: salt", salt),
                self._text(f"{where}: task", task),
                self._bytes(f"{where}: body", body),
            )

    def evidence_commitments(self) -> Iterator[tuple[str, str]]:
        """(commitment, task) of every evidence row, by commitment."""
        names = f"{self._short('commitment')}, {self._short('task')}"
        query = f"SELECT {names} FROM evidence ORDER BY evidence.commitment"  # noqa: S608
        for commitment, task in self._select(query):
            yield self._text("a commitment", commitment), self._text("evidence: task", task)

    def position(self, projection: str) -> Position | None:
        query = "SELECT version, row_id, digest FROM projection_positions WHERE projection = ?"
        found = next(self._select(query, (projection,)), None)
        return None if found is None else position_of(*found)

    def projected(self, projection: str, key: str | None = None) -> Iterator[ProjectionRow]:
        """The rows of a projection, by key; one row where `key` is given."""
        query = "SELECT key, value FROM projection_rows WHERE projection = ?"
        if key is None:
            found = self._select(f"{query} ORDER BY key", (projection,))
        else:
            found = self._select(f"{query} AND key = ?", (projection, key))
        return (projection_row(*row) for row in found)

    def tile(self, level: int, number: int) -> TileRow | None:
        return next(self._tiles(" WHERE level = ? AND number = ?", (level, number)), None)

    def tiles(self) -> Iterator[TileRow]:
        """Every tile of the tree, by level and number, streamed."""
        return self._tiles(" ORDER BY level, number")

    def tree_size(self) -> int:
        """How many leaves the stored tiles reach to; 0 where there are none."""
        query = "SELECT number, length(hashes) FROM tree_tiles WHERE level = 0"
        return tree_size(next(self._select(f"{query} ORDER BY number DESC LIMIT 1"), None))

    def _tiles(
        self, which: LiteralString, parameters: tuple[object, ...] = ()
    ) -> Iterator[TileRow]:
        # What is too long is no tile: it is not fetched.
        query = (
            "SELECT level, number, CASE WHEN length(hashes) <= ? THEN hashes END,"
            " CASE WHEN length(row_ids) <= ? THEN row_ids END FROM tree_tiles"
        )
        limits = (_TILE_BYTES_MAX, _TILE_BYTES_MAX)
        found = self._select(query + which, limits + parameters, batch=64)
        for level, number, hashes, row_ids in found:
            where = f"tile {level}/{number}"
            yield TileRow(
                self._int(f"{where}: level", level),
                self._int(f"{where}: number", number),
                self._bytes(f"{where}: hashes", hashes),
                self._bytes(f"{where}: row_ids", row_ids),
            )

    def checkpoint(self, size: int | None = None) -> CheckpointRow | None:
        """The checkpoint of that size; without one, the newest."""
        if size is None:
            found = self._checkpoints(" WHERE c.size = (SELECT max(size) FROM checkpoints)")
        else:
            found = self._checkpoints(" WHERE c.size = ?", (size,))
        return next(found, None)

    def checkpoints(self) -> list[CheckpointRow]:
        """All checkpoints, by size."""
        return list(self._checkpoints(""))

    def _checkpoints(
        self, which: LiteralString, parameters: tuple[object, ...] = ()
    ) -> Iterator[CheckpointRow]:
        query = (
            "SELECT c.size, CASE WHEN length(c.note) <= ? THEN c.note END, a.kind,"
            " CASE WHEN length(a.body) <= ? THEN a.body END FROM checkpoints AS c"
            " LEFT JOIN checkpoint_additions AS a ON a.size = c.size"
        )
        limits = (_SEALED_BYTES_MAX, _SEALED_BYTES_MAX)
        found = self._select(
            f"{query}{which} ORDER BY c.size, a.kind, a.body", limits + parameters, batch=64
        )
        return checkpoint_rows(self._sealed(found))

    def _sealed(
        self, found: Iterator[tuple[Any, ...]]
    ) -> Iterator[tuple[int, bytes, str | None, bytes | None]]:
        """Rows of checkpoints and additions, of the right types; of additions to one, `_ADDITIONS_MAX`."""
        newest, note, additions = None, b"", 0
        for size, signed, kind, body in found:
            where = f"checkpoint {size}"
            if size != newest:
                newest, additions = size, 0
                note = self._bytes(f"{where}: note", signed)
            number = self._int(f"{where}: size", size)
            if kind is None:
                yield number, note, None, None
            elif additions < _ADDITIONS_MAX:
                addition = self._bytes(f"{where}: an addition", body)
                yield number, note, self._text(f"{where}: kind", kind), addition
            additions += 1

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

    def _record_columns(self) -> LiteralString:
        """Of a record: stream, version, type, the record where it is not too long, and how long it is."""
        octets = self._octets.format("state")
        return (
            f"{self._short('originator_id')}, originator_version, {self._short('topic')},"
            f" CASE WHEN {octets} <= {RECORD_BYTES_MAX:d} THEN state END, {octets}"
        )

    def _short(self, column: LiteralString) -> LiteralString:
        """A column of names, each cut where it is longer than any name is."""
        octets, most = self._octets.format(column), _NAME_CHARACTERS_MAX
        return f"CASE WHEN {octets} > {most:d} THEN substr({column}, 1, {most:d}) ELSE {column} END"

    def _row(self, where: str, columns: tuple[Any, ...]) -> Row:
        """A row whose columns may be anything: those of `_record_columns`."""
        stream, version, label, record, length = columns
        if isinstance(length, int) and length > RECORD_BYTES_MAX:
            self._anomaly(
                f"{where}: state: expected at most {RECORD_BYTES_MAX} bytes, found {length}"
            )
            record = b""
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
