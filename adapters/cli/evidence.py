"""`causebook evidence`: what the judges of a task were told, what they read, what they answered.

A record holds a commitment to each such item, `SHA-256(salt ‖ bytes)`; the bytes lie beside the log. An item
is held against its commitment before anything of it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...domain.errors import BadData, Misuse, NoInput
from ...domain.events import (
    CoderDispatched,
    EvaluationOpened,
    Event,
    EvidenceErased,
    ModelResponded,
    PanelConvened,
    ReadAnswered,
    TaskOpened,
    Withheld,
)
from ...domain.evidence import commitments_of, response_from
from ...domain.record import Record
from ...domain.streams import require_id, shorten
from ..findings import DIFFERS, INTACT, TAMPERED, counted
from ..reading import Unreadable, evidence_fault, unpacked
from ..reading import read as read_row
from ..store.snapshot import Snapshot
from ..task_check import TaskCheck, TaskRows, check_task, task_rows
from .reading import at_ledger, read
from .terminal import Terminal, complain, json_page, out, short, warn

DIGITS_MIN: Final = 4
_COMMITMENT: Final = re.compile(rf"[0-9a-f]{{{DIGITS_MIN},64}}")
_STYLES: Final = {"erased": "warn", "missing": "bad", "altered": "bad"}


@dataclass(frozen=True)
class Item:
    """One item. `state`: kept, erased, missing or altered; `length` in bytes, where it is kept."""

    stream: str
    version: int
    type: str
    what: str
    commitment: str
    state: str
    length: int | None

    def document(self) -> dict[str, Any]:
        """The item as JSON can say it."""
        return {**vars(self)}


@dataclass(frozen=True)
class _Found:
    """What a snapshot gave: the items, whether the records hold, and the body of the one asked for."""

    items: list[Item]
    checked: TaskCheck
    erased: EvidenceErased | None
    chosen: Item | None = None
    body: bytes | None = None
    fault: str | None = None


def evidence(task: str, wanted: str | None, url: str, *, raw: bool, as_json: bool) -> int:
    """List the evidence of a task, or print one item; 0, or the exit code of what does not hold."""
    require_id(task, "task")
    digits = None if wanted is None else _digits(wanted)
    if raw and (digits is None or as_json):
        raise Misuse(
            "--raw: expected a COMMITMENT beside it, and no --json",
            hint=f"causebook evidence {task} lists them",
        )
    page = out()
    if raw and page.is_terminal:
        raise Misuse(
            "--raw: expected stdout to be a file or a pipe, found a terminal",
            hint="without --raw the item is printed as text that is safe there",
        )
    found = read(url, lambda snapshot: _find(snapshot, task, digits))
    code = _records_code(found.checked)
    if code:
        warn(f"task {task}: the record does not hold: causebook why {task}{at_ledger(url)}")
    if found.chosen is None:
        _list(page, task, found, at_ledger(url), as_json=as_json)
        return max(code, _evidence_code(found.items))
    return max(code, _show(page, task, found, raw=raw, as_json=as_json))


def _records_code(checked: TaskCheck) -> int:
    codes = [finding.code for finding in checked.findings if finding.check != "evidence"]
    return max(codes, default=INTACT)


def _evidence_code(items: list[Item]) -> int:
    states = {item.state for item in items}
    return TAMPERED if "altered" in states else DIFFERS if "missing" in states else INTACT


def _digits(wanted: str) -> str:
    # As a page shows it, "3f9a07c2…" can be typed or pasted.
    digits = wanted.removesuffix("…").removesuffix("...")
    if _COMMITMENT.fullmatch(digits) is None:
        raise Misuse(
            f"COMMITMENT: expected {DIGITS_MIN} to 64 digits of 0-9 a-f, found {shorten(wanted)}",
            hint="causebook evidence TASK lists the commitments",
        )
    return digits


# ── what there is ────────────────────────────────────────────────────────────────────────────────────


def _find(snapshot: Snapshot, task: str, digits: str | None) -> _Found:
    rows = task_rows(snapshot, task)
    upto, erased = rows.erasures()
    named = list(_named(rows))
    if digits is None:
        items = [_item(rows, upto, *each)[0] for each in named]
        return _Found(items, check_task(rows), erased)
    matches = [each for each in named if each[3].startswith(digits)]
    if len(matches) != 1:
        raise _not_one(task, digits, [each[3] for each in matches])
    item, body, fault = _item(rows, upto, *matches[0])
    return _Found([item], check_task(rows), erased, item, body, fault)


def _not_one(task: str, digits: str, matches: list[str]) -> NoInput | Misuse:
    if not matches:
        return NoInput(
            f"evidence {digits}: no record of task {task} commits to it",
            hint=f"causebook evidence {task} lists what they commit to",
        )
    return Misuse(
        f"COMMITMENT: expected one item, found {len(matches)} that begin with {digits}",
        hint="more digits tell them apart: " + ", ".join(name[:16] for name in matches[:3]),
    )


def _named(rows: TaskRows) -> Iterator[tuple[Record, Event, str, str]]:
    """(record, event, what it is, commitment) of each item, under the first record that names it."""
    seen: set[str] = set()
    for name in [f"task/{rows.task}", *rows.streams(f"evaluation/{rows.task}/")]:
        for row in rows.stream(name):
            try:
                record, event = read_row(row)
            except Unreadable:
                continue  # the check says so
            for place, commitment in enumerate(commitments_of(event)):
                if commitment not in seen:
                    seen.add(commitment)
                    yield record, event, _what(event, place, commitment), commitment


def _what(event: Event, place: int, commitment: str) -> str:
    match event:
        case TaskOpened():
            return "spec of the task"
        case PanelConvened():
            return f"brief of the panel at {event.phase}"
        case CoderDispatched():
            return "orders of the coder"
        case EvaluationOpened():
            return "what the judge was told first" if place == 0 else "brief"
        case ReadAnswered():
            return f"turn {event.turn}, {event.tool} {event.target}"
        case ModelResponded() if commitment == event.content:
            return f"turn {event.turn}, the model's answer"
        case ModelResponded():
            return f"turn {event.turn}, {_part(event, commitment)}"
    turn, number = getattr(event, "turn", 0), getattr(event, "try_number", 0)
    return f"turn {turn}, why try {number} failed"


def _part(event: ModelResponded, commitment: str) -> str:
    for number, call in enumerate(event.calls, 1):
        for name in ("id", "name", "arguments"):
            text = getattr(call, name)
            if isinstance(text, Withheld) and text.commitment == commitment:
                return f"the {name} of call {number}"
    return "a part of the answer"


def _item(
    rows: TaskRows,
    upto: Mapping[str, int],
    record: Record,
    event: Event,
    what: str,
    commitment: str,
) -> tuple[Item, bytes | None, str | None]:
    """The item, its bytes where it holds, and what does not hold of it."""
    row = rows.evidence(commitment)
    body, fault = None, None
    if row is None:
        erased = record.version <= upto.get(record.stream, 0)
        state = "erased" if erased else "missing"
    else:
        fault = evidence_fault(row)
        body = unpacked(row) if fault is None else None
        state = "kept" if fault is None else "altered"
    length = None if body is None else len(body)
    item = Item(record.stream, record.version, event.kind(), what, commitment, state, length)
    return item, body, fault


# ── the list ─────────────────────────────────────────────────────────────────────────────────────────


def _list(page: Terminal, task: str, found: _Found, at: str, *, as_json: bool) -> None:
    if as_json:
        page.raw(json_page({"task": task, "items": [item.document() for item in found.items]}))
        return
    total = sum(item.length or 0 for item in found.items)
    page.line(
        (f"{task}: {counted(len(found.items), 'item')} of evidence", "strong"), f", {total:,} bytes"
    )
    if found.erased is not None:
        _erased_by(page, found.erased)
    stream = ""
    sizes = [f"{item.length:,}" if item.length is not None else item.state for item in found.items]
    widest = max([*map(len, sizes), 5])
    what_cells = min(max([page.cells(i.what) for i in found.items] + [0]), page.width - widest - 22)
    for item, size in zip(found.items, sizes, strict=True):
        if item.stream != stream:
            stream = item.stream
            page.blank()
            page.line("  ", (stream, "strong"))
        page.line(
            (f"  v{item.version:<4} ", "dim"),
            page.pad(page.fit(item.what, what_cells), what_cells),
            "  ",
            (f"{size:>{widest}}", _STYLES.get(item.state, "")),
            "  ",
            short(item.commitment),
        )
    page.blank()
    page.command("  next  ", f"causebook evidence {task} COMMITMENT{at}")


def _erased_by(page: Terminal, erased: EvidenceErased) -> None:
    page.paragraph(
        f"erased by {erased.name}: {counted(erased.count, 'item')}, {erased.reason}", indent=2
    )


# ── one item ─────────────────────────────────────────────────────────────────────────────────────────


def _show(page: Terminal, task: str, found: _Found, *, raw: bool, as_json: bool) -> int:
    """Print the item that was asked for. Raises `NoInput` where it is gone."""
    item, body = found.chosen, found.body
    if item is None:
        raise ValueError("no item was asked for")
    if found.fault is not None:
        complain(
            f"evidence {item.commitment}: expected the bytes committed to, found {found.fault}",
            f"compare with an older copy; it is of {item.stream} v{item.version}",
        )
        return TAMPERED
    if body is None:
        raise _gone(item, found.erased)
    if raw:
        page.bytes(body)
        return INTACT
    text = _text(item, body)
    if as_json:
        page.raw(json_page({"task": task, **item.document(), "text": text}))
        return INTACT
    page.line((f"{item.stream} v{item.version} {item.type}", "strong"))
    page.line(f"{item.what}, {len(body):,} bytes, as committed to")
    page.line((item.commitment, "dim"))
    page.blank()
    for line in text.split("\n"):
        page.line(line.expandtabs(8))
    return INTACT


def _gone(item: Item, erased: EvidenceErased | None) -> NoInput:
    where = f"evidence {item.commitment}"
    if item.state == "erased" and erased is not None:
        return NoInput(
            f"{where}: erased by {erased.name}: {erased.reason}",
            hint="its commitment stands in the record; a copy, if you have one, can be held against it",
        )
    return NoInput(
        f"{where}: missing, and no EvidenceErased names it",
        hint="an older copy of the ledger may have it",
    )


def _text(item: Item, body: bytes) -> str:
    """The bytes as text. A model's answer, which is kept as JSON, is spelled out."""
    if item.what.endswith("the model's answer"):
        try:
            return _answer(body)
        except ValueError as error:
            raise BadData(
                f"evidence {item.commitment}: not a model's answer: {error}",
                hint="--raw prints its bytes",
            ) from None
    try:
        return body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body.decode("utf-8", "backslashreplace")


def _answer(body: bytes) -> str:
    response = response_from(body)
    lines = [response.content] if response.content else []
    lines += [f"→ {call.name} {call.arguments}" for call in response.calls]
    return "\n".join(lines) or "(silence)"
