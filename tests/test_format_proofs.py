"""docs/format.md, proofs and heads: its examples are made again and compared.

`python -m tests.test_format_proofs` writes them anew.
"""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from causebook.adapters.bundle.archive import ARCHIVE_BYTES_MAX, ENTRIES_MAX, ENTRY_BYTES_MAX
from causebook.adapters.signatures import verify
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.dsse import parse_envelope
from causebook.domain.heads import Heads, StreamHead
from causebook.domain.keyring import keyid_of, spki_of
from causebook.domain.note import NoteKey, sign_note
from causebook.domain.proof import PROOF_BYTES_MAX, ConsistencyProof, InclusionProof
from causebook.projections.attestation import PREDICATE_TYPE
from causebook.projections.tree import (
    consistency_proof,
    grow,
    inclusion_proof,
    leaf_hash,
    root,
    verify_consistency,
    verify_inclusion,
)

from .test_format import DOCUMENT, with_part

ORIGIN = "audit.example.com/team"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
ENTRIES = [b"record %d\n" % number for number in range(5)]
TILES = grow(lambda level, number: b"", 0, [leaf_hash(entry) for entry in ENTRIES])


def _tiles(level: int, number: int) -> bytes:
    return TILES.get((level, number), b"")


def _checkpoint(size: int) -> SignedCheckpoint:
    checkpoint = Checkpoint(ORIGIN, size, root(_tiles, size))
    return SignedCheckpoint(
        checkpoint, sign_note(checkpoint.text, NoteKey(ORIGIN, PUBLIC), KEY.sign)
    )


def proof() -> str:
    """An inclusion and a consistency proof, each parsed and checked first."""
    newer = _checkpoint(5)
    included = InclusionProof(2, inclusion_proof(_tiles, 2, 5), newer, ENTRIES[2])
    grown = ConsistencyProof(3, consistency_proof(_tiles, 3, 5), newer)
    assert InclusionProof.parse(included.raw) == included
    assert ConsistencyProof.parse(grown.raw) == grown
    at = newer.checkpoint
    verify_inclusion(2, at.size, leaf_hash(included.extra), included.path, at.root)
    verify_consistency(3, at.size, grown.path, _checkpoint(3).checkpoint.root, at.root)
    return (
        "A log of the five entries `record 0` to `record 4`, each with its LF, signed by the key whose 32\n"
        f"secret bytes are 0, 1, 2 to 31, `{NoteKey(ORIGIN, PUBLIC).vkey}`. That `record 2` is in it:\n\n"
        f"```\n{included.raw.decode()}```\n\n"
        "That it grew out of its first three:\n\n"
        f"```\n{grown.raw.decode()}```"
    )


def heads() -> str:
    """A statement of heads in its envelope, signature checked first."""
    founding = hashlib.sha256(b"a founding").hexdigest()
    last = hashlib.sha256(b"the last").hexdigest()
    streams = {
        "evaluation/T-104/1/post_execute/security": StreamHead(17, last),
        "ledger": StreamHead(4, last),
        "task/T-104": StreamHead(6, last),
    }
    at = _checkpoint(5).checkpoint
    stated = Heads(ORIGIN, founding, 1204, at.root, "T-104", streams)
    keyid = keyid_of(spki_of(PUBLIC))
    envelope = stated.sealed(keyid, KEY.sign)
    assert Heads.parse(parse_envelope(envelope.raw).payload) == stated
    assert verify(PUBLIC, envelope.signatures[0].signature, envelope.signed_bytes)
    return (
        f"Payload and envelope, signed by the same key, whose id is\n`{keyid}`:\n\n"
        f"```\n{envelope.payload.decode()}\n\n{envelope.raw.decode()}```"
    )


def test_the_documents_proofs_are_what_the_code_writes() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert with_part(document, "proof", proof()) == document


def test_the_documents_heads_are_what_the_code_writes() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert with_part(document, "heads", heads()) == document


def test_the_documents_limits_and_names_are_the_codes() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    for limit in (PROOF_BYTES_MAX, ENTRIES_MAX, ENTRY_BYTES_MAX, ARCHIVE_BYTES_MAX):
        assert f"{limit:,}" in document
    assert PREDICATE_TYPE in document


if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    for name, content in (("proof", proof()), ("heads", heads())):
        text = with_part(text, name, content)
    DOCUMENT.write_text(text, encoding="utf-8")
