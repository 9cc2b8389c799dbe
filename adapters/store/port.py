"""What the ledger needs from a store. `sqlite.py` and `postgres.py` are the two that hold it.

A store knows rows and bytes, never keys, events or law. The order of rows in commit order is the order of
the log; row ids rise but may leave gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol


class Row(NamedTuple):
    """One stored record. `type` is a label that repeats the record's own type; it is never imported."""

    stream: str
    version: int
    type: str
    record: bytes


class EvidenceRow(NamedTuple):
    """Bytes that a record commits to. `commitment` is hex of SHA-256(salt ‖ bytes); `salt` has 32 bytes.

    `body` is zlib-compressed. `task` owns the row: erasing a task's evidence deletes its rows.
    """

    commitment: str
    salt: bytes
    task: str
    body: bytes


@dataclass(frozen=True)
class ProjectionRow:
    """One row of a projection: `value` is canonical JSON, None deletes the row."""

    key: str
    value: bytes | None


@dataclass(frozen=True)
class Position:
    """How far a projection has come: the row id of the last record folded, and that record's SHA-256, hex.

    `row_id` 0 with an empty digest is the beginning. `version` is the projection's own version.
    """

    version: int
    row_id: int
    digest: str


@dataclass(frozen=True)
class TileRow:
    """One tile of the tree: up to 256 hashes of one level, 32 bytes each, from the left.

    `row_ids` is, at level 0, the row id of each leaf's record, 8 bytes each, big-endian and signed, so that
    an index leads to its record; empty above.
    """

    level: int
    number: int
    hashes: bytes
    row_ids: bytes


@dataclass(frozen=True)
class CheckpointRow:
    """A checkpoint, as its log key signed it, and what others added since, each by its bytes in order.

    `cosignatures` are signature lines of witnesses, each with its LF; `timestamps` are RFC 3161 tokens, DER.
    """

    size: int
    note: bytes
    cosignatures: tuple[bytes, ...] = ()
    timestamps: tuple[bytes, ...] = ()


Addition = Literal["cosignature", "timestamp"]
"""What can be added to a checkpoint."""

TREE: Final = "tree"
"""The name of the tree among the projections: of its position, and of the right to write it."""

TREE_VERSION: Final = 1
"""Of that projection, as this program makes and reads it."""

ROW_ID_BYTES: Final = 8
"""Of a row id in a tile of level 0."""


class LedgerMoved(Exception):
    """The `ledger` stream is longer than the caller knew: read it again, check the key, append again."""


class RunnerLock(Protocol):
    """A lock held by a live runner; the operating system or the server drops it when the process dies."""

    def release(self) -> None: ...


class Store(Protocol):
    """Rows in, rows out. Every method raises `StoreUnavailable`, `Busy` or `IOFailure`, or does its work."""

    def append(
        self, rows: Sequence[Row], evidence: Sequence[EvidenceRow], *, ledger_version: int
    ) -> None:
        """Store all of it in one transaction, durable on return.

        Raises `VersionConflict` where a (stream, version) is taken by another record, `LedgerMoved` where
        the newest version of the stream `ledger`, read inside the transaction, is not `ledger_version`.
        Where the rows are there already, byte for byte, the append has happened: it returns.
        An evidence row whose commitment is stored already is left as it is. Versions of a stream follow
        one another from 1: a version further ahead is an `IOFailure`, since the store then holds less than
        the caller has read from it.
        """
        ...

    def stream(self, stream: str, *, after: int = 0) -> list[Row]:
        """The rows of one stream with a version above `after`, in order."""
        ...

    def streams(self, prefix: str) -> list[str]:
        """The names of the streams that begin with `prefix`, sorted by code point."""
        ...

    def rows(self, *, after: int = 0, limit: int = 1000) -> list[tuple[int, Row]]:
        """(row id, row) in commit order, from the first row id above `after`."""
        ...

    def count(self) -> int:
        """How many records are stored."""
        ...

    def evidence(self, commitment: str) -> EvidenceRow | None: ...

    def evidence_of(self, task: str) -> list[str]:
        """The commitments of the evidence rows that `task` owns, sorted."""
        ...

    def erase_evidence(self, commitments: Iterable[str]) -> int:
        """Delete these evidence rows, in one transaction; how many were there to delete.

        The only way to delete evidence: the store's triggers refuse any other DELETE. Append the
        `EvidenceErased` record first: a crash between the two leaves rows that a second call deletes, while
        the other order would leave evidence missing without a reason. On SQLite the bytes are overwritten
        and the write-ahead log is emptied; `Busy` says that a reader still holds the log, and that the
        call has to be made again. On PostgreSQL the rows are vacuumed away; what archives keep is theirs.
        """
        ...

    def try_lock(self, name: str) -> RunnerLock | None:
        """Take the lock `name` (32 hex) now, or answer None because somebody alive holds it.

        Two calls exclude one another in one process too. Raises `ValueError` for any other name.
        """
        ...

    def position(self, projection: str) -> Position | None: ...

    def projected(self, projection: str, key: str | None = None) -> Iterator[ProjectionRow]:
        """The rows of a projection, by key; one row where `key` is given."""
        ...

    def project(
        self, projection: str, rows: Iterable[ProjectionRow], *, was: Position | None, now: Position
    ) -> None:
        """Write rows and position in one transaction. Raises `Busy` where the position is not `was`."""
        ...

    def swap_projection(
        self, projection: str, rows: Iterable[ProjectionRow], *, now: Position
    ) -> None:
        """Replace all rows and the position of a projection in one transaction."""
        ...

    def projector(self, projection: str) -> AbstractContextManager[None]:
        """Hold the right to write a projection. Raises `Busy` where another holds it."""
        ...

    def tile(self, level: int, number: int) -> TileRow | None: ...

    def tree_size(self) -> int:
        """How many leaves the stored tiles reach to; 0 where there are none."""
        ...

    def seal(
        self,
        tiles: Iterable[TileRow],
        *,
        was: Position | None,
        now: Position,
        checkpoint: tuple[int, bytes] | None = None,
    ) -> None:
        """Write tiles, the tree's position and a checkpoint (size, note) in one transaction.

        Durable on return. Raises `Busy` where the tree's position is not `was`, or where another checkpoint
        of this size, or one of a larger size, is stored: what is there stays. The very same checkpoint may be
        stored again.
        """
        ...

    def drop_tree(self) -> None:
        """Delete all tiles and the tree's position, in one transaction. Checkpoints stay."""
        ...

    def checkpoint(self, size: int | None = None) -> CheckpointRow | None:
        """The checkpoint of that size; without one, the newest."""
        ...

    def checkpoints(self) -> list[CheckpointRow]:
        """All checkpoints, by size."""
        ...

    def add_to_checkpoint(self, size: int, kind: Addition, body: bytes) -> None:
        """Keep what was added to a stored checkpoint; once, however often it is added.

        The store's triggers refuse to change or to delete a checkpoint and what was added to it.
        """
        ...

    def close(self) -> None: ...
