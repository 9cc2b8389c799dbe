"""A snapshot of a PostgreSQL ledger: one REPEATABLE READ, READ ONLY transaction and server-side cursors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, LiteralString

from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus

from .location import PostgresLocation
from .port import Row
from .postgres_server import connect, reported, require_ledger
from .shared import row_id_within
from .snapshot_port import BATCH_ROWS, RECORDS_AT_ONCE, Snapshot

_TIMEOUT_SECONDS = 30.0


class PostgresSnapshot(Snapshot):
    """See `Snapshot`. Owns one connection."""

    _octets = "octet_length({})"

    def __init__(self, location: PostgresLocation) -> None:
        super().__init__(location.shown)
        self._where = location
        self._names = itertools.count()
        with reported(location):
            self._connection = connect(location, _TIMEOUT_SECONDS)
            try:
                # A verifier may think for long between two rows.
                self._connection.execute("SET idle_in_transaction_session_timeout = 0")
                # Unqualified names below mean the ledger's tables, whatever the role's own path.
                self._connection.execute("SET search_path = causebook")
                self._connection.isolation_level = IsolationLevel.REPEATABLE_READ
                self._connection.read_only = True
                self._connection.autocommit = False
                require_ledger(self._connection, location)
            except BaseException:
                self._connection.close()
                raise

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        first = " WHERE notification_id > ?" if after else ""
        query = f"SELECT notification_id, {self._record_columns()} FROM stored_events{first}"  # noqa: S608
        given = (row_id_within(after),) if after else ()
        found = self._select(f"{query} ORDER BY 1", given, batch=RECORDS_AT_ONCE)
        for row_id, stream, version, label, record, length in found:
            if type(record) is bytes and type(label) is str:
                yield row_id, Row(stream, version, label, record)
            else:
                yield row_id, self._row(f"row {row_id}", (stream, version, label, record, length))

    def count(self) -> int:
        ((records,),) = self._select("SELECT count(*) FROM stored_events")
        return int(records)

    def index_faults(self) -> list[str]:
        # The server keeps its indices; whoever has its files has more than the ledger.
        return []

    def check_unchanged(self) -> None:
        """The server keeps the snapshot: there is nothing to check."""

    def close(self) -> None:
        self._connection.close()

    def _select(
        self,
        query: LiteralString,
        parameters: tuple[object, ...] = (),
        *,
        batch: int = BATCH_ROWS,
    ) -> Iterator[tuple[Any, ...]]:
        statement = query.replace("?", "%s")
        with reported(self._where):
            cursor = self._connection.cursor(f"causebook_{next(self._names)}", binary=True)
            # A round trip for each row would cost more than the rows.
            cursor.itersize = max(batch, 8)
            try:
                yield from cursor.execute(statement, parameters)
            finally:
                # After an error of the server no cursor is left, and closing it would hide the error.
                if self._connection.info.transaction_status == TransactionStatus.INTRANS:
                    cursor.close()
