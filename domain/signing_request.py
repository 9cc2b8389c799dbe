"""Signing requests: what a key that lives elsewhere is asked to sign, and what it answered.

A request is a JSON file that goes round: it is written where the ledger is, signed where the keys are, and
stored where the ledger is. All that is signed stands in it as facts that a person can read; what is signed
of them, line 1 of each record and the bytes of an enrolment, every signer writes out for itself.

    kind       "causebook-request"
    ledger     the origin
    nonce      that of LedgerFounded, to which enrolments are bound
    root_key   that of LedgerFounded, likewise
    stream     "ledger", or "task/<task>" for a resolution
    version    that of the first record, its number in the stream
    previous   what the first record hangs on: the digest of the one before, or 64 zeros for a founding
    records    one to 64, in order, each with
                 type, at, data   as they stand in line 1; in the data of KeyEnrolled, `possession` and, for
                                  a rotation, `handover` are null until the key concerned has signed
                 keyid            whose signature is wanted; null for any key of the role
                 signature        null until then

The `previous` of a later record covers the signature of the one before it, so records are signed in order,
and only once the enrolment that they hold is. Whoever stores the answer checks it like any record: a fact
that was changed after it was signed is a signature that does not hold, and a stream that moved on has another
last record than `previous` names.

This module takes values and bytes and does no IO.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Protocol, Self

from pydantic import Field, ValidationError

from .canonical import decode_foreign, encode
from .encoding import base64_bytes, base64_text
from .errors import BadData, RecordError
from .events import (
    STREAMS,
    Digest,
    Event,
    Fact,
    KeyEnrolled,
    LedgerFounded,
    Many,
    Name,
    Positive,
    PublicKey,
    Role,
    SignatureText,
    event_from,
)
from .keyring import enrolment_bytes, keyid_of, raw_key, signer_of, spki_of
from .note import Verify
from .record import NO_PREVIOUS, assemble, digest, is_origin, pae, parse, written_time
from .streams import LEDGER, parse_stream

KIND: Final = "causebook-request"
REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
_RECORDS_MAX: Final = 64
_BLANK: Final = "A" * 86 + "=="
"""Where a signature belongs that nobody has given yet."""

_Kind = Literal["LedgerFounded", "KeyEnrolled", "KeyRetired", "ResolutionRecorded"]


class Signing(Protocol):
    """A key that signs. `keyid`: of its public half."""

    @property
    def keyid(self) -> str: ...

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature, 64 bytes."""
        ...


Find = Callable[[Role, str | None], Signing | None]
"""(role, key id or None for any) → the key, where it is at hand."""


@dataclass(frozen=True)
class Want:
    """A signature that is wanted: in which record (from 0), of what, by a key of which role and id."""

    record: int
    what: Literal["possession", "handover", "record"]
    role: Role
    keyid: str | None


class AskedRecord(Fact):
    """One record to be signed, or signed."""

    type: _Kind
    at: Name
    data: dict[str, Any]
    keyid: Digest | None
    signature: SignatureText | None

    def event(self) -> Event:
        """What it says, with blanks for the signatures that are still wanted. Raises `ValueError`."""
        data = self.data
        if self.type == "KeyEnrolled":
            data = dict(data)
            wanted = ["possession"] + (["handover"] if data.get("rotates") is not None else [])
            data |= {name: _BLANK for name in wanted if name in data and data[name] is None}
        return event_from(self.type, data)

    @classmethod
    def of(cls, event: Event, at: datetime, keyid: str | None) -> Self:
        """The asking for a record of `event`, by a key or by any of its role."""
        return cls._of(event.kind(), event.data(), at, keyid)

    @classmethod
    def enrolling(
        cls,
        role: Role,
        name: str,
        public_key: str,
        at: datetime,
        keyid: str,
        *,
        rotates: str | None = None,
    ) -> Self:
        """The asking for a record that enrols a key, which has yet to show that it is held."""
        data = {"role": role, "name": name, "public_key": public_key, "rotates": rotates}
        return cls._of("KeyEnrolled", data | {"possession": None, "handover": None}, at, keyid)

    @classmethod
    def _of(cls, kind: str, data: dict[str, Any], at: datetime, keyid: str | None) -> Self:
        return cls.model_validate(
            {"type": kind, "at": written_time(at), "data": data, "keyid": keyid, "signature": None}
        )


