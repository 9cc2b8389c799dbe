"""What checking a file comes to: questions, each with its answer, and what can be said in the end.

A *fault* is no error of ours: it is reported, never raised, and has one of the codes 20 to 28 of design
section 11. The highest that applies is the command's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..findings import FIRST_LOOK, INTACT, MEANINGS, TAMPERED, UNVERIFIABLE, Check

Status = Literal["PASS", "FAIL", "NOT CHECKED"]
FAULTS_KEPT_MAX: Final = 100
TEXT_CHARACTERS_MAX: Final = 400


@dataclass(frozen=True)
class Fault:
    """One thing that does not hold. Texts may quote hostile bytes; whoever prints them makes them safe."""

    place: str
    expected: str
    found: str
    code: int


@dataclass
class Answer:
    """One question and its answer. `more`: faults beyond those kept."""

    name: str
    status: Status = "PASS"
    note: str = ""
    faults: list[Fault] = field(default_factory=list)
    more: int = 0
    codes: set[int] = field(default_factory=set)

    def fault(self, place: str, expected: str, found: str, code: int = TAMPERED) -> None:
        """Note what does not hold."""
        self.status = "FAIL"
        self.codes.add(code)
        if len(self.faults) < FAULTS_KEPT_MAX:
            self.faults.append(Fault(_cut(place), _cut(expected), _cut(found), code))
        else:
            self.more += 1

    def skip(self, note: str) -> None:
        """Not checked, unless something was found already."""
        if self.status != "FAIL":
            self.status, self.note = "NOT CHECKED", note

    def lack(self, note: str) -> None:
        """What was asked for cannot be answered with what is at hand: not checked, and that is a failure."""
        self.skip(note)
        self.codes.add(UNVERIFIABLE)

    @classmethod
    def of(cls, check: Check) -> Answer:
        """The answer of one of verify's checks."""
        answer = cls(check.name, check.status, check.note, more=check.more, codes=set(check.codes))
        answer.faults = [Fault(f.place, f.expected, f.found, f.code) for f in check.findings]
        return answer


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS_MAX else text[:TEXT_CHARACTERS_MAX] + "…"


@dataclass
class FileReport:
    """What one file came to. `title`: what it is, in a line; `said`: what follows from it, in sentences.

    `anchored`: it was held against a key, or a trust file, that did not come with it.
    """

    name: str
    kind: str
    title: str = ""
    answers: list[Answer] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    anchored: bool = False

    def ask(self, name: str) -> Answer:
        """A question, to be answered."""
        answer = Answer(name)
        self.answers.append(answer)
        return answer

    @property
    def codes(self) -> list[int]:
        """Every code that applies, the highest first; 0 or 20 alone where nothing was found."""
        found = sorted({code for answer in self.answers for code in answer.codes}, reverse=True)
        return found or [INTACT if self.anchored else FIRST_LOOK]

    @property
    def code(self) -> int:
        """The highest that applies."""
        return self.codes[0]

    @property
    def failed(self) -> bool:
        """Whether something does not hold, beyond what could not be looked at."""
        return any(answer.faults for answer in self.answers)

    def document(self) -> dict[str, Any]:
        """The report as JSON can say it."""
        return {
            "file": self.name,
            "kind": self.kind,
            "title": self.title,
            "anchored": self.anchored,
            "code": self.code,
            "codes": self.codes,
            "meaning": meaning(self.code),
            "said": self.said,
            "answers": [
                {
                    "question": answer.name,
                    "status": answer.status,
                    "note": answer.note,
                    "more": answer.more,
                    "faults": [{**vars(fault)} for fault in answer.faults],
                }
                for answer in self.answers
            ],
        }


SELF_ASSERTED: Final = "holds, but by keys that only it vouches for: self-asserted, a first look"


def meaning(code: int) -> str:
    """What a code says of files."""
    if code == INTACT:
        return "holds"
    return SELF_ASSERTED if code == FIRST_LOOK else MEANINGS[code]


def worst(reports: Iterable[FileReport]) -> int:
    """The exit code of several reports."""
    return max((report.code for report in reports), default=INTACT)
