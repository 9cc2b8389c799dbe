"""`replay`: decide a task's evaluations and panels again from what was kept, and compare with the record.

No model is called: there is none here to call. First the task's records are checked as `why` checks them
(`adapters/task_check.py`): where bytes, signatures, roles or chains do not hold, nothing is replayed, and the
report says what does not. Then, for each evaluation

1. each recorded response is built again from its evidence, the bytes the model answered, by the code that let
   it in (`domain/admission.py`), and each read's answer is held against its commitment;
2. the responses and answers go through the decision code (`domain/evaluation.py`), which has to say every
   event that stands there, the digest of each message list sent among them;

then each panel decides again over the records that closed its evaluations. `at`, commitments, tokens and
milliseconds are taken as they are: they are what happened, not what was decided. The first event of a stream
that comes out otherwise is named.

Where evidence is gone the record alone is replayed, which is said. That is no difference where a named person
erased it, and ends in 23 where nobody did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..domain.admission import admit_response
from ..domain.conversation import PROMPT_VERSION, system_text
from ..domain.errors import BadData
from ..domain.events import (
    Ballot,
    EvaluationFailed,
    EvaluationOpened,
    Event,
    ModelResponded,
    PanelConvened,
    PanelDecided,
    TaskHalted,
    TurnOpened,
    VerdictGiven,
    Withheld,
)
from ..domain.evidence import commit, commitments_of, response_from, text_bytes
from ..domain.ports import Response
from ..domain.quorum import CANONICAL, decide, decided, halt_reason
from ..domain.record import Record
from ..domain.rederivation import Divergence, rederive
from ..domain.streams import evaluation_stream, parse_stream, task_stream
from ..domain.task import Task
from .findings import DIFFERS, INTACT, TAMPERED, UNLAWFUL, CheckName, counted
from .reading import Source, Unreadable, evidence_fault, read, unpacked
from .task_check import TaskRows, check_task, task_rows

REPLAYABLE: Final[frozenset[CheckName]] = frozenset({"records", "signatures", "roles", "chains"})
"""The checks that a task's records have to pass before anything is replayed."""
_VALUE_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True)
class Difference:
    """The first event of a stream that comes out otherwise. `place`: `evaluation/… v9 TurnCharged`.

    `code`: the exit code it ends in: 24, or 28 where no decision differs but what it was made from.
    """

    place: str
    expected: str
    found: str
    code: int = UNLAWFUL


@dataclass(frozen=True)
class EvaluationReplay:
    """One evaluation, decided again.

    `items`: how many items of evidence it commits to; `from_record`: those of them that were not there to
    replay from, or not what was committed to; `missing`: those that are gone and that nobody erased by name.
    """

    stream: str
    records: int
    closed: bool
    items: int
    from_record: int
    missing: int


@dataclass(frozen=True)
class ReplayReport:
    """What a replay came to. `held`: the records do, so that there was something to replay."""

    task: str
    evaluations: tuple[EvaluationReplay, ...]
    panels: int
    differences: tuple[Difference, ...]
    held: bool = True

    @property
    def code(self) -> int:
        """0: every event came out equal; 23: it did, and evidence is missing; 24, 28: something did not."""
        missing = DIFFERS if self.missing else INTACT
        return max([missing, *(difference.code for difference in self.differences)])

    @property
    def missing(self) -> int:
        """How many items of evidence are gone that nobody erased by name."""
        return sum(evaluation.missing for evaluation in self.evaluations)

    @property
    def note(self) -> str:
        """What was not there to replay from, in a few words; empty where everything was."""
        without = sum(evaluation.from_record for evaluation in self.evaluations)
        if not self.held:
            return "not replayed: the records do not hold"
        if self.missing:
            return (
                f"{counted(self.missing, 'item')} of evidence missing, and no EvidenceErased names "
                f"{'it' if self.missing == 1 else 'them'}: replayed from the record there"
            )
        if without and any(difference.code == TAMPERED for difference in self.differences):
            return f"{counted(without, 'item')} of evidence not there to replay from"
        if without:
            erased = counted(without, "item")
            return f"{erased} of evidence erased by a named person: replayed from the record there"
        return ""

    def document(self) -> dict[str, Any]:
        """The report as JSON can say it."""
        return {
            "task": self.task,
            "code": self.code,
            "note": self.note,
            "panels": self.panels,
            "evaluations": [vars(evaluation) for evaluation in self.evaluations],
            "differences": [vars(difference) for difference in self.differences],
        }


