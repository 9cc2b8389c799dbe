"""A statement of heads: its one spelling, and what it leaves out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.domain.canonical import decode, encode
from causebook.domain.dsse import ENVELOPE_BYTES_MAX, parse_envelope, seal_envelope
from causebook.domain.errors import CannotCreate
from causebook.domain.heads import HEADS_MAX, Heads, HeadsError, StreamHead

A, B = "a" * 64, "b" * 64
JUDGE = "evaluation/T-1/1/post_execute/security"
STATED = Heads(
    "audit.example.com/team",
    A,
    12,
    b"\x07" * 32,
    "T-1",
    {JUDGE: StreamHead(4, A), "ledger": StreamHead(3, B), "task/T-1": StreamHead(5, A)},
)


def test_a_statement_has_one_spelling() -> None:
    assert Heads.parse(STATED.payload) == STATED
    said = decode(STATED.payload)
    assert list(said) == ["founding", "heads", "ledger", "root", "size"]
    assert [head["stream"] for head in said["heads"]] == [JUDGE, "ledger", "task/T-1"]


def changed(change: Callable[[Any], Any]) -> bytes:
    said = decode(STATED.payload)
    change(said)
    return encode(said)


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (STATED.payload + b"\n", "not canonical"),
        (STATED.payload.replace(b'"size":12', b'"size":12.0'), "integers"),
        (STATED.payload.replace(b'"size":12', b'"size":012'), "not JSON"),
        (changed(lambda d: d.update(size=0)), "size"),
        (changed(lambda d: d.update(size=True)), "size"),
        (changed(lambda d: d.update(root="BwcH")), "32 bytes"),
        (changed(lambda d: d.update(founding="A" * 64)), "founding"),
        (changed(lambda d: d.update(ledger="a b")), "ledger"),
        (changed(lambda d: d.update(more=1)), "exactly the keys"),
        (changed(lambda d: d["heads"].reverse()), "sorted"),
        (changed(lambda d: d["heads"].append(d["heads"][-1])), "sorted"),
        (changed(lambda d: d["heads"].pop(1)), "and ledger"),
        (changed(lambda d: d["heads"].pop(2)), "one task"),
        (
            changed(lambda d: d["heads"][0].update(stream="evaluation/T-2/1/post_execute/a")),
            "one task",
        ),
        (changed(lambda d: d["heads"][0].update(stream="evaluation/T-1")), "name of a stream"),
        (changed(lambda d: d["heads"][0].update(version=0)), "version"),
        (changed(lambda d: d["heads"][0].update(digest="x")), "digest"),
        (b"[]", "exactly the keys"),
        (b"", "not JSON"),
    ],
)
def test_what_is_no_statement(payload: bytes, said: str) -> None:
    with pytest.raises(HeadsError, match=said):
        Heads.parse(payload)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_statement_or_a_named_error(payload: bytes) -> None:
    with suppress(HeadsError):
        assert Heads.parse(payload).payload == payload


@pytest.mark.parametrize(
    ("stream", "version", "digest", "told"),
    [
        ("task/T-1", 4, B, None),  # below the head: the chain says what it is
        ("task/T-1", 5, A, None),
        ("task/T-1", 5, B, "that v5 is another record"),
        ("task/T-1", 6, B, "that the stream ended at v5"),
        ("ledger", 4, B, "that the stream ended at v3"),
        ("evaluation/T-1/1/post_execute/testing", 1, B, "that the stream had no record"),
        ("task/T-2", 1, B, None),  # of another task it says nothing
        ("evaluation/T-2/1/post_execute/security", 1, B, None),
    ],
)
def test_what_a_statement_leaves_out(
    stream: str, version: int, digest: str, told: str | None
) -> None:
    assert STATED.left_out(stream, version, digest) == told


def test_two_statements_are_told_apart() -> None:
    assert Heads.parse(replace(STATED, size=13).payload) != STATED


def large(heads: int) -> Heads:
    """A statement of so many heads, with the longest names and numbers there are."""
    task = "T" * 128
    names = (f"evaluation/{task}/{10**14 + n}/post_execute/{'j' * 128}" for n in range(heads - 2))
    named = {name: StreamHead(2**53 - 1, A) for name in (*names, "ledger", f"task/{task}")}
    return Heads("o" * 200, A, 2**53 - 1, b"\x07" * 32, task, named)


def test_the_largest_statement_is_read_and_a_larger_one_is_not_signed() -> None:
    stated = large(HEADS_MAX)
    envelope = stated.sealed(A, lambda message: bytes(64))
    assert Heads.parse(parse_envelope(envelope.raw).payload) == stated
    signed: list[bytes] = []

    def sign(message: bytes) -> bytes:
        signed.append(message)
        return bytes(64)

    with pytest.raises(CannotCreate, match="expected at most 7,000 streams"):
        large(HEADS_MAX + 1).sealed(A, sign)
    with pytest.raises(HeadsError, match="at most 7000"):
        Heads.parse(large(HEADS_MAX + 1).payload)
    with pytest.raises(CannotCreate, match="expected at most 4,194,304 bytes"):
        seal_envelope(bytes(ENVELOPE_BYTES_MAX // 4 * 3), "x", A, sign)
    assert signed == []
