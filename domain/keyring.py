"""Whose key may sign what, and when: a fold over the `ledger` stream.

One key has one role. `LedgerFounded`, `KeyEnrolled` and `KeyRetired` are signed by root, `ResolutionRecorded`
and `EvidenceErased` by an authority, all others by an engine. A key counts for the records after its
enrolment; a retired one for the records below the size that its retirement names. `KeyEnrolled` holds the
new key's own signature over `enrolment_bytes`, and for a rotation the old key's.

Pure: a key here is its DER SubjectPublicKeyInfo. Checking a signature is asked of a `Verify` function.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from .canonical import encode
from .ed25519 import public_key_fault
from .events import Event, KeyEnrolled, KeyRetired, LedgerFounded, Role
from .record import pae

ENROLMENT_TYPE: Final = "application/vnd.causebook.enrolment+json"
_SPKI_PREFIX: Final = bytes.fromhex("302a300506032b6570032100")
"""DER of a SubjectPublicKeyInfo for Ed25519 up to the 32 bytes of the key (RFC 8410)."""

_ROOT: Final = frozenset({"LedgerFounded", "KeyEnrolled", "KeyRetired"})
_AUTHORITY: Final = frozenset({"ResolutionRecorded", "EvidenceErased"})

Verify = Callable[[bytes, bytes, bytes], bool]
"""(public key of 32 bytes, signature of 64 bytes, message) → whether it holds."""


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
    spki = base64.b64decode(spki_text, validate=True)
    if base64.b64encode(spki).decode() != spki_text:
        raise ValueError("public key: expected canonical base64")
    if len(spki) != len(_SPKI_PREFIX) + 32 or not spki.startswith(_SPKI_PREFIX):
        raise ValueError("public key: expected a DER SubjectPublicKeyInfo for Ed25519")
    public = spki[len(_SPKI_PREFIX) :]
    fault = public_key_fault(public)
    if fault is not None:
        raise ValueError(fault)
    return public


def enrolment_bytes(ledger: str, nonce: str, role: str, name: str, public_key: str) -> bytes:
    """What the new key signs to be enrolled: bound to one founding, one role, one name."""
    document = {
        "ledger": ledger,
        "name": name,
        "nonce": nonce,
        "public_key": public_key,
        "role": role,
    }
    return pae(encode(document), ENROLMENT_TYPE)


@dataclass(frozen=True)
class EnrolledKey:
    """A key that the ledger knows. `enrolled`: version in the `ledger` stream; `retired` likewise.

    `trusted_size`: records from this ordinal on are not trusted to it; None while it is not retired.
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


@dataclass
class Keyring:
    """The keys of one ledger: a fold over its `ledger` stream, in order."""

    ledger: str
    nonce: str = ""
    custody: str = ""
    version: int = 0
    keys: dict[str, EnrolledKey] = field(default_factory=dict)

    def admit(self, event: Event, version: int, verify: Verify) -> str | None:
        """Fold one event of the `ledger` stream in, or answer why it cannot be.

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
            fault = self._retire(event, version)
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

    def _found(self, event: LedgerFounded, version: int) -> str | None:
        if version != 1:
            return "a ledger is founded once"
        try:
            public = raw_key(event.root_key)
        except ValueError as error:
            return f"root {error}"
        keyid = keyid_of(spki_of(public))
        self.nonce, self.custody = event.nonce, event.custody
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
        message = enrolment_bytes(self.ledger, self.nonce, event.role, event.name, event.public_key)
        if not verify(public, base64.b64decode(event.possession), message):
            return "possession: the new key did not sign its enrolment"
        if (event.rotates is None) != (event.handover is None):
            return "rotates and handover come together"
        if event.rotates is not None and event.handover is not None:
            old = self.keys.get(event.rotates)
            if old is None or old.role != event.role or old.retired is not None:
                return "rotates: expected an enrolled key of the same role that is not retired"
            if not verify(old.public, base64.b64decode(event.handover), message):
                return "handover: the old key did not sign the enrolment"
        self.keys[keyid] = EnrolledKey(
            keyid, event.role, event.name, event.public_key, public, version
        )
        return None

    def _retire(self, event: KeyRetired, version: int) -> str | None:
        key = self.keys.get(event.keyid)
        if key is None or key.retired is not None:
            return "expected an enrolled key that is not retired"
        self.keys[key.keyid] = EnrolledKey(
            key.keyid,
            key.role,
            key.name,
            key.public_key,
            key.public,
            key.enrolled,
            retired=version,
            trusted_size=event.size,
            compromised=event.compromised,
        )
        return None
