"""What the owner of a database can let it answer: an index, a view, a column that computes, a policy.

Each is refused before a table is read, or found out by the rows themselves.
"""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from causebook.adapters.findings import TAMPERED, UNVERIFIABLE
from causebook.adapters.store import snapshot_port
from causebook.adapters.store.port import Row
from causebook.adapters.store.snapshot import open_snapshot
from causebook.adapters.store.sqlite_file import bound, translate
from causebook.adapters.store.url import open_store
from causebook.adapters.verification.verify import verify
from causebook.domain.errors import BadData
from causebook.domain.record import digest
from tests.adapters.forge import Forge, MemorySource, small_ledger
from tests.attacks.intruder import Intruder, failed, looked_at, only, stored

PAGE_BYTES = 4096
INDEX = "sqlite_autoindex_stored_events_1"

on_sqlite = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)


@pytest.fixture
def path(forge: Forge, store_url: str) -> Path:
    """A closed SQLite ledger, found intact."""
    stored(forge, store_url)
    assert (looked_at(store_url).code, looked_at(store_url).founding) == (
        20,
        digest(forge.rows[0].record),
    )
    return Path(store_url.removeprefix("sqlite:///"))


@contextlib.contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        yield connection


def without_triggers(connection: sqlite3.Connection) -> None:
    query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    for (name,) in connection.execute(query).fetchall():
        connection.execute(f"DROP TRIGGER {name}")


def lying_index(path: Path, rows: list[tuple[object, ...]]) -> None:
    """Let the ledger's own index lead to these rows: the table keeps what it has, the schema too."""
    with database(path) as db:
        db.execute("CREATE TABLE x (a TEXT NOT NULL, b INTEGER NOT NULL, UNIQUE (a, b))")
        db.executemany("INSERT INTO x (rowid, a, b) VALUES (?, ?, ?)", rows)
        (root,) = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_x_1'"
        ).fetchone()
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = ?", (root, INDEX))
        db.execute("DELETE FROM sqlite_master WHERE tbl_name = 'x'")


def true_rows(path: Path) -> list[tuple[object, ...]]:
    with database(path) as db:
        return db.execute(
            "SELECT rowid, originator_id, originator_version FROM stored_events"
        ).fetchall()


# ── an index that answers otherwise than its table ───────────────────────────────────────────────────


@on_sqlite
def test_an_index_of_ones_own_gives_another_founding(path: Path, store_url: str) -> None:
    """The covering index holds a row that sorts before the founding, and that no table holds."""
    other = small_ledger().rows[0]
    with database(path) as db:
        db.execute("CREATE TABLE x AS SELECT * FROM stored_events LIMIT 0")
        columns = "originator_id, originator_version, topic, state"
        db.execute(f"INSERT INTO x ({columns}) SELECT {columns} FROM stored_events")
        db.execute(
            f"INSERT INTO x ({columns}) VALUES ('ledger', 0, ?, ?)", (other.type, other.record)
        )
        db.execute(f"CREATE INDEX ix ON x ({columns})")
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "UPDATE sqlite_master SET tbl_name = 'stored_events',"
            f" sql = 'CREATE INDEX ix ON stored_events({columns})' WHERE name = 'ix'"
        )
        db.execute("DELETE FROM sqlite_master WHERE name = 'x'")
    _refused_by_all(store_url, "the 'index' 'ix'")


@on_sqlite
@pytest.mark.parametrize("way", ["hides a row", "leads to another", "as it was"])
def test_the_ledgers_own_index_filled_otherwise(way: str, path: Path, store_url: str) -> None:
    """The schema is ours, statement for statement: only the rows tell."""
    rows = true_rows(path)
    if way == "hides a row":
        rows.remove(next(row for row in rows if row[1:] == ("ledger", 3)))
    elif way == "leads to another":
        one, two = (next(row for row in rows if row[1:] == ("ledger", n)) for n in (2, 3))
        rows = [row for row in rows if row not in (one, two)]
        rows += [(one[0], *two[1:]), (two[0], *one[1:])]
    lying_index(path, rows)
    report = looked_at(store_url)
    assert report.founding == looked_at(store_url).founding
    if way == "as it was":
        assert (report.code, failed(report)) == (20, set())
    else:
        assert (report.code, failed(report)) == (TAMPERED, {"records"})


@on_sqlite
def test_a_task_hidden_from_who_asks_by_name(path: Path, store_url: str) -> None:
    lying_index(path, [row for row in true_rows(path) if row[1] != "task/T-2"])
    with open_snapshot(store_url) as snapshot:
        assert "task/T-2" not in snapshot.streams("task/")
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"records"})
    assert "indices" in report.findings[0].expected


