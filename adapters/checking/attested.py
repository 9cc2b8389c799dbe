"""Checking an attestation: whose key signed it, and whether its record says what it says.

1.  exporter     an exporter key of the ledger signed it
2.  decision     the record of `PanelDecided` is in the log, and is what the predicate repeats
3.  subject      what it is about, as `PanelConvened` recorded it, where a bundle with that is at hand
4.  checkpoint, witnesses, record, signature     as for an inclusion proof (single.py)
"""

from __future__ import annotations

from dataclasses import dataclass

from ...domain.dsse import Envelope
from ...domain.events import PanelConvened, PanelDecided, event_from
from ...domain.proof import ProofError
from ...domain.record import Record
from ...domain.streams import task_stream
from ...projections.attestation import Decision, read_statement, said_of, subject_of
from ...projections.tree import leaf_hash, verify_inclusion
from ..findings import UNVERIFIABLE
from ..reading import Unreadable, read
from ..signatures import verify
from ..store.port import Row
from .given import Given
from .known import Known
from .report import FileReport
from .together import Sealed, Together


@dataclass
class AttestationCheck:
    """One attestation, while it is checked."""

    given: Given
    known: Known
    together: Together
    report: FileReport

    def run(self, envelope: Envelope) -> None:
        """Check it. Raises `AttestationError` where it is none."""
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
            f"{decision.said['outcome']}, attempt {decision.said['attempt']}, {decision.said['phase']}, "
            f"index {decision.index}"
        )
        self._subject(decision, record)
        signed = self.known.ask_checkpoint(self.report, proof.checkpoint)
        if signed is not None and answer.status == "PASS":
            sealed = Sealed(self.given.name, record, proof.index, signed.key)
            self.together.sealed.append(sealed)
        self.report.anchored = anchored
        self.known.ask_witnesses(self.report, proof.checkpoint)
        self.known.ask_record(self.report, proof.extra, proof.index, alone=False)
        self.report.said.append("a later attempt, or a person, may have come to another decision")

    def _subject(self, decision: Decision, decided: Record) -> None:
        """What the decision is said to be about, against `PanelConvened` where its bundle is at hand.

        Nothing in the proof says it: without that record it is the exporter's word.
        """
        answer = self.report.ask("subject")
        ((kind, digits),) = decision.subject["digest"].items()
        told = f"{decision.subject['name']}, {kind}:{digits}"
        attempt, phase = decision.said["attempt"], decision.said["phase"]
        files = {
            ledger.name
            for ledger in self.known.of(decision.ledger)
            if ledger.stream.founding == decision.founding
        }
        convened = [
            each
            for each in self.together.sealed
            if each.name in files
            and (each.record.stream, each.record.type) == (decided.stream, "PanelConvened")
            and (each.record.data["attempt"], each.record.data["phase"]) == (attempt, phase)
            and each.record.version < decided.version
        ]
        if not convened:
            self.report.said.append(f"says the exporter's key: it is about {told}")
            answer.skip("the exporter's word: give a bundle of the task, which has PanelConvened")
            return
        for each in convened:
            event = event_from("PanelConvened", each.record.data)
            recorded = event.workspace if isinstance(event, PanelConvened) else None
            if subject_of(decision.task, recorded) != decision.subject:
                place = f"{each.record.stream} v{each.record.version} PanelConvened, in {each.name}"
                expected = "the working tree that it recorded as the subject"
                answer.fault(place, expected, f"the exporter's key saying {told}")
        if answer.status == "PASS":
            answer.note = f"what PanelConvened recorded, in {convened[-1].name}"
            self.report.said.append(f"it is about {told}")

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
