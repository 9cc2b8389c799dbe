"""Checking Ed25519 signatures: one answer, whichever library gives it, and many at a time.

`domain/ed25519.py` looks at a signature's form before a library sees it, so that OpenSSL and libsodium agree.
OpenSSL comes with `cryptography`; libsodium with the extra `fast` (PyNaCl) and takes half the time. Both let
go of Python's lock while they work, so `SignatureChecks` runs them on threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, lru_cache
from types import TracebackType
from typing import Final, Literal, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ..domain.ed25519 import signature_fault
from ..domain.errors import Misuse
from ..domain.note import Verify
from ..domain.record import pae

Library = Literal["auto", "openssl", "libsodium"]

_BATCH: Final = 256
_BATCHES_AHEAD_MAX: Final = 32
"""How many batches may wait for a thread: about 8,000 records, so memory stays bounded."""


@cache
def verifier(library: Library = "auto") -> Verify:
    """The function (public key of 32 bytes, signature, message) → whether it holds.

    `auto` is libsodium where PyNaCl is installed, else OpenSSL. Raises `Misuse` where `libsodium` is asked
    for and not there.
    """
    if library == "openssl":
        return _openssl
    try:
        return _libsodium()
    except ImportError:
        if library == "auto":
            return _openssl
        raise Misuse(
            "signatures: libsodium is not installed",
            hint="install causebook with its extra 'fast' (README, Install)",
        ) from None


def verify(public: bytes, signature: bytes, message: bytes, *, library: Library = "auto") -> bool:
    """Whether `signature` is that of `message` by the key `public` (32 bytes). Never raises for bad input."""
    return verifier(library)(public, signature, message)


@lru_cache(maxsize=1024)
def _openssl_key(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)


def _openssl(public: bytes, signature: bytes, message: bytes) -> bool:
    if signature_fault(signature) is not None:
        return False
    try:
        _openssl_key(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


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


Place = tuple[int, str, int]
"""(ordinal, stream, version) of a record."""

Job = tuple[Place, bytes, bytes, bytes]
"""(place, public key, signature, line 1 without its LF)."""


class SignatureChecks:
    """Signatures of records, checked on threads as they come in, in batches.

    with SignatureChecks(verifier(), threads=2) as checks:
        checks.add((0, "ledger", 1), public, signature, line)
        failed = checks.finish()                    # the places that do not hold, in order

    `threads` 0 checks them in the caller's own thread.
    """

    def __init__(self, verify: Verify, *, threads: int | None = None) -> None:
        count = processors() if threads is None else threads
        if threads is None and count == 1:
            count = 0
        self._verify = verify
        self._pool = ThreadPoolExecutor(count, "signatures") if count else None
        self._batch: list[Job] = []
        self._ahead: deque[Future[list[Place]]] = deque()
        self._failed: list[Place] = []

    def add(self, place: Place, public: bytes, signature: bytes, line: bytes) -> None:
        """Have one signature checked. Waits where too many are waiting already."""
        batch = self._batch
        batch.append((place, public, signature, line))
        if len(batch) == _BATCH:
            self._send()

    def finish(self) -> list[Place]:
        """Wait for all; the places of those that do not hold, in commit order."""
        self._send()
        while self._ahead:
            self._failed.extend(self._ahead.popleft().result())
        return sorted(self._failed)

    def _send(self) -> None:
        batch, self._batch = self._batch, []
        if self._pool is None:
            self._failed.extend(_failing(self._verify, batch))
            return
        self._ahead.append(self._pool.submit(_failing, self._verify, batch))
        if len(self._ahead) > _BATCHES_AHEAD_MAX:
            self._failed.extend(self._ahead.popleft().result())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _failing(verify: Verify, batch: Sequence[Job]) -> list[Place]:
    return [
        place
        for place, public, signature, line in batch
        if not verify(public, signature, pae(line))
    ]


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
