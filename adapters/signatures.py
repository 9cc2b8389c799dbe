"""Checking an Ed25519 signature: one answer, whichever library gives it.

`domain/ed25519.py` looks at a signature's form before a library sees it, so that OpenSSL and libsodium agree.
OpenSSL comes with `cryptography`; libsodium with the extra `fast` (PyNaCl) and takes half the time.
`signature_checks.py` checks many beside one another.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Literal

from ..domain.ed25519 import signature_fault
from ..domain.errors import Misuse

if TYPE_CHECKING:  # a worker process (signature_worker.py) is waited for: it loads what it needs
    from ..domain.note import Verify

Library = Literal["auto", "openssl", "libsodium"]


@cache
def verifier(library: Library = "auto") -> Verify:
    """The function (public key of 32 bytes, signature, message) → whether it holds.

    `auto` is libsodium where PyNaCl is installed, else OpenSSL. Raises `Misuse` where `libsodium` is asked
    for and not there.
    """
    if library == "openssl":
        return _openssl()
    try:
        return _libsodium()
    except ImportError:
        if library == "auto":
            return _openssl()
        raise Misuse(
            "signatures: libsodium is not installed",
            hint="install causebook with its extra 'fast' (README, Install)",
        ) from None


def verify(public: bytes, signature: bytes, message: bytes, *, library: Library = "auto") -> bool:
    """Whether `signature` is that of `message` by the key `public` (32 bytes). Never raises for bad input."""
    return verifier(library)(public, signature, message)


@cache
def _openssl() -> Verify:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key_of = lru_cache(maxsize=1024)(Ed25519PublicKey.from_public_bytes)

    def check(public: bytes, signature: bytes, message: bytes) -> bool:
        if signature_fault(signature) is not None:
            return False
        try:
            key_of(public).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    return check


@cache
def _libsodium() -> Verify:
    from nacl.bindings import crypto_sign_open
    from nacl.exceptions import CryptoError

    def check(public: bytes, signature: bytes, message: bytes) -> bool:
        if signature_fault(signature) is not None:
            return False
        try:
            crypto_sign_open(signature + message, public)
        except (CryptoError, ValueError):
            return False
        return True

    return check
