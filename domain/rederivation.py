"""The law of an evaluation, derived again from its events alone.

The record holds every answer the law took: the response with its calls, each read's answer, each failed try.
`rederive` puts those through the very code that judged live (`domain/evaluation.py`). Where that code would
make an event, it is given the one that stands next in the record, if that has the class and the fields it
asks for; the first that does not is a `Divergence`. It needs no evidence: what a rule looks at is in the
record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from .admission import misjudged_length
from .evaluation import (
    E,
    Evaluation,
    P,
    answer,
    built,
    fail,
    grants_fault,
    hear,
    interrupt,
    open_turn,
)
from .events import (
    EvaluationFailed,
    EvaluationOpened,
    Event,
    ModelCallFailed,
    ModelResponded,
    ReadAnswered,
    ToolChoiceDeclined,
)
from .reads import lines_fault
from .streams import StreamName
from .tools import SUBMIT_VERDICT

_TRIES: Final = (ModelCallFailed, ToolChoiceDeclined)


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

    def make(self, kind: Callable[P, E], /, *args: P.args, **fields: P.kwargs) -> E:
        """The next event, which must be of this class and have these fields (`evaluation.Make`).

        What stands there was validated when it was read, so one that is equal need not be built again.
        """
        found = self.peek()
        if type(found) is kind and found.__dict__ == fields:
            self.at += 1
            return found  # type: ignore[return-value]
        raise _Diverged(self.at + 1, *_difference(kind(*args, **fields), found))

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
    evaluation.make = built
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
    return Evaluation(opened, make=recorded.make)


def _turn(evaluation: Evaluation, recorded: _Recorded) -> None:
    found = recorded.peek()
    if isinstance(found, EvaluationFailed) and found.cause == "interrupted":
        interrupt(evaluation)
        return
    if evaluation.opened.prompt is None or evaluation.opened.criteria is None:
        raise recorded.refuse("interrupted: a judge without prompt and criteria never ran")
    open_turn(evaluation)
    tries = _failed_tries(evaluation, recorded)
    responded = recorded.peek()
    if isinstance(responded, EvaluationFailed):
        if not tries or isinstance(tries[-1], ToolChoiceDeclined):  # rules 8, 9
            raise recorded.refuse(
                "ModelResponded, or the tries that failed, asked again where declined"
            )
        fail(evaluation, tries)
        return
    if not isinstance(responded, ModelResponded):
        raise recorded.refuse("ModelResponded")
    _response_follows(evaluation, responded, tries, recorded)
    recorded.at += 1
    turn = hear(evaluation, responded)
    with suppress(StopIteration):
        place, read = next(turn)
        while True:
            found = recorded.peek()
            if not isinstance(found, ReadAnswered):
                raise recorded.refuse(ReadAnswered.kind())
            fault = lines_fault(read, found.lines, error=found.error)
            if fault is not None:
                raise _Diverged(recorded.at + 1, fault, f"{found.lines}")
            answered = answer(
                read,
                turn=evaluation.turn,
                call=place,
                result=found.result,
                lines=found.lines,
                cut=found.cut,
                error=found.error,
                blob=found.blob,
                make=recorded.make,
            )
            place, read = turn.send(answered)


def _failed_tries(
    evaluation: Evaluation, recorded: _Recorded
) -> list[ModelCallFailed | ToolChoiceDeclined]:
    tries: list[ModelCallFailed | ToolChoiceDeclined] = []
    while isinstance(found := recorded.peek(), _TRIES):
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
    place = misjudged_length(responded.calls)
    if place is not None:
        raise recorded.refuse(f"call {place} withheld exactly where it is over a limit")
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


def _difference(expected: Event, found: Event | None) -> tuple[str, str]:
    """Both sides in a few words: the first field that differs, or the type."""
    if found is None:
        return expected.kind(), "the end"
    if type(found) is not type(expected):
        return expected.kind(), found.kind()
    wanted, stood = expected.data(), found.data()
    name = next(key for key in wanted if wanted[key] != stood[key])
    return f"{expected.kind()}.{name} {wanted[name]!r}", f"{stood[name]!r}"
