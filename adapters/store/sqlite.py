"""The store in a SQLite file: the default, for one host.

Connections and the append are in `sqlite_recorder.py`, the tree and its checkpoints in `sqlite_tree.py`, the
schema is in `sqlite_file.py`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

from ...domain.errors import BadData, Busy, CannotCreate, CausebookError, IOFailure
from ...domain.streams import shorten
from ..durable import make_folder_durably
from .application import LedgerApplication
from .location import SQLiteLocation
from .locks import FileLock, try_file_lock, wait_file_lock
from .port import EvidenceRow, LedgerMoved, Position, ProjectionRow, Row
from .shared import (
    FORMAT_VERSION,
    already_there,
    check_lock_name,
    not_a_ledger,
    position_of,
    prefix_end,
    projection_row,
    projector_lock_name,
    refused,
    row_id_within,
)
from .sqlite_file import (
    ERRORS,
    INSERT_FORMAT,
    SCHEMA,
    bound,
    require_file,
    require_format,
    translate,
)
from .sqlite_recorder import LIBRARY_ERRORS, NEWEST, LedgerDatastore, LedgerFactory, LedgerRecorder
from .sqlite_tree import POSITION, PUT_POSITION, SQLiteTree

_STREAM = (
    "SELECT originator_id, originator_version, topic, state FROM stored_events"
    " WHERE originator_id = ?"
)
_ROWS = (
    "SELECT rowid, originator_id, originator_version, topic, state FROM stored_events"
    " WHERE rowid > ? ORDER BY rowid LIMIT ?"
)


class SQLiteStore(SQLiteTree):
    """The port `Store` over a SQLite file. Safe for threads; not for use after a fork."""

    def __init__(self, location: SQLiteLocation, *, lock_timeout_seconds: float) -> None:
        self._location = location
        self._data = LedgerDatastore(location, lock_timeout_seconds)
        self._app = LedgerApplication(LedgerFactory(self._data))
        self._recorder = cast(LedgerRecorder, self._app.recorder)
        try:
            # The first connection finds out whether this is a ledger.
            with self._data.errors(), self._data.get_connection(commit=False):
                pass
        except BaseException:
            self.close()
            raise

    def append(
        self, rows: Sequence[Row], evidence: Sequence[EvidenceRow], *, ledger_version: int
    ) -> None:
        try:
            self._recorder.append(rows, evidence, ledger_version)
        except LedgerMoved:
            if not already_there(rows, self._stored):
                raise
        except sqlite3.IntegrityError as error:
            if not already_there(rows, self._stored):
                shown, why = self._location.shown, str(error)
                raise refused(shown, rows, self._stored, self._newest, why) from None
        except LIBRARY_ERRORS as error:
            self._data.translate(error)

    def _stored(self, stream: str, version: int) -> Row | None:
        found = self._select(f"{_STREAM} AND originator_version = ?", (stream, version))
        return self._row(found[0]) if found else None

    def _row(self, columns: tuple[Any, ...]) -> Row:
        # The table's own checks stop any other type, until somebody turns them off.
        if tuple(map(type, columns)) != (str, int, str, bytes):
            raise BadData(
                f"{self._location.shown}: stream {shorten(str(columns[0]))}: expected a record,"
                f" found columns of {', '.join(type(column).__name__ for column in columns)}",
                hint="causebook verify says what is wrong with the ledger",
            )
        return Row(*columns)

    def _newest(self, stream: str) -> int:
        return cast(int, self._select(NEWEST, (stream,))[0][0])

    def _select(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._data.errors(), self._data.get_connection(commit=False) as pooled:
            cursor = pooled._sqlite_conn.cursor()
            cursor.row_factory = None
            return cursor.execute(query, parameters).fetchall()

    def stream(self, stream: str, *, after: int = 0) -> list[Row]:
        query = f"{_STREAM} AND originator_version > ? ORDER BY originator_version"
        return [self._row(columns) for columns in self._select(query, (stream, after))]

    def streams(self, prefix: str) -> list[str]:
        query = "SELECT DISTINCT originator_id FROM stored_events WHERE originator_id >= ?"
        end = prefix_end(prefix)
        bound = "" if end is None else " AND originator_id < ?"
        values = (prefix,) if end is None else (prefix, end)
        # The index orders text by its UTF-8 bytes, which is the order of code points.
        return [name for (name,) in self._select(f"{query}{bound} ORDER BY originator_id", values)]

    def rows(self, *, after: int = 0, limit: int = 1000) -> list[tuple[int, Row]]:
        return [
            (n, self._row(tuple(columns)))
            for n, *columns in self._select(_ROWS, (row_id_within(after), limit))
        ]

    def count(self) -> int:
        return cast(int, self._select("SELECT count(*) FROM stored_events")[0][0])

    def evidence(self, commitment: str) -> EvidenceRow | None:
        query = "SELECT commitment, salt, task, body FROM evidence WHERE commitment = ?"
        found = self._select(query, (commitment,))
        return EvidenceRow(*found[0]) if found else None

    def evidence_of(self, task: str) -> list[str]:
        query = "SELECT commitment FROM evidence WHERE task = ? ORDER BY commitment"
        return [commitment for (commitment,) in self._select(query, (task,))]

    def erase_evidence(self, commitments: Iterable[str]) -> int:
        names = [(commitment,) for commitment in commitments]
        with self._data.errors(), self._data.write() as cursor:
            cursor.executemany("INSERT OR IGNORE INTO evidence_erasing VALUES (?)", names)
            erased = cursor.executemany("DELETE FROM evidence WHERE commitment = ?", names).rowcount
            cursor.execute("DELETE FROM evidence_erasing")
        # The deleted bytes are overwritten in the file by a checkpoint only, and lie in the log until then.
        if self._select("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]:
            raise Busy(
                f"{self._location.shown}: erased, but a reader holds the write-ahead log with the bytes",
                hint="erase again once it is done",
            )
        return max(erased, 0)

    def try_lock(self, name: str) -> FileLock | None:
        return try_file_lock(self._location.path, check_lock_name(name))

    def position(self, projection: str) -> Position | None:
        found = self._select(POSITION, (projection,))
        return position_of(*found[0]) if found else None

    def projected(self, projection: str, key: str | None = None) -> Iterator[ProjectionRow]:
        query = "SELECT key, value FROM projection_rows WHERE projection = ?"
        if key is None:
            found = self._select(f"{query} ORDER BY key", (projection,))
        else:
            found = self._select(f"{query} AND key = ?", (projection, key))
        return (projection_row(*row) for row in found)

    def project(
        self, projection: str, rows: Iterable[ProjectionRow], *, was: Position | None, now: Position
    ) -> None:
        with self._data.errors(), self._data.write() as cursor:
            found = cursor.execute(POSITION, (projection,)).fetchone()
            if found != (None if was is None else (was.version, was.row_id, was.digest)):
                raise Busy(
                    f"{self._location.shown}: projection {projection!r}:"
                    f" expected position {was}, found {found}",
                    hint="another projector was first: read the position again",
                )
            _write_rows(cursor, projection, rows, now)

    def swap_projection(
        self, projection: str, rows: Iterable[ProjectionRow], *, now: Position
    ) -> None:
        with self._data.errors(), self._data.write() as cursor:
            cursor.execute("DELETE FROM projection_rows WHERE projection = ?", (projection,))
            _write_rows(cursor, projection, rows, now)

    def projector(self, projection: str) -> AbstractContextManager[None]:
        return self._hold_projector(projection)

    @contextmanager
    def _hold_projector(self, projection: str) -> Iterator[None]:
        lock = self.try_lock(projector_lock_name(projection))
        if lock is None:
            shown = self._location.shown
            raise Busy(f"{shown}: projection {projection!r} is written by another projector")
        try:
            yield
        finally:
            lock.release()

    def close(self) -> None:
        self._app.close()


def _write_rows(
    cursor: sqlite3.Cursor, projection: str, rows: Iterable[ProjectionRow], now: Position
) -> None:
    for row in rows:
        if row.value is None:
            statement = "DELETE FROM projection_rows WHERE projection = ? AND key = ?"
            cursor.execute(statement, (projection, row.key))
        else:
            statement = "INSERT OR REPLACE INTO projection_rows VALUES (?, ?, ?)"
            cursor.execute(statement, (projection, row.key, row.value))
    cursor.execute(PUT_POSITION, (projection, now.version, now.row_id, now.digest))


def open_sqlite(location: SQLiteLocation, *, lock_timeout_seconds: float) -> SQLiteStore:
    require_file(location.path, location.shown)
    return SQLiteStore(location, lock_timeout_seconds=lock_timeout_seconds)


def found_sqlite(location: SQLiteLocation, *, lock_timeout_seconds: float) -> SQLiteStore:
    """See `url.found`. Raises `CannotCreate`, `Busy`."""
    path, shown = location.path, location.shown
    try:
        if path.exists() and not path.is_file():
            raise CannotCreate(f"{shown}: is there already, and no file")
        make_folder_durably(path.parent, mode=0o777)
        # One founder at a time: the change to a write-ahead log does not wait for locks.
        lock = wait_file_lock(path, "found", lock_timeout_seconds)
    except OSError as error:
        raise CannotCreate(f"{shown}: {error.strerror}") from None
    except Busy:
        raise
    except CausebookError as error:
        raise CannotCreate(error.message) from None
    try:
        _create(location, lock_timeout_seconds)
        return open_sqlite(location, lock_timeout_seconds=lock_timeout_seconds)
    finally:
        lock.release()


def _create(location: SQLiteLocation, lock_timeout_seconds: float) -> None:
    path, shown = location.path, location.shown
    is_new = not path.exists()
    try:
        if is_new:
            _make_private(path)
        elif path.stat().st_size == 1:
            raise not_a_ledger(shown)  # SQLite takes one byte for an empty file, and writes over it
        connection = sqlite3.connect(
            location.uri("mode=rwc"), uri=True, timeout=lock_timeout_seconds, isolation_level=None
        )
        with contextlib.closing(connection):
            bound(connection)
            connection.execute("BEGIN IMMEDIATE")
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if tables:
                require_format(connection, shown)
                if connection.execute("SELECT 1 FROM stored_events LIMIT 1").fetchone():
                    raise CannotCreate(
                        f"{shown}: a ledger is there already", hint="causebook verify looks at it"
                    )
            else:
                for statement in SCHEMA:
                    connection.execute(statement)
                connection.execute(INSERT_FORMAT, (FORMAT_VERSION,))
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
    except BadData as error:
        raise CannotCreate(error.message, hint=error.hint) from None
    except ERRORS as error:
        if is_new and path.exists() and path.stat().st_size == 0:
            path.unlink()
        found = translate(error, path, shown, lock_timeout_seconds)
        if isinstance(found, Busy | IOFailure) or not isinstance(found, CausebookError):
            raise found from None
        raise CannotCreate(found.message, hint=found.hint) from None
    except OSError as error:
        raise CannotCreate(f"{shown}: {error.strerror}") from None


def _make_private(path: Path) -> None:
    """Make the empty file for its owner alone: prompts and source lie in it. The log beside it follows suit.

    Only a file that is new is opened here: see `require_file`.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
