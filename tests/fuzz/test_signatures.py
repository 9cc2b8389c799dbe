"""OpenSSL and libsodium on the same key, signature and message: one answer, whatever the three are.

`tests/conformance/test_crafted_signatures.py` makes signatures by the equation they have to satisfy; here
they are damaged, swapped and made of points and scalars at the edge, as bytes.
"""

from __future__ import annotations

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.domain.ed25519 import SMALL_ORDER, L
from tests.adapters.logs import private_key

from .signatures import answers, triples

KEYS = [private_key(name) for name in ("one", "two", "three")]
SCALARS = st.sampled_from([0, 1, 2, 8, L - 1, L, L + 1, 2 * L, 2**252, 2**255 - 19, 2**256 - 1])
POINTS = st.sampled_from(
    [*sorted(SMALL_ORDER), *(key.public_key().public_bytes_raw() for key in KEYS)]
)


@settings(deadline=None, max_examples=300)
@given(
    signer=st.sampled_from(KEYS),
    claimed=st.sampled_from(KEYS),
    message=st.binary(max_size=200),
    other=st.binary(max_size=200),
)
def test_a_signature_is_by_its_key_over_its_message_and_no_other(
    signer: object, claimed: object, message: bytes, other: bytes
) -> None:
    key, named = KEYS[KEYS.index(signer)], KEYS[KEYS.index(claimed)]  # type: ignore[arg-type]
    public = named.public_key().public_bytes_raw()
    assert answers(public, key.sign(message), message) == {key is named}
    assert answers(public, key.sign(message), other) == {key is named and message == other}


@settings(deadline=None, max_examples=300)
@given(
    key=st.sampled_from(range(len(KEYS))),
    message=st.binary(max_size=64),
    point=POINTS | st.binary(min_size=32, max_size=32),
    scalar=SCALARS | st.integers(0, 2**256 - 1),
    keep_point=st.booleans(),
)
def test_points_and_scalars_at_the_edge_are_refused_by_both(
    key: int, message: bytes, point: bytes, scalar: int, keep_point: bool
) -> None:
    private = KEYS[key]
    signature = private.sign(message)
    crafted = (signature[:32] if keep_point else point) + scalar.to_bytes(32, "little")
    if crafted != signature:
        assert answers(private.public_key().public_bytes_raw(), crafted, message) == {False}


@settings(deadline=None, max_examples=300)
@given(
    key=st.sampled_from(range(len(KEYS))),
    message=st.binary(max_size=64),
    bit=st.integers(0, 511),
)
def test_every_bit_of_a_signature_counts(key: int, message: bytes, bit: int) -> None:
    private = KEYS[key]
    signature = bytearray(private.sign(message))
    signature[bit // 8] ^= 1 << bit % 8
    assert answers(private.public_key().public_bytes_raw(), bytes(signature), message) == {False}


@settings(deadline=None, max_examples=100)
@given(message=st.binary(max_size=64), length=st.integers(0, 130).filter(lambda n: n != 64))
def test_a_signature_of_another_length_is_refused_by_both(message: bytes, length: int) -> None:
    private = KEYS[0]
    signature = (private.sign(message) + hashlib.sha512(message).digest() + b"xx")[:length]
    assert answers(private.public_key().public_bytes_raw(), signature, message) == {False}


def test_what_is_crafted_for_the_fuzzer_holds_where_it_should_and_nowhere_else() -> None:
    held = [answers(raw[:32], raw[32:96], raw[96:]) for raw in triples()]
    assert held == [{True}] * 3 + [{False}] * (len(held) - 3)
