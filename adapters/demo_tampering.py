"""The demo's second act: what whoever owns the file can do to a copy of the ledger, without a key.

Each of these does it well: no trigger is left off, every column agrees with its record, the chain is mended
where it can be. What cannot be mended is what a key would have to sign, and what somebody saw before.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from ..domain.record import Record, digest, parse
from .findings import TAMPERED, TRUNCATED

Tamper = Callable[[sqlite3.Connection], None]


def tampered(ledger: Path, copy: Path, tamper: Tamper) -> None:
    """Copy the ledger in the file `ledger` to `copy`, and tamper with the copy."""
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # as private as the ledger
    with closing(sqlite3.connect(ledger)) as source, closing(sqlite3.connect(copy)) as connection:
        source.backup(connection)
        connection.isolation_level = None
        with _without_triggers(connection):
            tamper(connection)


def turn_a_verdict_over(connection: sqlite3.Connection) -> None:
    """Make the first verdict that is a blocker a pass, and chain everything after it anew."""
    renamed: dict[str, str] = {}
    for row_id, record in _records(connection):
        line = record.line.decode()
        if not renamed and (record.type, record.data.get("severity")) == (
            "VerdictGiven",
            "blocker",
        ):
            line = line.replace('"severity":"blocker"', '"severity":"pass"')
        for old, new in renamed.items():
            line = line.replace(old, new)
        if line.encode() != record.line:
            renamed[record.digest] = _put(connection, row_id, line.encode())


def repeat_a_key(connection: sqlite3.Connection) -> None:
    """Have one record say two things: most readers of JSON take the last."""
    charged = [each for each in _records(connection) if each[1].type == "TurnCharged"]
    row_id, record = min(charged, key=lambda each: (each[1].stream, each[1].version))
    stood = b'"turns_used":%d' % record.data["turns_used"]
    _put(connection, row_id, record.line.replace(stood, stood + b',"turns_used":0', 1))


def cut_the_tail(connection: sqlite3.Connection, records: int = 3) -> None:
    """Take the last records out of every table: tree, checkpoints and projections as well."""
    kept = connection.execute("SELECT count(*) FROM stored_events").fetchone()[0] - records
    connection.execute(
        "DELETE FROM stored_events WHERE rowid IN"
        " (SELECT rowid FROM stored_events ORDER BY rowid DESC LIMIT ?)",
        (records,),
    )
    connection.execute("DELETE FROM checkpoint_additions WHERE size > ?", (kept,))
    connection.execute("DELETE FROM checkpoints WHERE size > ?", (kept,))
    for table in ("tree_tiles", "projection_rows", "projection_positions"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 - made anew from the events, when asked for


TAMPERINGS: Final[dict[str, tuple[str, Tamper, int]]] = {
    "turned.db": (
        "a verdict turned over, and all that hangs on it chained anew",
        turn_a_verdict_over,
        TAMPERED,
    ),
    "twice.db": ("one key of one record said twice", repeat_a_key, TAMPERED),
    "cut.db": ("the last three records cut from every table", cut_the_tail, TRUNCATED),
}
"""The name of each copy: what was done to it, in words, what does it, and the code that verify ends with."""


def _records(connection: sqlite3.Connection) -> Iterator[tuple[int, Record]]:
    rows = connection.execute("SELECT rowid, state FROM stored_events ORDER BY rowid").fetchall()
    return ((row_id, parse(state)) for row_id, state in rows)


def _put(connection: sqlite3.Connection, row_id: int, line: bytes) -> str:
    """Put another line 1 in a record's place, under the signature it had; the digest of what came of it."""
    query = "SELECT state FROM stored_events WHERE rowid = ?"
    (stood,) = connection.execute(query, (row_id,)).fetchone()
    raw = b"%b\n%b" % (line, stood.partition(b"\n")[2])
    connection.execute("UPDATE stored_events SET state = ? WHERE rowid = ?", (raw, row_id))
    return digest(raw)


@contextmanager
def _without_triggers(connection: sqlite3.Connection) -> Iterator[None]:
    """Without the triggers that stop accidents; they are put back, as nobody would notice them gone."""
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    triggers = connection.execute(query).fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    yield
    for _, sql in triggers:
        connection.execute(sql)
