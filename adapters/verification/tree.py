"""The tree of a pass over all rows: its root at each size that is asked for, and the tiles a store keeps.

Each record is one leaf, hashed when the pass comes by it. What is kept in memory is the tile at the right
edge and, of all levels above, the hashes: 32 bytes and a row id for 256 records, so that any proof can be
made afterwards. The stored tiles are read beside the rows and held against them in number, order and bytes;
they are derived, so that where they differ the rows count.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Final, Protocol

from ...domain.record import digest
from ...projections.tree import (
    HASH_BYTES,
    TILE_WIDTH,
    consistency_proof,
    leaf_hash,
    node_hash,
    root,
)
from ..findings import DIFFERS, Check
from ..store.port import ROW_ID_BYTES, TREE, TREE_VERSION, Position, Row, TileRow

_HEIGHTS: Final = range(8)
Numbered = Sequence[tuple[int, Row]]
"""(row id, row), in the order of commit."""


class TileSource(Protocol):
    """What the tree's own check reads of a ledger."""

    def tiles(self) -> Iterator[TileRow]:
        """Every tile, by level and number."""
        ...

    def position(self, projection: str) -> Position | None:
        """How far a projection has come."""
        ...


class RowSource(Protocol):
    """Where rows are read again for a proof."""

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        """(row id, row) in commit order, from the first row id above `after`."""
        ...


class LogTree:
    """The tree, row by row. `size`: rows taken in; `roots`: by size, of those of `wanted` that were reached.

    `source`: where the store's own tiles are read, to be held against the rows; `check` answers for them.
    `tree_size`: how many records they hold, known after `finish`. `foreign`: the version that made them,
    where it is not this program's: they are then not compared.
    """

    def __init__(
        self,
        wanted: Iterable[int] = (),
        *,
        source: TileSource | None = None,
        check: Check | None = None,
    ) -> None:
        self.size = 0
        self.roots: dict[int, bytes] = {}
        self.tree_size = 0
        self.foreign: int | None = None
        self._wanted = sorted(set(wanted))
        self._next_wanted = 0
        # The tile at the right edge: its leaves, and above them the nodes of each height.
        self._heights: list[list[bytes]] = [[] for _ in range(len(_HEIGHTS) + 1)]
        self._row_ids: list[int] = []
        # What stands left of that tile: the peaks of its tree, and the hashes of each level from 1 on.
        self._peaks: list[bytes] = []
        self._above: list[list[bytes]] = []
        self._before: list[int] = []
        self._last_row_id = 0
        self._stored = None
        if source is not None and check is not None:
            self._stored = _StoredTiles(source, check)
            self.foreign = self._stored.foreign

    def take(self, numbered: Numbered) -> None:
        """Take in the next rows."""
        if self._stored is not None:
            self._stored.pass_by(self.size, numbered)
        leaves = [sha256(b"\x00" + row.record).digest() for _, row in numbered]
        row_ids = [row_id for row_id, _ in numbered]
        done = 0
        while done < len(leaves):
            if not self._row_ids:
                self._before.append(self._last_row_id)
            room = TILE_WIDTH - len(self._row_ids)
            self._extend(leaves[done : done + room], row_ids[done : done + room])
            done += room

    def root(self) -> bytes:
        """The root of all rows taken in, at least one."""
        return self._root(self.size)

    def finish(self) -> None:
        """Answer what the stored tiles still hold: those of the right edge, and those of the levels above."""
        if self._stored is None:
            return
        if self._row_ids:
            self._compare_edge()
        self._stored.finish(self.size, self._above)
        self.tree_size = self._stored.leaves

    def reader(self, source: RowSource) -> TreeReader:
        """Roots and proofs of any size out of this tree; leaves are hashed from the rows again."""
        return TreeReader(self, source)

    def hashes(self, level: int, number: int) -> bytes:
        """The hashes of a tile of a level from 1 on: of what is full below it."""
        above = self._above[level - 1] if level <= len(self._above) else []
        return b"".join(above[number * TILE_WIDTH : (number + 1) * TILE_WIDTH])

    def row_before(self, number: int) -> int:
        """The id of the row before the first of that tile of level 0; 0 where there is none."""
        return self._before[number]

    def _extend(self, leaves: list[bytes], row_ids: list[int]) -> None:
        heights = self._heights
        heights[0] += leaves
        self._row_ids += row_ids
        self._last_row_id = row_ids[-1]
        for height in _HEIGHTS:
            low, high = heights[height], heights[height + 1]
            pairs = range(2 * len(high), len(low) - 1, 2)
            high += [sha256(b"\x01" + low[at] + low[at + 1]).digest() for at in pairs]
        self.size += len(leaves)
        wanted = self._wanted
        while self._next_wanted < len(wanted) and wanted[self._next_wanted] <= self.size:
            size = wanted[self._next_wanted]
            self._next_wanted += 1
            if size > 0:
                self.roots[size] = self._root(size)
        if len(self._row_ids) == TILE_WIDTH:
            self._complete()

    def _root(self, size: int) -> bytes:
        """The root at a size whose right edge lies in the tile that is open."""
        edge = size - (self.size - len(self._row_ids))
        peaks = self._peaks + [
            self._heights[height][(edge >> height) - 1]
            for height in range(len(_HEIGHTS), -1, -1)
            if edge >> height & 1
        ]
        found = peaks[-1]
        for peak in reversed(peaks[:-1]):
            found = node_hash(peak, found)
        return found

    def _complete(self) -> None:
        """Close the full tile at the right edge."""
        self._compare_edge()
        node = self._heights[-1][0]
        tiles = self.size // TILE_WIDTH
        carried = node
        while not tiles & 1:
            carried = node_hash(self._peaks.pop(), carried)
            tiles >>= 1
        self._peaks.append(carried)
        level = 0
        while True:
            if level == len(self._above):
                self._above.append([])
            hashes = self._above[level]
            hashes.append(node)
            if len(hashes) % TILE_WIDTH:
                break
            node, level = _fold(hashes[-TILE_WIDTH:]), level + 1
        self._heights = [[] for _ in range(len(_HEIGHTS) + 1)]
        self._row_ids = []

    def _compare_edge(self) -> None:
        if self._stored is not None:
            number = (self.size - 1) // TILE_WIDTH
            row_ids = struct.pack(f">{len(self._row_ids)}q", *self._row_ids)
            self._stored.compare(number, b"".join(self._heights[0]), row_ids)


