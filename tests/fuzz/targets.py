"""Every parser of bytes from outside: what it may raise, what valid input looks like, and how much it takes.

A target's `run` parses, and answers the bytes that what it read is written as, where the format has one
spelling, else None. What it raises beyond `errors` is a bug, and so is an answer that is not its input.
Where more can be asked of what was read than its parser asks (a policy's colluders, a request's missing
signatures), `run` asks it, since hostile input gets that far.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from causebook.adapters.bundle.archive import BundleError
from causebook.adapters.bundle.manifest import Manifest
from causebook.adapters.handover.tiles import packed_entries, unpacked_entries
from causebook.adapters.reading import Unreadable, evidence_fault, read
from causebook.adapters.store.location import display, locate
from causebook.adapters.store.port import EvidenceRow, Row
from causebook.adapters.verification.pin import PIN_BYTES_MAX, Pin
from causebook.domain.canonical import decode, decode_foreign, encode, escaped_bytes
from causebook.domain.checkpoint import SignedCheckpoint, cosignature_by
from causebook.domain.dsse import EnvelopeError, parse_envelope
from causebook.domain.encoding import base64_bytes, base64_text, decimal
from causebook.domain.errors import BadData, CausebookError, Misuse, RecordError
from causebook.domain.evidence import response_bytes, response_from
from causebook.domain.heads import Heads, HeadsError
from causebook.domain.keyring import raw_key
from causebook.domain.limits import RECORD_BYTES_MAX
from causebook.domain.note import NOTE_BYTES_MAX, NoteError, NoteKey, is_signed_by, parse_note
from causebook.domain.policy import POLICY_BYTES_MAX, Policy, PolicyError
from causebook.domain.proof import (
    PROOF_BYTES_MAX,
    ConsistencyProof,
    InclusionProof,
    ProofError,
    SplitView,
)
from causebook.domain.record import assemble, parse
from causebook.domain.signing_request import SigningRequest
from causebook.domain.streams import parse_stream
from causebook.domain.trust import TRUST_BYTES_MAX, Trust
from causebook.projections.attestation import AttestationError, read_statement
from causebook.projections.tree import verify_consistency, verify_inclusion
from tests.adapters.logs import witness_key

from . import files, inputs, seeds
from .signatures import answers_alike, triples

KILOBYTES: Final = 1024
MEMORY_TIMES: Final = 150
"""The worst is JSON: `{},` makes 64 bytes of 3, and orjson asks for a tree of its own, mostly untouched."""


@dataclass(frozen=True)
class Target:
    """One parser.

    `bytes_max`: how long an input is tried, at most. `memory_times`, `memory_bytes`: what it may allocate at
    once, as a multiple of its input and beside it. `is_slow`: it talks over a socket or checks a whole
    bundle. `hostile_bytes`: how long an input is that grows one thing only.
    """

    name: str
    run: Callable[[bytes], bytes | None]
    errors: tuple[type[Exception], ...]
    seeds: Callable[[], tuple[bytes, ...]]
    bytes_max: int = 64 * KILOBYTES
    memory_times: int = MEMORY_TIMES
    memory_bytes: int = 4 * KILOBYTES * KILOBYTES
    is_slow: bool = False
    hostile_bytes: int = 100 * KILOBYTES

    def attempt(self, data: bytes) -> bool:
        """Parse; whether it was taken. Raises what is not named; `AssertionError` for a second spelling."""
        try:
            written = self.run(data)
        except self.errors:
            return False
        if written is not None and written != data:
            raise AssertionError(f"{self.name}: taken, and written as {written!r}, found {data!r}")
        return True


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


# ── records ──────────────────────────────────────────────────────────────────────────────────────────


def _record(data: bytes) -> bytes:
    found = parse(data)
    return assemble(found.line, found.keyid, found.signature)


def _event(data: bytes) -> bytes:
    record, event = read(Row("", 0, "", data))
    line = encode({**decode(record.line), "data": event.data()})
    return assemble(line, record.keyid, record.signature)


def _canonical(data: bytes) -> bytes:
    return encode(decode(data))


def _foreign(data: bytes) -> None:
    text = data.decode("utf-8", "surrogatepass")
    escaped_bytes(text)
    decode_foreign(text)


def _evidence(data: bytes) -> None:
    """Packed bytes; that they fit no commitment is no error, and never an exception."""
    if evidence_fault(EvidenceRow("0" * 64, bytes(32), "T-1", data)) is None:
        raise AssertionError("evidence of a commitment that nobody knows")


def _answer(data: bytes) -> None:
    found = response_from(data)
    if response_from(response_bytes(found)) != found:
        raise AssertionError("an answer that is another when it is read again")


# ── notes, checkpoints, proofs ───────────────────────────────────────────────────────────────────────


def _note(data: bytes) -> bytes:
    note = parse_note(data)
    is_signed_by(note, seeds.log().key, files.verify)
    return note.raw


def _vkey(data: bytes) -> bytes:
    return NoteKey.parse(_text(data)).vkey.encode()


def _checkpoint(data: bytes) -> bytes:
    signed = SignedCheckpoint.parse(data)
    if signed.checkpoint.text != signed.note.text:
        raise AssertionError("a checkpoint of another text")
    cosignature_by(signed.note, witness_key(seeds.WITNESS), files.verify)
    return signed.note.raw


def _inclusion(data: bytes) -> bytes:
    proof = InclusionProof.parse(data)
    _held(lambda: verify_inclusion(
        proof.index, proof.checkpoint.checkpoint.size, bytes(32), proof.path,
        proof.checkpoint.checkpoint.root,
    ))  # fmt: skip
    return proof.raw


def _consistency(data: bytes) -> bytes:
    proof = ConsistencyProof.parse(data)
    said = proof.checkpoint.checkpoint
    _held(lambda: verify_consistency(proof.old_size, said.size, proof.path, bytes(32), said.root))
    return proof.raw


def _held(check: Callable[[], None]) -> None:
    """That a proof does not hold is an answer, too."""
    with suppress(ProofError):
        check()


def _split_view(data: bytes) -> bytes:
    view = SplitView.parse(data)
    _held(lambda: files.convict(view))
    return view.raw


def _envelope(data: bytes) -> bytes:
    return parse_envelope(data).raw


def _heads(data: bytes) -> bytes:
    return Heads.parse(data).payload


def _statement(data: bytes) -> None:
    read_statement(data)


# ── policies, trust, pins, requests, names ───────────────────────────────────────────────────────────


def _policy(data: bytes) -> None:
    policy = Policy.parse(data)
    policy.reached_at(dict.fromkeys(policy.witnesses, 1))
    _held_note(policy)
    if policy.has_disjoint_quorums and policy.survives:
        raise AssertionError("a policy that survives though two quorums are disjoint")


def _held_note(policy: Policy) -> None:
    with suppress(NoteError):
        policy.evaluate(seeds.cosigned(7), files.verify)


def _trust(data: bytes) -> bytes:
    return Trust.parse(data).raw


def _pin(data: bytes) -> bytes:
    return Pin.parse(data).raw


def _request(data: bytes) -> None:
    request = SigningRequest.parse(data)
    request.events()
    if SigningRequest.parse(request.raw) != request:
        raise AssertionError("a request that is another when it is read again")
    if not request.wants():
        request.signed_records()
    request.require_possession(files.verify)


def _stream(data: bytes) -> None:
    parse_stream(_text(data))


def _spelling(data: bytes) -> bytes:
    """A number, or base64: each has one spelling."""
    if data.startswith(b"#"):
        return b"#%d" % decimal(_text(data[1:]))
    return base64_text(base64_bytes(_text(data))).encode()


def _public_key(data: bytes) -> None:
    raw_key(_text(data))


def _store(data: bytes) -> None:
    display(_text(data))
    locate(_text(data))


# ── bundles and tiles, as far as they are parsed in memory ───────────────────────────────────────────


def _manifest(data: bytes) -> bytes:
    return Manifest.parse(data).raw


def _entries(data: bytes) -> bytes:
    """The number of entries, in one byte, and the entries."""
    return data[:1] + packed_entries(unpacked_entries(data[1:], data[0] if data else 0))


def _packed() -> tuple[bytes, ...]:
    return tuple(
        bytes([len(records)]) + packed_entries(records)
        for records in (list(seeds.records()[:3]), [b""], [])
    )


PURE: Final = (
    Target("record", _record, (RecordError,), seeds.records, RECORD_BYTES_MAX + KILOBYTES),
    Target("event", _event, (Unreadable,), seeds.records, RECORD_BYTES_MAX + KILOBYTES),
    Target("canonical JSON", _canonical, (ValueError,), seeds.lines),
    Target("foreign JSON", _foreign, (ValueError,), seeds.lines),
    Target(
        "evidence", _evidence, (), inputs.packed_evidence, memory_bytes=8 * KILOBYTES * KILOBYTES
    ),
    Target("answer of a model", _answer, (ValueError,), inputs.answers),
    Target("note", _note, (NoteError,), seeds.notes, NOTE_BYTES_MAX + KILOBYTES),
    Target("vkey", _vkey, (NoteError,), inputs.vkeys),
    Target("checkpoint", _checkpoint, (NoteError,), seeds.notes, NOTE_BYTES_MAX + KILOBYTES),
    Target(
        *("inclusion proof", _inclusion, (ProofError,)),
        *(seeds.inclusion_proofs, PROOF_BYTES_MAX + KILOBYTES),
    ),
    Target(
        *("consistency proof", _consistency, (ProofError,)),
        *(seeds.consistency_proofs, PROOF_BYTES_MAX + KILOBYTES),
    ),
    Target("split view", _split_view, (ProofError, NoteError), seeds.split_views),
    Target("envelope", _envelope, (EnvelopeError,), seeds.envelopes),
    Target("heads", _heads, (HeadsError,), seeds.heads),
    Target("attestation", _statement, (AttestationError,), seeds.statements),
    Target("policy", _policy, (PolicyError,), seeds.policies, POLICY_BYTES_MAX + KILOBYTES),
    Target("trust file", _trust, (BadData,), seeds.trusts, TRUST_BYTES_MAX + KILOBYTES),
    Target("pin", _pin, (ValueError,), seeds.pins, PIN_BYTES_MAX + KILOBYTES),
    Target("signing request", _request, (BadData,), seeds.requests),
    Target("name of a stream", _stream, (ValueError,), inputs.streams),
    Target("base64 and numbers", _spelling, (ValueError,), inputs.spellings),
    Target("public key", _public_key, (ValueError,), inputs.public_keys),
    Target("URL of a store", _store, (Misuse,), inputs.stores),
    Target("manifest", _manifest, (BundleError,), inputs.manifests),
    Target("entries of a tile", _entries, (ValueError,), _packed),
    Target("both signature libraries", answers_alike, (), triples, KILOBYTES),
)

FILES: Final = tuple(
    Target(
        *(name, run, (CausebookError,), made),
        memory_bytes=memory_bytes,
        is_slow=is_slow,
        hostile_bytes=hostile_bytes,
    )
    for name, run, made, is_slow, memory_bytes, hostile_bytes in files.PARSERS
)

TARGETS: Final = {target.name: target for target in (*PURE, *FILES)}