def replay(source: Source, task: str) -> ReplayReport:
    """Decide `task` again from what was kept. Raises `NoInput` where there is no such task."""
    rows = task_rows(source, task)
    broken = _broken(rows)
    if broken:
        return ReplayReport(task, (), 0, broken, held=False)
    replayed = _Replay(rows, task, rows.erasures()[0])
    for record, event in _stream(rows, task_stream(task)):
        replayed.task_event(record, event)
    return ReplayReport(
        task=task,
        evaluations=tuple(replayed.evaluations),
        panels=replayed.panels,
        differences=tuple(replayed.differences),
    )


def _broken(rows: TaskRows) -> tuple[Difference, ...]:
    """What keeps the records of a task from being replayed."""
    return tuple(
        Difference(finding.place, finding.expected, finding.found, finding.code)
        for finding in check_task(rows).findings
        if finding.check in REPLAYABLE and finding.code == TAMPERED
    )


def _stream(source: Source, stream: str) -> list[tuple[Record, Event]]:
    """A stream's records and events, which were found to hold."""
    try:
        return [read(row) for row in source.stream(stream)]
    except Unreadable as error:
        # The check of the records, which comes first, has read these very rows.
        raise BadData(f"{stream}: not a record: {error}") from None


@dataclass
class _Kept:
    """The evidence of an event by commitment, None where it is gone or broken; and what is broken of it."""

    bodies: dict[str, bytes | None] = field(default_factory=dict)
    broken: int = 0
    fault: tuple[str, str] | None = None


@dataclass
class _Replay:
    """A walk along a task's stream, replaying each panel's evaluations as it is decided."""

    source: Source
    task: str
    erased: Mapping[str, int]
    evaluations: list[EvaluationReplay] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    panels: int = 0

    def __post_init__(self) -> None:
        self._state = Task(self.task)
        self._closings: dict[str, Ballot] = {}
        self._decided: PanelDecided | None = None

    def task_event(self, record: Record, event: Event) -> None:
        """Replay what led to one event of the task, and hold it against the event."""
        if isinstance(event, PanelConvened):
            self._hear(event)
        expected: Event | None = None
        if isinstance(event, PanelDecided):
            self.panels += 1
            expected = self._decide(event)
        elif isinstance(event, TaskHalted) and event.decided is not None:
            expected = self._halt()
        if expected is not None and expected != event:
            self._differ(record, *difference(expected, event))
        elif (objection := self._state.objection(event)) is not None:
            self._differ(record, objection, event.kind())
        self._state.apply(event, record.digest)

    def _hear(self, convened: PanelConvened) -> None:
        self._closings = {}
        for mandate in convened.judges:
            stream = evaluation_stream(self.task, convened.attempt, convened.phase, mandate.judge)
            entries = _stream(self.source, stream)
            if not entries:
                continue  # convened and not opened yet
            self._evaluation(stream, entries)
            record, closing = entries[-1]
            if isinstance(closing, VerdictGiven | EvaluationFailed):
                self._closings[mandate.judge] = Ballot(
                    judge=mandate.judge,
                    severity=closing.severity,
                    error=isinstance(closing, EvaluationFailed),
                    stream=stream,
                    version=record.version,
                    digest=record.digest,
                )

    def _evaluation(self, stream: str, entries: list[tuple[Record, Event]]) -> None:
        events = [event for _, event in entries]
        first: list[tuple[int, str, str, int]] = []
        items = without = missing = 0
        required: str | None = None
        for version, event in enumerate(events, 1):
            if isinstance(event, TurnOpened):
                required = event.tool_choice
            kept = self._bodies(event)
            items += len(kept.bodies)
            gone = sum(body is None for body in kept.bodies.values())
            without += gone
            if version > self.erased.get(stream, 0):
                missing += gone - kept.broken
            if kept.fault is not None:
                first.append((version, *kept.fault, TAMPERED))
            elif (found := _from_evidence(event, kept.bodies, required)) is not None:
                first.append((version, *found, UNLAWFUL))
        derived = rederive(parse_stream(stream), events)
        if isinstance(derived, Divergence):
            first.append((derived.version, derived.expected, derived.found, UNLAWFUL))
        if first:
            # The first of a stream is named, and the first evidence that is not what was committed to.
            tampered = [fault for fault in first if fault[3] == TAMPERED]
            for version, expected, found_there, code in sorted({min(first), *tampered[:1]}):
                kind = events[version - 1].kind() if version <= len(events) else "the end"
                place = f"{stream} v{version} {kind}"
                self.differences.append(Difference(place, expected, found_there, code))
        closed = isinstance(events[-1], VerdictGiven | EvaluationFailed)
        self.evaluations.append(
            EvaluationReplay(stream, len(events), closed, items, without, missing)
        )

    def _bodies(self, event: Event) -> _Kept:
        kept = _Kept()
        for commitment in commitments_of(event):
            row = self.source.evidence(commitment)
            kept.bodies[commitment] = None
            if row is None:
                continue
            fault = evidence_fault(row)
            if fault is None:
                kept.bodies[commitment] = unpacked(row)
            else:
                kept.broken += 1
                kept.fault = kept.fault or (f"the bytes of evidence {commitment}", fault)
        return kept

    def _decide(self, event: PanelDecided) -> Event | None:
        panel = self._state.panel
        if panel is None:
            return None
        ballots = [self._closings[m.judge] for m in panel.judges if m.judge in self._closings]
        self._decided = decided(event.attempt, panel.phase, panel.policy, ballots)
        return self._decided

    def _halt(self) -> Event | None:
        if self._decided is None or self._state.decided is None:
            return None
        raw = decide(self._decided.policy, self._decided.ballots).raw_halt_type
        if raw is None:
            return None
        return TaskHalted(
            attempt=self._decided.attempt,
            phase=self._decided.phase,
            raw_halt_type=raw,
            halt_type=CANONICAL[raw],
            reason=halt_reason(self._decided),
            decided=self._state.decided_digest,
        )

    def _differ(self, record: Record, expected: str, found: str) -> None:
        place = f"{record.stream} v{record.version} {record.type}"
        if not any(known.place.startswith(f"{record.stream} ") for known in self.differences):
            self.differences.append(Difference(place, expected, found))


