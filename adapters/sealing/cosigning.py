"""Witnesses, as a sealer meets them: what they have seen of its log, and the cosignatures they give.

A witness cosigns what is signed, so it is asked twice: before signing, how far it has seen the log, since a
log that is behind its witness was rolled back; and after it, to cosign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...domain.checkpoint import SignedCheckpoint, cosignature_by
from ...domain.errors import CausebookError, Denied, LogForked
from ...domain.note import Note, NoteError, NoteKey, NoteSignature
from ...projections.tree import Tiles, consistency_proof
from ..signatures import verify
from ..witness.client import WitnessConflict, WitnessRefused


class Witness(Protocol):
    """A party that cosigns checkpoints of logs that only grow: `WitnessClient`."""

    @property
    def url(self) -> str:
        """Where it answers: how it is named to a person."""
        ...

    def newest(self, origin: str) -> SignedCheckpoint | None:
        """The newest checkpoint of a log that it cosigned; None where it has none to show."""
        ...

    def add_checkpoint(
        self, old_size: int, path: Sequence[bytes], note: Note
    ) -> Sequence[NoteSignature]:
        """Its cosignatures on a checkpoint that `path` shows to extend the one of `old_size`.

        Raises `WitnessConflict` naming the size that it has, `WitnessRefused`, `Unreachable`.
        """
        ...


@dataclass(frozen=True)
class Seen:
    """How far a witness has seen a log. `shown`: the checkpoint itself, where it shows it."""

    witness: Witness
    size: int
    shown: SignedCheckpoint | None = None


def seen_by(witness: Witness, origin: str, known: SignedCheckpoint | None) -> Seen:
    """How far a witness has seen the log `origin`. Raises `LogForked`, and `Unreachable` for no answer.

    One that does not show its newest checkpoint, which it need not, is asked to cosign the one that is
    `known` once more: nothing new is signed for that, and its conflict names its size.
    """
    shown = witness.newest(origin)
    if shown is not None:
        return Seen(witness, shown.checkpoint.size, shown)
    if known is None:
        return Seen(witness, 0)
    size = known.checkpoint.size
    try:
        witness.add_checkpoint(size, (), known.note)
    except WitnessConflict as conflict:
        if conflict.size == size:
            raise LogForked(conflict.message, hint=conflict.hint) from None
        return Seen(witness, conflict.size)
    except WitnessRefused:
        return Seen(witness, 0)  # it will say so again of what is new
    return Seen(witness, size)


def collect(
    seen: Seen, signed: SignedCheckpoint, tiles: Tiles, keys: Sequence[NoteKey]
) -> list[NoteSignature]:
    """A witness's cosignatures on a new checkpoint. `keys`: of the witnesses that the ledger enrolled.

    Raises what the witness raises, and `Denied` for lines that would spoil the note for others.
    """
    given = _given(seen, signed, tiles)
    for line in given:
        if line.name == signed.checkpoint.origin:
            raise _spoilt(seen, "a line in the log's own name")
        for key in keys:
            try:
                cosignature_by(Note(signed.note.text, (line,)), key, verify)
            except NoteError as error:
                raise _spoilt(seen, error.message) from None
    return given


def _given(seen: Seen, signed: SignedCheckpoint, tiles: Tiles) -> list[NoteSignature]:
    size, new_size = seen.size, signed.checkpoint.size
    try:
        return list(seen.witness.add_checkpoint(size, _path(tiles, size, new_size), signed.note))
    except WitnessConflict as conflict:
        if conflict.size == size or conflict.size > new_size:
            raise
        size = conflict.size  # others had it cosign meanwhile, or it did not say before
    return list(seen.witness.add_checkpoint(size, _path(tiles, size, new_size), signed.note))


def _path(tiles: Tiles, old_size: int, new_size: int) -> tuple[bytes, ...]:
    return consistency_proof(tiles, old_size, new_size) if 0 < old_size < new_size else ()


def _spoilt(seen: Seen, why: str) -> CausebookError:
    return Denied(
        f"witness {seen.witness.url}: {why}; none of its lines is kept",
        hint="--policy FILE names witnesses with their keys",
    )
