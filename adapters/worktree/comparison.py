"""The difference between two trees, of contents that are what their ids say and that a judge may be shown.

Git makes the patch. Before it does, every blob that differs is read and hashed (`checked.py`). Where one
holds a private key, or lies where nobody is to read, the trees are made anew for this one question: the key's
content is replaced by a line that says so (`withheld.py`), what is private is left out. So no patch has to be
read to find a secret in it, and no rename can carry one past.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .checked import check_blobs
from .objects import GITLINK, Entry, blob_id, entries
from .process import GitFailure, Output
from .withheld import placeholder

_ABSENT = "000000"  # the mode of an entry that is not there

Hides = Callable[[bytes], bool]
"""Whether a path below the root is nobody's to read."""


@dataclass(frozen=True)
class Comparison:
    """One question for a difference. `ask` runs git in the private directory `private` (`private.py`),
    `prefix` is the root's path in the work tree, empty or ending in `/`."""

    ask: Callable[..., Output]
    private: Path
    object_format: str
    prefix: bytes

    def tree_of(self, files: Iterable[tuple[bytes, str, str | bytes]]) -> str:
        """The id of a tree, made here, of (path below the root, mode, blob id or content).

        Contents become objects of the private directory, so that git need not open a work tree, where a
        path may change between its check and its use.
        """
        lines = bytearray()
        for path, mode, content in files:
            if isinstance(content, bytes):
                content = self._store(content)
            lines += f"{mode} {content}\t".encode() + self.prefix + path + b"\0"
        index = self.private / "made-index"
        index.unlink(missing_ok=True)
        # Apart from the real objects: writing one that exists there would touch its time stamp.
        apart = {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(self.private / "made"),
        }
        self.ask("update-index", "-z", "--index-info", stdin=bytes(lines), extra=apart)
        return self.ask("write-tree", "--missing-ok", extra=apart).data.decode("ascii").strip()

    def patch(self, old: str, new: str, bytes_max: int, hides: Hides) -> Output:
        """A table of the files that differ between two commits or trees, then the patch."""
        before, after = dict[bytes, Entry](), dict[bytes, Entry]()
        for path, was, became in self._changes(old, new):
            before[path], after[path] = was, became
        shown = {
            entry.id
            for side in (before, after)
            for path, entry in side.items()
            if not hides(path) and entry.mode not in (GITLINK, _ABSENT)
        }
        with_keys = check_blobs(self.ask, shown, self.object_format).with_keys
        trees = list[str]()
        for tree, side in ((old, before), (new, after)):
            edits: dict[bytes, bytes | None] = {
                path: placeholder(e.id) for path, e in side.items() if e.id in with_keys
            }
            edits |= {path: None for path in side if hides(path)}
            trees.append(self._edited(tree, edits) if edits else tree)
        asked: list[str | bytes] = ["diff-tree", "-r", "-p", "-M", "--full-index", "--no-color"]
        asked += ["--no-ext-diff", "--no-textconv", "--stat=120,100", "--stat-count=400"]
        if self.prefix:
            asked.append(b"--relative=" + self.prefix)
        return self.ask(*asked, *trees, bytes_max=bytes_max, whole=False)

    def _changes(self, old: str, new: str) -> Iterator[tuple[bytes, Entry, Entry]]:
        """(path below the root, entry before, entry after) of all that differs."""
        asked = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
        fields = self.ask(*asked, *self._below).data.split(b"\0")[:-1]
        for about, path in zip(fields[::2], fields[1::2], strict=True):
            modes_and_ids = about.decode("ascii").removeprefix(":").split(" ")
            if len(modes_and_ids) != 5 or not path.startswith(self.prefix):
                raise GitFailure("git: a list of changes that cannot be read")
            was, became, old_id, new_id, _ = modes_and_ids
            yield path[len(self.prefix) :], Entry(was, old_id), Entry(became, new_id)

    def _edited(self, tree: str, edits: Mapping[bytes, bytes | None]) -> str:
        """`tree` with other contents, or without a file where that is None."""
        listing = self.ask("ls-tree", "-r", "-z", "--full-tree", tree, *self._below).data
        files = list[tuple[bytes, str, str | bytes]]()
        for whole, entry in entries(listing):
            path = whole[len(self.prefix) :]
            content = edits.get(path, entry.id)
            if content is not None:
                files.append((path, entry.mode, content))
        return self.tree_of(files)

    @property
    def _below(self) -> tuple[str | bytes, ...]:
        return ("--", self.prefix) if self.prefix else ()

    def _store(self, content: bytes) -> str:
        blob = blob_id(content, self.object_format)
        folder = self.private / "made" / blob[:2]
        folder.mkdir(exist_ok=True)
        packed = zlib.compress(b"blob %d\0" % len(content) + content, 1)
        (folder / blob[2:]).write_bytes(packed)
        return blob
