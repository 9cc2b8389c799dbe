"""Founding and opening: what is refused, how it is said, and what from outside has no effect."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.store.port import LedgerMoved, Row, Store
from causebook.adapters.store.snapshot import open_snapshot
from causebook.adapters.store.url import found, open_store
from causebook.domain.errors import (
    BadData,
    CannotCreate,
    CausebookError,
    Denied,
    IOFailure,
    Misuse,
    NoInput,
    StoreUnavailable,
)
from tests.conftest import LOGIN_PASSWORD, LOGIN_USER, postgres_url

Rows = Callable[..., list[Row]]


def opened(url: str) -> Store:
    return open_store(url, lock_timeout_seconds=1)


def refused(kind: type[CausebookError], call: Callable[..., Any], url: str) -> CausebookError:
    with pytest.raises(kind) as caught:
        call(url)
    assert "\n" not in caught.value.message
    return caught.value


def test_a_founded_store_opens_again_with_what_it_holds(store_url: str, rows: Rows) -> None:
    with contextlib.closing(found(store_url)) as store:
        store.append(rows("ledger", 1, 2), [], ledger_version=0)
    with contextlib.closing(opened(store_url)) as store:
        assert store.stream("ledger") == rows("ledger", 1, 2)


def test_founding_refuses_where_a_ledger_is(store_url: str, store: Store, rows: Rows) -> None:
    store.append(rows("ledger", 1, 1), [], ledger_version=0)
    assert "already" in refused(CannotCreate, found, store_url).message
    assert store.count() == 1


def test_a_founding_that_stopped_before_its_records_is_completed(
    store_url: str, rows: Rows
) -> None:
    found(store_url).close()
    with contextlib.closing(found(store_url)) as store:
        store.append(rows("ledger", 1, 1), [], ledger_version=0)
    refused(CannotCreate, found, store_url)


def test_of_many_founders_at_once_one_wins(store_url: str, rows: Rows) -> None:
    outcomes: list[str] = []
    start = threading.Barrier(6)

    def founder(number: int) -> None:
        start.wait()
        try:
            with contextlib.closing(found(store_url)) as store:
                store.append(rows("ledger", 1, 2, f"founder {number}"), [], ledger_version=0)
            outcomes.append("won")
        except (CannotCreate, LedgerMoved):
            outcomes.append("lost")

    threads = [threading.Thread(target=founder, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["lost"] * 5 + ["won"]
    with contextlib.closing(opened(store_url)) as store:
        assert store.count() == 2


def test_a_missing_ledger_is_no_input(store_url: str) -> None:
    for call in (opened, open_snapshot):
        assert "causebook init" in refused(NoInput, call, store_url).hint


def test_opening_runs_no_ddl(store: Store, store_url: str, raw: Any) -> None:
    versions = (
        "PRAGMA schema_version"
        if raw.is_sqlite
        else "SELECT max(xmin::text::bigint) FROM pg_class UNION ALL SELECT count(*) FROM pg_class"
    )
    before = raw.run(versions)
    for _ in range(3):
        opened(store_url).close()
    assert raw.run(versions) == before


@pytest.mark.parametrize("version", [2, 99])
def test_a_newer_format_is_refused(store_url: str, raw: Any, version: int) -> None:
    raw.run("UPDATE {}causebook_format SET version = ?", version)
    for call in (opened, open_snapshot):
        error = refused(BadData, call, store_url)
        assert f"expected store format 1, found {version}" in error.message
        assert error.hint == "upgrade causebook"
    refused(CannotCreate, found, store_url)


@pytest.mark.parametrize(
    "change", ["DELETE FROM {}causebook_format", "INSERT INTO {}causebook_format VALUES (1)"]
)
def test_a_format_that_is_not_one_row_is_refused(store_url: str, raw: Any, change: str) -> None:
    raw.run(change)
    for call in (opened, open_snapshot):
        refused(BadData, call, store_url)


def test_a_ledger_without_one_of_its_tables_is_refused(store_url: str, raw: Any) -> None:
    raw.run("DROP TABLE {}evidence")
    for call in (opened, open_snapshot):
        assert "evidence" in refused(BadData, call, store_url).message


class TestSQLiteFiles:
    def test_a_ledger_is_its_owners_alone_to_read(self, tmp_path: Path) -> None:
        """Prompts and source lie in it, and in the log beside it."""
        path = tmp_path / "a.db"
        before = os.umask(0)
        try:
            with contextlib.closing(found(f"sqlite:///{path}")) as store:
                store.append([Row("a", 1, "T", b"1")], [], ledger_version=0)
                modes = {p.name: p.stat().st_mode & 0o777 for p in tmp_path.iterdir()}
        finally:
            os.umask(before)
        assert modes == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}
        # Whom the owner lets in stays in.
        path.chmod(0o640)
        with contextlib.closing(open_store(f"sqlite:///{path}")) as store:
            store.append([Row("a", 2, "T", b"1")], [], ledger_version=0)
            assert {p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == {0o640}

    def test_another_database_is_refused_and_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "other.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE mine (a)")
            connection.commit()
        before = path.read_bytes()
        for call in (opened, open_snapshot):
            error = refused(BadData, call, f"sqlite:///{path}")
            assert "is not a causebook ledger" in error.message
        refused(CannotCreate, found, f"sqlite:///{path}")
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["other.db"]

    def test_a_view_in_place_of_a_table_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "trap.db"
        found(f"sqlite:///{path}").close()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TABLE stored_events")
            connection.execute(
                "CREATE VIEW stored_events AS WITH RECURSIVE n(x) AS"
                " (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
            )
            connection.commit()
        for call in (opened, open_snapshot):
            refused(BadData, call, f"sqlite:///{path}")

    def test_a_file_that_is_no_database_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("not a database, whatever its name says\n" * 200)
        for call in (opened, open_snapshot):
            refused(BadData, call, f"sqlite:///{path}")
        refused(CannotCreate, found, f"sqlite:///{path}")
        assert os.listdir(tmp_path) == ["notes.txt"]

    def test_an_empty_file_is_refused_and_can_be_founded(self, tmp_path: Path) -> None:
        path = tmp_path / "empty.db"
        path.touch()
        for call in (opened, open_snapshot):
            assert "is empty" in refused(BadData, call, f"sqlite:///{path}").message
        found(f"sqlite:///{path}").close()
        opened(f"sqlite:///{path}").close()

    def test_a_folder_is_refused(self, tmp_path: Path) -> None:
        for call in (opened, open_snapshot):
            refused(BadData, call, f"sqlite:///{tmp_path}")
        refused(CannotCreate, found, f"sqlite:///{tmp_path}")

    def test_the_parent_folder_is_created(self, tmp_path: Path) -> None:
        found(f"sqlite:///{tmp_path}/a/b/c.db").close()
        assert os.listdir(tmp_path / "a" / "b") == ["c.db"]

    def test_a_parent_that_is_a_file_cannot_be_created(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        refused(CannotCreate, found, f"sqlite:///{tmp_path}/file/c.db")
        for call in (opened, open_snapshot):
            refused(IOFailure, call, f"sqlite:///{tmp_path}/file/c.db")

    def test_any_file_name_works(self, sqlite_path: Path, rows: Rows) -> None:
        url = f"sqlite:///{sqlite_path}"
        with contextlib.closing(found(url)) as store:
            store.append(rows("a", 1, 1), [], ledger_version=0)
            lock = store.try_lock("0" * 32)
            assert lock is not None
            lock.release()
            with open_snapshot(url) as snapshot:
                assert snapshot.count() == 1
        assert os.listdir(sqlite_path.parent) == [sqlite_path.name]
        with open_snapshot(url) as snapshot:
            assert snapshot.count() == 1

    def test_a_relative_path_holds_when_the_working_directory_changes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Rows
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with contextlib.closing(found("sqlite:///a.db")) as store:
            (tmp_path / "elsewhere").mkdir()
            monkeypatch.chdir(tmp_path / "elsewhere")
            store.append(rows("a", 1, 1), [], ledger_version=0)
            assert store.count() == 1
        assert os.listdir(tmp_path / "elsewhere") == []

    def test_a_read_only_mount_is_an_io_failure_in_one_line(
        self, tmp_path: Path, read_only: Callable[[Path], Path]
    ) -> None:
        (tmp_path / "rw").mkdir()
        found(f"sqlite:///{tmp_path}/rw/a.db").close()
        mounted = read_only(tmp_path / "rw")
        error = refused(IOFailure, opened, f"sqlite:///{mounted}/a.db")
        assert "read-only" in error.message
        refused(CannotCreate, found, f"sqlite:///{mounted}/new.db")
        assert os.listdir(mounted) == ["a.db"]

    def test_connections_are_durable_and_erase_for_good(self, store_url_sqlite: str) -> None:
        with contextlib.closing(found(store_url_sqlite)) as store:
            data: Any = store._data  # type: ignore[attr-defined]
            with data.write() as first, data.get_connection(commit=False) as second:
                for connection in (first, second._sqlite_conn):
                    found_settings = {
                        name: connection.execute(f"PRAGMA {name}").fetchone()[0]
                        for name in (
                            "synchronous",
                            "journal_mode",
                            "secure_delete",
                            "recursive_triggers",
                        )
                    }
                    assert found_settings == {
                        "synchronous": 2,
                        "journal_mode": "wal",
                        "secure_delete": 1,
                        "recursive_triggers": 1,
                    }

    @pytest.fixture
    def store_url_sqlite(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/a.db"


ENVIRONMENT = {
    "CREATE_TABLE": "no",
    "PERSISTENCE_MODULE": "os",
    "INFRASTRUCTURE_FACTORY": "os",
    "COMPRESSOR_TOPIC": "antigravity",
    "CIPHER_TOPIC": "antigravity",
    "MAPPER_TOPIC": "antigravity",
    "TRANSCODER_TOPIC": "antigravity",
    "APPLICATION_RECORDER_TOPIC": "antigravity",
    "IS_SNAPSHOTTING_ENABLED": "y",
    "SQLITE_DBNAME": "elsewhere.db",
    "SQLITE_LOCK_TIMEOUT": "nonsense",
    "ORIGINATOR_ID_TYPE": "uuid",
    "POSTGRES_DBNAME": "elsewhere",
    "POSTGRES_HOST": "elsewhere.invalid",
    "POSTGRES_PORT": "1",
    "POSTGRES_USER": "nobody",
    "POSTGRES_PASSWORD": "wrong",
    "POSTGRES_SCHEMA": "elsewhere",
    "POSTGRES_ENABLE_DB_FUNCTIONS": "y",
    "POSTGRES_LOCK_TIMEOUT": "nonsense",
}


def test_the_environment_moves_nothing_and_imports_nothing(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Rows
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, value in ENVIRONMENT.items():
        for prefix in ("", "CAUSEBOOK_", "LEDGERAPPLICATION_"):
            monkeypatch.setenv(prefix + name, value)
    # Where libpq would go for what a URL leaves open, and what it would ask for.
    monkeypatch.setenv("PGHOST", "elsewhere.invalid")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGDATABASE", "elsewhere")
    monkeypatch.setenv("PGOPTIONS", "-c synchronous_commit=off -c search_path=pg_temp")
    with contextlib.closing(found(store_url)) as store:
        store.append(rows("a", 1, 2), [], ledger_version=0)
    with contextlib.closing(opened(store_url)) as store:
        assert store.stream("a") == rows("a", 1, 2)
        if store_url.startswith("postgresql"):
            data: Any = store._data  # type: ignore[attr-defined]
            with data.get_connection() as connection:
                (setting,) = connection.execute("SHOW synchronous_commit").fetchone().values()
            assert setting == "on"
    assert os.listdir(folder) == []
    assert "antigravity" not in sys.modules


LOADED = """
import sys
from causebook.adapters.store.{module} import {name}
{use}
print(sorted(n for n in ("eventsourcing", "psycopg", "psycopg_pool") if n in sys.modules))
"""


@pytest.mark.parametrize(
    ("module", "name", "use", "expected"),
    [
        ("port", "Store", "", []),
        ("url", "found", "", []),
        ("url", "found", "found(sys.argv[1]).close()", ["eventsourcing"]),
        ("snapshot", "open_snapshot", "", []),
        ("snapshot", "open_snapshot", "open_snapshot(sys.argv[2]).close()", []),
    ],
)
def test_what_is_not_needed_is_not_loaded(
    module: str, name: str, use: str, expected: list[str], tmp_path: Path, python: Any
) -> None:
    found(f"sqlite:///{tmp_path}/b.db").close()
    script = LOADED.format(module=module, name=name, use=use)
    with python(script, f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db") as process:
        output, errors = process.communicate(timeout=60)
    assert (output.strip(), errors) == (str(expected), "")


MISSING = """
import sys
sys.modules["psycopg"] = None
from causebook.adapters.store import snapshot, url
from causebook.domain.errors import Misuse
for call in (url.found, url.open_store, snapshot.open_snapshot):
    try:
        call("postgresql://ann:s3cr3t@host/l")
    except Misuse as error:
        print(error.message, "|", error.hint)
