"""`causebook verify` and `causebook replay`: whether the record holds, and decides the same again."""

from __future__ import annotations

from typing import Final

from ...domain.errors import BadData
from ...domain.streams import parse_stream, require_id
from ...projections.catalogue import PROJECTIONS
from ..findings import DIFFERS, FIRST_LOOK, INTACT, MEANINGS, Check, Report, counted, listed
from ..projector import check as check_projections
from ..projector import obstacle
from ..reading import Source
from ..replay import EvaluationReplay, ReplayReport
from ..replay import replay as replay_task
from ..store.snapshot import Snapshot, open_snapshot
from ..verify import Difference
from ..verify import verify as verify_ledger
from .findings import FINDINGS_SHOWN_MAX, said, show_place, stream_of, together
from .reading import at_ledger, read
from .terminal import Column, Part, Terminal, json_page, out

_STYLES: Final = {"PASS": "good", "FAIL": "bad", "NOT CHECKED": "warn"}
_NOTE_CELLS: Final = 29


def verify(url: str, *, live: bool, as_json: bool) -> int:
    """Check the whole ledger; the exit code of the worst that was found."""
    with open_snapshot(url, live=live) as snapshot:
        report = _report(snapshot)
    page = out()
    if as_json:
        page.raw(json_page(report.document()))
        return report.code
    _show_report(page, report, at_ledger(url))
    return report.code


def _report(snapshot: Snapshot) -> Report:
    underivable: list[str] = []

    def compare(_: Source) -> list[Difference]:
        try:
            return list(together(check_projections(snapshot)))
        except BadData as error:
            underivable.append(error.message)
            return []

    report = verify_ledger(snapshot, projections_check=compare)
    check = report["projections"]
    if underivable:
        check.skip("nothing is derived from records that do not hold")
        return report
    obstacles = {p.name: why for p in PROJECTIONS if (why := obstacle(snapshot, p)) is not None}
    if check.status == "PASS":
        held = len(PROJECTIONS) - len(obstacles)
        missing = f"; {listed(obstacles)} {next(iter(obstacles.values()))}" if obstacles else ""
        if held:
            check.note = f"{held} agree with the events{missing}"
        else:
            check.skip("none is made yet: causebook rebuild")
    return report


def _show_report(page: Terminal, report: Report, at: str) -> None:
    page.line(
        (report.origin, "strong"),
        f", {counted(report.records, 'record')} in {counted(report.streams, 'stream')}",
    )
    page.blank()
    for check in report.checks:
        _show_check(page, check)
    if report.open_evaluations:
        page.blank()
        page.line(f"  {counted(len(report.open_evaluations), 'evaluation')} still open:")
        for stream in report.open_evaluations[:FINDINGS_SHOWN_MAX]:
            page.line(f"    {stream}")
    page.blank()
    if report.code in (INTACT, FIRST_LOOK):
        page.line((report.meaning, "good" if report.code == INTACT else "warn"))
    else:
        page.line((report.meaning, "bad"))
    if report.code == FIRST_LOOK:
        page.line(f"founding {report.founding}")
        page.line(("hint:", "strong"), " hold that digest against the one the founder gives you")
    elif report.code != INTACT:
        _hint(page, report, at)


def _hint(page: Terminal, report: Report, at: str) -> None:
    """What to do about the worst that was found."""
    worst = [finding for finding in report.findings if finding.code == report.code]
    # One that names a stream says where to look.
    finding = next((each for each in worst if stream_of(each.place)), worst[0])
    check, stream = report[finding.check], stream_of(finding.place)
    command = ""
    if check.name == "projections":
        text = "the records stand; what is derived from them is made anew by"
        command = f"causebook rebuild{at}"
    elif check.name == "evidence" and report.code == DIFFERS:
        text = "the records stand; put the evidence back from an older copy of the ledger"
    elif check.name == "law" and stream is not None:
        text = "signed by who may, and against the rules; the decision, step by step:"
        command = f"causebook why {stream.split('/')[1]}{at}"
    else:
        text = "compare with an older copy of the ledger"
        if stream is not None:
            text += "; the records there:"
            command = f"causebook log {stream}{at}"
    page.line(("hint:", "strong"), f" {text}")
    if command:
        page.command("      ", command)


