"""What a new checkpoint has to extend: those signed before, and what to say where it does not."""

from __future__ import annotations

from typing import Final

from ...domain.checkpoint import Checkpoint, SignedCheckpoint
from ...domain.errors import BadData, LogForked, SealRefused
from ...domain.proof import ProofError
from ...projections.tree import (
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root,
    verify_consistency,
    verify_inclusion,
)
from ..store.port import Store
from .tree_writing import Growth, row_at, row_id_at, stored_tile

Anchor = tuple[SignedCheckpoint, str]
"""A checkpoint that the tree has to begin with, and whose word that is: "as it was sealed"."""

_ROLLED_BACK_HINT: Final = (
    "was an older copy put back? put back the newest; where sealed records are lost for good, found a"
    " successor: causebook init --continues CHECKPOINT"
)


def leads(store: Store, known: Checkpoint) -> bool:
    """Whether the stored tree, cut to its size, is the one that was signed, and leads to its last record."""
    last = known.size - 1
    row_id = row_id_at(store, last)
    row = None if row_id is None else row_at(store, row_id)
    if row is None:
        return False

    def tiles(level: int, number: int) -> bytes:
        return stored_tile(store, level, number)

    try:
        path = inclusion_proof(tiles, last, known.size)
        verify_inclusion(last, known.size, leaf_hash(row.record), path, known.root)
    except ProofError:
        return False
    return True


def objection(growth: Growth, anchor: Anchor) -> SealRefused | None:
    """Why the tree does not begin with that of a checkpoint, or None."""
    said, whose = anchor[0].checkpoint, anchor[1]
    if growth.size < said.size:
        return fewer(anchor, growth.size)
    try:
        found = root(growth.tile, said.size).hex()
    except ProofError as error:
        found = error.message
    if found == said.root.hex():
        return None
    return LogForked(
        f"{said.origin}, size {said.size}: expected root {said.root.hex()}, {whose}, found {found}",
        hint="another history stands in the store; causebook verify --checkpoint FILE shows it",
    )


def require_extended(old: Checkpoint, new: Checkpoint, growth: Growth) -> None:
    """Raise `BadData` where the hashes that `new` was made of do not show it to extend `old`.

    `old` was held against the tree before: what the store keeps of the tree has changed since.
    """
    try:
        path = consistency_proof(growth.tile, old.size, new.size) if old.size < new.size else ()
        verify_consistency(old.size, new.size, path, old.root, new.root)
    except ProofError as error:
        raise BadData(
            f"{new.origin}, size {new.size}: expected it to extend the one of size {old.size}:"
            f" {error.message}",
            hint="the tree in the store changed while it was sealed; nothing is signed: run it again",
        ) from None


def fewer(anchor: Anchor, records: int) -> SealRefused:
    """The refusal where the store holds fewer records than an anchor counts."""
    said, whose = anchor[0].checkpoint, anchor[1]
    return rolled_back(said.origin, said.size, whose, records)


def rolled_back(origin: str, size: int, whose: str, records: int) -> SealRefused:
    """The refusal where `size` records were sealed or seen, in the words of `whose`, and fewer are there."""
    return SealRefused(
        f"{origin}: expected {size} records or more, {whose}, found {records}:"
        " the store was rolled back",
        hint=_ROLLED_BACK_HINT,
    )
