"""The SQLite file of a ledger: its schema, how it is recognised, and what its errors mean.

Standard library only: verification reads a ledger through this module and loads no event store.

The triggers stop accidents: an UPDATE, a DELETE, a REPLACE, a version that is not the next. Whoever owns the
file can drop them, and is found out by the records themselves.

Whoever owns the file can also let it compute: a view or a generated column by the name of ours never ends or
fills the memory, a virtual table runs code, an index of their making answers what the table does not hold.
So the schema has to be ours, statement for statement, before any table is touched (`require_readable`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
from functools import cache
from pathlib import Path
from typing import Final

from ...domain.errors import BadData, Busy, CausebookError, Denied, IOFailure, NoInput
from ...domain.streams import shorten
from .shared import NO_LEDGER_HINT, check_format, not_a_ledger

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
    # REPLACE passes the DELETE trigger, unless recursive_triggers is on: it is refused before it deletes.
    """
    CREATE TRIGGER evidence_kept BEFORE INSERT ON evidence
    WHEN EXISTS (SELECT 1 FROM evidence WHERE commitment = NEW.commitment OR rowid = NEW.rowid)
    BEGIN SELECT raise(ABORT, 'evidence is never replaced'); END
    """,
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
    """
    CREATE TABLE tree_tiles (
        level INTEGER NOT NULL, number INTEGER NOT NULL, hashes BLOB NOT NULL, row_ids BLOB NOT NULL,
        PRIMARY KEY (level, number)
    )
    """,
    """
    CREATE TABLE checkpoints (
        size INTEGER PRIMARY KEY CHECK (size > 0),
        note BLOB NOT NULL CHECK (typeof(note) = 'blob')
    )
    """,
    # A log grows: so a size is taken once, and REPLACE is refused before it deletes.
    """
    CREATE TRIGGER checkpoints_next BEFORE INSERT ON checkpoints
    WHEN NEW.size <= (SELECT max(size) FROM checkpoints)
    BEGIN SELECT raise(ABORT, 'a checkpoint is larger than those before it'); END
    """,
    """
    CREATE TRIGGER checkpoints_update BEFORE UPDATE ON checkpoints
    BEGIN SELECT raise(ABORT, 'a checkpoint is never changed'); END
    """,
    """
    CREATE TRIGGER checkpoints_delete BEFORE DELETE ON checkpoints
    BEGIN SELECT raise(ABORT, 'a checkpoint is never deleted'); END
    """,
    """
    CREATE TABLE checkpoint_additions (
        size INTEGER NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('cosignature', 'timestamp')),
        body BLOB NOT NULL CHECK (typeof(body) = 'blob'),
        PRIMARY KEY (size, kind, body)
    ) WITHOUT ROWID
    """,
    """
    CREATE TRIGGER checkpoint_additions_kept BEFORE INSERT ON checkpoint_additions
    WHEN NOT EXISTS (SELECT 1 FROM checkpoints WHERE size = NEW.size) OR EXISTS (
        SELECT 1 FROM checkpoint_additions WHERE size = NEW.size AND kind = NEW.kind AND body = NEW.body
    )
    BEGIN SELECT raise(ABORT, 'no such checkpoint, or added already'); END
    """,
    """
    CREATE TRIGGER checkpoint_additions_update BEFORE UPDATE ON checkpoint_additions
    BEGIN SELECT raise(ABORT, 'what was added to a checkpoint is never changed'); END
    """,
    """
    CREATE TRIGGER checkpoint_additions_delete BEFORE DELETE ON checkpoint_additions
    BEGIN SELECT raise(ABORT, 'what was added to a checkpoint is never deleted'); END
    """,
    "CREATE TABLE causebook_format (version INTEGER NOT NULL)",
)
INSERT_FORMAT = "INSERT INTO causebook_format VALUES (?)"

ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What the driver raises. A schema that is not UTF-8 is quoted in an error whose text it cannot decode."""

_VALUE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Above the longest value that is written: a packed item of evidence."""
_STEPS: Final = 100_000
"""Steps of SQLite's machine between two looks at what the person wants: some milliseconds."""
_SCHEMA_ROWS_MAX: Final = 200

_Part = tuple[str, str, str, str | None]
"""A row of `sqlite_master`: type, name, table, SQL."""


