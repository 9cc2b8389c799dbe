"""Signatures and keys on which two libraries would differ are refused before either sees them."""

from __future__ import annotations

import hashlib

import nacl.exceptions
import nacl.signing
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.domain.ed25519 import (
    IDENTITY,
    SMALL_ORDER,
    D,
    L,
    P,
    Point,
    decode_point,
    multiply,
    public_key_fault,
    signature_fault,
)

BASE = decode_point(bytes.fromhex("58" + "66" * 31))
SEEDS = st.binary(min_size=32, max_size=32)


def encoded(point: Point) -> bytes:
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def added(one: Point, other: Point) -> Point:
    """The complete addition law of RFC 8032, section 5.1.4, in affine coordinates."""
    (x1, y1), (x2, y2) = one, other
    k = D * x1 * x2 * y1 * y2
    return (
        (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P,
        (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P,
    )


def torsion() -> list[Point]:
    """The eight points of small order, found by clearing the large part of some point of the curve."""
    for y in range(2, 100):
        point = decode_point(y.to_bytes(32, "little"))
        if point is None:
            continue
        generator = multiply(L, point)
        points = [multiply(n, generator) for n in range(8)]
        if len(set(points)) == 8:
            return points
    raise AssertionError("no generator of the torsion group")


TORSION = torsion()


def test_there_are_eight_points_of_small_order_in_fourteen_encodings() -> None:
    assert len(SMALL_ORDER) == 14
    assert {encoded(point) for point in TORSION} <= SMALL_ORDER
    for encoding in SMALL_ORDER:
        number = int.from_bytes(encoding, "little")
        sign, y = number >> 255, number % 2**255 % P
        # As a lenient library decodes it: y reduced, and the sign of x = 0 let pass.
        decoded = decode_point((y | sign << 255).to_bytes(32, "little")) or decode_point(
            y.to_bytes(32, "little")
        )
        assert decoded in TORSION


def test_no_other_encoding_with_an_unreduced_y_is_of_small_order() -> None:
    for over in range(19):
        plain = decode_point(over.to_bytes(32, "little"))
        small = plain is not None and multiply(8, plain) == IDENTITY
        for sign in (0, 1):
            encoding = (P + over | sign << 255).to_bytes(32, "little")
            assert decode_point(encoding) is None
            assert (encoding in SMALL_ORDER) == small


@pytest.mark.parametrize("encoding", sorted(SMALL_ORDER), ids=lambda e: e.hex()[:8])
def test_a_small_order_r_and_a_small_order_key_are_refused(encoding: bytes) -> None:
    assert signature_fault(encoding + bytes(32)) == "signature: R is a point of small order"
    assert public_key_fault(encoding) is not None


@pytest.mark.parametrize("at", range(1, 8))
def test_a_key_of_mixed_order_is_refused(at: int) -> None:
    assert BASE is not None
    mixed = added(multiply(12_345, BASE), TORSION[at])
    assert public_key_fault(encoded(mixed)) == "public key: the point is not of prime order"
    assert public_key_fault(encoded(multiply(12_345, BASE))) is None


@given(seed=SEEDS)
@settings(max_examples=15)
def test_real_keys_and_signatures_have_no_fault_in_either_library(seed: bytes) -> None:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public = key.public_key().public_bytes_raw()
    assert public == bytes(nacl.signing.SigningKey(seed).verify_key)
    assert public_key_fault(public) is None
    assert signature_fault(key.sign(seed)) is None


@given(encoding=st.binary(min_size=32, max_size=32))
@settings(max_examples=60)
def test_a_decoded_point_is_on_the_curve_and_encodes_to_the_same_bytes(encoding: bytes) -> None:
    point = decode_point(encoding)
    if point is None:
        assert public_key_fault(encoding) is not None
    else:
        x, y = point
        assert (-x * x + y * y - 1 - D * x * x * y * y) % P == 0
        assert encoded(point) == encoding


@pytest.mark.parametrize("length", [0, 1, 31, 33, 63, 64, 65])
def test_lengths_are_exact(length: int) -> None:
    if length != 64:
        assert signature_fault(b"\x05" * length) == f"signature: expected 64 bytes, found {length}"
    assert public_key_fault(b"\x05" * length) == f"public key: expected 32 bytes, found {length}"


@pytest.mark.parametrize("scalar", [L, L + 1, 2 * L, 2**255, 2**256 - 1])
def test_s_is_below_the_order_of_the_group(scalar: int) -> None:
    r = bytes.fromhex("58" + "66" * 31)
    assert signature_fault(r + scalar.to_bytes(32, "little")) is not None
    assert signature_fault(r + (L - 1).to_bytes(32, "little")) is None


def test_a_shifted_s_makes_no_second_signature() -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    signature = key.sign(b"once")
    shifted = int.from_bytes(signature[32:], "little") + L
    assert signature_fault(signature[:32] + shifted.to_bytes(32, "little")) is not None


@pytest.mark.parametrize(
    "encoding",
    [
        (2).to_bytes(32, "little"),  # no point has this y
        (P + 3).to_bytes(32, "little"),
        (2**255 - 1).to_bytes(32, "little"),
        (1 | 1 << 255).to_bytes(32, "little"),  # x is 0 and says it is odd
        b"\xff" * 32,
    ],
)
def test_what_encodes_no_point_canonically_is_no_key(encoding: bytes) -> None:
    assert decode_point(encoding) is None
    assert public_key_fault(encoding) == (
        "public key: not the canonical encoding of a point on the curve"
    )


def test_without_the_check_two_libraries_answer_differently() -> None:
    """R the identity, under an honest key: OpenSSL takes it and libsodium does not."""
    seed, message = bytes(32), b"who decided?"
    secret = hashlib.sha512(seed).digest()[:32]
    scalar = int.from_bytes(secret, "little") & ~7 & (2**254 - 1) | 2**254
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    identity = encoded(IDENTITY)
    challenge = int.from_bytes(hashlib.sha512(identity + public + message).digest(), "little")
    signature = identity + (challenge * scalar % L).to_bytes(32, "little")

    Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    with pytest.raises(nacl.exceptions.BadSignatureError):
        nacl.signing.VerifyKey(public).verify(message, signature)
    with pytest.raises(InvalidSignature):
        Ed25519PublicKey.from_public_bytes(public).verify(signature, b"another message")
    assert signature_fault(signature) == "signature: R is a point of small order"
