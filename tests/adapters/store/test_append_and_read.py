"""What a store promises about appending and reading, on SQLite and on PostgreSQL."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from causebook.adapters.store.port import EvidenceRow, LedgerMoved, Row, Store
from causebook.domain.errors import IOFailure, VersionConflict

Rows = Callable[..., list[Row]]


def evidence(body: bytes, task: str = "t") -> EvidenceRow:
    salt = hashlib.sha256(b"salt" + body).digest()
    return EvidenceRow(hashlib.sha256(salt + body).hexdigest(), salt, task, body)


def test_rows_come_back_byte_for_byte(store: Store) -> None:
    every_byte = bytes(range(256))
    row = Row("task/été ☃ 𝄞", 1, "TaskOpened/2", every_byte)
    proof = EvidenceRow("ab" * 32, bytes(range(32)), "été", every_byte)
    store.append([row], [proof], ledger_version=0)
    assert store.stream("task/été ☃ 𝄞") == [row]
    assert store.evidence("ab" * 32) == proof
    assert store.evidence("cd" * 32) is None
    assert [(type(r.record), type(r.version)) for _, r in store.rows()] == [(bytes, int)]


def test_rows_are_in_the_order_of_the_appends_and_row_ids_rise(store: Store, rows: Rows) -> None:
    batches = [rows("b", 1, 3), rows("a", 1, 2), rows("b", 4, 4) + rows("a", 3, 3)]
    for batch in batches:
        store.append(batch, [], ledger_version=0)
    found = store.rows()
    assert [row for _, row in found] == [row for batch in batches for row in batch]
    ids = [row_id for row_id, _ in found]
    assert ids == sorted(set(ids))
    assert ids[0] > 0
    assert store.count() == 7


def test_rows_are_read_in_pages_that_miss_and_repeat_nothing(store: Store, rows: Rows) -> None:
    store.append(rows("a", 1, 25), [], ledger_version=0)
    pages, after = [], 0
    while page := store.rows(after=after, limit=10):
        pages.append(page)
        after = page[-1][0]
    assert [len(page) for page in pages] == [10, 10, 5]
    assert [row.version for page in pages for _, row in page] == list(range(1, 26))


def test_a_stream_is_read_after_a_version(store: Store, rows: Rows) -> None:
    store.append(rows("a", 1, 5), [], ledger_version=0)
    assert [row.version for row in store.stream("a", after=3)] == [4, 5]
    assert store.stream("a", after=5) == []
    assert store.stream("missing") == []


def test_streams_are_found_by_prefix_and_sorted_by_code_point(store: Store, rows: Rows) -> None:
    names = [
        "task/a",
        "task/B",
        "task/a-1",
        "task/é",
        "task/\U0010ffff",
        "task/\ue000",
        "task0",
        "tas",
    ]
    for name in names:
        store.append(rows(name, 1, 2), [], ledger_version=0)
    below = sorted(name for name in names if name.startswith("task/"))
    assert store.streams("task/") == below
    assert store.streams("task/\U0010ffff") == ["task/\U0010ffff"]
    assert store.streams("task/\ud7ff") == []
    assert store.streams("") == sorted(names)
    assert store.streams("%") == []


def test_an_empty_append_stores_nothing(store: Store) -> None:
    store.append([], [], ledger_version=0)
    assert (store.count(), store.rows(), store.streams("")) == (0, [], [])


def test_evidence_alone_can_be_appended(store: Store) -> None:
    store.append([], [evidence(b"prompt")], ledger_version=0)
    assert store.evidence_of("t") == [evidence(b"prompt").commitment]


def test_evidence_that_is_stored_already_is_left_as_it_is(store: Store, rows: Rows) -> None:
    first = evidence(b"prompt")
    second = EvidenceRow(first.commitment, bytes(32), "another", b"other bytes")
    store.append(rows("a", 1, 1), [first], ledger_version=0)
    store.append(rows("a", 2, 2), [second], ledger_version=0)
    assert store.evidence(first.commitment) == first
    assert store.count() == 2


def test_a_version_taken_by_another_record_is_a_conflict_that_names_it(
    store: Store, rows: Rows
) -> None:
    store.append(rows("task/a", 1, 2), [], ledger_version=0)
    with pytest.raises(VersionConflict, match=r"stream 'task/a': version 2 is taken") as caught:
        store.append(rows("task/a", 2, 3, "other"), [evidence(b"x")], ledger_version=0)
    assert "\n" not in caught.value.message
    assert store.stream("task/a") == rows("task/a", 1, 2)
    assert store.evidence_of("t") == []


def test_an_append_that_had_happened_returns(store: Store, rows: Rows) -> None:
    batch, proof = rows("a", 1, 3) + rows("b", 1, 1), evidence(b"prompt")
    store.append(batch, [proof], ledger_version=0)
    store.append(batch, [proof], ledger_version=0)
    store.append(batch[1:3], [], ledger_version=0)
    assert store.count() == 4


def test_an_append_stored_in_part_is_a_conflict(store: Store, rows: Rows) -> None:
    store.append(rows("a", 1, 2), [], ledger_version=0)
    with pytest.raises(VersionConflict, match="this record, but not all"):
        store.append(rows("a", 2, 3), [], ledger_version=0)
    assert store.count() == 2


@pytest.mark.parametrize("change", ["record", "type"])
def test_one_differing_byte_makes_it_another_record(store: Store, rows: Rows, change: str) -> None:
    (row,) = rows("a", 1, 1)
    store.append([row], [], ledger_version=0)
    other = {"stream": row.stream, "version": 1, "type": row.type, "record": row.record}
    other[change] = other[change] + (b"\0" if change == "record" else "\u200b")
    with pytest.raises(VersionConflict):
        store.append([Row(**other)], [], ledger_version=0)


def test_a_version_that_skips_is_refused(store: Store, rows: Rows) -> None:
    store.append(rows("a", 1, 2), [], ledger_version=0)
    with pytest.raises(IOFailure, match="expected version 3 next, found 4"):
        store.append(rows("a", 4, 4), [], ledger_version=0)
    with pytest.raises(IOFailure, match="expected version 1 next, found 2"):
        store.append(rows("b", 2, 2), [], ledger_version=0)
    assert store.count() == 2


@pytest.mark.parametrize("version", [0, -1])
def test_versions_begin_at_one(store: Store, rows: Rows, version: int) -> None:
    with pytest.raises(IOFailure, match="expected version 1 next"):
        store.append(rows("a", version, version), [], ledger_version=0)
    assert store.count() == 0


def test_an_error_in_the_middle_of_an_append_leaves_nothing(store: Store, rows: Rows) -> None:
    batch = [*rows("a", 1, 2), *rows("b", 1, 1), *rows("a", 5, 5)]
    with pytest.raises(IOFailure):
        store.append(batch, [evidence(b"prompt")], ledger_version=0)
    assert (store.count(), store.evidence_of("t")) == (0, [])
    store.append(rows("a", 1, 2), [evidence(b"prompt")], ledger_version=0)
    assert store.count() == 2


def test_an_error_in_the_evidence_leaves_no_row(store: Store, rows: Rows) -> None:
    broken: Any = EvidenceRow("ab" * 32, None, "t", b"body")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="refuses a row"):
        store.append(rows("a", 1, 2), [evidence(b"prompt"), broken], ledger_version=0)
    assert (store.count(), store.evidence_of("t")) == (0, [])


def test_a_key_retired_meanwhile_is_noticed_inside_the_append(store: Store, rows: Rows) -> None:
    store.append(rows("ledger", 1, 2), [], ledger_version=0)
    store.append(rows("a", 1, 1), [], ledger_version=2)
    store.append(rows("ledger", 3, 3), [], ledger_version=2)
    for known in (0, 2, 4):
        with pytest.raises(LedgerMoved):
            store.append(rows("a", 2, 2), [evidence(b"prompt")], ledger_version=known)
    assert (len(store.stream("a")), store.evidence_of("t")) == (1, [])


def test_an_append_to_the_ledger_stream_that_had_happened_returns(store: Store, rows: Rows) -> None:
    founding = rows("ledger", 1, 4)
    store.append(founding, [], ledger_version=0)
    store.append(founding, [], ledger_version=0)
    with pytest.raises(LedgerMoved):
        store.append(rows("ledger", 1, 4, "another founding"), [], ledger_version=0)
    assert store.stream("ledger") == founding


def test_the_library_cannot_append_past_the_port(store: Store, rows: Rows) -> None:
    application: Any = store._app  # type: ignore[attr-defined]
    with pytest.raises(LedgerMoved):
        application.events.put(rows("a", 1, 1))
    assert store.count() == 0


def test_a_topic_is_never_imported(store: Store) -> None:
    row = Row("a", 1, "os:system", b"{}\n")
    store.append([row], [], ledger_version=0)
    application: Any = store._app  # type: ignore[attr-defined]
    assert list(application.events.get("a")) == [row]
    assert store.stream("a") == [row]


def test_erasing_deletes_these_rows_and_no_others(store: Store, rows: Rows) -> None:
    kept, gone, also = evidence(b"1", "kept"), evidence(b"2", "gone"), evidence(b"3", "gone")
    store.append(rows("a", 1, 1), [kept, gone, also], ledger_version=0)
    assert store.evidence_of("gone") == sorted([gone.commitment, also.commitment])
    assert store.erase_evidence(store.evidence_of("gone")) == 2
    assert store.erase_evidence([gone.commitment]) == 0
    assert store.erase_evidence([]) == 0
    assert (store.evidence_of("gone"), store.evidence(kept.commitment)) == ([], kept)
    assert store.count() == 1
