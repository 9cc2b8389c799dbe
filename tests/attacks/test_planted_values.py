"""Values that no writer stores: longer than their kind can be, or at the edge of what a column holds.

Whoever owns the store plants them past its triggers and checks. A reader notes them, in bounded memory, and
no command ends by an error of its own. Each attack has its untouched twin.
"""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from causebook.adapters.store.snapshot import open_snapshot
from tests.adapters.cli.conftest import invoke
from tests.adapters.forge import Forge
from tests.attacks.intruder import Intruder, looked_at
from tests.attacks.test_rollback_attacks import Office

RECORD_BYTES = 3_000_000
MEMORY_BYTES_MAX = 16_000_000
LEAST_ROW_ID = -(2**63)


@pytest.fixture
def office(store_url: str, tmp_path: Path) -> Office:
    return Office(store_url, tmp_path)


def peak_bytes(url: str) -> int:
    """The most that Python held while every row was read."""
    tracemalloc.start()
    try:
        with open_snapshot(url) as snapshot:
            for _ in snapshot.rows():
                pass
            snapshot.stream("ledger")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("column", ["state", "topic"])
def test_values_that_are_too_long_are_not_fetched(
    forge: Forge, intruder: Intruder, store_url: str, column: str
) -> None:
    assert peak_bytes(store_url) < MEMORY_BYTES_MAX
    value = bytes(RECORD_BYTES) if column == "state" else "x" * RECORD_BYTES
    changed = forge.rows[: 2 * MEMORY_BYTES_MAX // RECORD_BYTES]
    for row in changed:
        intruder.sql(
            f"UPDATE stored_events SET {column} = ?"
            " WHERE originator_id = ? AND originator_version = ?",
            value,
            row.stream,
            row.version,
        )
    assert peak_bytes(store_url) < MEMORY_BYTES_MAX
    report = looked_at(store_url)
    assert report.code == 28
    if column == "state":
        found = [each.found for each in report["records"].findings]
        for number in range(1, len(changed) + 1):
            said = f"row {number}: state: expected at most 61440 bytes, found {RECORD_BYTES}"
            assert said in found


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_text_with_a_nul_is_as_long_as_it_is(
    forge: Forge, intruder: Intruder, store_url: str
) -> None:
    """SQLite's `length` of a text ends at the first NUL."""
    for column in ("state", "topic", "originator_id"):
        for number in range(1, 9):
            planted = f"{number}\0{'x' * RECORD_BYTES}"
            intruder.sql(f"UPDATE stored_events SET {column} = ? WHERE rowid = ?", planted, number)
    assert peak_bytes(store_url) < MEMORY_BYTES_MAX
    assert looked_at(store_url).code == 28


def test_a_record_of_the_largest_size_is_read(intruder: Intruder, store_url: str) -> None:
    """The twin, at the edge: it is no record, and its length is not what is wrong with it."""
    intruder.overwrite("task/T-1", 1, bytes(61_440))
    found = [each.found for each in looked_at(store_url)["records"].findings]
    assert not any("at most 61440 bytes" in each for each in found)
    intruder.overwrite("task/T-1", 1, bytes(61_441))
    found = [each.found for each in looked_at(store_url)["records"].findings]
    assert any("at most 61440 bytes, found 61441" in each for each in found)


COMMANDS = (
    ("prove", "DIGEST"),
    ("export", "T-1", "--bundle", "BUNDLE"),
    ("why", "T-1"),
    ("rebuild",),
    ("seal", "--keys", "KEYS"),
    ("verify", "--no-pin"),
)

PLANTED = {
    "the-twin": "UPDATE tree_tiles SET level = level",
    "row-ids-of-a-tile": "UPDATE tree_tiles SET row_ids = ? WHERE level = 0",
    "a-position-s-row-id": "UPDATE projection_positions SET row_id = ?",
}


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_row_ids_at_the_edge_of_what_a_column_holds(
    office: Office, command: tuple[str, ...], planted: str
) -> None:
    """The row before it, which is what is asked for, is beyond that edge."""
    office.seal()
    invoke("rebuild", "--ledger", office.url)
    office.judge("T-3")
    size = office.records()
    listed = invoke("log", "T-1", "--ledger", office.url, "--json").out.splitlines()
    digest = json.loads(listed[0])["digest"]
    with Intruder(office.url) as intruder:
        values = {
            "the-twin": (),
            "row-ids-of-a-tile": (LEAST_ROW_ID.to_bytes(8, "big", signed=True) * size,),
            "a-position-s-row-id": (LEAST_ROW_ID,),
        }[planted]
        intruder.sql(PLANTED[planted], *values)
    names = {
        "DIGEST": digest,
        "KEYS": str(office.keys),
        "BUNDLE": str(office.folder / "case.zip"),
    }
    filled = [names.get(each, each) for each in command]
    done = invoke(*filled, "--ledger", office.url)
    assert done.code in ((0, 20) if planted == "the-twin" else (0, 20, 23, 28, 65)), done.err
    assert len(done.err.splitlines()) <= 2
