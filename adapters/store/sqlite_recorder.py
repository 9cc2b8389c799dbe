"""The library's recorder, pool and factory for SQLite, as a ledger needs them.

Each connection runs with synchronous=FULL, a write-ahead log, secure_delete and recursive_triggers (without
which REPLACE passes the DELETE trigger). What reads and then writes begins IMMEDIATE: upgraded later, it
would fail with SQLITE_BUSY at once, whatever the timeout.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from eventsourcing.persistence import (
    ConnectionPoolClosedError,
    ConnectionUnavailableError,
    PersistenceError,
    StoredEvent,
)
from eventsourcing.sqlite import (
    SQLiteApplicationRecorder,
    SQLiteConnection,
    SQLiteConnectionPool,
    SQLiteDatastore,
    SQLiteFactory,
)
from eventsourcing.utils import Environment

from ...domain.errors import Busy, IOFailure
from .location import SQLiteLocation
from .port import EvidenceRow, LedgerMoved
from .shared import LEDGER
from .sqlite_file import ERRORS, bound, require_format, translate

NEWEST = "SELECT coalesce(max(originator_version), 0) FROM stored_events WHERE originator_id = ?"

_INSERT_EVENT = (
    "INSERT INTO stored_events (originator_id, originator_version, topic, state)"
    " VALUES (?, ?, ?, ?)"
)
_INSERT_EVIDENCE = "INSERT INTO evidence VALUES (?1, ?2, ?3, ?4)"
# Not OR IGNORE: that would pass over a broken CHECK as well. Not ON CONFLICT: the trigger comes before it.
_INSERT_NEW_EVIDENCE = (
    "INSERT INTO evidence SELECT ?1, ?2, ?3, ?4"
    " WHERE NOT EXISTS (SELECT 1 FROM evidence WHERE commitment = ?1)"
)
LIBRARY_ERRORS = (*ERRORS, PersistenceError)
"""What SQLite and the library raise; `LedgerDatastore.translate` says it in the port's own words."""

_PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA secure_delete = ON",
    "PRAGMA recursive_triggers = ON",
    "PRAGMA trusted_schema = OFF",
    # Only macOS knows these: there, fsync alone does not reach the disk.
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
)


class _Pool(SQLiteConnectionPool):
    def __init__(self, location: SQLiteLocation, lock_timeout_seconds: float) -> None:
        self.location = location
        self.lock_timeout_seconds = lock_timeout_seconds
        self._is_checked = False
        super().__init__(db_name=location.uri("mode=rw"), pool_timeout=lock_timeout_seconds)

    def _create_connection(self) -> SQLiteConnection:
        # Overridden whole: the library passes `cached_statements=True`, a cache of one statement, and every
        # statement of an append is compiled anew, its triggers included.
        connection = sqlite3.connect(
            self.location.uri("mode=rw"),
            uri=True,
            check_same_thread=False,
            isolation_level=None,
            timeout=self.lock_timeout_seconds,
        )
        try:
            bound(connection)
            if not self._is_checked:
                # Before anything is set: the journal mode is written into the file, whoever owns it.
                require_format(connection, self.location.shown)
                self._is_checked = True
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise IOFailure(f"{self.location.shown}: has no write-ahead log, but mode {mode}")
            for pragma in _PRAGMAS:
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
        connection.row_factory = sqlite3.Row
        return SQLiteConnection(connection, max_age=None)


