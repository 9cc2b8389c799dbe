"""Records, signatures, roles and chains: the pass of `verify` over the rows, in the order of commit.

A row is parsed and hashed once; what it says is handed on to the law and to the evidence. Memory: the head of
each stream, the digest of each panel convened, and the signatures that wait for a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from ...domain.errors import RecordError
from ...domain.events import (
    STREAMS,
    Event,
    EvidenceErased,
    KeyEnrolled,
    KeyRetired,
    LedgerFounded,
    PanelConvened,
    event_from,
)
from ...domain.keyring import Keyring, keyid_of, raw_key, signer_of, spki_of
from ...domain.note import Verify
from ...domain.record import NO_PREVIOUS, Record, digest, parse
from ...domain.streams import LEDGER, StreamName, parse_stream
from ..findings import TAMPERED, UNVERIFIABLE, Check, CheckName, counted
from ..reading import Unreadable, misfit, read
from ..signature_checks import SignatureChecks
from ..store.port import Row
from .evidence import EvidenceIndex
from .law import Law


@dataclass(frozen=True)
class _Enrolment:
    """What the whole `ledger` stream says of a key. `trusted_size`: from that record on it is not trusted."""

    public: bytes
    trusted_size: int | None = None


def _enrolments(rows: Iterable[Row]) -> tuple[str, dict[str, _Enrolment]]:
    """The origin, and every key that any record of the `ledger` stream enrols.

    Whether those records hold is asked when the pass comes to them. Here they only tell a key that is
    enrolled later, which is a fault of its role, from one that nobody enrolled. An end that is not of root's
    hand is none: else whoever can write a record could have all of the past called unverifiable.
    """
    origin, keys, root = "", dict[str, _Enrolment](), ""
    for row in rows:
        try:
            record, event = read(row)
            origin = origin or record.ledger
            if isinstance(event, LedgerFounded):
                _enrol(keys, event.root_key)
                root = root or next(iter(keys))
            elif isinstance(event, KeyEnrolled):
                _enrol(keys, event.public_key)
        except (Unreadable, ValueError):
            continue
        if isinstance(event, KeyRetired) and record.keyid == root != event.keyid in keys:
            keys[event.keyid] = _Enrolment(keys[event.keyid].public, event.size)
    return origin, keys


def _enrol(keys: dict[str, _Enrolment], public_key: str) -> None:
    public = raw_key(public_key)
    keys.setdefault(keyid_of(spki_of(public)), _Enrolment(public))


ROWS_AT_ONCE: Final = 64
"""Rows read ahead of being folded in: at most 4 MB of records, and what they say."""


def _parsed(raw: bytes) -> Record | RecordError:
    try:
        return parse(raw)
    except RecordError as error:
        return error


def _validated(record: Record | RecordError) -> Event | ValueError:
    if isinstance(record, RecordError):
        return ValueError("no record")
    try:
        return event_from(record.type, record.data)
    except ValueError as error:
        return error


_FIRST: Final = (0, NO_PREVIOUS)


@dataclass
class Walk:
    """The pass. `number`: rows taken in; `heads`: stream to (version, digest).

    `expected`: the rows of the stream `ledger`, known beforehand. `met`: those the pass came by; what it says
    holds where the two are the same. `ordinals`: where in the log each of them stands, from 0. `retirements`:
    place, ordinal and event of each `KeyRetired`.

    Rows that were `known` already, at an earlier look that checked them, are folded in for what later ones
    build on: their signatures, roles and evidence are not asked for again. `kept_tasks` are those whose
    streams are then taken in from their beginning; None where all are.

    `enrolments_whole`: the stream `ledger` is all there, so that a key which it does not name is nobody's.
    """

    expected: Sequence[Row]
    checks: dict[CheckName, Check]
    signatures: SignatureChecks
    verify_signature: Verify
    number: int = 0
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    met: list[Row] = field(default_factory=list)
    ordinals: list[int] = field(default_factory=list)
    retirements: list[tuple[str, int, KeyRetired]] = field(default_factory=list)
    founding: str = ""
    kept_tasks: Set[str] | None = None
    enrolments_whole: bool = True

    def __post_init__(self) -> None:
        self.origin, self._keys = _enrolments(self.expected)
        self.keyring = Keyring(self.origin)
        self.law = Law(self.checks["law"], self.heads, self.damaged)
        self.evidence = EvidenceIndex(self.checks["evidence"])
        self._names: dict[str, StreamName | None] = {}
        self._panels: dict[tuple[str | None, int | None, str | None], str] = {}
        self._rights: dict[tuple[str, str], str | None] = {}
        self._signed: dict[tuple[str, str], int] = {}
        self._known = False
        self._ordinal = 0

    def take(
        self, rows: Sequence[Row], *, ordinals: Sequence[int] | None = None, known: bool = False
    ) -> None:
        """Check the next rows, `ROWS_AT_ONCE` at most, and fold what they say in.

        `ordinals`: where each stands in the log, where rows were left out; else they follow one another.
        """
        # Step by step, not row by row: the code of each step then stays in the processor's cache, which saves
        # a fifth of all but the signatures. Both steps are pure; what is found is noted in the order of rows.
        records = [_parsed(row.record) for row in rows]
        events = [_validated(record) for record in records]
        self._known = known
        if ordinals is None:
            ordinals = range(self.number, self.number + len(rows))
        for number, row, record, event in zip(ordinals, rows, records, events, strict=True):
            self._ordinal = number
            self._take(number, row, record, event)
        self.number += len(rows)

    def _take(
        self, number: int, row: Row, record: Record | RecordError, event: Event | ValueError
    ) -> None:
        if row.stream == LEDGER:
            self.met.append(row)
            self.ordinals.append(number)
        if isinstance(record, RecordError):
            self._spoil(row, "a record", record.message)
            if number == 0:
                self._not_founded("a record that cannot be read")
            self.heads[row.stream] = (row.version, digest(row.record))
            return
        if not self._known:
            self._signature(number, row, record)
        if row.stream != record.stream or row.version != record.version:
            self._spoil(row, "the record of its place", f"{record.stream} v{record.version}")
            self.heads[row.stream] = (row.version, record.digest)
            return
        stream = record.stream
        name = self._names.get(stream)
        if name is None:
            name = self._name(row)
            if name is None:
                return
        if row.type != record.type:
            place = f"{stream} v{record.version}"
            self.checks["records"].find(place, f"topic {record.type}", f"topic {row.type}")
        if number == 0 and (stream != LEDGER or record.type != "LedgerFounded"):
            self._not_founded(f"{stream} v{record.version} {record.type}")
        if record.ledger != self.origin:
            self._spoil(row, f"a record of {self.origin}", f"of {record.ledger}")
        self._link(stream, name, record)
        if self._is_event(event, row, name, record):
            self._fold(stream, name, record, event)
        self.heads[stream] = (record.version, record.digest)

    def _fold(self, stream: str, name: StreamName, record: Record, event: Event) -> None:
        if name.kind == "ledger":
            self._ledger_event(record, event)
        elif stream in self.damaged:
            pass
        elif name.kind == "task":
            self.law.task_event(
                stream, name.task or "", record.version, event, record.digest, record.previous
            )
        else:
            self.law.evaluation_event(stream, name, record.version, event, record.digest)
        if type(event) is PanelConvened:
            self._panels[name.task, event.attempt, event.phase] = record.digest
        if not self._known:
            self.evidence.take(stream, record.version, event)

    def _ledger_event(self, record: Record, event: Event) -> None:
        place = f"{LEDGER} v{record.version}"
        if isinstance(event, EvidenceErased) and (
            self.kept_tasks is None or event.task in self.kept_tasks
        ):
            self.evidence.erase(event, place, self.heads)
        if isinstance(event, LedgerFounded) and record.version == 1:
            self.founding = record.digest
            self._admit(record, event)
            self._role(record)
        elif self._role(record):  # of anybody else's hand it changes nothing
            self._admit(record, event)
            if isinstance(event, KeyRetired):
                self.retirements.append((place, self._ordinal, event))

    def _admit(self, record: Record, event: Event) -> None:
        fault = self.keyring.admit(event, record.version, self.verify_signature)
        self._rights.clear()
        if fault is not None:
            place = f"{LEDGER} v{record.version}"
            self.checks["roles"].find(place, "an enrolment or end that holds", fault)

    def _name(self, row: Row) -> StreamName | None:
        try:
            name = parse_stream(row.stream)
        except ValueError as error:
            self._spoil(row, "the name of a stream", str(error))
            return None
        self._names[row.stream] = name
        return name

    def _is_event(
        self, event: Event | ValueError, row: Row, name: StreamName, record: Record
    ) -> TypeGuard[Event]:
        if record.type not in STREAMS[name.kind]:
            self._spoil(row, f"a type that stands in a stream of kind {name.kind}", record.type)
            return False
        if isinstance(event, ValueError):
            self._spoil(row, f"data that fits {record.type}", misfit(event))
            return False
        if name.kind != "ledger":
            self._role(record)
        return True

    def _signature(self, number: int, row: Row, record: Record) -> None:
        key = self._keys.get(record.keyid)
        if key is None:
            place = f"{row.stream} v{row.version}"
            self.checks["signatures"].find(
                place,
                "a key that the ledger enrolled",
                f"key id {record.keyid}",
                self._unknown_key_code,
            )
            return
        place_of = (number, row.stream, row.version)
        self.signatures.add(place_of, key.public, record.signature, record.line)

    @property
    def _unknown_key_code(self) -> int:
        return TAMPERED if self.enrolments_whole else UNVERIFIABLE

    def _role(self, record: Record) -> bool:
        """Whether the signer may sign this; what is past the trust in its key is found, and not forbidden."""
        if self._known:
            return True
        number = self._ordinal
        pair = (record.keyid, record.type)
        self._signed[pair] = self._signed.get(pair, 0) + 1
        if pair not in self._rights:
            self._rights[pair] = self.keyring.may_sign(*pair)
        fault = self._rights[pair]
        key = self._keys.get(record.keyid)
        if fault is not None:
            if key is not None and record.keyid not in self.keyring.keys:
                fault = "a key that root had not enrolled by then"
            expected = f"signed by a key for {signer_of(record.type)}"
            code = TAMPERED if key is not None else self._unknown_key_code
            self.checks["roles"].find(f"{record.stream} v{record.version}", expected, fault, code)
        elif key is not None and key.trusted_size is not None and number >= key.trusted_size:
            expected = f"a key still trusted at record {number}"
            found = f"retired as of size {key.trusted_size}"
            place = f"{record.stream} v{record.version}"
            self.checks["roles"].find(place, expected, found, UNVERIFIABLE)
        return fault is None

    def _link(self, stream: str, name: StreamName, record: Record) -> None:
        version, last = self.heads.get(stream, _FIRST)
        if record.version != version + 1:
            place = f"{stream} v{version + 1}"
            after = f"v{version}" if version else "nothing"
            self.checks["chains"].find(place, "a record", f"v{record.version} after {after}")
            self.damaged.add(stream)
            return
        if version == 0 and name.kind != "ledger":
            last = self._anchor(name) or ""
        if record.previous != last:
            place = f"{stream} v{record.version}"
            expected = f"previous {last}" if last else "what it hangs on, earlier: none is"
            self.checks["chains"].find(place, expected, f"previous {record.previous}")

    def _anchor(self, name: StreamName) -> str | None:
        if name.kind == "task":
            return self.founding
        return self._panels.get((name.task, name.attempt, name.phase))

    def _spoil(self, row: Row, expected: str, found: str) -> None:
        self.checks["records"].find(f"{row.stream} v{row.version}", expected, found)
        self.damaged.add(row.stream)

    def _not_founded(self, found: str) -> None:
        self.checks["records"].find("the first record", f"{LEDGER} v1 LedgerFounded", found)

    def finish(self) -> None:
        """Wait for the signatures, and answer the checks of the pass."""
        check = self.checks["signatures"]
        for _, stream, version in self.signatures.finish():
            check.find(f"{stream} v{version}", "a signature that holds", "one that does not")
        if check.status == "PASS":
            check.note = f"by {counted(len({keyid for keyid, _ in self._signed}), 'key')}"
        self.law.finish()
        self._roles_note()

    def _roles_note(self) -> None:
        by_role: dict[str, int] = {}
        for (_, kind), number in self._signed.items():
            by_role[signer_of(kind)] = by_role.get(signer_of(kind), 0) + number
        check = self.checks["roles"]
        if check.status == "PASS":
            said = ", ".join(f"{role} {by_role[role]:,}" for role in sorted(by_role))
            check.note = f"{said}, each in its span" if said else ""
        if self.keyring.custody == "together":
            check.note += "; the keys of these roles were made together: self-asserted"
        check.note = check.note.removeprefix("; ")
