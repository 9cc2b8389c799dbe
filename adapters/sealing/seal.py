"""Sealing: a log key signs the root over all records there are, and never two histories.

Under the right to write the tree, in this order:

1. The signer's key is enrolled as the log's and not retired, read anew from the store. It is asked again once
   the records are read, since a retirement among them ends what the key may sign; and no other key signs.
2. The memory beside the key (memory.py) says what was signed last. The tree is grown from there, out of
   the records alone; what the store keeps of the tree beyond it is not relied on.
3. Each new record is checked: form, place, and signature by a key enrolled for its type (record_check.py).
   None that does not hold is signed over.
4. The tree begins with the tree that was signed last, and with that of the store's newest checkpoint, and no
   witness has seen more; else the store was rolled back or another history put in its place, and nothing is
   signed. What a witness has seen of this size or below, it holds against the new checkpoint itself. That the
   root to be signed extends them is proved once more, over its own hashes: the store may change while it is
   read.
5. Signed, remembered on disk, stored; then the witnesses are asked. A crash between two of these steps is
   healed by the next seal: what is remembered and not stored is stored.

So each checkpoint signed extends the one signed before, whatever is done to the store: the memory's root
fixes the tree up to its size, and what is added is what was read and checked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from ...domain.checkpoint import Checkpoint, SignedCheckpoint
from ...domain.errors import BadData, Busy, CausebookError, Denied
from ...domain.keyring import raw_key
from ...domain.note import NoteError, NoteKey, NoteSignature, sign_note, signer_among
from ...projections.tree import root
from ..keys import KeyNotHere, Signer
from ..signatures import verify
from ..store.port import TREE, CheckpointRow, Store
from ..writer import Writer
from .anchors import Anchor, fewer, leads, objection, require_extended, rolled_back
from .cosigned import takes
from .cosigning import Seen, Witness, collect, require_keys, seen_by
from .memory import SealMemory
from .record_check import require_sound
from .tree_writing import PAGE_RECORDS, Growth, fits

_POLL_SECONDS: Final = 0.05
_VERIFY_HINT: Final = "causebook verify says what is wrong with the ledger"


class NoLogKey(Denied):
    """No log key that may seal the ledger is at hand."""


@dataclass(frozen=True)
class Sealed:
    """What sealing came to. `checkpoint`: as the log key signed it, without cosignatures.

    `new`: how many records it takes in that were not sealed before, 0 where there was nothing to sign.
    `cosignatures`: those collected now; which are kept, cosigned.py says. `failures`: of witnesses that did
    not cosign, by their URL.
    """

    checkpoint: SignedCheckpoint
    new: int
    cosignatures: tuple[NoteSignature, ...] = ()
    failures: tuple[tuple[str, CausebookError], ...] = ()

    @property
    def size(self) -> int:
        """How many records are sealed."""
        return self.checkpoint.checkpoint.size


@dataclass(frozen=True)
class Sealer:
    """Seals one ledger with one log key. `page_records`: how many are read, and written, at a time."""

    writer: Writer
    memory: SealMemory
    page_records: int = PAGE_RECORDS

    @property
    def store(self) -> Store:
        """The store that is sealed."""
        return self.writer.store

    def seal(
        self,
        *,
        witnesses: Sequence[Witness] = (),
        adopt: bool = False,
        wait_seconds: float = 0.0,
    ) -> Sealed:
        """Seal all records there are; where there is nothing new, answer the newest checkpoint.

        `adopt`: where there is no memory, take up the store's newest checkpoint as it: an older copy of the
        store goes unnoticed then. `wait_seconds`: for another sealer. Raises `SealRefused`, `LogForked`,
        `BadData` naming a record that does not hold, `NoLogKey`, `Denied`, `Busy`, what a witness raises that
        cannot be asked, and what the store raises.
        """
        # A passphrase may be asked for: before the turn is taken, since others want to seal.
        self._open_key()
        require_keys(witnesses, self.writer.keyring.witness_keys())
        with _turn(self.store, wait_seconds):
            # This one signs, or none does: the key that is newest may change while records are read.
            signer = self._open_key()
            known, growth = self._ready(adopt=adopt)
            seen = [self._seen(witness, known, growth) for witness in witnesses]
            sealed = self._signed(signer, known, growth, seen)
        return self._cosigned(sealed, growth, seen)

    def check(self, *, wait_seconds: float = 0.0) -> None:
        """Raise what `seal` would because of what was sealed before, and of records; sign nothing."""
        self._open_key()
        with _turn(self.store, wait_seconds):
            self._open_key()
            self._ready(adopt=False)

    # ── what was signed before, and the records since ────────────────────────────────────────────────

    def _ready(self, *, adopt: bool) -> tuple[SignedCheckpoint | None, Growth]:
        """The newest checkpoint there is, and the tree over all records, which extends it."""
        known, stored = self.memory.read(), self.store.checkpoint()
        if known is not None:
            self._require_signature(known, self.memory.unfit("expected it signed by a log key"))
        newest = None if stored is None else self._parsed(stored)
        if known is None and newest is not None and not adopt:
            raise Denied(
                f"{self.memory.path}: expected what was sealed last, and it is not here;"
                f" the store has a checkpoint of {newest.checkpoint.size} records",
                hint="put it back with the keys; seal --adopt takes up the store as it is, even rolled back",
            )
        anchors = [(each, "as it was sealed") for each in (known, newest) if each is not None]
        growth = self._grown(known, anchors)
        if newest is not None and (known is None or _size(newest) > _size(known)):
            # Sealed elsewhere with a copy of the key; or taken up. Nobody else's word is remembered as ours.
            self._require_trusted(newest)
            self.memory.write(newest)
            known = newest
        elif known is not None and (newest is None or _size(newest) < _size(known)):
            # A seal was cut short between its memory and its store.
            growth.write((_size(known), known.note.raw))
        return known, growth

    def _open_key(self) -> Signer:
        """The log's signer, by the keys that the store has now.

        Raises `NoLogKey` where it is elsewhere, or may not seal; `Denied` where its file cannot be used.
        """
        self.writer.load()
        try:
            signer = self.writer.signer("log")
        except KeyNotHere as error:
            raise NoLogKey(error.message, hint=error.hint) from None
        self._require_right(signer)
        return signer

    def _require_right(self, signer: Signer) -> None:
        key = self.writer.keyring.keys.get(signer.keyid)
        fault = None
        if key is None or key.role != "log":
            fault = "no enrolment names it as a log key"
        elif key.retired is not None:
            fault = "it is retired"
        if fault is not None:
            raise NoLogKey(
                f"key {signer.keyid[:8]}… may not seal {self.memory.origin}: {fault}",
                hint="--keys DIR names the folder; causebook keys list shows who may sign what",
            )

    def _require_signature(self, signed: SignedCheckpoint, otherwise: BadData) -> None:
        # A retired key's too: it binds the log to what it signed, whoever goes on from there.
        keys = [
            NoteKey(self.memory.origin, key.public)
            for key in self.writer.keyring.keys.values()
            if key.role == "log"
        ]
        try:
            if signer_among(signed.note, keys, verify) is not None:
                return
        except NoteError:
            pass
        raise otherwise

    def _require_trusted(self, signed: SignedCheckpoint) -> None:
        """Raise `BadData` unless a log key whose trust reaches that far signed it."""
        try:
            keys = self.writer.keyring.log_keys(_size(signed))
            if signer_among(signed.note, keys, verify) is not None:
                return
        except NoteError:
            pass
        raise BadData(
            f"checkpoint of size {_size(signed)} in the store: expected it signed by a log key that is"
            " trusted that far, found one that had ended",
            hint=_VERIFY_HINT,
        )

    def _parsed(self, row: CheckpointRow) -> SignedCheckpoint:
        place = f"checkpoint of size {row.size} in the store"
        try:
            signed = SignedCheckpoint.parse(row.note)
        except NoteError as error:
            raise BadData(f"{place}: {error.message}", hint=_VERIFY_HINT) from None
        said = signed.checkpoint
        if (said.origin, said.size) != (self.memory.origin, row.size):
            raise BadData(
                f"{place}: expected this origin and size, found others", hint=_VERIFY_HINT
            )
        self._require_signature(
            signed, BadData(f"{place}: expected it signed by a log key", hint=_VERIFY_HINT)
        )
        return signed

    def _grown(self, known: SignedCheckpoint | None, anchors: Sequence[Anchor]) -> Growth:
        """The tree over all records. Raises `SealRefused` where it does not begin with each of `anchors`."""
        growth = self._begun(known)
        if growth is not None:
            self._grow(growth, known)
            if not any(objection(growth, anchor) for anchor in anchors):
                return growth
        # Whatever is stored of the tree: the records decide, and are asked before anything is dropped.
        records = self.store.count()
        for anchor in anchors:
            if records < _size(anchor[0]):
                raise fewer(anchor, records)
        growth = Growth.anew(self.store, page_records=self.page_records)
        self._grow(growth, known)
        for anchor in anchors:
            found = objection(growth, anchor)
            if found is not None:
                raise found
        return growth

    def _begun(self, known: SignedCheckpoint | None) -> Growth | None:
        """The stored tree up to what was signed last, or as far as it reaches; None where it does not fit."""
        store = self.store
        position, size = store.position(TREE), store.tree_size()
        if position is None or not fits(store, position, size):
            return None
        if known is None:
            return Growth.after(store, position, 0, page_records=self.page_records)
        if size >= _size(known) and not leads(store, known.checkpoint):
            return None
        begun = min(size, _size(known))
        return Growth.after(store, position, begun, page_records=self.page_records)

    def _grow(self, growth: Growth, known: SignedCheckpoint | None) -> None:
        # Below, the root that was signed vouches for each byte.
        first = 0 if known is None else _size(known)
        for page in growth.pages():
            require_sound(self.writer, [row for _, row in page[max(0, first - growth.size) :]])
            growth.add(page)

    # ── signing ──────────────────────────────────────────────────────────────────────────────────────

    def _signed(
        self, signer: Signer, known: SignedCheckpoint | None, growth: Growth, seen: Sequence[Seen]
    ) -> Sealed:
        size = growth.size
        if known is not None and _size(known) == size:
            growth.write()
            return Sealed(known, 0)
        self.writer.load()
        self._require_right(signer)
        checkpoint = Checkpoint(self.memory.origin, size, root(growth.tile, size))
        for each in (known, *(witness.shown for witness in seen)):
            if each is not None:
                require_extended(each.checkpoint, checkpoint, growth)
        key = NoteKey(self.memory.origin, raw_key(signer.public_key))
        signed = SignedCheckpoint(checkpoint, sign_note(checkpoint.text, key, signer.sign))
        self.memory.write(signed)
        growth.write((size, signed.note.raw))
        return Sealed(signed, size - (0 if known is None else _size(known)))

    def _seen(self, witness: Witness, known: SignedCheckpoint | None, growth: Growth) -> Seen:
        """How far a witness has seen the log. Raises `SealRefused` where it has seen more, or another."""
        origin, whose = self.memory.origin, f"as witness {witness.url} has it"
        seen = seen_by(witness, origin, known)
        if seen.size > growth.size:
            raise rolled_back(origin, seen.size, whose, growth.size)
        if seen.shown is not None:
            stranger = (
                f"witness {witness.url}: shows a checkpoint that no log key of {origin} signed"
            )
            self._require_signature(
                seen.shown, BadData(stranger, hint="leave it out to seal without it")
            )
            found = objection(growth, (seen.shown, whose))
            if found is not None:
                raise found
        return seen

    def _cosigned(self, sealed: Sealed, growth: Growth, seen: Sequence[Seen]) -> Sealed:
        cosignatures: list[NoteSignature] = []
        failures: list[tuple[str, CausebookError]] = []
        for each in seen:
            try:
                given = collect(
                    each, sealed.checkpoint, growth.tile, self.writer.keyring.witness_keys()
                )
            except CausebookError as error:
                failures.append((each.witness.url, error))
                continue
            for line in given:
                row = self.store.checkpoint(sealed.size)
                if row is not None and takes(row, line):
                    self.store.add_to_checkpoint(sealed.size, "cosignature", line.line.encode())
            cosignatures += given
        return replace(sealed, cosignatures=tuple(cosignatures), failures=tuple(failures))


def _size(signed: SignedCheckpoint) -> int:
    return signed.checkpoint.size


@contextmanager
def _turn(store: Store, wait_seconds: float) -> Iterator[None]:
    """Hold the right to write the tree. Raises `Busy` where another still has it after `wait_seconds`."""
    deadline = time.monotonic() + wait_seconds
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(store.projector(TREE))
                break
            except Busy:
                if time.monotonic() >= deadline:
                    raise Busy(
                        "another process seals this ledger", hint="try again once it is done"
                    ) from None
            time.sleep(_POLL_SECONDS)
        yield
