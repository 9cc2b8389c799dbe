"""One evaluation, turn by turn: what was called, what became of it, what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .terminal import Part, Terminal, flowing

_DISPOSITION_CELLS = 14
_NUMBERS_CELLS = 23  # "  charged  20/20    3/3"
JUSTIFICATION_CHARACTERS_MAX = 1200
ROWS_MAX = 16
_ROWS_BEFORE = 3

Row = tuple[str, str, str, Part, str, str]
"""Turn, what, disposition, charged or spared, used, stall."""


def show_turns(
    page: Terminal, timeline: Mapping[str, Any], *, indent: int = 2, whole: bool = True
) -> None:
    """Print the turn account of an evaluation (`projections/timeline.py`).

    Unless `whole`, a long one is shortened to its beginning and its end, which say what led to what.
    """
    rows = list(_rows(timeline))
    if not whole and len(rows) > ROWS_MAX:
        left_out = (
            f"… {len(rows) - ROWS_MAX + 1:,} lines: --judge {timeline['judge']} shows them all"
        )
        rows = [
            *rows[:_ROWS_BEFORE],
            ("", left_out, "", "", "", ""),
            *rows[_ROWS_BEFORE + 1 - ROWS_MAX :],
        ]
    used = max([len(row[4]) for row in rows] + [4])
    left = page.width - indent - 3 - _DISPOSITION_CELLS - 9 - used - 7
    widest = max([page.cells(row[1]) for row in rows if row[2] or row[3]] + [30])
    what = min(left, widest + 2)
    title, before = f"{timeline['judge']}, turn by turn", 3 + what + _DISPOSITION_CELLS + 9
    if page.cells(title) >= before:
        page.line(" " * indent, (title, "strong"))
        title = ""
    page.line(
        " " * indent, (page.pad(title, before), "strong"), (f"{'used':>{used}}  stall", "dim")
    )
    for number, said, disposition, account, turns_used, stall in rows:
        first = f"{' ' * indent}{number:<3}"
        if not disposition and not account:
            page.line(first, page.fit(said, page.width - len(first)))
            continue
        parts: list[Part] = [
            first,
            page.pad(page.fit(said, what - 1), what),
            (page.pad(disposition, _DISPOSITION_CELLS), _STYLES.get(disposition.split(" ")[0], "")),
        ]
        if account:
            text, style = account if isinstance(account, tuple) else (account, "")
            parts += [(f"{text:<9}", style), f"{turns_used:>{used}}", f"{stall:>7}"]
        page.line(*parts)
    _show_ending(page, timeline, indent)


_STYLES = {
    "repeat": "warn",
    "part": "warn",
    "refused": "warn",
    "rejected": "warn",
    "failed": "warn",
    "no": "bad",
}


def _rows(timeline: Mapping[str, Any]) -> Iterator[Row]:
    limit, stall_limit = timeline["max_tool_turns"], timeline["max_stall_turns"]
    ending = timeline["ending"]
    for turn in timeline["turns"]:
        number = str(turn["turn"])
        for text in _preamble(turn):
            yield number, text, "", "", "", ""
            number = ""
        calls = turn["calls"]
        for place, call in enumerate(calls):
            what, disposition = _call(call, turn)
            closes = ending is not None and ending["turn"] == turn["turn"]
            if closes and ending["cause"] == "no_verdict" and place == len(calls) - 1:
                disposition = "no verdict"
            if place < len(calls) - 1 or turn["account"] is None:
                yield number, what, disposition, "", "", ""
            else:
                account = (turn["account"], "warn" if turn["account"] == "spared" else "")
                stall = f"{turn['stall']}/{stall_limit}"
                yield number, what, disposition, account, f"{turn['turns_used']}/{limit}", stall
            number = ""


def _preamble(turn: Mapping[str, Any]) -> Iterator[str]:
    choice = turn["tool_choice"]
    if turn["withdrawn"] is not None:
        reason = turn["withdrawn"]["reason"].replace("_", " ")
        text = f"tools withdrawn ({reason}): submit_verdict alone, required"
        if choice["declined"]:
            text += ", declined by the provider"
        elif choice["honoured"] is False:
            text += ", not honoured"
        yield text
    for tried in turn["failed_tries"]:
        status = "" if tried["status"] is None else f", status {tried['status']}"
        if tried["declined_tool_choice"]:
            yield f"try {tried['try']}: tool_choice declined{status}, asked again without it"
        else:
            yield f"try {tried['try']} failed: {tried['error']}{status}"
    if turn["calls_total"] is None and not turn["failed_tries"] and turn["withdrawn"] is None:
        yield "no answer came"


def _call(call: Mapping[str, Any], turn: Mapping[str, Any]) -> tuple[str, str]:
    """What was called, and what became of it."""
    disposition = call["disposition"]
    tool = call["tool"] or "a call"
    match disposition:
        case "fresh" | "failed":
            return f"{tool} {call['target']}", disposition + (", cut" if call["cut"] else "")
        case "repeat":
            how = "repeat" if call["match"] == "exact" else "part"
            return f"{tool} {call['target']}", f"{how} of {call['first_turn']}"
        case "refused":
            detail = call["detail"] or call["reason"].replace("_", " ")
            return f"{tool}: {detail}", "refused"
        case "rejected":
            detail = call["detail"] or call["reason"].replace("_", " ")
            return f"{tool}: {detail}", "rejected"
        case "ignored":
            where = "beside a verdict" if call["reason"] == "beside_verdict" else "past the 64th"
            return (f"{call['count']} calls" if call["count"] > 1 else tool), f"ignored: {where}"[
                :14
            ]
        case "verdict":
            return f"submit_verdict {call['severity']}", "verdict"
    return ("prose" if turn["text_bytes"] else "silence"), "narration"


def _show_ending(page: Terminal, timeline: Mapping[str, Any], indent: int) -> None:
    ending = timeline["ending"]
    if ending is None:
        page.line(" " * (indent + 3), "still open")
        return
    rules = ", ".join(str(rule) for rule in ending["rules"])
    plural = "rules" if len(ending["rules"]) > 1 else "rule"
    law = f"({timeline['law']}, {plural} {rules})"
    if ending["error"]:
        cause = ending["cause"].replace("_", " ")
        page.line(
            " " * (indent + 3), "→ ", (f"error, {cause}, counts as a blocker", "bad"), f" {law}"
        )
        return
    styles = {"pass": "good", "warn": "warn", "blocker": "bad"}
    severity = ending["severity"]
    page.line(" " * (indent + 3), "→ ", (severity, styles[severity]), f" {law}")
    page.paragraph(quoted(ending["justification"]), indent=indent + 3)


def quoted(text: str) -> str:
    """What a judge wrote, on one line, cut where it is long."""
    said = flowing(text)
    if len(said) > JUSTIFICATION_CHARACTERS_MAX:
        said = f"{said[:JUSTIFICATION_CHARACTERS_MAX]}… ({len(text):,} characters in all: --json)"
    return f'"{said}"'
