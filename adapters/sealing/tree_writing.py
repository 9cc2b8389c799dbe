"""The tree of a store, kept: grown from where it stands, held against the records, made anew.

The tree is a projection: its tiles follow from the records alone, and may be dropped at any time. Its
position is the last record that it has taken in. Whoever writes it holds `store.projector(TREE)`.

A page of records goes in in one transaction; so a tree that is behind is taken up where it was left. Memory
holds one page and the partial tiles at the right edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.note import NoteError
from ...domain.record import digest
from ...projections.tree import HASH_BYTES, TILE_WIDTH, Tiles, grow, leaf_hash, root
from ..projector import DIFFERENCES_MAX, Difference
from ..store.port import (
    ROW_ID_BYTES,
    TREE,
    TREE_VERSION,
    CheckpointRow,
    Position,
    Row,
    Store,
    TileRow,
)

PAGE_RECORDS: Final = 16 * TILE_WIDTH
"""At most 61,440 bytes each."""
_IDS: Final = TILE_WIDTH * ROW_ID_BYTES


def packed_row_id(row_id: int) -> bytes:
    """A row id as a tile of level 0 keeps it."""
    return row_id.to_bytes(ROW_ID_BYTES, "big", signed=True)


class Edge:
    """The right edge of a tree: all that is needed of it to grow.

    Begins as an empty tree, or as one of `size` leaves whose partial tiles `tiles` reads; `row_ids` are those
    of its partial tile of level 0.
    """

    def __init__(
        self, size: int = 0, tiles: Tiles = lambda level, number: b"", row_ids: bytes = b""
    ) -> None:
        self.size = size
        self._tiles = tiles
        self._row_ids = row_ids[: size % TILE_WIDTH * ROW_ID_BYTES]
        self._partial: dict[tuple[int, int], bytes] = {}

    def add(self, page: Sequence[tuple[int, Row]]) -> list[TileRow]:
        """Take in the records that come next; the tiles that changed, each whole."""
        first = self.size // TILE_WIDTH
        changed = grow(self._tile, self.size, [leaf_hash(row.record) for _, row in page])
        row_ids = self._row_ids + b"".join(packed_row_id(row_id) for row_id, _ in page)
        tiles = []
        for (level, number), hashes in changed.items():
            at = (number - first) * _IDS
            tiles.append(TileRow(level, number, hashes, b"" if level else row_ids[at : at + _IDS]))
            if len(hashes) < TILE_WIDTH * HASH_BYTES:
                self._partial[level, number] = hashes
            else:
                self._partial.pop((level, number), None)
        self.size += len(page)
        self._row_ids = row_ids[(self.size // TILE_WIDTH - first) * _IDS :]
        return tiles

    def partial(self) -> list[TileRow]:
        """The tiles that are not full, of those that were grown here."""
        return [
            TileRow(level, number, hashes, b"" if level else self._row_ids)
            for (level, number), hashes in self._partial.items()
        ]

    def grown(self, level: int, number: int) -> bytes | None:
        """The hashes of a partial tile that was grown here; None for any other."""
        return self._partial.get((level, number))

    def _tile(self, level: int, number: int) -> bytes:
        kept = self.grown(level, number)
        return self._tiles(level, number) if kept is None else kept


def tiles_of(pages: Iterable[Sequence[tuple[int, Row]]]) -> Iterator[TileRow]:
    """Every tile of the tree over these records, each once, as soon as it cannot change any more."""
    edge = Edge()
    for page in pages:
        full = TILE_WIDTH * HASH_BYTES
        yield from (tile for tile in edge.add(page) if len(tile.hashes) == full)
    yield from edge.partial()


def stored_tile(store: Store, level: int, number: int) -> bytes:
    """The hashes of a stored tile; none where it is not there."""
    tile = store.tile(level, number)
    return b"" if tile is None else tile.hashes


def row_id_at(store: Store, index: int) -> int | None:
    """The row id that the stored tree has for a leaf; None where it does not reach so far."""
    number, place = divmod(index, TILE_WIDTH)
    tile = store.tile(0, number)
    found = b"" if tile is None else tile.row_ids[place * ROW_ID_BYTES :][:ROW_ID_BYTES]
    return int.from_bytes(found, "big", signed=True) if len(found) == ROW_ID_BYTES else None


def row_at(store: Store, row_id: int) -> Row | None:
    """The row of that id."""
    found = store.rows(after=row_id - 1, limit=1)
    return found[0][1] if found and found[0][0] == row_id else None


def fits(store: Store, position: Position, size: int) -> bool:
    """Whether the stored tree, of `size` leaves, ends with the record that its position names."""
    row = row_at(store, position.row_id)
    return (
        position.version == TREE_VERSION
        and size > 0
        and row is not None
        and digest(row.record) == position.digest
        and row_id_at(store, size - 1) == position.row_id
    )


@dataclass
class Growth:
    """A stored tree while it grows: the first `size` leaves of what is stored, and what was added since.

    What was added is written by `write`, a page at most being held back. `position` is what is stored.
    """

    store: Store
    position: Position | None
    row_id: int
    edge: Edge
    page_records: int = PAGE_RECORDS
    _last: bytes = b""
    _pending: dict[tuple[int, int], TileRow] = field(default_factory=dict)

    @classmethod
    def after(
        cls,
        store: Store,
        position: Position | None,
        size: int,
        *,
        page_records: int = PAGE_RECORDS,
    ) -> Growth:
        """Begin after the first `size` leaves of the stored tree; later ones are grown anew."""
        if size == 0:
            return cls(store, position, 0, Edge(), page_records)
        row_id = row_id_at(store, size - 1)
        if row_id is None:
            raise ValueError("the stored tree does not reach so far")
        tile = store.tile(0, size // TILE_WIDTH)
        row_ids = b"" if tile is None else tile.row_ids
        edge = Edge(size, lambda level, number: stored_tile(store, level, number), row_ids)
        return cls(store, position, row_id, edge, page_records)

    @classmethod
    def anew(cls, store: Store, *, page_records: int = PAGE_RECORDS) -> Growth:
        """Drop the stored tree, and begin with nothing."""
        store.drop_tree()
        return cls.after(store, None, 0, page_records=page_records)

    @property
    def size(self) -> int:
        """How many leaves it has, those that are not written yet included."""
        return self.edge.size

    def tile(self, level: int, number: int) -> bytes:
        """The hashes of a tile: as added here, so far as that is at hand, else as stored. A `Tiles`."""
        pending = self._pending.get((level, number))
        kept = self.edge.grown(level, number) if pending is None else pending.hashes
        return stored_tile(self.store, level, number) if kept is None else kept

    def pages(self) -> Iterator[list[tuple[int, Row]]]:
        """The records after those taken in, a page at a time: `add` each before the next is asked for."""
        while page := self.store.rows(after=self.row_id, limit=self.page_records):
            yield page
            if len(page) < self.page_records:
                return

    def add(self, page: Sequence[tuple[int, Row]]) -> None:
        """Take a page in; one that was held back is written first."""
        if self._pending:
            self.write()
        for tile in self.edge.add(page):
            self._pending[tile.level, tile.number] = tile
        self.row_id, row = page[-1]
        self._last = row.record

    def write(self, checkpoint: tuple[int, bytes] | None = None) -> None:
        """Write what was held back, and a checkpoint where one is given, in one transaction.

        Raises `Busy` where another has written to the tree meanwhile.
        """
        now = self.position
        if self._last:
            now = Position(TREE_VERSION, self.row_id, digest(self._last))
        if now is None or (now == self.position and checkpoint is None and not self._pending):
            return
        self.store.seal(self._pending.values(), was=self.position, now=now, checkpoint=checkpoint)
        self.position = now
        self._pending = {}


def differences(store: Store) -> list[Difference]:
    """Where the stored tiles are not those of the records, as of the tree's own position. Writes nothing."""
    position, size = store.position(TREE), store.tree_size()
    if position is None:
        return [] if size == 0 else [Difference(TREE, "", "no tiles without a position", f"{size}")]
    row = row_at(store, position.row_id)
    if position.version == TREE_VERSION and (row is None or digest(row.record) != position.digest):
        found = "no record" if row is None else digest(row.record)
        place = f"record {position.digest} at row {position.row_id}, its position"
        return [Difference(TREE, "", place, found)]
    if position.version != TREE_VERSION:
        return []  # made by another version: there is nothing to compare
    told: list[Difference] = []
    made, leaves, beyond = Growth(store, None, 0, Edge()), 0, 0
    for tile in tiles_of(_until(made, position.row_id)):
        stored = store.tile(tile.level, tile.number)
        leaves += len(tile.hashes) // HASH_BYTES if tile.level == 0 else 0
        if stored != tile and len(told) < DIFFERENCES_MAX:
            told.append(_difference(tile, stored))
        elif stored != tile:
            beyond += 1
    if beyond:
        told.append(Difference(TREE, "", "no more differences", f"{beyond} more tiles that differ"))
    if leaves != size:
        told.append(Difference(TREE, "", f"{leaves} leaves", f"{size}"))
    return told


