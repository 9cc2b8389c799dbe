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
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from ..domain.errors import BadData, Busy, Denied, Misuse, NoInput, VersionConflict
from ..domain.events import STREAMS, EvaluationOpened, Event, LedgerFounded, TaskOpened, event_from
from ..domain.evidence import SALT_BYTES, commit
from ..domain.keyring import Keyring, signer_of
from ..domain.limits import EVIDENCE_BYTES_MAX
from ..domain.record import NO_PREVIOUS, Record, assemble, digest, line_1, pae, parse
from ..domain.streams import LEDGER, parse_stream
from .keys import Signer
from .signatures import verify
from .store.port import EvidenceRow, LedgerMoved, Row, Store

COMPRESSION_LEVEL = 1
"""Evidence is compressed for its size on disk, on the path of every turn: fast beats small."""
WINDOW_BITS, MEMORY_LEVEL = 13, 6
"""Of the compressor: its defaults clear a quarter of a megabyte an item, which costs more than packing it."""

Clock = Callable[[], datetime]

Tip = tuple[int, str]
"""(version, digest) of the last record of a stream."""

NOTHING: Final[Tip] = (0, "")
"""The tip of a stream that has no record."""


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
        packer = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL)
        packed = packer.compress(body) + packer.flush()
        self.rows.append(EvidenceRow(commitment, salt, self.task, packed))
        return commitment


def _chained(store: Store, stream: str) -> list[tuple[Record, Event]]:
    """The records of one stream, parsed, in their places, with each link of its chain checked."""
    kinds = STREAMS[parse_stream(stream).kind]
    entries: list[tuple[Record, Event]] = []
    previous: str | None = None
    for version, row in enumerate(store.stream(stream), 1):
        place = f"{stream} v{row.version}"
        try:
            record = parse(row.record)
            event = event_from(record.type, record.data)
        except ValueError as error:
            raise _unreadable(place, f"not a record: {error}") from None
        except BadData as error:
            raise _unreadable(place, error.message) from None
        if (record.stream, record.version, row.version) != (stream, version, version):
            raise _unreadable(place, f"expected version {version} of this stream")
        if previous is not None and record.previous != previous:
            raise _unreadable(place, f"previous: expected {previous}, found {record.previous}")
        if record.type not in kinds:
            raise _unreadable(place, f"{record.type} has no place in this stream")
        entries.append((record, event))
        previous = record.digest
    return entries


def _unreadable(place: str, why: str) -> BadData:
    return BadData(f"{place}: {why}", hint="causebook verify says what is wrong with the ledger")


