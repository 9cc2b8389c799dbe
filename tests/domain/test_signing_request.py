"""Requests: what is asked to be signed is what is signed, and nothing that was changed since is taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.domain.errors import BadData
from causebook.domain.events import KeyEnrolled, LedgerFounded, Role, event_from
from causebook.domain.keyring import Keyring, signer_of
from causebook.domain.record import NO_PREVIOUS, digest, parse
from causebook.domain.signing_request import (
    REQUEST_BYTES_MAX,
    AskedRecord,
    Signing,
    SigningRequest,
    Want,
    asking,
)
from tests.adapters.forge import Key
from tests.domain.test_keyring import verify

ORIGIN, NONCE = "audit.example.com/team", "5" * 64
AT = datetime(2026, 11, 30, 15, 36, 0, 123456, tzinfo=UTC)
ROOT, ENGINE, AUTHORITY, OTHER = (Key(name) for name in ("root", "engine", "authority", "other"))


class Held:
    """A key pair that signs requests."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.keyid = key.keyid

    def sign(self, message: bytes) -> bytes:
        return self.key.sign(message)


def holding(*keys: Key) -> Callable[[Role, str | None], Signing | None]:
    """What finds these keys, by their ids alone."""
    held = {key.keyid: Held(key) for key in keys}
    return lambda _, keyid: held.get(keyid or "")


def founding(authority: Key = AUTHORITY) -> SigningRequest:
    founded = LedgerFounded(
        format=1, nonce=NONCE, root_key=ROOT.text, custody="apart", continues=None
    )
    records = [AskedRecord.of(founded, AT, ROOT.keyid)]
    for role, key in (("engine", ENGINE), ("authority", authority)):
        records.append(
            AskedRecord.enrolling(cast(Role, role), "somebody", key.text, AT, ROOT.keyid)
        )
    return asking(ORIGIN, NONCE, ROOT.text, "ledger", (0, NO_PREVIOUS), records)


def rotation() -> SigningRequest:
    record = AskedRecord.enrolling("engine", "e", OTHER.text, AT, ROOT.keyid, rotates=ENGINE.keyid)
    return asking(ORIGIN, NONCE, ROOT.text, "ledger", (4, "a" * 64), [record])


def wanted(request: SigningRequest) -> list[tuple[int, str, str]]:
    return [(want.record, want.what, want.role) for want in request.wants()]


def folded(raws: Sequence[bytes]) -> Keyring:
    """The keyring of records, each of which has to hold."""
    ring, previous = Keyring(ORIGIN), NO_PREVIOUS
    for raw in raws:
        record = parse(raw)
        assert record.previous == previous
        assert ring.admit(event_from(record.type, record.data), record.version, verify) is None
        key = ring.keys[record.keyid]
        assert key.role == signer_of(record.type)
        assert verify(key.public, record.signature, record.signed_bytes())
        previous = digest(raw)
    return ring


def test_a_founding_goes_round_and_comes_back_a_ledger() -> None:
    asked = founding()
    at_engine, given = asked.sign(holding(ENGINE))
    assert given == [Want(1, "possession", "engine", ENGINE.keyid)]
    at_authority, given = at_engine.sign(holding(AUTHORITY))
    assert given == [Want(2, "possession", "authority", AUTHORITY.keyid)]
    assert wanted(at_authority) == [(n, "record", "root") for n in range(3)]
    whole, given = at_authority.sign(holding(ROOT))
    assert [want.what for want in given] == ["record"] * 3
    assert whole.wants() == []
    ring = folded(whole.signed_records())
    assert {key.role for key in ring.keys.values()} == {"root", "engine", "authority"}


def test_one_who_holds_all_keys_signs_it_at_once() -> None:
    whole, given = founding().sign(holding(ROOT, ENGINE, AUTHORITY))
    assert len(given) == 5
    assert len(folded(whole.signed_records()).keys) == 3


