"""The two Ed25519 libraries, held against each other on a key, a signature and a message.

Whoever checks a ledger with one of them has to come to what another comes to with the other. The input is 32
bytes of key, 64 of signature, and the message.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Final

from causebook.adapters.signatures import verify
from causebook.domain.ed25519 import SMALL_ORDER, L, public_key_fault
from tests.adapters.logs import private_key

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64


def answers(public: bytes, signature: bytes, message: bytes) -> set[bool]:
    """What the libraries say: one answer, or the two that they must not give."""
    return {verify(public, signature, message, library=each) for each in ("openssl", "libsodium")}


def answers_alike(data: bytes) -> None:
    """Raise `AssertionError` where the two libraries differ.

    A key that enrolment refuses is none that either is ever asked about.
    """
    public, rest = data[:KEY_BYTES], data[KEY_BYTES:]
    signature, message = rest[:SIGNATURE_BYTES], rest[SIGNATURE_BYTES:]
    if public_key_fault(public) is not None:
        return
    if len(answers(public, signature, message)) != 1:
        raise AssertionError(f"two answers on {public.hex()} {signature.hex()} {message.hex()}")


@cache
def triples() -> tuple[bytes, ...]:
    """Valid ones, and ones made of points and scalars at the edge."""
    key = private_key("signer")
    public = key.public_key().public_bytes_raw()
    good = [public + key.sign(message) + message for message in (b"", b"message", bytes(200))]
    signature = key.sign(b"message")
    s = int.from_bytes(signature[32:], "little")
    scalars = [0, 1, s + L, L - 1, L, L + 1, 2**252, 2**253 - 1, 2**255 - 1, 2**256 - 1]
    points = [*sorted(SMALL_ORDER), public, hashlib.sha256(b"point").digest()]
    crafted = [signature[:32] + scalar.to_bytes(32, "little") for scalar in scalars]
    crafted += [point + signature[32:] for point in points]
    crafted += [point + bytes(32) for point in points]
    return tuple(good + [public + each + b"message" for each in crafted])
