"""The library's recorder, pool and factory for PostgreSQL, as a ledger needs them.

Each append locks the table before row ids are drawn, so that the order of row ids is the order of commits; a
rolled back append leaves a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from eventsourcing.persistence import PersistenceError, StoredEvent
from eventsourcing.postgres import (
    ConnectionPool,
    PostgresApplicationRecorder,
    PostgresDatastore,
    PostgresFactory,
)
from eventsourcing.utils import Environment
from psycopg import Connection
from psycopg.rows import dict_row, tuple_row

from ...domain.errors import Misuse
from .location import PostgresLocation
from .port import EvidenceRow, LedgerMoved
from .postgres_server import CONNECT_TIMEOUT_SECONDS, configure, translate
from .shared import LEDGER

NEWEST: LiteralString = (
    "SELECT coalesce(max(originator_version), 0) FROM causebook.stored_events"
    " WHERE originator_id = %s"
)

_POOL_MAX = 16
_LOCK: LiteralString = "LOCK TABLE causebook.stored_events IN EXCLUSIVE MODE"
_INSERT_EVENT: LiteralString = (
    "INSERT INTO causebook.stored_events (originator_id, originator_version, topic, state)"
    " VALUES (%s, %s, %s, %s)"
)
_INSERT_EVIDENCE: LiteralString = (
    "INSERT INTO causebook.evidence (commitment, salt, task, body) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (commitment) DO NOTHING"
)


class LedgerDatastore(PostgresDatastore):
    def __init__(self, location: PostgresLocation, lock_timeout_seconds: float) -> None:
        super().__init__("", "", "", "", "", schema="causebook", originator_id_type="text")
        self.location = location
        # The library's pool knows five of libpq's keywords only; a URL may have others, as sslmode.
        self.pool = ConnectionPool(
            connection_class=Connection[Any],
            kwargs={
                "connect_timeout": CONNECT_TIMEOUT_SECONDS,
                **location.conninfo,
                "row_factory": dict_row,
            },
            min_size=1,
            max_size=_POOL_MAX,
            open=False,
            configure=lambda connection: configure(connection, lock_timeout_seconds),
            timeout=max(CONNECT_TIMEOUT_SECONDS, lock_timeout_seconds),
            num_workers=1,
        )

    def register_type_adapters(self) -> None:
        """The library's composite type is not used: our inserts pass plain columns."""

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what psycopg and the library raise into what the port promises."""
        try:
            yield
        except psycopg.Error as error:
            raise translate(error, self.location) from None
        except PersistenceError as error:
            cause = error.__cause__
            raise translate(cause if cause is not None else error, self.location) from None


class LedgerRecorder(PostgresApplicationRecorder):
    """`insert_events` is overridden whole: an error raised in the library's inner steps still commits."""

    def __init__(self, datastore: PostgresDatastore) -> None:
        if datastore.enable_db_functions:
            raise Misuse("POSTGRES_ENABLE_DB_FUNCTIONS draws row ids without the table lock")
        super().__init__(datastore)

    def insert_events(
        self,
        stored_events: Sequence[StoredEvent],
        *,
        evidence: Sequence[EvidenceRow] = (),
        ledger_version: int = -1,
        **_: Any,
    ) -> Sequence[int] | None:
        # The library's own callers know no `ledger_version`, and -1 is never right: they store nothing.
        with (
            self.datastore.get_connection() as connection,
            connection.transaction(),
            connection.cursor(row_factory=tuple_row) as cursor,
        ):
            cursor.execute(_LOCK)
            newest = cursor.execute(NEWEST, (LEDGER,)).fetchone()
            if newest is None or newest[0] != ledger_version:
                raise LedgerMoved
            if stored_events:
                cursor.executemany(
                    _INSERT_EVENT,
                    [
                        (e.originator_id, e.originator_version, e.topic, e.state)
                        for e in stored_events
                    ],
                )
            if evidence:
                cursor.executemany(
                    _INSERT_EVIDENCE,
                    [(e.commitment, e.salt, e.task, e.body) for e in evidence],
                )
        return None


class LedgerFactory(PostgresFactory):
    def __init__(self, datastore: PostgresDatastore) -> None:
        # The library's own constructor would read the location from its environment.
        self.env = Environment()
        self._is_entered = False
        self.datastore = datastore

    def application_recorder(self) -> LedgerRecorder:
        return LedgerRecorder(self.datastore)
