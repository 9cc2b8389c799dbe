"""The store in memory: the fake of `adapters/store/port.py`, honouring the same protocol.

Row ids rise by `gap`, since those of a real store leave gaps; the ids of a failed append are not reused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from causebook.adapters.store.port import (
    TREE,
    Addition,
    CheckpointRow,
    EvidenceRow,
    LedgerMoved,
    Position,
    ProjectionRow,
    Row,
    TileRow,
)
from causebook.adapters.store.shared import (
    check_lock_name,
    projector_lock_name,
    sealed_already,
    tree_moved,
    tree_size,
)
from causebook.domain.errors import Busy, IOFailure, StoreUnavailable, VersionConflict


@dataclass(frozen=True, eq=False)
class MemoryLock:
    """A lock of a `MemoryStore`, held until released."""

    store: MemoryStore
    name: str

    def release(self) -> None:
        if self.store.locks.get(self.name) is self:
            del self.store.locks[self.name]


class MemoryStore:
    """A `Store`. The lists and dictionaries are public: a test may look, or do what an attacker does."""

    def __init__(self, gap: int = 1) -> None:
        self.log: list[tuple[int, Row]] = []
        self.kept: dict[str, EvidenceRow] = {}
        self.locks: dict[str, MemoryLock] = {}
        self.views: dict[str, dict[str, bytes]] = {}
        self.positions: dict[str, Position] = {}
        self.tree: dict[tuple[int, int], TileRow] = {}
        self.sealed: dict[int, CheckpointRow] = {}
        self.closed = False
        self._gap = gap
        self._next_id = 1
        self._mutex = threading.RLock()

    def append(
        self, rows: Sequence[Row], evidence: Sequence[EvidenceRow], *, ledger_version: int
    ) -> None:
        with self._open():
            stored = {(row.stream, row.version): row for _, row in self.log}
            if rows and all(stored.get((row.stream, row.version)) == row for row in rows):
                return
            ends: dict[str, int] = {}
            for stream, version in stored:
                ends[stream] = max(version, ends.get(stream, 0))
            if ends.get("ledger", 0) != ledger_version:
                raise LedgerMoved
            for row in rows:
                if (row.stream, row.version) in stored:
                    raise VersionConflict(f"{row.stream} v{row.version}: taken by another record")
                if row.version != ends.get(row.stream, 0) + 1:
                    raise IOFailure(f"{row.stream} v{row.version}: is not the next version")
                ends[row.stream] = row.version
            for row in rows:
                self.log.append((self._next_id, row))
                self._next_id += self._gap
            for item in evidence:
                self.kept.setdefault(item.commitment, item)

    def stream(self, stream: str, *, after: int = 0) -> list[Row]:
        with self._open():
            found = [row for _, row in self.log if row.stream == stream and row.version > after]
            return sorted(found, key=lambda row: row.version)

    def streams(self, prefix: str) -> list[str]:
        with self._open():
            return sorted({row.stream for _, row in self.log if row.stream.startswith(prefix)})

    def rows(self, *, after: int = 0, limit: int = 1000) -> list[tuple[int, Row]]:
        with self._open():
            return [(row_id, row) for row_id, row in self.log if row_id > after][:limit]

    def count(self) -> int:
        with self._open():
            return len(self.log)

    def evidence(self, commitment: str) -> EvidenceRow | None:
        with self._open():
            return self.kept.get(commitment)

    def evidence_of(self, task: str) -> list[str]:
        with self._open():
            return sorted(name for name, item in self.kept.items() if item.task == task)

    def erase_evidence(self, commitments: Iterable[str]) -> int:
        with self._open():
            return sum(self.kept.pop(name, None) is not None for name in set(commitments))

    def try_lock(self, name: str) -> MemoryLock | None:
        with self._open():
            if check_lock_name(name) in self.locks:
                return None
            self.locks[name] = MemoryLock(self, name)
            return self.locks[name]

    def position(self, projection: str) -> Position | None:
        with self._open():
            return self.positions.get(projection)

    def projected(self, projection: str, key: str | None = None) -> Iterator[ProjectionRow]:
        with self._open():
            view = self.views.get(projection, {})
            found = sorted(view) if key is None else [key] if key in view else []
            return iter([ProjectionRow(name, view[name]) for name in found])

    def project(
        self, projection: str, rows: Iterable[ProjectionRow], *, was: Position | None, now: Position
    ) -> None:
        with self._open():
            found = self.positions.get(projection)
            if found != was:
                raise Busy(f"projection {projection}: expected position {was}, found {found}")
            self._write(projection, dict(self.views.get(projection, {})), rows, now)

    def swap_projection(
        self, projection: str, rows: Iterable[ProjectionRow], *, now: Position
    ) -> None:
        with self._open():
            self._write(projection, {}, rows, now)

    def projector(self, projection: str) -> AbstractContextManager[None]:
        return self._hold(projection)

    def tile(self, level: int, number: int) -> TileRow | None:
        with self._open():
            return self.tree.get((level, number))

    def tree_size(self) -> int:
        with self._open():
            last = max(
                (tile for tile in self.tree.values() if not tile.level), default=None, key=_place
            )
            return tree_size(None if last is None else (last.number, len(last.hashes)))

    def seal(
        self,
        tiles: Iterable[TileRow],
        *,
        was: Position | None,
        now: Position,
        checkpoint: tuple[int, bytes] | None = None,
    ) -> None:
        with self._open():
            found = self.positions.get(TREE)
            if found != was:
                raise tree_moved("memory", was, found)
            if checkpoint is not None:
                size, note = checkpoint
                stored = self.sealed.get(size)
                if (stored is None or stored.note != note) and size <= max(self.sealed, default=0):
                    raise sealed_already("memory", size)
                self.sealed.setdefault(size, CheckpointRow(size, note))
            self.tree |= {_place(tile): tile for tile in tiles}
            self.positions[TREE] = now

    def drop_tree(self) -> None:
        with self._open():
            self.tree.clear()
            self.positions.pop(TREE, None)

    def checkpoint(self, size: int | None = None) -> CheckpointRow | None:
        with self._open():
            return self.sealed.get(max(self.sealed, default=0) if size is None else size)

    def checkpoints(self) -> list[CheckpointRow]:
        with self._open():
            return [self.sealed[size] for size in sorted(self.sealed)]

    def add_to_checkpoint(self, size: int, kind: Addition, body: bytes) -> None:
        with self._open():
            row = self.sealed[size]
            if kind == "cosignature":
                row = replace(row, cosignatures=tuple(sorted({*row.cosignatures, body})))
            else:
                row = replace(row, timestamps=tuple(sorted({*row.timestamps, body})))
            self.sealed[size] = row

    def close(self) -> None:
        self.closed = True

    def _write(
        self, projection: str, view: dict[str, bytes], rows: Iterable[ProjectionRow], now: Position
    ) -> None:
        for row in rows:
            if row.value is None:
                view.pop(row.key, None)
            else:
                view[row.key] = row.value
        self.views[projection], self.positions[projection] = view, now

    @contextmanager
    def _hold(self, projection: str) -> Iterator[None]:
        lock = self.try_lock(projector_lock_name(projection))
        if lock is None:
            raise Busy(f"projection {projection!r} is written by another projector")
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _open(self) -> Iterator[None]:
        if self.closed:
            raise StoreUnavailable("the store is closed")
        with self._mutex:
            yield


def _place(tile: TileRow) -> tuple[int, int]:
    return tile.level, tile.number
