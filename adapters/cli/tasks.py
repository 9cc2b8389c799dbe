"""`causebook tasks`: every task in a line."""

from __future__ import annotations

from typing import Any

from ...domain.errors import BadData
from ...domain.streams import evaluations_prefix, parse_stream, shorten, task_stream
from ...projections.facts import TaskFacts, read_stream
from ...projections.tasks import task_line
from ..store.snapshot import Snapshot
from .reading import at_ledger, read
from .terminal import Column, Part, json_page, out

_STYLES = {"completed": "good", "blocked": "bad", "open": "warn"}


def tasks(url: str, *, as_json: bool) -> int:
    """Print every task."""
    lines = read(url, _lines)
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
        Column("task"),
        Column("status"),
        Column("halt"),
        Column("attempt, phase"),
        Column("judges", right=True),
        Column("last heard, UTC"),
    ]
    rows = [_row(line) for line in lines]
    # A task's id is what the next command needs: others give way to it.
    for place in (4, 4):
        if page.table_width(columns, rows) > page.width:
            del columns[place]
            for row in rows:
                del row[place]
    page.table(columns, rows)
    page.blank()
    page.command("  next  ", f"causebook why TASK{at_ledger(url)}")
    return 0


def _row(line: dict[str, Any]) -> list[Part]:
    attempt = "" if line["attempt"] is None else f"{line['attempt']} {line['phase'] or ''}"
    return [
        line["task"],
        (line["status"], _STYLES[line["status"]]),
        line["halt_type"] or "",
        attempt.rstrip(),
        str(line["judges"]),
        line["at"][:16].replace("T", " "),
    ]


def _lines(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [task_line(_facts(snapshot, _task(stream))) for stream in snapshot.streams("task/")]


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
