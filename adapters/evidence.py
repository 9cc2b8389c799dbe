"""Evidence as a store keeps it: packed, and one item read back with its commitment checked."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
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


def zlib_packed(body: bytes) -> bytes:
    """A body in zlib's format, by zlib."""
    level = COMPRESSION_LEVEL if len(body) >= COMPRESSED_BYTES_MIN else 0
    packer = zlib.compressobj(level, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL)
    return packer.compress(body) + packer.flush()


packed: Callable[[bytes], bytes] = zlib_packed
"""A body as it is stored, in zlib's format."""
with suppress(ImportError):  # the extra `fast`: in a quarter of the time
    from isal.isal_zlib import compress

    packed = partial(compress, level=0)  # the fastest of its levels, and no less than zlib's first


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
