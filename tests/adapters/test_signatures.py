"""Both libraries answer alike, and the form of a signature is looked at before either sees it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.adapters.signatures import Library, verifier, verify
from causebook.domain.ed25519 import SMALL_ORDER, L
from tests.adapters.forge import Key

KEY = Key("signatures")
LIBRARIES: list[Library] = ["openssl", "libsodium", "auto"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_signature_holds_for_its_key_and_message_alone(library: Library) -> None:
    signature = KEY.sign(b"message")
    assert verify(KEY.public, signature, b"message", library=library)
    assert not verify(KEY.public, signature, b"another", library=library)
    assert not verify(Key("other").public, signature, b"message", library=library)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("length", [0, 63, 65])
def test_a_signature_of_another_length_does_not_hold(library: Library, length: int) -> None:
    assert not verify(KEY.public, KEY.sign(b"m").ljust(65, b"\0")[:length], b"m", library=library)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("r", sorted(SMALL_ORDER))
def test_a_point_r_of_small_order_does_not_hold(library: Library, r: bytes) -> None:
    assert not verify(KEY.public, r + KEY.sign(b"m")[32:], b"m", library=library)


@pytest.mark.parametrize("library", LIBRARIES)
def test_s_past_the_order_of_the_group_does_not_hold(library: Library) -> None:
    signature = KEY.sign(b"m")
    larger = int.from_bytes(signature[32:], "little") + L
    assert not verify(
        KEY.public, signature[:32] + larger.to_bytes(32, "little"), b"m", library=library
    )


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("public", [b"", b"\xff" * 32, b"\0" * 31])
def test_bytes_that_are_no_key_hold_nothing(library: Library, public: bytes) -> None:
    assert not verify(public, KEY.sign(b"m"), b"m", library=library)


@settings(deadline=None)
@given(at=st.integers(0, 63), flip=st.integers(1, 255), message=st.binary(max_size=200))
def test_the_libraries_agree(at: int, flip: int, message: bytes) -> None:
    signature = bytearray(KEY.sign(message))
    assert verifier("openssl")(KEY.public, bytes(signature), message)
    assert verifier("libsodium")(KEY.public, bytes(signature), message)
    signature[at] ^= flip
    answers = {
        verifier(library)(KEY.public, bytes(signature), message)
        for library in ("openssl", "libsodium")
    }
    assert answers == {False}
