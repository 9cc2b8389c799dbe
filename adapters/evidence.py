"""Evidence as a store keeps it: one item read back, its commitment checked."""

from __future__ import annotations

from ..domain.errors import BadData
from .reading import evidence_fault, unpacked
from .store.port import Store


def stored_text(store: Store, commitment: str) -> str | None:
    """The text committed to; None where it is erased. Raises `BadData` where the bytes are not those."""
    row = store.evidence(commitment)
    if row is None:
        return None
    fault = evidence_fault(row)
    if fault is not None:
        raise BadData(
            f"evidence {commitment[:8]}…: not the bytes that were committed to: {fault}",
            hint="causebook verify says what is wrong with the ledger",
        )
    return unpacked(row).decode("utf-8", "surrogatepass")
