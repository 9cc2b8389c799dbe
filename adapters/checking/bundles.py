"""Checking a bundle: step by step, each a question of its report.

1.  files        the zip has the one spelling that causebook writes, the manifest names every file, and each
                 has the bytes it names
2.  tree         each record is in the tree of the bundle's one checkpoint, at the index that its name says
3.  records, signatures, roles, chains, law, evidence     as `verify` checks a whole ledger, over these
4.  founding     the ledger is the one that was given: by trust file, or by log key
5.  checkpoint   a log key of that ledger, or a given one, signed it
6.  heads        what the log's key says the task came to is what is here
7.  consistency  the log grew out of the older checkpoint, where the bundle has one
8.  witnesses    as the policy asks

Nothing is believed because it is in the bundle: not its manifest, its keys or its page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.dsse import Envelope, EnvelopeError, parse_envelope
from ...domain.errors import CausebookError
from ...domain.heads import HEADS_TYPE, Heads, HeadsError, StreamHead
from ...domain.keyring import Keyring, keyid_of, spki_of
from ...domain.note import NoteError, NoteKey
from ...domain.proof import ConsistencyProof, InclusionProof, ProofError
from ...domain.record import Record, parse
from ...domain.streams import LEDGER, parse_stream
from ...projections.tree import leaf_hash, verify_consistency, verify_inclusion
from ..bundle.archive import Archive, BundleError
from ..bundle.manifest import RECORDS_BYTES_MAX, Manifest, read_file, read_manifest
from ..findings import FORKED, TRUNCATED, UNVERIFIABLE, CheckName, counted
from ..signatures import verify as verify_signature
from ..store.port import Row
from ..task_check import TaskRows
from ..verification.verify import verify
from .given import Given
from .known import Known, shown
from .ledgers import KnownLedger
from .records import OfBundle, row_of
from .report import Answer, FileReport
from .together import Sealed, Stated

_RECORD: Final = re.compile(r"records/(0|[1-9][0-9]{0,15})\.record")
_OTHERS: Final = re.compile(
    r"VERIFY\.md|checkpoint|consistency|heads\.json|older-checkpoint|records/(?:0|[1-9][0-9]{0,15})\.tlog-proof"
    r"|evidence/[0-9a-f]{64}\.(?:salt|bytes)|keys/[0-9a-f]{64}\.(?:pem|vkey)"
)
_CHECKS: Final[tuple[CheckName, ...]] = (
    *("records", "signatures", "roles", "chains", "law", "evidence"),
)


@dataclass
class BundleCheck:
    """One bundle, while it is checked. After `run`: its report, and what others can be held against."""

    given: Given
    known: Known
    report: FileReport
    sealed: list[Sealed] = field(default_factory=list)
    stated: list[Stated] = field(default_factory=list)
    checkpoints: list[SignedCheckpoint] = field(default_factory=list)

    def run(self) -> None:
        """Check it. Raises `IOFailure` where the file cannot be read."""
        with open(self.given.path, "rb") as file:
            answer = self.report.ask("files")
            try:
                self._run(file, answer)
            except BundleError as error:
                answer.fault(self.given.name, "a bundle that holds", error.message, error.code)
        if self.report.failed:  # of what does not hold, nobody's word is passed on
            self.report.said = [s for s in self.report.said if not s.startswith(COMPLETE)]

    def _run(self, file: BinaryIO, answer: Answer) -> None:
        archive = Archive(file)
        manifest = read_manifest(archive)
        self.report.title = f"a bundle of task {manifest.task} of {manifest.ledger}"
        self._files(archive, manifest, answer)
        checkpoint = self._checkpoint(archive, manifest)
        rows = self._tree(archive, manifest, checkpoint)
        proved = not self.report.failed  # else nothing here convicts anybody of what the sender did
        source = OfBundle(self.given.name, rows, (), archive, manifest)
        ledger = self._records(archive, manifest, checkpoint, source)
        if ledger is None or any(row.version == 0 for _, row in rows):
            return
        signed = self.known.ask_ledger(self.report, ledger, checkpoint)
        if ledger.stream.founding != manifest.founding or ledger.stream.origin != manifest.ledger:
            expected = f"the founding of {manifest.ledger}, {manifest.founding}"
            answer.fault("manifest.json", expected, ledger.stream.founding)
        placed = [(index, parse(row.record)) for index, row in rows]
        self._spans(ledger, placed)
        self.checkpoints += ledger.checkpoints
        if signed is not None:
            self.checkpoints.append(checkpoint)
            if proved:
                self.sealed += [Sealed(self.given.name, r, at, signed.key) for at, r in placed]
        here = {record.stream: StreamHead(record.version, record.digest) for _, record in placed}
        self._heads(archive, manifest, ledger, checkpoint, here)
        self._closed(placed)
        roots = {manifest.size: manifest.root}
        roots |= self._consistency(archive, manifest, checkpoint)
        tree = next(each for each in self.report.answers if each.name == "tree")
        ledger.ask_retirements(tree, roots)
        self.known.ask_witnesses(self.report, checkpoint)

    # ── the files, and the tree ──────────────────────────────────────────────────────────────────────

    def _files(self, archive: Archive, manifest: Manifest, answer: Answer) -> None:
        total = 0
        for name in manifest.files:
            if _RECORD.fullmatch(name) is None and _OTHERS.fullmatch(name) is None:
                raise BundleError(f"{name}: expected a file that a bundle can hold")
            if name.startswith("evidence/") and not manifest.evidence:
                raise BundleError(f"{name}: expected no evidence, as the manifest says")
            total += manifest.files[name].length if name.endswith(".record") else 0
        if total > RECORDS_BYTES_MAX:
            raise BundleError(f"records: expected at most {RECORDS_BYTES_MAX:,} bytes, found more")
        for name in manifest.files:
            read_file(archive, manifest, name)
        answer.note = f"{counted(len(archive.entries), 'file')}, each as the manifest says"

    def _checkpoint(self, archive: Archive, manifest: Manifest) -> SignedCheckpoint:
        try:
            signed = SignedCheckpoint.parse(self._read(archive, manifest, "checkpoint"))
        except NoteError as error:
            raise BundleError(f"checkpoint: {error.message}") from None
        said = signed.checkpoint
        if (said.origin, said.size, said.root) != (manifest.ledger, manifest.size, manifest.root):
            raise BundleError("checkpoint: expected the one that the manifest names, found another")
        return signed

    def _read(self, archive: Archive, manifest: Manifest, name: str) -> bytes:
        if name not in manifest.files:
            raise BundleError(f"{name}: expected a file by this name, found none")
        return read_file(archive, manifest, name)

    def _tree(
        self, archive: Archive, manifest: Manifest, checkpoint: SignedCheckpoint
    ) -> list[tuple[int, Row]]:
        """The records by index, each one's place in the tree asked."""
        answer = self.report.ask("tree")
        found = (_RECORD.fullmatch(name) for name in manifest.files)
        indices = sorted(int(match[1]) for match in found if match is not None)
        if not indices:
            raise BundleError("records: expected those of a task and of ledger, found none")
        proofs = sum(name.endswith(".tlog-proof") for name in manifest.files)
        if proofs != len(indices):
            raise BundleError(
                f"records: expected a proof of each of {len(indices)}, found {proofs}"
            )
        rows: list[tuple[int, Row]] = []
        said = checkpoint.checkpoint
        for index in indices:
            raw = self._read(archive, manifest, f"records/{index}.record")
            name = f"records/{index}.tlog-proof"
            rows.append((index, row_of(raw, index)))
            try:
                proof = InclusionProof.parse(self._read(archive, manifest, name))
                if proof.index != index or proof.checkpoint.note.text != checkpoint.note.text:
                    raise ProofError(
                        "expected a proof of its own index, to the bundle's checkpoint"
                    )
                verify_inclusion(index, said.size, leaf_hash(raw), proof.path, said.root)
            except ProofError as error:
                place = f"{rows[-1][1].stream} v{rows[-1][1].version}, index {index}"
                answer.fault(place, "a record of the log", error.message)
                continue
        if answer.status == "PASS":
            answer.note = f"{counted(len(rows), 'record')} are in the log of size {said.size:,}"
        return rows

    # ── the records ──────────────────────────────────────────────────────────────────────────────────

    def _records(
        self, archive: Archive, manifest: Manifest, checkpoint: SignedCheckpoint, source: OfBundle
    ) -> KnownLedger | None:
        """Check them as `verify` does; the ledger whose stream is among them, where that holds.

        A key that this stream does not name is nobody's only where the stream is shown to be whole.
        """
        rows = TaskRows(manifest.task, self.given.name, source.numbered, source)
        ledger, fault = None, ""
        try:
            ledger = KnownLedger.of(self.given.name, manifest.size, source.numbered)
        except CausebookError as error:
            fault = error.message
        whole = ledger is not None and self._is_whole(archive, manifest, ledger, checkpoint)
        report = verify(rows, processes=0, whole=False, enrolments_whole=whole)
        answers = {name: Answer.of(report[name]) for name in _CHECKS}
        for index, row in source.numbered:
            if row.stream != LEDGER and _task_of(row.stream) != manifest.task:
                place = f"{row.stream} v{row.version}, index {index}"
                answers["records"].fault(place, f"records of task {manifest.task}", "another's")
        if not manifest.evidence:
            answers["evidence"] = Answer("evidence")
            answers["evidence"].skip("none in this bundle")
        self.report.answers += answers.values()
        if ledger is None:
            answers["chains"].fault(LEDGER, "the whole stream, from its founding", fault)
            return None
        if source.numbered[0][1].stream != LEDGER or source.numbered[0][0] != 0:
            answers["chains"].fault("index 0", "the founding", "another record, or none")
        return ledger

    def _spans(self, ledger: KnownLedger, placed: list[tuple[int, Record]]) -> None:
        """That no record stands past the end of trust in its key. `verify` counts the records it is given,
        and here they have their own places in the log.
        """
        roles = next(each for each in self.report.answers if each.name == "roles")
        keys = ledger.stream.keyring.keys
        for index, record in placed:
            key = keys.get(record.keyid)
            size = None if key is None else key.trusted_size
            if size is not None and index >= size:
                expected = f"a key still trusted at index {index}"
                place = f"{record.stream} v{record.version}"
                roles.fault(place, expected, f"retired as of size {size}", UNVERIFIABLE)

    # ── whether it is all of it ──────────────────────────────────────────────────────────────────────

    def _heads(
        self,
        archive: Archive,
        manifest: Manifest,
        ledger: KnownLedger,
        checkpoint: SignedCheckpoint,
        here: dict[str, StreamHead],
    ) -> None:
        answer = self.report.ask("heads")
        if "heads.json" not in manifest.files:
            answer.skip("no statement of the log's key is in it")
            return
        said = checkpoint.checkpoint
        try:
            stated, signer = self._statement(archive, manifest, ledger, checkpoint)
        except (EnvelopeError, HeadsError) as error:
            answer.fault(
                "heads.json",
                "a log key's statement of this task and checkpoint",
                error.message,
            )
            return
        if signer is None:
            answer.lack("signed by no log key at hand that is trusted so far: --log-key VKEY")
            return
        self.stated.append(Stated(self.given.name, stated, signer))
        for stream in sorted(stated.heads.keys() | here.keys()):
            _compare(answer, stream, stated.heads.get(stream), here.get(stream))
        if answer.status == "PASS":
            answer.note = f"{counted(len(stated.heads), 'stream')}, as {shown(signer)} states"
            self.report.said.append(f"{COMPLETE} size {said.size:,}: asserted by {shown(signer)}")

    def _statement(
        self,
        archive: Archive,
        manifest: Manifest,
        ledger: KnownLedger,
        checkpoint: SignedCheckpoint,
    ) -> tuple[Heads, NoteKey | None]:
        """The statement in a bundle, and the log key that signed it; None where that is not at hand.

        Raises `EnvelopeError`, `HeadsError` where it does not hold, or is not of this checkpoint.
        """
        envelope = parse_envelope(self._read(archive, manifest, "heads.json"))
        said = checkpoint.checkpoint
        others = [each.key for each in self.known.log_keys_of(said.origin, said.size)]
        signer = heads_signer(envelope, ledger.stream.keyring, said.size, others)
        stated = Heads.parse(envelope.payload)
        claimed = (stated.ledger, stated.founding, stated.size, stated.root, stated.task)
        if claimed != (said.origin, ledger.stream.founding, said.size, said.root, manifest.task):
            raise HeadsError("found one of another")
        return stated, signer

    def _is_whole(
        self,
        archive: Archive,
        manifest: Manifest,
        ledger: KnownLedger,
        checkpoint: SignedCheckpoint,
    ) -> bool:
        """Whether a statement that holds shows the stream `ledger` to be here up to its last record."""
        if "heads.json" not in manifest.files:
            return False
        try:
            stated, signer = self._statement(archive, manifest, ledger, checkpoint)
        except (EnvelopeError, HeadsError):
            return False  # asked again, and answered, with the heads
        return signer is not None and stated.heads.get(LEDGER) == StreamHead(*ledger.stream.tip)

    def _closed(self, placed: list[tuple[int, Record]]) -> None:
        """What the last `AttemptClosed` vouches for, and what lies after it."""
        own = [(index, record) for index, record in placed if record.stream != LEDGER]
        closed = [(index, record) for index, record in own if record.type == "AttemptClosed"]
        if closed:
            at, record = closed[-1]
            attempt = record.data.get("attempt")
            self.report.said.append(
                f"{COMPLETE} head at index {at}: {record.stream} v{record.version}, "
                f"the close of attempt {attempt}, signed by the engine"
            )
            after = [each for each in own if each[0] > at]
            self.report.said += after_a_head(after)
        elif not self.stated:
            self.report.said.append("nobody asserts that this is all of the task")
        self.report.said.append(WHOLE_LOG)

    def _consistency(
        self, archive: Archive, manifest: Manifest, checkpoint: SignedCheckpoint
    ) -> dict[int, bytes]:
        """Whether the log grew out of the older checkpoint; that one's root by size, where it did."""
        answer = self.report.ask("consistency")
        if "consistency" not in manifest.files and "older-checkpoint" not in manifest.files:
            answer.skip("no older checkpoint is in it")
            return {}
        try:
            older = SignedCheckpoint.parse(self._read(archive, manifest, "older-checkpoint"))
            proof = ConsistencyProof.parse(self._read(archive, manifest, "consistency"))
            ask_consistency(answer, self.known, proof, older)
            if proof.checkpoint.note.text != checkpoint.note.text:
                raise ProofError(
                    "expected a proof to the bundle's checkpoint, found one to another"
                )
        except (NoteError, ProofError) as error:
            answer.fault("consistency", "a proof that holds", error.message)
            return {}
        if answer.status == "PASS":
            self.checkpoints.append(older)
        return {older.checkpoint.size: older.checkpoint.root}


