"""How a thing that does not hold is shown: the place, what was expected, what was found."""

from __future__ import annotations

import re
from typing import Final

from ..findings import Finding
from .terminal import Terminal, short

FINDINGS_SHOWN_MAX: Final = 10
_DIGEST: Final = re.compile(r"\b[0-9a-f]{64}\b")


def said(expected: str, found: str) -> str:
    """Both sides of a finding; digests shortened where that leaves them apart."""
    whole = f"expected {expected}, found {found}"
    pair = [_DIGEST.sub(lambda match: short(match[0]), side) for side in (expected, found)]
    return f"expected {pair[0]}, found {pair[1]}" if pair[0] != pair[1] else whole


def show_finding(page: Terminal, finding: Finding) -> None:
    """Print one thing that does not hold."""
    page.line(f"  {finding.check:<11} ", ("FAIL", "bad"), f"  {finding.place}")
    page.paragraph(said(finding.expected, finding.found), indent=20)
