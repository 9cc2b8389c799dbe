"""The check `consistency`: a ledger against what its auditor knows from before.

    pin          what this user verified at an earlier look (adapters/verification/pins.py)
    checkpoint   one that the auditor kept, signed by a log key that the ledger enrolled
    trust        founding, root key and head of the stream `ledger`, as the auditor was given them

Fewer records than any of them counts are *truncated*; another root at its size, or another founding under
its name, is *forked*: under good signatures somebody told two histories. A ledger that lies where another was
seen before is forked as well. Nothing to hold it against: a first look, and NOT CHECKED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from time import time
from typing import Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.keyring import Keyring
from ...domain.note import NoteError, NoteKey, Verify, is_signed_by
from ...domain.policy import Policy
from ...domain.trust import Trust
from ..findings import FORKED, TRUNCATED, UNVERIFIABLE, Check, CheckName
from .pin import Pin
from .sealed import Sealed
from .tree import LogTree

Named = tuple[str, SignedCheckpoint]
"""Where a checkpoint came from, and the checkpoint."""

SignedBy = tuple[SignedCheckpoint, NoteKey]
"""A checkpoint, and the log key that signed it."""

TimeChecker = Callable[[bytes, bytes], datetime]
"""(RFC 3161 reply, the bytes it stamps) → when. Raises `BadData` where it does not hold."""


@dataclass(frozen=True)
class Heard:
    """What a witness said: the newest checkpoint of this log that it cosigned, or None; or the `fault`."""

    url: str
    newest: SignedCheckpoint | None = None
    fault: str = ""


@dataclass(frozen=True)
class Against:
    """What a ledger is held against, and what is asked of it.

    `pins`: all pins of this user; `why_no_pins`: why there are none to hold it against, where they were not
    read. `places`: where the ledger lies. `checkpoints`: those that the auditor kept. `heard`: what witnesses
    said that were asked. `check_time`: what checks a timestamp. `age_seconds_max`: how old the k-th newest
    cosignature may be. `required`: checks that have to pass. `now`: POSIX seconds.
    """

    pins: Sequence[Pin] = ()
    why_no_pins: str = ""
    places: Sequence[str] = ()
    checkpoints: Sequence[Named] = ()
    trust: Trust | None = None
    policy: Policy | None = None
    age_seconds_max: int | None = None
    heard: Sequence[Heard] = ()
    check_time: TimeChecker | None = None
    required: Set[CheckName] = frozenset()
    require_pin: bool = False
    from_pin: bool = False
    now: Callable[[], float] = time

    def pin_of(self, origin: str) -> Pin | None:
        """The pin of a ledger of that name."""
        return next((pin for pin in self.pins if pin.seen.origin == origin), None)

    def sizes(self, origin: str) -> list[int]:
        """The sizes at which roots are asked for."""
        found = [signed.checkpoint.size for _, signed in self.checkpoints]
        found += [each.newest.checkpoint.size for each in self.heard if each.newest is not None]
        pin = self.pin_of(origin)
        if pin is not None:
            found.append(pin.seen.size)
            if pin.seen.checkpoint is not None:
                found.append(pin.seen.checkpoint.checkpoint.size)
        return found


NOTHING: Final = Against()


@dataclass(frozen=True)
class Facts:
    """What the pass came to. `digests`, `ordinals` (where in the log): of the stream `ledger`, by version.

    `stored_sizes`: of every checkpoint that the store holds; `sealed`: those of them that hold.
    """

    origin: str
    founding: str
    keyring: Keyring
    digests: Mapping[int, str]
    ordinals: Mapping[int, int]
    tree: LogTree
    stored_sizes: Set[int]
    sealed: Sequence[Sealed]
    verify: Verify

    def stored_up_to(self, size: int) -> int:
        """How many checkpoints the store holds over `size` records or fewer."""
        return sum(1 for each in self.stored_sizes if each <= size)

    @property
    def root_key(self) -> str:
        """The key that founded it, as its record says."""
        keys = self.keyring.keys.values()
        return next((key.public_key for key in keys if key.role == "root"), "")

    @property
    def log_keys(self) -> list[NoteKey]:
        """Every log key that was ever enrolled."""
        keys = self.keyring.keys.values()
        return [NoteKey(self.origin, key.public) for key in keys if key.role == "log"]

    def signer(self, signed: SignedCheckpoint, others: Sequence[NoteKey] = ()) -> NoteKey | None:
        """The log key that signed a checkpoint, of those enrolled and of `others`. Raises `NoteError`."""
        keys = dict.fromkeys([*self.log_keys, *others])
        return next((key for key in keys if is_signed_by(signed.note, key, self.verify)), None)


@dataclass
class Consistency:
    """The check `consistency`. After `run`, `anchored`: the founding was known beforehand.

    `contradicted`: checkpoints of this origin whose signature holds, and whose root is not that of the rows;
    `agreed`: those whose root it is.
    """

    check: Check
    facts: Facts
    against: Against
    anchored: bool = False
    contradicted: list[SignedBy] = field(default_factory=list)
    agreed: list[SignedBy] = field(default_factory=list)
    _held: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Hold the ledger against everything there is, and answer."""
        against, check = self.against, self.check
        self._elsewhere()
        pin = against.pin_of(self.facts.origin)
        if pin is not None:
            self._pin(pin)
        elif against.require_pin:
            found = against.why_no_pins or "none: this is a first look"
            place = f"the pin of {self.facts.origin}"
            check.find(place, "one from an earlier look", found, UNVERIFIABLE)
        for name, signed in against.checkpoints:
            self._checkpoint(name, signed)
        if against.trust is not None:
            self._trust(against.trust)
        if self._held:
            check.note = f"holds {'; '.join(self._held)}"
        elif check.status == "PASS":
            why = against.why_no_pins or "a first look"
            check.skip(f"{why}: nothing to hold it against")

    def _elsewhere(self) -> None:
        for pin in self.against.pins:
            if pin.seen.origin != self.facts.origin and not set(pin.locations).isdisjoint(
                self.against.places
            ):
                expected = f"{pin.seen.origin}, seen here on {pin.date}"
                found = f"another ledger, {self.facts.origin}"
                self.check.find("this place", expected, found, FORKED)

    def _pin(self, pin: Pin) -> None:
        seen, facts = pin.seen, self.facts
        place = f"the pin of {pin.date}"
        failed = len(self.check.findings)
        if self._same_founding(place, seen.founding, seen.root_key):
            self._grown(place, seen.size, seen.root)
            version, digest = seen.ledger_version, seen.ledger_digest
            self._head(place, version, digest, quiet=len(self.check.findings) > failed)
            if seen.checkpoint is not None:
                self._still_sealed(place, seen.checkpoint, seen.checkpoints)
        if len(self.check.findings) == failed:
            self.anchored = True
            self._held.append(f"the pin of {pin.date}, size {seen.size:,}")
        elif seen.checkpoint is not None and self._differs(seen.checkpoint):
            # It was verified, signature and all, before it was pinned.
            key = next((key for key in facts.log_keys if seen.checkpoint.note.by(key)), None)
            if key is not None:
                self.contradicted.append((seen.checkpoint, key))

    def _checkpoint(self, name: str, signed: SignedCheckpoint) -> None:
        said, facts = signed.checkpoint, self.facts
        if said.origin != facts.origin:
            self.check.find(
                name, f"a checkpoint of {facts.origin}", f"one of {said.origin}", FORKED
            )
            return
        policy = self.against.policy
        named = () if policy is None else policy.logs_of(facts.origin)
        try:
            key = facts.signer(signed, named)
        except NoteError as error:
            self.check.find(name, "a signature that holds", error.message, UNVERIFIABLE)
            return
        if key is None:
            expected = "signed by a log key that the ledger enrolled"
            self.check.find(name, expected, "by none of them", UNVERIFIABLE)
            return
        if key not in facts.log_keys:
            expected = f"a ledger that enrolled log key {key.keyid.hex()}, which the policy names"
            self.check.find(name, expected, "it did not", FORKED)
            return
        if not self._trusted(key, said.size):
            expected = f"a log key trusted to size {said.size}"
            self.check.find(name, expected, "one that was retired before", UNVERIFIABLE)
            return
        if self._grown(name, said.size, said.root):
            self._held.append(f"{name}, size {said.size:,}")
            self.agreed.append((signed, key))
        elif self._differs(signed):
            self.contradicted.append((signed, key))

    def _trust(self, trust: Trust) -> None:
        place = "the trust file"
        if trust.origin != self.facts.origin:
            self.check.find(place, trust.origin, self.facts.origin, FORKED)
        elif self._same_founding(place, trust.founding, trust.root_key) and self._head(
            place, trust.ledger_version, trust.ledger_digest
        ):
            ordinal = self.facts.ordinals[trust.ledger_version]
            if ordinal != trust.ledger_index:
                expected = f"ledger v{trust.ledger_version} at record {trust.ledger_index}"
                self.check.find(place, expected, f"at record {ordinal}", FORKED)
                return
            self.anchored = True
            self._held.append(f"{place}, up to ledger v{trust.ledger_version}")

    def _same_founding(self, place: str, founding: str, root_key: str) -> bool:
        for what, known, found in (
            ("founding", founding, self.facts.founding),
            ("root key", root_key, self.facts.root_key),
        ):
            if known != found:
                self.check.find(place, f"{what} {known}", found or "none", FORKED)
                return False
        return True

    def _grown(self, place: str, size: int, root: bytes) -> bool:
        """Whether the ledger grew out of what had that size and root."""
        tree = self.facts.tree
        if size > tree.size:
            expected = f"{size:,} records or more, as it had then"
            self.check.find(place, expected, f"{tree.size:,}", TRUNCATED)
            return False
        if tree.roots[size] != root:
            expected = f"root {root.hex()} at size {size}"
            self.check.find(place, expected, f"root {tree.roots[size].hex()}", FORKED)
            return False
        return True

    def _head(self, place: str, version: int, digest: str, *, quiet: bool = False) -> bool:
        """Whether the stream `ledger` still holds the record that was its last."""
        digests = self.facts.digests
        if version not in digests:
            expected = f"ledger v{version}, as it had then"
            code, found = TRUNCATED, f"v{max(digests, default=0)} as its last"
        elif digests[version] != digest:
            expected, code, found = f"ledger v{version} {digest}", FORKED, digests[version]
        else:
            return True
        if not quiet:
            self.check.find(place, expected, found, code)
        return False

    def _still_sealed(self, place: str, signed: SignedCheckpoint, number: int) -> None:
        """Checkpoints that were there are there still, `number` of them up to the newest then.

        None is ever deleted, and those that come later count more records.
        """
        size = signed.checkpoint.size
        if size > self.facts.tree.size or self._differs(signed):
            return
        if size not in self.facts.stored_sizes:
            expected = f"a checkpoint of size {size:,} in the store, as then"
            self.check.find(place, expected, "none of that size", TRUNCATED)
        elif (found := self.facts.stored_up_to(size)) < number:
            expected = f"{number:,} checkpoints up to size {size:,} in the store, as then"
            self.check.find(place, expected, f"{found:,}", TRUNCATED)

    def _differs(self, signed: SignedCheckpoint) -> bool:
        """Whether the rows have another root at the size of a checkpoint, which they reach."""
        said = signed.checkpoint
        found = self.facts.tree.roots.get(said.size)
        return said.size <= self.facts.tree.size and found != said.root

    def _trusted(self, key: NoteKey, size: int) -> bool:
        return key in self.facts.keyring.log_keys(size)
