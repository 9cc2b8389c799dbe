"""A process that checks signatures for another: batches on standard input, answers on standard output.

    batch    LEN (4 bytes, big-endian), then LEN bytes: for each signature
             public key (32) signature (64) MLEN (4 bytes, big-endian) message (MLEN)
    answer   for each signature of the batch one byte: 1 where it holds, else 0; then the SHA-256 (32) of
             the batch followed by those bytes

The digest shows that an answer is one: a line that something else prints where a Python starts is none. It
ends when its input does, so it does not outlive whoever started it, and their forks. It imports little: it is
waited for.
"""

from __future__ import annotations

import struct
import sys
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from .signatures import Library, verifier

if TYPE_CHECKING:
    from ..domain.note import Verify

JOB: Final = struct.Struct(">32s64sI")
LENGTH: Final = struct.Struct(">I")
SEAL_BYTES: Final = 32


def serve(library: Library) -> None:
    """Answer batches until the input ends."""
    verify = verifier(library)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(LENGTH.size)) == LENGTH.size:
        batch = source.read(*LENGTH.unpack(head))
        answer = answers(verify, batch)
        sink.write(answer + seal(batch, answer))
        sink.flush()


def seal(batch: bytes | bytearray, answer: bytes) -> bytes:
    """What follows an answer: nobody who did not read the batch can say it."""
    return sha256(batch + answer).digest()


def answers(verify: Verify, batch: bytes | bytearray) -> bytes:
    """For each signature of a batch, 1 or 0."""
    answer, at = bytearray(), 0
    while at < len(batch):
        public, signature, length = JOB.unpack_from(batch, at)
        at += JOB.size + length
        answer.append(verify(public, signature, bytes(batch[at - length : at])))
    return bytes(answer)
