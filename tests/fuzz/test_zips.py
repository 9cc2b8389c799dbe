"""Zips that are not what a bundle is: refused by the directory alone, whatever it says, and in little memory.

`Zip` writes entry by entry what it is told, true or not, as `zipfile` would not.
"""

from __future__ import annotations

import io
import struct
import tempfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from causebook.adapters.bundle.archive import (
    ENTRIES_MAX,
    ENTRY_BYTES_MAX,
    Archive,
    BundleError,
    write_archive,
)
from causebook.adapters.findings import TAMPERED, TORN
from causebook.domain.errors import CannotCreate

LOCAL = struct.Struct("<4sHHHHHIIIHH")
CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
END = struct.Struct("<4sHHHHIIH")
_SHARED = ("flags", "method", "time", "date", "crc", "packed", "size", "name", "extra")
LOCAL_FIELDS = ("magic", "needs", *_SHARED)
CENTRAL_FIELDS = (
    "magic",
    "made",
    "needs",
    *_SHARED,
    "comment",
    "disk",
    "internal",
    "mode",
    "offset",
)
END_FIELDS = ("magic", "disk", "start", "here", "count", "size", "offset", "comment")

FILES = (("a.txt", b"first"), ("b/c.bin", bytes(range(256))), ("manifest.json", b"{}\n"))


def opened(data: bytes) -> dict[str, bytes]:
    """What the reader takes the file for."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        archive = Archive(file)
        return {name: archive.read(name) for name in archive.entries}


def written(*files: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    write_archive(file, files)
    return file.getvalue()


class Zip:
    """A zip in the making. `add` and `end` take any field of a header, by name, to say otherwise."""

    def __init__(self) -> None:
        self.data, self.directory, self.count = b"", b"", 0

    def add(
        self,
        name: bytes,
        content: bytes,
        *,
        local: dict[str, Any] | None = None,
        central: dict[str, Any] | None = None,
        after: bytes = b"",
    ) -> Zip:
        """An entry; `after` its bytes comes what a header does not tell of."""
        size = len(content)
        said = {"magic": b"PK\x03\x04", "needs": 20, "flags": 0, "method": 0, "time": 0}
        said |= {"date": 0x21, "crc": zlib.crc32(content), "packed": size, "size": size}
        said |= {"name": len(name), "extra": 0}
        listed = {**said, "magic": b"PK\x01\x02", "made": 0x0314, "comment": 0, "disk": 0}
        listed |= {"internal": 0, "mode": 0o100644 << 16, "offset": len(self.data)}
        said, listed = {**said, **(local or {})}, {**listed, **(central or {})}
        self.data += LOCAL.pack(*(said[field] for field in LOCAL_FIELDS)) + name + content + after
        self.directory += CENTRAL.pack(*(listed[field] for field in CENTRAL_FIELDS)) + name
        self.count += 1
        return self

    def end(self, *, before: bytes = b"", after: bytes = b"", **said: Any) -> bytes:
        """The whole file, with bytes before and after its directory's end."""
        fields = {"magic": b"PK\x05\x06", "disk": 0, "start": 0, "here": self.count & 0xFFFF}
        fields |= {"count": self.count & 0xFFFF, "size": len(self.directory)}
        fields |= {"offset": len(self.data), "comment": 0} | said
        end = END.pack(*(fields[field] for field in END_FIELDS))
        return self.data + self.directory + before + end + after


def plain() -> Zip:
    made = Zip()
    for name, content in FILES:
        made.add(name.encode(), content)
    return made


def test_what_is_made_here_is_what_causebook_writes_so_that_each_lie_below_is_the_only_one() -> (
    None
):
    assert plain().end() == written(*FILES)
    assert opened(plain().end()) == dict(FILES)


# ── lies ─────────────────────────────────────────────────────────────────────────────────────────────

EDGES = (0, 1, 2, 7, 8, 20, 45, 0x7F, 0xFF, 0x0800, 0x2041, 0x7FFF, 0xFFFE, 0xFFFF)
WIDE = (*EDGES, 0x1_0000, 0x7FFF_FFFF, 0xFFFF_FFFE, 0xFFFF_FFFF, 0o120777 << 16, 0o040755 << 16)


