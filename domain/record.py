r"""The record: one event, written once, byte by byte.

A record is two lines of ASCII or UTF-8, each ended by one LF (0x0A), and nothing after the second:

    line 1   RFC 8785 canonical JSON, an object with exactly these seven keys, sorted as below
             at        "2026-11-30T15:36:00.123456Z", UTC, six digits of microseconds; a claim
             data      the event's fields, nulls included (domain/events.py)
             ledger    the origin: a C2SP note key name (not empty, no space, no "+", no control)
             previous  64 hex digits, see below
             stream    domain/streams.py
             type      the event's type
             version   the record's number in its stream, from 1
    line 2   keyid SP signature
             keyid     64 hex digits: SHA-256 of the signing key's DER SubjectPublicKeyInfo
             signature base64 of 64 bytes (RFC 4648 section 4, padded, canonical: 88 characters)

The signature is Ed25519 over the DSSE v1 pre-authentication encoding of line 1 without its LF:

    "DSSEv1 36 application/vnd.causebook.event+json " LEN " " LINE

where LEN is the length of LINE in bytes, in decimal. So a record turns into a DSSE envelope without being
signed again. The *digest* of a record is the SHA-256 of all its bytes, both lines and both LFs.

`previous` is the digest of the record before it in the stream. The first record of a stream takes it from
where the stream began: `LedgerFounded` has 64 zeros, `TaskOpened` the digest of `LedgerFounded`,
`EvaluationOpened` that of its `PanelConvened`. So every stream hangs on one founding, and a verdict's
signature covers every step that led to it.

A record has one spelling. `parse` takes a record apart and refuses any other: it encodes again what it read
and compares, so a duplicate key, `-0`, `1e0`, a blank or a lone surrogate needs no rule of its own. `parse`
checks form only; whose key it is and whether the signature holds is asked by whoever has the keys.

This module takes values and bytes and does no IO, unless the `sign` it is given does. `docs/format.md` shows
a whole record.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from .canonical import decode, encode
from .encoding import is_key_name
from .errors import RecordError
from .limits import RECORD_BYTES_MAX

PAYLOAD_TYPE: Final = "application/vnd.causebook.event+json"
NO_PREVIOUS: Final = "0" * 64
LINE_2_BYTES: Final = 64 + 1 + 88 + 1
"""Of every record, with its LF."""

_PAE: Final = b"DSSEv1 %d %b " % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode())
_KEYS: Final = ["at", "data", "ledger", "previous", "stream", "type", "version"]
# An hour is at most 23: later Pythons read 24:00:00 as the next day, and the answer must not depend on that.
_AT = re.compile(r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d\.\d{6}Z", re.ASCII)
_HEX64 = re.compile(r"[0-9a-f]{64}")
# The last character before the padding holds two bits: A, Q, g or w, where the base64 is canonical.
_SIGNED = re.compile(rb"([0-9a-f]{64}) ([A-Za-z0-9+/]{85}[AQgw]==)\n")


class Record(NamedTuple):
    """One record, taken apart. `line` is line 1 without its LF; `digest` the SHA-256 of all bytes, hex."""

    at: str
    data: dict[str, Any]
    ledger: str
    previous: str
    stream: str
    type: str
    version: int
    keyid: str
    signature: bytes
    line: bytes
    digest: str

    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return pae(self.line)


def pae(line: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The DSSE v1 pre-authentication encoding of `line`."""
    if payload_type == PAYLOAD_TYPE:
        return b"%b%d %b" % (_PAE, len(line), line)
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(line), line)


def digest(raw: bytes) -> str:
    """The digest of a record: SHA-256 of all its bytes, hex."""
    return hashlib.sha256(raw).hexdigest()


def is_origin(name: str) -> bool:
    """Whether `name` can be a ledger's origin: a note key name, at most 255 characters."""
    return is_key_name(name)


def write(
    type: str,
    data: Mapping[str, Any],
    *,
    at: str,
    ledger: str,
    previous: str,
    stream: str,
    version: int,
    keyid: str,
    sign: Callable[[bytes], bytes],
) -> tuple[bytes, str]:
    """The record of one event, signed, and its digest.

    `data` are the event's fields (`Fact.fields`); `at` a `written_time`; `keyid` that of the key `sign` signs
    with. Raises `RecordError` where the data hold what canonical JSON cannot say, or the record would be
    longer than 61,440 bytes.
    """
    document = {
        "at": at,
        "data": data,
        "ledger": ledger,
        "previous": previous,
        "stream": stream,
        "type": type,
        "version": version,
    }
    try:
        line = encode(document)
    except ValueError as error:
        raise RecordError(f"{stream} v{version} {type}: cannot be written: {error}") from None
    raw = assemble(line, keyid, sign(pae(line)))
    return raw, digest(raw)


def written_time(at: datetime) -> str:
    """An aware time as a record writes it. Raises `ValueError` for a naive one."""
    if at.tzinfo is not UTC:  # as every clock of ours has it
        if at.utcoffset() is None:
            raise ValueError("a record's time is aware")
        at = at.astimezone(UTC)
    fields = at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond
    return "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ" % fields  # noqa: UP031  in half an f-string's time


def assemble(line: bytes, keyid: str, signature: bytes) -> bytes:
    """The record of line 1, the signer's key id and the 64 bytes of the signature over `pae(line)`.

    Raises `RecordError` where the record would be longer than 61,440 bytes.
    """
    raw = b"%b\n%b %b" % (line, keyid.encode(), binascii.b2a_base64(signature))  # which adds the LF
    if len(raw) > RECORD_BYTES_MAX:
        raise RecordError(f"record: expected at most {RECORD_BYTES_MAX} bytes, found {len(raw)}")
    return raw


def parse(raw: bytes) -> Record:
    """The record that `raw` is. Raises `RecordError` naming the first rule it breaks."""
    if len(raw) > RECORD_BYTES_MAX:
        raise RecordError(f"length: expected at most {RECORD_BYTES_MAX} bytes, found {len(raw)}")
    line, _, rest = raw.partition(b"\n")
    signed = _SIGNED.fullmatch(rest)
    if signed is None:
        raise RecordError(
            "lines: expected a line of JSON, and a line of key id and canonical base64"
        )
    try:
        document = decode(line)
    except ValueError as error:
        raise RecordError(f"line 1: {error}") from None
    if not isinstance(document, dict) or list(document) != _KEYS:  # canonical, so they are sorted
        raise RecordError("line 1: expected exactly the keys " + ", ".join(_KEYS))
    at, data, ledger, previous, stream, type_, version = document.values()
    if not isinstance(at, str) or _AT.fullmatch(at) is None:
        raise RecordError("at: expected a time like 2026-11-30T15:36:00.123456Z")
    try:
        datetime.fromisoformat(at)
    except ValueError:
        raise RecordError("at: no such time") from None
    if not isinstance(data, dict):
        raise RecordError("data: expected an object")
    if not isinstance(ledger, str) or not is_origin(ledger):
        raise RecordError("ledger: expected an origin without spaces, '+' or controls")
    if not isinstance(previous, str) or _HEX64.fullmatch(previous) is None:
        raise RecordError("previous: expected 64 lower-case hex digits")
    if not isinstance(stream, str) or not isinstance(type_, str):
        raise RecordError("stream, type: expected strings")
    if type(version) is not int or version < 1:
        raise RecordError("version: expected a whole number from 1")
    signer, signature = signed[1].decode(), binascii.a2b_base64(signed[2])
    return Record(
        at, data, ledger, previous, stream, type_, version, signer, signature, line, digest(raw)
    )
