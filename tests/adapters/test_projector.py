"""The projector: live views, rebuilt ones and the check of a snapshot say the same, or the row is named."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.projector import (
    DIFFERENCES_MAX,
    Difference,
    StoreReader,
    catch_up,
    check,
    digest_of,
    obstacle,
    rebuild,
)
from causebook.adapters.store.port import Position, ProjectionRow, Row, Store
from causebook.adapters.store.snapshot import open_snapshot
from causebook.adapters.store.url import found
from causebook.domain.errors import BadData, Busy
from causebook.domain.record import digest
from causebook.projections.catalogue import PROJECTIONS, View
from causebook.projections.facts import TaskFacts
from tests.memory_store import MemoryStore
from tests.projections.halts import BLOCKER, PASS, PROSE, WARN
from tests.projections.ledgers import Book, example


@pytest.fixture(params=["memory", "memory with gaps", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    opened: Store
    if request.param.startswith("memory"):
        opened = MemoryStore(gap=1 if request.param == "memory" else 7)
    elif request.param == "sqlite":
        opened = found(f"sqlite:///{request.getfixturevalue('tmp_path') / 'ledger.db'}")
    else:
        opened = found(request.getfixturevalue("postgres_database"))
    yield opened
    opened.close()


def views(store: Store) -> dict[str, dict[str, bytes]]:
    return {
        projection.name: {row.key: row.value or b"" for row in store.projected(projection.name)}
        for projection in PROJECTIONS
    }


def pure(book: Book, *tasks: str) -> dict[str, dict[str, bytes]]:
    """What the views must be, folded here without the projector."""
    made: dict[str, dict[str, bytes]] = {projection.name: {} for projection in PROJECTIONS}
    for task in tasks:
        facts = book.facts(task)
        for projection in PROJECTIONS:
            made[projection.name] |= projection.rows(facts)
    return made


def steps(book: Book) -> Iterator[tuple[str, ...]]:
    """Two tasks whose records fall between one another; yields which tasks are there, after each step."""
    first = book.task("a")
    first.attempt(dispatches=1)
    yield ("a",)
    second = book.task("a-b")
    second.attempt()
    first.convene("pre_execute", "majority", ["one", "two"])
    yield ("a", "a-b")
    second.convene("post_execute", "any", ["one"])
    first.hear("one", PASS)
    yield ("a", "a-b")
    second.hear("one", BLOCKER)
    first.hear("two", PASS)
    first.decide()
    yield ("a", "a-b")
    second.decide()
    first.panel("post_execute", "unanimous", {"one": WARN, "two": PASS})
    yield ("a", "a-b")
    first.resolve("proceed")
    second.attempt(rejudges=1)
    yield ("a", "a-b")
    second.panel("post_execute", "any", {"one": PROSE})
    yield ("a", "a-b")


def last(store: Store) -> tuple[int, Row]:
    return store.rows(limit=10_000)[-1]


def test_live_views_are_the_pure_folds_after_every_step(store: Store) -> None:
    book = Book(store)
    for tasks in steps(book):
        done = catch_up(store)
        assert views(store) == pure(book, *tasks)
        row_id, row = last(store)
        for projection, caught in zip(PROJECTIONS, done, strict=True):
            assert caught.position == store.position(projection.name)
            assert caught.position == Position(projection.version, row_id, digest(row.record))
            assert caught.records > 0
            assert not caught.rebuilt
        assert check(StoreReader(store)) == []


def test_a_rebuilt_view_has_the_digest_of_the_live_one(store: Store) -> None:
    book = Book(store)
    for _ in steps(book):
        catch_up(store)
    live = {p.name: digest_of(store.projected(p.name)) for p in PROJECTIONS}
    positions = [store.position(p.name) for p in PROJECTIONS]
    told: list[tuple[int, int]] = []
    assert rebuild(store, progress=lambda done, total: told.append((done, total))) == []
    assert live == {p.name: digest_of(store.projected(p.name)) for p in PROJECTIONS}
    assert positions == [store.position(p.name) for p in PROJECTIONS]
    assert told[:3] == [(0, 2), (1, 2), (2, 2)]


def test_one_catch_up_at_the_end_says_what_many_said(store: Store) -> None:
    book = Book(store)
    *_, tasks = steps(book)
    catch_up(store)
    assert views(store) == pure(book, *tasks)


def test_nothing_new_writes_nothing(store: Store) -> None:
    assert [caught.position for caught in catch_up(store)] == [None] * len(PROJECTIONS)
    book = Book(store)
    example(book)
    catch_up(store)
    before = [store.position(projection.name) for projection in PROJECTIONS]
    done = catch_up(store)
    assert [caught.records for caught in done] == [0] * len(PROJECTIONS)
    assert [caught.position for caught in done] == before


def test_a_view_that_lags_is_no_difference_and_catches_up(store: Store) -> None:
    """Recomputed as of its own position: also where the newer records are in the streams it reads."""
    book = Book(store)
    walk = steps(book)
    next(walk), next(walk), next(walk)
    catch_up(store)
    before = views(store)
    *_, tasks = walk
    assert check(StoreReader(store)) == []
    assert rebuild(store) == []
    assert views(store) == pure(book, *tasks) != before
    assert check(StoreReader(store)) == []


def test_views_at_different_positions_are_each_checked_at_their_own(store: Store) -> None:
    book = Book(store)
    walk = steps(book)
    next(walk), next(walk)
    catch_up(store, PROJECTIONS[:2])
    next(walk), next(walk)
    catch_up(store, PROJECTIONS[1:4])
    next(walk)
    assert check(StoreReader(store)) == []
    assert rebuild(store) == []
    assert views(store) == pure(book, "a", "a-b")


def tamper(store: Store, projection: str, *rows: ProjectionRow) -> None:
    position = store.position(projection)
    assert position is not None
    store.project(projection, rows, was=position, now=position)


def test_a_changed_a_missing_and_an_added_row_are_named_and_a_rebuild_mends_them(
    store: Store,
) -> None:
    book = Book(store)
    for _ in steps(book):
        pass
    catch_up(store)
    good = views(store)
    halts = dict(good["halt_payload"])
    tamper(
        store,
        "halt_payload",
        ProjectionRow("a", halts["a"].replace(b"completed", b"blocked")),
        ProjectionRow("a-b", None),
        ProjectionRow("b", b"{}"),
    )
    differences = check(StoreReader(store))
    assert [(d.projection, d.key) for d in differences] == [
        ("halt_payload", "a"),
        ("halt_payload", "a-b"),
        ("halt_payload", "b"),
    ]
    assert [d.found for d in differences][1] == "no row"
    assert differences[2].expected == "no such row"
    assert str(differences[2]).startswith("halt_payload b: expected no such row, found ")
    assert rebuild(store) == differences
    assert views(store) == good
    assert check(StoreReader(store)) == []


def test_no_more_than_so_many_rows_are_named(store: Store) -> None:
    example(Book(store))
    catch_up(store)
    tamper(store, "tasks", *(ProjectionRow(f"x{n:03}", b"{}") for n in range(DIFFERENCES_MAX + 5)))
    differences = check(StoreReader(store))
    assert len(differences) == DIFFERENCES_MAX + 1
    assert differences[-1] == Difference(
        "tasks", "", "no more differences", "5 more rows that differ"
    )


@pytest.mark.parametrize("fault", ["digest", "row id", "negative row id", "no record"])
def test_a_position_whose_record_is_another_forces_a_rebuild(store: Store, fault: str) -> None:
    book = Book(store)
    walk = steps(book)
    next(walk), next(walk)
    catch_up(store)
    was = store.position("tasks")
    assert was is not None
    now = {
        "digest": dataclasses.replace(was, digest="0" * 64),
        "row id": dataclasses.replace(was, row_id=was.row_id + 1_000_000),
        "negative row id": dataclasses.replace(was, row_id=-5),
        "no record": dataclasses.replace(was, row_id=-(2**63), digest="no record"),
    }[fault]
    store.project("tasks", [ProjectionRow("stale", b"{}")], was=was, now=now)
    (difference,) = check(StoreReader(store))
    assert (difference.projection, difference.key) == ("tasks", "")
    assert difference.expected.startswith(f"record '{now.digest}' at row {now.row_id}")
    done = {caught.projection: caught for caught in catch_up(store)}
    assert [name for name, caught in done.items() if caught.rebuilt] == ["tasks"]
    assert views(store) == pure(book, "a", "a-b")
    assert check(StoreReader(store)) == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE projection_positions SET row_id = 'x'",
        "UPDATE projection_positions SET row_id = 1.5",
        "UPDATE projection_positions SET version = x'00'",
        "UPDATE projection_positions SET digest = x'00'",
        "UPDATE projection_rows SET value = CAST(value AS TEXT)",
        "UPDATE projection_rows SET key = CAST(key AS BLOB)",
    ],
)
@pytest.mark.parametrize("mend", [catch_up, rebuild])
def test_values_of_a_wrong_type_are_mended(
    tmp_path: Path, change: str, mend: Callable[[Store], Any]
) -> None:
    """Whoever owns the file can store anything anywhere: nobody falls over it, and the events mend it."""
    path = tmp_path / "ledger.db"
    with contextlib.closing(found(f"sqlite:///{path}")) as store:
        book = Book(store)
        example(book)
        catch_up(store)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as raw:
            raw.execute(change)
        reader = StoreReader(store)
        assert check(reader) or all(obstacle(reader, each) for each in PROJECTIONS)
        # A projector that catches up looks at the position alone.
        mend(store) if "positions" in change else rebuild(store)
        assert check(reader) == []
        assert views(store) == pure(book, "T-104")


def test_rows_without_a_position_are_a_difference_and_do_not_stay(store: Store) -> None:
    book = Book(store)
    example(book)
    catch_up(store, PROJECTIONS[1:])
    was, stray = store.position("halt_payload"), ProjectionRow("T-104", b"{}")
    assert was is not None
    if isinstance(store, MemoryStore):
        store.views["tasks"] = {"T-104": b"{}", "stray": b"{}"}
        assert [d.key for d in check(StoreReader(store))] == ["T-104", "stray"]
    else:
        # A real store writes no rows without a position, so the nearest to it is a made-up one.
        store.project("tasks", [stray], was=None, now=dataclasses.replace(was, digest="0" * 64))
        assert [d.key for d in check(StoreReader(store))] == [""]
    catch_up(store)
    assert views(store) == pure(book, "T-104")


def test_a_rebuild_reports_a_position_that_does_not_fit(store: Store) -> None:
    example(Book(store))
    catch_up(store)
    was = store.position("tasks")
    assert was is not None
    store.project("tasks", [], was=was, now=dataclasses.replace(was, digest="0" * 64))
    (difference,) = rebuild(store)
    assert (difference.projection, difference.key) == ("tasks", "")
    assert rebuild(store) == []


def test_another_version_of_a_projection_is_rebuilt_and_is_no_difference(store: Store) -> None:
    book = Book(store)
    example(book)
    catch_up(store)
    old = PROJECTIONS[0]

    def rows(facts: TaskFacts) -> Mapping[str, bytes]:
        return {f"{facts.task}/new": b"{}"}

    newer = View(old.name, old.version + 1, rows)
    assert check(StoreReader(store), [newer]) == []
    assert obstacle(StoreReader(store), newer) == "made by version 1, and this program makes 2"
    assert rebuild(store, [newer]) == []
    assert views(store)[old.name] == {"T-104/new": b"{}"}
    assert obstacle(StoreReader(store), newer) is None
    assert obstacle(StoreReader(store), old) == "made by version 2, and this program makes 1"
    assert [caught.rebuilt for caught in catch_up(store, [old])] == [True]
    assert views(store) == pure(book, "T-104")


def test_a_view_never_made_has_nothing_to_compare(store: Store) -> None:
    example(Book(store))
    assert check(StoreReader(store)) == []
    assert obstacle(StoreReader(store), PROJECTIONS[0]) == "not made yet: causebook rebuild"


def test_a_second_projector_is_told_that_it_is_busy(store: Store) -> None:
    example(Book(store))
    with store.projector("timeline"):
        for work in (catch_up, rebuild):
            with pytest.raises(Busy):
                work(store)
        assert store.position("tasks") is None
    catch_up(store)
    assert check(StoreReader(store)) == []


class GrowingStore(MemoryStore):
    """A store to which somebody appends just before each read of a stream, while there is anything left."""

    def __init__(self) -> None:
        super().__init__()
        self.others: Iterator[object] = iter(())
        self.busy = False

    def stream(self, stream: str, *, after: int = 0) -> list[Row]:
        if not self.busy:
            self.busy = True
            next(self.others, None)
            self.busy = False
        return super().stream(stream, after=after)


@pytest.mark.parametrize("work", [catch_up, rebuild])
def test_records_that_come_while_a_view_is_made_are_not_in_it(work: Callable[[Store], Any]) -> None:
    """Rows say what they say as of the position beside them, however fast the log grows."""
    store = GrowingStore()
    book = Book(store)
    walk = steps(book)
    next(walk)
    if work is rebuild:
        store.busy = True
        catch_up(store)
        store.busy = False
    store.others = walk
    assert not work(store) or work is catch_up
    position = store.position("tasks")
    assert position is not None
    assert position.row_id < last(store)[0]
    store.busy = True
    assert check(StoreReader(store)) == []
    catch_up(store)
    assert views(store) == pure(book, "a", "a-b")


@pytest.mark.parametrize("stream", ["task/T-104", "evaluation/T-104/1/post_execute/testing"])
def test_a_tampered_record_is_named_and_nothing_is_written(stream: str) -> None:
    store = MemoryStore()
    example(Book(store))
    at, (row_id, row) = next(
        (n, item)
        for n, item in enumerate(store.log)
        if item[1].stream == stream and item[1].version == 3
    )
    broken = row.record.replace(b'{"at"', b'{ "at"')
    store.log[at] = row_id, row._replace(record=broken)
    for work in (catch_up, rebuild):
        with pytest.raises(BadData, match=f"{stream} v3: line 1: not canonical JSON"):
            work(store)
    assert [store.views, store.positions, store.locks] == [{}, {}, {}]


def test_a_lost_record_is_named() -> None:
    store = MemoryStore()
    example(Book(store))
    store.log = [item for item in store.log if item[1].version != 4 or item[1].stream == "ledger"]
    with pytest.raises(BadData, match=r"v4: expected this record, the store has v5"):
        catch_up(store)


def test_a_stream_of_no_kind_is_named() -> None:
    store = MemoryStore()
    example(Book(store))
    store.log.append((10_000, Row("task/T-104/x\n", 1, "TaskOpened", b"")))
    with pytest.raises(BadData, match=r"'task/T-104/x\\n': expected the name of a stream"):
        catch_up(store)


def test_a_snapshot_is_checked_without_writing(store_url: str) -> None:
    """Views lag behind in the snapshot, and one row was changed."""
    store = found(store_url)
    book = Book(store)
    walk = steps(book)
    next(walk), next(walk), next(walk)
    catch_up(store)
    *_, _ = walk
    with open_snapshot(store_url, live=True) as snapshot:
        assert check(snapshot) == []
        assert obstacle(snapshot, PROJECTIONS[0]) is None
    tamper(store, "timeline", ProjectionRow("evaluation/a/1/pre_execute/one", b"{}"))
    store.close()
    with open_snapshot(store_url, live=True) as snapshot:
        (difference,) = check(snapshot)
    assert difference.key == "evaluation/a/1/pre_execute/one"


def test_names_of_projections_are_their_own() -> None:
    assert len({projection.name for projection in PROJECTIONS}) == len(PROJECTIONS) == 5


def test_the_digest_of_a_view_is_that_of_its_rows_in_any_order() -> None:
    rows = [ProjectionRow(key, value) for key, value in (("a", b"1"), ("b", b"2"), ("é", b"3"))]
    assert digest_of(rows) == digest_of(reversed(rows))
    assert digest_of([*rows, ProjectionRow("gone", None)]) == digest_of(rows)
    others = [rows[:2], [*rows, ProjectionRow("c", b"")], [ProjectionRow("a", b"12"), *rows[1:]]]
    others.append([ProjectionRow("a", b"2"), ProjectionRow("b", b"1"), rows[2]])
    assert len({digest_of(other) for other in (rows, *others)}) == 5
