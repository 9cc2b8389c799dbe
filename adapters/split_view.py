"""Split views: two checkpoints of one log that cannot both be of one history, and the proof that they are.

`find` makes the proof where two checkpoints contradict each other, `check` says whether such a file holds.
Both are pure. The file's format stands in domain/proof.py; a proof from a size that is a power of two begins
with the root that the newer tree had at that size, which a consistency proof for a verifier leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ..domain.checkpoint import SignedCheckpoint
from ..domain.note import NoteKey, Verify, is_signed_by
from ..domain.proof import Path, ProofError, SplitView
from ..projections.tree import prefix_root


class Tree(Protocol):
    """The tree of the newer checkpoint, which the proof is read out of."""

    def root(self, size: int) -> bytes:
        """The root of the first `size` records."""
        ...

    def consistency(self, old: int, new: int) -> Path:
        """The consistency proof between two sizes."""
        ...


def find(first: SignedCheckpoint, second: SignedCheckpoint, tree: Tree | None) -> SplitView | None:
    """The split view that two checkpoints of one origin are; None where one tree can have had both roots.

    `tree`: that of the larger one; None will do where both have one size. That both are signed by one log key
    is for the caller to know, and `check` asks it again. Raises `ProofError` where there is no telling: no
    tree, one that is too small, or one whose root is not that of the larger checkpoint.
    """
    older, newer = sorted((first, second), key=lambda each: each.checkpoint.size)
    if older.checkpoint.origin != newer.checkpoint.origin:
        raise ProofError("split view: expected two checkpoints of one origin")
    old_size, new_size = older.checkpoint.size, newer.checkpoint.size
    if old_size == new_size:
        return from_path(older, newer, ())
    if tree is None:
        raise ProofError("split view: the tree of the larger checkpoint is not at hand")
    path = tree.consistency(old_size, new_size)
    if old_size & (old_size - 1) == 0:
        path = (tree.root(old_size), *path)
    return from_path(older, newer, path)


def from_path(
    older: SignedCheckpoint, newer: SignedCheckpoint, path: Sequence[bytes]
) -> SplitView | None:
    """The split view that `path` shows, as the file holds it; None where the two checkpoints agree.

    Raises `ProofError` where the path does not lead to the newer root, and so shows nothing.
    """
    view = SplitView(older, newer, tuple(path))
    return view if _root_then(view) != older.checkpoint.root else None


def check(view: SplitView, keys: Iterable[NoteKey], verify: Verify) -> NoteKey:
    """The log key, of those that are trusted, that signed both histories of one log.

    Raises `ProofError` where the file shows no such thing: other origins, no trusted key under both, a path
    that does not lead to the newer root, or two checkpoints that agree. Raises `NoteError` where a signature
    by one of the keys does not hold.
    """
    older, newer = view.older.checkpoint, view.newer.checkpoint
    if older.origin != newer.origin:
        raise ProofError("split view: expected two checkpoints of one origin, found two origins")
    signer = signer_of_both(view, keys, verify)
    if signer is None:
        raise ProofError("split view: expected one trusted log key under both checkpoints")
    if _root_then(view) == older.root:
        raise ProofError("split view: the two checkpoints agree")
    return signer


def signer_of_both(view: SplitView, keys: Iterable[NoteKey], verify: Verify) -> NoteKey | None:
    """The first of these keys, of those named as the log is, that signed both checkpoints.

    Raises `NoteError` where a signature by one of them does not hold.
    """
    for key in keys:
        if key.name == view.older.checkpoint.origin and (
            is_signed_by(view.older.note, key, verify)
            and is_signed_by(view.newer.note, key, verify)
        ):
            return key
    return None


def _root_then(view: SplitView) -> bytes:
    """The root that the newer tree had at the size of the older."""
    older, newer = view.older.checkpoint, view.newer.checkpoint
    if older.size < newer.size:
        return prefix_root(older.size, newer.size, view.path, newer.root)
    if older.size > newer.size or view.path:
        raise ProofError(
            "split view: expected the smaller size first, and no path between equal ones"
        )
    return newer.root
