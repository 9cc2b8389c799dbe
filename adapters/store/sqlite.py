"""The store in a SQLite file: the default, for one host.

Connections and the append are in `sqlite_recorder.py`, the schema is in `sqlite_file.py`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from eventsourcing.persistence import StoredEvent

from ...domain.errors import BadData, Busy, CannotCreate, CausebookError, IOFailure
from .application import LedgerApplication, to_row
from .location import SQLiteLocation
from .locks import FileLock, try_file_lock, wait_file_lock
from .port import EvidenceRow, LedgerMoved, Position, ProjectionRow, Row
from .shared import (
    FORMAT_VERSION,
    already_there,
    check_lock_name,
    prefix_end,
    projector_lock_name,
    refused,
)
from .sqlite_file import INSERT_FORMAT, SCHEMA, require_file, require_format, translate
from .sqlite_recorder import NEWEST, LedgerDatastore, LedgerFactory, LedgerRecorder

_STORED = (
    "SELECT originator_id, originator_version, topic, state FROM stored_events"
    " WHERE originator_id = ? AND originator_version = ?"
)
_POSITION = "SELECT version, row_id, digest FROM projection_positions WHERE projection = ?"
_PUT_POSITION = "INSERT OR REPLACE INTO projection_positions VALUES (?, ?, ?, ?)"


class SQLiteStore:
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
        events = [StoredEvent(row.stream, row.version, row.type, row.record) for row in rows]
        with self._data.errors():
            try:
                self._recorder.insert_events(
                    events, evidence=evidence, ledger_version=ledger_version
                )
            except LedgerMoved:
                if not already_there(rows, self._stored):
                    raise
            except sqlite3.IntegrityError as error:
                if not already_there(rows, self._stored):
                    shown, why = self._location.shown, str(error)
                    raise refused(shown, rows, self._stored, self._newest, why) from None

    def _stored(self, stream: str, version: int) -> Row | None:
        found = self._select(_STORED, (stream, version))
        return Row(*found[0]) if found else None

    def _newest(self, stream: str) -> int:
        return cast(int, self._select(NEWEST, (stream,))[0][0])

    def _select(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._data.errors(), self._data.get_connection(commit=False) as pooled:
            cursor = pooled._sqlite_conn.cursor()
            cursor.row_factory = None
            return cursor.execute(query, parameters).fetchall()

    def stream(self, stream: str, *, after: int = 0) -> list[Row]:
        with self._data.errors():
            return [to_row(event) for event in self._recorder.select_events(stream, gt=after)]

    def streams(self, prefix: str) -> list[str]:
        query = "SELECT DISTINCT originator_id FROM stored_events WHERE originator_id >= ?"
        end = prefix_end(prefix)
        bound = "" if end is None else " AND originator_id < ?"
        values = (prefix,) if end is None else (prefix, end)
        # The index orders text by its UTF-8 bytes, which is the order of code points.
        return [name for (name,) in self._select(f"{query}{bound} ORDER BY originator_id", values)]

    def rows(self, *, after: int = 0, limit: int = 1000) -> list[tuple[int, Row]]:
        with self._data.errors():
            found = self._recorder.select_notifications(after, limit, inclusive_of_start=False)
            return [(notification.id, to_row(notification)) for notification in found]

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
        with self._data.errors(), self._data.write() as connection:
            connection.executemany("INSERT OR IGNORE INTO evidence_erasing VALUES (?)", names)
            erased = connection.executemany(
                "DELETE FROM evidence WHERE commitment = ?", names
            ).rowcount
            connection.execute("DELETE FROM evidence_erasing")
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
        found = self._select(_POSITION, (projection,))
        return Position(*found[0]) if found else None

    def projected(self, projection: str, key: str | None = None) -> Iterator[ProjectionRow]:
        query = "SELECT key, value FROM projection_rows WHERE projection = ?"
        if key is None:
            found = self._select(f"{query} ORDER BY key", (projection,))
        else:
            found = self._select(f"{query} AND key = ?", (projection, key))
        return (ProjectionRow(*row) for row in found)

    def project(
        self, projection: str, rows: Iterable[ProjectionRow], *, was: Position | None, now: Position
    ) -> None:
        with self._data.errors(), self._data.write() as connection:
            cursor = connection.cursor()
            cursor.row_factory = None
            found = cursor.execute(_POSITION, (projection,)).fetchone()
            if found != (None if was is None else (was.version, was.row_id, was.digest)):
                raise Busy(
                    f"{self._location.shown}: projection {projection!r}:"
                    f" expected position {was}, found {found}",
                    hint="another projector was first: read the position again",
                )
            _write_rows(connection, projection, rows, now)

    def swap_projection(
        self, projection: str, rows: Iterable[ProjectionRow], *, now: Position
    ) -> None:
        with self._data.errors(), self._data.write() as connection:
            connection.execute("DELETE FROM projection_rows WHERE projection = ?", (projection,))
            _write_rows(connection, projection, rows, now)

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
    connection: sqlite3.Connection, projection: str, rows: Iterable[ProjectionRow], now: Position
) -> None:
    for row in rows:
        if row.value is None:
            statement = "DELETE FROM projection_rows WHERE projection = ? AND key = ?"
            connection.execute(statement, (projection, row.key))
        else:
            statement = "INSERT OR REPLACE INTO projection_rows VALUES (?, ?, ?)"
            connection.execute(statement, (projection, row.key, row.value))
    connection.execute(_PUT_POSITION, (projection, now.version, now.row_id, now.digest))


def open_sqlite(location: SQLiteLocation, *, lock_timeout_seconds: float) -> SQLiteStore:
    require_file(location.path, location.shown)
    return SQLiteStore(location, lock_timeout_seconds=lock_timeout_seconds)


def found_sqlite(location: SQLiteLocation, *, lock_timeout_seconds: float) -> SQLiteStore:
    """See `url.found`. Raises `CannotCreate`, `Busy`."""
    path, shown = location.path, location.shown
    try:
        if path.exists() and not path.is_file():
            raise CannotCreate(f"{shown}: is there already, and no file")
        path.parent.mkdir(parents=True, exist_ok=True)
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
        connection = sqlite3.connect(
            location.uri("mode=rwc"), uri=True, timeout=lock_timeout_seconds, isolation_level=None
        )
        with contextlib.closing(connection):
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
    except sqlite3.Error as error:
        if is_new and path.exists() and path.stat().st_size == 0:
            path.unlink()
        found = translate(error, path, shown, lock_timeout_seconds)
        if isinstance(found, Busy | IOFailure) or not isinstance(found, CausebookError):
            raise found from None
        raise CannotCreate(found.message, hint=found.hint) from None