def require_file(path: Path, shown: str) -> os.stat_result:
    """The file's status. Raises `NoInput`, `BadData`, `Denied`, `IOFailure` unless a filled file is there.

    The file is never opened here: closing a descriptor of it would drop the POSIX locks that SQLite holds on
    it elsewhere in this process.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise NoInput(f"{path}: no ledger is there", hint=NO_LEDGER_HINT) from None
    except PermissionError:
        raise Denied(f"{shown}: permission denied") from None
    except OSError as error:
        raise IOFailure(f"{shown}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        found = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
        raise BadData(f"{shown}: expected a file, found {found}", hint=NO_LEDGER_HINT)
    if status.st_size == 0:
        raise BadData(f"{shown}: is empty, expected a ledger", hint="causebook init fills it")
    return status


def bound(connection: sqlite3.Connection) -> None:
    """Let no value fill the memory, and no query run on after Ctrl-C, whoever made the file."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES_MAX)
    connection.set_progress_handler(_step, _STEPS)


def _step() -> int:
    # Python raises KeyboardInterrupt here, if at all; SQLite then ends the query as interrupted.
    return 0


def require_format(connection: sqlite3.Connection, shown: str) -> None:
    """Raise `BadData` unless the database is a ledger of the format that this program writes."""
    faults = require_readable(connection, shown)
    if faults:
        raise BadData(
            f"{shown}: expected the schema of a ledger, found {faults[0]}",
            hint="causebook verify still reads it",
        )


def require_readable(connection: sqlite3.Connection, shown: str) -> list[str]:
    """Raise `BadData` unless the tables are those of a ledger of the format that this program reads.

    Answers what is wrong with the triggers: those that are missing in one line, then each that is not ours.
    Reading runs none.
    """
    query = "SELECT type, name, tbl_name, sql FROM main.sqlite_master"
    found: list[_Part] = connection.execute(query).fetchmany(_SCHEMA_ROWS_MAX)
    expected = _schema()
    by_name = {name: (kind, name, table, sql) for kind, name, table, sql in expected}
    format_table = by_name["causebook_format"]
    if format_table not in found:
        if any(part[1] == "causebook_format" for part in found):
            raise _other_schema(shown, "another causebook_format")
        raise not_a_ledger(shown)
    # A later format may have another schema: the format comes first.
    versions = [
        row[0] for row in connection.execute("SELECT version FROM causebook_format LIMIT 3")
    ]
    check_format(shown, versions)
    missing: list[str] = []
    surplus = list(found)
    for part in expected:
        if part in surplus:
            surplus.remove(part)
            continue
        if part[0] != "trigger":
            raise _other_schema(shown, f"no {part[0]} {part[1]} as causebook makes it")
        missing.append(part[1])
    faults = [f"no trigger {', '.join(missing)} as causebook makes it"] if missing else []
    for kind, name, *_ in surplus:
        if kind != "trigger":
            raise _other_schema(shown, f"the {shorten(str(kind))} {shorten(str(name))}")
        if name not in by_name:
            faults.append(f"the trigger {shorten(str(name))}")
    return faults


def _other_schema(shown: str, found: str) -> BadData:
    return BadData(
        f"{shown}: expected the schema of a ledger, found {found}",
        hint="what others add to a ledger can answer for it: compare with an older copy",
    )


@cache
def _schema() -> tuple[_Part, ...]:
    """The rows of `sqlite_master` in a ledger, autoindexes included."""
    connection = sqlite3.connect(":memory:")
    try:
        for statement in SCHEMA:
            connection.execute(statement)
        return tuple(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))
    finally:
        connection.close()


def translate(
    error: sqlite3.Error | UnicodeDecodeError, path: Path, shown: str, timeout_seconds: float
) -> BaseException:
    """What a person is told about an error of SQLite; a programmer's mistake comes back as it is."""
    if isinstance(error, UnicodeDecodeError):
        return BadData(f"{shown}: is not a sound SQLite database (its schema is not UTF-8)")
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary == sqlite3.SQLITE_INTERRUPT:
        # Nobody but the progress handler interrupts, and that one when Python raised in it.
        return KeyboardInterrupt()
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
    if isinstance(
        error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.InterfaceError
    ):
        return error
    # No such table, no such column, text that is not UTF-8: not what the format promises.
    return BadData(f"{shown}: {error}")


def _not_opened(path: Path, shown: str, text: str) -> CausebookError:
    if not path.exists():
        return NoInput(f"{path}: no ledger is there", hint=NO_LEDGER_HINT)
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
