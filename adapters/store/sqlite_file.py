"""The SQLite file of a ledger: its schema, how it is recognised, and what its errors mean.

Standard library only: verification reads a ledger through this module and loads no event store.

The triggers stop accidents: an UPDATE, a DELETE, a REPLACE, a version that is not the next. Whoever owns the
file can drop them, and is found out by the records themselves.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

from ...domain.errors import BadData, Busy, CausebookError, Denied, IOFailure, NoInput
from .shared import check_format, not_a_ledger

# `rowid` is a column of its own: a table without an INTEGER PRIMARY KEY is renumbered by VACUUM, and the
# position of every projection would be lost. In a BEFORE trigger, NEW.rowid is -1 where it is left open.
SCHEMA = (
    """
    CREATE TABLE stored_events (
        rowid INTEGER PRIMARY KEY CHECK (rowid > 0),
        originator_id TEXT NOT NULL CHECK (typeof(originator_id) = 'text'),
        originator_version INTEGER NOT NULL CHECK (typeof(originator_version) = 'integer'),
        topic TEXT NOT NULL CHECK (typeof(topic) = 'text'),
        state BLOB NOT NULL CHECK (typeof(state) = 'blob'),
        UNIQUE (originator_id, originator_version)
    )
    """,
    """
    CREATE TRIGGER stored_events_next BEFORE INSERT ON stored_events
    WHEN NEW.originator_version IS NOT 1 + (
        SELECT coalesce(max(originator_version), 0) FROM stored_events
        WHERE originator_id = NEW.originator_id
    ) OR NEW.rowid BETWEEN 0 AND (SELECT max(rowid) FROM stored_events)
    BEGIN SELECT raise(ABORT, 'the version is not the next of its stream, or the row id is taken'); END
    """,
    """
    CREATE TRIGGER stored_events_update BEFORE UPDATE ON stored_events
    BEGIN SELECT raise(ABORT, 'a stored record is never changed'); END
    """,
    """
    CREATE TRIGGER stored_events_delete BEFORE DELETE ON stored_events
    BEGIN SELECT raise(ABORT, 'a stored record is never deleted'); END
    """,
    """
    CREATE TABLE evidence (
        commitment TEXT NOT NULL PRIMARY KEY CHECK (typeof(commitment) = 'text'),
        salt BLOB NOT NULL CHECK (typeof(salt) = 'blob'),
        task TEXT NOT NULL CHECK (typeof(task) = 'text'),
        body BLOB NOT NULL CHECK (typeof(body) = 'blob')
    )
    """,
    "CREATE INDEX evidence_task ON evidence (task)",
    "CREATE TABLE evidence_erasing (commitment TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID",
    """
    CREATE TRIGGER evidence_update BEFORE UPDATE ON evidence
    BEGIN SELECT raise(ABORT, 'evidence is never changed'); END
    """,
    """
    CREATE TRIGGER evidence_delete BEFORE DELETE ON evidence
    WHEN NOT EXISTS (SELECT 1 FROM evidence_erasing WHERE commitment = OLD.commitment)
    BEGIN SELECT raise(ABORT, 'evidence is deleted by an erasure only'); END
    """,
    """
    CREATE TABLE projection_rows (
        projection TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (projection, key)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE projection_positions (
        projection TEXT NOT NULL PRIMARY KEY,
        version INTEGER NOT NULL, row_id INTEGER NOT NULL, digest TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE TABLE causebook_format (version INTEGER NOT NULL)",
)
INSERT_FORMAT = "INSERT INTO causebook_format VALUES (?)"

TABLES = frozenset(
    {"stored_events", "evidence", "projection_rows", "projection_positions", "causebook_format"}
)


def require_file(path: Path, shown: str) -> os.stat_result:
    """The file's status. Raises `NoInput`, `BadData`, `Denied`, `IOFailure` unless a filled file is there.

    The file is never opened here: closing a descriptor of it would drop the POSIX locks that SQLite holds on
    it elsewhere in this process.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise NoInput(f"{shown}: no ledger is there", hint="causebook init makes one") from None
    except PermissionError:
        raise Denied(f"{shown}: permission denied") from None
    except OSError as error:
        raise IOFailure(f"{shown}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise BadData(f"{shown}: expected a file")
    if status.st_size == 0:
        raise BadData(f"{shown}: is empty, expected a ledger", hint="causebook init fills it")
    return status


def require_format(connection: sqlite3.Connection, shown: str) -> None:
    """Raise `BadData` unless the database is a ledger of the format that this program knows."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    # A view by the name of a table could compute for ever: what is not a table does not count.
    tables = {name for (name,) in connection.execute(query)}
    if "causebook_format" not in tables:
        raise not_a_ledger(shown)
    versions = [row[0] for row in connection.execute("SELECT * FROM causebook_format LIMIT 3")]
    check_format(shown, versions)
    missing = sorted(TABLES - tables)
    if missing:
        raise BadData(f"{shown}: expected the tables of a ledger, found no {', '.join(missing)}")


def translate(error: sqlite3.Error, path: Path, shown: str, timeout_seconds: float) -> Exception:
    """What a person is told about an error of SQLite; a programmer's mistake comes back as it is."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(
            f"{shown}: locked by another writer for over {timeout_seconds:g} s",
            hint="try again once it is done",
        )
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return BadData(f"{shown}: is not a sound SQLite database ({error})")
    if primary in (
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
    ):
        return _not_opened(path, shown, str(error))
    if primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOLFS):
        return IOFailure(f"{shown}: {error}")
    if isinstance(error, sqlite3.OperationalError | sqlite3.DataError):
        # No such table, no such column, text that is not UTF-8: not what the format promises.
        return BadData(f"{shown}: {error}")
    return error


def _not_opened(path: Path, shown: str, text: str) -> CausebookError:
    if not path.exists():
        return NoInput(f"{shown}: no ledger is there", hint="causebook init makes one")
    try:
        read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError as error:
        return IOFailure(f"{shown}: {error.strerror}")
    if read_only:
        return IOFailure(
            f"{shown}: the file system is read-only", hint="causebook verify reads such a ledger"
        )
    if not (os.access(path, os.R_OK | os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)):
        return Denied(f"{shown}: permission denied, expected to write the file and its folder")
    return IOFailure(f"{shown}: {text}")
