"""What an Ed25519 signature and key must look like before any library sees them.

OpenSSL and libsodium disagree on signatures at the edge: a point R of small order, a key of small or mixed
order. Two auditors with two libraries would then disagree about one record. So a signature is checked for
form first, and a key once, when it is enrolled:

- a signature has 64 bytes; S < L; R is not one of the 14 encodings of a point of small order;
- a public key has 32 bytes, is the canonical encoding of a point on the curve, and that point has prime
  order L (so it is not the identity, nor of small or mixed order).

Formulas and constants: RFC 8032, section 5.1. The arithmetic is plain and slow (milliseconds), and is done
once per key, never per signature.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

P: Final = 2**255 - 19
L: Final = 2**252 + 27742317777372353535851937790883648493
D: Final = -121665 * pow(121666, -1, P) % P
_SQRT_M1: Final = pow(2, (P - 1) // 4, P)

Point = tuple[int, int]
IDENTITY: Final[Point] = (0, 1)


def _add(a: Point, b: Point) -> Point:
    (x1, y1), (x2, y2) = a, b
    k = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P
    return x, y


def multiply(scalar: int, point: Point) -> Point:
    """`scalar` times `point`."""
    result = IDENTITY
    while scalar:
        if scalar & 1:
            result = _add(result, point)
        point = _add(point, point)
        scalar >>= 1
    return result


def decode_point(encoded: bytes) -> Point | None:
    """The point that 32 bytes encode; None where they encode none, or not canonically."""
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    if len(encoded) != 32 or y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * _SQRT_M1 % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    return (P - x if x & 1 != sign else x), y


def _small_order_encodings() -> frozenset[bytes]:
    # The y of the points of order 8 is a root of d·y⁴ + 2·y² - 1 = 0, for twice such a point has y = 0.
    y8 = 0x5FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
    ys = (0, 1, P - 1, y8, P - y8, P, P + 1)
    return frozenset((y | sign << 255).to_bytes(32, "little") for y in ys for sign in (0, 1))


SMALL_ORDER: Final = _small_order_encodings()
"""Every encoding of a point of small order, canonical or not, that some library decodes."""


def signature_fault(signature: bytes) -> str | None:
    """Why no library should see this signature, or None."""
    if len(signature) != 64:
        return f"signature: expected 64 bytes, found {len(signature)}"
    if int.from_bytes(signature[32:], "little") >= L:
        return "signature: S is not below the order of the group"
    if signature[:32] in SMALL_ORDER:
        return "signature: R is a point of small order"
    return None


@lru_cache(maxsize=1024)
def public_key_fault(key: bytes) -> str | None:
    """Why this is not a public key to trust, or None."""
    if len(key) != 32:
        return f"public key: expected 32 bytes, found {len(key)}"
    point = decode_point(key)
    if point is None:
        return "public key: not the canonical encoding of a point on the curve"
    if point == IDENTITY or multiply(L, point) != IDENTITY:
        return "public key: the point is not of prime order"
    return None
