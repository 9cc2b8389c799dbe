"""A snapshot of a SQLite ledger; which of its three ways is taken is told in `snapshot.py`."""

from __future__ import annotations

import itertools
import os
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, LiteralString

from ...domain.errors import BadData, Busy, IOFailure
from .location import SQLiteLocation, file_uri
from .port import Row
from .shared import row_id_within
from .snapshot_port import BATCH_ROWS, RECORDS_AT_ONCE, Snapshot
from .sqlite_file import ERRORS, bound, require_file, require_readable, translate

_COPIES_MAX = 5
_FAULTS_MAX = 5
_TIMEOUT_SECONDS = 10.0
# Where the write-ahead log keeps the two salts that change each time it begins anew.
_WAL_SALTS = slice(16, 24)

Stamp = tuple[int, int, int, int]


def open_sqlite_snapshot(location: SQLiteLocation, *, live: bool) -> Snapshot:
    path, shown = location.path, location.shown
    for _ in range(_COPIES_MAX):
        require_file(path, shown)
        if _size(_beside(path, "-journal")):
            raise BadData(
                f"{shown}: an unfinished rollback journal lies beside it",
                hint="another program wrote to it and died; opening it with causebook rolls that back",
            )
        before = _stamp(path)
        wal = _beside(path, "-wal")
        # Without the index of the log beside it nobody has the ledger open, and SQLite would make one.
        if live and wal.exists() and _beside(path, "-shm").exists():
            return SQLiteSnapshot(location, location.uri("mode=ro&readonly_shm=1"))
        if not _size(wal):
            # A writer that starts from here on fills a log that is not seen: the snapshot is older, not
            # broken.
            return SQLiteSnapshot(location, location.uri("mode=ro&immutable=1"), unchanged=before)
        folder = tempfile.TemporaryDirectory(prefix="causebook-")
        try:
            copy = Path(folder.name) / "ledger.db"
            if _copy(path, wal, copy, shown):
                return SQLiteSnapshot(location, file_uri(copy, "mode=rw"), folder=folder)
        except BaseException:
            folder.cleanup()
            raise
        folder.cleanup()
    raise Busy(
        f"{shown}: was changed during each of {_COPIES_MAX} copies",
        hint="--live reads a ledger in use",
    )


