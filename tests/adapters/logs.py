"""A log of its own for tests of witnesses: a key, leaves, and signed checkpoints at any size.

log = SmallLog("audit.example.com/team")
log.grow(12)
log.checkpoint(7)                    # signed
log.submission(7, 12)                # what a witness that cosigned 7 is sent
fork = log.forked(5)                 # the same key, the same first five leaves, others after
"""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.note import COSIGNATURE, ED25519, NoteKey, sign_note
from causebook.domain.proof import ConsistencyProof, Path
from causebook.projections import tree

ORIGIN = "audit.example.com/team"


def private_key(name: str) -> Ed25519PrivateKey:
    """A key of that name, the same in every run."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def log_key(name: str) -> NoteKey:
    return NoteKey(name, private_key(name).public_key().public_bytes_raw(), ED25519)


def witness_key(name: str) -> NoteKey:
    return NoteKey(name, private_key(name).public_key().public_bytes_raw(), COSIGNATURE)


class SmallLog:
    """A log. `key`: what it is known by."""

    def __init__(self, origin: str = ORIGIN, *, leaves: tuple[bytes, ...] = ()) -> None:
        self.key = log_key(origin)
        self._private = private_key(origin)
        self._tiles: dict[tuple[int, int], bytes] = {}
        self.leaves: list[bytes] = []
        self._append(list(leaves))

    def grow(self, size: int, word: str = "record") -> None:
        """Add leaves until there are `size`."""
        new = range(len(self.leaves), size)
        self._append([tree.leaf_hash(f"{word} {number}".encode()) for number in new])

    def forked(self, at: int) -> SmallLog:
        """The same log with other leaves from `at` to as many as there are here."""
        fork = SmallLog(self.key.name, leaves=tuple(self.leaves[:at]))
        fork.grow(len(self.leaves), "another record")
        return fork

    def root(self, size: int) -> bytes:
        return tree.root(self._tile, size)

    def consistency(self, old: int, new: int) -> Path:
        return tree.consistency_proof(self._tile, old, new)

    def checkpoint(self, size: int, *, root: bytes | None = None) -> SignedCheckpoint:
        """The checkpoint of `size`, signed; of another root where the log lies about it."""
        checkpoint = Checkpoint(self.key.name, size, self.root(size) if root is None else root)
        return SignedCheckpoint(
            checkpoint, sign_note(checkpoint.text, self.key, self._private.sign)
        )

    def submission(self, old: int, new: int) -> bytes:
        path = self.consistency(old, new) if old else ()
        return ConsistencyProof(old, path, self.checkpoint(new)).raw

    def _tile(self, level: int, number: int) -> bytes:
        return self._tiles.get((level, number), b"")

    def _append(self, leaves: list[bytes]) -> None:
        self._tiles.update(tree.grow(self._tile, len(self.leaves), leaves))
        self.leaves += leaves