class SigningRequest(Fact):
    """A request, whole or in part signed."""

    kind: Literal["causebook-request"]
    ledger: Name
    nonce: Digest
    root_key: PublicKey
    stream: Name
    version: Positive
    previous: Digest
    records: Annotated[Many[AskedRecord], Field(min_length=1, max_length=_RECORDS_MAX)]

    @property
    def raw(self) -> bytes:
        """The bytes of the file: JSON for a person, in ASCII."""
        text = json.dumps(self.model_dump(), indent=2)
        return text.replace("\x7f", "\\u007f").encode() + b"\n"

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """The request that `raw` is. Raises `BadData` naming the first rule it breaks."""
        if len(raw) > REQUEST_BYTES_MAX:
            raise _wrong(f"expected at most {REQUEST_BYTES_MAX} bytes, found {len(raw)}")
        try:
            request = cls.model_validate(decode_foreign(raw.decode()))
        except ValidationError as error:
            raise _wrong(_misfit(error)) from None
        except ValueError as error:
            raise _wrong(f"expected JSON: {error}") from None
        request._check()
        return request

    @property
    def is_founding(self) -> bool:
        """Whether it founds a ledger."""
        return self.records[0].type == "LedgerFounded"

    def events(self) -> list[Event]:
        """What the records say, in order, with blanks for the signatures that are still wanted."""
        return [asked.event() for asked in self.records]

    def wants(self) -> list[Want]:
        """The signatures still wanted: those that enrolments hold, then those of the records, in order."""
        return list(self._wants())

    def sign(self, find: Find) -> tuple[Self, list[Want]]:
        """This request with every signature that the keys `find` gives can add, and which those are."""
        records, given = list(self.records), list[Want]()
        previous: str | None = self.previous
        for number, asked in enumerate(records):
            event = asked.event()
            if isinstance(event, KeyEnrolled):
                asked = self._enrol(number, asked, event, find, given)
            if asked.signature is None and not _open(asked) and previous is not None:
                role = signer_of(asked.type)
                key = find(role, asked.keyid)
                if key is not None:
                    line = self._line(number, asked, previous)
                    signature = base64_text(key.sign(pae(line)))
                    asked = asked.model_copy(update={"keyid": key.keyid, "signature": signature})
                    given.append(Want(number, "record", role, key.keyid))
            records[number] = asked
            raw = self._record(number, asked, previous) if asked.signature is not None else None
            previous = None if raw is None else digest(raw)
        return self.model_copy(update={"records": tuple(records)}), given

    def require_possession(self, verify: Verify) -> None:
        """Raise `BadData` where an enrolment bears a signature that its key did not give."""
        for number, asked in enumerate(self.records):
            event = asked.event()
            if not isinstance(event, KeyEnrolled) or asked.data["possession"] is None:
                continue
            signature = base64_bytes(event.possession)
            if not verify(raw_key(event.public_key), signature, self._enrolment(event)):
                raise _wrong(f"record {number + 1}: possession: the new key did not sign this")

    def signed_records(self) -> list[bytes]:
        """The records, each whole. Raises `BadData` where a signature is still wanted."""
        wanted = self.wants()
        if wanted:
            raise BadData(
                f"request: expected it signed, found no {wanted[0].what} signature by "
                f"{named(wanted[0])} for {self.records[wanted[0].record].type}",
                hint="causebook keys sign FILE --keys DIR adds it, where that key is",
            )
        raws: list[bytes] = []
        previous = self.previous
        for number, asked in enumerate(self.records):
            raws.append(self._record(number, asked, previous))
            previous = digest(raws[-1])
        return raws

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────

    def _wants(self) -> Iterator[Want]:
        for number, asked in enumerate(self.records):
            event = asked.event()
            if isinstance(event, KeyEnrolled):
                if asked.data["possession"] is None:
                    yield Want(number, "possession", event.role, _keyid(event))
                if asked.data["handover"] is None and event.rotates is not None:
                    yield Want(number, "handover", event.role, event.rotates)
        for number, asked in enumerate(self.records):
            if asked.signature is None:
                yield Want(number, "record", signer_of(asked.type), asked.keyid)

    def _enrol(
        self, number: int, asked: AskedRecord, event: KeyEnrolled, find: Find, given: list[Want]
    ) -> AskedRecord:
        message = self._enrolment(event)
        wanted: list[tuple[Literal["possession", "handover"], str]] = [
            ("possession", _keyid(event))
        ]
        if event.rotates is not None:
            wanted.append(("handover", event.rotates))
        data = dict(asked.data)
        for what, keyid in wanted:
            if data[what] is None and (key := find(event.role, keyid)) is not None:
                data[what] = base64_text(key.sign(message))
                given.append(Want(number, what, event.role, keyid))
        return asked.model_copy(update={"data": data})

    def _enrolment(self, event: KeyEnrolled) -> bytes:
        return enrolment_bytes(
            self.ledger, self.nonce, self.root_key, event.role, event.name, event.public_key
        )

    def _line(self, number: int, asked: AskedRecord, previous: str) -> bytes:
        document = {
            "at": asked.at,
            "data": asked.data,
            "ledger": self.ledger,
            "previous": previous,
            "stream": self.stream,
            "type": asked.type,
            "version": self.version + number,
        }
        try:
            return encode(document)
        except ValueError as error:
            raise _wrong(f"record {number + 1}: cannot be written: {error}") from None

    def _record(self, number: int, asked: AskedRecord, previous: str | None) -> bytes:
        signature = base64_bytes(asked.signature or _BLANK)
        line = self._line(number, asked, previous or NO_PREVIOUS)
        try:
            raw = assemble(line, asked.keyid or NO_PREVIOUS, signature)
            parse(raw)
        except RecordError as error:
            raise _wrong(f"record {number + 1}: {error.message}") from None
        return raw

    def _check(self) -> None:
        if not is_origin(self.ledger):
            raise _wrong("ledger: expected an origin without spaces, '+' or controls")
        try:
            types = STREAMS[parse_stream(self.stream).kind]
        except ValueError as error:
            raise _wrong(f"stream: {error}") from None
        signed = True
        for number, asked in enumerate(self.records):
            where = f"record {number + 1}"
            if asked.type not in types:
                raise _wrong(f"{where}: {asked.type} does not stand in this stream")
            try:
                event = asked.event()
                if isinstance(event, KeyEnrolled):
                    _keyid(event)
            except ValidationError as error:
                raise _wrong(f"{where}, data: {_misfit(error)}") from None
            except ValueError as error:
                raise _wrong(f"{where}: {error}") from None
            if isinstance(event, LedgerFounded) != (
                self.stream == LEDGER and self.version + number == 1
            ):
                raise _wrong(f"{where}: a founding is the first record of the stream {LEDGER}")
            if isinstance(event, LedgerFounded):
                if event.nonce != self.nonce:
                    raise _wrong("nonce: expected that of the founding")
                if event.root_key != self.root_key:
                    raise _wrong("root_key: expected that of the founding")
            if asked.signature is not None and (not signed or asked.keyid is None or _open(asked)):
                raise _wrong(f"{where}: signed before what it rests on is")
            signed = asked.signature is not None
            self._record(number, asked, None)
        if self.version == 1 and self.previous != NO_PREVIOUS:
            raise _wrong("previous: expected 64 zeros, since nothing is before a founding")


