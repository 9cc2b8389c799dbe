"""Whose key may sign what, and when: a fold over the `ledger` stream.

1. One key has one role, and signs the types of event that are bound to it (`signer_of`). Keys for `log`,
   `witness` and `exporter` sign no record: they sign checkpoints, cosignatures and attestations.
2. A ledger has one root, from its founding to its end: none is enrolled, and it is not retired. Whoever lost
   it, or shared it, founds a successor; a root that retires itself would leave nobody to say who else ends.
3. A key counts for the records after its enrolment. `KeyEnrolled` holds the new key's own signature over
   `enrolment_bytes`, and for a rotation that of the key it replaces, which counts on until it is retired.
4. A retired key signs nothing after its `KeyRetired`. That carries a checkpoint signed by a log key whose
   trust reaches that far, and its size is where trust in the retired key ends: records below it hold, as does
   a checkpoint up to it; those from it on up to `KeyRetired` may be of a thief, and nobody can tell.
5. A successor names the checkpoint that it goes on from, of another origin, and has a log key of its own.

Pure: a key here is its DER SubjectPublicKeyInfo. Checking a signature is asked of a `Verify` function.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Final

from .canonical import encode
from .checkpoint import SignedCheckpoint
from .ed25519 import public_key_fault
from .encoding import base64_bytes, is_key_name
from .events import Event, KeyEnrolled, KeyRetired, LedgerFounded, Role
from .note import COSIGNATURE, NoteError, NoteKey, Verify, is_signed_by, signer_among
from .record import pae

ENROLMENT_TYPE: Final = "application/vnd.causebook.enrolment+json"
_SPKI_PREFIX: Final = bytes.fromhex("302a300506032b6570032100")
"""DER of a SubjectPublicKeyInfo for Ed25519 up to the 32 bytes of the key (RFC 8410)."""

_ROOT: Final = frozenset({"LedgerFounded", "KeyEnrolled", "KeyRetired"})
_AUTHORITY: Final = frozenset({"ResolutionRecorded", "EvidenceErased"})


def signer_of(event_type: str) -> Role:
    """The role that signs events of this type."""
    if event_type in _ROOT:
        return "root"
    return "authority" if event_type in _AUTHORITY else "engine"


def keyid_of(spki: bytes) -> str:
    """The key id: SHA-256 of the DER SubjectPublicKeyInfo, hex."""
    return hashlib.sha256(spki).hexdigest()


def spki_of(public: bytes) -> bytes:
    """The DER SubjectPublicKeyInfo of a raw Ed25519 public key of 32 bytes."""
    return _SPKI_PREFIX + public


def raw_key(spki_text: str) -> bytes:
    """The 32 bytes of an Ed25519 public key from the base64 of its SubjectPublicKeyInfo.

    Raises `ValueError` where it is not one, or not one to trust (`domain/ed25519.py`).
    """
    try:
        spki = base64_bytes(spki_text)
    except ValueError as error:
        raise ValueError(f"public key: {error}") from None
    if len(spki) != len(_SPKI_PREFIX) + 32 or not spki.startswith(_SPKI_PREFIX):
        raise ValueError("public key: expected a DER SubjectPublicKeyInfo for Ed25519")
    public = spki[len(_SPKI_PREFIX) :]
    fault = public_key_fault(public)
    if fault is not None:
        raise ValueError(fault)
    return public


def enrolment_bytes(
    ledger: str, nonce: str, root_key: str, role: str, name: str, public_key: str
) -> bytes:
    """What the new key signs to be enrolled: bound to one founding and its root, one role, one name.

    Without the root, a stranger could found under the same name and nonce and enrol the key anew.
    """
    document = {
        "ledger": ledger,
        "name": name,
        "nonce": nonce,
        "public_key": public_key,
        "role": role,
        "root_key": root_key,
    }
    return pae(encode(document), ENROLMENT_TYPE)


@dataclass(frozen=True)
class EnrolledKey:
    """A key that the ledger knows. `enrolled`: version in the `ledger` stream; `retired` likewise.

    `trusted_size`: records from this ordinal on are not trusted to it; None while it is not retired.
    `rotates`: the key id that it replaces.
    """

    keyid: str
    role: Role
    name: str
    public_key: str
    public: bytes
    enrolled: int
    retired: int | None = None
    trusted_size: int | None = None
    compromised: bool = False
    rotates: str | None = None

    def reaches(self, size: int) -> bool:
        """Whether trust in the key reaches a log of `size` records."""
        return self.trusted_size is None or size <= self.trusted_size


@dataclass
class Keyring:
    """The keys of one ledger: a fold over its `ledger` stream, in order.

    `continues`: the checkpoint of the ledger that this one succeeds. Its signatures are that ledger's affair.
    """

    ledger: str
    nonce: str = ""
    root_key: str = ""
    custody: str = ""
    version: int = 0
    keys: dict[str, EnrolledKey] = field(default_factory=dict)
    continues: SignedCheckpoint | None = None

    def admit(self, event: Event, version: int, verify: Verify) -> str | None:
        """Fold one event of the `ledger` stream in, or answer why it cannot be; then no key has changed.

        Whether the record itself is signed by root is asked elsewhere, as of every record.
        """
        fault = None
        if isinstance(event, LedgerFounded):
            fault = self._found(event, version)
        elif version == 1:
            fault = "expected LedgerFounded first"
        elif isinstance(event, KeyEnrolled):
            fault = self._enrol(event, version, verify)
        elif isinstance(event, KeyRetired):
            fault = self._retire(event, version, verify)
        self.version = version
        return fault

    def may_sign(self, keyid: str, event_type: str) -> str | None:
        """Why this key may not sign a record of this type now, or None."""
        key = self.keys.get(keyid)
        if key is None:
            return "no enrolment names this key"
        if key.role != signer_of(event_type):
            return f"{event_type} is signed by {signer_of(event_type)}, found a key for {key.role}"
        if key.retired is not None:
            return "the key is retired"
        return None

    def active(self, role: Role) -> list[EnrolledKey]:
        """The keys of a role that are not retired, the newest first."""
        held = [key for key in self.keys.values() if key.role == role and key.retired is None]
        return sorted(held, key=lambda key: key.enrolled, reverse=True)

    def log_keys(self, size: int) -> list[NoteKey]:
        """The note keys whose signature on a checkpoint of `size` records counts."""
        return [
            NoteKey(self.ledger, key.public)
            for key in self.keys.values()
            if key.role == "log" and key.reaches(size)
        ]

    def signer_of_checkpoint(self, signed: SignedCheckpoint, verify: Verify) -> EnrolledKey | None:
        """The log key that signed a checkpoint of this ledger, and whose trust reaches its size.

        None where none signed it, or it is of another origin. Raises `NoteError` where a signature is said to
        be of such a key and does not hold.
        """
        said = signed.checkpoint
        if said.origin != self.ledger:
            return None
        signer = signer_among(signed.note, self.log_keys(said.size), verify)
        return None if signer is None else self.keys[keyid_of(spki_of(signer.public))]

    def witness_keys(self) -> list[NoteKey]:
        """The note keys of the witnesses enrolled and not retired, the newest first."""
        return [NoteKey(key.name, key.public, COSIGNATURE) for key in self.active("witness")]

    def _found(self, event: LedgerFounded, version: int) -> str | None:
        if version != 1:
            return "a ledger is founded once"
        try:
            public = raw_key(event.root_key)
        except ValueError as error:
            return f"root {error}"
        if event.continues is not None:
            try:
                continues = SignedCheckpoint.parse(event.continues.encode())
            except (NoteError, ValueError) as error:
                return f"continues: {error}"
            if continues.checkpoint.origin == self.ledger:
                return "continues: expected a checkpoint of another origin"
            self.continues = continues
        keyid = keyid_of(spki_of(public))
        self.nonce, self.root_key, self.custody = event.nonce, event.root_key, event.custody
        self.keys[keyid] = EnrolledKey(keyid, "root", "root", event.root_key, public, version)
        return None

    def _enrol(self, event: KeyEnrolled, version: int, verify: Verify) -> str | None:
        try:
            public = raw_key(event.public_key)
        except ValueError as error:
            return str(error)
        keyid = keyid_of(spki_of(public))
        if keyid in self.keys:
            return "the key is enrolled already: one key, one role"
        fault = self._role_fault(event, public, verify)
        if fault is not None:
            return fault
        message = enrolment_bytes(
            self.ledger, self.nonce, self.root_key, event.role, event.name, event.public_key
        )
        if not verify(public, base64_bytes(event.possession), message):
            return "possession: the new key did not sign its enrolment"
        if (event.rotates is None) != (event.handover is None):
            return "rotates and handover come together"
        if event.rotates is not None and event.handover is not None:
            old = self.keys.get(event.rotates)
            if old is None or old.role != event.role or old.retired is not None:
                return "rotates: expected an enrolled key of the same role that is not retired"
            if not verify(old.public, base64_bytes(event.handover), message):
                return "handover: the old key did not sign the enrolment"
        self.keys[keyid] = EnrolledKey(
            keyid, event.role, event.name, event.public_key, public, version, rotates=event.rotates
        )
        return None

    def _role_fault(self, event: KeyEnrolled, public: bytes, verify: Verify) -> str | None:
        if event.role == "root":
            return "a ledger has one root, which founded it"
        if event.role == "witness" and not is_key_name(event.name):
            return "name: expected the name of a note key: no space, no '+', no control"
        if event.role == "log" and self.continues is not None:
            before = self.continues
            key = NoteKey(before.checkpoint.origin, public)
            try:
                is_the_same = is_signed_by(before.note, key, verify)
            except NoteError:
                is_the_same = True  # it bears the key's id all the same
            if is_the_same:
                return "expected a log key other than that of the ledger it continues"
        return None

    def _retire(self, event: KeyRetired, version: int, verify: Verify) -> str | None:
        key = self.keys.get(event.keyid)
        if key is None or key.retired is not None:
            return "expected an enrolled key that is not retired"
        if key.role == "root":
            return "a ledger has one root, which is not retired: found a successor"
        fault = self._checkpoint_fault(event, verify)
        if fault is not None:
            return f"checkpoint: {fault}"
        self.keys[key.keyid] = replace(
            key, retired=version, trusted_size=event.size, compromised=event.compromised
        )
        return None

    def _checkpoint_fault(self, event: KeyRetired, verify: Verify) -> str | None:
        try:
            sealed = SignedCheckpoint.parse(event.checkpoint.encode())
            said = sealed.checkpoint
            if said.origin != self.ledger:
                return f"expected one of this ledger, found one of {said.origin!a}"
            if said.size != event.size:
                return f"expected size {event.size}, found {said.size}"
            if self.signer_of_checkpoint(sealed, verify) is None:
                return "expected it signed by a log key that is trusted so far"
        except NoteError as error:
            return error.message
        except ValueError:
            return "expected text that is Unicode"
        return None
