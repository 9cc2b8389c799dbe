"""Rows and position of a projection are one thing, written by one projector at a time."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from causebook.adapters.store.port import Position, ProjectionRow, Store
from causebook.adapters.store.snapshot import open_snapshot
from causebook.adapters.store.url import open_store
from causebook.domain.errors import Busy

ONE = Position(1, 10, "aa" * 32)
TWO = Position(1, 20, "bb" * 32)
NEXT_VERSION = Position(2, 20, "bb" * 32)


def contents(store: Store, projection: str = "p") -> dict[str, bytes | None]:
    return {row.key: row.value for row in store.projected(projection)}


def test_a_projection_begins_without_a_position(store: Store) -> None:
    assert store.position("p") is None
    assert contents(store) == {}


def test_rows_are_written_over_deleted_and_read_by_key(store: Store) -> None:
    store.project("p", [ProjectionRow("b", b"1"), ProjectionRow("a", b"2")], was=None, now=ONE)
    assert [row.key for row in store.projected("p")] == ["a", "b"]
    changes = [ProjectionRow("b", None), ProjectionRow("a", b"3"), ProjectionRow("é", b"4")]
    store.project("p", changes, was=ONE, now=TWO)
    assert contents(store) == {"a": b"3", "é": b"4"}
    assert list(store.projected("p", "a")) == [ProjectionRow("a", b"3")]
    assert list(store.projected("p", "b")) == []
    assert store.position("p") == TWO


def test_changes_of_one_key_are_applied_in_order(store: Store) -> None:
    changes = [ProjectionRow("a", b"1"), ProjectionRow("a", None), ProjectionRow("a", b"2")]
    store.project("p", changes, was=None, now=ONE)
    assert contents(store) == {"a": b"2"}


def test_projections_are_apart(store: Store) -> None:
    store.project("p", [ProjectionRow("a", b"1")], was=None, now=ONE)
    store.project("q", [ProjectionRow("a", b"2")], was=None, now=TWO)
    assert contents(store, "p") == {"a": b"1"}
    assert contents(store, "q") == {"a": b"2"}


@pytest.mark.parametrize("was", [None, TWO, Position(2, 10, "aa" * 32), Position(1, 10, "ab" * 32)])
def test_a_position_that_is_not_as_expected_is_busy(store: Store, was: Position | None) -> None:
    store.project("p", [ProjectionRow("a", b"1")], was=None, now=ONE)
    with pytest.raises(Busy, match="expected position"):
        store.project("p", [ProjectionRow("a", b"2")], was=was, now=TWO)
    assert (contents(store), store.position("p")) == ({"a": b"1"}, ONE)


def test_an_error_while_rows_are_made_writes_neither_rows_nor_position(store: Store) -> None:
    def rows() -> object:
        yield ProjectionRow("a", b"1")
        raise KeyError

    with pytest.raises(KeyError):
        store.project("p", rows(), was=None, now=ONE)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        store.swap_projection("p", rows(), now=ONE)  # type: ignore[arg-type]
    assert (contents(store), store.position("p")) == ({}, None)


def test_a_swap_replaces_the_whole(store: Store) -> None:
    store.project("p", [ProjectionRow("a", b"1"), ProjectionRow("b", b"2")], was=None, now=ONE)
    store.project("q", [ProjectionRow("a", b"1")], was=None, now=ONE)
    store.swap_projection("p", [ProjectionRow("b", b"3")], now=NEXT_VERSION)
    assert (contents(store), store.position("p")) == ({"b": b"3"}, NEXT_VERSION)
    assert contents(store, "q") == {"a": b"1"}


def test_a_reader_that_began_before_a_swap_finishes_with_the_old_rows(
    store: Store, store_url: str
) -> None:
    store.project("p", [ProjectionRow(key, b"old") for key in "abc"], was=None, now=ONE)
    with contextlib.closing(open_store(store_url)) as other:
        reading = other.projected("p")
        first = next(reading)
        store.swap_projection("p", [ProjectionRow("z", b"new")], now=TWO)
        assert {row.value for row in (first, *reading)} == {b"old"}


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_values_of_a_wrong_type_are_handed_out_as_what_nothing_derives(
    store: Store, store_url: str, raw: Any
) -> None:
    fit = Position(1, 5, "ab" * 32)
    store.project("p", [ProjectionRow("k", b"1")], was=None, now=fit)
    for column, value, position in (
        ("version", "x", Position(-1, 5, "ab" * 32)),
        ("version", 1.5, Position(-1, 5, "ab" * 32)),
        ("row_id", b"x", Position(1, -1, "ab" * 32)),
        ("digest", b"x", Position(1, 5, "a bytes")),
        ("digest", "cd" * 32, Position(1, 5, "cd" * 32)),
    ):
        raw.run(f"UPDATE projection_positions SET {column} = ?", value)
        with open_snapshot(store_url) as snapshot:
            assert store.position("p") == snapshot.position("p") == position
            assert snapshot.anomalies == []
        store.swap_projection("p", [ProjectionRow("k", b"1")], now=fit)
        assert store.position("p") == fit
    for column, value in (("key", b"k"), ("value", "1")):
        raw.run(f"UPDATE projection_rows SET {column} = ?", value)
        with open_snapshot(store_url) as snapshot:
            (row,) = store.projected("p")
            assert [row] == list(snapshot.projected("p"))
        assert row != ProjectionRow("k", b"1")
        assert (type(row.key), type(row.value)) == (str, bytes)
        store.swap_projection("p", [ProjectionRow("k", b"1")], now=fit)
        assert list(store.projected("p")) == [ProjectionRow("k", b"1")]
