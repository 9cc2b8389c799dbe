"""The check `witnesses`: whether others saw the same log, by a trust policy (C2SP tlog-policy) and by asking.

1. A policy that names logs of this origin has to name one whose key the ledger enrolled: another key under
   the name is another log (forked), and one that it did enrol anchors the founding.
2. The newest checkpoint on which the cosignatures reach the quorum counts, with those that the witnesses
   asked gave beside those in the store. One said to be of a known witness that does not hold rejects it.
3. The quorum is as old as the k-th newest cosignature, so that no fewer than k witnesses can make it younger.
   A stale checkpoint has perfectly valid cosignatures: only its age tells, and only where it is asked for.
4. A witness asked for its newest checkpoint may know more than the ledger has (truncated), or another root
   (forked). The log's own signature counts there, whoever answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ...domain.checkpoint import SignedCheckpoint, cosignature_by
from ...domain.note import Note, NoteError, NoteSignature, is_signed_by, parse_signature
from ...domain.policy import NONE, Policy, Quorum
from ..findings import FORKED, TAMPERED, TRUNCATED, UNVERIFIABLE, Check, counted
from .held import Against, Facts, Heard, SignedBy

AHEAD_SECONDS_MAX = 300
"""How far the clock of a witness may be ahead of ours."""


@dataclass
class Witnesses:
    """The check `witnesses`. After `run`, `anchored`, `contradicted` and `agreed` as in `Consistency`."""

    check: Check
    facts: Facts
    against: Against
    anchored: bool = False
    contradicted: list[SignedBy] = field(default_factory=list)
    agreed: list[SignedBy] = field(default_factory=list)
    _said: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Hold the ledger against what the witnesses asked know, and evaluate the policy."""
        for heard in self.against.heard:
            self._ask(heard)
        policy = self.against.policy
        if policy is None:
            self.check.skip("; ".join(["no policy given: --policy FILE", *self._said]))
            return
        if self._is_of_policy(policy):
            self._quorum(policy)
        if self._said:
            self.check.note = "; ".join(self._said)

    def _ask(self, heard: Heard) -> None:
        signed, facts = heard.newest, self.facts
        if heard.fault:
            self.check.find(heard.url, "an answer", heard.fault, UNVERIFIABLE)
            return
        if signed is None:
            self._said.append(f"{heard.url} knows no checkpoint of this log")
            return
        try:
            key = facts.signer(signed)
        except NoteError as error:
            self.check.find(heard.url, "a signature that holds", error.message, UNVERIFIABLE)
            return
        if key is None:
            expected = "a checkpoint signed by a log key that the ledger enrolled"
            code = FORKED if self._is_cosigned(signed) else UNVERIFIABLE
            self.check.find(heard.url, expected, "one by another", code)
            return
        said, tree = signed.checkpoint, facts.tree
        if said.size > tree.size:
            expected = f"{said.size:,} records or more, as it cosigned"
            self.check.find(heard.url, expected, f"{tree.size:,}", TRUNCATED)
        elif (root := tree.roots[said.size]) != said.root:
            expected = f"root {said.root.hex()} at size {said.size}"
            self.check.find(heard.url, expected, f"root {root.hex()}", FORKED)
            self.contradicted.append((signed, key))
        elif said.size not in facts.stored_sizes:
            expected = f"a checkpoint of size {said.size:,} in the store, as it cosigned"
            self.check.find(heard.url, expected, "none of that size", TRUNCATED)
        else:
            self._said.append(f"{heard.url} knows size {said.size:,}")
            self.agreed.append((signed, key))

    def _is_cosigned(self, signed: SignedCheckpoint) -> bool:
        """Whether a witness that the policy names cosigned it."""
        policy = self.against.policy
        witnesses = () if policy is None else policy.witnesses.values()
        try:
            return any(cosignature_by(signed.note, w.key, self.facts.verify) for w in witnesses)
        except NoteError:
            return False

    def _is_of_policy(self, policy: Policy) -> bool:
        origin = self.facts.origin
        named = policy.logs_of(origin)
        if policy.logs and not named:
            others = ", ".join(sorted({log.key.name for log in policy.logs})[:3])
            self.check.find("the policy", f"a log {origin}", f"logs {others}", UNVERIFIABLE)
            return False
        if named and not set(named) & set(self.facts.log_keys):
            found = f"{counted(len(self.facts.log_keys), 'other key')} enrolled"
            expected = f"log key {named[0].keyid.hex()}"
            self.check.find("the policy", expected, found, FORKED)
            return False
        self.anchored = bool(named)
        return True

    def _quorum(self, policy: Policy) -> None:
        best: tuple[int, Quorum] | None = None
        for size, note in self._candidates(policy):
            try:
                quorum = policy.evaluate(note, self.facts.verify)
            except NoteError as error:
                expected = "cosignatures that hold"
                self.check.find(f"checkpoint {size}", expected, error.message, TAMPERED)
                return
            if quorum.holds:
                self._reached(policy, size, quorum)
                return
            if best is None or len(quorum.cosigned) > len(best[1].cosigned):
                best = (size, quorum)
        found = "no checkpoint that a witness cosigned"
        if best is not None:
            size, quorum = best
            missing = ", ".join(quorum.missing[:5])
            found = f"size {size:,}: {_of(policy, quorum)}, without {missing}"
        self.check.find("the policy", f"the quorum {policy.quorum}", found, UNVERIFIABLE)

    def _candidates(self, policy: Policy) -> Iterator[tuple[int, Note]]:
        """(size, checkpoint with its cosignatures) of those that can reach the quorum, the newest first."""
        named = policy.logs_of(self.facts.origin)
        for sealed in reversed(self.facts.sealed):
            text = sealed.signed.note.text
            signatures = list(sealed.signed.note.signatures)
            for line in sealed.row.cosignatures:
                signature = self._line(sealed.size, line)
                if signature is not None:
                    signatures.append(signature)
            for heard, _ in self.agreed:
                if heard.note.text == text:
                    signatures += [s for s in heard.note.signatures if s not in signatures]
            if len(signatures) == 1 and policy.quorum != NONE:
                continue
            note = Note(text, tuple(signatures))
            if not named or any(is_signed_by(note, key, self.facts.verify) for key in named):
                yield sealed.size, note

    def _line(self, size: int, line: bytes) -> NoteSignature | None:
        try:
            return parse_signature(line.decode().removesuffix("\n"))
        except (UnicodeDecodeError, NoteError):
            found = "another line"
            self.check.find(
                f"checkpoint {size}", "signature lines as cosignatures", found, TAMPERED
            )
            return None

    def _reached(self, policy: Policy, size: int, quorum: Quorum) -> None:
        past = self.facts.tree.size - size
        said = []
        if policy.quorum == NONE:
            said.append("the policy asks for no cosignature")
        else:
            reached = quorum.kth_newest_time or 0
            said.append(f"size {size:,} cosigned by {_of(policy, quorum)}")
            said.append(f"the quorum since {moment(reached)}")
            said.append(f"survives {counted(quorum.survives, 'colluding witness', _MANY)}")
        if quorum.has_disjoint_quorums:
            said.append("two disjoint quorums exist: a split view needs no witness to lie")
        if past:
            said.append(f"{counted(past, 'record lies', 'records lie')} past it")
        self._age(quorum.kth_newest_time)
        self._said = [", ".join(said), *self._said]

    def _age(self, reached: int | None) -> None:
        now, age_max = int(self.against.now()), self.against.age_seconds_max
        if reached is not None and reached > now + AHEAD_SECONDS_MAX:
            expected = "a quorum reached before now"
            self.check.find("the quorum", expected, moment(reached), UNVERIFIABLE)
        elif age_max is not None and (reached is None or now - reached > age_max):
            found = "no cosignature" if reached is None else f"one of {moment(reached)}"
            expected = f"a quorum no older than {_span(age_max)}"
            self.check.find("the quorum", expected, found, UNVERIFIABLE)


_MANY = "colluding witnesses"


def _of(policy: Policy, quorum: Quorum) -> str:
    return f"{len(quorum.cosigned)} of {counted(len(policy.witnesses), 'witness', 'witnesses')}"


def moment(posix_seconds: int) -> str:
    """A time as a person reads it, in UTC; what no calendar has is left as a number."""
    try:
        return f"{datetime.fromtimestamp(posix_seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return f"POSIX second {posix_seconds}"


def _span(seconds: int) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
