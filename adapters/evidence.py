"""Evidence as a store keeps it: one item read back, its commitment checked."""

from __future__ import annotations

import zlib

from ..domain.errors import BadData
from ..domain.evidence import commit
from ..domain.limits import EVIDENCE_BYTES_MAX
from .store.port import Store


def stored_text(store: Store, commitment: str) -> str | None:
    """The text committed to; None where it is erased. Raises `BadData` where the bytes are not those."""
    row = store.evidence(commitment)
    if row is None:
        return None
    unpacking = zlib.decompressobj()
    try:
        body = unpacking.decompress(row.body, EVIDENCE_BYTES_MAX + 1)
        if len(body) <= EVIDENCE_BYTES_MAX and commit(row.salt, body) == commitment:
            return body.decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):
        pass
    raise BadData(
        f"evidence {commitment[:8]}…: not the bytes that were committed to",
        hint="causebook verify says what is wrong with the ledger",
    )
