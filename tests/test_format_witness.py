"""docs/format.md, policies and cosignatures: its examples are made again and compared.

`python -m tests.test_format_witness` writes them anew.
"""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from causebook.adapters.signatures import verifier
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint, cosign, cosigned_bytes
from causebook.domain.note import COSIGNATURE, ED25519, Note, NoteKey, sign_note
from causebook.domain.policy import Policy

from .test_format import DOCUMENT, with_part

LOG, WITNESS = "audit.example.com/team", "w1.example.com"
TIME = 1_796_053_000


def _private(first: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(range(first, first + 32)))


def _key(name: str, first: int, kind: int) -> NoteKey:
    return NoteKey(name, _private(first).public_key().public_bytes_raw(), kind)


def _note() -> Note:
    text = Checkpoint(LOG, 1204, hashlib.sha256(b"a root").digest()).text
    log, witness = _key(LOG, 0, ED25519), _key(WITNESS, 1, COSIGNATURE)
    signed = sign_note(text, log, _private(0).sign)
    return Note(text, (*signed.signatures, cosign(text, witness, TIME, _private(1).sign)))


def _policy() -> str:
    lines = [f"log {_key(LOG, 0, ED25519).vkey}"]
    lines += [
        f"witness w{n} {_key(f'w{n}.example.com', n, COSIGNATURE).vkey} https://w{n}.example.com"
        for n in (1, 2, 3)
    ]
    return "\n".join([*lines, "group most 2 w1 w2 w3", "quorum most\n"])


def policy() -> str:
    """A policy, and what is said of it."""
    found = Policy.parse(_policy().encode())
    return (
        f"```\n{_policy()}```\n\n"
        f"Any two quorums share at least {found.colluders_min} witness, who would have to sign two histories:"
        f"\nit survives {found.survives} colluding witnesses."
    )


def cosignature() -> str:
    """A checkpoint with its cosignature, and the bytes that the witness signed."""
    note = _note()
    line = note.signatures[1]
    return (
        "The log's key has the secret bytes 0, 1, 2 to 31, the witness's 1, 2, 3 to 32; its vkey is\n"
        f"`{_key(WITNESS, 1, COSIGNATURE).vkey}`.\n\n"
        f"```\n{note.raw.decode()}```\n\n"
        f"Key id `{line.keyid.hex()}`, time `{line.signature[:8].hex()}` ({TIME}). The witness signed these"
        f" {len(cosigned_bytes(TIME, note.text))} bytes:\n\n"
        f"```\n{cosigned_bytes(TIME, note.text).decode()}```"
    )


PARTS = {"policy": policy, "cosignature": cosignature}


@pytest.mark.parametrize("name", PARTS)
def test_the_documents_example_is_what_the_code_writes(name: str) -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert with_part(document, name, PARTS[name]()) == document


def test_the_documents_policy_holds_the_documents_checkpoint_to_two() -> None:
    signed = SignedCheckpoint.parse(_note().raw)
    found = Policy.parse(_policy().encode()).evaluate(signed.note, verifier())
    assert not found.holds
    assert [each.witness.name for each in found.cosigned] == ["w1"]


if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, make in PARTS.items():
        text = with_part(text, name, make())
    DOCUMENT.write_text(text, encoding="utf-8")
