"""`causebook why`: why a task halted or passed, in one screen.

The first line is the answer, the second the reason. Below stand the panel, its judges, the turns of the judge
that decided it, the records the decision rests on, and whether they hold. Nothing here decides anything: all
of it is folded from the task's own records, and these are checked first.
"""

from __future__ import annotations

from typing import Final

from ...domain.errors import BadData, NoInput
from ...domain.events import AttemptStarted
from ...domain.streams import require_id, shorten
from ...projections.course import course
from ...projections.facts import TaskFacts
from ...projections.halt_payload import halt_payload
from ..findings import counted
from ..store.snapshot import Snapshot
from ..task_check import TaskCheck, TaskRows, check_task, task_rows
from .findings import missing_record, show_finding
from .reading import at_ledger, read
from .terminal import Terminal, json_page, out
from .why_page import Answer, Screen

FINDINGS_SHOWN_MAX: Final = 5


def why(task: str, attempt: int | None, judge: str | None, url: str, *, as_json: bool) -> int:
    """Print why; 0, or the exit code of what does not hold."""
    require_id(task, "task")
    rows, checked = read(url, lambda snapshot: _checked(snapshot, task))
    page = out()
    try:
        whole = rows.facts()
        newest = course(whole).attempts
        facts = as_of(whole, attempt)
        answer = Answer(task, facts, course(facts), halt_payload(facts), checked, len(newest))
    except BadData as error:
        if checked.holds:
            raise
        _show_findings(page, task, checked, at_ledger(url))
        gap = missing_record(checked.findings)
        why_not = error.message if gap is None else f"{gap} is missing."
        page.paragraph(f"No more can be told: {why_not}", indent=2, hang=4)
        return checked.code
    shown = _judge_to_show(answer, judge)
    if as_json:
        page.raw(json_page(answer.payload))
        return checked.code
    if not checked.holds:
        _show_findings(page, task, checked, at_ledger(url))
        if checked.records_hold:
            page.line(
                "  What follows stands in records that hold. Not all they commit to can be shown."
            )
        else:
            page.line("  What follows is what stands there, and is not to be relied on.")
        page.blank()
    Screen(page, answer, at_ledger(url)).show(shown, whole=judge is not None)
    return checked.code


def _checked(snapshot: Snapshot, task: str) -> tuple[TaskRows, TaskCheck]:
    rows = task_rows(snapshot, task)
    return rows, check_task(rows)


def as_of(facts: TaskFacts, attempt: int | None) -> TaskFacts:
    """What was recorded up to the end of an attempt. Raises `NoInput` where there is none of that number."""
    if attempt is None:
        return facts
    starts = {
        entry.event.attempt: place
        for place, entry in enumerate(facts.own)
        if isinstance(entry.event, AttemptStarted)
    }
    if attempt not in starts:
        known = f"1 to {len(starts)}" if starts else "none"
        raise NoInput(
            f"task {facts.task}: expected an attempt of it, {known}, found {attempt}",
            hint=f"causebook why {facts.task} shows the newest",
        )
    end = starts.get(attempt + 1, len(facts.own))
    return TaskFacts(facts.task, facts.own[:end], facts.evaluations)


def _judge_to_show(answer: Answer, wanted: str | None) -> str | None:
    """The judge whose turns are shown: the one asked for, else the first that decided it."""
    panel = answer.told.panel
    judges = [] if panel is None else [m.judge for m in panel.convened.event.judges]
    if wanted is not None:
        if wanted not in judges:
            raise NoInput(
                f"--judge: expected a judge of the panel shown, found {shorten(wanted)}",
                hint=f"there are {', '.join(judges)}" if judges else "no panel was convened",
            )
        return wanted
    results = answer.payload["validator_results"]
    if panel is None or panel.decided is None or answer.told.attempts[-1].engine_halt is not None:
        return None
    for matters in (
        lambda r: r["error"],
        lambda r: r["severity"] == "blocker",
        lambda r: r["severity"] == "warn",
        lambda r: True,
    ):
        for result in results:
            if matters(result):
                return str(result["judge"])
    return None


def _show_findings(page: Terminal, task: str, checked: TaskCheck, at: str) -> None:
    if checked.records_hold:
        page.line((f"{task}: the record holds, but {checked.meaning}", "bad"))
    else:
        page.line((f"{task}: the record does not hold: {checked.meaning}", "bad"))
    for finding in checked.findings[:FINDINGS_SHOWN_MAX]:
        show_finding(page, finding)
    more = len(checked.findings) - FINDINGS_SHOWN_MAX
    rest = f"{counted(more, 'more finding')}: " if more > 0 else "all of the ledger: "
    page.line(f"  {rest}causebook verify{at}")
