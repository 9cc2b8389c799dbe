"""Many writers, dying writers and lost answers. But for one interrupt, nothing waits for a time to pass."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from eventsourcing.domain import EventSourcingError

from causebook.adapters.store.port import EvidenceRow, Row, Store
from causebook.adapters.store.url import found, open_store
from causebook.domain.errors import Busy, Denied, IOFailure, VersionConflict
from tests.conftest import postgres_url

Rows = Callable[..., list[Row]]
LOCK = "0123456789abcdef" * 2

APPEND = """
import sys
from causebook.adapters.store.port import EvidenceRow, Row
from causebook.adapters.store.url import open_store
url, stream, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = open_store(url)
for turn in range(turns):
    rows = [Row(stream, turn * 2 + v, "T", f"{stream}/{turn * 2 + v}".encode()) for v in (1, 2)]
    proof = EvidenceRow(f"{stream}/{turn}", b"salt", stream, b"body")
    store.append(rows, [proof], ledger_version=0)
    print(turn + 1, flush=True)
store.close()
"""


def test_eight_threads_append_to_their_own_streams(store: Store) -> None:
    failures: list[BaseException] = []

    def writer(name: str) -> None:
        try:
            for turn in range(20):
                rows = [Row(name, 2 * turn + v, "T", f"{name}/{turn}/{v}".encode()) for v in (1, 2)]
                proof = EvidenceRow(f"{name}/{turn}", b"salt", name, b"body")
                store.append(rows, [proof], ledger_version=0)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=writer, args=(f"t/{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    _appends_lie_together(store, 8 * 20)


def test_four_processes_append_to_their_own_streams(
    store: Store, store_url: str, python: Any
) -> None:
    processes = [python(APPEND, store_url, f"p/{number}", "25") for number in range(4)]
    for process in processes:
        output, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")
        assert output.split() == [str(turn) for turn in range(1, 26)]
    _appends_lie_together(store, 4 * 25)


def _appends_lie_together(store: Store, appends: int) -> None:
    """The two rows of each append are neighbours in the order of the log, and each stream is in order."""
    rows = [row for _, row in store.rows(limit=10_000)]
    assert len(rows) == store.count() == 2 * appends
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert (first.stream, first.version + 1) == (second.stream, second.version)
    for name in store.streams(""):
        assert len(store.evidence_of(name)) * 2 == len(store.stream(name))


def test_a_reader_that_follows_the_log_misses_nothing(store: Store) -> None:
    """Row ids are drawn under the lock: a row never appears below one that was read before."""
    done = threading.Event()

    def writer(name: str) -> None:
        for version in range(1, 31):
            store.append([Row(name, version, "T", b"x")], [], ledger_version=0)

    def all_writers() -> None:
        threads = [threading.Thread(target=writer, args=(f"w/{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done.set()

    background = threading.Thread(target=all_writers)
    background.start()
    seen: list[int] = []
    while True:
        finished = done.is_set()
        page = store.rows(after=seen[-1] if seen else 0, limit=7)
        seen.extend(row_id for row_id, _ in page)
        if finished and not page:
            break
    background.join()
    assert len(seen) == 120
    assert seen == [row_id for row_id, _ in store.rows()]


def test_of_two_conflicting_writers_exactly_one_wins(store: Store) -> None:
    for version in range(1, 16):
        outcomes: list[str] = []
        start = threading.Barrier(2)

        def writer(name: str, version: int = version, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                store.append([Row("a", version, "T", name.encode())], [], ledger_version=0)
                outcomes.append(name)  # noqa: B023
            except VersionConflict:
                pass

        threads = [threading.Thread(target=writer, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 1
        assert store.stream("a", after=version - 1)[0].record == outcomes[0].encode()


def test_what_was_acknowledged_survives_kill_9(store: Store, store_url: str, python: Any) -> None:
    with python(APPEND, store_url, "k", "1000000") as process:
        acknowledged = 0
        while acknowledged < 20:
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        process.wait()
        acknowledged = int(rest[-1]) if rest else acknowledged
    stored = store.stream("k")
    assert len(stored) >= 2 * acknowledged
    assert len(stored) % 2 == 0
    assert [row.version for row in stored] == list(range(1, len(stored) + 1))
    assert len(store.evidence_of("k")) * 2 == len(stored)
    store.append([Row("k", len(stored) + 1, "T", b"next")], [], ledger_version=0)


def test_a_writer_that_waits_too_long_is_told_so(store: Store, store_url: str, raw: Any) -> None:
    with contextlib.closing(open_store(store_url, lock_timeout_seconds=0.1)) as hasty:
        if raw.is_sqlite:
            raw.run("BEGIN IMMEDIATE")
        else:
            raw.connection.autocommit = False
            raw.run("LOCK TABLE {}stored_events IN EXCLUSIVE MODE")
        with pytest.raises(Busy, match="locked by another writer") as caught:
            hasty.append([Row("a", 1, "T", b"x")], [], ledger_version=0)
        assert not isinstance(caught.value, VersionConflict)
        raw.connection.rollback()
        hasty.append([Row("a", 1, "T", b"x")], [], ledger_version=0)
    assert store.count() == 1


def test_a_lock_excludes_another_handle_and_another_store(store: Store, store_url: str) -> None:
    lock = store.try_lock(LOCK)
    assert lock is not None
    assert store.try_lock(LOCK) is None
    with contextlib.closing(open_store(store_url)) as other:
        assert other.try_lock(LOCK) is None
        free = other.try_lock("f" * 32)
        assert free is not None
        lock.release()
        lock.release()
        again = other.try_lock(LOCK)
        assert again is not None
        assert store.try_lock(LOCK) is None
        again.release()
        free.release()


@pytest.mark.parametrize(
    "name", ["", "x" * 32, "A" * 32, "0" * 31, "0" * 32 + "\n", "../" + "0" * 29]
)
def test_a_lock_of_another_name_is_a_programmers_mistake(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="32 lower-case hex digits"):
        store.try_lock(name)


HOLD = """
import sys
from causebook.adapters.store.url import open_store
store = open_store(sys.argv[1])
lock = store.try_lock(sys.argv[2])
print("held" if lock else "busy", flush=True)
sys.stdin.read()
"""


def test_a_lock_is_free_once_its_holder_is_killed(
    store: Store, store_url: str, python: Any
) -> None:
    with python(HOLD, store_url, LOCK) as holder:
        assert holder.stdout.readline() == "held\n"
        assert store.try_lock(LOCK) is None
        holder.kill()
        holder.wait()
        # A server notices a dead client when it next reads its socket.
        lock = None
        while lock is None:
            lock = store.try_lock(LOCK)
        lock.release()


def test_one_projector_at_a_time(store: Store, store_url: str) -> None:
    with contextlib.closing(open_store(store_url)) as other:
        with store.projector("tree"):
            with pytest.raises(Busy, match="another projector"), other.projector("tree"):
                pass
            with other.projector("coverage"):
                pass
        with other.projector("tree"):
            pass
        with pytest.raises(KeyError), store.projector("tree"):
            raise KeyError
        with store.projector("tree"):
            pass


def test_a_lock_file_that_is_replaced_under_a_waiter_is_not_held_twice(tmp_path: Path) -> None:
    from causebook.adapters.store import locks

    database = tmp_path / "a.db"
    holders = 0
    most = 0
    counted = threading.Lock()

    def contender() -> None:
        nonlocal holders, most
        for _ in range(60):
            lock = locks.try_file_lock(database, LOCK)
            if lock is None:
                continue
            with counted:
                holders += 1
                most = max(most, holders)
            with counted:
                holders -= 1
            lock.release()

    threads = [threading.Thread(target=contender) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert os.listdir(tmp_path) == []


def test_a_release_takes_away_no_file_of_another_holder(tmp_path: Path) -> None:
    from causebook.adapters.store import locks

    database = tmp_path / "a.db"
    first = locks.try_file_lock(database, LOCK)
    assert first is not None
    held = locks.folder_of(database) / f"{LOCK}.lock"
    held.unlink()
    second = locks.try_file_lock(database, LOCK)
    assert second is not None
    first.release()
    assert held.exists()
    assert locks.try_file_lock(database, LOCK) is None
    second.release()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("planted", ["a link", "a file", "for all to write", "of another user"])
def test_a_folder_of_locks_that_somebody_else_put_there(tmp_path: Path, planted: str) -> None:
    from causebook.adapters.store import locks

    database, elsewhere = tmp_path / "a.db", tmp_path / "elsewhere"
    database.touch()
    folder = locks.folder_of(database)
    elsewhere.mkdir()
    if planted == "a link":
        folder.symlink_to(elsewhere)
    elif planted == "a file":
        folder.touch()
    else:
        folder.mkdir()
        if planted == "for all to write":
            folder.chmod(0o777)
        elif os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        else:
            os.chown(folder, 12345, -1)
    with pytest.raises(Denied, match="expected a folder"):
        locks.try_file_lock(database, LOCK)
    assert os.listdir(elsewhere) == []
    if planted == "of another user":
        # Whoever owns the ledger has nothing to gain by its locks.
        os.chown(database, 12345, -1)
    else:
        folder.rename(tmp_path / "aside")
    lock = locks.try_file_lock(database, LOCK)
    assert lock is not None
    assert os.listdir(folder) == [f"{LOCK}.lock"]
    lock.release()


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    from causebook.adapters.store import locks

    database = tmp_path / "a.db"
    locks.folder_of(database).mkdir()
    (locks.folder_of(database) / f"{LOCK}.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IOFailure):
        locks.try_file_lock(database, LOCK)
    assert not (tmp_path / "elsewhere").exists()


def test_a_released_lock_is_free_at_once(store: Store, store_url: str) -> None:
    with contextlib.closing(open_store(store_url)) as other:
        for _ in range(20):
            lock = store.try_lock(LOCK)
            assert lock is not None
            lock.release()
            lock.release()
            again = other.try_lock(LOCK)
            assert again is not None
            again.release()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_an_interrupt_while_waiting_for_the_write_lock_leaves_it_free(
    store: Store, store_url: str
) -> None:
    """The signal comes while SQLite waits; Python raises it once the lock is had."""
    other = sqlite3.connect(
        store_url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False
    )
    other.execute("BEGIN IMMEDIATE")

    def interrupt() -> None:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
        other.close()

    with pytest.raises(KeyboardInterrupt), _in_thread(interrupt):
        store.append([Row("a", 1, "T", b"1")], [], ledger_version=0)
    with contextlib.closing(open_store(store_url, lock_timeout_seconds=0.2)) as hasty:
        assert hasty.count() == 0
        hasty.append([Row("a", 1, "T", b"1")], [], ledger_version=0)
    store.append([Row("a", 2, "T", b"2")], [], ledger_version=0)
    assert store.count() == 2


@contextlib.contextmanager
def _in_thread(work: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_closed_store_writes_nothing_more(store: Store, store_url: str) -> None:
    store.append([Row("a", 1, "T", b"1")], [], ledger_version=0)
    store.close()
    with pytest.raises(EventSourcingError):
        store.append([Row("a", 2, "T", b"2")], [], ledger_version=0)
    with contextlib.closing(open_store(store_url)) as again:
        assert again.count() == 1


class LossyServer:
    """Stands before a PostgreSQL server and cuts the line on the answer to a COMMIT, as often as armed."""

    def __init__(self, folder: Path, behind: str) -> None:
        self.armed = 0
        self.cuts = 0
        self._behind = behind
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(f"{self._behind}/.s.PGSQL.5432")
            commits = False
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    if ready is client:
                        commits = commits or b"COMMIT\0" in data
                        server.sendall(data)
                    elif commits and self.armed and b"COMMIT\0" in data:
                        # The server has committed; the client never hears of it.
                        self.armed -= 1
                        self.cuts += 1
                        return
                    else:
                        client.sendall(data)


@pytest.fixture
def lossy(postgres_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import tempfile

    host, _, name = postgres_database.partition("@")[2].partition("/")
    with tempfile.TemporaryDirectory(prefix="lossy-", dir="/tmp") as folder:
        server = LossyServer(Path(folder), unquote(host))
        try:
            yield server, postgres_url(folder, name)
        finally:
            server.close()


def test_an_append_whose_answer_was_lost_is_not_called_a_conflict(
    lossy: Any, postgres_database: str, rows: Rows
) -> None:
    server, url = lossy
    found(postgres_database).close()
    proof = EvidenceRow("ab" * 32, bytes(32), "t", b"body")
    with contextlib.closing(open_store(url, lock_timeout_seconds=5)) as store:
        store.append(rows("a", 1, 1), [], ledger_version=0)
        server.armed = 1
        store.append(rows("a", 2, 3), [proof], ledger_version=0)
        assert server.cuts == 1
        assert store.stream("a") == rows("a", 1, 3)
        server.armed = 1
        store.append(rows("ledger", 1, 2), [], ledger_version=0)
        assert server.cuts == 2
        assert store.count() == 5


def test_a_pool_outlives_a_server_that_closed_its_connections(
    postgres_database: str, rows: Rows
) -> None:
    import psycopg

    with contextlib.closing(found(postgres_database)) as store:
        store.append(rows("a", 1, 1), [], ledger_version=0)
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        store.append(rows("a", 2, 2), [], ledger_version=0)
        assert store.stream("a") == rows("a", 1, 2)


def test_row_ids_leave_gaps_on_postgres_and_the_order_holds(
    postgres_database: str, rows: Rows
) -> None:
    with contextlib.closing(found(postgres_database)) as store:
        store.append(rows("a", 1, 1), [], ledger_version=0)
        with pytest.raises(VersionConflict):
            store.append([*rows("b", 1, 1), *rows("a", 1, 1, "other")], [], ledger_version=0)
        store.append(rows("b", 1, 1), [], ledger_version=0)
        assert [row.stream for _, row in store.rows()] == ["a", "b"]
        ids = [row_id for row_id, _ in store.rows()]
        assert ids[1] > ids[0] + 1
        assert [row.stream for _, row in store.rows(after=ids[0])] == ["b"]


def test_a_signal_that_comes_while_sqlite_waits_keeps_no_other_thread_from_writing(
    tmp_path: Path,
) -> None:
    """Python raises what the handler does once SQLite gave up: on the way into what undoes the append."""

    class Told(Exception):
        pass

    def tell(number: int, frame: object) -> None:
        raise Told

    path = tmp_path / "ledger.db"
    found(f"sqlite:///{path}").close()
    was = signal.signal(signal.SIGALRM, tell)
    try:
        with (
            contextlib.closing(open_store(f"sqlite:///{path}", lock_timeout_seconds=0.3)) as store,
            contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other,
        ):
            store.append([Row("s", 1, "T", b"first")], [], ledger_version=0)
            other.execute("BEGIN IMMEDIATE")
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(Told):
                store.append([Row("s", 2, "T", b"second")], [], ledger_version=0)
            other.execute("ROLLBACK")
            writer = threading.Thread(
                target=store.append,
                args=([Row("s", 2, "T", b"third")], []),
                kwargs={"ledger_version": 0},
            )
            writer.start()
            writer.join()
            assert [row.record for row in store.stream("s")] == [b"first", b"third"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, was)
