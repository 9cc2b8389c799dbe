"""Whose signature counts: keys that were given, and the ledgers whose stream `ledger` is at hand.

A key is *given* where the checker named it (`--log-key`, the logs of `--policy`); a ledger is *anchored*
where it was held against a trust file, or where a given key signed the checkpoint that it is in. All else
came with the files: it is used, and what rests on it alone is self-asserted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.events import Event
from ...domain.keyring import EnrolledKey, signer_of
from ...domain.note import NoteError, NoteKey, signer_among
from ...domain.policy import Policy, Quorum
from ...domain.record import Record, digest
from ...domain.trust import Trust
from ..findings import FORKED, TAMPERED, TRUNCATED, UNVERIFIABLE, counted
from ..reading import Unreadable, read
from ..signatures import verify
from ..store.port import Row
from .ledgers import KnownLedger
from .report import Answer, FileReport

NO_POLICY: Final = "no policy given: --policy FILE"


@dataclass(frozen=True)
class Signed:
    """Who signed a checkpoint. `anchored`: the key, or the ledger that enrolled it, did not come with it."""

    key: NoteKey
    anchored: bool
    given: bool


@dataclass
class Known:
    """All that signatures are held against."""

    log_keys: tuple[NoteKey, ...] = ()
    trust: Trust | None = None
    policy: Policy | None = None
    ledgers: list[KnownLedger] = field(default_factory=list)
    _believed: list[tuple[Answer, SignedCheckpoint, KnownLedger | None]] = field(
        default_factory=list
    )

    def given_keys(self, origin: str) -> tuple[NoteKey, ...]:
        """The log keys that were given for an origin."""
        named = () if self.policy is None else self.policy.logs_of(origin)
        return tuple(dict.fromkeys(k for k in (*self.log_keys, *named) if k.name == origin))

    def of(self, origin: str) -> Iterator[KnownLedger]:
        """The ledgers of that name, those that are anchored first, and of them that which knows the most."""
        known = [each for each in self.ledgers if each.stream.origin == origin]
        return iter(sorted(known, key=lambda each: (not each.anchored, -each.size)))

    def ask_ledger(
        self, report: FileReport, ledger: KnownLedger, checkpoint: SignedCheckpoint
    ) -> Signed | None:
        """Whose ledger it is, and who sealed it: the questions `founding` and `checkpoint` of a report."""
        self.ledgers.append(ledger)
        try:
            signed = self.signer(checkpoint, ledger)
        except NoteError:
            signed = None
        self.ask_trust(report, ledger, signed)
        signed = self.ask_checkpoint(report, checkpoint, ledger)
        report.anchored = ledger.anchored
        return signed

    def signer(self, signed: SignedCheckpoint, own: KnownLedger | None = None) -> Signed | None:
        """The log key that signed a checkpoint, a given one first; None where none is at hand that did.

        A key counts as far as trust in it reaches, whoever gave it: see `ended`. `own`: the ledger that the
        checkpoint came with. Raises `NoteError` where a signature by one of them does not hold.
        """
        said = signed.checkpoint
        keys = self.log_keys_of(said.origin, said.size, own)
        found = signer_among(signed.note, [each.key for each in keys], verify)
        return next((each for each in keys if each.key == found), None)

    def may_count(self, signed: SignedCheckpoint) -> bool:
        """Whether its signature can come to count by what it seals; asked before that is read."""
        if self.trust is not None or not self.given_keys(signed.checkpoint.origin):
            return True  # the key that signed it may be enrolled there
        try:
            return self.signer(signed) is not None
        except NoteError:
            return False

    def log_keys_of(self, origin: str, size: int, own: KnownLedger | None = None) -> list[Signed]:
        """Every log key at hand whose signature on a checkpoint of that size counts, those given first."""
        found = [Signed(key, True, True) for key in self.given_keys(origin)]
        for ledger in self.of(origin):
            keys = ledger.stream.keyring.log_keys(size)
            found += [Signed(key, ledger.anchored, False) for key in keys]
        return [each for each in found if self.ended(each.key, size, own) is None]

    def ended(self, key: NoteKey, size: int, own: KnownLedger | None = None) -> EnrolledKey | None:
        """What is known of a log key whose trust ends before a checkpoint of that size.

        It takes an anchored ledger to say so, or the one that the checkpoint itself came with: a stranger's
        would end whose key it likes.
        """
        for ledger in self.of(key.name):
            enrolled = ledger.log_key(key) if ledger.anchored or ledger is own else None
            if enrolled is not None and not enrolled.reaches(size):
                return enrolled
        return None

    def ended_signer(self, record: Record, index: int, name: str) -> EnrolledKey | None:
        """The key that signed a record past the end of trust in it, as an anchored ledger says that came in
        a file other than `name`.
        """
        for ledger in self.of(record.ledger):
            key = ledger.stream.keyring.keys.get(record.keyid)
            size = None if key is None else key.trusted_size
            if ledger.anchored and ledger.name != name and size is not None and index >= size:
                return key
        return None

    def are_one_hand(self, one: NoteKey, other: NoteKey) -> bool:
        """Whether two log keys answer for one log: one key, two that were given, or two of one ledger."""
        if one.name != other.name:
            return False
        groups = [{key.public for key in self.given_keys(one.name)}]
        for ledger in self.of(one.name):
            keys = ledger.stream.keyring.keys.values()
            groups.append({key.public for key in keys if key.role == "log"})
        return one == other or any({one.public, other.public} <= group for group in groups)

    def ask_checkpoint(
        self, report: FileReport, signed: SignedCheckpoint, own: KnownLedger | None = None
    ) -> Signed | None:
        """Whether a log key at hand signed the checkpoint: the question `checkpoint` of a report.

        `own`: the ledger that it came with.
        """
        answer = report.ask("checkpoint")
        said = signed.checkpoint
        try:
            found = self.signer(signed, own)
        except NoteError as error:
            answer.fault(f"size {said.size}", "signatures that hold", error.message)
            return None
        given = self.given_keys(said.origin)
        if found is not None and (found.anchored or not given):
            report.anchored = found.anchored
            whence = "given" if found.given else "enrolled in a ledger that is anchored"
            if not found.anchored:
                whence = "self-asserted: it came with the files"
            answer.note = f"size {said.size:,}, signed by {shown(found.key)}, {whence}"
            self._believed.append((answer, signed, own))
            return found
        if found is None and self._is_past_trust(answer, signed, own):
            return None
        names = ", ".join(f"{each.name}+{each.keyid.hex()}" for each in signed.note.signatures[:3])
        if given:
            expected = " or ".join(map(shown, given))
            answer.fault(f"size {said.size}", f"signed by {expected}", names, UNVERIFIABLE)
        else:
            answer.lack(
                f"size {said.size:,}, signed by {names}: no such key at hand: --log-key VKEY"
            )
        return None

    def ask_again(self) -> None:
        """Take back what was believed of a checkpoint before the ledger was read that ends its key."""
        for answer, signed, own in self._believed:
            try:
                found = self.signer(signed, own)
            except NoteError:
                continue  # nothing that was asked before
            if found is None:
                self._is_past_trust(answer, signed, own)

    def _is_past_trust(
        self, answer: Answer, signed: SignedCheckpoint, own: KnownLedger | None
    ) -> bool:
        """Whether a key signed it that had ended, which is then noted."""
        said = signed.checkpoint
        keys = [*self.given_keys(said.origin)]
        for ledger in self.of(said.origin):
            enrolled = ledger.stream.keyring.keys.values()
            keys += [NoteKey(said.origin, key.public) for key in enrolled if key.role == "log"]
        for key in keys:
            end = self.ended(key, said.size, own)
            if end is not None and signed.note.by(key):
                found = f"{shown(key)}, retired as of size {end.trusted_size}"
                place = f"size {said.size}"
                answer.fault(place, f"a log key trusted to size {said.size}", found, UNVERIFIABLE)
                return True
        return False

    def ask_witnesses(self, report: FileReport, signed: SignedCheckpoint) -> Quorum | None:
        """Whether enough witnesses cosigned: the question `witnesses` of a report."""
        answer = report.ask("witnesses")
        if self.policy is None:
            answer.skip(NO_POLICY)
            return None
        try:
            quorum = self.policy.evaluate(signed.note, verify)
        except NoteError as error:
            answer.fault(f"size {signed.checkpoint.size}", "cosignatures that hold", error.message)
            return None
        names = ", ".join(each.witness.name for each in quorum.cosigned) or "none"
        if not quorum.holds:
            expected = f"the quorum {self.policy.quorum}"
            answer.fault("the policy", expected, f"cosigned by {names}", UNVERIFIABLE)
            return quorum
        answer.note = f"the quorum {self.policy.quorum} holds: cosigned by {names}"
        if quorum.has_disjoint_quorums:
            answer.note += "; two disjoint quorums exist: no split view is ruled out"
        else:
            answer.note += (
                f"; survives {counted(quorum.survives, 'colluding witness', 'colluding witnesses')}"
            )
        return quorum

    def ask_trust(self, report: FileReport, ledger: KnownLedger, signed: Signed | None) -> None:
        """Whether the founding is the right one: the question `founding` of a report. Anchors the ledger."""
        answer = report.ask("founding")
        given = self.given_keys(ledger.stream.origin)
        enrolled = {k.public for k in ledger.stream.keyring.keys.values() if k.role == "log"}
        # One of them is enough: a key that came by a rotation is not in what was handed out before it.
        if given and not any(key.public in enrolled for key in given):
            expected = f"a ledger that enrolled log key {' or '.join(map(shown, given))}, given"
            answer.fault(ledger.stream.origin, expected, "one that did not", FORKED)
        held = []
        if self.trust is not None and (upto := self._same(answer, self.trust, ledger)):
            held.append(f"the trust file, {upto}")
        if signed is not None and signed.given:
            held.append(f"log key {shown(signed.key)}, which was given")
        if answer.status == "PASS" and held:
            ledger.anchored = True
            answer.note = f"the one that was given: {'; '.join(held)}"
        else:
            answer.skip("self-asserted: neither --trust FILE nor --log-key VKEY vouches for it")
        report.said.append(f"founding {ledger.stream.founding}")

    def _same(self, answer: Answer, trust: Trust, ledger: KnownLedger) -> str:
        """How far a ledger is the one of the trust file, in words; nothing where it is not."""
        found, place, version = ledger.stream, "the trust file", trust.ledger_version
        for what, known, told in (
            ("ledger", trust.origin, found.origin),
            ("founding", trust.founding, found.founding),
            ("root key", trust.root_key, found.root_key),
        ):
            if known != told:
                answer.fault(place, f"{what} {known}", told, FORKED)
                return ""
        if version > len(ledger.digests):
            if ledger.size <= trust.ledger_index:  # sealed before that record was written
                return (
                    f"which is newer: it knows ledger v{version}, index {trust.ledger_index}; whether a "
                    "key ended since is not told here"
                )
            expected = f"the stream ledger up to v{version}, as it had then"
            answer.fault(place, expected, f"v{len(ledger.digests)} as its last", TRUNCATED)
            return ""
        known, told = (
            (f"{trust.ledger_digest}, index {trust.ledger_index}"),
            (f"{ledger.digests[version - 1]}, index {ledger.indices[version - 1]}"),
        )
        if known != told:
            answer.fault(place, f"ledger v{version} {known}", told, FORKED)
            return ""
        return f"up to ledger v{version}"

    def ask_record(
        self, report: FileReport, raw: bytes, index: int | None, *, alone: bool
    ) -> tuple[Record, Event] | None:
        """Whether the record holds: the questions `record` and `signature` of a report.

        `index`: where it is proved to stand. `alone`: nothing else vouches for it, so that a key which is
        not at hand leaves it unverifiable.
        """
        answer = report.ask("record")
        try:
            record, event = read(Row("", 0, "", raw))
        except Unreadable as error:
            answer.fault("the record", "a record in its one spelling", str(error))
            return None
        answer.note = f"{record.stream} v{record.version} {record.type} {digest(raw)[:8]}…"
        self._ask_signature(report, record, index, alone=alone)
        return record, event

    def _ask_signature(
        self, report: FileReport, record: Record, index: int | None, *, alone: bool
    ) -> None:
        answer = report.ask("signature")
        place = f"{record.stream} v{record.version}"
        enrolling = [
            (ledger, key)
            for ledger in self.of(record.ledger)
            if (key := ledger.stream.keyring.keys.get(record.keyid)) is not None
        ]
        for ledger, key in enrolling:
            # An older file of the same ledger may not know of the key's end yet.
            if ledger.anchored or ledger is enrolling[0][0]:
                fault = _fault(key, record, index)
                if fault is not None:
                    answer.fault(place, *fault)
                    return
        if enrolling:
            ledger, key = enrolling[0]
            answer.note = f"by {key.role} key {record.keyid[:8]}…, which {ledger.name} enrols"
            if alone:
                report.anchored = ledger.anchored
            return
        note = f"by key {record.keyid[:8]}…, whose enrolment is not at hand: give a bundle with it"
        if alone:
            answer.lack(note)
        else:
            answer.skip(note)


def _fault(key: EnrolledKey, record: Record, index: int | None) -> tuple[str, str, int] | None:
    """(expected, found, code) where a key cannot have signed this record, or did not."""
    if key.role != signer_of(record.type):
        return f"signed by a key for {signer_of(record.type)}", f"one for {key.role}", TAMPERED
    if not verify(key.public, record.signature, record.signed_bytes()):
        return "a signature that holds", "one that does not", TAMPERED
    if key.trusted_size is not None and (index is None or index >= key.trusted_size):
        where = "somewhere" if index is None else f"at index {index}"
        found = f"a key retired as of size {key.trusted_size}"
        return f"a key still trusted {where}", found, UNVERIFIABLE
    return None


def shown(key: NoteKey) -> str:
    """A key as a report names it: name and key id."""
    return f"{key.name}+{key.keyid.hex()}"