class SQLiteSnapshot(Snapshot):
    """See `Snapshot`. Owns the connection, and the folder of the copy where there is one."""

    # `length` of a text counts characters, and only those before a NUL; of a blob it need not load it.
    _octets = "CASE typeof({0}) WHEN 'blob' THEN length({0}) ELSE length(CAST({0} AS BLOB)) END"

    def __init__(
        self,
        location: SQLiteLocation,
        uri: str,
        *,
        unchanged: Stamp | None = None,
        folder: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        super().__init__(location.shown)
        self._path = location.path
        self._unchanged = unchanged
        self._folder = folder
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = sqlite3.connect(
                uri, uri=True, isolation_level=None, timeout=_TIMEOUT_SECONDS
            )
            bound(self._connection)
            for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
                self._connection.execute(f"PRAGMA {pragma}")
            # One transaction to the end; its first read, here, fixes what it sees.
            self._connection.execute("BEGIN")
            for fault in require_readable(self._connection, self.location):
                self._anomaly(f"{self.location}: {fault}")
        except ERRORS as error:
            self.close()
            raise self._translated(error) from None
        except BaseException:
            self.close()
            raise

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        first = " WHERE rowid > ?" if after else ""
        query = f"SELECT rowid, {self._record_columns()} FROM stored_events{first}"  # noqa: S608
        last, given = after, (row_id_within(after),) if after else ()
        for chunk in self._chunks(f"{query} ORDER BY rowid", given, RECORDS_AT_ONCE):
            for row_id, stream, version, label, record, length in chunk:
                if (
                    type(record) is bytes
                    and type(stream) is str
                    and type(version) is int
                    and type(label) is str
                ):
                    yield row_id, Row(stream, version, label, record)
                else:
                    yield (
                        row_id,
                        self._row(f"row {row_id}", (stream, version, label, record, length)),
                    )
                last = row_id
            if not isinstance(last, int):
                raise BadData(f"{self.location}: expected integers as row ids, found {last!r}")

    def count(self) -> int:
        # The table itself, not an index of it: an index can hold fewer.
        ((records,),) = self._select("SELECT count(*) FROM stored_events NOT INDEXED")
        return int(records)

    def index_faults(self) -> list[str]:
        # Evidence needs none of it: what an index hides is missing, and what it invents has another hash.
        checked = self._select("PRAGMA integrity_check(stored_events)", batch=_FAULTS_MAX)
        lines = [str(line) for (line,) in itertools.islice(checked, _FAULTS_MAX)]
        return [f"stored_events: {line}" for line in lines if line != "ok"]

    def check_unchanged(self) -> None:
        if self._unchanged is not None and _stamp(self._path) != self._unchanged:
            raise IOFailure(
                f"{self.location}: was changed while it was read, nothing found in it counts",
                hint="run it again; --live reads a ledger in use",
            )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _select(
        self,
        query: LiteralString,
        parameters: tuple[object, ...] = (),
        *,
        batch: int = BATCH_ROWS,
    ) -> Iterator[tuple[Any, ...]]:
        for chunk in self._chunks(query, parameters, batch):
            yield from chunk

    def _chunks(
        self, query: LiteralString, parameters: tuple[object, ...], batch: int = BATCH_ROWS
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query in lists. Text that is not UTF-8 is escaped, and noted once a chunk."""
        cursor, given = self._execute(query, parameters), 0
        while True:
            try:
                chunk = cursor.fetchmany(batch)
            except sqlite3.OperationalError as error:
                if "decode" not in str(error):
                    raise self._translated(error) from None
                # The driver raises in the middle of a chunk and loses its rows: read it again, tolerantly.
                self._anomaly(f"{self.location}: text that is not UTF-8 ({error})")
                yield from self._tolerantly(query, parameters, given, batch)
                return
            except ERRORS as error:
                raise self._translated(error) from None
            if not chunk:
                return
            given += len(chunk)
            yield chunk

    def _execute(self, query: LiteralString, parameters: tuple[object, ...]) -> sqlite3.Cursor:
        try:
            return self._open().execute(query, parameters)
        except ERRORS as error:
            raise self._translated(error) from None

    def _tolerantly(
        self, query: LiteralString, parameters: tuple[object, ...], skip: int, batch: int
    ) -> Iterator[list[tuple[Any, ...]]]:
        connection = self._open()
        connection.text_factory = _tolerant
        try:
            cursor = connection.execute(f"{query} LIMIT -1 OFFSET {skip:d}", parameters)
            # All at once: the factory belongs to the connection, and another query may run meanwhile.
            while chunk := cursor.fetchmany(batch):
                yield chunk
        except ERRORS as error:
            raise self._translated(error) from None
        finally:
            connection.text_factory = str

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise ValueError("the snapshot is closed")
        return self._connection

    def _translated(self, error: sqlite3.Error | UnicodeDecodeError) -> BaseException:
        return translate(error, self._path, self.location, _TIMEOUT_SECONDS)


_tolerant: Callable[[bytes], str] = lambda raw: raw.decode(errors="backslashreplace")  # noqa: E731


def _copy(path: Path, wal: Path, copy: Path, shown: str) -> bool:
    """Copy the file, then its log; False where the log began anew meanwhile, so that the two do not fit.

    In this order a checkpoint does no harm: what it writes to the file comes from the log, which the copy has
    too, and a page torn in the copy is replaced from there. A log that only grew is a later snapshot.
    """
    before = _salts(wal)
    # Another process reads the file: to close it in this one would drop the locks that SQLite holds on it.
    done = subprocess.run(["cp", "--", path, copy], capture_output=True, check=False)
    if done.returncode == 0:
        done = subprocess.run(
            ["cp", "--", wal, _beside(copy, "-wal")], capture_output=True, check=False
        )
    after = _salts(wal)
    if before != after or not before:
        return False
    if done.returncode != 0:
        why = " ".join(done.stderr.decode(errors="backslashreplace").split())
        raise IOFailure(f"{shown}: could not be copied for reading: {why}")
    return True


def _salts(wal: Path) -> bytes:
    try:
        with wal.open("rb") as file:
            return file.read(_WAL_SALTS.stop)[_WAL_SALTS]
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise IOFailure(f"{wal}: {error.strerror}") from None


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise IOFailure(f"{path}: {error.strerror}") from None


def _stamp(path: Path) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0, 0)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