class ByName(MemorySource):
    """A store that answers otherwise when asked for a stream by its name."""

    said: list[Row]

    def stream(self, name: str) -> list[Row]:
        return self.said if name == "ledger" else super().stream(name)


def by_name(forge: Forge, said: list[Row]) -> ByName:
    source = ByName(list(forge.rows), dict(forge.evidence))
    source.said = said
    return source


def test_another_founding_by_name_than_row_by_row(forge: Forge) -> None:
    genuine = Forge(seed="genuine").found().rows
    report = verify(by_name(forge, genuine), processes=0)
    assert (report.code, failed(report)) == (TAMPERED, {"records"})
    assert only(report, "records").place == "ledger"
    assert report.founding == digest(forge.rows[0].record) != digest(genuine[0].record)
    twin = verify(forge.source(), processes=0)
    assert (twin.code, twin.founding) == (20, report.founding)
    assert report.document()["founding"] == report.founding


def test_the_end_of_a_compromised_key_hidden_by_name(forge: Forge) -> None:
    forge.enrol("log")
    forge.retire(forge.keys["engine"], 4)
    twin = verify(forge.source(), processes=0)
    assert (twin.code, failed(twin)) == (UNVERIFIABLE, {"roles"})
    known = [row for row in forge.rows if row.stream == "ledger"]
    report = verify(by_name(forge, known[:-1]), processes=0)
    assert (report.code, failed(report)) == (TAMPERED, {"records", "roles"})
    assert report["roles"].findings == twin["roles"].findings


# ── tables that are none ─────────────────────────────────────────────────────────────────────────────

ENDLESS = (
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)"
    " SELECT n AS rowid, 'ledger' AS originator_id, n AS originator_version, 'x' AS topic,"
    " x'00' AS state, 1 AS version FROM c WHERE n < 0"
)


def _virtual(db: sqlite3.Connection, table: str, columns: str) -> None:
    db.execute(f"ALTER TABLE {table} RENAME TO real")
    db.execute(f"CREATE VIEW v AS {ENDLESS}")
    db.execute(
        f"CREATE VIRTUAL TABLE {table} USING fts5({columns}, content='v', content_rowid='rowid')"
    )


def _computed(db: sqlite3.Connection, table: str, columns: str, column: str) -> None:
    db.execute(f"CREATE TABLE y ({columns}, real BLOB, {column} AS (zeroblob(900000000)))")
    db.execute(f"DROP TABLE {table}")
    db.execute(f"ALTER TABLE y RENAME TO {table}")
    names = ", ".join(part.split()[0] for part in columns.split(", "))
    db.execute(
        f"INSERT INTO {table} ({names}) VALUES ({', '.join('1' for _ in names.split(', '))})"
    )


_EVENTS = "rowid INTEGER PRIMARY KEY, originator_id TEXT, originator_version INTEGER, topic TEXT"
IMPOSTORS: dict[str, Callable[[sqlite3.Connection], None]] = {
    "records from an endless view": lambda db: _virtual(
        db, "stored_events", "originator_id, originator_version, topic, state"
    ),
    "the format from an endless view": lambda db: _virtual(db, "causebook_format", "version"),
    "records of 900 MB each": lambda db: _computed(db, "stored_events", _EVENTS, "state"),
    "a format of 900 MB": lambda db: _computed(db, "causebook_format", "real2 INT", "version"),
    "evidence of 900 MB each": lambda db: _computed(
        db, "evidence", "commitment TEXT, salt BLOB, task TEXT", "body"
    ),
    "a column more": lambda db: db.execute("ALTER TABLE stored_events ADD COLUMN more") and None,
    "a renamed column": lambda db: (
        db.execute("ALTER TABLE evidence RENAME body TO bodies") and None
    ),
    "an index more": lambda db: db.execute("CREATE INDEX more ON evidence (salt)") and None,
    "an index less": lambda db: db.execute("DROP INDEX evidence_task") and None,
    "a view more": lambda db: db.execute("CREATE VIEW more AS SELECT 1") and None,
    "a table more": lambda db: db.execute("CREATE TABLE more (a)") and None,
}


@on_sqlite
@pytest.mark.parametrize("impostor", IMPOSTORS)
def test_a_schema_that_is_not_causebooks(impostor: str, path: Path, store_url: str) -> None:
    with database(path) as db:
        without_triggers(db)
        IMPOSTORS[impostor](db)
    _refused_by_all(store_url, "expected the schema of a ledger, found")


