"""Blobs as git brings them, each hashed before it counts.

Git does not compare what it reads with the id it reads it by: an object that was written into `.git` under
another's name would be handed out as genuine. So the content of a blob is hashed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .objects import blob_hasher
from .process import GitFailure, Output
from .withheld import KeySearch


def check_blobs(
    ask: Callable[..., Output], ids: Iterable[str], object_format: str, head_bytes_max: int = 0
) -> CheckedBlobs:
    """Have git bring these blobs, and hash each. `ask` runs git. Raises `GitFailure`."""
    blobs, wanted = CheckedBlobs(object_format, head_bytes_max), sorted(set(ids))
    if wanted:
        asked = "".join(f"{blob}\n" for blob in wanted).encode()
        ask("cat-file", "--batch", stdin=asked, take=blobs.feed)
    missing = set(wanted) - blobs.answered
    if missing:
        raise GitFailure(f"git: object {min(missing)}: expected a blob, found no end of it")
    return blobs


class CheckedBlobs:
    """Takes the answer of `git cat-file --batch` in chunks: `ID SP TYPE SP SIZE LF CONTENT LF`, and so on.

    `answered` are the ids whose content is theirs, `with_keys` those of them that hold a private key
    (`withheld.py`). Of the content, no more than the first `head_bytes_max` bytes of all is kept, in `head`;
    `size` is that of the last. `feed` raises `GitFailure` for an object whose content is not that of its
    id, is no blob, or is not there.
    """

    def __init__(self, object_format: str, head_bytes_max: int = 0) -> None:
        self.answered: set[str] = set()
        self.with_keys: set[str] = set()
        self.head = bytearray()
        self.size = 0
        self._object_format = object_format
        self._head_bytes_max = head_bytes_max
        self._header = bytearray()
        self._open: str | None = None
        self._left = 0
        self._search = KeySearch()
        self._hasher = blob_hasher(0, object_format)

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the answer."""
        at = 0
        while at < len(chunk):
            if self._open is None:
                end = chunk.find(b"\n", at)
                self._header += chunk[at : len(chunk) if end < 0 else end]
                if end < 0:
                    return
                at = end + 1
                if self._header:  # an empty one is the LF after a content
                    self._begin(self._header.decode("ascii", "replace").split(" "))
                    self._header.clear()
            else:
                part = chunk[at : at + self._left]
                at += len(part)
                self._take(self._open, part)

    def _begin(self, header: list[str]) -> None:
        if len(header) != 3 or header[1] != "blob" or not header[2].isdigit():
            found = header[1] if len(header) > 1 else "nothing"
            raise GitFailure(f"git: object {header[0]}: expected a blob, found: {found}")
        self._open, self.size = header[0], int(header[2])
        self._left, self._search = self.size, KeySearch()
        self._hasher = blob_hasher(self.size, self._object_format)
        self._take(self._open, b"")

    def _take(self, blob: str, part: bytes) -> None:
        self._left -= len(part)
        self._hasher.update(part)
        self._search.feed(part)
        self.head += part[: self._head_bytes_max - len(self.head)]
        if self._left:
            return
        if self._hasher.hexdigest() != blob:
            raise GitFailure(f"git: object {blob}: is broken or forged: its content has another id")
        self.answered.add(blob)
        if self._search.found:
            self.with_keys.add(blob)
        self._open = None
