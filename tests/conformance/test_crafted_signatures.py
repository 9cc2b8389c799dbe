"""Crafted signatures: with our check of form first, OpenSSL and libsodium answer alike on all of them.

A signature is made of a scalar r, a point T of small order and a multiple of L: R = r·B + T and
S = r + k·a + n·L. For T other than the identity the equation holds up to small order alone: libraries that
clear the cofactor accept it, others refuse it.
"""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.adapters.signatures import verify
from causebook.domain.ed25519 import IDENTITY, SMALL_ORDER, L, P, decode_point, multiply
from tests.domain.test_ed25519 import BASE, TORSION, added, encoded

assert BASE is not None


def _secret(seed: bytes) -> tuple[int, bytes]:
    low = bytearray(hashlib.sha512(seed).digest()[:32])
    low[0] &= 248
    low[31] = low[31] & 63 | 64
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return int.from_bytes(low, "little"), public


@settings(deadline=None, max_examples=150)
@given(
    seed=st.binary(min_size=32, max_size=32),
    r=st.integers(0, L - 1) | st.sampled_from([0, 1, L - 1]),
    torsion=st.sampled_from(TORSION),
    laps=st.integers(0, 3),
    is_off_by_one=st.booleans(),
    message=st.binary(max_size=40),
)
def test_both_libraries_answer_alike(
    seed: bytes, r: int, torsion: tuple[int, int], laps: int, is_off_by_one: bool, message: bytes
) -> None:
    scalar, public = _secret(seed)
    point = encoded(added(multiply(r, BASE), torsion))  # type: ignore[arg-type]
    k = int.from_bytes(hashlib.sha512(point + public + message).digest(), "little")
    s = (r + k * scalar + is_off_by_one) % L + laps * L
    if s >= 2**256:
        return
    signature = point + s.to_bytes(32, "little")
    answers = {verify(public, signature, message, library=x) for x in ("openssl", "libsodium")}
    is_plain = torsion == IDENTITY and laps == 0 and not is_off_by_one
    assert answers == {is_plain and point not in SMALL_ORDER}


@settings(deadline=None, max_examples=300)
@given(
    seed=st.binary(min_size=32, max_size=32),
    r=st.binary(min_size=32, max_size=32)
    | st.integers(0, 18).map(lambda n: (P + n).to_bytes(32, "little")),
    s=st.integers(0, 2**256 - 1),
)
def test_both_refuse_what_nobody_signed(seed: bytes, r: bytes, s: int) -> None:
    _, public = _secret(seed)
    signature = r + s.to_bytes(32, "little")
    for library in ("openssl", "libsodium"):
        assert not verify(public, signature, b"message", library=library)  # type: ignore[arg-type]
    assert decode_point(public) is not None
