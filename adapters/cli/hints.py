"""What to do about the worst that `verify` found: a line, and a command where one leads on."""

from __future__ import annotations

import shlex

from ..findings import DIFFERS, FORKED, TRUNCATED, UNVERIFIABLE, Finding, Report
from .findings import stream_of

Hint = tuple[str, str]
"""(text, command or nothing)."""


def hint_of(report: Report, at: str, *, is_written: bool = False) -> Hint:
    """What to try. `at`: the option that names the ledger; `is_written`: a split view that was found is."""
    worst = [finding for finding in report.findings if finding.code == report.code]
    # One that names a stream says where to look.
    finding = next((each for each in worst if stream_of(each.place)), worst[0])
    if report.code == TRUNCATED:
        return (
            "records or checkpoints are gone; look for a newer copy, or a checkpoint:",
            f"causebook verify --checkpoint FILE{at}",
        )
    if report.code == FORKED:
        return _forked(report, finding, at, is_written=is_written)
    if report.code == UNVERIFIABLE:
        return _unverifiable(finding, at)
    return _differing(report, finding, at)


def _forked(report: Report, finding: Finding, at: str, *, is_written: bool) -> Hint:
    if report.split_view is not None:
        if is_written:
            return "the split view is written; whoever is shown it can check it", ""
        return "two signed checkpoints contradict each other; --split-view FILE keeps them", ""
    if finding.place == "this place":
        other = finding.expected.split(",")[0]
        return (
            "was another ledger put here? If it was you who did:",
            f"causebook pins forget {shlex.quote(other)}",
        )
    if finding.place.startswith("the pin of") and finding.expected.startswith("founding"):
        return (
            "another ledger has the name of the one you knew. If you founded it anew yourself:",
            f"causebook pins forget {shlex.quote(report.origin)}",
        )
    return (
        "somebody told two histories; hold it against what others kept:",
        f"causebook verify --checkpoint FILE{at}",
    )


def _unverifiable(finding: Finding, at: str) -> Hint:
    if finding.check == "witnesses" and finding.place == "required":
        return "a policy says which witnesses count:", f"causebook verify --policy FILE{at}"
    if finding.check == "witnesses":
        return "more cosignatures can be asked for:", f"causebook seal --policy FILE{at}"
    if finding.check == "tree":
        return "nothing is sealed so far:", f"causebook seal{at}"
    if finding.check == "consistency" and finding.place.startswith("the pin of"):
        return "a look without --require-pin makes the first pin:", f"causebook verify{at}"
    if finding.check == "projections":
        return "projections are made by", f"causebook rebuild{at}"
    return "nothing speaks against it; what is missing is said above", ""


def _differing(report: Report, finding: Finding, at: str) -> Hint:
    stream, check = stream_of(finding.place), finding.check
    if check == "projections":
        text = "the records stand; what is derived from them is made anew by"
        return text, f"causebook rebuild{at}"
    if check == "tree" and report.code == DIFFERS:
        return "the records stand; the tree over them is made anew by", f"causebook rebuild{at}"
    if check == "evidence" and report.code == DIFFERS:
        return "the records stand; put the evidence back from an older copy of the ledger", ""
    if check == "law" and stream is not None:
        text = "signed by who may, and against the rules; the decision, step by step:"
        return text, f"causebook why {stream.split('/')[1]}{at}"
    if stream is not None:
        text = "compare with an older copy of the ledger; the records there:"
        return text, f"causebook log {stream}{at}"
    text = "compare with an older copy or a witness:"
    return text, f"causebook verify --checkpoint FILE{at}"
