"""Trust policies: which logs and witnesses are believed, and how many together.

A policy is a text file (C2SP tlog-policy, commit 13027eee7f3f):

    log     causebook.example/team+8f4a…+AQ…  https://log.example/
    witness X1 x1.example/w+1c2d…+BA…         https://x1.example/
    witness X2 x2.example/w+77aa…+BA…
    witness Y  y.example/w+90b1…+BA…
    group   X-any any X1 X2
    group   X-and-Y all X-any Y
    quorum  X-and-Y

The rules, each a `PolicyError` that names its line:

1.  Octets: tab, LF, 0x20 to 0x7E, 0x80 to 0xFF. Each line ends in LF, the last included. Items are parted by
    spaces and tabs; an empty line, and one that begins with `#`, says nothing.
2.  `log VKEY [URL]` with a key of type 0x01, `witness NAME VKEY [URL]` with one of type 0x04.
3.  No public key stands twice, under whatever name. The text refuses it among logs and among witnesses; here
    it is refused between the two as well, since one key has one role.
4.  `group NAME K MEMBER…`: at least K of its members witnessed it; `any` is 1, `all` is their number, a
    number is decimal without leading zeros, from 1 to their number.
5.  Witnesses and groups share one space of names, each defined once, before it is used. `none` names no
    member. A name is a member at most once in the whole file, so the groups are a forest.
6.  `quorum NAME` stands exactly once; `quorum none` asks for no cosignature.
7.  At most 64 logs, 64 witnesses, 64 groups, 1,024 lines, 128 KiB (the text asks for at least 32 of each).

Names are octets. They are kept as text in which a byte that is not UTF-8 is a lone surrogate, so two names
are equal where their octets are.

**How many colluding witnesses a policy survives.** An honest witness cosigns one history of a log. Two
histories can both reach the quorum where there are two sets A and B, each of them a quorum, and every witness
in both A and B signs both histories. So the fewest witnesses who must collude is the least |A ∩ B| over all
pairs of quorums, and the policy survives one fewer. Where that least is 0 there are two disjoint quorums: a
split view needs no dishonest witness at all, only an operator who shows each half another history.

Over the forest it is exact and needs no enumeration: members are disjoint, of n members A needs k and B needs
k, so at least 2k - n serve both, and the cheapest do:

    least(witness) = 1        least(group) = the sum of the 2k - n smallest least(member), 0 where 2k <= n

The time at which the quorum was reached, counted from the newest cosignature, follows in the same way: that
of a witness is its cosignature's, that of a group the k-th newest of its members'.

Pure: values and bytes in, values out. Checking a signature is asked of a `Verify` function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from .checkpoint import cosignature_by
from .errors import BadData
from .note import COSIGNATURE, ED25519, Note, NoteError, NoteKey, Verify
from .streams import shorten

POLICY_BYTES_MAX: Final = 128 * 1024
LINES_MAX: Final = 1_024
LOGS_MAX: Final = 64
WITNESSES_MAX: Final = 64
GROUPS_MAX: Final = 64

NONE: Final = "none"
"""The name of the quorum that asks for no cosignature."""

_FORBIDDEN = re.compile(rb"[^\t\n\x20-\x7e\x80-\xff]")
_BLANKS = re.compile(r"[ \t]+")
_THRESHOLD = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)


class PolicyError(BadData):
    """Bytes that are not a trust policy; the message names the line."""


@dataclass(frozen=True)
class Log:
    """A log that is believed: its key, and where it answers, if that was said."""

    key: NoteKey
    url: str | None = None


@dataclass(frozen=True)
class Witness:
    """A witness that is known: its name inside the policy, its key, and its submission prefix, if said."""

    name: str
    key: NoteKey
    url: str | None = None


@dataclass(frozen=True)
class Group:
    """At least `threshold` of `members`, names of witnesses or groups defined before it."""

    name: str
    threshold: int
    members: tuple[str, ...]


@dataclass(frozen=True)
class Cosigned:
    """A witness that cosigned, and when: POSIX time in seconds, the newest where it signed twice."""

    witness: Witness
    time_seconds: int


@dataclass(frozen=True)
class Quorum:
    """What a policy says of one note.

    `cosigned`: the known witnesses that did, the newest first. `missing`: the names of those that did not.
    `kth_newest_time`: the newest time T such that the cosignatures of T and later reach the quorum by
    themselves; None where it is not reached, or `quorum none`. `survives` and `has_disjoint_quorums` are the
    policy's own.
    """

    holds: bool
    cosigned: tuple[Cosigned, ...]
    missing: tuple[str, ...]
    kth_newest_time: int | None
    survives: int
    has_disjoint_quorums: bool


@dataclass(frozen=True)
class Policy:
    """A trust policy. `witnesses`, `groups`: by name, in the file's order. `quorum`: a name or `none`."""

    logs: tuple[Log, ...]
    witnesses: Mapping[str, Witness]
    groups: Mapping[str, Group]
    quorum: str

    @classmethod
    def parse(cls, raw: bytes) -> Policy:
        """The policy that `raw` is. Raises `PolicyError` naming the first line that breaks a rule."""
        return _Parser().policy(raw)

    def logs_of(self, origin: str) -> tuple[NoteKey, ...]:
        """The keys that may sign the checkpoints of an origin: a log's key name is its origin."""
        return tuple(log.key for log in self.logs if log.key.name == origin)

    @property
    def colluders_min(self) -> int:
        """How few witnesses, colluding, let two contradicting checkpoints both reach the quorum.

        0 where none is needed: there are two disjoint quorums.
        """
        if self.quorum == NONE:
            return 0
        least = dict.fromkeys(self.witnesses, 1)
        for group in self.groups.values():
            in_both = max(0, 2 * group.threshold - len(group.members))
            least[group.name] = sum(sorted(least[member] for member in group.members)[:in_both])
        return least[self.quorum]

    @property
    def survives(self) -> int:
        """How many colluding witnesses cannot bring about a split view; 0 too where it takes none."""
        return max(0, self.colluders_min - 1)

    @property
    def has_disjoint_quorums(self) -> bool:
        """Whether two sets without a common witness each reach the quorum; so it is for `quorum none`."""
        return self.colluders_min == 0

    def reached_at(self, times: Mapping[str, int]) -> int | None:
        """The newest time T such that the witnesses who cosigned at T or later reach the quorum.

        `times`: by name, POSIX seconds. None where they do not reach it, and for `quorum none`.
        """
        reached: dict[str, int] = {
            name: time for name, time in times.items() if name in self.witnesses
        }
        for group in self.groups.values():
            newest = sorted((reached[m] for m in group.members if m in reached), reverse=True)
            if len(newest) >= group.threshold:
                reached[group.name] = newest[group.threshold - 1]
        return reached.get(self.quorum)

    def evaluate(self, note: Note, verify: Verify) -> Quorum:
        """Who of the known witnesses cosigned the note, and whether they are enough.

        Says nothing of the log's own signature. Raises `NoteError` where a signature claims to be of a known
        witness and does not hold: such a note is rejected, whoever else signed it.
        """
        cosigned = []
        for witness in self.witnesses.values():
            found = cosignature_by(note, witness.key, verify)
            if found is not None:
                cosigned.append(Cosigned(witness, found.time_seconds))
        times = {each.witness.name: each.time_seconds for each in cosigned}
        reached = self.reached_at(times)
        return Quorum(
            holds=reached is not None or self.quorum == NONE,
            cosigned=tuple(sorted(cosigned, key=lambda each: -each.time_seconds)),
            missing=tuple(name for name in self.witnesses if name not in times),
            kth_newest_time=reached,
            survives=self.survives,
            has_disjoint_quorums=self.has_disjoint_quorums,
        )


