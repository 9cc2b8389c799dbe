"""Accidents that a store refuses, whichever connection they come through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from causebook.adapters.store.port import EvidenceRow, Row, Store

PROOF = EvidenceRow("ab" * 32, bytes(32), "t", b"body")

REFUSED = {
    "update a record": "UPDATE {}stored_events SET state = ? WHERE originator_version = 1",
    "move a record": "UPDATE {}stored_events SET originator_id = 'b' WHERE state = ?",
    "delete a record": "DELETE FROM {}stored_events WHERE state = ?",
    "skip a version": "INSERT INTO {}stored_events"
    " (originator_id, originator_version, topic, state) VALUES ('a', 4, 'T', ?)",
    "begin above one": "INSERT INTO {}stored_events"
    " (originator_id, originator_version, topic, state) VALUES ('b', 2, 'T', ?)",
    "repeat a version": "INSERT INTO {}stored_events"
    " (originator_id, originator_version, topic, state) VALUES ('a', 2, 'T', ?)",
    "update evidence": "UPDATE {}evidence SET body = ?",
    "delete evidence": "DELETE FROM {}evidence WHERE body = ?",
    "overwrite evidence by its commitment": "INSERT INTO {}evidence (commitment, salt, task, body)"
    f" VALUES ('{PROOF.commitment}', '', 't', ?)"
    " ON CONFLICT (commitment) DO UPDATE SET body = EXCLUDED.body",
    "store evidence again": "INSERT INTO {}evidence (commitment, salt, task, body)"
    f" VALUES ('{PROOF.commitment}', '', 't', ?)",
}
REFUSED_SQLITE = {
    "replace a record": "INSERT OR REPLACE INTO stored_events"
    " (originator_id, originator_version, topic, state) VALUES ('a', 2, 'T', ?)",
    "replace the last record by its row id": "INSERT OR REPLACE INTO stored_events VALUES"
    " (2, 'b', 1, 'T', ?)",
    "insert before the last record": "INSERT INTO stored_events VALUES (1, 'b', 1, 'T', ?)",
    "insert before the first record": "INSERT INTO stored_events VALUES (0, 'b', 1, 'T', ?)",
    "insert at a negative row id": "INSERT INTO stored_events VALUES (-1, 'b', 1, 'T', ?)",
    "replace evidence": "INSERT OR REPLACE INTO evidence VALUES"
    f" ('{PROOF.commitment}', x'00', 't', ?)",
    "replace evidence by its row id": "INSERT OR REPLACE INTO evidence"
    " (rowid, commitment, salt, task, body) VALUES (1, 'cd', x'00', 't', ?)",
    "ignore and insert": "INSERT OR FAIL INTO stored_events"
    " (originator_id, originator_version, topic, state) VALUES ('a', 2, 'T', ?)",
    "store text for a record": "INSERT INTO stored_events"
    " (originator_id, originator_version, topic, state) VALUES ('a', 3, 'T', CAST(? AS TEXT))",
    "store a float for a version": "INSERT INTO stored_events"
    " (originator_id, originator_version, topic, state) VALUES ('b', 1.5, 'T', ?)",
}
REFUSED_POSTGRES = {
    "truncate records": "TRUNCATE {}stored_events",
    "truncate everything": "TRUNCATE {}stored_events, {}evidence CASCADE",
    "truncate evidence": "TRUNCATE {}evidence",
    "insert on conflict": "INSERT INTO {}stored_events"
    " (originator_id, originator_version, topic, state) VALUES ('a', 2, 'T', 'x')"
    " ON CONFLICT (originator_id, originator_version) DO UPDATE SET state = EXCLUDED.state",
}


@pytest.fixture
def filled(store: Store, rows: Callable[..., list[Row]]) -> Store:
    store.append(rows("a", 1, 2), [PROOF], ledger_version=0)
    return store


@pytest.mark.parametrize("accident", REFUSED)
def test_a_store_refuses_to(accident: str, filled: Store, raw: Any) -> None:
    _refused(filled, raw, REFUSED[accident], b"a/1/\n" if "record" in accident else b"body")


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("recursive", ["OFF", "ON"])
@pytest.mark.parametrize("accident", REFUSED_SQLITE)
def test_a_sqlite_store_refuses_to(accident: str, recursive: str, filled: Store, raw: Any) -> None:
    raw.run(f"PRAGMA recursive_triggers = {recursive}")
    _refused(filled, raw, REFUSED_SQLITE[accident], b"x")


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("accident", REFUSED_POSTGRES)
def test_a_postgres_store_refuses_to(accident: str, filled: Store, raw: Any) -> None:
    _refused(filled, raw, REFUSED_POSTGRES[accident])


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
def test_a_row_id_cannot_be_chosen(filled: Store, raw: Any) -> None:
    import psycopg

    before = filled.rows()
    with pytest.raises(psycopg.errors.GeneratedAlways):
        raw.run(
            "INSERT INTO {}stored_events (originator_id, originator_version, topic, state,"
            " notification_id) VALUES ('b', 1, 'T', 'x', 1)"
        )
    assert filled.rows() == before


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_our_own_connections_refuse_to_replace_evidence(filled: Store) -> None:
    import sqlite3

    data: Any = filled._data  # type: ignore[attr-defined]
    with pytest.raises(sqlite3.IntegrityError), data.write() as connection:
        connection.execute(
            "INSERT OR REPLACE INTO evidence VALUES (?, x'00', 't', x'00')", ("ab" * 32,)
        )
    assert filled.evidence("ab" * 32) == PROOF


def test_evidence_that_is_stored_already_is_left_as_it_is(
    filled: Store, rows: Callable[..., list[Row]]
) -> None:
    """The twin of what is refused: two tasks may commit to the same bytes in one append, or in two."""
    other = EvidenceRow(PROOF.commitment, bytes(range(32)), "u", b"other")
    new = EvidenceRow("cd" * 32, bytes(32), "u", b"new")
    filled.append(rows("a", 3, 3), [other, new, new], ledger_version=0)
    assert filled.evidence(PROOF.commitment) == PROOF
    assert filled.evidence(new.commitment) == new


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_row_ids_survive_a_vacuum(filled: Store, raw: Any) -> None:
    before = filled.rows()
    raw.run("VACUUM")
    assert filled.rows() == before


def test_one_statement_may_insert_versions_that_follow_one_another(filled: Store, raw: Any) -> None:
    columns = "(originator_id, originator_version, topic, state)"
    raw.run(
        f"INSERT INTO {{}}stored_events {columns} VALUES ('b', 1, 'T', ?), ('b', 2, 'T', ?)",
        b"1",
        b"2",
    )
    assert [row.version for row in filled.stream("b")] == [1, 2]


def _refused(store: Store, raw: Any, statement: str, *values: object) -> None:
    before = (store.rows(), store.evidence(PROOF.commitment))
    with pytest.raises(raw.errors):
        raw.run(statement, *values)
    assert (store.rows(), store.evidence(PROOF.commitment)) == before
