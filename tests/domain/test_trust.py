"""The trust file: one spelling, and nothing but what it says."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.domain.errors import BadData
from causebook.domain.keyring import spki_of
from causebook.domain.trust import TRUST_BYTES_MAX, Trust

ROOT = "MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
TRUST = Trust("audit.example.com/team", "1" * 64, ROOT, 7, "2" * 64, 120)


def test_it_is_one_line_of_canonical_json() -> None:
    assert TRUST.raw == (
        b'{"founding":"' + b"1" * 64 + b'","kind":"causebook-trust","ledger":"audit.example.com/team",'
        b'"ledger_digest":"' + b"2" * 64 + b'","ledger_index":120,"ledger_version":7,'
        b'"root_key":"' + ROOT.encode() + b'"}\n'
    )  # fmt: skip
    assert Trust.parse(TRUST.raw) == TRUST


def test_a_ledger_of_nothing_but_its_founding_is_trusted_by_that() -> None:
    founded = Trust("a.example/t", "1" * 64, ROOT, 1, "1" * 64, 0)
    assert Trust.parse(founded.raw) == founded


def said(**changes: Any) -> bytes:
    document = orjson.loads(TRUST.raw) | changes
    document = {key: value for key, value in document.items() if value is not ...}
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS) + b"\n"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "one line"),
        (TRUST.raw[:-1], "one line"),
        (TRUST.raw.replace(b"\n", b"\r\n"), "canonical JSON"),
        (TRUST.raw + TRUST.raw, "not JSON"),
        (b" " * TRUST_BYTES_MAX + TRUST.raw, "at most"),
        (TRUST.raw.replace(b'":7', b'": 7'), "canonical JSON"),
        (TRUST.raw.replace(b'":7', b'":7.0'), "integers"),
        (TRUST.raw.replace(b'{"founding"', b'{"founding":"x","founding"'), "canonical JSON"),
        (b"\xff\n", "not JSON"),
        (b"[]\n", "exactly the keys"),
        (said(kind="causebook-pin"), "the kind"),
        (said(kind=...), "exactly the keys"),
        (said(witness="x"), "exactly the keys"),
        (said(ledger="a b"), "ledger: expected an origin"),
        (said(ledger="a\u202fb"), "ledger: expected an origin"),
        (said(ledger=None), "ledger: expected an origin"),
        (said(founding="1" * 63), "founding: expected 64"),
        (said(founding="A" * 64), "founding: expected 64"),
        (said(ledger_digest=1), "ledger_digest: expected 64"),
        (said(ledger_version=0), "ledger_version"),
        (said(ledger_version=True), "ledger_version"),
        (said(ledger_version="7"), "ledger_version"),
        (said(ledger_version=1), "expected the founding"),
        (said(ledger_version=1, ledger_digest="1" * 64), "ledger_index: expected 0"),
        (said(ledger_index=...), "exactly the keys"),
        (said(ledger_index=5), "ledger_index: expected a whole number"),
        (said(ledger_index=-1), "ledger_index"),
        (said(ledger_index=False), "ledger_index"),
        (said(ledger_index="120"), "ledger_index"),
        (said(root_key=None), "root_key"),
        (said(root_key=ROOT.rstrip("=")), "root_key"),
        (said(root_key=base64.b64encode(spki_of(bytes(32))).decode()), "root_key: public key"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_in_words(raw: bytes, why: str) -> None:
    with pytest.raises(BadData, match=why) as refused:
        Trust.parse(raw)
    assert refused.value.message.startswith("trust file: ")
    assert "\n" not in refused.value.message


def _replace(place: int, byte: int) -> Callable[[bytes], bytes]:
    return lambda raw: raw[: place % len(raw)] + bytes([byte]) + raw[place % len(raw) + 1 :]


@given(place=st.integers(0, 4096), byte=st.integers(0, 255))
def test_whatever_is_read_is_written_the_same(place: int, byte: int) -> None:
    raw = _replace(place, byte)(TRUST.raw)
    try:
        read = Trust.parse(raw)
    except BadData:
        return
    assert read.raw == raw