def lies() -> Iterator[tuple[str, bytes]]:
    """Every field of every header of the second entry, and of the end, at every edge of its width."""
    honest = plain().end()
    headers = (
        ("local", LOCAL, LOCAL_FIELDS, honest.index(b"PK\x03\x04", 4)),
        ("central", CENTRAL, CENTRAL_FIELDS, honest.index(b"PK\x01\x02", honest.index(b"PK\x01\x02") + 4)),
        ("end", END, END_FIELDS, honest.index(b"PK\x05\x06")),
    )  # fmt: skip
    for kind, header, fields, at in headers:
        values = list(header.unpack_from(honest, at))
        for place, (field, code) in enumerate(
            zip(fields, header.format.replace("4s", "s")[1:], strict=True)
        ):
            for value in (
                (b"PK\0\0", b"\0\0\0\0") if code == "s" else EDGES if code == "H" else WIDE
            ):
                if value != values[place]:
                    lying = header.pack(*values[:place], value, *values[place + 1 :])
                    yield (
                        f"{kind}.{field}={value!r}",
                        honest[:at] + lying + honest[at + header.size :],
                    )


def test_no_field_of_a_header_can_say_anything_else() -> None:
    tried = 0
    for what, data in lies():
        with pytest.raises(BundleError) as raised:
            opened(data)
        assert raised.value.code in (TAMPERED, TORN), what
        assert "\n" not in raised.value.message
        tried += 1
    assert tried > 400


def test_no_byte_can_be_left_out_doubled_or_changed() -> None:
    honest = plain().end()
    for at in range(len(honest)):
        for other in (
            honest[:at],
            honest[:at] + honest[at + 1 :],
            honest[:at] + honest[at : at + 1] + honest[at:],
            honest[:at] + bytes([honest[at] ^ 0x01]) + honest[at + 1 :],
        ):
            if other != honest:
                with pytest.raises(BundleError):
                    opened(other)


OVERLAPPING = {
    "two names for one place": lambda: (
        plain().add(b"z.txt", b"", central={"offset": 0, "size": 5, "packed": 5}).end()
    ),
    "one inside another": lambda: (
        Zip().add(b"a.txt", Zip().add(b"b.txt", b"inner").data, central={})
        .add(b"b.txt", b"inner", central={"offset": 35}).end()
    ),
    "the directory as a file": lambda: (
        Zip().add(b"a.txt", b"", local={"size": 51, "packed": 51}, central={"size": 51, "packed": 51}).end()
    ),
    "a gap between two": lambda: Zip().add(b"a.txt", b"x", after=b"gap").add(b"b.txt", b"y").end(),
    "a second directory": lambda: plain().end(before=plain().directory),
    "two ends": lambda: plain().end(after=plain().end()[-22:]),
    "a comment that is an end": lambda: plain().end(comment=22, after=plain().end()[-22:]),
    "bytes before the first": lambda: b"#!/bin/sh\n" + plain().end(),
}  # fmt: skip


@pytest.mark.parametrize("what", OVERLAPPING)
def test_no_byte_belongs_to_two_entries_or_to_none(what: str) -> None:
    with pytest.raises(BundleError):
        opened(OVERLAPPING[what]())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (b"a\0.txt", "expected a name of"),
        (b"a.txt\0.exe", "expected a name of"),
        ("a\u2028b".encode(), "expected a name of"),
        ("a\u202egnp.txt".encode(), "expected a name of"),
        ("a\u0301".encode(), "expected a name of"),
        (b"a\xffb", "expected a name of"),
        (b"a\nb", "expected a name of"),
        (b"a\x1b[2Jb", "expected a name of"),
        (b"", "expected a name of"),
        (b".hidden", "expected a name of"),
        (b"a//b", "expected a name of"),
        (b"a/./b", "expected a name of"),
        (b"a/", "expected a name of"),
        (b"a b", "expected a name of"),
        (b"../a", "leads out"),
        (b"a/../b", "leads out"),
        (b"a\\..\\b", "leads out"),
        (b"/etc/passwd", "an absolute one"),
        (b"\\\\host\\a", "an absolute one"),
        (b"C:a", "an absolute one"),
        (b"a" * 201, "at most 200 bytes"),
        (b"a" * 65_535, "at most 200 bytes"),
    ],
)
@pytest.mark.parametrize("flags", [0, 0x0800])
def test_a_name_that_is_none_is_said_so_on_one_line_in_ascii(
    name: bytes, said: str, flags: int
) -> None:
    with pytest.raises(BundleError, match=said) as raised:
        opened(Zip().add(name, b"x", local={"flags": flags}, central={"flags": flags}).end())
    assert raised.value.message.isascii()
    assert raised.value.message.isprintable()
    assert len(raised.value.message) < 250


@pytest.mark.parametrize("flags", [0x0001, 0x0040, 0x2000, 0x2041])
def test_an_encrypted_entry_is_said_to_be_one(flags: int) -> None:
    with pytest.raises(BundleError, match="found an encrypted one"):
        opened(Zip().add(b"a", b"x", local={"flags": flags}, central={"flags": flags}).end())


