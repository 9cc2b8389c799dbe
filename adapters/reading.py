"""What whoever checks a ledger reads it through: rows and evidence, and no way to change them.

`adapters/store/snapshot.py` opens the real ones; any other reader that has these methods does as well.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from ..domain.errors import RecordError
from ..domain.events import Event, event_from
from ..domain.evidence import SALT_BYTES
from ..domain.limits import EVIDENCE_BYTES_MAX
from ..domain.record import Record, parse
from .store.port import CheckpointRow, EvidenceRow, Position, Row, TileRow

_CHUNK_BYTES: Final = 1024 * 1024


class Source(Protocol):
    """One snapshot of a ledger. Raises `BadData`, `IOFailure`, `StoreUnavailable` where reading fails."""

    @property
    def location(self) -> str:
        """Where it is, as it may be shown to anybody."""
        ...

    @property
    def anomalies(self) -> Sequence[str]:
        """Values of a wrong type met so far, one line each."""
        ...

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        """(row id, row) in commit order."""
        ...

    def stream(self, name: str) -> Iterable[Row]:
        """The rows of one stream, by version."""
        ...

    def streams(self, prefix: str) -> Iterable[str]:
        """The names of the streams that begin with `prefix`."""
        ...

    def count(self) -> int:
        """How many records there are."""
        ...

    def index_faults(self) -> Sequence[str]:
        """Where the store's own indices do not hold what its tables hold, one line each, the first few."""
        ...

    def evidence(self, commitment: str) -> EvidenceRow | None:
        """One item of evidence."""
        ...

    def evidence_items(self, commitments: Sequence[str]) -> Iterator[EvidenceRow]:
        """The evidence rows of a few commitments, in any order, those that are there."""
        ...

    def evidence_commitments(self) -> Iterator[tuple[str, str]]:
        """(commitment, task) of every evidence row."""
        ...

    def position(self, projection: str) -> Position | None:
        """How far a projection, or the tree, has come."""
        ...

    def tile(self, level: int, number: int) -> TileRow | None:
        """One tile of the tree, as it is stored."""
        ...

    def tiles(self) -> Iterator[TileRow]:
        """Every tile, by level and number."""
        ...

    def tree_size(self) -> int:
        """How many leaves the stored tiles reach to."""
        ...

    def checkpoint(self, size: int | None = None) -> CheckpointRow | None:
        """The checkpoint of that size; without one, the newest."""
        ...

    def checkpoints(self) -> Sequence[CheckpointRow]:
        """All checkpoints, by size."""
        ...


class Unreadable(Exception):
    """A row that holds no record of causebook's. The message says why."""


def read(row: Row) -> tuple[Record, Event]:
    """The record in a row, and its event. Raises `Unreadable`."""
    try:
        record = parse(row.record)
        return record, event_from(record.type, record.data)
    except RecordError as error:
        raise Unreadable(error.message) from None
    except ValueError as error:
        raise Unreadable(misfit(error)) from None


def misfit(error: ValueError) -> str:
    """Why an event's data does not fit, on one line: pydantic's own answer quotes at length."""
    problems = getattr(error, "errors", None)
    if problems is None:
        return str(error)
    first = problems(include_url=False, include_context=False, include_input=False)[0]
    return f"data.{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def evidence_fault(row: EvidenceRow) -> str | None:
    """Why the bytes of a row are not those its commitment was made of, or None.

    Reads a megabyte at a time and stops at `EVIDENCE_BYTES_MAX`.
    """
    if len(row.salt) != SALT_BYTES:
        return f"a salt of {len(row.salt)} bytes"
    hashed, length = hashlib.sha256(row.salt), 0
    unpacking, packed = zlib.decompressobj(), row.body
    try:
        while not unpacking.eof:
            chunk = unpacking.decompress(packed, _CHUNK_BYTES)
            packed = unpacking.unconsumed_tail
            if not chunk and not packed and not unpacking.eof:
                return "bytes that end too early to be unpacked"
            length += len(chunk)
            if length > EVIDENCE_BYTES_MAX:
                return f"more than {EVIDENCE_BYTES_MAX} bytes"
            hashed.update(chunk)
    except zlib.error:
        return "bytes that cannot be unpacked"
    if unpacking.unused_data:
        return "bytes past the end of what was packed"
    return None if hashed.hexdigest() == row.commitment else "other bytes, or another salt"


def unpacked(row: EvidenceRow) -> bytes:
    """The bytes of a row that has no `evidence_fault`."""
    return zlib.decompress(row.body)
