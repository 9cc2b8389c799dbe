"""The tree as it is read: stored tiles and hashed rows answer alike, and only what leads to the root."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.adapters.handover.sealed_log import sealed_log
from causebook.adapters.handover.tree_reading import TreeView, stored_checkpoint
from causebook.adapters.store.port import CheckpointRow, Row, TileRow
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.errors import BadData, NoInput
from causebook.domain.note import NoteKey, sign_note
from causebook.projections.tree import leaf_hash, verify_consistency, verify_inclusion
from tests.adapters.bundles import log_key_of, sealed_ledger
from tests.adapters.forge import Forge, Key, MemorySource, tiles_of, tree_root

SIZE = 700
ROWS = [Row("task/T", n, "X", f"record {n}".encode()) for n in range(1, SIZE + 1)]


def source_of(rows: list[Row], *, tiles: bool) -> MemorySource:
    """Rows that no law looks at: many, and soon made."""
    found = MemorySource(rows, {})
    if tiles:
        found.tree = tiles_of(rows)
    return found


def view_of(rows: list[Row], *, tiles: bool, size: int | None = None) -> TreeView:
    """A view below a checkpoint over the first `size` rows."""
    log = Key("log")
    size = len(rows) if size is None else size
    text = Checkpoint("o", size, tree_root([row.record for row in rows[:size]])).text
    note = sign_note(text, NoteKey("o", log.public), log.sign)
    return TreeView(source_of(rows, tiles=tiles), SignedCheckpoint.parse(note.raw))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_stored_tiles_and_hashed_rows_give_the_same_proofs_and_they_hold(
    data: st.DataObject,
) -> None:
    sealed = data.draw(st.integers(1, SIZE), "sealed")
    size = data.draw(st.integers(1, sealed), "size")
    index = data.draw(st.integers(0, size - 1), "index")
    old = data.draw(st.integers(1, size), "old")
    views = [view_of(ROWS, tiles=tiles, size=sealed) for tiles in (True, False)]
    root = tree_root([row.record for row in ROWS[:size]])
    for view in views:
        assert view.root(size) == root
        path = view.inclusion(index, size)
        verify_inclusion(index, size, leaf_hash(ROWS[index].record), path, root)
        older = tree_root([row.record for row in ROWS[:old]])
        verify_consistency(old, size, view.consistency(old, size), older, root)
        assert view.record(index) == ROWS[index]


class Gapped(MemorySource):
    """A store whose row ids leave gaps, as PostgreSQL's do."""

    def rows(self, after: int = 0):  # type: ignore[no-untyped-def]
        return ((7 * n, row) for n, row in enumerate(self.stored, 1) if 7 * n > after)


def test_an_index_is_an_ordinal_and_never_a_row_id() -> None:
    view = view_of(ROWS, tiles=False)
    view.source = Gapped(ROWS, {})
    assert [view.row_id(index) for index in (0, 1, 256, SIZE - 1)] == [7, 14, 1799, 7 * SIZE]
    assert view.record(300) == ROWS[300]


def test_tiles_that_do_not_reach_the_checkpoint_are_passed_over() -> None:
    view = view_of(ROWS, tiles=True)
    source = view.source
    assert isinstance(source, MemorySource)
    source.tree = list(tiles_of(ROWS[:500]))
    assert view.record(699) == ROWS[699]
    assert view.root() == tree_root([row.record for row in ROWS])


@pytest.mark.parametrize("at", [(0, 0), (0, 2), (1, 0)])
def test_a_tile_that_was_changed_costs_an_error_and_gives_no_proof(at: tuple[int, int]) -> None:
    view = view_of(ROWS, tiles=True)
    source = view.source
    assert isinstance(source, MemorySource)

    def turned(tile: TileRow) -> TileRow:
        raw = bytearray(tile.hashes)
        raw[0] ^= 1
        return replace(tile, hashes=bytes(raw))

    source.tree = [turned(t) if (t.level, t.number) == at else t for t in source.tree]
    index = 600 if at == (0, 2) else 0
    with pytest.raises(BadData) as error:
        view.inclusion(index)
    assert error.value.hint == "causebook verify says all that is wrong"
    assert "\n" not in error.value.message


def test_a_record_that_was_changed_is_not_handed_out() -> None:
    rows = [*ROWS]
    view = view_of(rows, tiles=True)
    rows[5] = rows[5]._replace(record=b"another")
    with pytest.raises(BadData, match="the record at index 5"):
        view.record(5)


def test_rows_that_are_gone_are_said_to_be() -> None:
    view = view_of(ROWS, tiles=False)
    view.source = source_of(ROWS[:600], tiles=False)
    with pytest.raises(BadData, match="expected 700 records, as the checkpoint counts, found 600"):
        view.root()


def test_what_a_caller_cannot_ask() -> None:
    view = view_of(ROWS[:10], tiles=True)
    for wrong in (
        lambda: view.inclusion(10),
        lambda: view.inclusion(0, 11),
        lambda: view.inclusion(0, 0),
        lambda: view.consistency(0, 5),
        lambda: view.consistency(6, 5),
        lambda: view.row_id(-1),
        lambda: view.root(11),
    ):
        with pytest.raises(ValueError, match="expected"):
            wrong()


# ── whose checkpoint it is ───────────────────────────────────────────────────────────────────────────


def test_a_ledger_is_read_as_of_the_checkpoint_of_its_own_log_key() -> None:
    forge = sealed_ledger()
    size = len(forge.rows)
    log = sealed_log(forge.source())
    assert (log.size, log.signer) == (size, log_key_of(forge))
    assert [row.record for row in log.rows()] == [row.record for row in forge.rows]
    forge.open_task("T-3")
    forge.seal()
    assert sealed_log(forge.source()).size == size + 2
    assert sealed_log(forge.source(), size).size == size
    with pytest.raises(NoInput, match="no checkpoint of size 3 is kept"):
        sealed_log(forge.source(), 3)
    with pytest.raises(NoInput, match="no checkpoint is kept"):
        stored_checkpoint(Forge().found().source())


def test_a_checkpoint_of_another_key_is_none_of_this_ledgers() -> None:
    forge = sealed_ledger()
    forge.seal(key=Key("stranger"))
    with pytest.raises(BadData, match="enrolled, found none"):
        sealed_log(forge.source())


def test_a_checkpoint_kept_under_another_size_is_damage() -> None:
    forge = sealed_ledger()
    source = forge.source()
    source.sealed = [CheckpointRow(4, forge.sealed[-1].note)]
    with pytest.raises(BadData, match="expected the checkpoint of size 4"):
        sealed_log(source)


def test_rows_that_do_not_lead_to_the_root_are_handed_to_nobody() -> None:
    forge = sealed_ledger()
    source = forge.source()
    source.tree = []
    source.stored[9] = source.stored[9]._replace(record=source.stored[8].record)
    with pytest.raises(BadData, match="the tree: expected root"):
        sealed_log(source)
