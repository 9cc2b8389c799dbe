"""What a sealer remembers: the last checkpoint it signed, beside its key and never in the store.

    DIR/log-<16 hex of the SHA-256 of the origin>.sealed      a signed note, mode 0600

A store can be put back to an older state, together with all that it holds; this file is then ahead of it, and
the sealer refuses. It is on the disk before a signature leaves. Keep it with the log key, and never put an
older copy of it back: who can do that, and can put back the store, can have the key sign two histories.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ...domain.checkpoint import SignedCheckpoint
from ...domain.errors import BadData, IOFailure
from ...domain.note import NOTE_BYTES_MAX, NoteError
from ..durable import replace_durably


@dataclass(frozen=True)
class SealMemory:
    """The memory for one log in one folder of keys."""

    path: Path
    origin: str

    @classmethod
    def of(cls, keys: Path, origin: str) -> Self:
        """That of the log `origin`; one folder of keys can serve several logs."""
        name = hashlib.sha256(origin.encode()).hexdigest()[:16]
        return cls(keys / f"log-{name}.sealed", origin)

    def read(self) -> SignedCheckpoint | None:
        """The last checkpoint signed, or None where the file is not there.

        Raises `BadData` for a file that holds none of this origin, `IOFailure` for one that cannot be read.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                raw = file.read(NOTE_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise IOFailure(f"{self.path}: {error.strerror}") from None
        try:
            found = SignedCheckpoint.parse(raw)
        except NoteError as error:
            raise self.unfit(error.message) from None
        if found.checkpoint.origin != self.origin:
            raise self.unfit(f"expected one of {self.origin}")
        return found

    def unfit(self, why: str) -> BadData:
        """The error for a file that is not what this sealer wrote."""
        return BadData(
            f"{self.path}: expected the checkpoint sealed last: {why}",
            hint="put back the newest copy there is; without one, see causebook seal --adopt",
        )

    def write(self, signed: SignedCheckpoint) -> None:
        """Remember a checkpoint; on return it is on the disk.

        Raises `IOFailure`; what is remembered then is the old one or this.
        """
        try:
            replace_durably(self.path, signed.note.raw)
        except OSError as error:
            raise IOFailure(
                f"{self.path}: cannot be written: {error.strerror}",
                hint="what is sealed is remembered beside the log key before it is given out",
            ) from None
