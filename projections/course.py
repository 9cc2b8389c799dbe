"""The course of a task: its attempts, the panels of each, who halted it, and what a person decided.

A fold over the stream `task/<task>` that keeps the records, where `domain/task.py` keeps the state that the
law asks for. It says what stands there and does not ask whether it may: an event that has nothing to
hang on is refused, all else is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..domain.errors import BadData
from ..domain.events import (
    AttemptClosed,
    AttemptStarted,
    CoderDispatched,
    Event,
    PanelConvened,
    PanelDecided,
    ResolutionRecorded,
    TaskCompleted,
    TaskHalted,
    TaskOpened,
)
from ..domain.task import Status, Task
from .facts import Entry, TaskFacts


@dataclass
class Panel:
    """One panel. `halted`: the halt that its decision led to; `resolution`: a person's answer to it."""

    convened: Entry[PanelConvened]
    decided: Entry[PanelDecided] | None = None
    halted: Entry[TaskHalted] | None = None
    resolution: Entry[ResolutionRecorded] | None = None


@dataclass
class Attempt:
    """One attempt. `engine_halt`: the halt that an engine, not a panel, wrote."""

    started: Entry[AttemptStarted]
    coder_dispatches: int = 0
    panels: list[Panel] = field(default_factory=list)
    engine_halt: Entry[TaskHalted] | None = None
    closed: Entry[AttemptClosed] | None = None
    completed: Entry[TaskCompleted] | None = None


@dataclass
class Course:
    """What happened to a task. `halt` is the halt in force: there exactly while `status` is `blocked`."""

    task: str
    attempts: list[Attempt]
    status: Status
    halt: Entry[TaskHalted] | None

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def panel(self) -> Panel | None:
        """The newest panel of the newest attempt."""
        return self.attempts[-1].panels[-1] if self.attempts and self.attempts[-1].panels else None

    @property
    def coder_dispatches(self) -> int:
        """How often a coder was sent to work, in all attempts: counted, never inferred."""
        return sum(attempt.coder_dispatches for attempt in self.attempts)


def course(facts: TaskFacts) -> Course:
    """The course of a task. Raises `BadData` for an event without the attempt or panel it belongs to."""
    attempts: list[Attempt] = []
    law = Task(facts.task)
    halt: Entry[TaskHalted] | None = None
    for entry in facts.own:
        law.apply(entry.event, entry.record.digest)
        match entry.event:
            case TaskOpened():
                continue
            case AttemptStarted() as started:
                attempts.append(Attempt(Entry(entry.record, started)))
                continue
        if not attempts:
            raise _loose(entry, "no attempt was started")
        _add(attempts[-1], entry)
        if isinstance(entry.event, TaskHalted):
            halt = Entry(entry.record, entry.event)
    return Course(facts.task, attempts, law.status, halt if law.status == "blocked" else None)


def _add(attempt: Attempt, entry: Entry[Event]) -> None:
    record = entry.record
    match entry.event:
        case CoderDispatched():
            attempt.coder_dispatches += 1
        case PanelConvened() as convened:
            attempt.panels.append(Panel(Entry(record, convened)))
        case PanelDecided() as decided:
            _newest(attempt, entry).decided = Entry(record, decided)
        case TaskHalted() as halted if halted.decided is None:
            attempt.engine_halt = Entry(record, halted)
        case TaskHalted() as halted:
            _newest(attempt, entry).halted = Entry(record, halted)
        case ResolutionRecorded() as resolution:
            _newest(attempt, entry).resolution = Entry(record, resolution)
        case AttemptClosed() as closed:
            attempt.closed = Entry(record, closed)
        case TaskCompleted() as completed:
            attempt.completed = Entry(record, completed)


def _newest(attempt: Attempt, entry: Entry[Event]) -> Panel:
    if not attempt.panels:
        raise _loose(entry, "no panel was convened")
    return attempt.panels[-1]


def _loose(entry: Entry[Event], why: str) -> BadData:
    return BadData(
        f"{entry.place}: {why} before it", hint="causebook verify says all that is wrong"
    )
