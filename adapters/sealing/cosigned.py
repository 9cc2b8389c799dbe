"""What is kept beside a checkpoint's note: which lines are, and the note as it is handed out.

No row of a checkpoint is ever deleted, and a log that nothing is added to can be cosigned again and again. So
a sealer keeps of each witness a line an hour, by the witness's own clock, and `COSIGNATURES_MAX` of all; the
first line of a witness is taken in beyond that. Of timestamps it keeps `TIMESTAMPS_MAX`: only the first tells
more than the next. Together they stay below the 1,000 additions that a reader reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.note import (
    NOTE_BYTES_MAX,
    SIGNATURES_MAX,
    Note,
    NoteError,
    NoteKey,
    NoteSignature,
    parse_signature,
)
from ..store.port import CheckpointRow

COSIGNATURES_MAX: Final = 900
TIMESTAMPS_MAX: Final = 16
SPACING_SECONDS: Final = 3600

_TIME_BYTES: Final = 8


def takes(row: CheckpointRow, line: NoteSignature) -> bool:
    """Whether a cosignature is to be kept beside a checkpoint that has those of `row` already."""
    kept = list(_parsed(row.cosignatures))
    times = [_time(each) for each in kept if (each.name, each.keyid) == (line.name, line.keyid)]
    if not times:
        return len(kept) < COSIGNATURES_MAX + SIGNATURES_MAX
    return len(kept) < COSIGNATURES_MAX and _time(line) >= max(times) + SPACING_SECONDS


def with_cosignatures(
    note: bytes, lines: Iterable[bytes], first: Sequence[NoteKey] = ()
) -> SignedCheckpoint:
    """A checkpoint's note with the lines kept beside it: of each key the newest, as many as a note takes.

    Those of the keys `first` come before all others, which are in the order of their names. What is kept and
    is no signature line, or is too long for the note, is left out. Raises `NoteError` where the note itself
    is none.
    """
    signed = SignedCheckpoint.parse(note)
    newest: dict[tuple[str, bytes], NoteSignature] = {}
    for found in _parsed(lines):
        kept = newest.setdefault((found.name, found.keyid), found)
        if _time(found) > _time(kept):
            newest[found.name, found.keyid] = found
    known = [(key.name, key.keyid) for key in first]
    order = [each for each in known if each in newest]
    order += sorted(newest.keys() - set(order))
    signatures, room = list(signed.note.signatures), NOTE_BYTES_MAX - len(note)
    for each in order:
        size = len(newest[each].line.encode())
        if len(signatures) < SIGNATURES_MAX and size <= room:
            signatures.append(newest[each])
            room -= size
    return SignedCheckpoint.parse(Note(signed.note.text, tuple(signatures)).raw)


def _parsed(lines: Iterable[bytes]) -> Iterator[NoteSignature]:
    for line in lines:
        try:
            yield parse_signature(line.decode().removesuffix("\n"))
        except (NoteError, UnicodeDecodeError):
            continue


def _time(line: NoteSignature) -> int:
    """The witness's time, as its line says it."""
    return int.from_bytes(line.signature[:_TIME_BYTES], "big")
