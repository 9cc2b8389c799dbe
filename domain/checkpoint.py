"""Checkpoints: what a log key signs of the whole log, and what witnesses sign of a checkpoint.

A checkpoint is a signed note (domain/note.py) whose text has exactly three lines (C2SP tlog-checkpoint,
commit 2793893976c8; extension lines, which that text allows and discourages, are refused):

    causebook.example/team                          the origin: the ledger's
    1204                                            the size: how many records, from 1
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=    the root of the Merkle tree over them, base64

The log signs with Ed25519 (type 0x01), its key name being the origin. A size of 0 is refused: no ledger is
sealed before its founding, and a proof against an empty tree proves nothing.

A witness's cosignature (C2SP tlog-cosignature, commit 01194db11950; Ed25519, type 0x04) is a signature line
whose bytes are a time and a signature:

    8 bytes    POSIX time in seconds, big-endian, at most 2^63-1
    64 bytes   Ed25519 over  "cosignature/v1" LF  "time " TIME LF  the text of the checkpoint

It says that at that time this was the largest consistent tree of this origin that the witness had seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .ed25519 import signature_fault
from .encoding import base64_text, decimal, hash_bytes
from .note import COSIGNATURE, Note, NoteError, NoteKey, NoteSignature, Verify, parse_note
from .record import is_origin

_TIME_BYTES: Final = 8
_TIME_MAX: Final = 2**63 - 1


@dataclass(frozen=True)
class Checkpoint:
    """What was said of a log: its origin, its size in records, the 32 bytes of its root."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{base64_text(self.root)}\n"

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """The checkpoint of a note's text. Raises `NoteError` naming the line that is wrong."""
        lines = text.split("\n")
        if len(lines) != 4 or lines[3]:
            raise NoteError("checkpoint: expected exactly three lines: origin, size, root")
        origin, size_text, root_text, _ = lines
        if not is_origin(origin):
            raise NoteError("checkpoint, origin: expected a name without spaces, '+' or controls")
        try:
            size = decimal(size_text)
        except ValueError as error:
            raise NoteError(f"checkpoint, size: {error}") from None
        if size == 0:
            raise NoteError("checkpoint, size: expected at least 1, found 0")
        try:
            root = hash_bytes(root_text)
        except ValueError as error:
            raise NoteError(f"checkpoint, root: {error}") from None
        return cls(origin, size, root)


@dataclass(frozen=True)
class SignedCheckpoint:
    """A checkpoint and the note it came in. Nothing about its signatures is known to hold."""

    checkpoint: Checkpoint
    note: Note

    @classmethod
    def parse(cls, raw: bytes) -> SignedCheckpoint:
        """The checkpoint that `raw` is. Raises `NoteError`."""
        note = parse_note(raw)
        return cls(Checkpoint.parse(note.text), note)


@dataclass(frozen=True)
class Cosignature:
    """What a witness's signature line says: who, and at what POSIX time in seconds."""

    key: NoteKey
    time_seconds: int


def cosigned_bytes(time_seconds: int, text: str) -> bytes:
    """What a witness signs of a checkpoint's text."""
    return f"cosignature/v1\ntime {time_seconds}\n{text}".encode()


def cosign(
    text: str, key: NoteKey, time_seconds: int, sign: Callable[[bytes], bytes]
) -> NoteSignature:
    """The signature line of a witness. `key` is of type 0x04; `sign` gives the 64 bytes over a message."""
    if key.kind != COSIGNATURE or not 0 <= time_seconds <= _TIME_MAX:
        raise ValueError("a witness cosigns with a key of type 0x04, at a time that is one")
    signature = sign(cosigned_bytes(time_seconds, text))
    return NoteSignature(key.name, key.keyid, time_seconds.to_bytes(_TIME_BYTES, "big") + signature)


def cosignature_by(note: Note, key: NoteKey, verify: Verify) -> Cosignature | None:
    """The newest cosignature of a witness's key (type 0x04) on the note; None where it did not sign.

    Raises `NoteError` where a signature is said to be of this key and does not hold.
    """
    times = []
    for claimed in note.by(key):
        moment = int.from_bytes(claimed.signature[:_TIME_BYTES], "big")
        signature = claimed.signature[_TIME_BYTES:]
        if (
            signature_fault(signature) is not None
            or moment > _TIME_MAX
            or not verify(key.public, signature, cosigned_bytes(moment, note.text))
        ):
            raise NoteError(
                f"checkpoint: expected a cosignature by {key.name!a} that holds, found one that does not"
            )
        times.append(moment)
    return Cosignature(key, max(times)) if times else None
