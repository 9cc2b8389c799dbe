"""The zip file of a bundle: one spelling, and a reader that takes no other.

A bundle is a zip file (PKWARE APPNOTE 6.3) of which every byte follows from its entries, so that the same
entries give the same file, whoever writes it:

    entries      in the order of their names' bytes, `manifest.json` last; nothing before, between or after
    names        ASCII, parts of A-Z a-z 0-9 . _ - parted by "/", each beginning with a letter or a digit,
                 200 bytes at most
    method       0, stored: what deflate comes to differs from one build of zlib to the next, and what is not
                 compressed cannot unpack to more than it is
    times        1980-01-01 00:00:00; flags 0; version 2.0; made by Unix; mode 0100644; no extra, no comment
    directory    right after the last entry; with 65,535 entries or more, its end in zip64's form too

The reader encodes again what it reads and compares, which leaves no room for two directories, for entries
that overlap, or for sizes that lie. What has a name of its own among attacks is looked for first, so that the
error says it. Nothing is ever written to disk, and no name of an entry is ever used as a path.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from ...domain.errors import BadData, CannotCreate, IOFailure
from ...domain.limits import EVIDENCE_BYTES_MAX
from ...domain.streams import shorten
from ..findings import TAMPERED, TORN

MANIFEST: Final = "manifest.json"
ENTRY_BYTES_MAX: Final = EVIDENCE_BYTES_MAX
ENTRIES_MAX: Final = 300_000
ARCHIVE_BYTES_MAX: Final = 0xFFFF_FFFE
"""Of all entries, headers included: where the directory begins, which an offset of 32 bits has to reach."""

DIRECTORY_BYTES_MAX: Final = 64 * 1024 * 1024
NAME_BYTES_MAX: Final = 200
MAGIC: Final = b"PK\x03\x04"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*", re.ASCII)

_LOCAL: Final = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL: Final = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END: Final = struct.Struct("<4sHHHHIIH")
_END64: Final = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR64: Final = struct.Struct("<4sIQI")
FILE_BYTES_MAX: Final = (
    ARCHIVE_BYTES_MAX + DIRECTORY_BYTES_MAX + _END64.size + _LOCATOR64.size + _END.size
)
_CENTRAL_MAGIC: Final = b"PK\x01\x02"
_END_MAGIC: Final = b"PK\x05\x06"
_MIDNIGHT_1980: Final = (0, 0x21)
_VERSION: Final = 20
_MADE_BY: Final = 0x0314
_MODE: Final = (stat.S_IFREG | 0o644) << 16
_COMMENT_BYTES_MAX: Final = 0xFFFF


class BundleError(BadData):
    """A file that is not a bundle as causebook writes one. `code`: 25 where it ends early, else 28."""

    def __init__(self, message: str, code: int = TAMPERED) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Entry:
    """One file in the archive. `offset`: where its header begins; `size` in bytes."""

    name: str
    size: int
    crc: int
    offset: int

    @property
    def local(self) -> bytes:
        """The header before its bytes."""
        name = self.name.encode()
        return (
            _LOCAL.pack(
                *(MAGIC, _VERSION, 0, 0, *_MIDNIGHT_1980),
                *(self.crc, self.size, self.size, len(name), 0),
            )
            + name
        )

    @property
    def central(self) -> bytes:
        """Its line in the directory."""
        name = self.name.encode()
        return (
            _CENTRAL.pack(
                *(_CENTRAL_MAGIC, _MADE_BY, _VERSION, 0, 0, *_MIDNIGHT_1980),
                *(self.crc, self.size, self.size, len(name), 0, 0, 0, 0, _MODE, self.offset),
            )
            + name
        )

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.offset + _LOCAL.size + len(self.name) + self.size


def order(name: str) -> tuple[bool, bytes]:
    """What entries are sorted by."""
    return name == MANIFEST, name.encode()


def _directory_end(count: int, size: int, offset: int) -> bytes:
    end = _END.pack(_END_MAGIC, 0, 0, min(count, 0xFFFF), min(count, 0xFFFF), size, offset, 0)
    if count < 0xFFFF:
        return end
    end64 = _END64.pack(
        b"PK\x06\x06", _END64.size - 12, _MADE_BY, 45, 0, 0, count, count, size, offset
    )
    return end64 + _LOCATOR64.pack(b"PK\x06\x07", 0, offset + size, 1) + end


def write_archive(file: BinaryIO, files: Iterable[tuple[str, bytes]]) -> None:
    """Write these (name, bytes), which come in order. Raises `CannotCreate` where they are too much for one.

    Memory: one file at a time, and a line of the directory for each.
    """
    directory: list[bytes] = []
    offset, last = 0, (False, b"")
    for name, content in files:
        if _NAME.fullmatch(name) is None or order(name) <= last or len(name) > NAME_BYTES_MAX:
            raise ValueError(f"{name}: expected a name in order")
        last = order(name)
        entry = Entry(name, len(content), zlib.crc32(content), offset)
        offset = entry.end
        if (
            len(content) > ENTRY_BYTES_MAX
            or len(directory) >= ENTRIES_MAX
            or offset > ARCHIVE_BYTES_MAX
        ):
            raise CannotCreate(
                f"bundle: expected at most {ARCHIVE_BYTES_MAX:,} bytes in {ENTRIES_MAX:,} files, found more",
                hint="leave --evidence out, or hand the whole log over: causebook export --tiles DIR",
            )
        file.write(entry.local)
        file.write(content)
        directory.append(entry.central)
    lines = b"".join(directory)
    if len(lines) > DIRECTORY_BYTES_MAX:
        raise CannotCreate(
            f"bundle: expected at most {DIRECTORY_BYTES_MAX:,} bytes of directory, found more",
            hint="hand the whole log over: causebook export --tiles DIR",
        )
    file.write(lines + _directory_end(len(directory), len(lines), offset))


class Archive:
    """The entries of a bundle's file, which stays open meanwhile. Every fault is a `BundleError`.

    Memory: what the directory says, some 300 bytes an entry, and one entry's bytes while they are read.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self.entries: dict[str, Entry] = {}
        offset = 0
        for entry in self._directory():
            self._require_local(entry, offset)
            self.entries[entry.name] = entry
            offset = entry.end
        if offset != self._directory_offset:
            raise BundleError(
                f"directory: expected its first line after the last entry, at byte {offset}, "
                f"found it at {self._directory_offset}"
            )

    def read(self, name: str) -> bytes:
        """The bytes of one entry."""
        entry = self.entries.get(name)
        if entry is None:
            raise BundleError(f"{shorten(name)}: expected a file by this name, found none")
        content = self._at(entry.offset + _LOCAL.size + len(entry.name), entry.size)
        if zlib.crc32(content) != entry.crc:
            raise BundleError(f"{name}: expected bytes with the checksum that the directory says")
        return content

    def _at(self, offset: int, length: int) -> bytes:
        try:
            self._file.seek(offset)
            content = self._file.read(length)
        except OSError as error:
            raise IOFailure(f"bundle: {error.strerror}") from None
        if len(content) != length:
            raise BundleError(
                f"bundle: expected {length} bytes at {offset}, found {len(content)}", TORN
            )
        return content

    # ── the directory ────────────────────────────────────────────────────────────────────────────────

    def _directory(self) -> Iterator[Entry]:
        """The entries as the directory lists them, each one looked at."""
        count, size, offset = self._find_directory()
        self._directory_offset = offset
        lines, at, previous = self._at(offset, size), 0, (False, b"")
        for _ in range(count):
            if len(lines) - at < _CENTRAL.size:
                raise BundleError(
                    f"directory: expected {count} entries, found fewer in its {size} bytes"
                )
            entry, length = _entry(lines, at)
            if order(entry.name) == previous:
                raise BundleError(f"{entry.name}: expected each name once, found it twice")
            if order(entry.name) < previous:
                raise BundleError(f"{entry.name}: expected names in order")
            previous, at = order(entry.name), at + length
            yield entry
        if at != len(lines):
            raise BundleError(f"directory: expected {count} entries, found more bytes after them")

    def _find_directory(self) -> tuple[int, int, int]:
        """How many entries it lists, how long it is and where it begins."""
        if self.size > FILE_BYTES_MAX:
            raise BundleError(f"bundle: expected at most {FILE_BYTES_MAX:,} bytes, found more")
        if self.size < _END.size:
            raise self._ends_early()
        end = self._at(self.size - _END.size, _END.size)
        if end[:4] != _END_MAGIC:
            length = min(self.size, _COMMENT_BYTES_MAX + _END.size)
            last = self._at(self.size - length, length).rfind(_END_MAGIC)
            if last < 0 or length - last < _END.size:
                raise self._ends_early()
            raise BundleError("bundle: expected nothing after its directory, found more bytes")
        _, _, _, _, count, size, offset, _ = _END.unpack(end)
        if count == 0xFFFF:
            count = self._count64()
        if count > ENTRIES_MAX:
            raise BundleError(f"directory: expected at most {ENTRIES_MAX} entries, found {count}")
        expected = _directory_end(count, size, offset)
        start = self.size - len(expected)
        if offset + size != start:
            raise BundleError(
                f"directory: expected it to end where its own end begins, at byte {start}, "
                f"found {offset + size}"
            )
        if size > DIRECTORY_BYTES_MAX:
            raise BundleError(
                f"directory: expected at most {DIRECTORY_BYTES_MAX:,} bytes, found {size:,}"
            )
        if self._at(start, len(expected)) != expected:
            raise BundleError("directory: expected an end that agrees with itself")
        return count, size, offset

    def _count64(self) -> int:
        start = self.size - _END.size - _LOCATOR64.size - _END64.size
        if start < 0:
            raise BundleError("directory: expected zip64's end before its own")
        return int(_END64.unpack(self._at(start, _END64.size))[6])

    def _ends_early(self) -> BundleError:
        return BundleError(
            "bundle: expected a directory at its end, found that it ends early", TORN
        )

    def _require_local(self, entry: Entry, offset: int) -> None:
        if entry.offset != offset:
            raise BundleError(
                f"{entry.name}: expected its bytes right after the one before, at {offset}, "
                f"found them at {entry.offset}"
            )
        if entry.end > self._directory_offset:
            raise BundleError(f"{entry.name}: expected {entry.size} bytes, found fewer")
        header = entry.local
        if self._at(offset, len(header)) != header:
            raise BundleError(f"{entry.name}: expected a header that says what the directory says")


