"""Git's objects by name: ids, modes and the entries of a commit's tree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

GITLINK: Final = "160000"
SYMLINK: Final = "120000"
EMPTY_TREE: Final = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}


@dataclass(frozen=True)
class Entry:
    """One entry of a commit's tree: its mode (six octal digits), object id, and size in bytes (blobs)."""

    mode: str
    id: str
    size: int | None = None


def blob_id(data: bytes, object_format: str) -> str:
    """The id that git gives a blob of these bytes. `object_format`: `sha1` or `sha256`."""
    return blob_hasher(len(data), object_format, data).hexdigest()


def blob_hasher(size: int, object_format: str, data: bytes = b"") -> hashlib._Hash:
    """A hash over the header of a blob of `size` bytes, to be fed with just these bytes."""
    hasher = hashlib.new(object_format, usedforsecurity=False)
    hasher.update(b"blob %d\0" % size + data)
    return hasher


def entries(listing: bytes) -> Iterator[tuple[bytes, Entry]]:
    """(path, entry) of every line of `ls-tree -z`, with or without `-l`."""
    for line in listing.split(b"\0"):
        if line:
            about, _, path = line.partition(b"\t")
            mode, _kind, name, *size = about.decode("ascii").split()
            known = int(size[0]) if size and size[0].isdigit() else None
            yield path, Entry(mode, name, known)
