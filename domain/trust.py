"""The trust file: what an auditor was given of a ledger by hand, to hold it against ever after.

    {"founding":"<64 hex>","kind":"causebook-trust","ledger":"audit.example.com/team",
     "root_key":"<base64>","ledger_digest":"<64 hex>","ledger_index":120,"ledger_version":7}

One line of canonical JSON (the keys sorted, unlike above) and a LF. `founding` is the digest of
`LedgerFounded`, `root_key` the key in it. `ledger_version` and `ledger_digest` name the last record of the
stream `ledger` when the file was written, and `ledger_index` where it stands in the log, counted from 0. A
ledger of more records than that which does not hold it lost an enrolment or an erasure since, or the end of
a key; a log of `ledger_index` records or fewer was sealed before it was written.

Nothing in the file is secret, and nothing in it is signed: it is worth what the way it came by is worth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from .canonical import decode, encode
from .errors import BadData
from .keyring import raw_key
from .record import is_origin

KIND: Final = "causebook-trust"
TRUST_BYTES_MAX: Final = 4096

_KEYS: Final = [
    *("founding", "kind", "ledger", "ledger_digest", "ledger_index", "ledger_version", "root_key"),
]
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Trust:
    """A ledger as somebody knew it. `root_key`: base64 of its DER SubjectPublicKeyInfo; digests in hex."""

    origin: str
    founding: str
    root_key: str
    ledger_version: int
    ledger_digest: str
    ledger_index: int

    @property
    def raw(self) -> bytes:
        """The bytes of the file."""
        document = {
            "founding": self.founding,
            "kind": KIND,
            "ledger": self.origin,
            "ledger_digest": self.ledger_digest,
            "ledger_index": self.ledger_index,
            "ledger_version": self.ledger_version,
            "root_key": self.root_key,
        }
        return encode(document) + b"\n"

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """The trust that `raw` is. Raises `BadData` naming the first rule it breaks."""
        if len(raw) > TRUST_BYTES_MAX or not raw.endswith(b"\n"):
            raise _wrong(f"expected one line, its end included, of at most {TRUST_BYTES_MAX} bytes")
        try:
            document = decode(raw[:-1])
        except ValueError as error:
            raise _wrong(str(error)) from None
        if not isinstance(document, dict) or list(document) != _KEYS or document["kind"] != KIND:
            raise _wrong(f"expected exactly the keys {', '.join(_KEYS)}, and the kind {KIND}")
        founding, _, origin, digest, index, version, root_key = document.values()
        if not isinstance(origin, str) or not is_origin(origin):
            raise _wrong("ledger: expected an origin without spaces, '+' or controls")
        for name, value in (("founding", founding), ("ledger_digest", digest)):
            if not isinstance(value, str) or _DIGEST.fullmatch(value) is None:
                raise _wrong(f"{name}: expected 64 lower-case hex digits")
        if type(version) is not int or version < 1:
            raise _wrong("ledger_version: expected a whole number from 1")
        if version == 1 and digest != founding:
            raise _wrong("ledger_digest: expected the founding, which is version 1")
        if type(index) is not int or index < version - 1:
            raise _wrong("ledger_index: expected a whole number, of at least the records before it")
        if version == 1 and index != 0:
            raise _wrong("ledger_index: expected 0, where the founding stands")
        if not isinstance(root_key, str):
            raise _wrong("root_key: expected base64")
        try:
            raw_key(root_key)
        except ValueError as error:
            raise _wrong(f"root_key: {error}") from None
        return cls(origin, founding, root_key, version, digest, index)


def _wrong(why: str) -> BadData:
    return BadData(f"trust file: {why}", hint="causebook keys export --trust writes one")