def test_root_signs_no_enrolment_that_its_key_has_not() -> None:
    """Of a chain, all before it can be signed: the next covers the signature of the one before."""
    signed, given = founding().sign(holding(ROOT, ENGINE))
    assert [(want.record, want.what) for want in given] == [
        (0, "record"), (1, "possession"), (1, "record"),
    ]  # fmt: skip
    assert wanted(signed) == [(2, "possession", "authority"), (2, "record", "root")]
    whole, _ = signed.sign(holding(AUTHORITY))[0].sign(holding(ROOT))
    folded(whole.signed_records())


def test_a_rotation_wants_both_keys_and_root() -> None:
    asked = rotation()
    assert wanted(asked) == [
        (0, "possession", "engine"), (0, "handover", "engine"), (0, "record", "root"),
    ]  # fmt: skip
    assert asked.sign(holding(ROOT))[1] == []
    whole, _ = asked.sign(holding(ROOT, ENGINE, OTHER))
    (raw,) = whole.signed_records()
    record = parse(raw)
    assert (record.version, record.previous, record.keyid) == (5, "a" * 64, ROOT.keyid)
    event = event_from(record.type, record.data)
    assert isinstance(event, KeyEnrolled)
    assert event.handover is not None


def test_what_was_signed_is_not_signed_again() -> None:
    whole, _ = founding().sign(holding(ROOT, ENGINE, AUTHORITY))
    assert whole.sign(holding(ROOT, ENGINE, AUTHORITY)) == (whole, [])


def test_any_key_of_the_role_where_none_is_named() -> None:
    record = AskedRecord.of(
        event_from(
            "ResolutionRecorded",
            {
                "attempt": 1,
                "phase": "post_execute",
                "decision": "proceed",
                "name": "Ada",
                "meaning": "risk accepted",
                "comment": "",
                "decided": "d" * 64,
            },
        ),
        AT,
        None,
    )
    asked = asking(ORIGIN, NONCE, ROOT.text, "task/T-1", (9, "b" * 64), [record])
    whole, given = asked.sign(lambda role, _: Held(AUTHORITY) if role == "authority" else None)
    assert given == [Want(0, "record", "authority", AUTHORITY.keyid)]
    (raw,) = whole.signed_records()
    assert (parse(raw).keyid, parse(raw).stream) == (AUTHORITY.keyid, "task/T-1")


def test_a_signature_that_is_wanted_is_named() -> None:
    with pytest.raises(BadData, match=f"no possession signature by engine {OTHER.keyid[:8]}…"):
        rotation().signed_records()


def test_a_file_is_read_back_as_it_was() -> None:
    for asked in (founding(), rotation(), founding().sign(holding(ROOT, ENGINE))[0]):
        assert SigningRequest.parse(asked.raw) == asked
        assert asked.raw.isascii()


def test_a_possession_that_its_key_did_not_give_is_seen_before_root_signs() -> None:
    signed, _ = founding().sign(holding(ENGINE, AUTHORITY))
    signed.require_possession(verify)
    document = json.loads(signed.raw)
    data = [record["data"] for record in document["records"]]
    data[1]["possession"], data[2]["possession"] = data[2]["possession"], data[1]["possession"]
    with pytest.raises(BadData, match="record 2: possession: the new key did not sign this"):
        SigningRequest.parse(json.dumps(document).encode()).require_possession(verify)


