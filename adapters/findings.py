"""What `verify` and `replay` find: a report of checks, each with what speaks against it.

A finding is no error of ours: it is reported, never raised. Its code is one of the exit codes 20 to 28
(design section 11); the highest that applies is the command's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..domain.proof import SplitView
from .verification.pin import Looked, Pin

CheckName = Literal[
    "records",
    "signatures",
    "roles",
    "chains",
    "tree",
    "consistency",
    "witnesses",
    "time",
    "law",
    "projections",
    "evidence",
]
Status = Literal["PASS", "FAIL", "NOT CHECKED"]

CHECKS: Final[tuple[CheckName, ...]] = (
    "records",
    "signatures",
    "roles",
    "chains",
    "tree",
    "consistency",
    "witnesses",
    "time",
    "law",
    "projections",
    "evidence",
)
"""Every check, in the order of the report."""

INTACT: Final = 0
FIRST_LOOK: Final = 20
UNVERIFIABLE: Final = 22
DIFFERS: Final = 23
UNLAWFUL: Final = 24
TORN: Final = 25
TRUNCATED: Final = 26
FORKED: Final = 27
TAMPERED: Final = 28

MEANINGS: Final[Mapping[int, str]] = {
    INTACT: "intact",
    FIRST_LOOK: "intact, but who founded it is self-asserted: a first look",
    UNVERIFIABLE: "unverifiable",
    DIFFERS: "derived state differs",
    UNLAWFUL: "unlawful",
    TORN: "torn",
    TRUNCATED: "truncated",
    FORKED: "forked",
    TAMPERED: "tampered",
}

FINDINGS_KEPT_MAX: Final = 100
"""Findings kept for each check; those beyond are counted."""

TEXT_CHARACTERS_MAX: Final = 400


@dataclass(frozen=True)
class Finding:
    """One thing that does not hold. Texts may quote hostile bytes; whoever prints them makes them safe.

    `place` names a record (`evaluation/T/1/post_execute/security v6`), an item of evidence or a
    projection's row.
    """

    check: CheckName
    place: str
    expected: str
    found: str
    code: int


@dataclass
class Check:
    """One check and its answer. `more`: findings beyond those kept.

    `earlier`: what was not looked at again, having been verified at an earlier look; empty where all was.
    """

    name: CheckName
    status: Status = "PASS"
    note: str = ""
    earlier: str = ""
    findings: list[Finding] = field(default_factory=list)
    more: int = 0
    codes: set[int] = field(default_factory=set)

    def find(self, place: str, expected: str, found: str, code: int = TAMPERED) -> None:
        """Note what does not hold; the check fails."""
        self.status = "FAIL"
        self.codes.add(code)
        if len(self.findings) < FINDINGS_KEPT_MAX:
            self.findings.append(Finding(self.name, _cut(place), _cut(expected), _cut(found), code))
        else:
            self.more += 1

    def skip(self, note: str) -> None:
        """Not checked, unless something was found already."""
        if self.status != "FAIL":
            self.status = "NOT CHECKED"
        self.note = note


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + "…"


@dataclass(frozen=True)
class Report:
    """What verify found. `anchored`: the founding was known beforehand: the best answer is 0, else 20.

    `founding`: the digest of the founding record that the pass came by, or nothing. `sealed`: the size of the
    newest checkpoint that holds, or None. `from_pin`: the earlier look from which what had not changed was
    taken over. `looked`: what a later look can be held against; None where something speaks against it.
    `split_view`: two signed checkpoints of this log that contradict each other, with what shows it.
    """

    location: str
    origin: str
    records: int
    streams: int
    open_evaluations: tuple[str, ...]
    checks: tuple[Check, ...]
    anchored: bool = False
    founding: str = ""
    sealed: int | None = None
    from_pin: Pin | None = None
    looked: Looked | None = None
    split_view: SplitView | None = None

    def __getitem__(self, name: CheckName) -> Check:
        return next(check for check in self.checks if check.name == name)

    @property
    def findings(self) -> list[Finding]:
        """All findings that were kept, in the order of the checks."""
        return [finding for check in self.checks for finding in check.findings]

    @property
    def codes(self) -> list[int]:
        """Every code that applies, the highest first; 0 or 20 alone where nothing was found."""
        found = sorted({code for check in self.checks for code in check.codes}, reverse=True)
        return found or [INTACT if self.anchored else FIRST_LOOK]

    @property
    def code(self) -> int:
        """The exit code: the highest that applies."""
        return self.codes[0]

    @property
    def meaning(self) -> str:
        """The answer in a few words."""
        return MEANINGS[self.code]

    def document(self) -> dict[str, Any]:
        """The report as JSON can say it: `report.schema.json` is its schema."""
        return {
            "location": self.location,
            "origin": self.origin,
            "records": self.records,
            "streams": self.streams,
            "anchored": self.anchored,
            "founding": self.founding,
            "sealed": self.sealed,
            "from_pin": None
            if self.from_pin is None
            else {"at": self.from_pin.at, "size": self.from_pin.seen.size},
            "split_view": self.split_view is not None,
            "code": self.code,
            "codes": self.codes,
            "meaning": self.meaning,
            "open_evaluations": list(self.open_evaluations),
            "checks": [_check_document(check) for check in self.checks],
        }


def _check_document(check: Check) -> dict[str, Any]:
    return {
        "check": check.name,
        "status": check.status,
        "note": check.note,
        "earlier": check.earlier,
        "more": check.more,
        "findings": [
            {"place": f.place, "expected": f.expected, "found": f.found, "code": f.code}
            for f in check.findings
        ],
    }


def new_checks() -> dict[CheckName, Check]:
    """One of each check, in order, none answered yet."""
    return {name: Check(name) for name in CHECKS}


def listed(names: Iterable[str] | Sequence[str], most: int = 3) -> str:
    """The first few of `names`, and how many more."""
    known = list(names)
    shown = ", ".join(known[:most])
    return shown if len(known) <= most else f"{shown} and {len(known) - most} more"


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 key`, `1,204 records`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
