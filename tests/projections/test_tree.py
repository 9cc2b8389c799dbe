"""The tree: one root however it grows, a proof for every index and size, and none that should not hold."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.domain.proof import ProofError
from causebook.projections.tree import (
    Frontier,
    consistency_proof,
    grow,
    inclusion_proof,
    leaf_hash,
    node_hash,
    prefix_root,
    root,
    verify_consistency,
    verify_inclusion,
)

LEAVES = [leaf_hash(b"record %d" % number) for number in range(70_000)]
SIZES = [*range(1, 40), 255, 256, 257, 511, 512, 513, 1000]


class Kept:
    """Tiles in memory, grown in the steps given."""

    def __init__(self, steps: Sequence[int]) -> None:
        self.tiles: dict[tuple[int, int], bytes] = {}
        self.size = 0
        for step in steps:
            leaves = LEAVES[self.size : self.size + step]
            self.tiles.update(grow(self, self.size, leaves))
            self.size += step

    def __call__(self, level: int, number: int) -> bytes:
        return self.tiles.get((level, number), b"")


def textbook_root(leaves: Sequence[bytes]) -> bytes:
    """RFC 9162 section 2.1.1, as it is written."""
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return node_hash(textbook_root(leaves[:k]), textbook_root(leaves[k:]))


THOUSAND = Kept([1000])
ROOTS = {size: textbook_root(LEAVES[:size]) for size in SIZES}


@pytest.mark.parametrize("size", SIZES)
def test_the_root_is_that_of_the_rfc(size: int) -> None:
    frontier = Frontier()
    for leaf in LEAVES[:size]:
        frontier.append(leaf)
    assert root(THOUSAND, size) == frontier.root() == ROOTS[size]


@given(st.lists(st.integers(1, 700), min_size=1, max_size=12))
def test_however_it_grows_the_tiles_are_the_same(steps: list[int]) -> None:
    assert Kept(steps).tiles == Kept([sum(steps)]).tiles


def test_a_long_log_folds_into_one_golden_root() -> None:
    kept = Kept([69_999, 1])
    assert {key: len(tile) // 32 for key, tile in kept.tiles.items() if len(tile) != 8192} == {
        (0, 273): 112,
        (1, 1): 17,
        (2, 0): 1,
    }
    assert root(kept, 70_000) == textbook_root(LEAVES)
    golden = "db95a5c3802aae796452d22b34d53e749c9bc06fbe9ad229954d80d8eaa3ee16"
    assert root(kept, 70_000).hex() == golden


@pytest.mark.parametrize("size", SIZES)
def test_every_index_is_proved_and_no_other_leaf_or_index_is(size: int) -> None:
    for index in range(0, size, max(1, size // 60)):
        path = inclusion_proof(THOUSAND, index, size)
        verify_inclusion(index, size, LEAVES[index], path, ROOTS[size])
        with pytest.raises(ProofError):
            verify_inclusion(index, size, LEAVES[index + 1], path, ROOTS[size])
        for other in {index - 1, index + 1, index ^ 2}:
            with pytest.raises(ProofError):
                verify_inclusion(other, size, LEAVES[index], path, ROOTS[size])


@pytest.mark.parametrize("new", SIZES)
def test_every_older_size_is_proved_and_no_other_root_is(new: int) -> None:
    for old in (size for size in SIZES if size <= new):
        path = consistency_proof(THOUSAND, old, new)
        verify_consistency(old, new, path, ROOTS[old], ROOTS[new])
        forged = bytes(32)
        with pytest.raises(ProofError):
            verify_consistency(old, new, path, forged, ROOTS[new])
        with pytest.raises(ProofError):
            verify_consistency(old, new, path, ROOTS[old], forged)
        with pytest.raises(ProofError):
            verify_consistency(old, new, (*path, forged), ROOTS[old], ROOTS[new])


def test_a_node_is_no_leaf_and_a_leaf_is_no_node() -> None:
    path = inclusion_proof(THOUSAND, 0, 4)
    node = node_hash(LEAVES[0], LEAVES[1])
    verify_inclusion(0, 4, LEAVES[0], path, ROOTS[4])
    with pytest.raises(ProofError, match="expected 2 hashes, found 1"):
        verify_inclusion(0, 4, node, path[1:], ROOTS[4])
    # A record made of two hashes is hashed as a leaf, never as the node over them.
    assert leaf_hash(LEAVES[0] + LEAVES[1]) != node


def test_the_prefix_a_proof_shows_is_the_older_tree() -> None:
    for old, new in ((3, 7), (6, 8), (257, 1000)):
        path = consistency_proof(THOUSAND, old, new)
        assert prefix_root(old, new, path, ROOTS[new]) == textbook_root(LEAVES[:old])
    path = consistency_proof(THOUSAND, 256, 1000)
    assert prefix_root(256, 1000, path, ROOTS[1000], start=ROOTS[256]) == ROOTS[256]


@pytest.mark.parametrize(("old", "new"), [(0, 0), (0, 5), (5, 4), (-1, 3)])
def test_no_size_that_is_none_is_proved(old: int, new: int) -> None:
    with pytest.raises(ProofError, match="expected an old size from 1"):
        verify_consistency(old, new, (), bytes(32), bytes(32))
    with pytest.raises(ProofError, match="expected an old size from 1"):
        consistency_proof(THOUSAND, old, new)


def test_an_empty_tree_has_no_root() -> None:
    with pytest.raises(ProofError, match="from 1"):
        root(THOUSAND, 0)
    with pytest.raises(ProofError, match="expected a leaf"):
        Frontier().root()
    with pytest.raises(ProofError, match="below the size 0"):
        inclusion_proof(THOUSAND, 0, 0)


def test_a_short_tile_is_named_and_nothing_is_made_of_it() -> None:
    kept = Kept([700])
    kept.tiles[0, 2] = kept.tiles[0, 2][:-32]
    with pytest.raises(ProofError, match="tile 0/2"):
        root(kept, 700)
    with pytest.raises(ProofError, match="tile 0/2: expected 188 hashes, found 187"):
        grow(kept, 700, LEAVES[700:701])


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_hash_has_32_bytes(length: int) -> None:
    path = inclusion_proof(THOUSAND, 5, 8)
    with pytest.raises(ProofError, match="expected 32 bytes"):
        verify_inclusion(5, 8, bytes(length), path, ROOTS[8])
    with pytest.raises(ProofError, match="expected 32 bytes"):
        verify_inclusion(5, 8, LEAVES[5], (bytes(length), *path[1:]), ROOTS[8])
    with pytest.raises(ProofError, match="expected 32 bytes"):
        verify_consistency(3, 8, (bytes(length),) * 4, ROOTS[3], ROOTS[8])