@on_sqlite
def test_a_view_that_says_it_is_a_table(path: Path, store_url: str) -> None:
    with database(path) as db:
        without_triggers(db)
        db.execute("ALTER TABLE stored_events RENAME TO real")
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'stored_events', 'stored_events', 0, ?)",
            (f"CREATE VIEW stored_events AS {ENDLESS}",),
        )
    with pytest.raises(BadData):
        looked_at(store_url)


@on_sqlite
@pytest.mark.parametrize("way", ["taken away", "another by its name", "one more", "put back"])
def test_triggers_are_read_past_and_named(way: str, path: Path, store_url: str) -> None:
    """Reading runs none, so verify reads on and says so; nothing is written past them."""
    with database(path) as db:
        query = "SELECT sql FROM sqlite_master WHERE name = 'stored_events_update'"
        (sql,) = db.execute(query).fetchone()
        if way != "one more":
            db.execute("DROP TRIGGER stored_events_update")
        if way == "another by its name":
            db.execute(
                "CREATE TRIGGER stored_events_update BEFORE UPDATE ON evidence BEGIN SELECT 1; END"
            )
        elif way == "one more":
            db.execute("CREATE TRIGGER more BEFORE UPDATE ON evidence BEGIN SELECT 1; END")
        elif way == "put back":
            db.execute(sql)
    report = looked_at(store_url)
    if way == "put back":
        assert (report.code, failed(report)) == (20, set())
        open_store(store_url).close()
        return
    assert (report.code, failed(report)) == (TAMPERED, {"records"})
    assert "trigger" in only(report, "records").found
    with pytest.raises(BadData, match="trigger"):
        open_store(store_url)


def _refused_by_all(url: str, why: str) -> None:
    for call in (lambda: looked_at(url), lambda: open_store(url)):
        with pytest.raises(BadData) as caught:
            call()
        assert why in caught.value.message


# ── what fills the memory, or never ends ─────────────────────────────────────────────────────────────