COMPLETE: Final = "complete as of"
WHOLE_LOG: Final = (
    "only the whole log proves that nothing was left out: causebook verify, or check on its tiles"
)
_AFTER_MAX: Final = 5


def after_a_head(records: Sequence[tuple[int, Record]]) -> list[str]:
    """What lies after a head, in sentences, a few records by name."""
    said = [
        f"after that head: {record.stream} v{record.version} {record.type}, index {index}"
        for index, record in records[:_AFTER_MAX]
    ]
    if len(records) > _AFTER_MAX:
        said.append(f"after that head: {len(records) - _AFTER_MAX:,} more")
    return said


def heads_signer(
    envelope: Envelope, keyring: Keyring, size: int, others: Sequence[NoteKey] = ()
) -> NoteKey | None:
    """The log key that signed a statement of heads, of `others` and of those in the keyring trusted so far.

    None where it is not at hand: that is unverifiable, and not tampered. Raises `EnvelopeError` where a
    signature does not hold, or is by a key for something else.
    """
    if envelope.payload_type != HEADS_TYPE:
        raise EnvelopeError(f"expected the payload type {HEADS_TYPE}, found another")
    for key in dict.fromkeys([*others, *keyring.log_keys(size)]):
        claimed = envelope.signatures_by(keyid_of(spki_of(key.public)))
        for each in claimed:
            if not verify_signature(key.public, each.signature, envelope.signed_bytes):
                raise EnvelopeError(f"expected a signature by {shown(key)} that holds")
        if claimed:
            return key
    for each in envelope.signatures:
        enrolled = keyring.keys.get(each.keyid)
        if enrolled is not None and enrolled.role != "log":
            raise EnvelopeError(
                f"expected it signed by a key for log, found one for {enrolled.role}"
            )
    return None


