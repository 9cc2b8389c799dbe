"""The check `tree`: what the log's key sealed, against the rows as they are.

1. Each checkpoint in the store is one of this ledger, of the size it is stored under.
2. It is signed by a log key that the ledger enrolled, in that key's span: enrolled among the records that it
   counts, and not ended among them. Past the size to which a retired key is trusted nobody can tell whose it
   is: then it seals nothing, and is no fault either.
3. It counts no more records than there are (truncated), and its root is that of the rows (tampered).
4. The checkpoint that a `KeyRetired` names is of no more records than came before it, and its root is theirs.

Of several that fail in one way the first is named: what follows it fails with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...domain.checkpoint import SignedCheckpoint
from ...domain.events import KeyRetired
from ...domain.keyring import EnrolledKey
from ...domain.note import NoteError, NoteKey, Verify, is_signed_by
from ..findings import TAMPERED, TRUNCATED, Check, counted
from ..reading import Unreadable, read
from ..store.port import CheckpointRow, Row
from .records import Walk
from .tree import LogTree


@dataclass(frozen=True)
class Sealed:
    """A stored checkpoint that holds. `key`: the log key that signed it."""

    row: CheckpointRow
    signed: SignedCheckpoint
    key: NoteKey

    @property
    def size(self) -> int:
        """How many records it counts."""
        return self.row.size


@dataclass
class SealedCheck:
    """The check `tree`. `held`: after `run`, the checkpoints that hold, by size.

    Signatures are verified at every look, from a pin as well: a checkpoint's bytes are in no tree.
    """

    check: Check
    walk: Walk
    tree: LogTree
    verify: Verify
    held: list[Sealed] = field(default_factory=list)
    _failed: dict[str, int] = field(default_factory=dict)
    _past_trust: int = 0
    _ordinals: dict[int, int] = field(default_factory=dict)

    def run(self, rows: Sequence[CheckpointRow]) -> list[Sealed]:
        """Check every stored checkpoint and every retirement, and answer."""
        self.tree.finish()
        versions = (row.version for row in self.walk.met)
        self._ordinals = dict(zip(versions, self.walk.ordinals, strict=True))
        keys = [key for key in self.walk.keyring.keys.values() if key.role == "log"]
        named = [(NoteKey(self.walk.origin, key.public), key) for key in keys]
        for row in rows:
            self._one(row, named)
        for place, ordinal, event in self.walk.retirements:
            self._retirement(place, ordinal, event)
        self._answer(len(rows))
        return self.held

    def _one(self, row: CheckpointRow, keys: Sequence[tuple[NoteKey, EnrolledKey]]) -> None:
        place = f"checkpoint {row.size}"
        try:
            signed = SignedCheckpoint.parse(row.note)
            key = self._signer(signed, keys)
        except NoteError as error:
            self._find("form", place, "a checkpoint that its log key signed", error.message)
            return
        said = signed.checkpoint
        if (said.origin, said.size) != (self.walk.origin, row.size):
            expected = f"one of {self.walk.origin} of size {row.size}"
            self._find("form", place, expected, f"{said.origin}, size {said.size}")
        elif key is None:
            self._find("key", place, "signed by a log key that the ledger enrolled", "none such")
        elif (fault := self._out_of_span(key[1], said.size)) is not None:
            self._find("span", place, "signed by a log key in its span", fault)
        elif said.size > self.tree.size:
            found = f"{self.tree.size}"
            self._find("size", place, f"{said.size} records or more", found, TRUNCATED)
        elif (root := self.tree.roots[said.size]) != said.root:
            self._find("root", place, f"root {said.root.hex()}", f"root {root.hex()}")
        elif not key[1].reaches(said.size):
            self._past_trust += 1
        else:
            self.held.append(Sealed(row, signed, key[0]))

    def _signer(
        self, signed: SignedCheckpoint, keys: Sequence[tuple[NoteKey, EnrolledKey]]
    ) -> tuple[NoteKey, EnrolledKey] | None:
        """The log key that signed it; of several, one whose word counts at that size."""
        size = signed.checkpoint.size
        signers = [pair for pair in keys if is_signed_by(signed.note, pair[0], self.verify)]
        counts = [
            pair
            for pair in signers
            if pair[1].reaches(size) and self._out_of_span(pair[1], size) is None
        ]
        return next(iter([*counts, *signers]), None)

    def _out_of_span(self, key: EnrolledKey, size: int) -> str | None:
        if size <= self._ordinal(key.enrolled):
            return "a key that was enrolled later"
        if key.retired is not None and size > self._ordinal(key.retired):
            return "a key that had ended"
        return None

    def _ordinal(self, version: int) -> int:
        """Where in the log the record of that version of the stream `ledger` stands."""
        return self._ordinals.get(version, self.tree.size)

    def _retirement(self, place: str, ordinal: int, event: KeyRetired) -> None:
        try:
            said = SignedCheckpoint.parse(event.checkpoint.encode()).checkpoint
        except (NoteError, ValueError):
            return  # the check of the roles says so
        if said.size > ordinal:
            expected = f"a checkpoint of at most the {ordinal} records before it"
            self.check.find(place, expected, f"size {said.size}")
        elif (root := self.tree.roots.get(said.size)) != said.root:
            found = "none" if root is None else f"root {root.hex()}"
            self.check.find(place, f"root {said.root.hex()} at size {said.size}", found)

    def _find(self, kind: str, place: str, expected: str, found: str, code: int = TAMPERED) -> None:
        self._failed[kind] = self._failed.get(kind, 0) + 1
        if self._failed[kind] == 1:
            self.check.find(place, expected, found, code)

    def _answer(self, stored: int) -> None:
        check, number = self.check, self.tree.size
        more = sum(self._failed.values()) - len(self._failed)
        if more:
            check.note = f"and {counted(more, 'checkpoint')} more after it"
            check.more += more
        if not self.held:
            if not self._failed:
                check.skip("nothing is sealed: causebook seal")
            if self._past_trust:
                check.note = f"{counted(stored, 'checkpoint')} by a key that is not trusted so far"
            return
        newest = self.held[-1].size
        said = [f"sealed to {newest:,}"]
        if number > newest:
            said.append(f"{counted(number - newest, 'record lies', 'records lie')} past it")
        if self.tree.tree_size < newest and check.status == "PASS":
            said.append(f"{self._reach()}: causebook rebuild")
        if self._past_trust:
            said.append(f"{self._past_trust:,} by a key that is not trusted so far")
        check.note = ", ".join([*said, check.note] if check.note else said)

    def _reach(self) -> str:
        """How far the stored tiles reach."""
        if self.tree.foreign is not None:
            return f"its tiles are not checked, made by version {self.tree.foreign}"
        return f"its tiles reach to {self.tree.tree_size:,}" if self.tree.tree_size else "no tiles"


def retired_sizes(rows: Iterable[Row]) -> list[int]:
    """The sizes that the retirements in a stream `ledger` name: their roots are asked for."""
    sizes = []
    for row in rows:
        try:
            _, event = read(row)
        except Unreadable:
            continue
        if isinstance(event, KeyRetired):
            sizes.append(event.size)
    return sizes
