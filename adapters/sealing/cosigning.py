"""Witnesses, as a sealer meets them: what they have seen of its log, and the cosignatures they give.

A witness cosigns what is signed, so it is asked twice: before signing, how far it has seen the log, since a
log that is behind its witness was rolled back; and after it, to cosign.

A line is kept only where its key is known and it holds: by the key that the witness is named with, in a trust
policy, or by a witness's key that the ledger enrolled. Anything else could claim a key that others know, and
spoil the checkpoint for them, for ever: no line is ever deleted. So a witness of which neither is known is
not asked at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...domain.checkpoint import SignedCheckpoint, cosignature_by
from ...domain.errors import Denied, LogForked
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

    @property
    def key(self) -> NoteKey | None:
        """The one key that its cosignatures count by; None for those of the witnesses enrolled."""
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


def require_keys(witnesses: Sequence[Witness], enrolled: Sequence[NoteKey]) -> None:
    """Raise `Denied` naming the first witness by whose key no line could be checked."""
    for witness in witnesses:
        if witness.key is None and not enrolled:
            raise Denied(
                f"witness {witness.url}: expected its key to be known, found none",
                hint="name it with its key in a --policy FILE, or causebook keys enrol witness",
            )


def seen_by(witness: Witness, origin: str, known: SignedCheckpoint | None) -> Seen:
    """How far a witness has seen the log `origin`.

    Raises `LogForked`, `Unreachable` for no answer, `WitnessRefused` for one that tells nothing.

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
    except WitnessRefused as refused:
        # Nothing is known of what it has seen: to go on would prove nothing against it.
        raise WitnessRefused(
            f"{refused.message}; nothing is signed", hint="leave it out to seal without it"
        ) from None
    return Seen(witness, size)


def collect(
    seen: Seen, signed: SignedCheckpoint, tiles: Tiles, enrolled: Sequence[NoteKey]
) -> list[NoteSignature]:
    """A witness's cosignatures on a new checkpoint that hold, by its key or by those `enrolled`.

    Lines of other keys are dropped. Raises what the witness raises, and `Denied` where one of a known key
    does not hold, or none is by any.
    """
    keys = enrolled if seen.witness.key is None else (seen.witness.key,)
    given = [line for line in _given(seen, signed, tiles) if any(line.is_by(key) for key in keys)]
    if not given:
        raise _unfit(seen, "no line by a witness's key that is known here")
    for key in keys:
        try:
            cosignature_by(Note(signed.note.text, tuple(given)), key, verify)
        except NoteError as error:
            raise _unfit(seen, error.message) from None
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


def _unfit(seen: Seen, why: str) -> Denied:
    return Denied(
        f"witness {seen.witness.url}: {why}; none of its lines is kept",
        hint="--policy FILE names witnesses with their keys; causebook keys list shows those enrolled",
    )
