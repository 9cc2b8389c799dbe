"""The Merkle tree over all records: root, proofs, tiles, and whether a proof holds (RFC 9162, section 2.1).

    leaf of a record      SHA-256(0x00 ‖ record)
    node of two           SHA-256(0x01 ‖ left ‖ right)
    tree of n > 1 leaves  the node of the tree of the first k and the tree of the others,
                          k the largest power of two below n

The index of a record is its ordinal in the order of commit, from 0. The tree is kept as *tiles* (C2SP
tlog-tiles, commit 0ad71eb1f1b9): tile `number` of `level` l holds up to 256 hashes, each the tree over 256^l
consecutive leaves; so a level 0 tile holds leaves, and a hash of a tile above is the tree of one full tile
below. A tile is written as its hashes side by side, 32 bytes each.

Whoever checks a proof takes the size, and the root, from a checkpoint that was signed, never from the proof.
A proof holds or `ProofError` is raised; there is no third answer. A hash has 32 bytes, no tree is empty, and
a proof has exactly as many hashes as its sizes call for.

Pure: tiles are read through a function, and nothing is kept between two calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ..domain.proof import ProofError

HASH_BYTES: Final = 32
TILE_WIDTH: Final = 256
_TILE_HEIGHT: Final = 8

Tiles = Callable[[int, int], bytes]
"""(level, number) → the hashes of that tile, side by side. It may be wider than a size calls for."""


def leaf_hash(record: bytes) -> bytes:
    """The leaf of a record's bytes."""
    return hashlib.sha256(b"\x00" + record).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The node over two trees."""
    return hashlib.sha256(b"\x01" + left + right).digest()


# ── whether a proof holds ────────────────────────────────────────────────────────────────────────────


def verify_inclusion(
    index: int, size: int, leaf: bytes, path: Sequence[bytes], root: bytes
) -> None:
    """Raise `ProofError` unless `path` shows that `leaf` stands at `index` of the tree of `size` and `root`.

    RFC 9162, section 2.1.3.2.
    """
    if not 0 <= index < size:
        raise ProofError(f"inclusion: expected an index below the size {size}, found {index}")
    _require_hashes(leaf, root, *path)
    # `inner` nodes lie below the point where the way to the leaf meets the right edge of the tree; above it
    # only left siblings stand, one for each bit set.
    inner = (index ^ (size - 1)).bit_length()
    expected = inner + (index >> inner).bit_count()
    if len(path) != expected:
        raise ProofError(f"inclusion: expected {expected} hashes, found {len(path)}")
    found = leaf
    for height, sibling in enumerate(path):
        is_right = height >= inner or index >> height & 1
        found = node_hash(sibling, found) if is_right else node_hash(found, sibling)
    if found != root:
        raise ProofError("inclusion: the proof does not lead to the root of the checkpoint")


def verify_consistency(
    old_size: int, new_size: int, path: Sequence[bytes], old_root: bytes, new_root: bytes
) -> None:
    """Raise `ProofError` unless `path` shows that the tree of `new_root` begins with that of `old_root`.

    RFC 9162, section 2.1.4.2.
    """
    _require_sizes(old_size, new_size)
    if old_size == new_size:  # nothing is hashed: it is one tree or it is not
        if path:
            raise ProofError(f"consistency: expected no hashes for equal sizes, found {len(path)}")
        if old_root != new_root:
            raise ProofError("consistency: two roots of one size")
        return
    _require_hashes(old_root)
    # A tree of 2^k leaves stands whole in the larger one: its root is where the path begins.
    start = old_root if _is_power_of_two(old_size) else None
    if prefix_root(old_size, new_size, path, new_root, start=start) != old_root:
        raise ProofError("consistency: the proof does not lead to the old root")


def prefix_root(
    old_size: int,
    new_size: int,
    path: Sequence[bytes],
    new_root: bytes,
    *,
    start: bytes | None = None,
) -> bytes:
    """The root that the tree of `new_root` had at `old_size`, below `new_size`, as `path` shows it.

    `start`: the root of the old tree where its size is a power of two, since the path leaves it out; without
    it such a path begins with it. Raises `ProofError` where the path does not lead to `new_root`.
    """
    _require_sizes(old_size, new_size)
    if old_size == new_size:
        raise ProofError("consistency: expected the old size below the new one, found the same")
    hashes = list(path) if start is None else [start, *path]
    _require_hashes(new_root, *hashes)
    # The old tree's last subtree of 2^shift leaves is where the two trees part.
    shift = (old_size & -old_size).bit_length() - 1
    index, last = (old_size - 1) >> shift, (new_size - 1) >> shift
    inner = (index ^ last).bit_length()
    expected = 1 + inner + (index >> inner).bit_count()
    if len(hashes) != expected:
        raise ProofError(
            f"consistency: expected {expected - (start is not None)} hashes, found {len(path)}"
        )
    old = new = hashes[0]
    for height, sibling in enumerate(hashes[1:]):
        if height >= inner or index >> height & 1:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
        else:
            new = node_hash(new, sibling)
    if new != new_root:
        raise ProofError("consistency: the proof does not lead to the new root")
    return old


def _require_sizes(old_size: int, new_size: int) -> None:
    if not 0 < old_size <= new_size:
        raise ProofError(
            f"consistency: expected an old size from 1 to {new_size}, found {old_size}"
        )


def _require_hashes(*hashes: bytes) -> None:
    for each in hashes:
        if len(each) != HASH_BYTES:
            raise ProofError(f"hash: expected {HASH_BYTES} bytes, found {len(each)}")


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


# ── roots and proofs, out of tiles ───────────────────────────────────────────────────────────────────


def root(tiles: Tiles, size: int) -> bytes:
    """The root of the tree of the first `size` records, from 1. Raises `ProofError` where a tile is short."""
    if size < 1:
        raise ProofError(f"tree: expected a size from 1, found {size}")
    return _range(tiles, 0, size)


def inclusion_proof(tiles: Tiles, index: int, size: int) -> tuple[bytes, ...]:
    """The path from the record at `index` to the root of the tree of `size`, from the leaf's sibling on.

    Raises `ProofError` for an index outside the tree, or where a tile is short.
    """
    if not 0 <= index < size:
        raise ProofError(f"inclusion: expected an index below the size {size}, found {index}")
    path: list[bytes] = []
    low, high = 0, size
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(_range(tiles, middle, high))
            high = middle
        else:
            path.append(_range(tiles, low, middle))
            low = middle
    return tuple(reversed(path))


def consistency_proof(tiles: Tiles, old_size: int, new_size: int) -> tuple[bytes, ...]:
    """The proof that the tree of `new_size` grew out of that of `old_size`, as `verify_consistency` takes it.

    Raises `ProofError` for sizes that are none, or where a tile is short.
    """
    _require_sizes(old_size, new_size)
    path: list[bytes] = []
    low, high, whole = 0, new_size, True
    while old_size != high:
        middle = low + _split(high - low)
        if old_size <= middle:
            path.append(_range(tiles, middle, high))
            high = middle
        else:
            path.append(_range(tiles, low, middle))
            low, whole = middle, False
    if not whole:
        path.append(_range(tiles, low, high))
    return tuple(reversed(path))


def _split(count: int) -> int:
    """The largest power of two below `count`, which is at least 2."""
    return 1 << (count - 1).bit_length() - 1


def _range(tiles: Tiles, low: int, high: int) -> bytes:
    """The tree over the leaves from `low` to below `high`, as RFC 9162 splits it."""
    count = high - low
    if _is_power_of_two(count):
        return _subtree(tiles, low, count.bit_length() - 1)
    middle = low + _split(count)
    return node_hash(_range(tiles, low, middle), _range(tiles, middle, high))


def _subtree(tiles: Tiles, low: int, height: int) -> bytes:
    """The full tree over 2^height leaves from `low` on: it lies within one tile."""
    level = height // _TILE_HEIGHT
    first = low >> level * _TILE_HEIGHT
    count = 1 << height - level * _TILE_HEIGHT
    number, offset = divmod(first, TILE_WIDTH)
    hashes = _split_hashes(tiles(level, number))[offset : offset + count]
    if len(hashes) != count:
        raise ProofError(f"tile {level}/{number}: expected {offset + count} hashes or more")
    return _fold(hashes)


def _split_hashes(tile: bytes) -> list[bytes]:
    return [tile[at : at + HASH_BYTES] for at in range(0, len(tile), HASH_BYTES)]


def _fold(hashes: list[bytes]) -> bytes:
    """The tree over 2^k hashes."""
    while len(hashes) > 1:
        hashes = [node_hash(*hashes[at : at + 2]) for at in range(0, len(hashes), 2)]
    return hashes[0]


# ── growing ──────────────────────────────────────────────────────────────────────────────────────────


def grow(tiles: Tiles, size: int, leaves: Sequence[bytes]) -> Mapping[tuple[int, int], bytes]:
    """The tiles that change where `leaves` come after the first `size`, each whole, by (level, number).

    Only the partial tile at the right edge of each level is read. Raises `ProofError` where it is short.
    """
    changed: dict[tuple[int, int], bytes] = {}
    level, new = 0, list(leaves)
    while new:
        number, width = divmod(size >> level * _TILE_HEIGHT, TILE_WIDTH)
        edge = _split_hashes(tiles(level, number))[:width] if width else []
        if len(edge) != width:
            raise ProofError(f"tile {level}/{number}: expected {width} hashes, found {len(edge)}")
        hashes, above = edge + new, list[bytes]()
        for start in range(0, len(hashes), TILE_WIDTH):
            tile = hashes[start : start + TILE_WIDTH]
            changed[level, number + start // TILE_WIDTH] = b"".join(tile)
            if len(tile) == TILE_WIDTH:
                above.append(_fold(tile))
        level, new = level + 1, above
    return changed


class Frontier:
    """The right edge of a tree that grows leaf by leaf: 32 bytes for each bit of its size."""

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Take in the next leaf."""
        size = self.size
        while size & 1:
            leaf = hashlib.sha256(b"\x01" + self._peaks.pop() + leaf).digest()
            size >>= 1
        self._peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """The root of the leaves taken in so far. Raises `ProofError` where there is none."""
        if not self._peaks:
            raise ProofError("tree: expected a leaf, found none")
        found = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            found = node_hash(peak, found)
        return found
