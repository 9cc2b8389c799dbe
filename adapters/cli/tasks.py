"""`causebook tasks`: every task in a line."""

from __future__ import annotations

import re
from typing import Any, Final

from ...domain.errors import BadData
from ...domain.streams import evaluations_prefix, parse_stream, shorten, task_stream
from ...projections.facts import TaskFacts, read_stream
from ...projections.tasks import task_line
from ..store.snapshot import Snapshot
from .due import due
from .reading import at_ledger, read
from .terminal import Column, Part, json_page, out

_ID_CELLS: Final = 24
_STYLES = {"completed": "good", "blocked": "bad", "open": "warn"}


def tasks(url: str, *, as_json: bool) -> int:
    """Print every task."""
    lines, cut = read(url, _lines)
    page = out()
    if as_json:
        page.raw(json_page({"tasks": lines}))
        return 0
    if not lines:
        page.line("no task is recorded yet")
        page.command(
            "  next  ", f"causebook judge TASK --protocol FILE --workspace DIR{at_ledger(url)}"
        )
        return 0
    blocked = sum(line["status"] == "blocked" for line in lines)
    page.line(
        (f"{len(lines):,} {'task' if len(lines) == 1 else 'tasks'}, {blocked:,} blocked", "strong")
    )
    page.blank()
    columns = [
        Column("task", whole=True),
        Column("status"),
        Column("halt"),
        Column("attempt, phase"),
        Column("judges", right=True),
        Column("last heard, UTC"),
    ]
    rows = [_row(line, cut=line["task"] in cut) for line in lines]
    # A task's id is what the next command needs: others give way to it, but not all to a few long ones, each
    # of which stands on a line of its own.
    usual = [row for row in rows if page.cells(str(row[0])) <= _ID_CELLS] or rows[:0]
    for place in (4, 4):
        if page.table_width(columns, usual) > page.width:
            del columns[place]
            for row in rows:
                del row[place]
    page.table(columns, rows)
    if cut:
        page.blank()
        page.line("  cut: what followed the last decision is missing; causebook why TASK says more")
    page.blank()
    page.command("  next  ", f"causebook why TASK{at_ledger(url)}")
    return 0


def _row(line: dict[str, Any], *, cut: bool) -> list[Part]:
    attempt = "" if line["attempt"] is None else f"{line['attempt']} {line['phase'] or ''}"
    return [
        line["task"],
        ("cut", "bad") if cut else (line["status"], _STYLES[line["status"]]),
        line["halt_type"] or "",
        attempt.rstrip(),
        str(line["judges"]),
        line["at"][:16].replace("T", " "),
    ]


def _lines(snapshot: Snapshot) -> tuple[list[dict[str, Any]], set[str]]:
    """A line for each task, and the tasks whose stream was cut (`due`)."""
    lines, cut = [], set()
    for task in sorted(map(_task, snapshot.streams("task/")), key=_natural):
        facts = _facts(snapshot, task)
        lines.append(task_line(facts))
        if due(facts) is not None:
            cut.add(task)
    return lines, cut


def _natural(task: str) -> list[tuple[bool, int, str]]:
    """T-2 before T-15: runs of digits by their number."""
    parts = re.split(r"([0-9]+)", task)
    return [(p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in parts]


def _task(stream: str) -> str:
    try:
        return parse_stream(stream).task or ""
    except ValueError:
        raise BadData(
            f"{shorten(stream)}: expected the name of a stream",
            hint="causebook verify says all that is wrong",
        ) from None


def _facts(snapshot: Snapshot, task: str) -> TaskFacts:
    own = task_stream(task)
    names = [own, *snapshot.streams(evaluations_prefix(task))]
    entries = {
        name: read_stream(name, [row.record for row in snapshot.stream(name)]) for name in names
    }
    return TaskFacts(task, entries.pop(own), entries)
