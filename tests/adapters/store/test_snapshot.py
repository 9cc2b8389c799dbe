"""Reading for verification: the same rows as the store has, from a snapshot that writes nothing."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.store import snapshot_port, snapshot_sqlite
from causebook.adapters.store.port import EvidenceRow, Position, ProjectionRow, Row, Store
from causebook.adapters.store.snapshot import open_snapshot
from causebook.adapters.store.url import found, open_store
from causebook.domain.errors import BadData, Busy, IOFailure

Rows = Callable[..., list[Row]]
PROOF = EvidenceRow("ab" * 32, bytes(range(32)), "t", b"body")


@pytest.fixture
def filled(store: Store, rows: Rows) -> Store:
    store.append(rows("ledger", 1, 2), [], ledger_version=0)
    store.append(rows("task/b", 1, 3), [PROOF], ledger_version=2)
    store.append(rows("task/a", 1, 1), [], ledger_version=2)
    position = Position(1, 6, "cd" * 32)
    store.project(
        "p", [ProjectionRow("k2", b"2"), ProjectionRow("k1", b"1")], was=None, now=position
    )
    return store


@pytest.fixture
def sqlite_file(tmp_path: Path, rows: Rows) -> Path:
    """A closed ledger: no `-wal` beside it."""
    path = tmp_path / "closed" / "ledger.db"
    with contextlib.closing(found(f"sqlite:///{path}")) as store:
        store.append(rows("a", 1, 3), [PROOF], ledger_version=0)
    assert os.listdir(path.parent) == ["ledger.db"]
    return path


@pytest.mark.parametrize("live", [False, True])
def test_a_snapshot_has_what_the_store_has(filled: Store, store_url: str, live: bool) -> None:
    with open_snapshot(store_url, live=live) as snapshot:
        assert list(snapshot.rows()) == filled.rows()
        middle = filled.rows()[2][0]
        assert list(snapshot.rows(middle)) == filled.rows(after=middle)
        assert snapshot.streams() == filled.streams("") == ["ledger", "task/a", "task/b"]
        assert snapshot.streams("task/") == ["task/a", "task/b"]
        assert snapshot.stream("task/b") == filled.stream("task/b")
        assert snapshot.count() == 6
        assert snapshot.evidence(PROOF.commitment) == PROOF
        assert snapshot.evidence("00") is None
        assert list(snapshot.evidence_commitments()) == [(PROOF.commitment, "t")]
        assert snapshot.position("p") == filled.position("p")
        assert snapshot.position("q") is None
        assert list(snapshot.projected("p")) == list(filled.projected("p"))
        assert list(snapshot.projected("p", "k2")) == [ProjectionRow("k2", b"2")]
        assert snapshot.count() == 6
        assert len(list(snapshot.evidence_commitments())) == 1
        assert len(list(snapshot.projected("p"))) == 2
        assert snapshot.anomalies == []
        assert snapshot.location in (store_url, store_url.removeprefix("sqlite:///"))


@pytest.mark.parametrize("live", [False, True])
def test_a_snapshot_does_not_move_while_others_append(
    filled: Store, store_url: str, rows: Rows, live: bool
) -> None:
    with open_snapshot(store_url, live=live) as snapshot:
        reading = snapshot.rows()
        before = [next(reading)]
        filled.append(rows("task/c", 1, 2), [], ledger_version=2)
        before.extend(reading)
        assert len(before) == snapshot.count() == 6
        assert snapshot.stream("task/c") == []
    assert filled.count() == 8


def test_queries_may_run_while_rows_are_streamed(store: Store, store_url: str, rows: Rows) -> None:
    store.append(rows("a", 1, 5000), [], ledger_version=0)
    with open_snapshot(store_url) as snapshot:
        versions = []
        for _, row in snapshot.rows():
            versions.append(row.version)
            if row.version % 1000 == 0:
                assert len(snapshot.stream("a")) == 5000
        assert versions == list(range(1, 5001))


def test_streaming_may_stop_early(store: Store, store_url: str, rows: Rows) -> None:
    store.append(rows("a", 1, 5000), [], ledger_version=0)
    with open_snapshot(store_url) as snapshot:
        for row_id, _ in snapshot.rows():
            if row_id >= 2:
                break
        assert snapshot.count() == 5000


def test_rows_of_wrong_types_are_handed_out_and_noted(
    filled: Store, store_url: str, raw: Any
) -> None:
    if raw.is_sqlite:
        raw.run("DROP TRIGGER stored_events_update")
        raw.run("PRAGMA ignore_check_constraints = ON")
        raw.run(
            "UPDATE stored_events SET state = CAST(state AS TEXT), topic = x'ff41' WHERE rowid = 1"
        )
        raw.run("UPDATE stored_events SET originator_version = 'two' WHERE rowid = 2")
        raw.run(
            "UPDATE stored_events SET originator_id = 7, originator_version = 1.5 WHERE rowid = 3"
        )
        expected = [
            f"{store_url.removeprefix('sqlite:///')}: no trigger stored_events_update as causebook makes it",
            "row 1: topic",
            "row 1: state",
            "row 2: originator_version",
            "row 3: originator_version",
        ]
        values = [("ledger", 1), ("ledger", -1), ("7", 1)]
    else:
        raw.run("ALTER TABLE {}stored_events DISABLE TRIGGER USER")
        raw.run("ALTER TABLE {}stored_events ALTER state DROP NOT NULL, ALTER topic DROP NOT NULL")
        raw.run(
            "UPDATE {}stored_events SET state = NULL, topic = NULL WHERE originator_id = 'ledger'"
        )
        expected = ["row 1: topic", "row 1: state", "row 2: topic", "row 2: state"]
        values = [("ledger", 1), ("ledger", 2), ("task/b", 1)]
    with open_snapshot(store_url) as snapshot:
        handed = list(snapshot.rows())
        noted = list(snapshot.anomalies)
        snapshot.streams()
    assert len(handed) == 6
    assert [(row.stream, row.version) for _, row in handed[:3]] == values
    for _, row in handed:
        assert (type(row.stream), type(row.version), type(row.type), type(row.record)) == (
            str,
            int,
            str,
            bytes,
        )
    assert [line.partition(": expected")[0] for line in noted] == expected


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_text_that_is_not_utf_8_is_escaped_and_noted(
    store: Store, store_url: str, raw: Any, rows: Rows
) -> None:
    store.append(rows("a", 1, 5000), [], ledger_version=0)
    raw.run("DROP TRIGGER stored_events_update")
    raw.run("UPDATE stored_events SET topic = CAST(x'ff41' AS TEXT) WHERE rowid IN (3000, 4999)")
    with open_snapshot(store_url) as snapshot:
        handed = list(snapshot.rows())
        assert any("not UTF-8" in line for line in snapshot.anomalies)
    assert [row_id for row_id, _ in handed] == list(range(1, 5001))
    assert handed[2999][1].type == handed[4998][1].type == "\\xffA"


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_row_moved_before_the_first_is_seen(filled: Store, store_url: str, raw: Any) -> None:
    raw.run("DROP TRIGGER stored_events_update")
    raw.run("PRAGMA ignore_check_constraints = ON")
    raw.run("UPDATE stored_events SET rowid = -5 WHERE rowid = 6")
    with open_snapshot(store_url) as snapshot:
        assert [row_id for row_id, _ in snapshot.rows()] == [-5, 1, 2, 3, 4, 5]


def test_anomalies_are_bounded(monkeypatch: pytest.MonkeyPatch, sqlite_file: Path) -> None:
    monkeypatch.setattr(snapshot_port, "ANOMALIES_MAX", 2)
    with contextlib.closing(sqlite3.connect(sqlite_file)) as connection:
        connection.execute("DROP TRIGGER stored_events_update")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE stored_events SET topic = x'00'")
        connection.commit()
    with open_snapshot(f"sqlite:///{sqlite_file}") as snapshot:
        assert len(list(snapshot.rows())) == 3
        assert len(snapshot.anomalies) == 3
        assert "more than these" in snapshot.anomalies[-1]


def test_a_closed_ledger_is_read_on_a_read_only_mount(
    sqlite_file: Path, read_only: Callable[[Path], Path]
) -> None:
    mounted = read_only(sqlite_file.parent)
    for live in (False, True):
        with open_snapshot(f"sqlite:///{mounted}/ledger.db", live=live) as snapshot:
            assert len(list(snapshot.rows())) == 3
    assert os.listdir(sqlite_file.parent) == ["ledger.db"]


def test_a_ledger_with_a_filled_log_is_read_on_a_read_only_mount(
    sqlite_file: Path, read_only: Callable[[Path], Path], rows: Rows
) -> None:
    with contextlib.closing(open_store(f"sqlite:///{sqlite_file}")) as store:
        store.append(rows("a", 4, 9), [], ledger_version=0)
        mounted = read_only(sqlite_file.parent)
        beside = sorted(os.listdir(mounted))
        assert beside == ["ledger.db", "ledger.db-shm", "ledger.db-wal"]
        with open_snapshot(f"sqlite:///{mounted}/ledger.db") as snapshot:
            assert len(list(snapshot.rows())) == 9
        assert sorted(os.listdir(mounted)) == beside


def test_nothing_is_left_beside_the_ledger_or_in_the_temporary_folder(
    sqlite_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Rows
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    before = (sqlite_file.read_bytes(), sqlite_file.stat().st_mtime_ns)
    for live in (False, True):
        with open_snapshot(f"sqlite:///{sqlite_file}", live=live) as snapshot:
            assert snapshot.count() == 3
            assert os.listdir(temporary) == []
    assert (sqlite_file.read_bytes(), sqlite_file.stat().st_mtime_ns) == before
    with contextlib.closing(open_store(f"sqlite:///{sqlite_file}")) as store:
        store.append(rows("a", 4, 4), [], ledger_version=0)
        with open_snapshot(f"sqlite:///{sqlite_file}") as snapshot:
            assert snapshot.count() == 4
            (copy,) = temporary.iterdir()
            assert stat.S_IMODE(copy.stat().st_mode) == 0o700
        assert os.listdir(temporary) == []
    assert os.listdir(sqlite_file.parent) == ["ledger.db"]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("beside", ["an-empty-log", "an-empty-log-and-its-index", "a-left-log"])
def test_a_log_that_nobody_writes_to_stays_as_it_lies(
    sqlite_file: Path, rows: Rows, beside: str, live: bool
) -> None:
    """A copy of a ledger, a log beside it, and no writer: SQLite itself would make what is missing."""
    log, index = (sqlite_file.with_name(f"ledger.db{end}") for end in ("-wal", "-shm"))
    expected = 3
    if beside == "a-left-log":
        with contextlib.closing(open_store(f"sqlite:///{sqlite_file}")) as store:
            store.append(rows("a", 4, 4), [], ledger_version=0)
            copies = [path.read_bytes() for path in (sqlite_file, log)]
        for path, content in zip((sqlite_file, log), copies, strict=True):
            path.write_bytes(content)
        expected = 4
    else:
        log.touch()
        if beside == "an-empty-log-and-its-index":
            index.touch()
    before = {path.name: path.read_bytes() for path in sqlite_file.parent.iterdir()}
    for _ in range(2):
        with open_snapshot(f"sqlite:///{sqlite_file}", live=live) as snapshot:
            assert snapshot.count() == len(list(snapshot.rows())) == expected
            assert snapshot.anomalies == []
        assert {path.name: path.read_bytes() for path in sqlite_file.parent.iterdir()} == before


def test_a_ledger_in_use_is_read_live_without_a_byte_written(
    sqlite_file: Path, rows: Rows, python: Any
) -> None:
    reader = (
        "import sys\nfrom causebook.adapters.store.snapshot import open_snapshot\n"
        "with open_snapshot(sys.argv[1], live=True) as snapshot:\n"
        "    print(snapshot.count(), len(list(snapshot.rows())))\n"
    )
    url = f"sqlite:///{sqlite_file}"
    with contextlib.closing(open_store(url)) as store:
        for version in (4, 5):
            store.append(rows("a", version, version), [], ledger_version=0)
            before = {path.name: path.read_bytes() for path in sqlite_file.parent.iterdir()}
            assert sorted(before) == ["ledger.db", "ledger.db-shm", "ledger.db-wal"]
            with python(reader, url) as process:
                said = process.communicate(timeout=60)
            assert said == (f"{version} {version}\n", "")
            assert {each.name: each.read_bytes() for each in sqlite_file.parent.iterdir()} == before
    assert os.listdir(sqlite_file.parent) == ["ledger.db"]


def test_a_file_changed_while_it_is_read_fails(sqlite_file: Path, rows: Rows) -> None:
    url = f"sqlite:///{sqlite_file}"
    snapshot = open_snapshot(url)
    with contextlib.closing(open_store(url)) as store:
        store.append(rows("a", 4, 4), [], ledger_version=0)
    with pytest.raises(IOFailure, match="was changed while it was read"):
        snapshot.__exit__(None, None, None)
    # The error of the reader is the one that is told.
    snapshot = open_snapshot(url)
    os.utime(sqlite_file, ns=(1, 1))
    snapshot.__exit__(KeyError, KeyError(), None)
    with contextlib.closing(open_snapshot(url)) as snapshot:
        snapshot.check_unchanged()
        os.utime(sqlite_file, ns=(2, 2))
        with pytest.raises(IOFailure):
            snapshot.check_unchanged()


def test_a_log_that_begins_anew_during_each_copy_is_busy(
    sqlite_file: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{sqlite_file}"
    real, copies = snapshot_sqlite.subprocess.run, 0

    with contextlib.closing(open_store(url)) as store:
        store.append(rows("a", 4, 4), [], ledger_version=0)
        data: Any = store._data  # type: ignore[attr-defined]

        def run(command: list[Any], **options: Any) -> Any:
            nonlocal copies
            done = real(command, **options)
            copies += 1
            if stop_after is None or copies <= stop_after:
                with data.get_connection(commit=True) as pooled:
                    pooled._sqlite_conn.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
                next_version = len(store.stream("a")) + 1
                store.append(rows("a", next_version, next_version), [], ledger_version=0)
            return done

        monkeypatch.setattr(snapshot_sqlite.subprocess, "run", run)
        stop_after: int | None = None
        with pytest.raises(Busy, match="was changed during each of 5 copies"):
            open_snapshot(url)
        stop_after, copies = 3, 0
        with open_snapshot(url) as snapshot:
            assert [row.version for _, row in snapshot.rows()] == [
                row.version for row in store.stream("a")
            ]


def test_a_copy_beside_a_store_of_the_same_process_keeps_its_locks(
    sqlite_file: Path, rows: Rows, python: Any
) -> None:
    """Were the file closed in this process, its locks would go, and a stranger would remove the log."""
    stranger = (
        "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n"
        "c.execute('SELECT count(*) FROM stored_events').fetchall()\nc.close()\n"
    )
    url = f"sqlite:///{sqlite_file}"
    with contextlib.closing(open_store(url)) as store:
        store.append(rows("a", 4, 4), [], ledger_version=0)
        with open_snapshot(url) as snapshot:
            assert snapshot.count() == 4
        with python(stranger, str(sqlite_file)) as process:
            assert process.communicate(timeout=60) == ("", "")
        assert sqlite_file.with_name("ledger.db-wal").exists()
        store.append(rows("a", 5, 5), [], ledger_version=0)
    with contextlib.closing(open_store(url)) as store:
        assert [row.version for row in store.stream("a")] == [1, 2, 3, 4, 5]


def test_an_unfinished_rollback_journal_is_refused(sqlite_file: Path) -> None:
    sqlite_file.with_name("ledger.db-journal").write_bytes(b"x" * 600)
    with pytest.raises(BadData, match="rollback journal"):
        open_snapshot(f"sqlite:///{sqlite_file}")


@pytest.mark.parametrize("cut", [100, 5000, 12288])
def test_a_file_that_was_cut_is_bad_data(sqlite_file: Path, cut: int) -> None:
    os.truncate(sqlite_file, cut)
    with pytest.raises(BadData):
        _read_all(f"sqlite:///{sqlite_file}")


def _read_all(url: str) -> None:
    with open_snapshot(url) as snapshot:
        list(snapshot.rows())
        list(snapshot.evidence_commitments())
        snapshot.stream("a")


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_erased_evidence_leaves_no_bytes_in_the_files(
    store: Store, store_url: str, rows: Rows, raw: Any
) -> None:
    secret = os.urandom(3000).hex().encode()
    path = Path(store_url.removeprefix("sqlite:///"))
    store.append(
        rows("a", 1, 1), [EvidenceRow("cd" * 32, bytes(32), "gone", secret)], ledger_version=0
    )
    store.append(rows("a", 2, 2), [PROOF], ledger_version=0)
    raw.run("PRAGMA wal_checkpoint(FULL)")
    assert store.erase_evidence(["cd" * 32]) == 1
    for file in (path, path.with_name(path.name + "-wal")):
        content = file.read_bytes()
        assert secret[:64] not in content
        assert secret[-64:] not in content


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_an_erasure_that_a_reader_holds_up_says_so(filled: Store, store_url: str, raw: Any) -> None:
    raw.run("BEGIN")
    raw.run("SELECT count(*) FROM stored_events")
    with contextlib.closing(open_store(store_url, lock_timeout_seconds=0.1)) as hasty:
        with pytest.raises(Busy, match="a reader holds"):
            hasty.erase_evidence([PROOF.commitment])
        assert hasty.evidence(PROOF.commitment) is None
        raw.run("COMMIT")
        assert hasty.erase_evidence([PROOF.commitment]) == 0
