"""Proofs as files: that a record is in the log, that one log grew out of another, that one was split in two.

**Inclusion** (C2SP tlog-proof, commit 0065ea5b7161), extension `.tlog-proof`:

    c2sp.org/tlog-proof@v1
    extra <base64>                    only where there is extra data, which nothing authenticates
    index 17                          of the record in the log, from 0
    <base64 of 32 bytes>              none or more: the path, from the leaf's sibling to the root's child
                                      one empty line
    the checkpoint, as it was signed  (domain/checkpoint.py), cosignatures included

**Consistency**: the body that C2SP tlog-witness (commit 055270b59289) has a log send, with the checkpoint of
the old size kept beside it:

    old 1100                          the size of the old tree
    <base64 of 32 bytes>              none or more
                                      one empty line
    the new checkpoint

**Split view**, causebook's own: two checkpoints of one log that cannot both be of one history, as canonical
JSON (RFC 8785) and one LF:

    {"kind":"causebook split view/1","newer":"<note>","older":"<note>","path":["<base64>",…]}

`path` is the consistency proof from the size of `older` to `newer`; where that size is a power of two, the
root that the tree of `newer` had at it stands first, which such a proof leaves out. For equal sizes it is
empty, and the two roots differ. Else it reproduces the root of `newer` and, at the size of `older`, another
root than that of `older`. Both notes carry a signature by one log key: that key's holder said both.

A proof has at most 63 hashes, a file at most 160 KiB; numbers and base64 have one spelling
(domain/encoding.py). Parsing says nothing about whether a proof holds: that is asked of projections/tree.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from .canonical import decode, encode
from .checkpoint import SignedCheckpoint
from .encoding import base64_bytes, base64_text, decimal, hash_bytes
from .errors import BadData
from .limits import RECORD_BYTES_MAX
from .note import NoteError

HASHES_MAX: Final = 63
PROOF_BYTES_MAX: Final = 160 * 1024
EXTRA_BYTES_MAX: Final = RECORD_BYTES_MAX  # `causebook prove` puts the record there
INCLUSION_HEADER: Final = "c2sp.org/tlog-proof@v1"
SPLIT_VIEW_KIND: Final = "causebook split view/1"

T = TypeVar("T")

Path = tuple[bytes, ...]
"""The hashes of a proof, 32 bytes each, in order."""


class ProofError(BadData):
    """Bytes that are not a proof, or a proof that does not hold."""


@dataclass(frozen=True)
class InclusionProof:
    """That the record of ordinal `index` is in the tree of `checkpoint`."""

    index: int
    path: Path
    checkpoint: SignedCheckpoint
    extra: bytes = b""

    @property
    def raw(self) -> bytes:
        """The proof as a file."""
        extra = f"extra {base64_text(self.extra)}\n" if self.extra else ""
        head = f"{INCLUSION_HEADER}\n{extra}index {self.index}\n{_lines(self.path)}\n"
        return head.encode() + self.checkpoint.note.raw

    @classmethod
    def parse(cls, raw: bytes) -> InclusionProof:
        """The proof that `raw` is. Raises `ProofError` naming what is wrong."""
        lines, note = _parted(raw, "inclusion proof")
        if lines.pop(0) != INCLUSION_HEADER:
            raise ProofError(f"inclusion proof: expected {INCLUSION_HEADER} on line 1")
        extra = b""
        if lines and lines[0].startswith("extra "):
            extra = _read(base64_bytes, lines.pop(0)[6:], "extra")
            if not 1 <= len(extra) <= EXTRA_BYTES_MAX:
                raise ProofError(
                    f"extra: expected 1 to {EXTRA_BYTES_MAX} bytes, found {len(extra)}"
                )
        index = _numbered(lines, "index")
        return cls(index, _path(lines), _checkpoint(note), extra)


@dataclass(frozen=True)
class ConsistencyProof:
    """That the tree of `checkpoint` grew out of the tree that had `old_size` records."""

    old_size: int
    path: Path
    checkpoint: SignedCheckpoint

    @property
    def raw(self) -> bytes:
        """The proof as a file, and as a witness is sent it."""
        head = f"old {self.old_size}\n{_lines(self.path)}\n"
        return head.encode() + self.checkpoint.note.raw

    @classmethod
    def parse(cls, raw: bytes) -> ConsistencyProof:
        """The proof that `raw` is. Raises `ProofError` naming what is wrong."""
        lines, note = _parted(raw, "consistency proof")
        old_size = _numbered(lines, "old")
        return cls(old_size, _path(lines), _checkpoint(note))


@dataclass(frozen=True)
class SplitView:
    """Two signed checkpoints of one log that contradict each other, and what shows it."""

    older: SignedCheckpoint
    newer: SignedCheckpoint
    path: Path

    @property
    def raw(self) -> bytes:
        """The split view as a file."""
        document = {
            "kind": SPLIT_VIEW_KIND,
            "newer": self.newer.note.raw.decode(),
            "older": self.older.note.raw.decode(),
            "path": [base64_text(each) for each in self.path],
        }
        return encode(document) + b"\n"

    @classmethod
    def parse(cls, raw: bytes) -> SplitView:
        """The split view that `raw` is. Raises `ProofError` naming what is wrong."""
        if len(raw) > 2 * PROOF_BYTES_MAX:
            raise ProofError(
                f"split view: expected at most {2 * PROOF_BYTES_MAX} bytes, found more"
            )
        if not raw.endswith(b"\n"):
            raise ProofError("split view: expected one line")
        try:
            document = decode(raw[:-1])
        except ValueError as error:
            raise ProofError(f"split view: {error}") from None
        if not isinstance(document, dict) or list(document) != ["kind", "newer", "older", "path"]:
            raise ProofError("split view: expected exactly the keys kind, newer, older, path")
        kind, newer, older, path = document.values()
        if kind != SPLIT_VIEW_KIND:
            raise ProofError(f"split view, kind: expected {SPLIT_VIEW_KIND}")
        if not (isinstance(newer, str) and isinstance(older, str) and isinstance(path, list)):
            raise ProofError("split view: expected two notes and a list of hashes")
        if not all(isinstance(each, str) for each in path):
            raise ProofError("split view, path: expected hashes in base64")
        return cls(_checkpoint(older.encode()), _checkpoint(newer.encode()), _path(path))


def _lines(path: Path) -> str:
    return "".join(f"{base64_text(each)}\n" for each in path)


def _parted(raw: bytes, what: str) -> tuple[list[str], bytes]:
    """The lines before the first empty one, and the note after it."""
    if len(raw) > PROOF_BYTES_MAX:
        raise ProofError(f"{what}: expected at most {PROOF_BYTES_MAX} bytes, found {len(raw)}")
    head, blank, note = raw.partition(b"\n\n")
    if not blank:
        raise ProofError(f"{what}: expected an empty line, and a checkpoint after it")
    try:
        return head.decode("ascii").split("\n"), note
    except UnicodeDecodeError:
        raise ProofError(f"{what}: expected ASCII before the checkpoint") from None


def _numbered(lines: list[str], word: str) -> int:
    name, blank, digits = (lines.pop(0) if lines else "").partition(" ")
    if name != word or not blank:
        raise ProofError(f"expected a line '{word} NUMBER'")
    return _read(decimal, digits, word)


def _path(lines: list[str]) -> Path:
    if len(lines) > HASHES_MAX:
        raise ProofError(f"path: expected at most {HASHES_MAX} hashes, found {len(lines)}")
    return tuple(_read(hash_bytes, line, f"path, hash {n}") for n, line in enumerate(lines, 1))


def _checkpoint(note: bytes) -> SignedCheckpoint:
    try:
        return SignedCheckpoint.parse(note)
    except NoteError as error:
        raise ProofError(error.message) from None


def _read(read: Callable[[str], T], text: str, where: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise ProofError(f"{where}: {error}") from None
