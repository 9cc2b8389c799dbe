"""Evidence as a store keeps it: packed, and one item read back with its commitment checked."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial

from ..domain.errors import BadData
from .reading import evidence_fault, unpacked
from .store.port import Store

COMPRESSION_LEVEL = 1
"""Evidence is compressed for its size on disk, on the path of every turn: fast beats small."""
COMPRESSED_BYTES_MIN = 512
"""Below it a body is stored as it is: packing it costs more than the disk it saves."""
WINDOW_BITS, MEMORY_LEVEL = 13, 6
"""Of the compressor: its defaults clear a quarter of a megabyte an item, which costs more than packing it."""


def _by_zlib(body: bytes, level: int = COMPRESSION_LEVEL) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL)
    return packer.compress(body) + packer.flush()


compressed: Callable[[bytes], bytes]
"""By ISA-L where the extra `fast` is: a quarter of the time, for text that stays a fifth larger."""
try:
    from isal.isal_zlib import compress

    compressed = partial(compress, level=0)
except ImportError:
    compressed = _by_zlib


def packed(body: bytes, compressed: Callable[[bytes], bytes] = compressed) -> bytes:
    """A body as it is stored: in zlib's format, and at most a few bytes longer than it is."""
    if len(body) >= COMPRESSED_BYTES_MIN and len(smaller := compressed(body)) < len(body):
        return smaller
    return _by_zlib(body, level=0)


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
