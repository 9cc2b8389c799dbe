"""The store in a PostgreSQL database, for many hosts. It needs psycopg, which the SQLite store does not.

Nothing here runs DDL but `found_postgres`, under an advisory lock: concurrent `CREATE … IF NOT EXISTS` race
with one another. Session locks and settings need connections of their own: no pooler in transaction mode.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, LiteralString, cast

import psycopg
from eventsourcing.persistence import PersistenceError, StoredEvent
from psycopg import Connection
from psycopg.rows import tuple_row

from ...domain.errors import BadData, Busy, CannotCreate
from .application import LedgerApplication
from .location import PostgresLocation
from .port import EvidenceRow, LedgerMoved, Position, ProjectionRow, Row, Store
from .postgres_recorder import NEWEST, LedgerDatastore, LedgerFactory, LedgerRecorder
from .postgres_schema import SCHEMA
from .postgres_server import (
    advisory_key,
    connect,
    relations_of,
    reported,
    require_durable,
    require_ledger,
    translate,
)
from .postgres_tree import POSITION, PUT_POSITION, PostgresTree, lock_projection
from .shared import (
    FORMAT_VERSION,
    already_there,
    check_lock_name,
    position_of,
    prefix_end,
    projection_row,
    projector_lock_name,
    refused,
    row_id_within,
)

_ATTEMPTS = 3
_RETRY_SECONDS = 0.2

_STREAM: LiteralString = (
    "SELECT originator_id, originator_version, topic, state FROM causebook.stored_events"
    " WHERE originator_id = %s"
)
_ROWS: LiteralString = (
    "SELECT notification_id, originator_id, originator_version, topic, state"
    " FROM causebook.stored_events WHERE notification_id > %s ORDER BY notification_id LIMIT %s"
)
_STREAMS: LiteralString = (
    "SELECT DISTINCT originator_id FROM causebook.stored_events WHERE originator_id >= %s"
)
_PUT_ROW: LiteralString = (
    "INSERT INTO causebook.projection_rows (projection, key, value) VALUES (%s, %s, %s)"
    " ON CONFLICT (projection, key) DO UPDATE SET value = EXCLUDED.value"
)
_DROP_ROW: LiteralString = (
    "DELETE FROM causebook.projection_rows WHERE projection = %s AND key = %s"
)


class AdvisoryLock:
    """A session advisory lock and the connection that holds it. `release` is idempotent."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def release(self) -> None:
        if self._connection.closed:
            return
        try:
            # The server drops the lock with the session as well, but in its own time.
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        except psycopg.Error:
            # The session is gone, and the lock with it: nothing is left to release.
            return
        finally:
            self._connection.close()


