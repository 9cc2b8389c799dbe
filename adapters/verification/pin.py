"""A pin: what one look verified of a ledger, and the bytes it is kept as.

One line of canonical JSON and a LF (the keys sorted; `root` is 32 bytes in base64):

    {"at":"2026-11-29T15:36:00Z","checkpoint":"<the note, or null>","checkpoints":3,"format":1,
     "founding":"<64 hex>","ledger_digest":"<64 hex>","ledger_version":4,
     "locations":["sqlite:////srv/ledger.db"],"origin":"audit.example.com/team","root":"<base64>","root_key":"<base64>","size":1100}

This module takes values and bytes; where pins lie and how they move is adapters/verification/pins.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Self

from ...domain.canonical import INTEGER_MAX, decode, encode
from ...domain.checkpoint import SignedCheckpoint
from ...domain.encoding import base64_text, hash_bytes
from ...domain.errors import BadData
from ...domain.keyring import raw_key
from ...domain.record import is_origin

FORMAT: Final = 1
PIN_BYTES_MAX: Final = 256 * 1024

_KEYS: Final = [
    *("at", "checkpoint", "checkpoints", "format", "founding", "ledger_digest", "ledger_version"),
    *("locations", "origin", "root", "root_key", "size"),
]
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_AT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(frozen=True)
class Looked:
    """What one look verified of a ledger.

    `size`, `root` (32 bytes): all of its records, sealed or not. `ledger_version`, `ledger_digest`: the last
    record of the stream `ledger`. `checkpoint`: the newest one verified, as its log key signed it;
    `checkpoints`: how many the store held up to that one's size. `root_key`: base64 of its
    SubjectPublicKeyInfo; digests in hex.
    """

    origin: str
    founding: str
    root_key: str
    ledger_version: int
    ledger_digest: str
    size: int
    root: bytes
    checkpoint: SignedCheckpoint | None = None
    checkpoints: int = 0


@dataclass(frozen=True)
class Pin:
    """What was seen at the newest look, `at` what time (UTC, seconds), and every place it was seen at."""

    seen: Looked
    locations: tuple[str, ...]
    at: str

    @property
    def date(self) -> str:
        """The day of the look."""
        return self.at[:10]

    @property
    def raw(self) -> bytes:
        """The bytes of the pin's file."""
        seen = self.seen
        document = {
            "at": self.at,
            "checkpoint": None if seen.checkpoint is None else seen.checkpoint.note.raw.decode(),
            "checkpoints": seen.checkpoints,
            "format": FORMAT,
            "founding": seen.founding,
            "ledger_digest": seen.ledger_digest,
            "ledger_version": seen.ledger_version,
            "locations": list(self.locations),
            "origin": seen.origin,
            "root": base64_text(seen.root),
            "root_key": seen.root_key,
            "size": seen.size,
        }
        return encode(document) + b"\n"

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """The pin that `raw` is. Raises `ValueError` saying what is wrong."""
        if len(raw) > PIN_BYTES_MAX or not raw.endswith(b"\n"):
            raise ValueError(f"expected one line of at most {PIN_BYTES_MAX} bytes")
        document = decode(raw[:-1])
        if not isinstance(document, dict) or list(document) != _KEYS:
            raise ValueError(f"expected exactly the keys {', '.join(_KEYS)}")
        if type(document["format"]) is not int or document["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT}, found {document['format']!a:.20}")
        locations = document["locations"]
        if not isinstance(locations, list) or not all(isinstance(each, str) for each in locations):
            raise ValueError("locations: expected a list of strings")
        if not _matches(_AT, document["at"]):
            raise ValueError("at: expected a time like 2026-11-30T15:36:00Z")
        return cls(_looked(document), tuple(locations), document["at"])


def _looked(document: dict[str, Any]) -> Looked:
    origin, root_key, root = document["origin"], document["root_key"], document["root"]
    if not isinstance(origin, str) or not is_origin(origin):
        raise ValueError("origin: expected a name without blanks, '+' or controls")
    for name in ("founding", "ledger_digest"):
        if not _matches(_DIGEST, document[name]):
            raise ValueError(f"{name}: expected 64 hex digits")
    for name in ("size", "ledger_version"):
        if type(document[name]) is not int or not 1 <= document[name] <= INTEGER_MAX:
            raise ValueError(f"{name}: expected a whole number from 1")
    if type(document["checkpoints"]) is not int or not 0 <= document["checkpoints"] <= INTEGER_MAX:
        raise ValueError("checkpoints: expected a whole number")
    if not isinstance(root_key, str) or not isinstance(root, str):
        raise ValueError("root_key, root: expected base64")
    raw_key(root_key)
    return Looked(
        origin=origin,
        founding=document["founding"],
        root_key=root_key,
        ledger_version=document["ledger_version"],
        ledger_digest=document["ledger_digest"],
        size=document["size"],
        root=hash_bytes(root),
        checkpoint=_noted(document["checkpoint"]),
        checkpoints=document["checkpoints"],
    )


def _noted(text: object) -> SignedCheckpoint | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError("checkpoint: expected a signed note, or null")
    try:
        return SignedCheckpoint.parse(text.encode())
    except BadData as error:
        raise ValueError(error.message) from None


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
