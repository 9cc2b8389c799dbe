"""The tree and its checkpoints in a PostgreSQL database: see `port.Store`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, LiteralString

import psycopg

from .location import PostgresLocation
from .port import TREE, Addition, CheckpointRow, Position, TileRow
from .postgres_server import advisory_key
from .shared import checkpoint_rows, projector_lock_name, sealed_already, tree_moved, tree_size

POSITION: LiteralString = (
    "SELECT version, row_id, digest FROM causebook.projection_positions WHERE projection = %s"
)
PUT_POSITION: LiteralString = (
    "INSERT INTO causebook.projection_positions (projection, version, row_id, digest)"
    " VALUES (%s, %s, %s, %s) ON CONFLICT (projection) DO UPDATE SET"
    " version = EXCLUDED.version, row_id = EXCLUDED.row_id, digest = EXCLUDED.digest"
)

_TILE: LiteralString = (
    "SELECT level, number, hashes, row_ids FROM causebook.tree_tiles"
    " WHERE level = %s AND number = %s"
)
_LAST_TILE: LiteralString = (
    "SELECT number, length(hashes) FROM causebook.tree_tiles"
    " WHERE level = 0 ORDER BY number DESC LIMIT 1"
)
_PUT_TILE: LiteralString = (
    "INSERT INTO causebook.tree_tiles (level, number, hashes, row_ids) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (level, number)"
    " DO UPDATE SET hashes = EXCLUDED.hashes, row_ids = EXCLUDED.row_ids"
)
_CHECKPOINTS: LiteralString = (
    "SELECT c.size, c.note, a.kind, a.body FROM causebook.checkpoints AS c"
    " LEFT JOIN causebook.checkpoint_additions AS a ON a.size = c.size"
)
_IN_ORDER: LiteralString = " ORDER BY c.size, a.kind, a.body"
_NEWEST_SIZE: LiteralString = "SELECT max(size) FROM causebook.checkpoints"
_NOTE: LiteralString = "SELECT note FROM causebook.checkpoints WHERE size = %s"
_ADD: LiteralString = (
    "INSERT INTO causebook.checkpoint_additions (size, kind, body) VALUES (%s, %s, %s)"
    " ON CONFLICT DO NOTHING"
)


def lock_projection(cursor: psycopg.Cursor[tuple[Any, ...]], projection: str) -> None:
    """Keep other writers of a projection out for the time of the transaction.

    FOR UPDATE cannot lock a position that is not there yet.
    """
    key = advisory_key("write/" + projector_lock_name(projection))
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", (key,))


class PostgresTree:
    """The part of `PostgresStore` that keeps the tree."""

    _location: PostgresLocation

    @abstractmethod
    def _select(
        self, query: LiteralString, parameters: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def _write(self) -> AbstractContextManager[psycopg.Cursor[tuple[Any, ...]]]: ...

    def tile(self, level: int, number: int) -> TileRow | None:
        found = self._select(_TILE, (level, number))
        return TileRow(*found[0]) if found else None

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
        rows = [(t.level, t.number, t.hashes, t.row_ids) for t in tiles]
        with self._write() as cursor:
            lock_projection(cursor, TREE)
            found = cursor.execute(POSITION, (TREE,)).fetchone()
            if found != (None if was is None else (was.version, was.row_id, was.digest)):
                raise tree_moved(self._location.shown, was, found)
            if rows:
                cursor.executemany(_PUT_TILE, rows)
            cursor.execute(PUT_POSITION, (TREE, now.version, now.row_id, now.digest))
            if checkpoint is None or cursor.execute(_NOTE, checkpoint[:1]).fetchone() == (
                checkpoint[1],
            ):
                return
            newest = cursor.execute(_NEWEST_SIZE).fetchone()
            if newest is not None and newest[0] is not None and newest[0] >= checkpoint[0]:
                raise sealed_already(self._location.shown, checkpoint[0])
            cursor.execute(
                "INSERT INTO causebook.checkpoints (size, note) VALUES (%s, %s)", checkpoint
            )

    def drop_tree(self) -> None:
        with self._write() as cursor:
            lock_projection(cursor, TREE)
            cursor.execute("DELETE FROM causebook.tree_tiles")
            cursor.execute(
                "DELETE FROM causebook.projection_positions WHERE projection = %s", (TREE,)
            )

    def checkpoint(self, size: int | None = None) -> CheckpointRow | None:
        if size is None:
            found = self._select(f"{_CHECKPOINTS} WHERE c.size = ({_NEWEST_SIZE}){_IN_ORDER}")
        else:
            found = self._select(f"{_CHECKPOINTS} WHERE c.size = %s{_IN_ORDER}", (size,))
        return next(checkpoint_rows(found), None)

    def checkpoints(self) -> list[CheckpointRow]:
        return list(checkpoint_rows(self._select(_CHECKPOINTS + _IN_ORDER)))

    def add_to_checkpoint(self, size: int, kind: Addition, body: bytes) -> None:
        with self._write() as cursor:
            cursor.execute(_ADD, (size, kind, body))