def _from_evidence(
    event: Event, bodies: dict[str, bytes | None], required: str | None
) -> tuple[str, str] | None:
    """How an event comes out otherwise when it is built again from its evidence; None where it does not."""
    if any(body is None for body in bodies.values()):
        return None
    if isinstance(event, ModelResponded):
        return _response_again(event, bodies, required)
    if isinstance(event, EvaluationOpened) and event.prompt and event.criteria is not None:
        # What a judge was told first follows from its criteria, where the wording is one we know.
        system = text_bytes(system_text(event.judge, event.phase, event.criteria))
        if event.prompt_version == PROMPT_VERSION and bodies[event.prompt[0]] != system:
            return "EvaluationOpened.prompt: the words of " + PROMPT_VERSION, "other words"
    return None


def _response_again(
    event: ModelResponded, bodies: dict[str, bytes | None], required: str | None
) -> tuple[str, str] | None:
    # Equal bytes have a commitment for each time they were kept: they are given back in that order.
    kept: dict[bytes | None, list[str]] = {}
    for name in _kept_in_order(event):
        kept.setdefault(bodies[name], []).append(name)
    unknown = commit(b"", event.content.encode())

    def recorded(body: bytes) -> str:
        names = kept.get(body)
        return names.pop(0) if names else unknown

    try:
        answered = response_from(bodies[event.content] or b"")
        again = admit_response(
            _with_inputs(answered, event),
            turn=event.turn,
            try_number=event.try_number,
            required=required,
            commit=recorded,
        )
    except ValueError as error:
        return "ModelResponded.content: a model's answer", str(error)
    return None if again == event else difference(again, event)


def _kept_in_order(event: ModelResponded) -> list[str]:
    """The commitments of an answer in the order in which `admit_response` asks for them."""
    texts = (text for call in event.calls for text in (call.arguments, call.id, call.name))
    return [event.content, *(text.commitment for text in texts if isinstance(text, Withheld))]


def _with_inputs(response: Response, event: ModelResponded) -> Response:
    """The answer with what the evidence leaves out, as it was recorded."""
    return replace(
        response,
        model=event.model,
        prompt_tokens=event.prompt_tokens,
        completion_tokens=event.completion_tokens,
        milliseconds=event.milliseconds,
        tool_choice_sent=event.tool_choice_sent,
        client=event.client,
        client_version=event.client_version,
    )


def difference(expected: Event, found: Event) -> tuple[str, str]:
    """(expected, found) of two events that differ: their types, or the first field that does."""
    if type(expected) is not type(found):
        return expected.kind(), found.kind()
    wanted, stood = expected.data(), found.data()
    name = next(key for key in wanted if wanted[key] != stood[key])
    return f"{expected.kind()}.{name} {_value(wanted[name])}", _value(stood[name])


def _value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_CHARACTERS_MAX else text[:_VALUE_CHARACTERS_MAX] + "…"
