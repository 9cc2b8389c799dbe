"""`causebook verify` and `causebook replay`: whether the record holds, and decides the same again."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Final

from ...domain.errors import Misuse
from ...domain.streams import parse_stream, require_id
from ..findings import FIRST_LOOK, INTACT, MEANINGS, Check, Report, counted
from ..handover.new_file import refuse_existing, write_bytes_new
from ..replay import EvaluationReplay, ReplayReport
from ..replay import replay as replay_task
from ..store.location import SQLiteLocation, locate
from ..verification.audit import audit
from .findings import FINDINGS_SHOWN_MAX, NOTE_CELLS, said, show_noted, show_place, stream_of
from .hints import hint_of
from .reading import at_ledger, read
from .terminal import Column, Part, Terminal, json_page, out, warn
from .verify_options import Asked, pins_of_user

_STYLES: Final = {"PASS": "good", "FAIL": "bad", "NOT CHECKED": "warn"}


def verify(url: str, asked: Asked, *, live: bool, as_json: bool, brief: bool = False) -> int:
    """Check the whole ledger, and pin what holds; the exit code of the worst that was found.

    `brief`: print the answer as one line.
    """
    asked.check()
    split_file = None if asked.split_view is None else _split_file(asked.split_view, url)
    pins, known, why_none = (None, [], "no pin is read") if asked.no_pin else pins_of_user()
    against = asked.against(url, known, why_none, live=live)
    audited = audit(url, against, pins, live=live)
    report, unkept = audited.report, audited.unkept
    if split_file is not None and report.split_view is not None:
        write_bytes_new(split_file, report.split_view.raw)
    page = out()
    if as_json:
        page.raw(json_page(report.document()))
    elif brief:
        page.line(*_brief(page, report))
    else:
        _show_report(page, report, at_ledger(url), asked)
    if split_file is not None and report.split_view is None:
        warn(f"no two signed checkpoints contradict each other: {split_file} is not written")
    if why_none and not asked.no_pin:
        warn(f"no pin was read or kept: {why_none}")
    if unkept is not None:
        if asked.require_pin:
            raise unkept
        warn(f"this look is not pinned: {unkept.message}")
    return report.code


def schema() -> int:
    """Print the schema of what `--json` prints."""
    file = resources.files("causebook.adapters.verification") / "report.schema.json"
    out().raw(file.read_text(encoding="ascii").rstrip("\n"))
    return 0


def _split_file(name: str, url: str) -> Path:
    """The file for a split view. Raises `Misuse` where it would lie beside the ledger."""
    file, where = Path(name), locate(url)
    folder = Path(os.path.realpath(file.parent))
    if isinstance(where, SQLiteLocation) and folder == where.path.parent:
        raise Misuse(
            f"--split-view: {name} lies beside the ledger, where verify writes nothing",
            hint="name a file in another folder",
        )
    refuse_existing(file)
    return file


def _brief(page: Terminal, report: Report) -> list[Part]:
    """The answer in one line: how far it holds, or the first of the worst that does not."""
    if report.code in (INTACT, FIRST_LOOK):
        doubt = "; a first look" if report.code == FIRST_LOOK else ""
        return [("intact", "good"), f": {_extent(report)}{doubt}"]
    worst = next(each for each in report.findings if each.code == report.code)
    check, what = f": {worst.check}", said(worst.expected, worst.found)
    place = f"{check}, {worst.place}"
    # The most that one line holds; where to look, before what is wrong there.
    sayings = [f"{place}: {what}"] + [f"{check}: {what}"] * (stream_of(worst.place) is None)
    fitting = (each for each in sayings if page.cells(report.meaning + each) <= page.width)
    return [(report.meaning, "bad"), next(fitting, place)]


def _show_report(page: Terminal, report: Report, at: str, asked: Asked) -> None:
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
    if report.code not in (INTACT, FIRST_LOOK):
        page.line((report.meaning, "bad"))
        text, command = hint_of(report, at, is_written=asked.split_view is not None)
        page.line(("hint:", "strong"), f" {text}")
        if command:
            page.command("      ", command)
        return
    page.line((f"intact, {_extent(report)}", "good" if report.code == INTACT else ""))
    if report.code == FIRST_LOOK:
        page.line(("but who founded it is self-asserted: a first look", "warn"))
        page.line(f"founding {report.founding}")
        page.line(("hint:", "strong"), " hold that digest against the one the founder gives you")


def _extent(report: Report) -> str:
    """How far it is known to be complete: never simply complete."""
    sealed = report.sealed or 0
    if sealed == report.records:
        return f"complete as of size {sealed:,}"
    left = report.records - sealed
    number = counted(report.records, "record")
    return f"{number}, of which {left:,} {'is' if left == 1 else 'are'} not sealed yet"


def _show_check(page: Terminal, check: Check) -> None:
    note = "; ".join(each for each in (check.note, check.earlier) if each)
    status = f"{check.status:<11}" if note or check.findings else check.status
    head: list[Part] = [f"  {check.name:<12}  ", (status, _STYLES[check.status])]
    if not check.findings:
        show_noted(page, head, note)
        return
    shown = check.findings[:FINDINGS_SHOWN_MAX]
    for finding in shown:
        show_place(page, [*head, "  "], finding.place, indent=NOTE_CELLS)
        page.paragraph(said(finding.expected, finding.found), indent=NOTE_CELLS)
        head = [" " * (NOTE_CELLS - 2)]
    more = len(check.findings) - len(shown) + check.more
    if more:
        page.line(" " * NOTE_CELLS, f"and {more:,} more: --json lists them")
    if note:
        page.paragraph(note, indent=NOTE_CELLS)


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