def _show_check(page: Terminal, check: Check) -> None:
    status = f"{check.status:<11}" if check.note or check.findings else check.status
    head: list[Part] = [f"  {check.name:<12}  ", (status, _STYLES[check.status])]
    if not check.findings:
        _noted(page, head, check.note)
        return
    shown = check.findings[:FINDINGS_SHOWN_MAX]
    for finding in shown:
        show_place(page, [*head, "  "], finding.place, indent=_NOTE_CELLS)
        page.paragraph(said(finding.expected, finding.found), indent=_NOTE_CELLS)
        head = [" " * (_NOTE_CELLS - 2)]
    more = len(check.findings) - len(shown) + check.more
    if more:
        page.line(" " * _NOTE_CELLS, f"and {more:,} more: --json lists them")
    if check.note:
        page.paragraph(check.note, indent=_NOTE_CELLS)


def _noted(page: Terminal, head: list[Part], note: str) -> None:
    """A check's line, its note broken between words and standing in its own column."""
    words, line = note.split(" "), ""
    for word in words:
        longer = f"{line} {word}".strip()
        if line and _NOTE_CELLS + page.cells(longer) > page.width:
            page.line(*head, "  ", line)
            head, line = [" " * (_NOTE_CELLS - 2)], word
        else:
            line = longer
    page.line(*head, *(["  ", line] if line else []))


def replay(task: str, url: str, *, as_json: bool) -> int:
    """Decide a task again; 0, 23 where evidence is missing, 24 or 28 where something does not hold."""
    require_id(task, "task")
    report = read(url, lambda snapshot: replay_task(snapshot, task))
    page = out()
    if as_json:
        page.raw(json_page(report.document()))
        return report.code
    _show_replay(page, report, at_ledger(url))
    return report.code


def _show_replay(page: Terminal, report: ReplayReport, at: str) -> None:
    _replay_headline(page, report)
    page.blank()
    if report.evaluations:
        page.table(_REPLAY_COLUMNS, [_replay_row(each) for each in report.evaluations])
        page.blank()
    if report.held and report.note:
        page.paragraph(report.note, indent=2)
    shown = report.differences[:FINDINGS_SHOWN_MAX]
    for difference in shown:
        show_place(page, ["  "], difference.place, indent=2)
        page.paragraph(said(difference.expected, difference.found), indent=4)
    if len(report.differences) > len(shown):
        page.line(f"  and {len(report.differences) - len(shown):,} more: --json lists them")
    if report.code:
        page.command("  next  ", f"causebook verify{at}")
    else:
        page.command("  next  ", f"causebook why {report.task}{at}")


def _replay_headline(page: Terminal, report: ReplayReport) -> None:
    task = report.task
    done = f"{counted(len(report.evaluations), 'evaluation')}, {counted(report.panels, 'panel')}"
    if not report.held:
        found = f": the records do not hold: {MEANINGS[report.code]}"
        page.heading(f"{task} is not replayed", "bad", found)
    elif report.differences:
        page.heading(f"{task} comes out otherwise", "bad", f": {done}, no model called")
    elif not report.evaluations and not report.panels:
        page.heading(f"{task}: nothing to replay", "warn", ", no judge was heard yet")
    elif report.missing:
        page.heading(f"{task} replays equal", "warn", f", but evidence is missing: {done}")
    else:
        page.heading(f"{task} replays equal", "good", f": {done}, no model called")


_REPLAY_COLUMNS: Final = (
    Column("judge", whole=True),
    Column("attempt", right=True),
    Column("phase"),
    Column("records", right=True),
    Column("state"),
    Column("evidence", right=True),
)


def _replay_row(evaluation: EvaluationReplay) -> list[Part]:
    name = parse_stream(evaluation.stream)
    held = f"{evaluation.items - evaluation.from_record}/{evaluation.items}"
    return [
        name.judge or "",
        str(name.attempt),
        name.phase or "",
        f"{evaluation.records:,}",
        "closed" if evaluation.closed else "open",
        (held, "warn" if evaluation.from_record else ""),
    ]
