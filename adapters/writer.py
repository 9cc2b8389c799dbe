"""From events to stored records: number, chain, sign, append. Only here is a ledger written to.

A `Batch` is what goes into one transaction: records of any number of streams, and the evidence that they
commit to. Each record is built when it is added, so a later one can name the digest of an earlier one.
Nothing is stored before `commit`, and after it all of it is, durably.

Whoever appends to a stream says which record it builds on (`Batch.after`): the last one it read, and decided
by. Where another was appended meanwhile the store refuses the batch, so nothing is ever decided by a past
that is not the stream's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple

from ..domain.errors import BadData, Busy, Denied, Misuse, VersionConflict
from ..domain.events import EvaluationOpened, Event, KeyRetired, Role, TaskOpened, event_from
from ..domain.evidence import SALT_BYTES, commit
from ..domain.keyring import EnrolledKey, Keyring, signer_of
from ..domain.limits import EVIDENCE_BYTES_MAX
from ..domain.record import Record, parse, write, written_time
from ..domain.streams import LEDGER
from .evidence import packed
from .kept_checkpoints import require_kept_end
from .keys import Signer
from .ledger_stream import NOTHING, Tip, chained, read_ledger, unreadable
from .reading import misfit
from .signatures import verify
from .store.port import EvidenceRow, LedgerMoved, Row, Store

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


class Written(NamedTuple):
    """One record, as it went in."""

    stream: str
    version: int
    event: Event
    digest: str

    @property
    def tip(self) -> Tip:
        """Where its stream ends now."""
        return self.version, self.digest


@dataclass
class Satchel:
    """Evidence gathered for one batch: `commit` is a `Committer` (domain/evidence.py)."""

    task: str
    rows: list[EvidenceRow] = field(default_factory=list)

    def commit(self, body: bytes) -> str:
        """Keep `body` under a fresh salt; its commitment. Raises `Misuse` past what a reader unpacks."""
        if len(body) > EVIDENCE_BYTES_MAX:
            raise Misuse(
                f"evidence: expected at most {EVIDENCE_BYTES_MAX} bytes, found {len(body)}",
                hint="a spec, a brief or an answer of this size is no use to a judge: cut it",
            )
        salt = os.urandom(SALT_BYTES)
        commitment = commit(salt, body)
        self.rows.append(EvidenceRow(commitment, salt, self.task, packed(body)))
        return commitment


@dataclass
class Writer:
    """Appends to one ledger. Thread-safe so long as each stream has one writing thread.

    `signer_for` gives the signer of a role when it is first needed, so that nothing asks for a passphrase
    that is not used. It is told which keys the ledger has for that role, the newest first.
    """

    store: Store
    signer_for: Callable[[Role, Sequence[EnrolledKey]], Signer]
    clock: Clock = utc_now
    origin: str = ""
    keyring: Keyring = field(default_factory=lambda: Keyring(""))
    founding: str = ""
    _ledger_tip: Tip = NOTHING
    _signers: dict[Role, Signer] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def load(self) -> None:
        """Read the `ledger` stream: origin, founding, keys. Raises `NoInput` where it is empty."""
        read = read_ledger(self.store.stream(LEDGER))
        self.origin, self.founding, self.keyring = read.origin, read.founding, read.keyring
        self._ledger_tip = read.tip
        with self._guard:
            # A key that was retired is not used again: another of its role may have taken its place.
            kept = {
                role: {key.keyid for key in self.keyring.active(role)} for role in self._signers
            }
            self._signers = {r: s for r, s in self._signers.items() if s.keyid in kept[r]}

    def read(self, stream: str, *, anchor: str | None = None) -> list[tuple[Record, Event]]:
        """The records of a task or an evaluation, each verified: a writer builds on nothing less.

        Form, place, chain, what the first hangs on (the founding, or `anchor`), and the signature by a key
        enrolled for that role. Raises `BadData` naming the first record that does not hold.
        """
        entries = chained(stream, self.store.stream(stream))
        hangs_on = self.founding if anchor is None else anchor
        if entries and entries[0][0].previous != hangs_on:
            raise unreadable(f"{stream} v1", f"expected it to hang on {hangs_on[:8]}…")
        for record, _ in entries:
            place = f"{stream} v{record.version}"
            key = self.keyring.keys.get(record.keyid)
            if record.ledger != self.origin:
                raise unreadable(place, f"not of {self.origin}")
            # A key retired since still vouches for what it signed before; verify knows where it ended.
            if key is None or key.role != signer_of(record.type):
                raise unreadable(place, f"expected a key enrolled as {signer_of(record.type)}")
            if not verify(key.public, record.signature, record.signed_bytes()):
                raise unreadable(place, "the signature does not hold")
        return entries

    def signer(self, role: Role) -> Signer:
        """The signer of a role, loaded once: the newest of the enrolled keys that is at hand."""
        with self._guard:
            if role not in self._signers:
                self._signers[role] = self.signer_for(role, self.keyring.active(role))
            return self._signers[role]

    @property
    def ledger_tip(self) -> Tip:
        """Where the stream `ledger` ended when it was last read."""
        return self._ledger_tip

    def require_lawful(self, event: Event) -> None:
        """Raise what `Batch.commit` would of an event of the stream `ledger`, by the keyring as it is now."""
        _require_lawful(self.store, self.keyring, [event])

    def batch(self) -> Batch:
        """An empty transaction. What it adds to the stream `ledger` builds on what `load` read."""
        return Batch(self, _tips={LEDGER: self._ledger_tip})


@dataclass
class Batch:
    """What goes into one transaction."""

    writer: Writer
    rows: list[Row] = field(default_factory=list)
    evidence: list[EvidenceRow] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    _tips: dict[str, Tip] = field(default_factory=dict)
    _keyids: set[tuple[str, str]] = field(default_factory=set)

    def after(self, stream: str, tip: Tip) -> None:
        """Say which record of `stream` the next one follows; for a stream that is new, none."""
        self._tips[stream] = tip

    def add(self, stream: str, event: Event, *, anchor: str | None = None) -> Written:
        """Build, chain and sign the next record of `stream`. `anchor`: where a new stream hangs."""
        self.extend(stream, [event], anchor=anchor)
        return self.written[-1]

    def extend(self, stream: str, events: Sequence[Event], *, anchor: str | None = None) -> None:
        """Build, chain and sign the next records of `stream`, in order, all of one moment."""
        writer = self.writer
        version, previous = self._tips.get(stream, NOTHING)
        if version == 0:
            previous = self._anchor(events[0], anchor)
        at, ledger, role = written_time(writer.clock()), writer.origin, None
        rows, written = list[Row](), list[Written]()
        for event in events:
            version += 1
            kind = event.kind()
            if signer_of(kind) != role:
                role = signer_of(kind)
                signer = writer.signer(role)
                keyid, sign = signer.keyid, signer.sign
                # What a key may sign, its role says: one kind stands for all.
                self._keyids.add((keyid, kind))
            raw, previous = write(
                kind,
                event.fields(),
                at=at,
                ledger=ledger,
                previous=previous,
                stream=stream,
                version=version,
                keyid=keyid,
                sign=sign,
            )
            rows.append(Row(stream, version, kind, raw))
            written.append(Written(stream, version, event, previous))
        # All or none, so that the next record follows what is there.
        self.rows += rows
        self.written += written
        self._tips[stream] = version, previous

    def admit(self, raw: bytes) -> Written:
        """Put a record next on its stream that was signed elsewhere.

        Raises `VersionConflict` where the stream moved on since it was written, `Denied` where its key may
        not sign it, `BadData` where it is no record of this ledger or its signature does not hold.
        """
        writer, record = self.writer, parse(raw)
        place = f"{record.stream} v{record.version}"
        try:
            event = event_from(record.type, record.data)
        except ValueError as error:
            raise BadData(f"{place}: {misfit(error)}") from None
        if record.ledger != writer.origin:
            raise BadData(
                f"{place}: expected a record of {writer.origin}, found one of {record.ledger}",
                hint="--ledger names the ledger",
            )
        tip = self._tips.get(record.stream, NOTHING)
        if (record.version - 1, record.previous) != tip:
            raise VersionConflict(
                f"{place}: expected it to follow v{tip[0]} {tip[1][:8]}…, found it signed to follow "
                f"v{record.version - 1} {record.previous[:8]}…",
                hint="the ledger moved on since the request was written: write it again",
            )
        self._require_right(writer.keyring, record.keyid, record.type)
        key = writer.keyring.keys[record.keyid]
        if not verify(key.public, record.signature, record.signed_bytes()):
            raise BadData(
                f"{place}: expected the signature of {key.role} {key.keyid[:8]}… to hold, found that it "
                "does not",
                hint="what was signed was changed since, or written for another ledger",
            )
        written = Written(record.stream, record.version, event, record.digest)
        self.rows.append(Row(record.stream, record.version, record.type, raw))
        self.written.append(written)
        self._tips[record.stream] = written.tip
        self._keyids.add((record.keyid, record.type))
        return written

    def _anchor(self, event: Event, anchor: str | None) -> str:
        if isinstance(event, TaskOpened):
            return self.writer.founding
        if isinstance(event, EvaluationOpened) and anchor is not None:
            return anchor
        raise ValueError(f"{event.kind()} does not begin a stream")

    def commit(self) -> list[Written]:
        """Store all of it. Raises what the store raises; `VersionConflict` where another was first.

        What it adds to the stream `ledger` is held to the rules of the keyring first: a record that breaks
        one would leave a ledger that nobody can write to (`Misuse`). A key ends at a checkpoint that the
        store keeps (`NoInput`, `BadData`).
        """
        writer = self.writer
        of_ledger = [each for each in self.written if each.stream == LEDGER]
        for _ in range(100):
            # Read once: another thread may load a newer one, and what was checked is what is relied on.
            keyring = writer.keyring
            for keyid, kind in self._keyids:
                self._require_right(keyring, keyid, kind)
            if of_ledger:
                _require_lawful(writer.store, keyring, [each.event for each in of_ledger])
            try:
                writer.store.append(self.rows, self.evidence, ledger_version=keyring.version)
            except LedgerMoved:
                # Somebody enrolled or retired a key: what it says decides whether ours still counts.
                writer.load()
                if of_ledger:
                    raise VersionConflict(
                        "the ledger's keys changed meanwhile", hint="run the command again"
                    ) from None
            else:
                if of_ledger:
                    writer.load()
                return self.written
        raise Busy("the ledger's keys keep changing", hint="try again")

    def _require_right(self, keyring: Keyring, keyid: str, kind: str) -> None:
        fault = keyring.may_sign(keyid, kind)
        if fault is not None:
            raise Denied(
                f"key {keyid[:8]}… may not sign {kind} in {self.writer.origin}: {fault}",
                hint="--keys DIR names the folder; causebook keys list shows who may sign what",
            )


def _require_lawful(store: Store, keyring: Keyring, events: Sequence[Event]) -> None:
    trial = replace(keyring, keys=dict(keyring.keys))
    for event in events:
        fault = trial.admit(event, trial.version + 1, verify)
        if fault is not None:
            raise Misuse(
                f"{event.kind()}: {fault}",
                hint="nothing was stored; causebook keys list shows the keys",
            )
        if isinstance(event, KeyRetired):
            require_kept_end(store, trial, event)
