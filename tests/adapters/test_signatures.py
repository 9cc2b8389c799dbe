"""Both libraries answer alike, and the form of a signature is looked at before either sees it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.adapters.signatures import Library, SignatureChecks, verifier, verify
from causebook.domain.ed25519 import SMALL_ORDER, L
from causebook.domain.record import pae
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


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_those_that_fail_are_named_in_order(threads: int) -> None:
    lines = [b"%d" % n for n in range(20_000)]
    bad = {3, 255, 256, 9_999, 19_999}
    good, wrong = KEY.sign(pae(b"7")), KEY.sign(pae(b"elsewhere"))
    with SignatureChecks(lambda key, signature, _: signature == good, threads=threads) as checks:
        for n, line in enumerate(lines):
            checks.add((n, "task/T", n + 1), KEY.public, wrong if n in bad else good, line)
        failed = checks.finish()
    assert failed == [(n, "task/T", n + 1) for n in sorted(bad)]


def test_an_error_in_a_thread_is_raised() -> None:
    def broken(public: bytes, signature: bytes, message: bytes) -> bool:
        raise MemoryError

    with SignatureChecks(broken, threads=1) as checks:
        checks.add((0, "ledger", 1), KEY.public, b"", b"")
        with pytest.raises(MemoryError):
            checks.finish()