@pytest.mark.parametrize("magic", [b"", b"PK\x07\x08"])
def test_sizes_that_come_after_the_bytes_are_refused(magic: bytes) -> None:
    """A data descriptor (flag 3): the header before the bytes does not say how many there are."""
    content = b"content"
    after = magic + struct.pack("<III", zlib.crc32(content), len(content), len(content))
    unsaid = {"flags": 8, "crc": 0, "packed": 0, "size": 0}
    with pytest.raises(BundleError, match="a line of the directory as causebook writes it"):
        opened(Zip().add(b"a", content, local=unsaid, central={"flags": 8}, after=after).end())
    with pytest.raises(BundleError):
        opened(Zip().add(b"a", content, local=unsaid, after=after).end())


# ── how much ─────────────────────────────────────────────────────────────────────────────────────────


def peak_of(data: bytes) -> int:
    """The bytes allocated at once while it is refused, or read."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        tracemalloc.start()
        try:
            Archive(file)
        except BundleError:
            pass
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    return peak


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_bomb_is_refused_before_it_is_unpacked(method: int) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        made.writestr("a.txt", bytes(64 * 1024 * 1024))
    data = file.getvalue()
    with pytest.raises(BundleError, match="found it compressed"):
        opened(data)
    assert peak_of(data) < 1024 * 1024


def test_a_bomb_of_many_names_for_one_entry_is_refused() -> None:
    """As in a quine or a bomb without recursion: a thousand lines of the directory, one file."""
    made = Zip().add(b"a0000", bytes(1_000_000))
    for number in range(1, 1_000):
        honest = made.directory[: CENTRAL.size]
        made.directory += honest + b"a%04d" % number
        made.count += 1
    with pytest.raises(BundleError, match="right after the one before"):
        opened(made.end())
    assert peak_of(made.end()) < 4 * 1024 * 1024


@pytest.mark.parametrize("size", [ENTRY_BYTES_MAX + 1, 0xFFFF_FFFE, 0xFFFF_FFFF])
def test_sizes_that_are_not_there_are_not_allocated(size: int) -> None:
    said = {"size": size, "packed": size}
    data = Zip().add(b"a", b"x", local=said, central=said).end()
    with pytest.raises(BundleError, match=r"expected at most 67,108,864 bytes"):
        opened(data)
    for lie in (data, plain().end(size=size & 0x7FFF_FFFF), plain().end(offset=size)):
        assert peak_of(lie) < 1024 * 1024


MANY = (65_534, 65_535, 65_536, 65_537)


@pytest.mark.parametrize("count", MANY)
def test_as_many_entries_as_zip_counts_in_16_bits_and_more_are_read_by_us_and_by_others(
    count: int,
) -> None:
    data = written(*((f"f{number:06}", b"") for number in range(count)))
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        assert len(Archive(file).entries) == count
    with zipfile.ZipFile(io.BytesIO(data)) as others:
        assert len(others.infolist()) == count
    if count == MANY[2]:  # counting is slow
        assert peak_of(data) < 1_000 * count


@pytest.mark.parametrize("count", MANY[1:])
def test_as_many_entries_in_a_directory_that_counts_in_16_bits_alone_are_refused(
    count: int,
) -> None:
    made = Zip()
    names = [b"f%06d" % number for number in range(count)]
    data, directory = bytearray(), bytearray()
    one = Zip().add(b"f000000", b"")
    for number, name in enumerate(names):
        said = list(CENTRAL.unpack_from(one.directory))
        said[-1] = number * len(one.data)
        directory += CENTRAL.pack(*said) + name
        data += one.data[: LOCAL.size] + name
    made.data, made.directory, made.count = bytes(data), bytes(directory), count
    with pytest.raises(BundleError):
        opened(made.end())
    for told in (0, 1, 0xFFFE, 0xFFFF):
        with pytest.raises(BundleError):
            opened(made.end(count=told, here=told))


def test_more_entries_than_a_bundle_may_have_are_neither_written_nor_read() -> None:
    with pytest.raises(CannotCreate):
        written(*((f"f{number:06}", b"") for number in range(ENTRIES_MAX + 1)))
    honest = written(*((f"f{number:06}", b"") for number in range(65_535)))
    at = len(honest) - END.size - 20 - 56
    for count in (ENTRIES_MAX + 1, 2**32, 2**64 - 1):
        lying = bytearray(honest)
        lying[at + 24 : at + 40] = struct.pack("<QQ", count, count)
        with pytest.raises(BundleError, match=f"at most {ENTRIES_MAX} entries"):
            opened(bytes(lying))
        assert peak_of(bytes(lying)) < 1024 * 1024