@dataclass
class TreeReader:
    """What proofs are made from: the hashes of a pass, and its rows again where leaves are needed."""

    tree: LogTree
    source: RowSource
    _leaves: dict[int, bytes] = field(default_factory=dict)

    def root(self, size: int) -> bytes:
        """The root of the first `size` rows."""
        return root(self._tile, size)

    def consistency(self, old: int, new: int) -> tuple[bytes, ...]:
        """The proof that the first `new` rows grew out of the first `old`."""
        return consistency_proof(self._tile, old, new)

    def _tile(self, level: int, number: int) -> bytes:
        if level:
            return self.tree.hashes(level, number)
        if number not in self._leaves:
            rows = islice(self.source.rows(self.tree.row_before(number)), TILE_WIDTH)
            self._leaves[number] = b"".join(leaf_hash(row.record) for _, row in rows)
        return self._leaves[number]


class _StoredTiles:
    """The tiles that the store keeps, read once, beside the rows. `leaves`: how many records they hold.

    `foreign`: the version that made them, where it is another.
    """

    def __init__(self, source: TileSource, check: Check) -> None:
        self.leaves = 0
        self.foreign: int | None = None
        self._check = check
        self._tiles = source.tiles()
        self._tile = next(self._tiles, None)
        self._position = source.position(TREE)
        self._at: tuple[int, str] | None = None
        if self._position is not None and self._position.version != TREE_VERSION:
            # Made by another version: there is nothing to compare.
            self.foreign = self._position.version
            self._tiles, self._tile, self._position = iter(()), None, None

    def pass_by(self, first: int, numbered: Numbered) -> None:
        """Note the record at the tree's position, where it is among the rows from ordinal `first` on."""
        position = self._position
        if position is None or not numbered[0][0] <= position.row_id <= numbered[-1][0]:
            return
        for ordinal, (row_id, row) in enumerate(numbered, first):
            if row_id == position.row_id:
                self._at = (ordinal, digest(row.record))

    def compare(self, number: int, hashes: bytes, row_ids: bytes) -> None:
        """Hold the tile of that number, at level 0, against what the rows come to."""
        while (tile := self._tile) is not None and (tile.level, tile.number) < (0, number):
            self._stray(tile)
        if tile is None or tile.level > 0:
            return  # the tree lags: what there is of it was looked at
        if tile.number > number:
            self._find(0, number, "a tile", "none, and one after it")
            return
        first = number * TILE_WIDTH
        if self.leaves != first:
            self._find(0, number, "whole tiles before it", f"tiles of {self.leaves:,} records")
        width = len(tile.hashes) // HASH_BYTES
        if not width or len(tile.hashes) % HASH_BYTES or len(tile.row_ids) != width * ROW_ID_BYTES:
            found = f"{len(tile.hashes)} and {len(tile.row_ids)} bytes"
            self._find(0, number, "hashes of 32 bytes, and a row id for each", found)
        elif len(hashes) < len(tile.hashes) and tile.hashes.startswith(hashes):
            last = first + len(hashes) // HASH_BYTES - 1
            self._find(0, number, f"none beyond record {last}", f"up to {first + width - 1}")
        elif hashes[: len(tile.hashes)] != tile.hashes:
            place = _differing(tile.hashes, hashes, HASH_BYTES)
            self._find(0, number, f"the hash of record {first + place}", "another")
        elif row_ids[: len(tile.row_ids)] != tile.row_ids:
            place = _differing(tile.row_ids, row_ids, ROW_ID_BYTES)
            self._find(0, number, f"the row id of record {first + place}", "another")
        self.leaves = first + width
        self._tile = next(self._tiles, None)

    def finish(self, size: int, above: Sequence[Sequence[bytes]]) -> None:
        """Hold what is left against the hashes of the levels above, and the tree's position."""
        while self._tile is not None and self._tile.level < 1:
            self._stray(self._tile, f"none beyond record {size - 1}")
        expected: dict[tuple[int, int], bytes] = {}
        for level, hashes in enumerate(above, 1):
            count = self.leaves >> 8 * level
            for first in range(0, count, TILE_WIDTH):
                tile = hashes[first : min(first + TILE_WIDTH, count)]
                expected[level, first // TILE_WIDTH] = b"".join(tile)
        while self._tile is not None:
            key = (self._tile.level, self._tile.number)
            if key not in expected:
                self._stray(self._tile)
                continue
            if expected.pop(key) != self._tile.hashes:
                self._find(*key, "the hashes of the tiles below", "others")
            self._tile = next(self._tiles, None)
        for key in expected:
            self._find(*key, "a tile", "none")
        self._placed()

    def _placed(self) -> None:
        """Hold the tree's position against the last record in its tiles."""
        position = self._position
        if position is None:
            if self.leaves:
                where = f"that of record {self.leaves - 1}"
                self._check.find("the tree's position", where, "none", DIFFERS)
            return
        if self._at is None:
            found = f"row {position.row_id}, which is not there"
        elif self._at[0] != self.leaves - 1:
            found = f"record {self._at[0]}"
        elif self._at[1] != position.digest:
            found = f"that row, holding {position.digest}"
        else:
            return
        self._check.find("the tree's position", f"record {self.leaves - 1}", found, DIFFERS)

    def _stray(self, tile: TileRow, expected: str = "no such tile") -> None:
        self._find(tile.level, tile.number, expected, "one")
        self._tile = next(self._tiles, None)

    def _find(self, level: int, number: int, expected: str, found: str) -> None:
        self._check.find(f"tile {level}/{number}", expected, found, DIFFERS)


def _fold(hashes: Sequence[bytes]) -> bytes:
    while len(hashes) > 1:
        hashes = [node_hash(hashes[at], hashes[at + 1]) for at in range(0, len(hashes), 2)]
    return hashes[0]


def _differing(stored: bytes, expected: bytes, width: int) -> int:
    """The place of the first item in which two rows of items differ, or in which one ends."""
    for at in range(0, len(stored), width):
        if stored[at : at + width] != expected[at : at + width]:
            return at // width
    return len(stored) // width
