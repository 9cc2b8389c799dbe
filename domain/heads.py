"""Heads: what the log's key says a task came to, as of one size of the log.

An inclusion proof shows that a record is there, never that none is left out. A statement of heads names, for
every stream of one task and for `ledger`, how many records it had and the digest of the last one, when the
log had `size` records. It is a DSSE envelope (domain/dsse.py) of payload type
`application/vnd.causebook.heads+json`, signed by a `log` key; its payload is canonical JSON (RFC 8785):

    {"founding":"<digest of LedgerFounded>",
     "heads":[{"digest":"<of its last record>","stream":"…","version":<how many records>},…],
     "ledger":"<origin>","root":"<base64 of 32 bytes>","size":<records of the whole log>}

`heads` is sorted by stream, each once: `evaluation/<task>/…` for each evaluation that has a record below
`size`, `ledger`, and `task/<task>`. A stream of that task which is not named had no record below `size`.

It is a claim, and one that can be held against its signer: a record of one of those streams that stands below
`size` in the same log and that the statement leaves out shows it to be false. `left_out` says whether a
record is one.

This module takes values and bytes and does no IO.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .canonical import INTEGER_MAX, decode, encode
from .dsse import Envelope, seal_envelope
from .encoding import base64_text, hash_bytes
from .errors import BadData, CannotCreate
from .record import is_origin
from .streams import LEDGER, parse_stream, task_stream

HEADS_TYPE: Final = "application/vnd.causebook.heads+json"
HEADS_MAX: Final = 7_000
"""As many as the largest names and numbers leave room for in an envelope (`ENVELOPE_BYTES_MAX`)."""

_HEX64 = re.compile(r"[0-9a-f]{64}")


class HeadsError(BadData):
    """Bytes that are not a statement of heads."""


@dataclass(frozen=True)
class StreamHead:
    """How many records a stream had, and the digest of the last, 64 hex digits."""

    version: int
    digest: str


@dataclass(frozen=True)
class Heads:
    """A statement of heads, whoever made it. `root`: 32 bytes; `heads`: by the name of a stream."""

    ledger: str
    founding: str
    size: int
    root: bytes
    task: str
    heads: Mapping[str, StreamHead]

    @property
    def payload(self) -> bytes:
        """The statement as canonical JSON, what is signed."""
        return encode(
            {
                "founding": self.founding,
                "heads": [
                    {"digest": head.digest, "stream": stream, "version": head.version}
                    for stream, head in sorted(self.heads.items())
                ],
                "ledger": self.ledger,
                "root": base64_text(self.root),
                "size": self.size,
            }
        )

    def is_of(self, stream: str) -> bool:
        """Whether the statement speaks of that stream, be it to say that it had no record."""
        return stream == LEDGER or parse_stream(stream).task == self.task

    def left_out(self, stream: str, version: int, digest: str) -> str | None:
        """What the statement says where a record of the log below `size` is one that it cannot have missed.

        None where the record is of another task, or may stand below the head that is named.
        """
        if not self.is_of(stream):
            return None
        head = self.heads.get(stream)
        if head is None:
            return "that the stream had no record"
        if version > head.version:
            return f"that the stream ended at v{head.version}"
        if version == head.version and digest != head.digest:
            return f"that v{version} is another record"
        return None

    def sealed(self, keyid: str, sign: Callable[[bytes], bytes]) -> Envelope:
        """The envelope of the statement, signed by the log's key.

        Raises `CannotCreate` where it has more heads than `parse` takes.
        """
        if len(self.heads) > HEADS_MAX:
            raise CannotCreate(
                f"heads: expected at most {HEADS_MAX:,} streams of task {self.task}, "
                f"found {len(self.heads):,}",
                hint="hand the whole log over: causebook export --tiles DIR",
            )
        return seal_envelope(self.payload, HEADS_TYPE, keyid, sign)

    @classmethod
    def parse(cls, payload: bytes) -> Heads:
        """The statement that the payload of an envelope is. Raises `HeadsError` naming what is wrong."""
        try:
            document = decode(payload)
            if not isinstance(document, dict) or list(document) != [
                "founding", "heads", "ledger", "root", "size",
            ]:  # fmt: skip
                raise ValueError("expected exactly the keys founding, heads, ledger, root, size")
            founding, heads, ledger, root, size = document.values()
            if not isinstance(founding, str) or _HEX64.fullmatch(founding) is None:
                raise ValueError("founding: expected 64 hex digits")
            if not isinstance(ledger, str) or not is_origin(ledger):
                raise ValueError("ledger: expected an origin")
            if not isinstance(root, str):
                raise ValueError("root: expected base64")
            if type(size) is not int or not 1 <= size <= INTEGER_MAX:
                raise ValueError("size: expected a whole number from 1")
            if not isinstance(heads, list) or len(heads) > HEADS_MAX:
                raise ValueError(f"heads: expected a list of at most {HEADS_MAX}")
            named = [_head(each) for each in heads]
            return cls(ledger, founding, size, hash_bytes(root), _task(named), dict(named))
        except ValueError as error:
            raise HeadsError(f"heads: {error}") from None


def _head(document: Any) -> tuple[str, StreamHead]:
    if not isinstance(document, dict) or list(document) != ["digest", "stream", "version"]:
        raise ValueError("a head: expected exactly the keys digest, stream, version")
    digest, stream, version = document.values()
    if not isinstance(digest, str) or _HEX64.fullmatch(digest) is None:
        raise ValueError("a head, digest: expected 64 hex digits")
    if not isinstance(stream, str):
        raise ValueError("a head, stream: expected a string")
    if type(version) is not int or version < 1:
        raise ValueError("a head, version: expected a whole number from 1")
    return stream, StreamHead(version, digest)


def _task(named: Iterable[tuple[str, StreamHead]]) -> str:
    """The one task whose streams are named. Raises `ValueError` where they are not as the format says."""
    streams = [stream for stream, _ in named]
    if streams != sorted(set(streams)):
        raise ValueError("expected streams sorted, each once")
    names = [parse_stream(stream) for stream in streams]
    tasks = {name.task for name in names if name.kind != "ledger"}
    task = tasks.pop() if len(tasks) == 1 else None
    if task is None or LEDGER not in streams or task_stream(task) not in streams:
        raise ValueError("expected the streams of one task, and ledger")
    return task
