"""Checking files that are one thing each: a proof, a record, a checkpoint, a statement.

A file that ends early is *torn*; one that is not what its beginning says, or does not hold, was *tampered*
with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.dsse import Envelope, EnvelopeError, parse_envelope
from ...domain.errors import BadData
from ...domain.heads import HEADS_TYPE, Heads, HeadsError
from ...domain.keyring import keyid_of, spki_of
from ...domain.note import NoteKey
from ...domain.proof import ConsistencyProof, InclusionProof, ProofError, SplitView
from ...domain.record import PAYLOAD_TYPE, assemble, digest
from ...projections.attestation import PAYLOAD_TYPE as ATTESTATION_TYPE
from ...projections.tree import leaf_hash, verify_inclusion
from ..findings import FORKED, TAMPERED, TORN, UNVERIFIABLE
from ..signatures import verify
from ..split_view import check as check_split_view
from ..split_view import signer_of_both
from .attested import AttestationCheck
from .bundles import ask_consistency, heads_signer
from .given import Given
from .known import Known, shown
from .report import FileReport
from .together import Sealed, Stated, Together

SPLIT_VIEW: Final = "a split view: the holder of the log's key signed two histories of one log"


@dataclass
class SingleCheck:
    """One file, while it is checked."""

    given: Given
    known: Known
    together: Together
    report: FileReport

    def run(self) -> None:
        """Check it, each kind in its own way."""
        kinds: dict[str, Callable[[], None]] = {
            "record": lambda: self._record(self.given.raw),
            "inclusion proof": self._inclusion,
            "consistency proof": self._consistency,
            "checkpoint": self._checkpoint,
            "split view": self._split_view,
            "envelope": self._envelope,
        }
        try:
            kinds[self.given.kind]()
        except (BadData, ValueError) as error:
            torn = _ends_early(self.given)
            found = error.message if isinstance(error, BadData) else str(error)
            expected = (
                "a file that is whole" if torn else f"{_a(self.given.kind)} as causebook writes it"
            )
            answer = self.report.ask("file")
            answer.fault(self.given.name, expected, found, TORN if torn else TAMPERED)

    # ── records and where they stand ─────────────────────────────────────────────────────────────────

    def _record(self, raw: bytes) -> None:
        if _ends_early(self.given):
            raise ValueError("a record that ends early")
        self.report.title = "a record"
        found = self.known.ask_record(self.report, raw, None, alone=True)
        if found is None:
            return
        record, _ = found
        self.report.title = f"a record of {record.ledger}"
        answer = self.report.ask("inclusion")
        for sealed in self.together.sealed:
            if sealed.record.digest == record.digest:
                answer.note = f"index {sealed.index} of the log, as {sealed.name} proves"
                return
        answer.skip("no proof of it is at hand: that it is in the log is not shown")

    def _inclusion(self) -> None:
        proof = InclusionProof.parse(self.given.raw)
        said = proof.checkpoint.checkpoint
        self.report.title = f"an inclusion proof, index {proof.index} of {said.origin}"
        answer = self.report.ask("inclusion")
        raw = self._leaf_of(proof)
        if raw is None:
            answer.lack("the record is not in the proof, and none at hand is it: give its file too")
            self.known.ask_checkpoint(self.report, proof.checkpoint)
            return
        try:
            verify_inclusion(proof.index, said.size, leaf_hash(raw), proof.path, said.root)
        except ProofError as error:
            answer.fault(f"index {proof.index}", "a record of the log", error.message)
        answer.note = f"index {proof.index} of {said.size:,}, digest {digest(raw)[:8]}…"
        signed = self.known.ask_checkpoint(self.report, proof.checkpoint)
        self.known.ask_witnesses(self.report, proof.checkpoint)
        found = self.known.ask_record(self.report, raw, proof.index, alone=False)
        if found is None:
            return
        record, _ = found
        if record.ledger != said.origin:
            answer.fault(f"index {proof.index}", f"a record of {said.origin}", record.ledger)
        elif signed is not None and answer.status == "PASS":
            sealed = Sealed(self.given.name, record, proof.index, signed.key)
            self.together.sealed.append(sealed)

    def _leaf_of(self, proof: InclusionProof) -> bytes | None:
        """The record: the proof's extra data, or one at hand that it leads to the root from."""
        if proof.extra:
            return proof.extra
        said = proof.checkpoint.checkpoint
        for raw in self.together.records:
            try:
                verify_inclusion(proof.index, said.size, leaf_hash(raw), proof.path, said.root)
            except ProofError:
                continue
            return raw
        return None

    # ── checkpoints ──────────────────────────────────────────────────────────────────────────────────

    def _checkpoint(self) -> None:
        signed = SignedCheckpoint.parse(self.given.raw)
        said = signed.checkpoint
        self.report.title = f"a checkpoint of {said.origin}, size {said.size:,}"
        self.known.ask_checkpoint(self.report, signed)
        self.known.ask_witnesses(self.report, signed)

    def _consistency(self) -> None:
        proof = ConsistencyProof.parse(self.given.raw)
        said = proof.checkpoint.checkpoint
        self.report.title = (
            f"a consistency proof of {said.origin}, {proof.old_size:,} to {said.size:,}"
        )
        self.known.ask_checkpoint(self.report, proof.checkpoint)
        anchored = self.report.anchored
        answer = self.report.ask("consistency")
        older = [
            each
            for each in self.together.checkpoints
            if (each.checkpoint.origin, each.checkpoint.size) == (said.origin, proof.old_size)
        ]
        if not older:
            answer.lack(
                f"the checkpoint of size {proof.old_size:,} is not at hand: give its file too"
            )
        for each in older:
            try:
                ask_consistency(answer, self.known, proof, each)
            except ProofError as error:
                signed = self.known.signer(each)
                code = TAMPERED if signed is None else FORKED
                answer.fault(
                    f"size {proof.old_size}", "a log that grew out of it", error.message, code
                )
        self.report.anchored = anchored
        self.known.ask_witnesses(self.report, proof.checkpoint)

    def _split_view(self) -> None:
        view = SplitView.parse(self.given.raw)
        older, newer = view.older.checkpoint, view.newer.checkpoint
        self.report.title = (
            f"a split view of {older.origin}, sizes {older.size:,} and {newer.size:,}"
        )
        answer = self.report.ask("split view")
        at_hand = self.known.log_keys_of(older.origin, older.size)
        keys = [each.key for each in at_hand]
        if signer_of_both(view, keys, verify) is None:
            expected = " or ".join(map(shown, self.known.given_keys(older.origin)))
            expected = expected or "one log key at hand: --log-key VKEY"
            answer.fault("both checkpoints", f"signed by {expected}", "by none", UNVERIFIABLE)
            return
        key = check_split_view(view, keys, verify)
        self.report.anchored = next(each.anchored for each in at_hand if each.key == key)
        answer.fault(shown(key), "one history of the log", SPLIT_VIEW, FORKED)
        self.report.said.append(
            f"{shown(key)} signed size {older.size:,} and size {newer.size:,}, "
            "of which neither can have grown out of the other"
        )

    # ── envelopes ────────────────────────────────────────────────────────────────────────────────────

    def _envelope(self) -> None:
        envelope = parse_envelope(self.given.raw)
        if envelope.payload_type == PAYLOAD_TYPE:
            first = envelope.signatures[0]
            self._record(assemble(envelope.payload, first.keyid, first.signature))
        elif envelope.payload_type == HEADS_TYPE:
            self._heads(envelope)
        elif envelope.payload_type == ATTESTATION_TYPE:
            AttestationCheck(self.given, self.known, self.together, self.report).run(envelope)
        else:
            raise EnvelopeError(
                "envelope: expected a record, heads or an attestation, found another type"
            )

    def _heads(self, envelope: Envelope) -> None:
        stated = Heads.parse(envelope.payload)
        self.report.title = f"heads of task {stated.task} of {stated.ledger}, size {stated.size:,}"
        answer = self.report.ask("heads")
        key = self._heads_key(envelope, stated)
        if key is None:
            answer.lack("no log key at hand signed it: --log-key VKEY, or a bundle of the ledger")
            return
        answer.note = f"signed by {shown(key)}"
        self.together.stated.append(Stated(self.given.name, stated, key))
        for stream, head in sorted(stated.heads.items()):
            self.report.said.append(f"{stream} ended at v{head.version}, {head.digest[:8]}…")
        self.report.said.append(f"as of size {stated.size:,}: asserted by {shown(key)}")

    def _heads_key(self, envelope: Envelope, stated: Heads) -> NoteKey | None:
        for key in self.known.given_keys(stated.ledger):
            if self.known.ended(key, stated.size) is not None:
                continue
            for each in envelope.signatures_by(keyid_of(spki_of(key.public))):
                if not verify(key.public, each.signature, envelope.signed_bytes):
                    raise HeadsError(f"expected a signature by {shown(key)} that holds")
                self.report.anchored = True
                return key
        for ledger in self.known.of(stated.ledger):
            if ledger.stream.founding != stated.founding:
                continue
            signer = heads_signer(envelope, ledger.stream.keyring, stated.size)
            if signer is not None and self.known.ended(signer, stated.size) is None:
                self.report.anchored = ledger.anchored
                return signer
        return None


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


_SIGNED: Final = "\n— ".encode()


def _ends_early(given: Given) -> bool:
    """Whether a file that does not hold looks cut: inside a line, or before what it ends in."""
    if not given.raw.endswith(b"\n"):
        return True
    if given.kind == "record":
        return given.raw.count(b"\n") < 2
    ends_in_a_note = given.kind in ("inclusion proof", "consistency proof", "checkpoint")
    return ends_in_a_note and _SIGNED not in given.raw
