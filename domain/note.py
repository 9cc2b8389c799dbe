"""Signed notes: a text, and one line for each signature (C2SP signed-note, commit 055287621bf3).

    causebook.example/team            the text: one or more lines, each ended by LF,
    1204                              the last included
    CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=
                                      one empty line
    — causebook.example/team Az3grl…  a signature line: em dash (U+2014), space, key name, space, base64

A note is UTF-8 without control characters below U+0020 other than LF. The text ends before the last empty
line, so it may hold empty lines itself. The base64 spells four bytes of key id and the signature. A key is
known by its name and its id together; a signature of any other key is passed over, and a known key whose
signature does not hold rejects the note.

    key id = SHA-256(name ‖ LF ‖ type ‖ public key)[:4]      type 0x01: Ed25519 over the text
                                                             type 0x04: a cosignature (checkpoint.py)
    vkey   = name "+" key id in 8 hex digits "+" base64(type ‖ public key)

A key name is not empty and holds no Unicode space and no "+". Beyond the text, and kept to by what is written
here: nor a character that is not seen or that turns text around, since names are compared by eye; at most 64
signatures and 64 KiB a note, so that a note costs its reader next to nothing.

This module takes values and bytes and does no IO. Checking a signature is asked of a `Verify` function.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from .ed25519 import public_key_fault, signature_fault
from .encoding import base64_bytes, base64_text, is_key_name
from .errors import BadData

Verify = Callable[[bytes, bytes, bytes], bool]
"""(public key of 32 bytes, signature of 64 bytes, message) → whether it holds."""

ED25519: Final = 0x01
COSIGNATURE: Final = 0x04
NOTE_BYTES_MAX: Final = 64 * 1024
SIGNATURES_MAX: Final = 64

_VKEY = re.compile(r"(?P<name>[^+]+)\+(?P<keyid>[0-9a-f]{8})\+(?P<key>[A-Za-z0-9+/=]+)")
_SIGNATURE_LINE = re.compile(r"— (?P<name>[^ ]+) (?P<signature>[A-Za-z0-9+/=]+)")


class NoteError(BadData):
    """Bytes that are not a signed note, a key that is none, or a known key whose signature does not hold."""


@dataclass(frozen=True)
class NoteKey:
    """A key that signs notes: its name, its 32 bytes of Ed25519, and what it signs (`kind`)."""

    name: str
    public: bytes
    kind: int = ED25519

    @property
    def keyid(self) -> bytes:
        """Four bytes that tell keys of one name apart; a hint, no fingerprint."""
        material = b"%b\n%b%b" % (self.name.encode(), bytes([self.kind]), self.public)
        return hashlib.sha256(material).digest()[:4]

    @property
    def vkey(self) -> str:
        """The key as one line of text."""
        return f"{self.name}+{self.keyid.hex()}+{base64_text(bytes([self.kind]) + self.public)}"

    @classmethod
    def parse(cls, vkey: str) -> NoteKey:
        """The key that a vkey is. Raises `NoteError` naming what is wrong with it."""
        found = _VKEY.fullmatch(vkey)
        if found is None or not is_key_name(found["name"]):
            raise NoteError("vkey: expected NAME+8 hex digits+base64")
        try:
            raw = base64_bytes(found["key"])
        except ValueError as error:
            raise NoteError(f"vkey: {error}") from None
        if len(raw) != 33 or raw[0] not in (ED25519, COSIGNATURE):
            raise NoteError("vkey: expected type 0x01 or 0x04 and 32 bytes of Ed25519")
        fault = public_key_fault(raw[1:])
        if fault is not None:
            raise NoteError(f"vkey: {fault}")
        key = cls(found["name"], raw[1:], raw[0])
        if key.keyid.hex() != found["keyid"]:
            raise NoteError(f"vkey: expected key id {key.keyid.hex()}, found {found['keyid']}")
        return key


@dataclass(frozen=True)
class NoteSignature:
    """One signature line, taken apart. `signature`: the bytes after the key id."""

    name: str
    keyid: bytes
    signature: bytes

    @property
    def line(self) -> str:
        """The line, its LF included."""
        return f"— {self.name} {base64_text(self.keyid + self.signature)}\n"

    def is_by(self, key: NoteKey) -> bool:
        """Whether it claims to be of that key."""
        return self.name == key.name and self.keyid == key.keyid


@dataclass(frozen=True)
class Note:
    """A text, its last LF included, and its signatures in order. Nothing about them is known to hold."""

    text: str
    signatures: tuple[NoteSignature, ...]

    @property
    def raw(self) -> bytes:
        """The bytes of the note."""
        return f"{self.text}\n{''.join(s.line for s in self.signatures)}".encode()

    def by(self, key: NoteKey) -> list[NoteSignature]:
        """The signatures that claim to be of that key."""
        return [signature for signature in self.signatures if signature.is_by(key)]


def parse_signature(line: str) -> NoteSignature:
    """The signature of a line without its LF. Raises `NoteError`."""
    found = _SIGNATURE_LINE.fullmatch(line)
    if found is None or not is_key_name(found["name"]):
        raise NoteError("note: expected a signature line: — NAME BASE64")
    try:
        raw = base64_bytes(found["signature"])
    except ValueError as error:
        raise NoteError(f"note, signature of {found['name']!a}: {error}") from None
    if len(raw) < 5:
        raise NoteError(f"note, signature of {found['name']!a}: expected a key id and a signature")
    return NoteSignature(found["name"], raw[:4], raw[4:])


def parse_note(raw: bytes) -> Note:
    """The note that `raw` is. Raises `NoteError` naming the first rule it breaks."""
    if len(raw) > NOTE_BYTES_MAX:
        raise NoteError(f"note: expected at most {NOTE_BYTES_MAX} bytes, found {len(raw)}")
    try:
        content = raw.decode()
    except UnicodeDecodeError as error:
        raise NoteError(f"note: expected UTF-8, found another byte at {error.start}") from None
    if any(character < " " and character != "\n" for character in content):
        raise NoteError("note: expected no control character but the end of a line")
    text, blank, signed = content.rpartition("\n\n")
    if not blank or not signed.endswith("\n"):
        raise NoteError("note: expected a text, an empty line and signature lines")
    lines = signed[:-1].split("\n")
    if len(lines) > SIGNATURES_MAX:
        raise NoteError(f"note: expected at most {SIGNATURES_MAX} signatures, found {len(lines)}")
    note = Note(f"{text}\n", tuple(parse_signature(line) for line in lines))
    if note.raw != raw:
        raise NoteError("note: expected the one spelling of its signatures")
    return note


def sign_note(text: str, key: NoteKey, sign: Callable[[bytes], bytes]) -> Note:
    """The note of `text` signed by an Ed25519 key; `sign` gives the 64 bytes over a message."""
    return Note(text, (NoteSignature(key.name, key.keyid, sign(text.encode())),))


def is_signed_by(note: Note, key: NoteKey, verify: Verify) -> bool:
    """Whether an Ed25519 key (type 0x01) signed the note's text; False where it did not sign at all.

    Raises `NoteError` where a signature is said to be of this key and does not hold: such a note is
    rejected, whatever others signed it.
    """
    claimed = note.by(key)
    for each in claimed:
        fault = signature_fault(each.signature)
        if fault is not None or not verify(key.public, each.signature, note.text.encode()):
            raise NoteError(
                f"note: expected a signature by {key.name!a} that holds, found one that does not"
            )
    return bool(claimed)


def signer_among(note: Note, keys: Iterable[NoteKey], verify: Verify) -> NoteKey | None:
    """The first of `keys` that signed the note, or None. Raises `NoteError` as `is_signed_by` does."""
    signers = [key for key in keys if is_signed_by(note, key, verify)]
    return signers[0] if signers else None