@on_sqlite
def test_a_body_that_is_too_long_is_not_fetched(
    path: Path, store_url: str, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = max(forge.evidence.values(), key=lambda row: len(row.body))
    monkeypatch.setattr(snapshot_port, "_BODY_BYTES_MAX", len(longest.body))
    assert looked_at(store_url).code == 20
    monkeypatch.setattr(snapshot_port, "_BODY_BYTES_MAX", len(longest.body) - 1)
    with open_snapshot(store_url) as snapshot:
        found = snapshot.evidence(longest.commitment)
        assert found is not None
        assert found.body == b""
        assert "at most" in snapshot.anomalies[0]
    report = looked_at(store_url)
    assert (report.code, failed(report)) == (TAMPERED, {"records", "evidence"})


@on_sqlite
def test_no_value_is_longer_than_what_is_written(path: Path) -> None:
    with database(path) as db:
        bound(db)
        assert db.execute("SELECT length(zeroblob(100000000))").fetchone() == (100_000_000,)
        with pytest.raises(sqlite3.DataError) as caught:
            db.execute("SELECT zeroblob(900000000)").fetchone()
    assert isinstance(translate(caught.value, path, "x", 1), BadData)


def test_ctrl_c_ends_a_query_that_never_ends(tmp_path: Path) -> None:
    query = ENDLESS.replace("SELECT 1 ", "SELECT said(1, x'6f6e0a') ", 1)
    script = (
        "import os, sqlite3\n"
        "from pathlib import Path\n"
        "from causebook.adapters.store.sqlite_file import ERRORS, bound, translate\n"
        "c = sqlite3.connect(':memory:')\n"
        "bound(c)\n"
        # No Python is underway when it has said so: only the handler of `bound` is, from then on.
        "c.create_function('said', 2, os.write)\n"
        "try:\n"
        f"    c.execute({query!r}).fetchone()\n"
        "except ERRORS as error:\n"
        "    raise translate(error, Path('x'), 'x', 1) from None\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.SIGINT)
        try:
            _, told = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == -signal.SIGINT
    assert told.rstrip().endswith("KeyboardInterrupt")


# ── files that are broken ────────────────────────────────────────────────────────────────────────────


@on_sqlite
@pytest.mark.parametrize("name", [INDEX, "stored_events", "sqlite_autoindex_evidence_1", None])
def test_a_page_that_is_overwritten(name: str | None, path: Path, store_url: str) -> None:
    with database(path) as db:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        root = db.execute(query, (name,)).fetchone()[0] if name else 0
    if root:
        with path.open("r+b") as file:
            file.seek((root - 1) * PAGE_BYTES)
            file.write(b"\xff" * 8)
        with pytest.raises(BadData, match="sound SQLite database"):
            looked_at(store_url)
    else:
        assert looked_at(store_url).code == 20


@on_sqlite
def test_a_schema_that_is_not_utf_8(path: Path, store_url: str) -> None:
    with database(path) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "UPDATE sqlite_master SET name = CAST(x'ff' AS TEXT), sql = CAST('CREATE TABLE ' || x'ff'"
            " AS TEXT) WHERE name = 'evidence_erasing'"
        )
    for call in (looked_at, open_store):
        with pytest.raises(BadData):
            call(store_url)


@on_sqlite
def test_records_of_a_wrong_type_are_bad_data_to_a_writer(forge: Forge, store_url: str) -> None:
    stored(forge, store_url)
    with contextlib.closing(open_store(store_url)) as store, Intruder(store_url) as intruder:
        assert len(store.stream("ledger")) == 3
        intruder.sql("UPDATE stored_events SET state = CAST(state AS TEXT) WHERE rowid = 2")
        for call in (lambda: store.stream("ledger"), store.rows):
            with pytest.raises(BadData, match="found columns of str, int, str, str"):
                call()


# ── evidence ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_row_of_one_commitment(forge: Forge) -> None:
    class Twice(MemorySource):
        def evidence_commitments(self) -> Iterator[tuple[str, str]]:
            for n, listed in enumerate(super().evidence_commitments()):
                yield listed
                if n == 3:
                    yield listed

    report = verify(Twice(list(forge.rows), dict(forge.evidence)), processes=0)
    assert (report.code, failed(report)) == (TAMPERED, {"evidence"})
    assert only(report, "evidence").place.endswith(f"evidence {list(forge.evidence)[3]}")
    assert only(report, "evidence").found == "a second"


# ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────

POLICY = "CREATE POLICY lie ON stored_events FOR SELECT USING (originator_version <> 2)"
REFUSED_POSTGRES = {
    "row-level security": [POLICY, "ALTER TABLE stored_events ENABLE ROW LEVEL SECURITY"],
    "forced row-level security": [POLICY, "ALTER TABLE stored_events FORCE ROW LEVEL SECURITY"],
    "a view": [
        "ALTER TABLE stored_events RENAME TO real",
        "CREATE VIEW stored_events AS SELECT * FROM real",
    ],
    "a materialized view": [
        "ALTER TABLE evidence RENAME TO real",
        "CREATE MATERIALIZED VIEW evidence AS SELECT * FROM real",
    ],
    "a format that is a view": [
        "ALTER TABLE causebook_format RENAME TO real",
        "CREATE VIEW causebook_format AS SELECT * FROM real",
    ],
    "rows inherited": ["CREATE TABLE more () INHERITS (stored_events)"],
    "a type of ones own": [
        "CREATE DOMAIN lie AS text",
        "ALTER TABLE stored_events ALTER topic TYPE lie",
    ],
    "a column that computes": [
        "ALTER TABLE evidence ADD more bytea GENERATED ALWAYS AS ('x'::bytea) STORED"
    ],
    "a table less": ["DROP TABLE evidence_erasing"],
}


@on_postgres
@pytest.mark.parametrize("attack", [*REFUSED_POSTGRES, None])
def test_tables_that_are_not_plain(attack: str | None, intruder: Intruder, store_url: str) -> None:
    for statement in REFUSED_POSTGRES.get(attack or "", []):
        intruder.run(statement)
    if attack is None:
        assert looked_at(store_url).code == 20
        open_store(store_url).close()
        return
    for call in (looked_at, open_store):
        with pytest.raises(BadData) as caught:
            call(store_url)
        assert "table" in caught.value.message


@on_postgres
def test_a_function_that_stands_in_for_the_servers_own(intruder: Intruder, store_url: str) -> None:
    """A closer match by its types, in a schema on the role's path, is called instead of the server's."""
    for schema in ("causebook", "public"):
        intruder.run(
            f"CREATE FUNCTION {schema}.to_jsonb(pg_catalog.pg_attribute) RETURNS jsonb LANGUAGE sql"
            " AS $$ SELECT 1 / 0; SELECT 'null'::jsonb $$"
        )
        intruder.run(
            f"CREATE FUNCTION {schema}.unnest(text[]) RETURNS SETOF text LANGUAGE sql"
            " AS $$ SELECT 1 / 0; SELECT 'x'::text $$"
        )
    assert looked_at(store_url).code == 20
    with contextlib.closing(open_store(store_url)) as store:
        assert store.erase_evidence(["00"]) == 0