class PostgresStore(PostgresTree):
    """The port `Store` over a PostgreSQL database. Safe for threads; not for use after a fork."""

    def __init__(self, location: PostgresLocation, *, lock_timeout_seconds: float) -> None:
        self._location = location
        self._lock_timeout_seconds = lock_timeout_seconds
        # A connection of our own first: a pool would try for its whole timeout to reach a server that is
        # down.
        with reported(location), connect(location, lock_timeout_seconds) as connection:
            require_durable(connection, location)
            require_ledger(connection, location)
        self._data = LedgerDatastore(location, lock_timeout_seconds)
        self._app = LedgerApplication(LedgerFactory(self._data))
        self._recorder = cast(LedgerRecorder, self._app.recorder)

    def append(
        self, rows: Sequence[Row], evidence: Sequence[EvidenceRow], *, ledger_version: int
    ) -> None:
        events = [StoredEvent(row.stream, row.version, row.type, row.record) for row in rows]
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._recorder.insert_events(
                    events, evidence=evidence, ledger_version=ledger_version
                )
                return
            except LedgerMoved:
                if already_there(rows, self._stored):
                    return
                raise
            except PersistenceError as error:
                cause = error.__cause__
                if isinstance(cause, psycopg.IntegrityError):
                    if already_there(rows, self._stored):
                        return
                    shown, why = self._location.shown, self._location.clean(str(cause))
                    raise refused(shown, rows, self._stored, self._newest, why) from None
                # A connection lost on COMMIT leaves open whether it happened: the next try finds out, by the
                # conflict with the rows that it then meets.
                if _is_lost(cause) and attempt < _ATTEMPTS:
                    time.sleep(_RETRY_SECONDS)
                    continue
                raise translate(cause if cause is not None else error, self._location) from None

    def _stored(self, stream: str, version: int) -> Row | None:
        found = self._select(f"{_STREAM} AND originator_version = %s", (stream, version))
        return Row(*found[0]) if found else None

    def _newest(self, stream: str) -> int:
        return cast(int, self._select(NEWEST, (stream,))[0][0])

    def _select(
        self, query: LiteralString, parameters: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        with (
            self._data.errors(),
            self._data.get_connection() as connection,
            # Binary: bytea in text form is twice as long and has to be decoded.
            connection.cursor(row_factory=tuple_row, binary=True) as cursor,
        ):
            return cursor.execute(query, parameters).fetchall()

    @contextmanager
    def _write(self) -> Iterator[psycopg.Cursor[tuple[Any, ...]]]:
        with (
            self._data.errors(),
            self._data.get_connection() as connection,
            connection.transaction(),
            connection.cursor(row_factory=tuple_row) as cursor,
        ):
            yield cursor

    def stream(self, stream: str, *, after: int = 0) -> list[Row]:
        query = f"{_STREAM} AND originator_version > %s ORDER BY originator_version"
        return [Row(*row) for row in self._select(query, (stream, after))]

    def streams(self, prefix: str) -> list[str]:
        end = prefix_end(prefix)
        bound = "" if end is None else " AND originator_id < %s"
        values = (prefix,) if end is None else (prefix, end)
        return [
            name for (name,) in self._select(f"{_STREAMS}{bound} ORDER BY originator_id", values)
        ]

    def rows(self, *, after: int = 0, limit: int = 1000) -> list[tuple[int, Row]]:
        found = self._select(_ROWS, (row_id_within(after), limit))
        return [(row_id, Row(*row)) for row_id, *row in found]

    def count(self) -> int:
        return cast(int, self._select("SELECT count(*) FROM causebook.stored_events")[0][0])

    def evidence(self, commitment: str) -> EvidenceRow | None:
        query = "SELECT commitment, salt, task, body FROM causebook.evidence WHERE commitment = %s"
        found = self._select(query, (commitment,))
        return EvidenceRow(*found[0]) if found else None

    def evidence_of(self, task: str) -> list[str]:
        query = "SELECT commitment FROM causebook.evidence WHERE task = %s ORDER BY commitment"
        return [commitment for (commitment,) in self._select(query, (task,))]

    def erase_evidence(self, commitments: Iterable[str]) -> int:
        names = sorted(set(commitments))
        with self._write() as cursor:
            cursor.execute(
                "INSERT INTO causebook.evidence_erasing SELECT unnest(%s::text[])"
                " ON CONFLICT DO NOTHING",
                (names,),
            )
            cursor.execute("DELETE FROM causebook.evidence WHERE commitment = ANY(%s)", (names,))
            erased = cursor.rowcount
            cursor.execute(
                "DELETE FROM causebook.evidence_erasing WHERE commitment = ANY(%s)", (names,)
            )
        with self._data.errors(), self._data.get_connection() as connection:
            connection.execute("VACUUM causebook.evidence")
        return erased

    def try_lock(self, name: str) -> AdvisoryLock | None:
        key = advisory_key(check_lock_name(name))
        with reported(self._location):
            connection = connect(self._location, self._lock_timeout_seconds)
            try:
                # A server may close sessions that are idle, and the lock with them (PostgreSQL 14 and later).
                connection.execute(
                    "SELECT set_config(name, '0', false) FROM pg_catalog.pg_settings"
                    " WHERE name = 'idle_session_timeout'"
                )
                row = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
            except BaseException:
                connection.close()
                raise
        if row is not None and row[0]:
            return AdvisoryLock(connection)
        connection.close()
        return None

    def position(self, projection: str) -> Position | None:
        found = self._select(POSITION, (projection,))
        return position_of(*found[0]) if found else None

    def projected(self, projection: str, key: str | None = None) -> Iterator[ProjectionRow]:
        query = "SELECT key, value FROM causebook.projection_rows WHERE projection = %s"
        if key is None:
            found = self._select(f"{query} ORDER BY key", (projection,))
        else:
            found = self._select(f"{query} AND key = %s", (projection, key))
        return (projection_row(*row) for row in found)

    def project(
        self, projection: str, rows: Iterable[ProjectionRow], *, was: Position | None, now: Position
    ) -> None:
        with self._write() as cursor:
            lock_projection(cursor, projection)
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
        with self._write() as cursor:
            lock_projection(cursor, projection)
            cursor.execute(
                "DELETE FROM causebook.projection_rows WHERE projection = %s", (projection,)
            )
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


def _is_lost(cause: BaseException | None) -> bool:
    """Whether the connection went away, so that the outcome of a commit is unknown."""
    # Errors of a class of their own come from a server that answered; a refused lock is one of them.
    return isinstance(cause, psycopg.OperationalError) and (
        cause.sqlstate is None or cause.sqlstate.startswith(("08", "57P"))
    )


def _write_rows(
    cursor: psycopg.Cursor[tuple[Any, ...]],
    projection: str,
    rows: Iterable[ProjectionRow],
    now: Position,
) -> None:
    # One by one and in order: a key may be written and deleted in one call.
    for row in rows:
        if row.value is None:
            cursor.execute(_DROP_ROW, (projection, row.key))
        else:
            cursor.execute(_PUT_ROW, (projection, row.key, row.value))
    cursor.execute(PUT_POSITION, (projection, now.version, now.row_id, now.digest))


def open_postgres(location: PostgresLocation, *, lock_timeout_seconds: float) -> Store:
    return PostgresStore(location, lock_timeout_seconds=lock_timeout_seconds)


def found_postgres(location: PostgresLocation, *, lock_timeout_seconds: float) -> Store:
    """See `url.found`. The database itself has to exist. Raises `CannotCreate`."""
    with reported(location), connect(location, lock_timeout_seconds) as connection:
        require_durable(connection, location)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (advisory_key("found"),))
            if relations_of(connection):
                try:
                    require_ledger(connection, location)
                except BadData as error:
                    raise CannotCreate(error.message, hint=error.hint) from None
                if connection.execute("SELECT 1 FROM causebook.stored_events LIMIT 1").fetchone():
                    raise CannotCreate(
                        f"{location.shown}: a ledger is there already",
                        hint="causebook verify looks at it",
                    )
            else:
                for statement in SCHEMA:
                    connection.execute(statement)
                connection.execute(
                    "INSERT INTO causebook.causebook_format VALUES (%s)", (FORMAT_VERSION,)
                )
    return open_postgres(location, lock_timeout_seconds=lock_timeout_seconds)
