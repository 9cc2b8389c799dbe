"""The tree and its checkpoints in a SQLite file: see `port.Store`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from ...domain.errors import BadData
from .location import SQLiteLocation
from .port import TREE, Addition, CheckpointRow, Position, TileRow
from .shared import checkpoint_rows, sealed_already, tree_moved, tree_size
from .sqlite_recorder import LedgerDatastore

POSITION = "SELECT version, row_id, digest FROM projection_positions WHERE projection = ?"
PUT_POSITION = "INSERT OR REPLACE INTO projection_positions VALUES (?, ?, ?, ?)"

_TILE = "SELECT hashes, row_ids FROM tree_tiles WHERE level = ? AND number = ?"
_LAST_TILE = (
    "SELECT number, length(hashes) FROM tree_tiles WHERE level = 0 ORDER BY number DESC LIMIT 1"
)
_PUT_TILE = (
    "INSERT INTO tree_tiles VALUES (?, ?, ?, ?) ON CONFLICT (level, number)"
    " DO UPDATE SET hashes = excluded.hashes, row_ids = excluded.row_ids"
)
_CHECKPOINTS = (
    "SELECT c.size, c.note, a.kind, a.body FROM checkpoints AS c"
    " LEFT JOIN checkpoint_additions AS a ON a.size = c.size"
)
_IN_ORDER = " ORDER BY c.size, a.kind, a.body"
_NEWEST_SIZE = "SELECT max(size) FROM checkpoints"
_NOTE = "SELECT note FROM checkpoints WHERE size = ?"
# Not OR IGNORE: that would pass over a broken CHECK as well.
_ADD = (
    "INSERT INTO checkpoint_additions SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM"
    " checkpoint_additions WHERE size = ?1 AND kind = ?2 AND body = ?3)"
)


class SQLiteTree:
    """The part of `SQLiteStore` that keeps the tree."""

    _location: SQLiteLocation
    _data: LedgerDatastore

    @abstractmethod
    def _select(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]: ...

    def tile(self, level: int, number: int) -> TileRow | None:
        found = self._select(_TILE, (level, number))
        if not found:
            return None
        # What is not bytes becomes a tile that no record leads to.
        hashes, row_ids = (column if type(column) is bytes else b"" for column in found[0])
        return TileRow(level, number, hashes, row_ids)

    def tree_size(self) -> int:
        return tree_size(next(iter(self._select(_LAST_TILE)), None))

    def seal(
        self,
        tiles: Iterable[TileRow],
        *,
        was: Position | None,
        now: Position,
        checkpoint: tuple[int, bytes] | None = None,
    ) -> None:
        with self._data.errors(), self._data.write() as cursor:
            found = cursor.execute(POSITION, (TREE,)).fetchone()
            if found != (None if was is None else (was.version, was.row_id, was.digest)):
                raise tree_moved(self._location.shown, was, found)
            cursor.executemany(_PUT_TILE, ((t.level, t.number, t.hashes, t.row_ids) for t in tiles))
            cursor.execute(PUT_POSITION, (TREE, now.version, now.row_id, now.digest))
            if checkpoint is None or cursor.execute(_NOTE, checkpoint[:1]).fetchone() == (
                checkpoint[1],
            ):
                return
            (newest,) = cursor.execute(_NEWEST_SIZE).fetchone()
            if newest is not None and newest >= checkpoint[0]:
                raise sealed_already(self._location.shown, checkpoint[0])
            cursor.execute("INSERT INTO checkpoints VALUES (?, ?)", checkpoint)

    def drop_tree(self) -> None:
        with self._data.errors(), self._data.write() as cursor:
            cursor.execute("DELETE FROM tree_tiles")
            cursor.execute("DELETE FROM projection_positions WHERE projection = ?", (TREE,))

    def checkpoint(self, size: int | None = None) -> CheckpointRow | None:
        if size is None:
            found = self._select(f"{_CHECKPOINTS} WHERE c.size = ({_NEWEST_SIZE}){_IN_ORDER}")
        else:
            found = self._select(f"{_CHECKPOINTS} WHERE c.size = ?{_IN_ORDER}", (size,))
        return next(iter(self._checkpoints(found)), None)

    def checkpoints(self) -> list[CheckpointRow]:
        return self._checkpoints(self._select(_CHECKPOINTS + _IN_ORDER))

    def add_to_checkpoint(self, size: int, kind: Addition, body: bytes) -> None:
        with self._data.errors(), self._data.write() as cursor:
            cursor.execute(_ADD, (size, kind, body))

    def _checkpoints(self, found: list[tuple[Any, ...]]) -> list[CheckpointRow]:
        for size, note, kind, body in found:
            # The tables' own checks stop any other type, until somebody turns them off.
            if type(note) is not bytes or (kind is not None and type(body) is not bytes):
                raise BadData(
                    f"{self._location.shown}: checkpoint {size}: expected bytes, found another type",
                    hint="causebook verify says what is wrong with the ledger",
                )
        return list(checkpoint_rows(found))