def _entry(lines: bytes, at: int) -> tuple[Entry, int]:
    """The entry that the directory lists at a place, and how long its line is.

    What has a name among attacks is said by that name; for all else the line is compared with the one that
    the entry has.
    """
    (
        _, _, _, flags, method, _, _, crc, packed, size, name_bytes, _, _, _, _, mode, offset
    ) = _CENTRAL.unpack_from(lines, at)  # fmt: skip
    raw = lines[at + _CENTRAL.size : at + _CENTRAL.size + name_bytes]
    name = _name(raw)
    if flags & 0x2041:
        raise BundleError(f"{name}: expected a file in the clear, found an encrypted one")
    if stat.S_IFMT(mode >> 16) not in (0, stat.S_IFREG):
        raise BundleError(f"{name}: expected a file, found a link, a folder or a device")
    if method != 0:
        raise BundleError(f"{name}: expected it stored as it is, found it compressed")
    if packed != size:
        raise BundleError(f"{name}: expected one size, found {packed} stored and {size} unpacked")
    if size > ENTRY_BYTES_MAX:
        raise BundleError(f"{name}: expected at most {ENTRY_BYTES_MAX:,} bytes, found {size:,}")
    entry = Entry(name, size, crc, offset)
    line = entry.central
    if lines[at : at + len(line)] != line:
        raise BundleError(f"{name}: expected a line of the directory as causebook writes it")
    return entry, len(line)


def _name(raw: bytes) -> str:
    shown = shorten(raw.decode("ascii", "backslashreplace"))
    if len(raw) > NAME_BYTES_MAX:
        raise BundleError(f"a name: expected at most {NAME_BYTES_MAX} bytes, found {len(raw)}")
    text = raw.decode("latin-1")
    if text.startswith(("/", "\\")) or text[1:2] == ":":
        raise BundleError(f"{shown}: expected a name inside the bundle, found an absolute one")
    if ".." in re.split(r"[/\\]", text):
        raise BundleError(f"{shown}: expected a name inside the bundle, found one that leads out")
    if _NAME.fullmatch(text) is None:
        raise BundleError(f"{shown}: expected a name of A-Z a-z 0-9 . _ - and /")
    return text