"""


def test_without_the_postgres_extra_the_error_says_what_to_install(python: Any) -> None:
    with python(MISSING) as process:
        output, errors = process.communicate(timeout=60)
    line = (
        "postgresql://ann@host/l: PostgreSQL needs the extra 'postgres'"
        " | install causebook with its extra 'postgres' (README, Install)\n"
    )
    assert (output, errors) == (line * 3, "")


class TestPostgresServers:
    def test_a_server_that_is_down_is_unavailable(self, tmp_path: Path) -> None:
        url = postgres_url(str(tmp_path), "ledger", password="s3cr3t")
        for call in (opened, open_snapshot, found):
            error = refused(StoreUnavailable, call, url)
            assert "s3cr3t" not in _all_text(error)

    def test_a_refused_login_is_unavailable_and_shows_no_password(self, login_url: str) -> None:
        wrong = login_url.replace("1%25@", "2%25@")
        assert wrong != login_url
        for call in (opened, open_snapshot, found):
            error = refused(StoreUnavailable, call, wrong)
            assert "authentication failed" in error.message
            assert LOGIN_USER in error.message
            for secret in ("p@ss", "p%40ss", "w?rd", "w%3Frd"):
                assert secret not in _all_text(error)

    def test_a_right_password_logs_in_and_a_role_without_rights_is_denied(
        self, login_url: str, postgres_database: str
    ) -> None:
        assert LOGIN_PASSWORD not in login_url
        refused(NoInput, opened, login_url)
        error = refused(Denied, found, login_url)
        assert "permission denied" in error.message
        found(postgres_database).close()
        for call in (opened, open_snapshot):
            refused(Denied, call, login_url)

    def test_a_missing_database_is_named(self, postgres_host: str) -> None:
        error = refused(StoreUnavailable, opened, postgres_url(postgres_host, "missing"))
        assert 'database "missing" does not exist' in error.message

    def test_an_option_that_libpq_does_not_know_is_misuse(self, postgres_database: str) -> None:
        refused(Misuse, opened, f"{postgres_database}?no_such_option=1")

    def test_another_schema_by_our_name_is_refused(self, postgres_database: str) -> None:
        import psycopg

        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA causebook")
            refused(NoInput, opened, postgres_database)
            connection.execute("CREATE TABLE causebook.mine (a int)")
        for call in (opened, open_snapshot):
            assert "is not a causebook ledger" in refused(BadData, call, postgres_database).message
        refused(CannotCreate, found, postgres_database)

    def test_a_server_without_fsync_is_refused(self, private_postgres: Any) -> None:
        with private_postgres("fsync = off\n") as host:
            for call in (found, opened):
                error = refused(StoreUnavailable, call, postgres_url(host, "postgres"))
                assert "expected fsync = on, found off" in error.message

    def test_the_librarys_database_functions_are_refused(self, postgres_database: str) -> None:
        from eventsourcing.postgres import PostgresDatastore

        from causebook.adapters.store.postgres_recorder import LedgerRecorder

        datastore = PostgresDatastore("", "", "", "", "", enable_db_functions=True)
        with pytest.raises(Misuse, match="POSTGRES_ENABLE_DB_FUNCTIONS"):
            LedgerRecorder(datastore)


def _all_text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__dict__)


def test_a_full_disk_is_an_io_failure_and_loses_nothing(
    tmp_path: Path, rows: Rows, request: pytest.FixtureRequest
) -> None:
    import subprocess

    if shutil.which("mount") is None:
        pytest.skip("there is no mount command here")
    small = tmp_path / "small"
    small.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "none", small], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("mounting is not permitted here")
    request.addfinalizer(lambda: subprocess.run(["umount", small], check=True))
    with contextlib.closing(found(f"sqlite:///{small}/a.db")) as store:
        store.append(rows("a", 1, 1), [], ledger_version=0)
        with pytest.raises(IOFailure, match="full"):
            store.append([Row("a", 2, "T", bytes(1_000_000))], [], ledger_version=0)
        store.append(rows("a", 2, 2), [], ledger_version=0)
        assert store.stream("a") == rows("a", 1, 2)
