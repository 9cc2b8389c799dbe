"""`causebook check`: what a stranger can hold somebody to, with nothing but files and keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ...domain.errors import BadData
from ...domain.note import ED25519, NoteKey
from ...domain.policy import POLICY_BYTES_MAX, Policy
from ...domain.trust import TRUST_BYTES_MAX, Trust
from ..checking.check import check_files
from ..checking.report import Answer, FileReport, meaning, worst
from ..findings import FIRST_LOOK, FORKED, INTACT, TAMPERED, TORN, TRUNCATED, UNVERIFIABLE
from .findings import FINDINGS_SHOWN_MAX, NOTE_CELLS, said, show_noted, show_place
from .requests import read_file
from .terminal import Part, Terminal, json_page, out

T = TypeVar("T")

_STYLES: Final = {"PASS": "good", "FAIL": "bad", "NOT CHECKED": "warn"}
_HINTS: Final = {
    FIRST_LOOK: "name a key that did not come with it: --trust FILE, or --log-key VKEY",
    UNVERIFIABLE: "name the log's key, or give the ledger's bundle too: --log-key VKEY, --trust FILE",
    TORN: "ask for it again: it ends early",
    TRUNCATED: "ask whoever made it for all of it, and for the newest",
    FORKED: "signatures hold and contradict each other: keep these files, they prove it",
    TAMPERED: "believe nothing that is in it, and ask for it by another way",
}


def check(
    files: Sequence[str],
    trust: str | None,
    policy: str | None,
    log_keys: Sequence[str],
    *,
    as_json: bool,
) -> int:
    """Check files; the code of the worst that was found."""
    reports = check_files(
        files,
        trust=None
        if trust is None
        else _parsed(trust, "a trust file", TRUST_BYTES_MAX, Trust.parse),
        policy=None
        if policy is None
        else _parsed(policy, "a policy", POLICY_BYTES_MAX, Policy.parse),
        log_keys=[_log_key(vkey) for vkey in log_keys],
    )
    code = worst(reports)
    page = out()
    if as_json:
        page.raw(
            json_page(
                {
                    "code": code,
                    "codes": sorted({c for each in reports for c in each.codes}, reverse=True),
                    "meaning": meaning(code),
                    "files": [report.document() for report in reports],
                }
            )
        )
        return code
    for report in reports:
        _show(page, report)
    if code != INTACT:
        page.paragraph(("hint:", "strong"), _HINTS.get(code, "what does not hold is said above"))
    return code


def _parsed(file: str, what: str, bytes_max: int, parse: Callable[[bytes], T]) -> T:
    try:
        return parse(read_file(file, what, bytes_max))
    except BadData as error:
        raise BadData(
            f"{file}: {error.message}", hint=error.hint or "docs/format.md says what it holds"
        ) from None


def _log_key(vkey: str) -> NoteKey:
    """The key of a vkey, or of the file that holds one."""
    if "+" not in vkey:
        vkey = read_file(vkey, "a vkey", 4096).decode("utf-8", "replace").strip()
    key = NoteKey.parse(vkey)
    if key.kind != ED25519:
        raise BadData(
            f"--log-key: expected a log's key, of type 0x01, found one of type 0x{key.kind:02x}",
            hint="causebook keys export log --vkey prints it; witnesses are named in a --policy FILE",
        )
    return key


def _show(page: Terminal, report: FileReport) -> None:
    page.heading(report.name, "strong", f", {report.title or 'a ' + report.kind}")
    page.blank()
    for answer in report.answers:
        _show_answer(page, answer)
    if report.said:
        page.blank()
    for sentence in report.said:
        page.paragraph(sentence, indent=2, hang=4)
    page.blank()
    style = "good" if report.code == INTACT else "warn" if report.code == FIRST_LOOK else "bad"
    page.line((meaning(report.code), style))


def _show_answer(page: Terminal, answer: Answer) -> None:
    head: list[Part] = [f"  {answer.name:<12}  ", (f"{answer.status:<11}", _STYLES[answer.status])]
    if not answer.faults:
        show_noted(page, head, answer.note)
        return
    shown = answer.faults[:FINDINGS_SHOWN_MAX]
    for fault in shown:
        show_place(page, [*head, "  "], fault.place, indent=NOTE_CELLS)
        page.paragraph(said(fault.expected, fault.found), indent=NOTE_CELLS)
        head = [" " * (NOTE_CELLS - 2)]
    more = len(answer.faults) - len(shown) + answer.more
    if more:
        page.line(" " * NOTE_CELLS, f"and {more:,} more: --json lists them")
