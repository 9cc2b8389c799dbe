"""What a file is that somebody was handed: told by its content, never by its name.

PK 03 04                                   a bundle (adapters/bundle)
c2sp.org/tlog-proof@v1                     an inclusion proof
old <number>                               a consistency proof
{"kind":"causebook split view/1"…          a split view
{"payload":"…                              a DSSE envelope: heads, an attestation, or a record
{"at":"…                                   a record
a folder with a file `checkpoint`          the log as tiles (adapters/handover/tiles.py)
a text whose second line is a number       a checkpoint
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ...domain.dsse import ENVELOPE_BYTES_MAX
from ...domain.errors import BadData, Denied, IOFailure, NoInput
from ...domain.proof import INCLUSION_HEADER
from ..files import without_waiting

Kind = Literal[
    "bundle",
    "inclusion proof",
    "consistency proof",
    "split view",
    "envelope",
    "record",
    "checkpoint",
    "tiles",
]
BYTES_MAX: Final = ENVELOPE_BYTES_MAX
_BEGINNINGS: Final[tuple[tuple[bytes, Kind], ...]] = (
    (b"PK\x03\x04", "bundle"),
    (b"PK\x05\x06", "bundle"),
    (INCLUSION_HEADER.encode(), "inclusion proof"),
    (b"old ", "consistency proof"),
    (b'{"kind":', "split view"),
    (b'{"payload":', "envelope"),
    (b'{"at":', "record"),
)


@dataclass(frozen=True)
class Given:
    """One file. `raw`: all of its bytes; empty for a bundle and for tiles, which are read bit by bit."""

    name: str
    path: Path
    kind: Kind
    raw: bytes


def given(name: str) -> Given:
    """The file by that name. Raises `NoInput`, `Denied`, `IOFailure`, or `BadData` where it is of no kind."""
    path = Path(name)
    try:
        with open(path, "rb", opener=without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NoInput(
                    f"{name}: expected a file", hint="a pipe or a device has no end to rely on"
                )
            head = file.read(64)
            kind = next((kind for begin, kind in _BEGINNINGS if head.startswith(begin)), None)
            if kind == "bundle":
                return Given(name, path, kind, b"")
            raw = head + file.read(BYTES_MAX + 1 - len(head))
    except IsADirectoryError:
        if (path / "manifest.json").exists():
            raise BadData(
                f"{name}: expected a file, or the folder of a log's tiles, found an unpacked bundle",
                hint="a bundle is checked unopened: causebook check FILE.zip",
            ) from None
        if not (path / "checkpoint").is_file():
            raise NoInput(
                f"{name}: expected a file, or the folder of a log's tiles, found a folder without checkpoint",
                hint="causebook export --tiles DIR writes one; a bundle is checked unopened",
            ) from None
        return Given(name, path, "tiles", b"")
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise NoInput(f"{name}: expected a file, found none") from None
    except PermissionError:
        raise Denied(f"{name}: not readable by this user") from None
    except OSError as error:
        raise IOFailure(f"{name}: {error.strerror}") from None
    if len(raw) > BYTES_MAX:
        raise BadData(f"{name}: expected at most {BYTES_MAX} bytes of this kind, found more")
    if kind is None and _is_note(raw):
        kind = "checkpoint"
    if kind is None:
        raise BadData(
            f"{name}: expected a bundle, a proof, a record, a checkpoint, heads or an attestation, "
            "found something else",
            hint="causebook prove and causebook export write them",
        )
    return Given(name, path, kind, raw)


def _is_note(raw: bytes) -> bool:
    """Whether it may be a note, be it one that was cut."""
    try:
        lines = raw.decode().split("\n")
    except UnicodeDecodeError:
        return False
    return len(lines) > 2 and lines[1].isdecimal()
