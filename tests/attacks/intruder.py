"""Whoever owns the store: writes what they like past its triggers. It has no key of the ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from causebook.adapters.findings import CheckName, Finding, Report
from causebook.adapters.store.port import Row
from causebook.adapters.store.snapshot import open_snapshot
from causebook.adapters.store.url import found
from causebook.adapters.verification.verify import verify
from tests.adapters.forge import Forge


def stored(forge: Forge, url: str) -> None:
    """Put a forged ledger into a store, as its own writers would."""
    store = found(url)
    try:
        known = 0
        for is_ledger, rows in groupby(forge.rows, key=lambda row: row.stream == "ledger"):
            batch = list(rows)
            store.append(batch, [], ledger_version=known)
            known += len(batch) if is_ledger else 0
        store.append([], list(forge.evidence.values()), ledger_version=known)
    finally:
        store.close()


def looked_at(url: str) -> Report:
    """What verify says of a store."""
    with open_snapshot(url) as snapshot:
        return verify(snapshot, processes=0)


def places(report: Report, check: CheckName) -> list[str]:
    """Where a check found something."""
    return [finding.place for finding in report[check].findings]


def only(report: Report, check: CheckName) -> Finding:
    """The one finding of a check."""
    (finding,) = report[check].findings
    return finding


def failed(report: Report) -> set[str]:
    """The checks that failed."""
    return {check.name for check in report.checks if check.status == "FAIL"}


class Intruder:
    """A connection to a store. Statements are written with `?`, and committed at once.

    The triggers are taken away for each statement and put back, so that none of that shows.
    """

    def __init__(self, url: str) -> None:
        self._execute: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
        if url.startswith("sqlite:///"):
            self._open_sqlite(url.removeprefix("sqlite:///"))
        else:
            self._open_postgres(url)

    def _open_sqlite(self, path: str) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA ignore_check_constraints = ON")
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        triggers = connection.execute(query).fetchall()

        def execute(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            try:
                return connection.execute(statement, values).fetchall()
            finally:
                for _, sql in triggers:
                    connection.execute(sql)

        self.row_id = "rowid"
        self._execute = execute
        self._run: Callable[[str], object] = connection.execute
        self.close = connection.close

    def _open_postgres(self, url: str) -> None:
        import psycopg

        connection = psycopg.connect(url, autocommit=True)
        connection.execute("SET search_path = causebook")
        self.row_id = "notification_id"

        def triggers(state: str) -> None:
            for table in ("stored_events", "evidence", "checkpoints", "checkpoint_additions"):
                connection.execute(f"ALTER TABLE {table} {state} TRIGGER USER")

        def execute(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
            triggers("DISABLE")
            try:
                cursor = connection.execute(statement.replace("?", "%s"), values)
                return cursor.fetchall() if cursor.description else []
            finally:
                triggers("ENABLE")

        self._execute = execute
        self._run = connection.execute
        self.close = connection.close

    def __enter__(self) -> Intruder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, statement: str) -> None:
        """Change the schema itself; nothing is put back."""
        self._run(statement)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._execute(statement, values)

    def record(self, stream: str, version: int) -> bytes:
        ((state,),) = self.sql(
            "SELECT state FROM stored_events WHERE originator_id = ? AND originator_version = ?",
            stream,
            version,
        )
        return bytes(state)

    def overwrite(self, stream: str, version: int, record: bytes) -> None:
        self.sql(
            "UPDATE stored_events SET state = ? WHERE originator_id = ? AND originator_version = ?",
            record,
            stream,
            version,
        )

    def delete(self, stream: str, version: int) -> None:
        self.sql(
            "DELETE FROM stored_events WHERE originator_id = ? AND originator_version = ?",
            stream,
            version,
        )

    def insert(self, row: Row) -> None:
        self.sql(
            "INSERT INTO stored_events (originator_id, originator_version, topic, state)"
            " VALUES (?, ?, ?, ?)",
            row.stream,
            row.version,
            row.type,
            row.record,
        )

    def exchange_rows(self, stream: str, first: int, second: int) -> None:
        """Let two rows of a stream change places in the order of commit, each with its own columns."""
        columns = f"{self.row_id}, originator_version, topic, state"
        query = (
            f"SELECT {columns} FROM stored_events"
            " WHERE originator_id = ? AND originator_version IN (?, ?) ORDER BY 1"
        )
        one, two = self.sql(query, stream, first, second)
        self._fill(one[0], (-1, *two[2:]))
        self._fill(two[0], one[1:])
        self._fill(one[0], two[1:])

    def _fill(self, row_id: int, values: tuple[Any, ...]) -> None:
        self.sql(
            "UPDATE stored_events SET originator_version = ?, topic = ?, state = ?"
            f" WHERE {self.row_id} = ?",
            *values,
            row_id,
        )
