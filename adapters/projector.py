"""Keeps the projections of a store up to date, rebuilds them beside the live view, and compares.

A projection is a pure function of one task's streams (`projections/facts.py`). Its *position* is the last
record it has taken in: row id and digest. What a view must say is therefore fixed by its position alone:

    for each task, what `rows` makes of the task's streams, cut to the records up to the position

`catch_up` writes that for the tasks that got new records, `rebuild` for all of them, and `check` compares
without writing; so the live view and a rebuilt one can differ only where somebody changed rows by hand, and
then the row is named. Rows and position go in in one transaction, under the right to write that projection.

Memory holds the streams of one task, the names of the tasks and 32 bytes for each row. The rows themselves
wait in a temporary file that has no name.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import IO, Final, Protocol

from ..domain.errors import BadData, IOFailure
from ..domain.record import digest as record_digest
from ..domain.streams import evaluations_prefix, parse_stream, shorten, task_stream
from ..projections.catalogue import PROJECTIONS
from ..projections.facts import Projection, TaskFacts, read_stream
from .store.port import Position, ProjectionRow, Row, Store

DIFFERENCES_MAX: Final = 100
"""How many rows of one projection are named; past them they are counted."""
PAGE_ROWS: Final = 1000
_SPOOL_BYTES_MAX: Final = 8 * 2**20
_LENGTHS: Final = struct.Struct(">II")

Progress = Callable[[int, int], None]
"""Told (tasks done, tasks in all)."""


class Reader(Protocol):
    """A ledger that is read: a snapshot, or `StoreReader` over a store in use."""

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]: ...
    def stream(self, name: str) -> list[Row]: ...
    def streams(self, prefix: str) -> list[str]: ...
    def position(self, projection: str) -> Position | None: ...
    def projected(self, projection: str) -> Iterator[ProjectionRow]: ...


@dataclass(frozen=True)
class StoreReader:
    """A store as a `Reader`: its rows come in pages."""

    store: Store

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        while page := self.store.rows(after=after, limit=PAGE_ROWS):
            yield from page
            after = page[-1][0]

    def stream(self, name: str) -> list[Row]:
        return self.store.stream(name)

    def streams(self, prefix: str) -> list[str]:
        return self.store.streams(prefix)

    def position(self, projection: str) -> Position | None:
        return self.store.position(projection)

    def projected(self, projection: str) -> Iterator[ProjectionRow]:
        return self.store.projected(projection)


@dataclass(frozen=True)
class Difference:
    """Where a view does not say what the events say. `key` is empty where it is not about one row."""

    projection: str
    key: str
    expected: str
    found: str

    def __str__(self) -> str:
        where = f"{self.projection} {self.key}" if self.key else self.projection
        return f"{where}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True)
class CaughtUp:
    """What `catch_up` did for one projection. `rebuilt`: its old rows did not fit and were replaced."""

    projection: str
    position: Position | None
    records: int
    rebuilt: bool


def catch_up(
    store: Store, projections: Sequence[Projection] = PROJECTIONS, progress: Progress | None = None
) -> list[CaughtUp]:
    """Bring the views up to the last record there is now. Those that do not fit are rebuilt.

    A view fits where it was made by the projection's version and the record at its position is the one it
    names. Raises `Busy` where another projector is at work: it or the next one takes in what is new.
    Raises `BadData` naming stream and version of a record that cannot be read; nothing is written then.
    """
    with _held(store, projections):
        return _catch_up(store, projections, progress)


def rebuild(
    store: Store, projections: Sequence[Projection] = PROJECTIONS, progress: Progress | None = None
) -> list[Difference]:
    """Make the views anew beside the live ones, compare, swap in whole, and catch up.

    Answers where the live views differed from the events, as of their own positions; one that another version
    made has nothing to compare. Raises as `catch_up` does.
    """
    with _held(store, projections):
        reader = StoreReader(store)
        differences, places = _sorted_out(reader, projections)
        for place, group in places.items():
            tasks = _tasks(reader)
            with _made(reader, place.row_id, tasks, group, progress, keep=True) as views:
                for projection in group:
                    made = views[projection.name]
                    differences += _compare(projection.name, reader, made.digests)
                    now = dataclasses.replace(place, version=projection.version)
                    store.swap_projection(projection.name, made.rows(), now=now)
        _catch_up(store, projections, progress)
    return differences


def check(
    reader: Reader,
    projections: Sequence[Projection] = PROJECTIONS,
    progress: Progress | None = None,
) -> list[Difference]:
    """Where the stored views differ from the events, each as of its own position. Writes nothing.

    A view that lags is no difference. One that another version made is passed over: ask `obstacle`. Raises
    `BadData` naming stream and version of a record that cannot be read.
    """
    differences, places = _sorted_out(reader, projections)
    for place, group in places.items():
        tasks = _tasks(reader)
        with _made(reader, place.row_id, tasks, group, progress, keep=False) as views:
            for projection in group:
                differences += _compare(projection.name, reader, views[projection.name].digests)
    return differences


def obstacle(reader: Reader, projection: Projection) -> str | None:
    """Why `check` has nothing to compare for this projection, or None."""
    position = reader.position(projection.name)
    if position is None:
        return "not made yet: causebook rebuild"
    if position.version < 0:
        return "its position is not one: causebook rebuild"
    if position.version != projection.version:
        return f"made by version {position.version}, and this program makes {projection.version}"
    return None


def digest_of(rows: Iterable[ProjectionRow]) -> str:
    """The digest of a view, 64 hex: of equal views alone it is equal, in whatever order their rows come.

    SHA-256 over, for each row by key (code points), canonical: SHA-256 of the key, SHA-256 of the value.
    """
    return _digest({row.key: _sha256(row.value) for row in rows if row.value is not None})


def _digest(digests: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for key in sorted(digests):
        whole.update(_sha256(key.encode()) + digests[key])
    return whole.hexdigest()


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


@contextmanager
def _held(store: Store, projections: Sequence[Projection]) -> Iterator[None]:
    with ExitStack() as held:
        # In one order, so that two projectors never wait for one another's.
        for name in sorted({projection.name for projection in projections}):
            held.enter_context(store.projector(name))
        yield


def _catch_up(
    store: Store, projections: Sequence[Projection], progress: Progress | None
) -> list[CaughtUp]:
    reader = StoreReader(store)
    was = {projection.name: reader.position(projection.name) for projection in projections}
    starts: dict[int, list[Projection]] = {}
    replaced: set[str] = set()
    for projection in projections:
        position = was[projection.name]
        start = 0
        if position is not None:
            if position.version != projection.version or _misfit(reader, projection, position):
                replaced.add(projection.name)
            else:
                start = position.row_id
        starts.setdefault(start, []).append(projection)

    done = []
    for start, group in starts.items():
        end = _walk(reader, start)
        with _made(reader, end.row_id, sorted(end.tasks), group, progress, keep=True) as views:
            for projection in group:
                name = projection.name
                now = Position(projection.version, end.row_id, end.digest)
                if name in replaced or (was[name] is None and end.records):
                    # Without a position there may be rows all the same: nothing of them is kept.
                    store.swap_projection(name, views[name].rows(), now=now)
                elif end.records:
                    store.project(name, views[name].rows(), was=was[name], now=now)
                else:
                    done.append(CaughtUp(name, was[name], 0, False))
                    continue
                done.append(CaughtUp(name, now, end.records, name in replaced))
    return done


@dataclass
class _End:
    """Where the log ends now: its last row, and what came after the row one began at."""

    row_id: int
    digest: str = ""
    records: int = 0
    tasks: set[str] = field(default_factory=set)


def _walk(reader: Reader, after: int) -> _End:
    end = _End(after)
    last = b""
    for row_id, row in reader.rows(after):
        end.row_id, last = row_id, row.record
        end.records += 1
        task = _task_of(row.stream)
        if task is not None:
            end.tasks.add(task)
    end.digest = record_digest(last) if end.records else ""
    return end


def _tasks(reader: Reader) -> list[str]:
    names = (name for prefix in ("task/", "evaluation/") for name in reader.streams(prefix))
    return sorted({task for task in map(_task_of, names) if task is not None})


def _task_of(stream: str) -> str | None:
    try:
        return parse_stream(stream).task
    except ValueError:
        raise BadData(f"{shorten(stream)}: expected the name of a stream") from None


def _sorted_out(
    reader: Reader, projections: Sequence[Projection]
) -> tuple[list[Difference], dict[Position, list[Projection]]]:
    """What differs by position alone; and the projections to compare, together where they stand together.

    The places are positions of version 0.
    """
    differences: list[Difference] = []
    places: dict[Position, list[Projection]] = {}
    for projection in projections:
        position = reader.position(projection.name)
        if position is None:
            differences += _compare(projection.name, reader, {})
        elif position.version == projection.version:
            misfit = _misfit(reader, projection, position)
            if misfit is None:
                place = dataclasses.replace(position, version=0)
                places.setdefault(place, []).append(projection)
            else:
                differences.append(misfit)
    return differences, places


def _misfit(reader: Reader, projection: Projection, position: Position) -> Difference | None:
    """Why the record at `position` is not the one it names, or None."""
    found = "no record"
    if position.row_id > 0:
        row_id, row = next(reader.rows(position.row_id - 1), (0, None))
        if row is not None and row_id == position.row_id:
            found = record_digest(row.record)
            if found == position.digest:
                return None
    elif (position.row_id, position.digest) == (0, ""):
        return None
    place = f"record {shorten(position.digest, 70)} at row {position.row_id}, its position"
    return Difference(projection.name, "", place, found)


class _AsOf:
    """Reads tasks as they were when `row_id` was the last row, while the log goes on growing.

    What a stream has beyond that row is in the log after it. So the streams are read first and the log
    after it second: then every record too many has been seen there.
    """

    def __init__(self, reader: Reader, row_id: int) -> None:
        self._reader = reader
        self._seen = row_id
        self._first_beyond: dict[str, int] = {}

    def facts(self, task: str) -> TaskFacts:
        """The facts of `task`. Raises `BadData` naming the record that cannot be read."""
        own = task_stream(task)
        names = [own, *self._reader.streams(evaluations_prefix(task))]
        found = {name: self._reader.stream(name) for name in names}
        for row_id, row in self._reader.rows(self._seen):
            self._first_beyond.setdefault(row.stream, row.version)
            self._seen = row_id
        entries = {name: read_stream(name, self._cut(name, rows)) for name, rows in found.items()}
        return TaskFacts(task, entries.pop(own), {n: told for n, told in entries.items() if told})

    def _cut(self, stream: str, rows: Sequence[Row]) -> Iterator[bytes]:
        beyond = self._first_beyond.get(stream)
        for version, row in enumerate(rows, 1):
            if row.version == beyond:
                return
            if (row.stream, row.version) != (stream, version):
                raise BadData(
                    f"{stream} v{version}: expected this record, the store has v{row.version}"
                )
            yield row.record


class _View:
    """The rows of one projection as they are made: their digests, and the rows where they are kept."""

    def __init__(self, spool: IO[bytes] | None) -> None:
        self.digests: dict[str, bytes] = {}
        self._spool = spool

    def add(self, rows: Mapping[str, bytes]) -> None:
        for key, value in rows.items():
            self.digests[key] = _sha256(value)
            if self._spool is not None:
                name = key.encode()
                self._spool.write(_LENGTHS.pack(len(name), len(value)) + name + value)

    def rows(self) -> Iterator[ProjectionRow]:
        """The rows kept, in the order they were made."""
        if self._spool is None:
            raise ValueError("the rows of this view were not kept")
        self._spool.seek(0)
        while header := self._spool.read(_LENGTHS.size):
            key_bytes, value_bytes = _LENGTHS.unpack(header)
            key = self._spool.read(key_bytes).decode()
            yield ProjectionRow(key, self._spool.read(value_bytes))


@contextmanager
def _made(
    reader: Reader,
    row_id: int,
    tasks: Sequence[str],
    projections: Sequence[Projection],
    progress: Progress | None,
    *,
    keep: bool,
) -> Iterator[Mapping[str, _View]]:
    """The views of `tasks` as of `row_id`, by projection. `keep`: the rows too, not only their digests."""
    with ExitStack() as spools:
        views = {}
        for projection in projections:
            spool = tempfile.SpooledTemporaryFile(_SPOOL_BYTES_MAX) if keep else None  # noqa: SIM115
            views[projection.name] = _View(None if spool is None else spools.enter_context(spool))
        as_of = _AsOf(reader, row_id)
        try:
            for done, task in enumerate(tasks):
                if progress is not None:
                    progress(done, len(tasks))
                facts = as_of.facts(task)
                if not facts.own and not facts.evaluations:
                    continue  # begun after `row_id`
                for projection in projections:
                    views[projection.name].add(projection.rows(facts))
        except OSError as error:
            raise IOFailure(f"temporary file of the projections: {error.strerror}") from error
        if progress is not None:
            progress(len(tasks), len(tasks))
        yield views


def _compare(name: str, reader: Reader, expected: Mapping[str, bytes]) -> list[Difference]:
    """Where the stored rows of a projection are not those `expected`, by key."""
    missing = dict.fromkeys(expected)
    differences: dict[str, Difference] = {}
    beyond = 0
    for row in reader.projected(name):
        found = _sha256(row.value or b"")
        wanted = expected.get(row.key)
        missing.pop(row.key, None)
        if wanted == found:
            continue
        if len(differences) < DIFFERENCES_MAX:
            said = "no such row" if wanted is None else f"a row with SHA-256 {wanted.hex()}"
            differences[row.key] = Difference(name, row.key, said, found.hex())
        else:
            beyond += 1
    for key in missing:
        if len(differences) < DIFFERENCES_MAX:
            wanted = expected[key]
            said = f"a row with SHA-256 {wanted.hex()}"
            differences[key] = Difference(name, key, said, "no row")
        else:
            beyond += 1
    told = [differences[key] for key in sorted(differences)]
    if beyond:
        told.append(Difference(name, "", "no more differences", f"{beyond} more rows that differ"))
    return told
