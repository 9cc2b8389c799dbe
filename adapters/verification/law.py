"""The law, derived again from the events of a whole ledger, in the order they were committed.

What one evaluation must be is asked of `domain/rederivation.py`, what may follow in a task of
`domain/task.py`. This module holds the two together, which takes more than one stream:

1. an evaluation is opened for a judge that its panel convened, earlier, and agrees with its mandate;
2. a panel decides over the records that closed its evaluations: stream, version, digest, severity, error;
3. an attempt closes with the true heads of its streams;
4. nothing follows the event that closed an evaluation, or its attempt.

A stream whose records do not hold is *damaged*: it cannot be derived, and is counted instead of judged.
Memory: the events of an evaluation until it closes, what closed it until its attempt does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...domain.canonical import encode
from ...domain.evaluation import opening
from ...domain.events import (
    AttemptClosed,
    AttemptStarted,
    Ballot,
    EvaluationFailed,
    EvaluationOpened,
    Event,
    Head,
    Mandate,
    PanelConvened,
    PanelDecided,
    TaskCompleted,
    VerdictGiven,
)
from ...domain.rederivation import Divergence, rederive
from ...domain.streams import StreamName, evaluation_stream, task_stream
from ...domain.task import Task
from ...domain.tools import READ_TOOLS
from ..findings import UNLAWFUL, Check, counted, listed


@dataclass(frozen=True, slots=True)
class _Closing:
    """The record that closed an evaluation."""

    version: int
    digest: str
    severity: str
    error: bool


@dataclass(slots=True)
class _Heard:
    """One evaluation of the open attempt. `events` is None once it is closed."""

    name: StreamName
    events: list[Event] | None = field(default_factory=list)
    closing: _Closing | None = None


@dataclass(slots=True)
class _Work:
    """One task. `panels` and `evaluations` are those of the open attempt."""

    task: Task
    attempt: int = 0
    panels: dict[str, PanelConvened] = field(default_factory=dict)
    evaluations: dict[str, _Heard] = field(default_factory=dict)


@dataclass
class Law:
    """A fold over the events of a ledger. `heads`: stream to (version, digest) as read so far, shared."""

    check: Check
    heads: Mapping[str, tuple[int, str]]
    damaged: set[str]
    open_evaluations: list[str] = field(default_factory=list)
    _tasks: dict[str, _Work] = field(default_factory=dict)
    _diverged: set[str] = field(default_factory=set)
    _evaluations: int = 0
    _panels: int = 0

    def evaluation_event(
        self, stream: str, name: StreamName, version: int, event: Event, digest: str
    ) -> None:
        """Fold in one event of an evaluation that is not damaged so far."""
        work = self._tasks.get(name.task or "")
        heard = None if work is None else work.evaluations.get(stream)
        if heard is None:
            heard = self._opened(stream, name, version, event, work)
            if heard is None:
                return
        if heard.events is None:
            self._diverge(stream, version, "nothing after what closed it", event.kind())
            return
        heard.events.append(event)
        if type(event) is VerdictGiven or type(event) is EvaluationFailed:
            failed = type(event) is EvaluationFailed
            heard.closing = _Closing(version, digest, event.severity, failed)
            self._derive(stream, heard)
            heard.events = None

    def _opened(
        self, stream: str, name: StreamName, version: int, event: Event, work: _Work | None
    ) -> _Heard | None:
        """Rule 1 and rule 4; None where the stream has no place in the attempt that is open."""
        damaged_task = task_stream(name.task or "") in self.damaged
        if not damaged_task and (work is None or work.attempt != name.attempt or version != 1):
            expected = "a judge that the open attempt convened" if version == 1 else "nothing"
            self._diverge(stream, version, expected, f"{event.kind()} of attempt {name.attempt}")
            return None
        if work is None:
            work = self._tasks[name.task or ""] = _Work(Task(name.task or ""))
        self._evaluations += 1
        panel = work.panels.get(name.phase or "")
        mandates = {} if panel is None else {m.judge: m for m in panel.judges}
        mandate = mandates.get(name.judge or "")
        if panel is None or mandate is None:
            if not damaged_task:
                expected = f"a judge that was convened: {listed(mandates) or 'none was'}"
                self._diverge(stream, version, expected, f"{name.judge}")
                return None
        elif isinstance(event, EvaluationOpened):
            fault = mandate_fault(panel, mandate, event)
            if fault is not None:
                self._diverge(stream, version, *fault)
        heard = work.evaluations[stream] = _Heard(name)
        return heard

    def task_event(
        self, stream: str, task: str, version: int, event: Event, digest: str, previous: str
    ) -> None:
        """Fold in one event of a task. `previous`: digest of the record before it in its stream."""
        work = self._tasks.get(task)
        if work is None:
            work = self._tasks[task] = _Work(Task(task))
        if isinstance(event, PanelDecided):
            self._panels += 1
            self._ballots(stream, version, task, work, event)
        elif isinstance(event, AttemptClosed):
            self._close(stream, version, work, event, previous)
        objection = work.task.objection(event)
        if objection is not None:
            self._diverge(stream, version, objection, event.kind())
        work.task.apply(event, digest)
        if isinstance(event, AttemptStarted):
            work.attempt = event.attempt
        elif isinstance(event, PanelConvened):
            work.panels[event.phase] = event
        elif isinstance(event, TaskCompleted):
            # What follows is unlawful by the stage alone: the rest of the state can go.
            work.task = Task(task, stage="completed", attempt=event.attempt)

    def finish(self) -> None:
        """Derive what is still open, and answer the check."""
        for work in self._tasks.values():
            task = task_stream(work.task.task)
            if work.task.due is not None and task not in self.damaged:
                version, _ = self.heads[task]
                expected = f"{work.task.due}, stored in one go with the record before it"
                self._diverge(task, version + 1, expected, "the end: it was cut")
            for stream, heard in work.evaluations.items():
                if heard.events is None or stream in self.damaged:
                    continue
                self._derive(stream, heard)
                if stream not in self._diverged:
                    self.open_evaluations.append(stream)
        note = f"{counted(self._evaluations, 'evaluation')}, {counted(self._panels, 'panel')}"
        if self.open_evaluations:
            note += f", {counted(len(self.open_evaluations), 'evaluation')} open"
        if self.damaged:
            number = counted(len(self.damaged), "stream")
            self.check.skip(f"{note}; {number} whose records do not hold cannot be derived")
        else:
            self.check.note = note

    def _ballots(
        self, stream: str, version: int, task: str, work: _Work, event: PanelDecided
    ) -> None:
        """Rule 2."""
        for ballot in event.ballots:
            name = evaluation_stream(task, event.attempt, event.phase, ballot.judge)
            if name in self.damaged:
                continue
            heard = work.evaluations.get(name)
            closing = None if heard is None else heard.closing
            fault = ballot_fault(name, ballot, closing)
            if fault is not None:
                self._diverge(stream, version, *fault)
                return

    def _close(
        self, stream: str, version: int, work: _Work, event: AttemptClosed, previous: str
    ) -> None:
        """Rule 3; what the attempt held is let go."""
        true = {name: self.heads[name] for name in work.evaluations}
        if version > 1:
            true[stream] = (version - 1, previous)
        fault = heads_fault(event.heads, true, self.damaged)
        if fault is not None:
            self._diverge(stream, version, *fault)
        for name, heard in work.evaluations.items():
            if heard.events is not None and name not in self.damaged:
                self._derive(name, heard)
                self._diverge(stream, version, f"{name} closed", "open")
        work.panels, work.evaluations = {}, {}

    def _derive(self, stream: str, heard: _Heard) -> None:
        derived = rederive(heard.name, heard.events or ())
        if isinstance(derived, Divergence):
            self._diverge(stream, derived.version, derived.expected, derived.found)

    def _diverge(self, stream: str, version: int, expected: str, found: str) -> None:
        # The first divergence of a stream is named; what follows from it is not news.
        if stream not in self._diverged:
            self._diverged.add(stream)
            self.check.find(f"{stream} v{version}", expected, found, UNLAWFUL)


Fault = tuple[str, str]
"""(expected, found)."""


def mandate_fault(panel: PanelConvened, mandate: Mandate, opened: EvaluationOpened) -> Fault | None:
    """Where an evaluation was opened otherwise than its judge was convened, or told something else."""
    unknown = [name for name in mandate.tools if name not in READ_TOOLS]
    if unknown:  # nothing follows from such a mandate
        return f"convened with read tools of {opened.law}", unknown[0]
    follows = opening(opened.task, panel, mandate, opened.criteria, opened.prompt)
    for name in EvaluationOpened.model_fields:
        expected, found = getattr(follows, name), getattr(opened, name)
        if expected != found:
            return f"{name} as convened: {expected}", f"{found}"
    if opened.criteria is not None:
        digest = hashlib.sha256(encode(list(opened.criteria))).hexdigest()
        if digest != mandate.criteria_digest:
            return f"the digest of the criteria as convened: {mandate.criteria_digest}", digest
    if opened.prompt is not None:
        brief = () if panel.brief is None else (panel.brief,)
        if len(opened.prompt) != 1 + len(brief) or opened.prompt[1:] != brief:
            return f"prompt: the judge's own message, then the panel's brief {panel.brief}", (
                f"{len(opened.prompt)} messages, {', '.join(opened.prompt[1:]) or 'no brief'}"
            )
    return None


def ballot_fault(stream: str, ballot: Ballot, closing: _Closing | None) -> Fault | None:
    """Where a ballot is not that of the record which closed the evaluation `stream`."""
    if closing is None:
        return f"a ballot over {stream}, closed", "missing or not closed"
    sides: list[tuple[str, object, object]] = [
        ("stream", stream, ballot.stream),
        ("version", closing.version, ballot.version),
        ("digest", closing.digest, ballot.digest),
        ("severity", closing.severity, ballot.severity),
        ("error", closing.error, ballot.error),
    ]
    for what, true, found in sides:
        if true != found:
            return f"ballot of {ballot.judge}: {what} {true}", f"{found}"
    return None


def heads_fault(
    heads: tuple[Head, ...], true: Mapping[str, tuple[int, str]], damaged: set[str]
) -> Fault | None:
    """Where the heads that an attempt closed with are not the true ones."""
    said = {head.stream: (head.version, head.digest) for head in heads}
    # What a damaged stream came to is not known: its head is neither asked for nor held against anything.
    if len(said) != len(heads) or said.keys() - damaged != true.keys() - damaged:
        missing = listed(sorted(true.keys() - said.keys())) or "each once, and no other"
        return f"heads of {counted(len(true), 'stream')}: {missing}", f"{len(heads)} heads"
    for stream, (version, digest) in true.items():
        if said[stream] != (version, digest) and stream not in damaged:
            found = said[stream]
            return f"head of {stream}: v{version} {digest}", f"v{found[0]} {found[1]}"
    return None
