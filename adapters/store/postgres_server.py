"""A connection to the PostgreSQL server of a ledger, how the ledger is recognised, and what errors mean."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
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
from .postgres_schema import COLUMNS
from .shared import NO_LEDGER_HINT, check_format

CONNECT_TIMEOUT_SECONDS = 10

# Written out on every connection: PGOPTIONS, the role or the database could say otherwise.
_SETTINGS = {
    "synchronous_commit": "on",
    "client_encoding": "UTF8",
    "idle_in_transaction_session_timeout": "60s",
    "application_name": "causebook",
    # A policy that hides rows is then an error, never an answer.
    "row_security": "off",
    # Else a function in a schema of others could stand in for one of the server's own.
    "search_path": "pg_catalog",
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
        case psycopg.OperationalError() if "does not exist" in text:
            # While connecting the server gives no code: "database … does not exist", "role … does not exist".
            what = "user" if "role " in text else "database"
            return StoreUnavailable(text, hint=f"does the URL name the {what} that is meant?")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return StoreUnavailable(text, hint="is the server up, and are user and password right?")
        case _:
            return IOFailure(text)


def require_ledger(connection: Connection[Any], location: PostgresLocation) -> None:
    """Raise `NoInput`, `BadData` unless the database holds a ledger of the format that this program knows.

    Its tables have to be tables, before any is read: a view computes what it likes, a policy shows each role
    and each query other rows, and a table that others inherit from shows theirs as its own.
    """
    shown = location.shown
    relations = relations_of(connection)
    if not relations:
        raise NoInput(f"{shown}: no ledger is there", hint=NO_LEDGER_HINT)
    if "causebook_format" not in relations:
        raise BadData(f"{shown}: is not a causebook ledger")
    _require_plain(shown, relations, "causebook_format")
    found = connection.execute("SELECT version FROM causebook.causebook_format LIMIT 3").fetchall()
    check_format(shown, [next(iter(_values(row))) for row in found])
    for table in COLUMNS:
        _require_plain(shown, relations, table)


def _require_plain(shown: str, relations: Mapping[str, Relation], table: str) -> None:
    relation = relations.get(table)
    if relation is None:
        raise BadData(f"{shown}: found no table {table} in schema causebook")
    found = ""
    if relation.kind != "r":
        found = _KINDS.get(relation.kind, "another relation")
    elif relation.has_policies:
        found = "row-level security on it"
    elif relation.is_inherited:
        found = "tables that inherit from it"
    elif relation.columns != COLUMNS[table]:
        found = "other columns"
    if found:
        raise BadData(
            f"{shown}: expected {table} to be a plain table of causebook's, found {found}",
            hint="what answers in its place can answer anything: ask the owner of the database",
        )


def require_durable(connection: Connection[Any], location: PostgresLocation) -> None:
    """Raise `StoreUnavailable` on a server that acknowledges what a power cut takes back."""
    row = connection.execute("SELECT current_setting('fsync') AS fsync").fetchone()
    if row is None or next(iter(_values(row))) != "on":
        raise StoreUnavailable(
            f"{location.shown}: expected fsync = on, found off: acknowledged records could be lost",
            hint="set fsync = on in postgresql.conf",
        )


@dataclass(frozen=True)
class Relation:
    """What lies in the schema `causebook` under one name. `kind`: as in `pg_class.relkind`."""

    kind: str
    has_policies: bool
    is_inherited: bool
    columns: Mapping[str, str]


_KINDS = {"v": "a view", "m": "a view", "f": "a foreign table", "p": "a partitioned table"}


def relations_of(connection: Connection[Any]) -> dict[str, Relation]:
    """The tables in the schema `causebook`, and what could stand in for one; by name.

    A generated column has a type like no other.
    """
    found = connection.execute(
        "SELECT c.relname::text, c.relkind::text, c.relrowsecurity OR c.relforcerowsecurity,"
        " EXISTS (SELECT 1 FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid),"
        " (SELECT coalesce(pg_catalog.json_object_agg(a.attname,"
        "   a.atttypid::pg_catalog.regtype::text ||"
        "   CASE pg_catalog.to_jsonb(a) ->> 'attgenerated'"
        "   WHEN 's' THEN ' generated' WHEN 'v' THEN ' generated' ELSE '' END), '{}')::text"
        "   FROM pg_catalog.pg_attribute a"
        "   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)"
        " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = 'causebook' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
    ).fetchall()
    relations = {}
    for row in found:
        name, kind, has_policies, is_inherited, columns = _values(row)
        relations[name] = Relation(kind, has_policies, is_inherited, json.loads(columns))
    return relations


def _values(row: Any) -> Any:
    """A row's columns, from a connection that makes dicts as the library's do, or tuples."""
    return row.values() if isinstance(row, dict) else row