@dataclass
class _Parser:
    """The lines so far. `line`: the number of the one being read, from 1."""

    line: int = 0
    logs: list[Log] = field(default_factory=list)
    witnesses: dict[str, Witness] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    quorum: str | None = None
    keys: dict[bytes, int] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)

    def policy(self, raw: bytes) -> Policy:
        lines = self._lines(raw)
        words: Mapping[str, Callable[[list[str]], None]] = {
            "log": self._log,
            "witness": self._witness,
            "group": self._group,
            "quorum": self._quorum,
        }
        for self.line, content in enumerate(lines, 1):
            items = [item for item in _BLANKS.split(content) if item]
            if not items or items[0].startswith("#"):
                continue
            if items[0] not in words:
                raise self._error("expected log, witness, group or quorum", items[0])
            words[items[0]](items[1:])
        if self.quorum is None:
            raise PolicyError(f"policy: expected one quorum line, found none in {len(lines)} lines")
        return Policy(tuple(self.logs), self.witnesses, self.groups, self.quorum)

    def _lines(self, raw: bytes) -> list[str]:
        if len(raw) > POLICY_BYTES_MAX:
            raise PolicyError(
                f"policy: expected at most {POLICY_BYTES_MAX} bytes, found {len(raw)}"
            )
        forbidden = _FORBIDDEN.search(raw)
        if forbidden is not None:
            self.line = raw.count(b"\n", 0, forbidden.start()) + 1
            raise self._error(
                f"expected no control character but tab and LF, found 0x{forbidden[0].hex()}"
            )
        lines = raw.decode("utf-8", "surrogateescape").split("\n")
        if lines.pop():
            self.line = len(lines) + 1
            raise self._error("expected LF at the end of the last line")
        if len(lines) > LINES_MAX:
            raise PolicyError(f"policy: expected at most {LINES_MAX} lines, found {len(lines)}")
        return lines

    def _error(self, expected: str, found: str | None = None) -> PolicyError:
        told = "" if found is None else f", found {shorten(found)}"
        return PolicyError(f"policy, line {self.line}: {expected}{told}")

    def _log(self, items: list[str]) -> None:
        if len(items) not in (1, 2):
            raise self._error("expected log VKEY [URL]", f"{len(items)} items after log")
        self._limit("logs", len(self.logs), LOGS_MAX)
        self.logs.append(Log(self._key(items[0], ED25519), *items[1:]))

    def _witness(self, items: list[str]) -> None:
        if len(items) not in (2, 3):
            raise self._error(
                "expected witness NAME VKEY [URL]", f"{len(items)} items after witness"
            )
        self._limit("witnesses", len(self.witnesses), WITNESSES_MAX)
        name = self._new_name(items[0])
        self.witnesses[name] = Witness(name, self._key(items[1], COSIGNATURE), *items[2:])

    def _group(self, items: list[str]) -> None:
        if len(items) < 3:
            raise self._error("expected group NAME K MEMBER…", f"{len(items)} items after group")
        self._limit("groups", len(self.groups), GROUPS_MAX)
        name, threshold_text, *members = items
        for member in members:
            self._defined(member)
            if member in self.members:
                raise self._error(
                    f"{shorten(member)} is a member already, since line {self.members[member]}"
                )
            self.members[member] = self.line
        self.groups[self._new_name(name)] = Group(
            name, self._threshold(threshold_text, len(members)), tuple(members)
        )

    def _threshold(self, text: str, count: int) -> int:
        if text in ("any", "all"):
            return 1 if text == "any" else count
        if _THRESHOLD.fullmatch(text) is None or int(text) > count:
            raise self._error(f"expected any, all or a number from 1 to {count}", text)
        return int(text)

    def _quorum(self, items: list[str]) -> None:
        if len(items) != 1:
            raise self._error("expected quorum NAME", f"{len(items)} items after quorum")
        if self.quorum is not None:
            raise self._error("expected one quorum line, found a second")
        if items[0] != NONE:
            self._defined(items[0])
        self.quorum = items[0]

    def _key(self, vkey: str, kind: int) -> NoteKey:
        try:
            vkey.encode()
        except UnicodeEncodeError:
            raise self._error("expected a vkey in UTF-8", vkey) from None
        try:
            key = NoteKey.parse(vkey)
        except NoteError as error:
            raise self._error(error.message) from None
        if key.kind != kind:
            raise self._error(f"vkey: expected type 0x{kind:02x}", f"type 0x{key.kind:02x}")
        if key.public in self.keys:
            raise self._error(f"this public key stands in line {self.keys[key.public]} already")
        self.keys[key.public] = self.line
        return key

    def _new_name(self, name: str) -> str:
        if name == NONE:
            raise self._error("expected a name of its own: none is taken")
        if name in self.witnesses or name in self.groups:
            raise self._error(f"{shorten(name)} is defined already")
        return name

    def _defined(self, name: str) -> None:
        if name not in self.witnesses and name not in self.groups:
            raise self._error("expected a witness or group defined above", name)

    def _limit(self, what: str, count: int, count_max: int) -> None:
        if count >= count_max:
            raise self._error(f"expected at most {count_max} {what}")
