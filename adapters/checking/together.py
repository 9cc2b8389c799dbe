"""What the files at hand show together: for a file that needs another, and to be held against one another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...domain.checkpoint import SignedCheckpoint
from ...domain.heads import Heads
from ...domain.note import NoteError, NoteKey
from ...domain.proof import ConsistencyProof, InclusionProof, ProofError
from ...domain.record import Record
from .given import Given


@dataclass(frozen=True)
class Sealed:
    """A record that is proved to stand at `index` of a log that `key` sealed, and the file that shows it."""

    name: str
    record: Record
    index: int
    key: NoteKey


@dataclass(frozen=True)
class Stated:
    """A statement of heads that a log key signed, and the file it came in."""

    name: str
    heads: Heads
    key: NoteKey


@dataclass
class Together:
    """What all files at hand show, for a file that needs another to be checked."""

    records: list[bytes] = field(default_factory=list)
    checkpoints: list[SignedCheckpoint] = field(default_factory=list)
    sealed: list[Sealed] = field(default_factory=list)
    stated: list[Stated] = field(default_factory=list)


def gathered(files: Iterable[Given]) -> Together:
    """What lone files bring for others: records and checkpoints. Files that do not parse bring nothing."""
    together = Together()
    for given in files:
        try:
            if given.kind == "record":
                together.records.append(given.raw)
            elif given.kind == "checkpoint":
                together.checkpoints.append(SignedCheckpoint.parse(given.raw))
            elif given.kind == "inclusion proof":
                proof = InclusionProof.parse(given.raw)
                together.checkpoints.append(proof.checkpoint)
                together.records += [proof.extra] if proof.extra else []
            elif given.kind == "consistency proof":
                together.checkpoints.append(ConsistencyProof.parse(given.raw).checkpoint)
        except (NoteError, ProofError):
            continue
    return together
