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
"""Below it zlib leaves a body as it is: to make it smaller costs more than the disk it saves."""
WINDOW_BITS, MEMORY_LEVEL = 13, 6
"""Of the compressor: its defaults clear a quarter of a megabyte an item, which costs more than packing it."""


def _by_zlib(body: bytes) -> bytes:
    return _at_level(COMPRESSION_LEVEL if len(body) >= COMPRESSED_BYTES_MIN else 0, body)


def _at_level(level: int, body: bytes) -> bytes:
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
    smaller = compressed(body)
    return smaller if len(smaller) < len(body) else _at_level(0, body)


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
