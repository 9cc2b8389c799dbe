"""Checking files that are one thing each: a proof, a record, a checkpoint, a statement.

A file that ends early is *torn*; one that is not what its beginning says, or does not hold, was *tampered*
with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.dsse import Envelope, EnvelopeError, parse_envelope
from ...domain.errors import BadData
from ...domain.events import PanelDecided
from ...domain.heads import HEADS_TYPE, Heads, HeadsError
from ...domain.keyring import keyid_of, spki_of
from ...domain.note import NoteError, NoteKey
from ...domain.proof import ConsistencyProof, InclusionProof, ProofError, SplitView
from ...domain.record import PAYLOAD_TYPE, assemble, digest
from ...domain.streams import task_stream
from ...projections.attestation import PAYLOAD_TYPE as ATTESTATION_TYPE
from ...projections.attestation import Decision, read_statement, said_of
from ...projections.tree import leaf_hash, verify_inclusion
from ..findings import FORKED, TAMPERED, TORN, UNVERIFIABLE
from ..reading import Unreadable, read
from ..signatures import verify
from ..split_view import check as check_split_view
from ..store.port import Row
from .bundles import Sealed, Stated, ask_consistency, heads_signer
from .given import Given
from .known import Known, shown
from .report import FileReport

SPLIT_VIEW: Final = "a split view: the holder of the log's key signed two histories of one log"


@dataclass
class Together:
    """What all files at hand show, for a file that needs another to be checked."""

    records: list[bytes] = field(default_factory=list)
    checkpoints: list[SignedCheckpoint] = field(default_factory=list)
    sealed: list[Sealed] = field(default_factory=list)
    stated: list[Stated] = field(default_factory=list)


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
                "a file that is whole" if torn else f"a {self.given.kind} as causebook writes it"
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
        signed = self.known.signer(view.older)
        if signed is None:
            keys = self.known.given_keys(older.origin)
            expected = " or ".join(map(shown, keys)) or "a log key at hand: --log-key VKEY"
            answer.fault("both checkpoints", f"signed by {expected}", "by none", UNVERIFIABLE)
            return
        self.report.anchored = signed.anchored
        key = check_split_view(view, [signed.key], verify)
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
            self._attestation(envelope)
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
            for each in envelope.signatures_by(keyid_of(spki_of(key.public))):
                if not verify(key.public, each.signature, envelope.signed_bytes):
                    raise HeadsError(f"expected a signature by {shown(key)} that holds")
                self.report.anchored = True
                return key
        for ledger in self.known.of(stated.ledger):
            if ledger.stream.founding != stated.founding:
                continue
            self.report.anchored = ledger.anchored
            return heads_signer(envelope, ledger.stream.keyring, stated.size)
        return None

    def _attestation(self, envelope: Envelope) -> None:
        decision = read_statement(envelope.payload)
        proof = decision.proof
        self.report.title = (
            f"an attestation of a decision on task {decision.task} of {decision.ledger}"
        )
        self._exporter(envelope, decision)
        anchored = self.report.anchored
        answer = self.report.ask("decision")
        said = proof.checkpoint.checkpoint
        try:
            record, event = read(Row("", 0, "", proof.extra))
        except Unreadable as error:
            answer.fault("proof", "the record of PanelDecided as its extra data", str(error))
            return
        try:
            verify_inclusion(proof.index, said.size, leaf_hash(proof.extra), proof.path, said.root)
        except ProofError as error:
            answer.fault(f"index {proof.index}", "a record of the log", error.message)
        claimed = (decision.ledger, decision.decided, decision.index, task_stream(decision.task))
        found = (record.ledger, record.digest, proof.index, record.stream)
        if not isinstance(event, PanelDecided) or claimed != found or said.origin != record.ledger:
            answer.fault("the predicate", "what its record and proof say", "something else")
        elif said_of(record.data) != decision.said:
            answer.fault("the predicate", "what PanelDecided says", "something else")
        answer.note = (
            f"{decision.said['action']}, attempt {decision.said['attempt']}, {decision.said['phase']}, "
            f"index {decision.index}"
        )
        self.known.ask_checkpoint(self.report, proof.checkpoint)
        self.report.anchored = anchored
        self.known.ask_witnesses(self.report, proof.checkpoint)
        self.known.ask_record(self.report, proof.extra, proof.index, alone=False)
        self.report.said.append("a later attempt, or a person, may have come to another decision")

    def _exporter(self, envelope: Envelope, decision: Decision) -> None:
        """Whether an exporter key of that ledger signed it: the question `exporter` of the report."""
        answer = self.report.ask("exporter")
        for ledger in self.known.of(decision.ledger):
            if ledger.stream.founding != decision.founding:
                continue
            for key in ledger.stream.keyring.keys.values():
                claimed = envelope.signatures_by(key.keyid)
                if not claimed:
                    continue
                if key.role != "exporter":
                    answer.fault("signature", "by a key for exporter", f"one for {key.role}")
                    return
                if not all(verify(key.public, s.signature, envelope.signed_bytes) for s in claimed):
                    answer.fault(
                        "signature", f"one by {key.keyid[:8]}… that holds", "one that does not"
                    )
                    return
                self.report.anchored = ledger.anchored
                if not key.reaches(decision.proof.checkpoint.checkpoint.size):
                    found = f"retired as of size {key.trusted_size}"
                    answer.fault("signature", "by a key still trusted", found, UNVERIFIABLE)
                answer.note = f"signed by exporter key {key.keyid[:8]}…, which {ledger.name} enrols"
                return
        names = ", ".join(each.keyid[:8] + "…" for each in envelope.signatures)
        answer.lack(
            f"signed by {names}, whose enrolment is not at hand: give a bundle of the ledger"
        )


_SIGNED: Final = "\n— ".encode()


def _ends_early(given: Given) -> bool:
    """Whether a file that does not hold looks cut: inside a line, or before what it ends in."""
    if not given.raw.endswith(b"\n"):
        return True
    if given.kind == "record":
        return given.raw.count(b"\n") < 2
    ends_in_a_note = given.kind in ("inclusion proof", "consistency proof", "checkpoint")
    return ends_in_a_note and _SIGNED not in given.raw


def gathered(files: Iterable[Given]) -> Together:
    """What lone files bring for others: records and checkpoints. Files that do not parse bring nothing."""
    together = Together()
    for given in files:
        try:
            if given.kind == "record":
                together.records.append(given.raw)
            elif given.kind == "checkpoint":
                together.checkpoints.append(SignedCheckpoint.parse(given.raw))
            elif given.kind == "inclusion proof":
                proof = InclusionProof.parse(given.raw)
                together.checkpoints.append(proof.checkpoint)
                together.records += [proof.extra] if proof.extra else []
            elif given.kind == "consistency proof":
                together.checkpoints.append(ConsistencyProof.parse(given.raw).checkpoint)
        except (NoteError, ProofError):
            continue
    return together
