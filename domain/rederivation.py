"""The law of an evaluation, derived again from its events alone.

The record holds every answer the law took: the response with its calls, each read's answer, each failed try.
`rederive` puts those through the very code that judged live (`domain/evaluation.py`) and compares each event
that must follow with the one that stands there. The first that differs is a `Divergence`. It needs no
evidence: what a rule looks at is in the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .admission import over_limit
from .evaluation import Evaluation, answer, fail, grants_fault, hear, interrupt, open_turn
from .events import (
    EvaluationFailed,
    EvaluationOpened,
    Event,
    ModelCallFailed,
    ModelResponded,
    ReadAnswered,
    ToolChoiceDeclined,
)
from .streams import StreamName
from .tools import SUBMIT_VERDICT

_MISSING: Final = ReadAnswered(
    turn=1,
    call=0,
    tool="-",
    target="",
    key="0" * 64,
    result="0" * 64,
    lines=None,
    cut=False,
    error=True,
    blob=None,
)


@dataclass(frozen=True)
class Divergence:
    """Where a record leaves the law. `version` is the record's; past the last it is one more."""

    version: int
    expected: str
    found: str


class _Diverged(Exception):
    def __init__(self, version: int, expected: str, found: str) -> None:
        super().__init__(expected)
        self.divergence = Divergence(version, expected, found)


@dataclass
class _Recorded:
    """The recorded events of one stream, read from the front."""

    events: Sequence[Event]
    at: int = 0

    def peek(self) -> Event | None:
        return self.events[self.at] if self.at < len(self.events) else None

    def take(self, expected: Event) -> None:
        """The next event must be `expected`."""
        found = self.peek()
        if type(found) is not type(expected) or found.__dict__ != expected.__dict__:
            raise _Diverged(self.at + 1, *_difference(expected, found))
        self.at += 1

    def refuse(self, expected: str) -> _Diverged:
        found = self.peek()
        return _Diverged(self.at + 1, expected, "the end" if found is None else found.kind())


def rederive(name: StreamName, events: Sequence[Event]) -> Evaluation | Divergence:
    """The state that the recorded `events` of an evaluation come to, or where they leave the law.

    A stream that ends between two turns is an evaluation still open, which is lawful.
    """
    recorded = _Recorded(events)
    try:
        evaluation = _opened(name, recorded)
        while recorded.peek() is not None:
            if evaluation.closed is not None:
                raise recorded.refuse("nothing after the event that closed the evaluation")
            _turn(evaluation, recorded)
    except _Diverged as diverged:
        return diverged.divergence
    return evaluation


def _opened(name: StreamName, recorded: _Recorded) -> Evaluation:
    opened = recorded.peek()
    if not isinstance(opened, EvaluationOpened):
        raise recorded.refuse("EvaluationOpened first")
    if (opened.task, opened.attempt, opened.phase, opened.judge) != (
        name.task,
        name.attempt,
        name.phase,
        name.judge,
    ):
        raise _Diverged(
            1,
            "task, attempt, phase and judge of the stream's own name",
            f"{opened.task}, {opened.attempt}, {opened.phase}, {opened.judge}",
        )
    fault = grants_fault(opened)
    if fault is not None:
        raise _Diverged(1, "the tools of the law", fault)
    recorded.at = 1
    return Evaluation(opened)