def asking(
    ledger: str,
    nonce: str,
    root_key: str,
    stream: str,
    tip: tuple[int, str],
    records: Sequence[AskedRecord],
) -> SigningRequest:
    """A request for records that follow the one at `tip`: (version, digest), (0, 64 zeros) for a founding."""
    return SigningRequest(
        kind=KIND,
        ledger=ledger,
        nonce=nonce,
        root_key=root_key,
        stream=stream,
        version=tip[0] + 1,
        previous=tip[1],
        records=tuple(records),
    )


def named(want: Want) -> str:
    """Whose signature it is, for a person: `root 1f2e3d4c…`."""
    return f"{want.role} {want.keyid[:8]}…" if want.keyid else f"{want.role}, any key of it,"


def _keyid(event: KeyEnrolled) -> str:
    return keyid_of(spki_of(raw_key(event.public_key)))


def _open(asked: AskedRecord) -> bool:
    """Whether the enrolment that a record holds still wants a signature."""
    if asked.type != "KeyEnrolled":
        return False
    data = asked.data
    return data["possession"] is None or (data["rotates"] is not None and data["handover"] is None)


def _misfit(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    # The names of keys are somebody else's words, too.
    return ascii(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}")[1:-1]


def _wrong(why: str) -> BadData:
    return BadData(f"request: {why}", hint="have it written again, where the ledger is")
