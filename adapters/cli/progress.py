"""A panel while it sits: one line a turn, as the turns are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...domain.errors import IOFailure
from ...domain.events import (
    CallIgnored,
    EvaluationFailed,
    Event,
    ModelCallFailed,
    ModelResponded,
    Narrated,
    PanelConvened,
    ReadAnswered,
    RepeatReadHit,
    ToolChoiceDeclined,
    ToolRefused,
    ToolsWithdrawn,
    TurnCharged,
    TurnOpened,
    TurnSpared,
    VerdictGiven,
    VerdictRejected,
)
from ..writer import Written
from .terminal import ReaderGone, Terminal

_JUDGE_CELLS_MAX = 20
_CALLED_CELLS_MIN = 12
_ACCOUNT_CELLS = 27  # "  spared   20/200  stall 3/3"


@dataclass
class Progress:
    """Prints each turn of a panel. Once that fails, the panel goes on unseen; `failed` is why."""

    page: Terminal
    convened: PanelConvened
    _used: dict[str, int] = field(default_factory=dict)
    failed: ReaderGone | IOFailure | None = None

    def __post_init__(self) -> None:
        names = [self.page.cells(mandate.judge) for mandate in self.convened.judges]
        self._cells = min(_JUDGE_CELLS_MAX, max(names))
        self._limits = {m.judge: m.max_tool_turns for m in self.convened.judges}

    def begin(self, task: str) -> None:
        """Print who judges what."""
        convened = self.convened
        said = f"{task}, attempt {convened.attempt}, {convened.phase}"
        panel = f": {convened.policy} of {len(convened.judges)}"
        self._do(lambda: self.page.heading(said, "strong", panel))

    def turn(self, judge: str, written: list[Written]) -> None:
        """Print one turn that is stored."""
        events = [record.event for record in written]
        number = next((e.turn for e in events if isinstance(e, TurnOpened)), 0)
        named = self.page.fit_middle(judge, self._cells)
        head = f"  {self.page.pad(named, self._cells)} {number:>3}  "
        for event in events:
            if isinstance(event, ToolsWithdrawn):
                self._print(head, f"tools withdrawn: {event.reason.replace('_', ' ')}")
            elif isinstance(event, ModelCallFailed | ToolChoiceDeclined):
                self._print(head, failed_try(event))
        what, how = _said(events)
        account, style = self._account(judge, events)
        if not what and not account:
            return
        # What was called gives way to what became of it, and to its account, which keeps its place; where
        # too little of it would be left, it has a line of its own.
        width = self.page.width - self.page.cells(head) - _ACCOUNT_CELLS
        if how:
            left = width - self.page.cells(how) - 3
            if self.page.cells(what) > left and left < _CALLED_CELLS_MIN:
                self._print(head, self.page.fit(what, self.page.width - self.page.cells(head)))
                head, what = " " * self.page.cells(head), how
            else:
                what = f"{self.page.fit(what, left)}   {how}"
        self._print(head, self.page.pad(self.page.fit(what, width), width), "  ", (account, style))

    def _account(self, judge: str, events: Sequence[Event]) -> tuple[str, str]:
        limit = self._limits[judge]
        for event in events:
            if isinstance(event, TurnCharged):
                self._used[judge] = event.turns_used
                return f"charged  {event.turns_used:>2}/{limit}", ""
            if isinstance(event, TurnSpared):
                used = self._used.get(judge, 0)
                stall = f"stall {event.stall}/{event.max_stall_turns}"
                return f"spared   {used:>2}/{limit}  {stall}", "warn"
        return "", ""

    def _print(self, *parts: str | tuple[str, str]) -> None:
        self._do(lambda: self.page.line(*parts))

    def _do(self, show: Callable[[], None]) -> None:
        if self.failed is not None:
            return
        try:
            show()
            self.page.flush()
        except (ReaderGone, IOFailure) as error:
            self.failed = error


def failed_try(event: ModelCallFailed | ToolChoiceDeclined) -> str:
    """One try without an answer, in a few words."""
    status = "" if event.status is None else f", status {event.status}"
    if isinstance(event, ToolChoiceDeclined):
        return (
            f"try {event.try_number}: the provider declined tool_choice{status}; asked without it"
        )
    return f"try {event.try_number} failed: {event.error}{status}"


def _said(events: Sequence[Event]) -> tuple[str, str]:
    """What the judge did in this turn and what became of it: its first call, the others counted."""
    calls = [told for event in events if (told := _call(event, events)) is not None]
    last = events[-1]
    if isinstance(last, EvaluationFailed):
        # What was called in vain matters less than that no verdict came.
        return f"error: {last.cause.replace('_', ' ')}", calls[0][0] if calls else ""
    if not calls:
        return "", ""
    # A verdict is said last, and is the call that counts.
    what, how = calls[-1] if isinstance(last, VerdictGiven) else calls[0]
    # One event stands for all the calls past the last that is answered.
    made = max([len(calls), *(e.calls_total for e in events if isinstance(e, ModelResponded))])
    more = "" if made == 1 else f"and {made - 1:,} more"
    return what, ", ".join(part for part in (how, more) if part)


def _call(event: Event, events: Sequence[Event]) -> tuple[str, str] | None:
    match event:
        case ReadAnswered():
            return f"{event.tool} {event.target}", "failed" if event.error else ""
        case RepeatReadHit():
            how = "repeat" if event.match == "exact" else "part"
            return f"{event.tool} {event.target}", f"{how} of {event.first_turn}"
        case ToolRefused():
            return _name(events, event.call), f"refused: {event.reason.replace('_', ' ')}"
        case VerdictRejected():
            return "submit_verdict", f"rejected: {event.reason.replace('_', ' ')}"
        case CallIgnored():
            return f"{event.count} ignored", ""
        case Narrated():
            return ("prose" if event.text_bytes else "silence"), ""
        case VerdictGiven():
            return f"submit_verdict {event.severity}", ""
    return None


def _name(events: Sequence[Event], call: int) -> str:
    for event in events:
        if isinstance(event, ModelResponded) and call < len(event.calls):
            name = event.calls[call].name
            return name if isinstance(name, str) else "a call whose name is withheld"
    return "a call"
