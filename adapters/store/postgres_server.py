"""A connection to the PostgreSQL server of a ledger, how the ledger is recognised, and what errors mean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection, errors

from ...domain.errors import (
    BadData,
    Busy,
    CausebookError,
    Denied,
    IOFailure,
    Misuse,
    NoInput,
    StoreUnavailable,
)
from .location import PostgresLocation
from .postgres_schema import TABLES
from .shared import check_format

CONNECT_TIMEOUT_SECONDS = 10

# Written out on every connection: PGOPTIONS, the role or the database could say otherwise.
_SETTINGS = {
    "synchronous_commit": "on",
    "client_encoding": "UTF8",
    "idle_in_transaction_session_timeout": "60s",
    "application_name": "causebook",
}


def advisory_key(name: str) -> int:
    """The signed 64-bit key of the advisory lock that stands for the runner `name`."""
    return int.from_bytes(
        hashlib.sha256(b"causebook/runner/" + name.encode()).digest()[:8], signed=True
    )


def configure(connection: Connection[Any], lock_timeout_seconds: float) -> None:
    connection.autocommit = True
    settings = _SETTINGS | {"lock_timeout": f"{max(1, round(lock_timeout_seconds * 1000))}ms"}
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))


def connect(location: PostgresLocation, lock_timeout_seconds: float) -> Connection[Any]:
    """One connection of its own. Raises psycopg's errors: call it inside `reported`."""
    options = {"connect_timeout": str(CONNECT_TIMEOUT_SECONDS)} | dict(location.conninfo)
    try:
        connection: Connection[Any] = psycopg.connect("", **options)  # type: ignore[arg-type]
    except psycopg.ProgrammingError as error:
        raise Misuse(f"{location.shown}: {location.clean(str(error))}") from None
    try:
        configure(connection, lock_timeout_seconds)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def reported(location: PostgresLocation) -> Iterator[None]:
    """Turn psycopg's errors into what the port promises; none of them is chained, lest a secret be shown."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, location) from None


def translate(error: BaseException, location: PostgresLocation) -> CausebookError:
    """What a person is told; the text of the server is on one line, without the password."""
    text = f"{location.shown}: {location.clean(str(error))}"
    match error:
        case errors.LockNotAvailable() | errors.DeadlockDetected() | errors.SerializationFailure():
            return Busy(
                f"{location.shown}: locked by another writer for too long", hint="try again"
            )
        case errors.InsufficientPrivilege():
            return Denied(text)
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.InvalidSchemaName():
            return BadData(text)
        case errors.DiskFull() | errors.IoError() | errors.ReadOnlySqlTransaction():
            return IOFailure(text)
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return StoreUnavailable(text, hint="is the server up, and are user and password right?")
        case _:
            return IOFailure(text)


def require_ledger(connection: Connection[Any], location: PostgresLocation) -> None:
    """Raise `NoInput`, `BadData` unless the database holds a ledger of the format that this program knows."""
    tables = tables_of(connection)
    if not tables:
        raise NoInput(f"{location.shown}: no ledger is there", hint="causebook init makes one")
    if "causebook_format" not in tables:
        raise BadData(f"{location.shown}: is not a causebook ledger")
    found = connection.execute("SELECT version FROM causebook.causebook_format LIMIT 3").fetchall()
    check_format(location.shown, [next(iter(_values(row))) for row in found])
    missing = sorted(TABLES - tables)
    if missing:
        raise BadData(f"{location.shown}: found no table {', '.join(missing)} in schema causebook")


def require_durable(connection: Connection[Any], location: PostgresLocation) -> None:
    """Raise `StoreUnavailable` on a server that acknowledges what a power cut takes back."""
    row = connection.execute("SELECT current_setting('fsync') AS fsync").fetchone()
    if row is None or next(iter(_values(row))) != "on":
        raise StoreUnavailable(
            f"{location.shown}: expected fsync = on, found off: acknowledged records could be lost",
            hint="set fsync = on in postgresql.conf",
        )


def tables_of(connection: Connection[Any]) -> set[str]:
    """The names of all that lies in the schema `causebook`."""
    found = connection.execute(
        "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n"
        " ON n.oid = c.relnamespace WHERE n.nspname = 'causebook' AND c.relkind IN ('r', 'p')"
    ).fetchall()
    return {str(next(iter(_values(row)))) for row in found}


def _values(row: Any) -> Any:
    """A row's columns, from a connection that makes dicts as the library's do, or tuples."""
    return row.values() if isinstance(row, dict) else row