def _until(reading: Growth, row_id: int) -> Iterator[list[tuple[int, Row]]]:
    for page in reading.pages():
        reading.row_id = page[-1][0]
        yield [(number, row) for number, row in page if number <= row_id]
        if reading.row_id >= row_id:
            return


def _difference(tile: TileRow, stored: TileRow | None) -> Difference:
    place = f"{tile.level}/{tile.number}"
    width = len(tile.hashes) // HASH_BYTES
    if stored is None:
        return Difference(TREE, place, f"a tile of {width} hashes", "none")
    if stored.hashes != tile.hashes:
        where = next(
            (
                at // HASH_BYTES
                for at in range(0, len(tile.hashes), HASH_BYTES)
                if stored.hashes[at : at + HASH_BYTES] != tile.hashes[at : at + HASH_BYTES]
            ),
            width,
        )
        expected = tile.hashes[where * HASH_BYTES :][:HASH_BYTES].hex() or "no more hashes"
        found = stored.hashes[where * HASH_BYTES :][:HASH_BYTES].hex() or "none"
        return Difference(TREE, place, f"{expected} as hash {where}", found)
    return Difference(TREE, place, f"the row ids of {width} records", "others")


@dataclass(frozen=True)
class Rebuilt:
    """A tree that was made anew. `root`: None where there is no record."""

    size: int
    root: bytes | None
    differences: list[Difference]


def rebuild(store: Store) -> Rebuilt:
    """Hold the tree against the records, drop it, make it anew, and hold it against the newest checkpoint.

    Raises `Busy` where a sealer is at work.
    """
    with store.projector(TREE):
        told = differences(store)
        growth = Growth.anew(store)
        for page in growth.pages():
            growth.add(page)
        growth.write()
        told += _unlike_sealed(growth, store.checkpoint())
        made = root(growth.tile, growth.size) if growth.size else None
    return Rebuilt(growth.size, made, told)


def _unlike_sealed(growth: Growth, newest: CheckpointRow | None) -> list[Difference]:
    """Where the tree does not begin with that of the newest checkpoint; whose that is, is verify's to ask."""
    if newest is None:
        return []
    place = f"checkpoint {newest.size}"
    try:
        said = SignedCheckpoint.parse(newest.note).checkpoint
    except NoteError as error:
        return [Difference(TREE, place, "a checkpoint", error.message)]
    if growth.size < said.size:
        return [Difference(TREE, place, f"{said.size} records or more", str(growth.size))]
    found = root(growth.tile, said.size)
    if found == said.root:
        return []
    return [Difference(TREE, place, f"root {said.root.hex()}", found.hex())]
