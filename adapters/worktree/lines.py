"""The lines of a file, found in one pass and in bounded memory. They end at LF and nowhere else.

A file with a null byte near its beginning is binary and has no lines.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from .confined import Found, Tree
from .limits import Limits
from .objects import blob_hasher

_BINARY_PROBE_BYTES = 8_000


@dataclass(frozen=True)
class Scan:
    """What one pass over a file brought: `kept` are the bytes of the lines asked for, up to one byte
    more than may be answered; `short`: there is more of them, that was not read, because `scan_bytes_max`
    were; `lines` counts the whole file, None where the pass stopped early."""

    kept: bytes
    short: bool
    lines: int | None
    size: int
    binary: bool
    blob: str | None


class _Wanted:
    """Takes a file in chunks and keeps its lines `start` to `end` (None: the last), up to one byte more
    than may be answered."""

    def __init__(self, start: int, end: int | None, bytes_max: int) -> None:
        self.kept = bytearray()
        self.done = False
        self._start, self._end = start, end
        self._bytes_max = bytes_max
        self._line = 1

    def take(self, chunk: bytes) -> None:
        if self._line < self._start:
            pieces = chunk.split(b"\n", self._start - self._line)
            self._line += len(pieces) - 1
            if self._line < self._start:
                return
            chunk = pieces[-1]
        if self._end is not None:
            wanted = self._end - self._line + 1
            pieces = chunk.split(b"\n", wanted)
            self._line += len(pieces) - 1
            if len(pieces) > wanted:
                chunk = chunk[: len(chunk) - len(pieces[-1])]
                self.done = True
        self.kept += chunk[: self._bytes_max + 1 - len(self.kept)]
        self.done = self.done or len(self.kept) > self._bytes_max


def scan_lines(
    descriptor: int,
    size: int,
    start: int,
    end: int | None,
    object_format: str | None,
    limits: Limits,
) -> Scan:
    """One pass over a file of `size` bytes, in bounded memory, for its lines `start` to `end`."""
    whole = size <= limits.whole_bytes_max
    hasher = blob_hasher(size, object_format) if object_format and whole else None
    wanted, binary, stopped = _Wanted(start, end, limits.read_bytes_max), False, False
    read, ends, last = 0, 0, b"\n"
    # One byte more than the limit is read, to know whether the file goes on.
    while chunk := os.read(descriptor, min(limits.chunk_bytes, limits.scan_bytes_max + 1 - read)):
        binary = binary or (not read and b"\0" in chunk[:_BINARY_PROBE_BYTES])
        read += len(chunk)
        ends += chunk.count(b"\n")
        last = chunk[-1:]
        if hasher is not None:
            hasher.update(chunk)
        if not binary and not wanted.done:
            wanted.take(chunk)
        if (not whole and (binary or wanted.done)) or read > limits.scan_bytes_max:
            stopped = True
            break
    return Scan(
        kept=bytes(wanted.kept),
        short=stopped and not binary and not wanted.done,
        lines=None if stopped else ends + (last != b"\n"),
        size=max(size, read) if stopped else read,
        binary=binary or b"\0" in wanted.kept,
        blob=hasher.hexdigest() if hasher is not None and not stopped and read == size else None,
    )


def count_lines(found: Found, chunk_bytes: int) -> int:
    """Lines of a file, 0 for a binary one. It reads no more than the size that was seen."""
    descriptor = Tree.file(found.folder, found.name, found.status.st_mode)
    left, ends, last, first = found.status.st_size, 0, b"\n", True
    try:
        while left > 0 and (chunk := os.read(descriptor, min(left, chunk_bytes))):
            if first and b"\0" in chunk[:_BINARY_PROBE_BYTES]:
                return 0
            left, first, last = left - len(chunk), False, chunk[-1:]
            ends += chunk.count(b"\n")
    finally:
        os.close(descriptor)
    return ends + (last != b"\n")
