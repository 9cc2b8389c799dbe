"""What goes into a bundle, and how it is written.

    VERIFY.md                  how to check it with other tools (by_hand.py)
    checkpoint                 the checkpoint, the cosignatures kept beside it included
    consistency                that it grew out of the older checkpoint given     with older-checkpoint
    evidence/<commitment>.salt, evidence/<commitment>.bytes                       with the evidence
    heads.json                 the statement of heads (domain/heads.py)           where the log key is at hand
    keys/<key id>.pem          every key that the stream `ledger` names, SubjectPublicKeyInfo
    keys/<key id>.vkey         those for `log` and `witness` as the keys of notes, one line
    older-checkpoint
    records/<index>.record     each record of the task and of `ledger` below the checkpoint, its very bytes
    records/<index>.tlog-proof that it is in the log of that checkpoint
    manifest.json              what all of this is (manifest.py)

The same ledger, checkpoint and options give the same bytes: no time is written, signatures of Ed25519 follow
from what is signed, and nothing is compressed (archive.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from ...domain.checkpoint import SignedCheckpoint
from ...domain.encoding import base64_bytes
from ...domain.errors import BadData, CannotCreate, NoInput
from ...domain.heads import Heads, StreamHead
from ...domain.keyring import EnrolledKey, keyid_of, spki_of
from ...domain.note import COSIGNATURE, NoteKey
from ...domain.proof import ConsistencyProof, InclusionProof
from ...domain.record import digest
from ...domain.streams import LEDGER
from ..findings import MEANINGS
from ..handover.sealed_log import SealedLog, log_signer, sealed_log
from ..keys import Signer
from ..reading import Source, evidence_fault, unpacked
from ..store.port import Row
from ..task_check import TaskRows, check_task, task_rows
from .archive import MANIFEST, order, write_archive
from .by_hand import ByHand
from .manifest import RECORDS_BYTES_MAX, FileFacts, Manifest

FindKey = Callable[[str], Signer | None]
"""The signer with this key id, where it is at hand."""


def no_key(keyid: str) -> None:
    """The answer of somebody who has no key."""


@dataclass(frozen=True)
class Written:
    """What was put into a bundle. `later`: records of the task past the checkpoint, which are left out."""

    ledger: str
    task: str
    size: int
    records: int
    evidence: int
    files: int
    later: int
    heads: NoteKey | None
    since: int | None


@dataclass(frozen=True)
class SealedTask:
    """A task of a ledger, and its stream `ledger`, as of one checkpoint. `rows`: those below it, checked."""

    task: str
    log: SealedLog
    rows: TaskRows
    later: int

    @property
    def numbered(self) -> Sequence[tuple[int, Row]]:
        """(index in the log, row), in order."""
        return self.rows.numbered

    @property
    def heads(self) -> Heads:
        """What each stream came to below the checkpoint."""
        said = self.log.checkpoint.checkpoint
        heads = {
            row.stream: StreamHead(row.version, digest(row.record)) for _, row in self.numbered
        }
        ledger = self.log.ledger
        return Heads(ledger.origin, ledger.founding, said.size, said.root, self.task, heads)

    def proof(self, index: int, row: Row) -> InclusionProof:
        """That the row's record stands at `index` of the log. Raises `BadData` where it does not."""
        return self.log.proof(index, row)


def sealed_task(source: Source, task: str, size: int | None = None) -> SealedTask:
    """The task as of the checkpoint of that size, by default the newest.

    Its records are checked as `why` checks them. Raises `NoInput` where there is no such task below such a
    checkpoint, `BadData` where something does not hold.
    """
    every = task_rows(source, task)
    log = sealed_log(source, size)
    below = [each for each in every.numbered if each[0] < log.size]
    if all(row.stream == LEDGER for _, row in below):
        raise NoInput(
            f"task {task}: nothing of it is below the checkpoint of size {log.size}",
            hint="causebook seal makes one of all that is recorded",
        )
    rows = TaskRows(task, source.location, below, source)
    found = check_task(rows)
    if not found.records_hold:
        raise BadData(
            f"task {task}: its records do not hold: {MEANINGS[found.code]}",
            hint="causebook verify says all that is wrong",
        )
    for index, row in below:  # before anything is signed that rests on where they stand
        log.require(index, row)
    return SealedTask(task, log, rows, len(every.numbered) - len(below))


