"""A ledger whose stream `ledger` came with the files at hand, and the checkpoints that its records carry.

A record of that stream can bring a checkpoint along: `KeyRetired` says how far trust in a key reaches, and
`LedgerFounded` what the ledger goes on from. Whoever signed the record vouches for them, so they are held
against every other checkpoint at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from ...domain.checkpoint import SignedCheckpoint
from ...domain.events import KeyRetired
from ...domain.keyring import EnrolledKey, keyid_of, spki_of
from ...domain.note import NoteKey
from ...domain.record import digest
from ...domain.streams import LEDGER
from ..ledger_stream import LedgerStream, chained, fold_ledger, read_ledger
from ..store.port import Row
from .report import Answer


@dataclass(frozen=True)
class Retirement:
    """A `KeyRetired`: its place, its index in the log, and the checkpoint in it."""

    place: str
    index: int
    signed: SignedCheckpoint


@dataclass
class KnownLedger:
    """A ledger whose stream `ledger`, as of the checkpoint of `size` records, came in the file `name`.

    `digests` and `indices` (where in the log) are of its records, by version.
    """

    name: str
    size: int
    stream: LedgerStream
    digests: tuple[str, ...]
    indices: tuple[int, ...]
    retirements: tuple[Retirement, ...]
    anchored: bool = False

    @classmethod
    def of(cls, name: str, size: int, rows: Sequence[tuple[int, Row]]) -> Self:
        """The ledger of these rows, each with its index; those of other streams are passed over.

        Raises what `read_ledger` raises.
        """
        own = sorted(
            ((index, row) for index, row in rows if row.stream == LEDGER),
            key=lambda each: each[1].version,
        )
        if not own:
            return cls(name, size, read_ledger(()), (), (), ())
        entries = chained(LEDGER, [row for _, row in own])
        stream = fold_ledger(entries)
        retirements = tuple(
            Retirement(
                f"{LEDGER} v{record.version}",
                index,
                SignedCheckpoint.parse(event.checkpoint.encode()),
            )
            for (index, _), (record, event) in zip(own, entries, strict=True)
            if isinstance(event, KeyRetired)
        )
        digests = tuple(digest(row.record) for _, row in own)
        return cls(name, size, stream, digests, tuple(index for index, _ in own), retirements)

    @property
    def root_key(self) -> str:
        """The key that founded it, base64."""
        return self.stream.root_key

    @property
    def checkpoints(self) -> list[SignedCheckpoint]:
        """Those that its own records carry."""
        before = self.stream.keyring.continues
        return [
            *(each.signed for each in self.retirements),
            *([] if before is None else [before]),
        ]

    def log_key(self, key: NoteKey) -> EnrolledKey | None:
        """What it knows of a log key."""
        enrolled = self.stream.keyring.keys.get(keyid_of(spki_of(key.public)))
        return enrolled if enrolled is not None and enrolled.role == "log" else None

    def ask_retirements(self, answer: Answer, roots: Mapping[int, bytes]) -> None:
        """Whether each `KeyRetired` names a checkpoint of this log, of no more records than came before it.

        `roots`: those of the log that are known, by size; at another size nothing is said of a root.
        """
        for each in self.retirements:
            said = each.signed.checkpoint
            root = roots.get(said.size)
            if said.size > each.index:
                expected = f"a checkpoint of at most the {each.index} records before it"
                answer.fault(each.place, expected, f"size {said.size}")
            elif root is not None and root != said.root:
                expected = f"root {said.root.hex()} at size {said.size}"
                answer.fault(each.place, expected, f"root {root.hex()}")
