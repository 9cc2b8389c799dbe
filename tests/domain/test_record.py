"""The record, byte by byte: one spelling, and no other passes."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.domain.canonical import encode
from causebook.domain.errors import RecordError
from causebook.domain.limits import RECORD_BYTES_MAX
from causebook.domain.record import (
    NO_PREVIOUS,
    PAYLOAD_TYPE,
    Record,
    assemble,
    digest,
    is_origin,
    pae,
    parse,
    write,
    written_time,
)

KEYID = "ab" * 32
SIGNATURE = bytes(range(64))
AT = datetime(2026, 11, 30, 15, 36, 0, 123456, UTC)
FIELDS: dict[str, Any] = {
    "at": "2026-11-30T15:36:00.123456Z",
    "data": {"turn": 7, "word": "naïve", "none": None, "many": [1, 2]},
    "ledger": "audit.example.com/team",
    "previous": "0f" * 32,
    "stream": "evaluation/T-1/1/post_execute/architecture",
    "type": "TurnCharged",
    "version": 7,
}


def raw_of(line: bytes, last: bytes | None = None) -> bytes:
    last = KEYID.encode() + b" " + base64.b64encode(SIGNATURE) if last is None else last
    return line + b"\n" + last + b"\n"


def record(**changes: Any) -> bytes:
    return raw_of(encode({**FIELDS, **changes}))


def test_a_record_is_these_bytes() -> None:
    signed = []

    def sign(message: bytes) -> bytes:
        signed.append(message)
        return SIGNATURE

    raw, its_digest = write(
        "TurnSpared",
        {"stall": 1, "max_stall_turns": 3, "turn": 2},
        at="2026-11-30T15:36:00.123456Z",
        ledger="audit.example.com/team",
        previous="0f" * 32,
        stream="evaluation/T-1/1/post_execute/architecture",
        version=7,
        keyid=KEYID,
        sign=sign,
    )
    assert raw == (
        b'{"at":"2026-11-30T15:36:00.123456Z","data":{"max_stall_turns":3,"stall":1,"turn":2},'
        b'"ledger":"audit.example.com/team","previous":"' + b"0f" * 32 + b'","stream":'
        b'"evaluation/T-1/1/post_execute/architecture","type":"TurnSpared","version":7}\n'
        + b"ab" * 32
        + b" AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==\n"
    )
    parsed = parse(raw)
    assert parsed.digest == digest(raw) == its_digest == hashlib.sha256(raw).hexdigest()
    line = raw.split(b"\n")[0]
    assert signed == [parsed.signed_bytes()]
    assert signed == [b"DSSEv1 36 application/vnd.causebook.event+json %d %b" % (len(line), line)]
    assert len(PAYLOAD_TYPE) == 36
    assert len(NO_PREVIOUS) == 64


def test_the_signed_bytes_are_those_of_the_dsse_specification() -> None:
    assert pae(b"hello world", "http://example.com/HelloWorld") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


DATA = st.dictionaries(
    st.text(st.characters(max_codepoint=127), max_size=5),
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=9),
    max_size=4,
)


@given(
    at=st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=-7, minutes=30)))),
    data=DATA,
    version=st.integers(1, 2**53 - 1),
    keyid=st.binary(min_size=32, max_size=32),
    signature=st.binary(min_size=64, max_size=64),
)
def test_what_is_written_is_read_back(
    at: datetime, data: dict[str, Any], version: int, keyid: bytes, signature: bytes
) -> None:
    try:
        utc = at.astimezone(UTC)
    except OverflowError:
        return
    raw, _ = write(
        "KeyEnrolled",
        data,
        at=written_time(at),
        ledger="example.com/x",
        previous=NO_PREVIOUS,
        stream="ledger",
        version=version,
        keyid=keyid.hex(),
        sign=lambda _: signature,
    )
    parsed = parse(raw)
    assert datetime.fromisoformat(parsed.at) == utc
    assert (parsed.data, parsed.version) == (data, version)
    assert (parsed.keyid, parsed.signature) == (keyid.hex(), signature)
    assert (parsed.ledger, parsed.previous) == ("example.com/x", NO_PREVIOUS)
    assert (parsed.stream, parsed.type) == ("ledger", "KeyEnrolled")


def said(found: Record) -> tuple[Any, ...]:
    """All that a record says, apart from its own bytes."""
    return (
        found.at,
        json.dumps(found.data, sort_keys=True),
        found.ledger,
        found.previous,
        found.stream,
        found.type,
        found.version,
        found.keyid,
        found.signature,
    )


def test_any_one_changed_bit_breaks_the_form_or_says_something_else() -> None:
    """No bit of a record is idle: there is no second spelling of what it says."""
    raw = record()
    whole = said(parse(raw))
    for place in range(len(raw)):
        for bit in range(8):
            flipped = bytearray(raw)
            flipped[place] ^= 1 << bit
            try:
                found = parse(bytes(flipped))
            except RecordError:
                continue
            assert said(found) != whole, (place, bit)
            assert found.digest != digest(raw)


@given(place=st.integers(0, 500), cut=st.integers(0, 3), put=st.binary(max_size=3))
def test_bytes_cut_out_or_put_in_break_the_form_or_say_something_else(
    place: int, cut: int, put: bytes
) -> None:
    raw = record()
    place %= len(raw)
    other = raw[:place] + put + raw[place + cut :]
    if other == raw:
        return
    try:
        found = parse(other)
    except RecordError:
        return
    assert said(found) != said(parse(raw))


LINE = encode(FIELDS)
SIGNED = KEYID.encode() + b" " + base64.b64encode(SIGNATURE)


def in_line(old: bytes, new: bytes) -> bytes:
    assert LINE.count(old) == 1
    return raw_of(LINE.replace(old, new))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        pytest.param(b"", "lines", id="nothing"),
        pytest.param(b"\n", "lines", id="one LF"),
        pytest.param(LINE, "lines", id="no second line"),
        pytest.param(LINE + b"\n" + SIGNED, "lines", id="no last LF"),
        pytest.param(raw_of(LINE) + b"\n", "lines", id="a third line"),
        pytest.param(raw_of(LINE) + raw_of(LINE), "lines", id="two records"),
        pytest.param(b"\n" + raw_of(LINE), "lines", id="an empty line before"),
        pytest.param(raw_of(LINE).replace(b"\n", b"\r\n"), "lines", id="CRLF"),
        pytest.param(raw_of(LINE, SIGNED.replace(b" ", b"  ")), "lines", id="two spaces"),
        pytest.param(raw_of(LINE, SIGNED.replace(b" ", b"\t")), "lines", id="a tab"),
        pytest.param(raw_of(LINE, SIGNED + b" "), "lines", id="a trailing space"),
        pytest.param(
            raw_of(LINE, KEYID.upper().encode() + SIGNED[64:]), "lines", id="upper-case key id"
        ),
        pytest.param(raw_of(LINE, SIGNED[1:]), "lines", id="short key id"),
        pytest.param(raw_of(LINE, SIGNED.rstrip(b"=")), "lines", id="base64 without padding"),
        pytest.param(
            raw_of(LINE, SIGNED[:-3] + b"x=="), "canonical base64", id="base64 with idle bits"
        ),
        pytest.param(raw_of(LINE, SIGNED.replace(b"4", b"-")), "lines", id="base64 for URLs"),
        pytest.param(
            raw_of(LINE, KEYID.encode() + b" " + base64.b64encode(SIGNATURE[:63])),
            "lines",
            id="63 bytes of signature",
        ),
        pytest.param(raw_of(LINE + b" "), "line 1", id="a blank after the document"),
        pytest.param(in_line(b'"version":7', b'"version": 7'), "canonical", id="a blank within"),
        pytest.param(in_line(b'"version":7', b'"version":007'), "not JSON", id="007"),
        pytest.param(in_line(b'"version":7', b'"version":7.0'), "integers", id="7.0"),
        pytest.param(in_line(b'"version":7', b'"version":7e0'), "canonical", id="7e0"),
        pytest.param(in_line(b'"turn":7', b'"turn":-0'), "canonical", id="-0"),
        pytest.param(in_line(b'"turn":7', b'"turn":1e0'), "canonical", id="1e0"),
        pytest.param(in_line(b'"turn":7', b'"turn":1.0'), "integers", id="1.0 in data"),
        pytest.param(in_line(b'"turn":7', b'"turn":1.5'), "integers", id="a fraction in data"),
        pytest.param(in_line(b'"turn":7', b'"turn":9007199254740992'), "53", id="2^53 in data"),
        pytest.param(
            in_line(b'"turn":7', '"türn":7'.encode()), "ASCII keys", id="a key beyond ASCII"
        ),
        pytest.param(in_line(b'"turn":7', b'"turn":7,"turn":7'), "canonical", id="a key twice"),
        pytest.param(
            in_line(b'"version":7', b'"version":7,"version":7'), "canonical", id="version twice"
        ),
        pytest.param(in_line(b"na", b"\\u006ea"), "canonical", id="a needless escape"),
        pytest.param(in_line(b"na", b"\\ud800"), "not JSON", id="a lone surrogate"),
        pytest.param(in_line(b"na", b"\xed\xa0\x80"), "not JSON", id="a lone surrogate in UTF-8"),
        pytest.param(in_line(b"na", b"\xff"), "not JSON", id="not UTF-8"),
        pytest.param(
            in_line(b'"turn":7', b'"turn":' + b"[" * 300 + b"]" * 300),
            "line 1",
            id="nested 300 deep",
        ),
        pytest.param(
            in_line(b'"turn":7', b'"turn":' + b"[" * 5_000 + b"]" * 5_000),
            "line 1",
            id="nested 5,000 deep",
        ),
        pytest.param(raw_of(encode([FIELDS])), "exactly the keys", id="a list"),
        pytest.param(raw_of(encode("text")), "exactly the keys", id="a text"),
        pytest.param(record(extra=1), "exactly the keys", id="an eighth key"),
        pytest.param(
            raw_of(encode({k: v for k, v in FIELDS.items() if k != "at"})),
            "exactly the keys",
            id="a key missing",
        ),
        pytest.param(record(at="2026-11-30T15:36:00Z"), "at:", id="no microseconds"),
        pytest.param(record(at="2026-11-30T15:36:00.123456+00:00"), "at:", id="an offset"),
        pytest.param(record(at="2026-11-30 15:36:00.123456Z"), "at:", id="a blank for T"),
        pytest.param(record(at="2026-11-31T15:36:00.123456Z"), "at:", id="31 November"),
        pytest.param(record(at="2026-11-30T24:00:00.000000Z"), "at:", id="24:00"),
        pytest.param(record(at="2026-11-30T23:59:60.000000Z"), "at:", id="a leap second"),
        pytest.param(
            record(at="٢026-11-30T15:36:00.123456Z"), "at:", id="digits of another script"
        ),
        pytest.param(record(at=7), "at:", id="at is a number"),
        pytest.param(record(data=[]), "data:", id="data is a list"),
        pytest.param(record(data=None), "data:", id="data is null"),
        pytest.param(record(ledger="a b"), "ledger:", id="a blank in the origin"),
        pytest.param(record(ledger=None), "ledger:", id="no origin"),
        pytest.param(record(previous="0F" * 32), "previous:", id="upper-case digest"),
        pytest.param(record(previous="0f" * 31), "previous:", id="short digest"),
        pytest.param(record(previous="0f" * 32 + "\n"), "previous:", id="digest and LF"),
        pytest.param(record(previous=None), "previous:", id="no digest"),
        pytest.param(record(stream=1), "stream, type", id="stream is a number"),
        pytest.param(record(type=None), "stream, type", id="type is null"),
        pytest.param(record(version=0), "version:", id="version 0"),
        pytest.param(record(version=-1), "version:", id="version -1"),
        pytest.param(record(version=True), "version:", id="version true"),
        pytest.param(record(version="7"), "version:", id="version is text"),
    ],
)
def test_a_record_in_any_other_form_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse(raw)
    assert why in caught.value.message


def test_a_record_has_at_most_61440_bytes() -> None:
    rest = len(record(data={"text": ""}))
    longest = record(data={"text": "x" * (RECORD_BYTES_MAX - rest)})
    assert len(longest) == 61_440
    parse(longest)
    with pytest.raises(RecordError, match="at most 61440 bytes, found 61441"):
        parse(record(data={"text": "x" * (RECORD_BYTES_MAX - rest + 1)}))
    line = longest.split(b"\n")[0]
    assert assemble(line, KEYID, SIGNATURE) == longest
    with pytest.raises(RecordError, match="at most 61440 bytes, found 61441"):
        assemble(line + b" ", KEYID, SIGNATURE)


@pytest.mark.parametrize("data", [{"a": "\ud800"}, {"\udfff": 1}, {"a": {1: 2}}, {"a": object()}])
def test_what_cannot_be_written_is_an_error_of_the_record(data: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match="task/T-1 v3 TaskOpened: cannot be written"):
        write(
            "TaskOpened",
            data,
            at=written_time(AT),
            ledger="example.com/x",
            previous=NO_PREVIOUS,
            stream="task/T-1",
            version=3,
            keyid=KEYID,
            sign=lambda _: SIGNATURE,
        )


def test_a_time_is_aware_and_written_in_utc_with_six_digits() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    assert written_time(datetime(2026, 1, 1, 2, 0, 0, 0, east)) == "2025-12-31T20:30:00.000000Z"
    assert written_time(AT) == "2026-11-30T15:36:00.123456Z"
    with pytest.raises(ValueError, match="aware"):
        written_time(datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "audit.example.com/team",
        "causebook.local/" + "0f" * 16,
        "prüfung.example/ä",
        "x" * 255,
        "a:b",
        "🐢",
    ],
)
def test_an_origin_is_a_note_key_name(name: str) -> None:
    assert is_origin(name)
    parse(record(ledger=name))


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a b",
        "a+b",
        "a\n",
        "\na",
        "a\tb",
        "a\u00a0b",
        "a\u2003b",
        "a\u2028b",
        "a\u3000b",
        "a\0b",
        "a\x7fb",
        "a\x85b",
        "a\u202eb",
        "a\u200bb",
        "\ufeffa",
        "a\u2066b",
        "x" * 256,
    ],
)
def test_what_is_no_note_key_name_is_no_origin(name: str) -> None:
    assert not is_origin(name)
    with pytest.raises(RecordError, match="ledger"):
        parse(record(ledger=name))
