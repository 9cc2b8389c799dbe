"""`causebook log`: the records themselves, in the order they were committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...domain.errors import BadData, Busy, Misuse, NoInput, RecordError
from ...domain.record import Record, parse
from ...domain.streams import evaluations_prefix, parse_stream, require_id, task_stream
from ..store.port import Row
from ..store.snapshot import Snapshot, open_snapshot
from .reading import read
from .terminal import Terminal, flowing, json_line, out, short

Wanted = Callable[[str], bool]


def log(which: str | None, url: str, *, as_json: bool) -> int:
    """Print the records of a task, of a stream, or all."""
    page = _Page(out(), as_json)
    if which is not None:
        wanted = _wanted(which)
        found = read(url, lambda snapshot: list(_records(snapshot, wanted)))
        if not found:
            raise NoInput(
                f"{which}: no such task or stream", hint="causebook tasks lists the tasks"
            )
        for number, record in found:
            page.show(number, record)
        return 0
    # All of it can be more than memory holds, so it is printed while it is read.
    try:
        snapshot = open_snapshot(url)
    except Busy:
        snapshot = open_snapshot(url, live=True)
    with snapshot:
        for number, record in _records(snapshot, lambda stream: True):
            page.show(number, record)
    return 0


def _wanted(which: str) -> Wanted:
    try:
        parse_stream(which)
    except ValueError:
        if "/" in which:
            raise Misuse(
                f"{which}: expected a task's id or a stream's name",
                hint="ledger, task/TASK, evaluation/TASK/ATTEMPT/PHASE/JUDGE, or TASK for all of its streams",
            ) from None
        own, prefix = task_stream(require_id(which, "task")), evaluations_prefix(which)
        return lambda stream: stream == own or stream.startswith(prefix)
    if which == "ledger":
        return lambda stream: stream == which or stream == task_stream(which)
    return lambda stream: stream == which


def _records(snapshot: Snapshot, wanted: Wanted) -> Iterator[tuple[int, Record]]:
    """(ordinal in commit order from 0, record)."""
    for number, (_, row) in enumerate(snapshot.rows()):
        if wanted(row.stream):
            yield number, _record(row)


def _record(row: Row) -> Record:
    try:
        return parse(row.record)
    except RecordError as error:
        raise BadData(
            f"{row.stream} v{row.version}: {error.message}",
            hint="causebook verify says all that is wrong",
        ) from None


@dataclass
class _Page:
    """What is printed. For a person, records of one stream stand together below its name; on a terminal a
    line ends where the terminal does.
    """

    page: Terminal
    as_json: bool
    _date: str = ""
    _stream: str = ""

    def show(self, number: int, record: Record) -> None:
        """Print one record; `number` is its ordinal in the log."""
        if self.as_json:
            self.page.raw(json_line(_document(number, record)))
            return
        date, time = record.at[:10], record.at[11:19]
        if (date, record.stream) != (self._date, self._stream):
            self.page.line((record.stream, "strong"), "" if date == self._date else f"  {date}")
            self._date, self._stream = date, record.stream
        head = f"{number:>5}  {time}  {short(record.digest)}  v{record.version:<3} "
        kind = f"{record.type:<18} "
        said = _gist(record)
        if self.page.is_terminal:
            said = self.page.fit(said, self.page.width - len(head + kind))
        style = _STYLES.get(record.type, "")
        if said:
            self.page.line((head, "dim"), (kind, style), said)
        else:
            self.page.line((head, "dim"), (kind.rstrip(), style))


def _document(number: int, record: Record) -> dict[str, Any]:
    return {
        "seq": number,
        "stream": record.stream,
        "version": record.version,
        "type": record.type,
        "at": record.at,
        "data": record.data,
        "digest": record.digest,
        "key": record.keyid,
    }


_STYLES = {
    "VerdictGiven": "strong",
    "EvaluationFailed": "bad",
    "TaskHalted": "bad",
    "PanelDecided": "strong",
    "TaskCompleted": "good",
    "ResolutionRecorded": "warn",
}
_NAMED = ("attempt", "turn", "first_turn", "turns_used", "stall")
_NAME = ("attempt", "phase", "judge")
_BARE = (
    *("phase", "judge", "tool", "target", "match", "policy", "action", "raw_halt_type", "outcome"),
    *("decision", "name", "role", "severity", "cause", "reason", "justification"),
)


def _gist(record: Record) -> str:
    """The fields that a person looks for: numbers by name, texts as they are."""
    data = record.data
    # What the name of an evaluation's stream says is not said again.
    known = _NAME if record.type == "EvaluationOpened" else ()
    numbers = [
        f"{n.replace('_', ' ')} {data[n]}"
        for n in _NAMED
        if isinstance(data.get(n), int) and n not in known
    ]
    texts = [
        flowing(data[n])
        for n in _BARE
        if isinstance(data.get(n), str) and data[n] and n not in known
    ]
    return ", ".join([*numbers, *texts])
