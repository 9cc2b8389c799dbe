"""The lines of a file, found in one pass and in bounded memory. They end at LF and nowhere else.

A file with a null byte near its beginning is binary and has no lines. One that holds a private key is
withheld (`withheld.py`), whichever lines are asked for. One that is too large to be read to its end is
searched as far as it is read, and a little on, so that no part of a key is shown.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...domain.ports import ReadResult
from .confined import Found, Refused, Tree
from .limits import Limits
from .objects import blob_hasher
from .text import noted, text_within
from .withheld import AHEAD_BYTES, WITHHELD, KeySearch

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
    holds_key: bool


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
    read, ends, last, search = 0, 0, b"\n", KeySearch()
    # One byte more than the limit is read, to know whether the file goes on.
    while chunk := os.read(descriptor, min(limits.chunk_bytes, limits.scan_bytes_max + 1 - read)):
        binary = binary or (not read and b"\0" in chunk[:_BINARY_PROBE_BYTES])
        read += len(chunk)
        ends += chunk.count(b"\n")
        last = chunk[-1:]
        search.feed(chunk)
        if hasher is not None:
            hasher.update(chunk)
        if not binary and not wanted.done:
            wanted.take(chunk)
        if (not whole and (binary or wanted.done)) or read > limits.scan_bytes_max:
            stopped = True
            break
    ahead = AHEAD_BYTES if stopped else 0
    while ahead > 0 and (chunk := os.read(descriptor, min(limits.chunk_bytes, ahead))):
        search.feed(chunk)
        ahead -= len(chunk)
    return Scan(
        kept=bytes(wanted.kept),
        short=stopped and not binary and not wanted.done,
        lines=None if stopped else ends + (last != b"\n"),
        size=max(size, read) if stopped else read,
        binary=binary or b"\0" in wanted.kept,
        blob=hasher.hexdigest() if hasher is not None and not stopped and read == size else None,
        holds_key=search.found,
    )


def lines_of(
    scan: Scan, start: int, end: int | None, blob: str | None, limits: Limits
) -> ReadResult:
    """The answer of a read for lines `start` to `end`. Raises `Refused` where there is none to give."""
    if scan.holds_key:
        raise Refused(WITHHELD)
    if scan.binary:
        return ReadResult(f"binary, {scan.size:,} bytes", blob=blob)
    if not scan.kept and end is not None:
        if scan.lines is None:
            raise Refused(f"line {start} is past what is read, {limits.scan_bytes_max:,} bytes")
        lines = f"{scan.lines:,} {'line' if scan.lines == 1 else 'lines'}"
        raise Refused(f"has {lines}; line {start:,} is beyond the end")
    of = "" if scan.lines is None else f" of {scan.lines:,}"
    text, count, cut = text_within(scan.kept, limits.read_bytes_max, more=scan.short)
    last = start + count - 1
    if scan.short and count == scan.kept.count(b"\n"):
        held = f"lines {start:,}-{last:,}" if count else f"a part of line {start:,}"
        end_of = f"only the first {limits.scan_bytes_max:,} bytes of a file are read"
        text = noted(text, f"[cut: {held}; {end_of}]")
    elif cut and count:
        note = f"[cut: lines {start:,}-{last:,}{of}; read the rest with read_file_lines]"
        text = noted(text, note)
    elif cut:
        text = noted(
            text, f"[cut: line {start:,}{of} is longer than {limits.read_bytes_max:,} bytes]"
        )
    return ReadResult(text, (start, last) if count else None, cut, blob=blob)


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