def write_bundle(
    source: Source,
    task: str,
    file: BinaryIO,
    *,
    size: int | None = None,
    since: SignedCheckpoint | None = None,
    evidence: bool = False,
    find_log_key: FindKey = no_key,
) -> Written:
    """Write the bundle of a task to `file`, from its beginning.

    `since`: an older checkpoint, to prove that the log grew out of it. `find_log_key`: asked for a log key of
    the ledger, which states the heads; where there is none, they are left out. Raises `CannotCreate`,
    `NoInput`, and `BadData` where something stored does not hold.
    """
    sealed = sealed_task(source, task, size)
    files = _Content(sealed)
    files.records()
    files.keys()
    if since is not None:
        files.consistency(since)
    if evidence:
        files.evidence()
    files.heads(find_log_key)
    files.page()
    file.seek(0)
    file.truncate()
    count = files.write(file, evidence=evidence)
    return Written(
        sealed.log.ledger.origin,
        task,
        sealed.log.size,
        len(sealed.numbered),
        sum(name.endswith(".salt") for name in files.made),
        count,
        sealed.later,
        files.stated_by,
        None if since is None else since.checkpoint.size,
    )


class _Content:
    """The files of a bundle, each made when it is written. `made`: by name."""

    def __init__(self, sealed: SealedTask) -> None:
        self.sealed = sealed
        self.made: dict[str, Callable[[], bytes]] = {}
        self.stated_by: NoteKey | None = None
        note = sealed.log.checkpoint.note.raw
        self.made["checkpoint"] = lambda: note

    def records(self) -> None:
        """Each record, and its proof."""
        if sum(len(row.record) for _, row in self.sealed.numbered) > RECORDS_BYTES_MAX:
            raise CannotCreate(
                f"bundle: expected at most {RECORDS_BYTES_MAX:,} bytes of records, found more",
                hint="hand the whole log over: causebook export --tiles DIR",
            )
        for index, row in self.sealed.numbered:
            self.made[f"records/{index}.record"] = _giving(row.record)
            self.made[f"records/{index}.tlog-proof"] = _proving(self.sealed, index, row)

    def keys(self) -> None:
        """Every key that the stream `ledger` names: for other tools, and for nobody to believe."""
        for key in self.sealed.log.ledger.keyring.keys.values():
            self.made[f"keys/{key.keyid}.pem"] = _giving(_pem(key))
            note_key = _note_key(key, self.sealed.log.ledger.origin)
            if note_key is not None:
                self.made[f"keys/{key.keyid}.vkey"] = _giving(f"{note_key.vkey}\n".encode())

    def consistency(self, since: SignedCheckpoint) -> None:
        """The older checkpoint, and the proof that the log grew out of it."""
        log, old = self.sealed.log, since.checkpoint
        log_signer(log.ledger, since)
        if old.size > log.size:
            raise NoInput(
                f"--since: expected a checkpoint up to size {log.size}, found one of {old.size}",
                hint="causebook seal makes a newer one",
            )
        if log.view.root(old.size) != old.root:
            raise BadData(
                f"--since: expected the root that this ledger has at size {old.size}, found another, "
                "signed by its log key",
                hint="the log was split, or restored: causebook verify --checkpoint FILE",
            )
        path = log.view.consistency(old.size)
        proof = ConsistencyProof(old.size, path, log.checkpoint)
        self.made["consistency"] = _giving(proof.raw)
        self.made["older-checkpoint"] = _giving(since.note.raw)

    def evidence(self) -> None:
        """Salt and bytes of each item that the records commit to, and that is there."""
        missing = check_task(self.sealed.rows)
        if not missing.holds:
            raise BadData(
                f"task {self.sealed.task}: evidence is missing, and no erasure below the checkpoint names it",
                hint="causebook seal, where it was erased since; causebook verify says what is missing",
            )
        for commitment, _ in self.sealed.rows.evidence_commitments():
            self.made[f"evidence/{commitment}.salt"] = _salt(self.sealed.rows, commitment)
            self.made[f"evidence/{commitment}.bytes"] = _body(self.sealed.rows, commitment)

    def heads(self, find: FindKey) -> None:
        """The statement of heads, where a log key of this ledger that is not retired is at hand.

        Nothing in the bundle would vouch for a key that was enrolled past its checkpoint.
        """
        ledger = self.sealed.log.ledger
        enrolled_by = self.sealed.heads.heads[LEDGER].version
        for key in ledger.keyring.active("log"):
            signer = find(key.keyid) if key.enrolled <= enrolled_by else None
            if signer is not None:
                envelope = self.sealed.heads.sealed(signer.keyid, signer.sign)
                self.stated_by = NoteKey(ledger.origin, key.public)
                self.made["heads.json"] = _giving(envelope.raw)
                return

    def page(self) -> None:
        """VERIFY.md."""
        log = self.sealed.log
        stated = self.stated_by or log.signer
        by_hand = ByHand(
            ledger=log.ledger.origin,
            founding=log.ledger.founding,
            task=self.sealed.task,
            size=log.size,
            log_key=log.signer,
            log_vkey=f"keys/{keyid_of(spki_of(log.signer.public))}.vkey",
            log_pem=f"keys/{keyid_of(spki_of(stated.public))}.pem",
            heads="heads.json" in self.made,
            evidence=any(name.endswith(".salt") for name in self.made),
            consistency="consistency" in self.made,
        )
        self.made["VERIFY.md"] = _giving(by_hand.page)

    def write(self, file: BinaryIO, *, evidence: bool) -> int:
        """Write them all, the manifest last; how many they are."""
        write_archive(file, self._in_order(evidence))
        return len(self.made) + 1

    def _in_order(self, evidence: bool) -> Iterator[tuple[str, bytes]]:
        facts: dict[str, FileFacts] = {}
        for name in sorted(self.made, key=order):
            content = self.made[name]()
            facts[name] = FileFacts.of(content)
            yield name, content
        log = self.sealed.log
        said = log.checkpoint.checkpoint
        manifest = Manifest(
            said.origin,
            log.ledger.founding,
            self.sealed.task,
            said.size,
            said.root,
            evidence,
            facts,
        )
        yield MANIFEST, manifest.raw


def _giving(content: bytes) -> Callable[[], bytes]:
    return lambda: content


def _proving(sealed: SealedTask, index: int, row: Row) -> Callable[[], bytes]:
    return lambda: sealed.proof(index, row).raw


def _salt(rows: TaskRows, commitment: str) -> Callable[[], bytes]:
    def salt() -> bytes:
        row = rows.evidence(commitment)
        return b"" if row is None else row.salt

    return salt


def _body(rows: TaskRows, commitment: str) -> Callable[[], bytes]:
    def body() -> bytes:
        row = rows.evidence(commitment)
        if row is None or evidence_fault(row) is not None:
            raise BadData(f"evidence {commitment}: expected the bytes committed to, found others")
        return unpacked(row)

    return body


def _pem(key: EnrolledKey) -> bytes:
    public = load_der_public_key(base64_bytes(key.public_key))
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _note_key(key: EnrolledKey, origin: str) -> NoteKey | None:
    if key.role == "log":
        return NoteKey(origin, key.public)
    return NoteKey(key.name, key.public, COSIGNATURE) if key.role == "witness" else None