def ask_consistency(
    answer: Answer, known: Known, proof: ConsistencyProof, older: SignedCheckpoint
) -> None:
    """Whether the log of the proof's checkpoint grew out of the older one, each signed by a log key.

    Raises `NoteError`, `ProofError` where it did not.
    """
    old, new = older.checkpoint, proof.checkpoint.checkpoint
    if (old.origin, old.size) != (new.origin, proof.old_size):
        raise ProofError(f"expected the older checkpoint of size {proof.old_size}, found another")
    signer = known.signer(older)
    verify_consistency(old.size, new.size, proof.path, old.root, new.root)
    if signer is None:
        answer.lack(f"grew out of size {old.size:,}, whose checkpoint no key at hand signed")
        return
    answer.note = f"grew out of size {old.size:,}, signed by {shown(signer.key)}"


def _compare(
    answer: Answer, stream: str, stated: StreamHead | None, here: StreamHead | None
) -> None:
    """Hold what is stated of a stream against the records that are here, each proved to be in that log."""
    if here is None or (stated is not None and here.version < stated.version):
        expected = f"v{0 if stated is None else stated.version} as its last"
        found = "nothing" if here is None else f"v{here.version}"
        answer.fault(stream, expected, found, TRUNCATED)
    elif stated is None or here.version > stated.version:
        told = "no record" if stated is None else f"v{stated.version} as its last"
        answer.fault(
            stream, f"{told}, as the log's key states", f"v{here.version} in its log", FORKED
        )
    elif here.digest != stated.digest:
        answer.fault(stream, f"v{stated.version} {stated.digest}", here.digest, FORKED)


def _task_of(stream: str) -> str | None:
    try:
        return parse_stream(stream).task
    except ValueError:
        return None
