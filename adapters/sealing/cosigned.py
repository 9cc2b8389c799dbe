"""A stored checkpoint as it is shown and handed out: its note, with the cosignatures kept beside it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.note import SIGNATURES_MAX, Note, NoteError, NoteSignature, parse_signature

_TIME_BYTES: Final = 8


def with_cosignatures(note: bytes, lines: Iterable[bytes]) -> SignedCheckpoint:
    """A checkpoint's note with the lines kept beside it: of each key the newest, as many as a note takes.

    What is kept and is no signature line is left out. Raises `NoteError` where the note itself is none.
    """
    signed = SignedCheckpoint.parse(note)
    newest: dict[tuple[str, bytes], NoteSignature] = {}
    for line in lines:
        with suppress(NoteError, UnicodeDecodeError):
            found = parse_signature(line.decode().removesuffix("\n"))
            kept = newest.setdefault((found.name, found.keyid), found)
            if found.signature[:_TIME_BYTES] > kept.signature[:_TIME_BYTES]:
                newest[found.name, found.keyid] = found
    beside = [newest[key] for key in sorted(newest)]
    room = SIGNATURES_MAX - len(signed.note.signatures)
    whole = Note(signed.note.text, (*signed.note.signatures, *beside[:room]))
    return SignedCheckpoint.parse(whole.raw)
