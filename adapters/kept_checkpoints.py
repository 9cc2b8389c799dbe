"""The checkpoints that a ledger keeps, and why trust in a key ends only at one of them.

One that is not kept is of another history, or of one that was cut off: trust that ended there would be trust
in records that nobody can show.
"""

from __future__ import annotations

from ..domain.checkpoint import SignedCheckpoint
from ..domain.errors import BadData, NoInput
from ..domain.events import KeyRetired
from ..domain.keyring import Keyring
from ..domain.note import Note, NoteError
from ..projections.tree import Frontier, leaf_hash
from .store.port import Store


def checkpoint_of(store: Store, origin: str, size: int) -> SignedCheckpoint:
    """The checkpoint of that size which the ledger keeps. Raises `NoInput` where it keeps none."""
    row = store.checkpoint(size)
    if row is None:
        kept = [each.size for each in store.checkpoints()]
        newest = f"the newest is of {kept[-1]}" if kept else "it has none"
        raise NoInput(
            f"checkpoint: expected one of size {size} in {origin}, and {newest}",
            hint="causebook seal signs one over all records there are",
        )
    try:
        return SignedCheckpoint.parse(row.note)
    except NoteError as error:
        raise BadData(
            f"checkpoint of size {size}: {error.message}",
            hint="causebook verify says what is wrong with the ledger",
        ) from None


def require_kept(store: Store, origin: str, given: SignedCheckpoint) -> None:
    """Raise unless `given`, from a file, is a checkpoint that the ledger keeps, whoever else signed it."""
    kept = checkpoint_of(store, origin, given.checkpoint.size)
    if kept.checkpoint != given.checkpoint:
        raise BadData(
            f"checkpoint: expected that of size {given.checkpoint.size} which {origin} keeps, found "
            "another under this size",
            hint="two histories under one name: causebook verify --checkpoint FILE",
        )


def log_part(keyring: Keyring, sealed: SignedCheckpoint) -> Note:
    """What the log itself said of a checkpoint: the text, and the signatures of its keys.

    Cosignatures may be many, and stay with the checkpoint.
    """
    keys = keyring.log_keys(sealed.checkpoint.size)
    of_log = (s for s in sealed.note.signatures if any(s.is_by(key) for key in keys))
    return Note(sealed.note.text, tuple(of_log))


def require_kept_end(store: Store, keyring: Keyring, event: KeyRetired) -> None:
    """Raise unless trust in a key ends at a checkpoint that the ledger keeps, and the event has the log's
    part of it, byte for byte.

    `event` is one that the keyring admits: its checkpoint is of this ledger, and signed. The records are read
    up to there: an end at a root that they do not lead to would never hold, and cannot be taken back.
    """
    given = SignedCheckpoint.parse(event.checkpoint.encode())
    require_kept(store, keyring.ledger, given)
    kept = checkpoint_of(store, keyring.ledger, event.size)
    if log_part(keyring, kept).raw != given.note.raw:
        raise BadData(
            f"KeyRetired: expected the checkpoint of size {event.size} with the log's signature as "
            f"{keyring.ledger} keeps it, found it with others",
            hint=f"causebook checkpoint --size {event.size} prints it",
        )
    frontier = Frontier()
    after = 0
    while frontier.size < event.size and (page := store.rows(after=after)):
        after = page[-1][0]
        for _, row in page[: event.size - frontier.size]:
            frontier.append(leaf_hash(row.record))
    if frontier.size != event.size or frontier.root() != kept.checkpoint.root:
        raise BadData(
            f"checkpoint of size {event.size}: expected that the records lead to its root, found that they "
            "do not",
            hint="nothing is signed over it; causebook verify says what is wrong with the ledger",
        )
