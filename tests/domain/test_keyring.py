"""Whose key may sign what, and when."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.ed25519 import SMALL_ORDER
from causebook.domain.events import (
    EVENTS,
    Event,
    EvidenceErased,
    KeyEnrolled,
    KeyRetired,
    LedgerFounded,
    Role,
)
from causebook.domain.keyring import (
    Keyring,
    enrolment_bytes,
    keyid_of,
    raw_key,
    signer_of,
    spki_of,
)
from causebook.domain.note import COSIGNATURE, NoteError, NoteKey, sign_note

LEDGER, NONCE = "audit.example.com/team", "5" * 64


def verify(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


class Key:
    """A key pair made from a number."""

    def __init__(self, number: int) -> None:
        self.private = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
        self.public = self.private.public_key().public_bytes_raw()
        self.spki = spki_of(self.public)
        self.text = base64.b64encode(self.spki).decode()
        self.keyid = keyid_of(self.spki)

    def enrolment(
        self,
        role: str,
        name: str,
        *,
        ledger: str = LEDGER,
        nonce: str = NONCE,
        root: Key | None = None,
    ) -> bytes:
        root_key = (ROOT if root is None else root).text
        return enrolment_bytes(ledger, nonce, root_key, role, name, self.text)

    def sign(self, message: bytes) -> str:
        return base64.b64encode(self.private.sign(message)).decode()


ROOT, ENGINE, AUTHORITY, SECOND, LOG, LOG_2 = (Key(n) for n in range(1, 7))
OLD_ORIGIN = "audit.example.com/before"


def founded(key: Key = ROOT, *, continues: str | None = None) -> LedgerFounded:
    return LedgerFounded(
        format=1, nonce=NONCE, root_key=key.text, custody="apart", continues=continues
    )


def sealed(size: int = 40, key: Key = LOG, origin: str = LEDGER) -> str:
    """The note of a checkpoint."""
    text = Checkpoint(origin, size, bytes([size % 256]) * 32).text
    return sign_note(text, NoteKey(origin, key.public), key.private.sign).raw.decode()


def signed(note: str) -> SignedCheckpoint:
    return SignedCheckpoint.parse(note.encode())


def enrolled(key: Key, role: Role, name: str = "somebody", **update: Any) -> KeyEnrolled:
    whole = {
        "role": role,
        "name": name,
        "public_key": key.text,
        "possession": key.sign(key.enrolment(role, name)),
        "rotates": None,
        "handover": None,
    }
    return KeyEnrolled.model_validate({**whole, **update})


def rotated(new: Key, old: Key, role: Role, signer: Key | None = None) -> KeyEnrolled:
    handover = (signer or old).sign(new.enrolment(role, "somebody"))
    return enrolled(new, role, rotates=old.keyid, handover=handover)


def retired(key: Key, size: int = 40, **update: Any) -> KeyRetired:
    whole = {
        "keyid": key.keyid,
        "compromised": False,
        "reason": "Left.",
        "size": size,
        "checkpoint": sealed(size),
    }
    return KeyRetired.model_validate({**whole, **update})


@dataclass
class Book:
    """A keyring and the version it has come to."""

    ring: Keyring = field(default_factory=lambda: Keyring(LEDGER))

    def admit(self, *events: Event) -> str | None:
        """The fault of the last; those before it must have none."""
        fault = None
        for event in events:
            assert fault is None
            fault = self.ring.admit(event, self.ring.version + 1, verify)
        return fault


def book(*events: Event) -> Book:
    made = Book()
    assert made.admit(founded(), *events) is None
    return made


ENROLLED = (enrolled(ENGINE, "engine"), enrolled(LOG, "log"))


def test_each_type_of_event_is_signed_by_one_role() -> None:
    by_role: dict[str, set[str]] = {}
    for kind in EVENTS:
        by_role.setdefault(signer_of(kind), set()).add(kind)
    assert by_role.pop("root") == {"LedgerFounded", "KeyEnrolled", "KeyRetired"}
    assert by_role.pop("authority") == {"ResolutionRecorded", "EvidenceErased"}
    assert set(by_role) == {"engine"}


def test_a_key_id_is_the_digest_of_the_der_that_others_write() -> None:
    der = ROOT.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert der == ROOT.spki
    assert raw_key(ROOT.text) == ROOT.public


def test_the_root_signs_from_its_founding_on() -> None:
    ring = book().ring
    assert (ring.nonce, ring.custody, ring.version) == (NONCE, "apart", 1)
    assert ring.may_sign(ROOT.keyid, "KeyEnrolled") is None
    assert ring.may_sign(ROOT.keyid, "TurnCharged") == (
        "TurnCharged is signed by engine, found a key for root"
    )


@pytest.mark.parametrize("role", sorted({*get_args(Role)} - {"root"}))
def test_an_enrolled_key_signs_what_its_role_signs_and_nothing_else(role: Role) -> None:
    ring = book(enrolled(ENGINE, role)).ring
    for kind in EVENTS:
        assert (ring.may_sign(ENGINE.keyid, kind) is None) == (signer_of(kind) == role)


def test_a_key_that_nobody_enrolled_signs_nothing() -> None:
    assert book().ring.may_sign(ENGINE.keyid, "TurnCharged") == "no enrolment names this key"


def test_a_retired_key_signs_nothing_more_and_keeps_where_trust_ends() -> None:
    ring = book(*ENROLLED, retired(ENGINE, 40, compromised=True)).ring
    assert ring.may_sign(ENGINE.keyid, "TurnCharged") == "the key is retired"
    key = ring.keys[ENGINE.keyid]
    assert (key.enrolled, key.retired, key.trusted_size, key.compromised) == (2, 4, 40, True)
    assert (key.role, key.name, key.public) == ("engine", "somebody", ENGINE.public)


def test_a_rotation_is_signed_by_both_keys_and_both_may_sign_until_the_old_one_is_retired() -> None:
    ring = book(enrolled(ENGINE, "engine"), rotated(SECOND, ENGINE, "engine")).ring
    assert ring.may_sign(ENGINE.keyid, "TurnCharged") is None
    assert ring.may_sign(SECOND.keyid, "TurnCharged") is None


def test_the_stream_begins_with_the_founding_and_has_one() -> None:
    assert Book().admit(enrolled(ENGINE, "engine")) == "expected LedgerFounded first"
    assert book().admit(founded(SECOND)) == "a ledger is founded once"


def bad_root(public: bytes) -> LedgerFounded:
    text = base64.b64encode(spki_of(public)).decode()
    return founded().model_copy(update={"root_key": text})


@pytest.mark.parametrize("public", sorted(SMALL_ORDER)[:3])
def test_a_root_key_of_small_order_founds_nothing(public: bytes) -> None:
    fault = Book().admit(bad_root(public))
    assert fault is not None
    assert fault.startswith("root public key:")


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        (enrolled(ROOT, "engine"), "the key is enrolled already: one key, one role"),
        (enrolled(ENGINE, "authority"), "the key is enrolled already: one key, one role"),
        (
            enrolled(
                SECOND, "engine", possession=ENGINE.sign(SECOND.enrolment("engine", "somebody"))
            ),
            "possession: the new key did not sign its enrolment",
        ),
        (
            enrolled(SECOND, "engine", possession=SECOND.sign(b"something else")),
            "possession: the new key did not sign its enrolment",
        ),
        (
            enrolled(
                SECOND, "authority", possession=SECOND.sign(SECOND.enrolment("engine", "somebody"))
            ),
            "possession: the new key did not sign its enrolment",
        ),
        (
            enrolled(SECOND, "engine", possession=SECOND.sign(SECOND.enrolment("engine", "other"))),
            "possession: the new key did not sign its enrolment",
        ),
        (
            enrolled(
                SECOND,
                "engine",
                possession=SECOND.sign(SECOND.enrolment("engine", "somebody", ledger="b.com/x")),
            ),
            "possession: the new key did not sign its enrolment",
        ),
        (
            enrolled(
                SECOND,
                "engine",
                possession=SECOND.sign(SECOND.enrolment("engine", "somebody", nonce="6" * 64)),
            ),
            "possession: the new key did not sign its enrolment",
        ),
        (
            enrolled(
                SECOND,
                "engine",
                possession=SECOND.sign(SECOND.enrolment("engine", "somebody", root=AUTHORITY)),
            ),
            "possession: the new key did not sign its enrolment",
        ),
        (
            enrolled(SECOND, "engine", rotates=ENGINE.keyid),
            "rotates and handover come together",
        ),
        (
            enrolled(SECOND, "engine", handover=ENGINE.sign(b"")),
            "rotates and handover come together",
        ),
        (
            rotated(SECOND, AUTHORITY, "engine"),
            "rotates: expected an enrolled key of the same role that is not retired",
        ),
        (
            rotated(SECOND, ROOT, "engine"),
            "rotates: expected an enrolled key of the same role that is not retired",
        ),
        (
            rotated(SECOND, ENGINE, "engine", signer=SECOND),
            "handover: the old key did not sign the enrolment",
        ),
        (enrolled(SECOND, "root"), "a ledger has one root, which founded it"),
        (rotated(SECOND, ROOT, "root"), "a ledger has one root, which founded it"),
        (
            enrolled(SECOND, "witness", "two words"),
            "name: expected the name of a note key: no space, no '+', no control",
        ),
        (retired(SECOND), "expected an enrolled key that is not retired"),
        (retired(ROOT), "a ledger has one root, which is not retired: found a successor"),
        (
            retired(ENGINE, checkpoint="sealed"),
            "checkpoint: note: expected a text, an empty line and signature lines",
        ),
        (
            retired(ENGINE, checkpoint=sealed().replace("40", "040")),
            "checkpoint: checkpoint, size: expected a decimal number without leading zeros",
        ),
        (
            retired(ENGINE, checkpoint=sealed(origin=OLD_ORIGIN)),
            f"checkpoint: expected one of this ledger, found one of '{OLD_ORIGIN}'",
        ),
        (retired(ENGINE, size=41, checkpoint=sealed(40)), "checkpoint: expected size 41, found 40"),
        (
            retired(ENGINE, checkpoint=sealed(key=LOG_2)),
            "checkpoint: expected it signed by a log key that is trusted so far",
        ),
        (
            retired(ENGINE, checkpoint=sealed(key=ENGINE)),
            "checkpoint: expected it signed by a log key that is trusted so far",
        ),
        (
            retired(ENGINE, size=41, checkpoint=sealed(40).replace("\n40\n", "\n41\n")),
            f"checkpoint: note: expected a signature by '{LEDGER}' that holds, found one that does not",
        ),
    ],
)
def test_what_does_not_hold_is_refused_in_words_and_changes_no_key(
    event: Event, fault: str
) -> None:
    made = book(*ENROLLED)
    before = dict(made.ring.keys)
    assert made.admit(event) == fault
    assert made.ring.keys == before


def test_a_key_is_retired_once() -> None:
    made = book(*ENROLLED, retired(ENGINE))
    assert made.admit(retired(ENGINE, 10)) == "expected an enrolled key that is not retired"
    assert made.ring.keys[ENGINE.keyid].trusted_size == 40


def test_a_retired_key_hands_nothing_over() -> None:
    """Its signatures stopped to count when it ended: it may have been stolen."""
    made = book(*ENROLLED, retired(ENGINE, compromised=True))
    assert made.admit(rotated(SECOND, ENGINE, "engine")) == (
        "rotates: expected an enrolled key of the same role that is not retired"
    )


def test_a_retired_key_is_not_enrolled_again() -> None:
    made = book(*ENROLLED, retired(ENGINE))
    assert (
        made.admit(enrolled(ENGINE, "engine")) == "the key is enrolled already: one key, one role"
    )


def test_a_rotated_log_key_is_retired_by_what_it_sealed_and_seals_no_further() -> None:
    ring = book(enrolled(LOG, "log"), rotated(LOG_2, LOG, "log"), retired(LOG, 40)).ring
    assert [key.keyid for key in ring.active("log")] == [LOG_2.keyid]
    both, new = [LOG.public, LOG_2.public], [LOG_2.public]
    for size, keys in ((1, both), (40, both), (41, new)):
        assert [key.public for key in ring.log_keys(size)] == keys
        assert all((key.name, key.kind) == (LEDGER, 1) for key in ring.log_keys(size))


@pytest.mark.parametrize("size", [1, 39, 40, 41, 4000])
def test_a_retired_log_key_vouches_for_the_end_of_another_as_far_as_it_is_trusted(
    size: int,
) -> None:
    made = book(*ENROLLED, rotated(LOG_2, LOG, "log"), retired(LOG, 40))
    fault = made.admit(retired(ENGINE, size, checkpoint=sealed(size, LOG)))
    expected = "checkpoint: expected it signed by a log key that is trusted so far"
    assert fault == (None if size <= 40 else expected)


@pytest.mark.parametrize(("size", "by"), [(40, LOG), (41, None)])
def test_a_checkpoint_is_signed_by_a_log_key_whose_trust_reaches_its_size(
    size: int, by: Key | None
) -> None:
    ring = book(*ENROLLED, rotated(LOG_2, LOG, "log"), retired(LOG, 40)).ring
    found = ring.signer_of_checkpoint(signed(sealed(size, LOG)), verify)
    assert found == (None if by is None else ring.keys[by.keyid])
    newer = ring.signer_of_checkpoint(signed(sealed(size, LOG_2)), verify)
    assert newer == ring.keys[LOG_2.keyid]


def test_a_checkpoint_of_another_origin_or_key_is_signed_by_no_log_key() -> None:
    ring = book(*ENROLLED).ring
    for note in (sealed(origin=OLD_ORIGIN), sealed(key=ENGINE), sealed(key=SECOND)):
        assert ring.signer_of_checkpoint(signed(note), verify) is None
    # Another log's checkpoint that is signed by this one's key and under its name.
    text = Checkpoint(OLD_ORIGIN, 40, bytes(32)).text
    note = sign_note(text, NoteKey(LEDGER, LOG.public), LOG.private.sign).raw.decode()
    assert ring.signer_of_checkpoint(signed(note), verify) is None


def test_a_log_keys_signature_that_does_not_hold_is_an_error() -> None:
    ring = book(*ENROLLED).ring
    with pytest.raises(NoteError, match="that holds, found one that does not"):
        ring.signer_of_checkpoint(signed(sealed().replace("\n40\n", "\n41\n")), verify)


def test_the_newest_key_of_a_role_comes_first_and_a_retired_one_not_at_all() -> None:
    made = book(*ENROLLED, rotated(SECOND, ENGINE, "engine"))
    assert [key.keyid for key in made.ring.active("engine")] == [SECOND.keyid, ENGINE.keyid]
    assert made.ring.keys[SECOND.keyid].rotates == ENGINE.keyid
    assert made.admit(retired(SECOND)) is None
    assert [key.keyid for key in made.ring.active("engine")] == [ENGINE.keyid]
    assert made.ring.active("authority") == []


def test_a_witness_is_known_by_the_name_it_signs_with() -> None:
    ring = book(enrolled(SECOND, "witness", "witness.example.com")).ring
    assert ring.witness_keys() == [NoteKey("witness.example.com", SECOND.public, COSIGNATURE)]


def test_a_successor_names_where_it_goes_on_from() -> None:
    made = Book()
    note = sealed(origin=OLD_ORIGIN)
    assert made.admit(founded(continues=note), enrolled(LOG_2, "log")) is None
    assert made.ring.continues is not None
    assert made.ring.continues.checkpoint == Checkpoint(OLD_ORIGIN, 40, bytes([40]) * 32)
    assert book().ring.continues is None


@pytest.mark.parametrize(
    ("note", "fault"),
    [
        (sealed(), "continues: expected a checkpoint of another origin"),
        ("", "continues: note: expected a text, an empty line and signature lines"),
        (
            sealed(origin=OLD_ORIGIN).replace("\n40\n", "\n0\n"),
            "continues: checkpoint, size: expected at least 1, found 0",
        ),
    ],
)
def test_a_successor_of_itself_or_of_nothing_founds_nothing(note: str, fault: str) -> None:
    made = Book()
    assert made.admit(founded(continues=note)) == fault
    assert made.ring.keys == {}


@pytest.mark.parametrize("signature", ["whole", "broken"])
def test_a_successor_has_a_log_key_of_its_own(signature: str) -> None:
    """One key for both logs would let the lost one be sealed on."""
    note = sealed(origin=OLD_ORIGIN)
    if signature == "broken":
        note = note.replace("\n40\n", "\n41\n")
    made = Book()
    assert made.admit(founded(continues=note), enrolled(LOG, "log")) == (
        "expected a log key other than that of the ledger it continues"
    )


def test_an_erasure_changes_no_key() -> None:
    made = book()
    erased = EvidenceErased(task="T-1", name="Ada", reason="Asked for.", count=3, streams=())
    assert made.admit(erased) is None
    assert (made.ring.version, len(made.ring.keys)) == (2, 1)


RSA = base64.b64encode(bytes.fromhex("30819f300d06092a864886f70d010101050003818d00")).decode()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "SubjectPublicKeyInfo"),
        ("!!!!", r"."),
        (ROOT.text.rstrip("="), r"."),
        (ROOT.text + "\n", r"."),
        (base64.b64encode(ROOT.public).decode(), "SubjectPublicKeyInfo"),
        (base64.b64encode(ROOT.spki + b"\0").decode(), "SubjectPublicKeyInfo"),
        (base64.b64encode(ROOT.spki[:-1]).decode(), "SubjectPublicKeyInfo"),
        (RSA, "SubjectPublicKeyInfo"),
        (
            base64.b64encode(ROOT.spki.replace(b"\x2b\x65\x70", b"\x2b\x65\x6e")).decode(),
            "SubjectPublicKeyInfo",
        ),
        (base64.b64encode(spki_of(bytes([1]) + bytes(31))).decode(), "prime order"),
        (base64.b64encode(spki_of(bytes([2]) + bytes(31))).decode(), "point on the curve"),
    ],
)
def test_what_is_no_key_to_trust_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        raw_key(text)


def test_base64_with_idle_bits_is_no_second_name_of_a_key() -> None:
    """44 bytes end in one `=`, so two bits of the last character say nothing."""
    last = ROOT.text[-2]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = ROOT.text[:-2] + alphabet[alphabet.index(last) ^ 1] + "="
    assert base64.b64decode(other) == ROOT.spki
    with pytest.raises(ValueError, match="canonical base64"):
        raw_key(other)


@pytest.mark.parametrize("field", ["possession", "handover"])
def test_a_signature_in_an_enrolment_has_one_spelling(field: str) -> None:
    """64 bytes end in two `=`, so four bits of the last digit say nothing."""
    good = rotated(SECOND, ENGINE, "engine")
    text = getattr(good, field)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = text[:-3] + alphabet[alphabet.index(text[-3]) ^ 1] + "=="
    assert base64.b64decode(other) == base64.b64decode(text)
    with pytest.raises(ValueError, match=field):
        KeyEnrolled.model_validate({**good.model_dump(), field: other})
