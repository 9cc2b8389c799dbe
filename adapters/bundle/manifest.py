"""The manifest of a bundle: what it is of, and every file in it.

`manifest.json` is canonical JSON (RFC 8785) and one LF:

    {"evidence":<whether the evidence is in it>,
     "files":[{"length":<bytes>,"name":"…","sha256":"<64 hex>"},…],
     "format":1,"founding":"<digest of LedgerFounded>","ledger":"<origin>",
     "root":"<base64 of 32 bytes>","size":<of the checkpoint>,"task":"<id>"}

`files` is sorted by name and names every file but the manifest. Nothing signs it, and nothing in it is
believed: it tells a file that was damaged or left out on the way from one that was forged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...domain.canonical import INTEGER_MAX, decode, encode
from ...domain.encoding import base64_text, hash_bytes
from ...domain.record import is_origin
from ...domain.streams import ID_PATTERN, shorten
from .archive import ENTRY_BYTES_MAX, MANIFEST, Archive, BundleError, order

FORMAT: Final = 1
RECORDS_BYTES_MAX: Final = 512 * 1024 * 1024
"""Of all records of a bundle, which its checker has in memory; their proofs are read one by one."""

_KEYS: Final = ["evidence", "files", "format", "founding", "ledger", "root", "size", "task"]
_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_ID: Final = re.compile(ID_PATTERN)


_COMMAS_A_FILE: Final = 3


@dataclass(frozen=True)
class FileFacts:
    """What the manifest says of one file: `length` in bytes, `sha256` in hex."""

    length: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> FileFacts:
        """The facts of a file's bytes."""
        return cls(len(content), hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class Manifest:
    """What a bundle says it is. `files`: by name; `root`: 32 bytes."""

    ledger: str
    founding: str
    task: str
    size: int
    root: bytes
    evidence: bool
    files: Mapping[str, FileFacts]

    @property
    def raw(self) -> bytes:
        """The manifest as a file."""
        document = {
            "evidence": self.evidence,
            "files": [
                {"length": facts.length, "name": name, "sha256": facts.sha256}
                for name, facts in sorted(self.files.items(), key=lambda each: order(each[0]))
            ],
            "format": FORMAT,
            "founding": self.founding,
            "ledger": self.ledger,
            "root": base64_text(self.root),
            "size": self.size,
            "task": self.task,
        }
        return encode(document) + b"\n"

    @classmethod
    def parse(cls, raw: bytes) -> Manifest:
        """The manifest that `raw` is. Raises `BundleError` naming what is wrong."""
        try:
            if not raw.endswith(b"\n"):
                raise ValueError("expected one line, its end included")
            document = decode(raw[:-1])
            if not isinstance(document, dict) or list(document) != _KEYS:
                raise ValueError(f"expected exactly the keys {', '.join(_KEYS)}")
            evidence, files, number, founding, ledger, root, size, task = document.values()
            if type(number) is not int or number != FORMAT:
                raise ValueError(f"format: expected {FORMAT}, found {shorten(str(number))}")
            if not isinstance(evidence, bool):
                raise ValueError("evidence: expected true or false")
            if not isinstance(founding, str) or _HEX64.fullmatch(founding) is None:
                raise ValueError("founding: expected 64 hex digits")
            if not isinstance(ledger, str) or not is_origin(ledger):
                raise ValueError("ledger: expected an origin")
            if not isinstance(root, str):
                raise ValueError("root: expected base64")
            if type(size) is not int or not 1 <= size <= INTEGER_MAX:
                raise ValueError("size: expected a whole number from 1")
            if not isinstance(task, str) or _ID.fullmatch(task) is None:
                raise ValueError("task: expected a task's id")
            named = _files(files)
            return cls(ledger, founding, task, size, hash_bytes(root), evidence, named)
        except ValueError as error:
            raise BundleError(f"{MANIFEST}: {error}") from None


def _files(documents: Any) -> Mapping[str, FileFacts]:
    if not isinstance(documents, list):
        raise ValueError("files: expected a list")
    named: dict[str, FileFacts] = {}
    for document in documents:
        if not isinstance(document, dict) or list(document) != ["length", "name", "sha256"]:
            raise ValueError("files: expected exactly the keys length, name, sha256 of each")
        length, name, sha256 = document.values()
        if not (isinstance(name, str) and isinstance(sha256, str) and _HEX64.fullmatch(sha256)):
            raise ValueError("files: expected a name and 64 hex digits of each")
        if type(length) is not int or not 0 <= length <= ENTRY_BYTES_MAX:
            raise ValueError(f"{shorten(name)}: expected a length up to {ENTRY_BYTES_MAX}")
        if name in named:
            raise ValueError(f"{shorten(name)}: expected each name once, found it twice")
        named[name] = FileFacts(length, sha256)
    if list(named) != sorted(named, key=order) or MANIFEST in named:
        raise ValueError("files: expected names in order, without the manifest itself")
    return named


def read_manifest(archive: Archive) -> Manifest:
    """The manifest of an archive that holds exactly the files it names, at their lengths.

    Raises `BundleError`. Whether their bytes have the digests it names is asked as they are read.
    """
    raw = archive.read(MANIFEST)
    if raw.count(b",") > _COMMAS_A_FILE * len(archive.entries) + len(_KEYS):
        # Said before it is taken apart: what is no manifest can take thirty times its size to read.
        raise BundleError(f"{MANIFEST}: expected one entry for each file, found more than that")
    manifest = Manifest.parse(raw)
    found = set(archive.entries) - {MANIFEST}
    for name in sorted(manifest.files.keys() - found):
        raise BundleError(f"{name}: expected this file, as the manifest says, found none")
    for name in sorted(found - manifest.files.keys()):
        raise BundleError(f"{name}: expected no file that the manifest does not name")
    for name, facts in manifest.files.items():
        size = archive.entries[name].size
        if size != facts.length:
            raise BundleError(
                f"{name}: expected {facts.length} bytes, as the manifest says, found {size}"
            )
    return manifest


def read_file(archive: Archive, manifest: Manifest, name: str) -> bytes:
    """The bytes of one file, with the digest that the manifest names. Raises `BundleError`."""
    content = archive.read(name)
    found = hashlib.sha256(content).hexdigest()
    expected = manifest.files[name].sha256
    if found != expected:
        raise BundleError(
            f"{name}: expected digest {expected}, as the manifest says, found {found}"
        )
    return content