def _turn(evaluation: Evaluation, recorded: _Recorded) -> None:
    found = recorded.peek()
    if isinstance(found, EvaluationFailed) and found.cause == "interrupted":
        for event in interrupt(evaluation):
            recorded.take(event)
        return
    if evaluation.opened.prompt is None or evaluation.opened.criteria is None:
        raise recorded.refuse("interrupted: a judge without prompt and criteria never ran")
    for event in open_turn(evaluation):
        recorded.take(event)
    tries = _failed_tries(evaluation, recorded)
    responded = recorded.peek()
    if isinstance(responded, EvaluationFailed):
        if not tries or isinstance(tries[-1], ToolChoiceDeclined):  # rules 8, 9
            raise recorded.refuse(
                "ModelResponded, or the tries that failed, asked again where declined"
            )
        for event in fail(evaluation, tries)[len(tries) :]:
            recorded.take(event)
        return
    if not isinstance(responded, ModelResponded):
        raise recorded.refuse("ModelResponded")
    _response_follows(evaluation, responded, tries, recorded)
    turn = hear(evaluation, responded)
    following: list[Event]
    try:
        place, read = next(turn)
        # What was said before the first read is compared when the turn is whole; the answers in between
        # stand where the law puts them, so each is found by looking ahead. Where none is left, one that
        # stands nowhere takes its place, so that the comparison names where it is missing.
        ahead = recorded.at
        while True:
            ahead, answered = _next_answer(recorded, ahead)
            expected = answer(
                read,
                turn=evaluation.turn,
                call=place,
                result=answered.result,
                lines=answered.lines,
                cut=answered.cut,
                error=answered.error,
                blob=answered.blob,
            )
            place, read = turn.send(expected)
    except StopIteration as stop:
        following = stop.value
    for event in following:
        recorded.take(event)


def _failed_tries(
    evaluation: Evaluation, recorded: _Recorded
) -> list[ModelCallFailed | ToolChoiceDeclined]:
    tries: list[ModelCallFailed | ToolChoiceDeclined] = []
    while isinstance(found := recorded.peek(), ModelCallFailed | ToolChoiceDeclined):
        if found.turn != evaluation.turn or found.try_number != len(tries) + 1:
            raise recorded.refuse(f"try {len(tries) + 1} of turn {evaluation.turn}")
        if isinstance(found, ToolChoiceDeclined) and (
            not evaluation.withdrawn or any(isinstance(t, ToolChoiceDeclined) for t in tries)
        ):
            raise recorded.refuse("tool_choice declined once, where it was asked for")
        # No status: the client library declined it without asking.
        if isinstance(found, ToolChoiceDeclined) and found.status not in (None, 400, 422):
            raise recorded.refuse("tool_choice declined with status 400 or 422")
        tries.append(found)
        recorded.at += 1
    return tries


def _response_follows(
    evaluation: Evaluation,
    responded: ModelResponded,
    tries: Sequence[Event],
    recorded: _Recorded,
) -> None:
    if responded.turn != evaluation.turn or responded.try_number != len(tries) + 1:
        raise recorded.refuse(f"the response to try {len(tries) + 1} of turn {evaluation.turn}")
    if responded.calls_total < len(responded.calls) or (
        responded.calls_total > len(responded.calls) and len(responded.calls) < 64
    ):
        raise recorded.refuse("all of the first 64 calls")
    place = over_limit(responded.calls)
    if place is not None:
        raise recorded.refuse(f"call {place} withheld, being over a limit")
    declined = any(isinstance(t, ToolChoiceDeclined) for t in tries)
    if responded.tool_choice_sent != (evaluation.withdrawn and not declined):  # rules 2, 9
        raise recorded.refuse("tool_choice sent exactly where it was asked for and not declined")
    if not evaluation.withdrawn:
        honoured: set[bool | None] = {None}
    elif any(call.name == SUBMIT_VERDICT for call in responded.calls):
        honoured = {True}
    else:  # calls past the first 64 are not in the record
        honoured = {False, responded.calls_total > len(responded.calls)}
    if responded.tool_choice_honoured not in honoured:
        raise recorded.refuse("whether tool_choice was honoured, exactly where it was asked for")


def _next_answer(recorded: _Recorded, ahead: int) -> tuple[int, ReadAnswered]:
    for at in range(ahead, len(recorded.events)):
        event = recorded.events[at]
        if isinstance(event, ReadAnswered):
            return at + 1, event
    return len(recorded.events), _MISSING


def _difference(expected: Event, found: Event | None) -> tuple[str, str]:
    """Both sides in a few words: the first field that differs, or the type."""
    if found is None:
        return expected.kind(), "the end"
    if type(found) is not type(expected):
        return expected.kind(), found.kind()
    wanted, stood = expected.data(), found.data()
    name = next(key for key in wanted if wanted[key] != stood[key])
    return f"{expected.kind()}.{name} {wanted[name]!r}", f"{stood[name]!r}"