class LedgerDatastore(SQLiteDatastore):
    def __init__(self, location: SQLiteLocation, lock_timeout_seconds: float) -> None:
        self.location = location
        self.lock_timeout_seconds = lock_timeout_seconds
        self._writing = threading.Lock()
        self._owner: int | None = None
        self._writer: SQLiteConnection | None = None
        self._cursor: sqlite3.Cursor | None = None
        super().__init__(db_name=location.uri("mode=rw"), originator_id_type="text")
        self.pool: _Pool = _Pool(location, lock_timeout_seconds)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what SQLite and the library raise into what the port promises."""
        try:
            yield
        except LIBRARY_ERRORS as error:
            self.translate(error)

    def translate(self, error: Exception) -> NoReturn:
        """Raise what the port promises in place of one of `LIBRARY_ERRORS`, or the error as it is."""
        location, seconds = self.location, self.lock_timeout_seconds
        if isinstance(error, ConnectionUnavailableError):
            raise Busy(f"{location.shown}: no connection became free for {seconds:g} s") from None
        cause = error.__cause__ if isinstance(error, PersistenceError) else error
        if isinstance(cause, ERRORS):
            raise translate(cause, location.path, location.shown, seconds) from None
        raise error

    def begin(self) -> sqlite3.Cursor:
        """Begin a transaction that has the write lock from its start: `commit` or `roll_back` ends it.

        One connection is kept for it beside the pool, and one thread at a time has it: SQLite has one writer,
        and taking a connection out of the pool would cost a tenth of an append.
        """
        if not self._writing.acquire(timeout=self.lock_timeout_seconds):
            shown, seconds = self.location.shown, self.lock_timeout_seconds
            raise Busy(f"{shown}: this process writes to it for over {seconds:g} s")
        self._owner = threading.get_ident()
        if self._cursor is None:
            if self.pool.closed:
                raise ConnectionPoolClosedError
            self._writer = self.pool._create_connection()
            self._cursor = self._writer._sqlite_conn.cursor()
            self._cursor.row_factory = None
        # A signal that comes while it waits for the lock is raised once it has it: `roll_back` sees to it.
        return self._cursor.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Store what was done since `begin`, durably."""
        if self._cursor is not None:
            self._cursor.execute("COMMIT")
        self._let_go()

    def roll_back(self) -> None:
        """Undo what was done since `begin`; nothing is done where this thread began nothing."""
        if self._owner != threading.get_ident():
            return
        try:
            # A full disk or a failed write may have rolled back already.
            if self._cursor is not None and self._cursor.connection.in_transaction:
                self._cursor.execute("ROLLBACK")
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._owner = None
        self._writing.release()

    @contextmanager
    def write(self) -> Iterator[sqlite3.Cursor]:
        """A transaction as `begin` has it; all of it is stored, or nothing."""
        try:
            yield self.begin()
            self.commit()
        except BaseException:
            try:
                self.roll_back()
            except BaseException:  # a signal that came while SQLite waited is raised on the way in
                self.roll_back()
                raise
            raise

    def close(self) -> None:
        writer, self._writer, self._cursor = self._writer, None, None
        if writer is not None:
            writer._close()
        super().close()


class LedgerRecorder(SQLiteApplicationRecorder):
    """`insert_events` is overridden whole: an error raised in the library's inner steps still commits."""

    datastore: LedgerDatastore

    def insert_events(
        self,
        stored_events: Sequence[StoredEvent],
        *,
        evidence: Sequence[EvidenceRow] = (),
        ledger_version: int = -1,
        **_: Any,
    ) -> Sequence[int] | None:
        # The library's own callers know no `ledger_version`, and -1 is never right: they store nothing.
        rows = [(e.originator_id, e.originator_version, e.topic, e.state) for e in stored_events]
        self.append(rows, evidence, ledger_version)
        return None

    def append(
        self,
        rows: Sequence[tuple[object, ...]],
        evidence: Sequence[EvidenceRow],
        ledger_version: int,
    ) -> None:
        """See `port.Store.append`. `rows`: stream, version, type and record."""
        data = self.datastore
        try:  # what `write` does, without the cost of a context manager on the path of every turn
            cursor = data.begin()
            if cursor.execute(NEWEST, (LEDGER,)).fetchone()[0] != ledger_version:
                raise LedgerMoved
            cursor.executemany(_INSERT_EVENT, rows)
            if evidence:
                try:
                    cursor.executemany(_INSERT_EVIDENCE, evidence)
                except sqlite3.IntegrityError:
                    # One is stored already, which two random salts all but rule out. To ask each time before
                    # would cost an append a tenth of its time; what went in is passed over.
                    cursor.executemany(_INSERT_NEW_EVIDENCE, evidence)
            data.commit()
        except BaseException:
            try:
                data.roll_back()
            except BaseException:  # as in `write`
                data.roll_back()
                raise
            raise


class LedgerFactory(SQLiteFactory):
    def __init__(self, datastore: LedgerDatastore) -> None:
        # The library's own constructor would read the location from its environment.
        self.env = Environment()
        self._is_entered = False
        self.datastore: LedgerDatastore = datastore

    def application_recorder(self) -> LedgerRecorder:
        return LedgerRecorder(self.datastore)
