"""How a thing that does not hold is shown: the place, what was expected, what was found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from ...domain.streams import parse_stream
from ..findings import Finding
from .terminal import Part, Terminal, short

FINDINGS_SHOWN_MAX: Final = 10
NOTE_CELLS: Final = 29
"""The column in which the note of an answer begins."""

_DIGEST: Final = re.compile(r"\b[0-9a-f]{64}\b")
_DIGEST_CELLS: Final = 64
_GAP: Final = re.compile(r"v(\d+) after (v\d+|nothing)")


def said(expected: str, found: str) -> str:
    """Both sides of a finding; digests shortened where that leaves them apart."""
    whole = f"expected {expected}, found {found}"
    pair = [_DIGEST.sub(lambda match: short(match[0]), side) for side in (expected, found)]
    return f"expected {pair[0]}, found {pair[1]}" if pair[0] != pair[1] else whole


def show_place(page: Terminal, head: Sequence[Part], place: str, *, indent: int) -> None:
    """Print where it is after `head`, which takes `indent` columns; broken between words.

    A digest that does not fit beside what names it stands whole on a line of its own, as far to the left as
    it has to.
    """
    first, *rest = place.split(" ")
    lines, at = [first], [indent]
    for word in rest:
        longer = f"{lines[-1]} {word}"
        if at[-1] + page.cells(longer) <= page.width:
            lines[-1] = longer
        else:
            lines.append(word)
            at.append(
                min(indent, page.width - _DIGEST_CELLS) if _DIGEST.fullmatch(word) else indent
            )
    page.line(*head, lines[0])
    for line, begin in zip(lines[1:], at[1:], strict=True):
        page.line(" " * begin, line)


def show_noted(page: Terminal, head: Sequence[Part], note: str) -> None:
    """Print an answer's line: its note after `head`, broken between words, in the column `NOTE_CELLS`."""
    words, line = note.split(" "), ""
    for word in words:
        longer = f"{line} {word}".strip()
        if line and NOTE_CELLS + page.cells(longer) > page.width:
            page.line(*head, "  ", line)
            head, line = [" " * (NOTE_CELLS - 2)], word
        else:
            line = longer
    page.line(*head, *(["  ", line] if line else []))


def show_finding(page: Terminal, finding: Finding) -> None:
    """Print one thing that does not hold."""
    show_place(page, [f"  {finding.check:<11} ", ("FAIL", "bad"), "  "], finding.place, indent=20)
    page.paragraph(said(finding.expected, finding.found), indent=20)


def stream_of(place: str) -> str | None:
    """The stream that a finding's place names, if it names one."""
    name = place.split(" ", 1)[0]
    try:
        parse_stream(name)
    except ValueError:
        return None
    return name


def missing_record(findings: Iterable[Finding]) -> str | None:
    """`task/T-1 v8`, where a finding is that this record is missing in the middle of its stream."""
    for finding in findings:
        if finding.check == "chains" and _GAP.fullmatch(finding.found):
            return finding.place
    return None
