"""The tree, its position and its checkpoints: written together, kept for ever, read back as they were."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from causebook.adapters.store.port import TREE, CheckpointRow, Position, Store, TileRow
from causebook.adapters.store.snapshot import open_snapshot
from causebook.adapters.store.url import found, open_store
from causebook.domain.errors import BadData, Busy
from tests.memory_store import MemoryStore

ONE = Position(1, 10, "aa" * 32)
TWO = Position(1, 20, "bb" * 32)
NOTE = b"origin\n2\nroot\n\n\xe2\x80\x94 origin AAAA\n"
LINE, OTHER_LINE = "— w1 AAAA\n".encode(), "— w2 AAAA\n".encode()
TOKEN = bytes(range(256)) * 40
"""Longer than an index of PostgreSQL takes."""


def tile(level: int, number: int, width: int, mark: int = 1) -> TileRow:
    row_ids = b"" if level else b"".join(n.to_bytes(8, "big", signed=True) for n in range(width))
    return TileRow(level, number, bytes([mark]) * 32 * width, row_ids)


@pytest.fixture(params=["sqlite", "postgresql", "memory"])
def any_store(request: pytest.FixtureRequest) -> Any:
    """The real stores, and the fake that stands for them elsewhere: one protocol."""
    if request.param == "memory":
        yield MemoryStore()
        return
    if request.param == "sqlite":
        url = f"sqlite:///{request.getfixturevalue('tmp_path') / 'ledger.db'}"
    else:
        url = request.getfixturevalue("postgres_database")
    with contextlib.closing(found(url)) as made:
        yield made


def test_a_store_begins_without_a_tree(any_store: Store) -> None:
    assert any_store.tile(0, 0) is None
    assert any_store.tree_size() == 0
    assert any_store.position(TREE) is None
    assert any_store.checkpoint() is None
    assert any_store.checkpoint(1) is None
    assert any_store.checkpoints() == []


def test_tiles_position_and_checkpoint_go_in_together(any_store: Store) -> None:
    any_store.seal([tile(0, 0, 2)], was=None, now=ONE, checkpoint=(2, NOTE))
    assert any_store.tile(0, 0) == tile(0, 0, 2)
    assert any_store.tile(0, 1) is None
    assert any_store.tile(1, 0) is None
    assert any_store.position(TREE) == ONE
    assert any_store.checkpoint() == any_store.checkpoint(2) == CheckpointRow(2, NOTE)
    assert any_store.checkpoint(3) is None


def test_a_tile_is_written_over_and_the_size_follows(any_store: Store) -> None:
    any_store.seal([tile(0, 0, 256), tile(0, 1, 3), tile(1, 0, 1)], was=None, now=ONE)
    assert any_store.tree_size() == 259
    any_store.seal([tile(0, 1, 7, mark=2)], was=ONE, now=TWO)
    assert any_store.tile(0, 1) == tile(0, 1, 7, mark=2)
    assert any_store.tile(1, 0) == tile(1, 0, 1)
    assert any_store.tree_size() == 263
    assert any_store.checkpoints() == []


@pytest.mark.parametrize("was", [None, TWO, Position(2, 10, "aa" * 32), Position(1, 10, "ab" * 32)])
def test_a_tree_that_is_not_as_expected_is_busy_and_nothing_is_written(
    any_store: Store, was: Position | None
) -> None:
    any_store.seal([tile(0, 0, 1)], was=None, now=ONE)
    with pytest.raises(Busy, match="expected position"):
        any_store.seal([tile(0, 0, 2)], was=was, now=TWO, checkpoint=(2, NOTE))
    assert any_store.position(TREE) == ONE
    assert any_store.tile(0, 0) == tile(0, 0, 1)
    assert any_store.checkpoints() == []


@pytest.mark.parametrize(("size", "note"), [(4, b"another"), (3, b"smaller"), (3, NOTE)])
def test_a_size_is_sealed_once_and_the_log_only_grows(
    any_store: Store, size: int, note: bytes
) -> None:
    any_store.seal([tile(0, 0, 4)], was=None, now=ONE, checkpoint=(4, NOTE))
    with pytest.raises(Busy, match="another checkpoint"):
        any_store.seal([tile(0, 0, 5)], was=ONE, now=TWO, checkpoint=(size, note))
    assert any_store.checkpoints() == [CheckpointRow(4, NOTE)]
    assert (any_store.position(TREE), any_store.tile(0, 0)) == (ONE, tile(0, 0, 4))


def test_the_very_same_checkpoint_may_be_stored_again(any_store: Store) -> None:
    """The twin: what was stored and not acknowledged."""
    any_store.seal([tile(0, 0, 2)], was=None, now=ONE, checkpoint=(2, NOTE))
    any_store.seal([tile(0, 0, 3)], was=ONE, now=TWO, checkpoint=(3, b"more"))
    any_store.seal([], was=TWO, now=TWO, checkpoint=(2, NOTE))
    assert [row.size for row in any_store.checkpoints()] == [2, 3]
    assert any_store.checkpoint() == CheckpointRow(3, b"more")


def test_additions_are_kept_once_and_in_order(any_store: Store) -> None:
    any_store.seal([], was=None, now=ONE, checkpoint=(2, NOTE))
    any_store.seal([], was=ONE, now=TWO, checkpoint=(3, b"more"))
    any_store.add_to_checkpoint(2, "cosignature", OTHER_LINE)
    any_store.add_to_checkpoint(2, "timestamp", TOKEN)
    any_store.add_to_checkpoint(2, "cosignature", LINE)
    any_store.add_to_checkpoint(2, "cosignature", LINE)
    expected = CheckpointRow(2, NOTE, (LINE, OTHER_LINE), (TOKEN,))
    assert any_store.checkpoint(2) == expected
    assert any_store.checkpoints() == [expected, CheckpointRow(3, b"more")]


def test_a_dropped_tree_leaves_the_checkpoints(any_store: Store) -> None:
    any_store.seal([tile(0, 0, 2), tile(1, 0, 1)], was=None, now=ONE, checkpoint=(2, NOTE))
    any_store.drop_tree()
    assert any_store.tile(0, 0) is any_store.tile(1, 0) is any_store.position(TREE) is None
    assert any_store.tree_size() == 0
    assert any_store.checkpoints() == [CheckpointRow(2, NOTE)]
    any_store.seal([tile(0, 0, 1)], was=None, now=ONE)
    assert any_store.tree_size() == 1


def test_the_right_to_write_the_tree_is_held_by_one(any_store: Store) -> None:
    with any_store.projector(TREE), pytest.raises(Busy), any_store.projector(TREE):
        pass
    with any_store.projector(TREE):
        pass


def test_an_error_while_tiles_are_made_writes_nothing(store: Store) -> None:
    def tiles() -> Any:
        yield tile(0, 0, 1)
        raise KeyError

    with pytest.raises(KeyError):
        store.seal(tiles(), was=None, now=ONE, checkpoint=(1, NOTE))
    assert (store.tile(0, 0), store.position(TREE), store.checkpoints()) == (None, None, [])


@pytest.mark.parametrize("live", [False, True])
def test_a_snapshot_has_the_tree_that_the_store_has(
    store: Store, store_url: str, live: bool
) -> None:
    tiles = [tile(0, 0, 256), tile(0, 1, 3), tile(1, 0, 1)]
    store.seal(tiles, was=None, now=ONE, checkpoint=(259, NOTE))
    store.seal([], was=ONE, now=TWO, checkpoint=(260, b"more"))
    for line in (OTHER_LINE, LINE):
        store.add_to_checkpoint(259, "cosignature", line)
    store.add_to_checkpoint(259, "timestamp", TOKEN)
    with open_snapshot(store_url, live=live) as snapshot:
        store.seal([tile(0, 1, 4)], was=TWO, now=ONE, checkpoint=(261, b"later"))
        assert list(snapshot.tiles()) == tiles
        assert snapshot.tile(0, 1) == tile(0, 1, 3)
        assert snapshot.tile(2, 0) is None
        assert snapshot.tree_size() == 259
        assert snapshot.position(TREE) == TWO
        sealed = CheckpointRow(259, NOTE, (LINE, OTHER_LINE), (TOKEN,))
        assert snapshot.checkpoints() == [sealed, CheckpointRow(260, b"more")]
        assert snapshot.checkpoint(259) == sealed
        assert snapshot.checkpoint() == CheckpointRow(260, b"more")
        assert snapshot.checkpoint(7) is None
        assert snapshot.anomalies == []


# ── what is refused, whichever connection it comes through ───────────────────────────────────────────

REFUSED = {
    "change a checkpoint": "UPDATE {}checkpoints SET note = ? WHERE size = 5",
    "move a checkpoint": "UPDATE {}checkpoints SET size = 9 WHERE note = ?",
    "delete a checkpoint": "DELETE FROM {}checkpoints WHERE note = ?",
    "seal a size twice": "INSERT INTO {}checkpoints (size, note) VALUES (5, ?)",
    "seal a smaller size": "INSERT INTO {}checkpoints (size, note) VALUES (4, ?)",
    "seal nothing": "INSERT INTO {}checkpoints (size, note) VALUES (0, ?)",
    "overwrite a checkpoint": "INSERT INTO {}checkpoints (size, note) VALUES (5, ?)"
    " ON CONFLICT (size) DO UPDATE SET note = EXCLUDED.note",
    "change an addition": "UPDATE {}checkpoint_additions SET body = ?",
    "delete an addition": "DELETE FROM {}checkpoint_additions WHERE body <> ?",
    "add twice": f"INSERT INTO {{}}checkpoint_additions VALUES (5, 'cosignature', '{LINE.decode()}')",
    "add to no checkpoint": "INSERT INTO {}checkpoint_additions VALUES (6, 'cosignature', ?)",
    "add what is neither": "INSERT INTO {}checkpoint_additions VALUES (5, 'remark', ?)",
}
REFUSED_SQLITE = {
    "replace a checkpoint": "INSERT OR REPLACE INTO checkpoints VALUES (5, ?)",
    "replace a checkpoint by its row id": "INSERT OR REPLACE INTO checkpoints (rowid, note) VALUES (5, ?)",
    "replace an addition": "REPLACE INTO checkpoint_additions SELECT size, kind, body FROM"
    " checkpoint_additions WHERE body <> ?",
    "store text for a note": "INSERT INTO checkpoints VALUES (6, CAST(? AS TEXT))",
    "store text for an addition": "INSERT INTO checkpoint_additions VALUES"
    " (5, 'timestamp', CAST(? AS TEXT))",
}
REFUSED_POSTGRES = {
    "truncate checkpoints": "TRUNCATE {}checkpoints CASCADE",
    "truncate additions": "TRUNCATE {}checkpoint_additions",
}


@pytest.fixture
def sealed(store: Store) -> Store:
    store.seal([tile(0, 0, 5)], was=None, now=ONE, checkpoint=(5, NOTE))
    store.add_to_checkpoint(5, "cosignature", LINE)
    return store


@pytest.mark.parametrize("accident", REFUSED)
def test_a_store_refuses_to(accident: str, sealed: Store, raw: Any) -> None:
    values = [NOTE] if "?" in REFUSED[accident] else []
    statement = REFUSED[accident]
    if raw.is_sqlite:
        statement = statement.replace(f"'{LINE.decode()}'", f"x'{LINE.hex()}'")
    else:
        statement = statement.replace(f"'{LINE.decode()}'", f"'\\x{LINE.hex()}'")
    _refused(sealed, raw, statement, *values)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("recursive", ["OFF", "ON"])
@pytest.mark.parametrize("accident", REFUSED_SQLITE)
def test_a_sqlite_store_refuses_to(accident: str, recursive: str, sealed: Store, raw: Any) -> None:
    raw.run(f"PRAGMA recursive_triggers = {recursive}")
    _refused(sealed, raw, REFUSED_SQLITE[accident], NOTE)


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("accident", REFUSED_POSTGRES)
def test_a_postgres_store_refuses_to(accident: str, sealed: Store, raw: Any) -> None:
    _refused(sealed, raw, REFUSED_POSTGRES[accident])


def test_the_twin_of_every_accident_is_taken(sealed: Store, raw: Any) -> None:
    raw.run("INSERT INTO {}checkpoints (size, note) VALUES (6, ?)", b"six")
    raw.run("INSERT INTO {}checkpoint_additions VALUES (6, 'timestamp', ?)", TOKEN)
    raw.run("UPDATE {}tree_tiles SET hashes = ?", bytes(32))
    assert sealed.checkpoint() == CheckpointRow(6, b"six", (), (TOKEN,))
    assert sealed.tree_size() == 1


def _refused(store: Store, raw: Any, statement: str, *values: object) -> None:
    before = store.checkpoints()
    with pytest.raises(raw.errors):
        raw.run(statement, *values)
    assert store.checkpoints() == before == [CheckpointRow(5, NOTE, (LINE,))]


# ── values of a wrong type, which only somebody who turned the checks off can store ──────────────────


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_tile_of_a_wrong_type_is_one_that_no_record_leads_to(
    sealed: Store, store_url: str, raw: Any
) -> None:
    raw.run("UPDATE tree_tiles SET hashes = 'text', row_ids = 7")
    assert sealed.tile(0, 0) == TileRow(0, 0, b"", b"")
    with open_snapshot(store_url, live=True) as snapshot:
        assert snapshot.tile(0, 0) == TileRow(0, 0, b"text", b"7")
        assert [line.partition(":")[0] for line in snapshot.anomalies] == ["tile 0/0"] * 2


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_checkpoint_of_a_wrong_type_is_an_error_to_write_on_and_an_anomaly_to_read(
    sealed: Store, store_url: str, raw: Any
) -> None:
    raw.run("DROP TRIGGER checkpoints_update")
    raw.run("PRAGMA ignore_check_constraints = ON")
    raw.run("UPDATE checkpoints SET note = 'text'")
    with pytest.raises(BadData, match="checkpoint 5: expected bytes"):
        sealed.checkpoint()
    with open_snapshot(store_url, live=True) as snapshot:
        assert snapshot.checkpoint() == CheckpointRow(5, b"text", (LINE,))
        assert "checkpoint 5: note: expected bytes, found str" in snapshot.anomalies


def test_what_is_too_long_is_not_fetched(sealed: Store, store_url: str, raw: Any) -> None:
    raw.run("UPDATE {}tree_tiles SET hashes = ?", bytes(256 * 32 + 1))
    raw.run("INSERT INTO {}checkpoints (size, note) VALUES (6, ?)", bytes(2**16 + 1))
    with open_snapshot(store_url, live=True) as snapshot:
        assert snapshot.tile(0, 0) == TileRow(0, 0, b"", tile(0, 0, 5).row_ids)
        assert snapshot.checkpoint() == CheckpointRow(6, b"")
        assert len(snapshot.anomalies) == 2


def test_additions_without_end_are_read_to_an_end(sealed: Store, store_url: str, raw: Any) -> None:
    for number in range(1100):
        raw.run("INSERT INTO {}checkpoint_additions VALUES (5, 'timestamp', ?)", b"%d" % number)
    with open_snapshot(store_url, live=True) as snapshot:
        (row,) = snapshot.checkpoints()
        assert (len(row.cosignatures), len(row.timestamps)) == (1, 999)
        assert snapshot.anomalies == []  # how many there are is no finding


def test_another_connection_sees_what_was_sealed(sealed: Store, store_url: str) -> None:
    with contextlib.closing(open_store(store_url)) as other:
        assert other.checkpoint() == sealed.checkpoint()
        assert other.tile(0, 0) == sealed.tile(0, 0)