def changed(request: SigningRequest, change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(request.raw)
    change(document)
    return json.dumps(document).encode()


WHOLE = founding().sign(holding(ROOT, ENGINE, AUTHORITY))[0]


def _of(number: int, **fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["records"][number].update(fields)


def _data(number: int, **fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["records"][number]["data"].update(fields)


@pytest.mark.parametrize(
    "change",
    [
        _of(0, at="2026-11-30T15:36:00.123457Z"),
        _data(0, custody="together"),
        _data(1, name="somebody else"),
        _of(1, at="2026-11-30T15:36:00.123457Z"),
        _data(1, role="exporter"),
        lambda document: document.update(ledger="audit.example.com/other"),
        lambda document: (
            document["records"].reverse()
            or document["records"].insert(0, document["records"].pop())
        ),
    ],
)
def test_a_fact_changed_after_it_was_signed_is_no_ledger(
    change: Callable[[dict[str, Any]], object],
) -> None:
    folded(WHOLE.signed_records())
    request = SigningRequest.parse(changed(WHOLE, change))
    with pytest.raises(AssertionError):
        folded(request.signed_records())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: d.update(kind="causebook-trust"), "kind"),
        (lambda d: d.update(more=1), "more"),
        (lambda d: d.pop("nonce"), "nonce"),
        (lambda d: d.update(ledger="a b"), "ledger: expected an origin"),
        (lambda d: d.update(stream="ledger/2"), "stream: not the name"),
        (lambda d: d.update(stream="task/T-1"), "LedgerFounded does not stand"),
        (lambda d: d.update(version=2), "a founding is the first record"),
        (lambda d: d.update(version=0), "version"),
        (lambda d: d.update(version=True), "version"),
        (lambda d: d.update(previous="1" * 64), "previous: expected 64 zeros"),
        (lambda d: d.update(nonce="6" * 64), "nonce: expected that of the founding"),
        (lambda d: d.update(records=[]), "records"),
        (lambda d: d.update(records=d["records"] * 22), "records"),
        (lambda d: d["records"].pop(0), "a founding is the first record"),
        (_of(0, type="TaskOpened"), "type"),
        (_of(0, keyid="x"), "keyid"),
        (_of(0, keyid=None), "signed before what it rests on is"),
        (_of(0, signature=None), "record 2: signed before"),
        (_data(1, possession=None), "record 2: signed before"),
        (_of(0, at="2026-11-30"), "record 1: at: expected a time"),
        (_of(0, at="2026-02-30T15:36:00.123456Z"), "record 1: at: no such time"),
        (_data(0, nonce=1), "record 1, data: nonce"),
        (_data(1, public_key="QQ=="), "record 2: public key"),
        (_data(1, rotates="x"), "record 2, data: rotates"),
        (_data(1, weight=1.5), "record 2, data: weight"),
        (_data(1, name="\ud800"), "."),
        (_data(0, continues="x" * 17_000), "continues"),
    ],
)
def test_what_is_no_request_is_refused_in_words(
    change: Callable[[dict[str, Any]], object], why: str
) -> None:
    with pytest.raises(BadData, match=why) as refused:
        SigningRequest.parse(changed(WHOLE, change))
    assert refused.value.message.startswith("request: ")
    assert refused.value.message.isprintable()


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\xff", b"[]", b"null", b"{}", b'{"kind":"causebook-request"', b"[" * 100_000,
        WHOLE.raw.replace(b'"version": 1', b'"version": 1, "version": 1', 1),
        WHOLE.raw.replace(b'"version": 1', b'"version": NaN', 1),
        b" " * REQUEST_BYTES_MAX + WHOLE.raw,
    ],
)  # fmt: skip
def test_what_is_no_json_of_ours_is_refused(raw: bytes) -> None:
    with pytest.raises(BadData, match=r"^request: "):
        SigningRequest.parse(raw)


@given(st.binary(max_size=200), st.integers(0, 10_000))
def test_whatever_stands_in_a_file_only_named_errors_come_out(noise: bytes, place: int) -> None:
    raw = WHOLE.raw[: place % len(WHOLE.raw)] + noise + WHOLE.raw[place % len(WHOLE.raw) :]
    message = ""
    try:
        request = SigningRequest.parse(raw)
        request.sign(holding(ROOT, ENGINE, AUTHORITY))
        request.signed_records()
    except BadData as error:
        message = error.message
    assert not message or message.isprintable()
