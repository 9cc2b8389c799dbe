"""The tree as whoever reads a ledger sees it: roots and proofs, each held against a checkpoint first.

`TreeView` reads the stored tiles where they reach as far as the checkpoint, and else hashes the rows. Tiles
are no authority: nothing of them is handed out that does not lead to the checkpoint's root, so a store whose
tiles were tampered with costs an error, never a wrong proof. Whether the checkpoint is the log's is asked in
adapters/handover/sealed_log.py.

A leaf's index is the ordinal of its record in the order of commit, from 0; a row id is the store's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from ...domain.checkpoint import SignedCheckpoint
from ...domain.errors import BadData, NoInput
from ...domain.note import NoteError, NoteKey
from ...domain.proof import ProofError
from ...projections import tree
from ...projections.tree import HASH_BYTES, TILE_WIDTH, leaf_hash
from ..sealing.cosigned import with_cosignatures
from ..store.port import ROW_ID_BYTES, CheckpointRow, Row, TileRow

_HINT: Final = "causebook verify says all that is wrong"
_ROWS_AT_ONCE: Final = 16_384


class TreeSource(Protocol):
    """What a tree is read from: a snapshot of a ledger."""

    @property
    def location(self) -> str:
        """Where it is, as it may be shown to anybody."""
        ...

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        """(row id, row) in commit order, from the first row id above `after`."""
        ...

    def tile(self, level: int, number: int) -> TileRow | None:
        """A stored tile."""
        ...

    def checkpoint(self, size: int | None = None) -> CheckpointRow | None:
        """The stored checkpoint of that size; without one, the newest."""
        ...


def stored_checkpoint(
    source: TreeSource, size: int | None = None, first: Sequence[NoteKey] = ()
) -> SignedCheckpoint:
    """The checkpoint of that size, else the newest, with the cosignatures kept beside it.

    A note takes so many and no more: those of the keys `first` come before others. Whether a signature holds
    is not asked here. Raises `NoInput` where there is none, `BadData` where what is stored is none.
    """
    row = source.checkpoint(size)
    if row is None:
        which = "checkpoint" if size is None else f"checkpoint of size {size}"
        raise NoInput(f"{source.location}: no {which} is kept", hint="causebook seal makes one")
    try:
        found = with_cosignatures(row.note, row.cosignatures, first)
    except NoteError as error:
        raise BadData(f"{source.location}: {error.message}", hint=_HINT) from None
    if found.checkpoint.size != row.size:
        raise BadData(
            f"{source.location}: expected the checkpoint of size {row.size}, "
            f"found that of size {found.checkpoint.size}",
            hint=_HINT,
        )
    return found


@dataclass
class TreeView:
    """The tree below one checkpoint: that of a snapshot, which stays open meanwhile.

    Every method raises `BadData` where what is stored does not lead to the checkpoint's root, and what the
    source raises. Memory: the tiles looked at; 32 bytes a record where rows have to be hashed.
    """

    source: TreeSource
    checkpoint: SignedCheckpoint
    _tiles: dict[tuple[int, int], bytes] = field(default_factory=dict, repr=False)
    _row_ids: dict[int, bytes] = field(default_factory=dict, repr=False)
    _hashed: bool = False
    _root: bytes = b""

    @property
    def size(self) -> int:
        """How many records the checkpoint counts."""
        return self.checkpoint.checkpoint.size

    def root(self, size: int | None = None) -> bytes:
        """The root of the first `size` records, at most the checkpoint's."""
        if size is None or size == self.size:
            return self._sealed_root()
        self.consistency(size, self.size)
        return tree.root(self._tile, size)

    def inclusion(self, index: int, size: int | None = None) -> tuple[bytes, ...]:
        """The path from the record at `index` to the root of the first `size` records."""
        size = self.size if size is None else size
        _require(1 <= size <= self.size, f"a size from 1 to {self.size}", size)
        _require(0 <= index < size, f"an index below {size}", index)
        root, leaf = self.root(size), self.leaf(index)
        with self._holding():
            path = tree.inclusion_proof(self._tile, index, size)
            tree.verify_inclusion(index, size, leaf, path, root)
        return path

    def consistency(self, old_size: int, new_size: int | None = None) -> tuple[bytes, ...]:
        """The proof that the first `old_size` records begin the first `new_size`."""
        new_size = self.size if new_size is None else new_size
        _require(1 <= new_size <= self.size, f"a size from 1 to {self.size}", new_size)
        _require(1 <= old_size <= new_size, f"an old size from 1 to {new_size}", old_size)
        new_root = self.root(new_size)
        with self._holding():
            path = tree.consistency_proof(self._tile, old_size, new_size)
            old_root = tree.root(self._tile, old_size)
            tree.verify_consistency(old_size, new_size, path, old_root, new_root)
        return path

    def leaf(self, index: int) -> bytes:
        """The leaf at `index`, as the tiles have it: it leads to the root where `inclusion` says so."""
        _require(0 <= index < self.size, f"an index below {self.size}", index)
        number, place = divmod(index, TILE_WIDTH)
        return self._tile(0, number)[place * HASH_BYTES : (place + 1) * HASH_BYTES]

    def row_id(self, index: int) -> int:
        """The store's id of the row whose record stands at `index`."""
        number, place = divmod(index, TILE_WIDTH)
        _require(0 <= index < self.size, f"an index below {self.size}", index)
        self._tile(0, number)
        return _row_id(self._row_ids[number], place)

    def record(self, index: int) -> Row:
        """The row whose record stands at `index`: its bytes are those of the leaf."""
        wanted = self.row_id(index)
        found, row = next(self.source.rows(wanted - 1), (None, None))
        if row is None or found != wanted or leaf_hash(row.record) != self.leaf(index):
            raise self._bad(f"the record at index {index}", "another, or none")
        return row

    # ── tiles ────────────────────────────────────────────────────────────────────────────────────────

    def _sealed_root(self) -> bytes:
        if not self._root:
            with self._holding():
                found = tree.root(self._tile, self.size)
            expected = self.checkpoint.checkpoint.root
            if found != expected:
                raise self._bad(f"root {expected.hex()} at size {self.size}", found.hex())
            self._root = found
        return self._root

    def _tile(self, level: int, number: int) -> bytes:
        known = self._tiles.get((level, number))
        if known is not None:
            return known
        width = self._width(level, number)
        if not self._hashed:
            stored = self.source.tile(level, number)
            if stored is not None and _reaches(stored, width):
                self._tiles[level, number] = stored.hashes[: width * HASH_BYTES]
                if level == 0:
                    self._row_ids[number] = stored.row_ids[: width * ROW_ID_BYTES]
                return self._tiles[level, number]
            self._hash_rows()
        return self._tiles.get((level, number), b"")

    def _width(self, level: int, number: int) -> int:
        """How many hashes the tile has in the tree of the checkpoint's size."""
        at_level = self.size >> (8 * level)
        return max(0, min(TILE_WIDTH, at_level - number * TILE_WIDTH))

    def _hash_rows(self) -> None:
        """Make every tile from the rows, in place of those that are stored."""
        self._hashed = True
        self._tiles.clear()
        self._row_ids.clear()
        row_ids = bytearray()
        rows, done = self.source.rows(), 0
        while done < self.size:
            some = list(islice(rows, min(_ROWS_AT_ONCE, self.size - done)))
            if not some:
                raise self._bad(f"{self.size} records, as the checkpoint counts", str(done))
            leaves = [leaf_hash(row.record) for _, row in some]
            self._tiles.update(tree.grow(lambda *at: self._tiles.get(at, b""), done, leaves))
            row_ids += b"".join(
                number.to_bytes(ROW_ID_BYTES, "big", signed=True) for number, _ in some
            )
            done += len(some)
        step = TILE_WIDTH * ROW_ID_BYTES
        for at in range(0, len(row_ids), step):
            self._row_ids[at // step] = bytes(row_ids[at : at + step])

    # ── what does not hold ───────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _holding(self) -> Iterator[None]:
        """Turn what the pure code finds wrong with the tiles into an error that names the store."""
        try:
            yield
        except ProofError as error:
            raise BadData(f"{self.source.location}: {error.message}", hint=_HINT) from None

    def _bad(self, expected: str, found: str) -> BadData:
        return BadData(
            f"{self.source.location}, the tree: expected {expected}, found {found}", hint=_HINT
        )


def _require(holds: bool, expected: str, found: int) -> None:
    """A caller's own mistake, where it does not hold."""
    if not holds:
        raise ValueError(f"expected {expected}, found {found}")


def _row_id(packed: bytes, place: int) -> int:
    at = place * ROW_ID_BYTES
    return int.from_bytes(packed[at : at + ROW_ID_BYTES], "big", signed=True)


def _reaches(stored: TileRow, width: int) -> bool:
    """Whether a stored tile holds as many hashes, and row ids, as the checkpoint's size calls for."""
    ids = len(stored.row_ids) >= width * ROW_ID_BYTES
    return len(stored.hashes) >= width * HASH_BYTES and (stored.level > 0 or ids)