@dataclass
class Writer:
    """Appends to one ledger. Thread-safe so long as each stream has one writing thread.

    `signers` gives the signer of a role when it is first needed, so that nothing asks for a passphrase that
    is not used.
    """

    store: Store
    signer_for: Callable[[str], Signer]
    clock: Clock = utc_now
    origin: str = ""
    keyring: Keyring = field(default_factory=lambda: Keyring(""))
    founding: str = ""
    _ledger_tip: Tip = NOTHING
    _signers: dict[str, Signer] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def load(self) -> None:
        """Read the `ledger` stream: origin, founding, keys. Raises `NoInput` where it is empty."""
        entries = _chained(self.store, LEDGER)
        if not entries:
            raise NoInput(
                "the ledger holds no founding record",
                hint="causebook init founds a ledger; an init that was cut short can be run again",
            )
        founded = entries[0][0]
        keyring = Keyring(founded.ledger)
        for record, event in entries:
            if record.ledger != founded.ledger:
                raise _unreadable(f"{LEDGER} v{record.version}", f"not of {founded.ledger}")
            founding = isinstance(event, LedgerFounded)
            # The root key is known from the founding itself; every other signer from before.
            fault = None if founding else keyring.may_sign(record.keyid, record.type)
            fault = fault or keyring.admit(event, record.version, verify)
            key = keyring.keys.get(record.keyid)
            if fault is None and (
                key is None or not verify(key.public, record.signature, record.signed_bytes())
            ):
                fault = "the signature does not hold"
            if fault is not None:
                raise _unreadable(f"{LEDGER} v{record.version}", fault)
        last = entries[-1][0]
        self.origin, self.founding, self.keyring = founded.ledger, founded.digest, keyring
        self._ledger_tip = (last.version, last.digest)

    def read(self, stream: str, *, anchor: str | None = None) -> list[tuple[Record, Event]]:
        """The records of a task or an evaluation, each verified: a writer builds on nothing less.

        Form, place, chain, what the first hangs on (the founding, or `anchor`), and the signature by a key
        enrolled for that role. Raises `BadData` naming the first record that does not hold.
        """
        entries = _chained(self.store, stream)
        hangs_on = self.founding if anchor is None else anchor
        if entries and entries[0][0].previous != hangs_on:
            raise _unreadable(f"{stream} v1", f"expected it to hang on {hangs_on[:8]}…")
        for record, _ in entries:
            place = f"{stream} v{record.version}"
            key = self.keyring.keys.get(record.keyid)
            if record.ledger != self.origin:
                raise _unreadable(place, f"not of {self.origin}")
            # A key retired since still vouches for what it signed before; verify knows where it ended.
            if key is None or key.role != signer_of(record.type):
                raise _unreadable(place, f"expected a key enrolled as {signer_of(record.type)}")
            if not verify(key.public, record.signature, record.signed_bytes()):
                raise _unreadable(place, "the signature does not hold")
        return entries

    def signer(self, role: str) -> Signer:
        """The signer of a role, loaded once."""
        with self._guard:
            if role not in self._signers:
                self._signers[role] = self.signer_for(role)
            return self._signers[role]

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
        writer = self.writer
        version, previous = self._tips.get(stream, NOTHING)
        if version == 0:
            previous = self._anchor(event, anchor)
        kind = event.kind()
        signer = writer.signer(signer_of(kind))
        line = line_1(
            at=writer.clock(),
            data=event.data(),
            ledger=writer.origin,
            previous=previous,
            stream=stream,
            type=kind,
            version=version + 1,
        )
        raw = assemble(line, signer.keyid, signer.sign(pae(line)))
        written = Written(stream, version + 1, event, digest(raw))
        self.rows.append(Row(stream, version + 1, kind, raw))
        self.written.append(written)
        self._tips[stream] = written.tip
        self._keyids.add((signer.keyid, kind))
        return written

    def _anchor(self, event: Event, anchor: str | None) -> str:
        if isinstance(event, LedgerFounded):
            return NO_PREVIOUS
        if isinstance(event, TaskOpened):
            return self.writer.founding
        if isinstance(event, EvaluationOpened) and anchor is not None:
            return anchor
        raise ValueError(f"{event.kind()} does not begin a stream")

    def commit(self) -> list[Written]:
        """Store all of it. Raises what the store raises; `VersionConflict` where another was first."""
        writer = self.writer
        for _ in range(100):
            # Read once: another thread may load a newer one, and what was checked is what is relied on.
            keyring = writer.keyring
            self._check_keys(keyring)
            try:
                writer.store.append(self.rows, self.evidence, ledger_version=keyring.version)
            except LedgerMoved:
                # Somebody enrolled or retired a key: what it says decides whether ours still counts.
                writer.load()
                if any(row.stream == LEDGER for row in self.rows):
                    raise VersionConflict(
                        "the ledger's keys changed meanwhile", hint="run the command again"
                    ) from None
            else:
                return self.written
        raise Busy("the ledger's keys keep changing", hint="try again")

    def _check_keys(self, keyring: Keyring) -> None:
        if not keyring.keys:
            return  # the founding itself: its keys are in this batch
        for keyid, kind in self._keyids:
            fault = keyring.may_sign(keyid, kind)
            if fault is not None:
                raise Denied(
                    f"key {keyid[:8]}… may not sign {kind} in {self.writer.origin}: {fault}",
                    hint="--keys DIR names the folder; causebook keys list shows who may sign what",
                )
