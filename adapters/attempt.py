"""One attempt at a task, its panels and their judges, as a writer holds them.

`TaskLog` keeps a task's stream and the state folded from it; `Attempt`, `Panel` and `Seat` are what an engine
works with. Everything that may be appended is asked of `domain/task.py` and `domain/evaluation.py` first.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Self, cast

from ..domain.admission import admit_fault, admit_response
from ..domain.canonical import encode, escaped_bytes
from ..domain.conversation import (
    PROMPT_VERSION,
    VERDICT_ONLY_INSTRUCTION,
    assistant_message,
    brief_text,
    pointer_text,
    refusal_text,
    rejection_text,
    system_message,
    system_text,
    tool_message,
    user_message,
)
from ..domain.errors import BadData, Busy, Misuse, VersionConflict
from ..domain.evaluation import LAW, Evaluation, answer, fail, hear, interrupt, open_turn
from ..domain.events import (
    AttemptClosed,
    Ballot,
    CoderDispatched,
    EvaluationFailed,
    EvaluationOpened,
    Event,
    Granted,
    Head,
    Mandate,
    ModelCallFailed,
    PanelConvened,
    PanelDecided,
    Phase,
    Policy,
    RawHaltType,
    ReadAnswered,
    RepeatReadHit,
    ResolutionRecorded,
    Runner,
    TaskCompleted,
    TaskHalted,
    ToolChoiceDeclined,
    ToolRefused,
    VerdictGiven,
    VerdictRejected,
    WorkspaceFacts,
)
from ..domain.evidence import text_bytes
from ..domain.limits import (
    CRITERIA_BYTES_MAX,
    JUDGES_MAX,
    STALL_TURNS_MAX,
    TURNS_DEFAULT,
    TURNS_MAX,
)
from ..domain.ports import ModelFault, ReadResult, Request, Response
from ..domain.quorum import CANONICAL, PANEL_HALTS, decided, halt_reason
from ..domain.reads import Read
from ..domain.streams import evaluation_stream, require_id, shorten, task_stream
from ..domain.task import Task
from ..domain.tools import READ_TOOLS, SUBMIT_VERDICT, active, definition
from .store.port import RunnerLock
from .writer import NOTHING, Batch, Satchel, Tip, Writer, Written, read_stream

DEFAULT_TOOLS: Final = tuple(READ_TOOLS)


@dataclass(frozen=True)
class Judge:
    """One judge of a panel: who it is, which model it asks, what it judges by, what it may read with."""

    id: str
    model: str
    criteria: Sequence[str]
    tools: Sequence[str] = DEFAULT_TOOLS
    max_tool_turns: int = TURNS_DEFAULT

    def check(self) -> None:
        """Raise `Misuse` naming the first thing that is wrong with it."""
        require_id(self.id, "judge")
        where = f"judge {self.id}"
        if not 1 <= self.max_tool_turns <= TURNS_MAX:
            raise Misuse(
                f"{where}, max_tool_turns: expected 1 to {TURNS_MAX}, found {self.max_tool_turns}",
                hint=f"the default is {TURNS_DEFAULT}; a judge with no tools decides on its first turn",
            )
        for tool in self.tools:
            if tool not in READ_TOOLS:
                raise Misuse(
                    f"{where}, tools: expected read tools, found {shorten(tool)}",
                    hint="there are " + ", ".join(READ_TOOLS),
                )
        if len(set(self.tools)) != len(self.tools):
            raise Misuse(f"{where}, tools: expected each once", hint=", ".join(self.tools))
        lengths = [escaped_bytes(text) for text in self.criteria]
        if not lengths or not all(lengths):
            raise Misuse(f"{where}, criteria: expected texts in Unicode, at least one, none empty")
        if sum(length or 0 for length in lengths) > CRITERIA_BYTES_MAX or len(lengths) > 256:
            raise Misuse(
                f"{where}, criteria: expected at most {CRITERIA_BYTES_MAX} bytes in 256 texts",
                hint="put long material into the repository, where the judge can read it",
            )
        if not self.model or len(self.model) > 512 or escaped_bytes(self.model) is None:
            raise Misuse(f"{where}, model: expected a name of 1 to 512 characters")

    def mandate(self) -> Mandate:
        """What `PanelConvened` says of it."""
        digest = hashlib.sha256(encode(list(self.criteria))).hexdigest()
        return Mandate(
            judge=self.id,
            model=self.model,
            criteria_digest=digest,
            tools=tuple(self.tools),
            max_tool_turns=self.max_tool_turns,
        )


@dataclass
class TaskLog:
    """A task's stream as a writer knows it: the folded state, its tip, the digest of the panel that sits."""

    writer: Writer
    task: str
    state: Task
    tip: Tip = NOTHING
    panel_digest: str = ""

    @classmethod
    def load(cls, writer: Writer, task: str) -> Self:
        """Read the stream and fold it. Raises `BadData` where it is not lawful."""
        log = cls(writer, task, Task(task))
        log.reload()
        return log

    @property
    def stream(self) -> str:
        """The stream's name."""
        return task_stream(self.task)

    def reload(self) -> None:
        """Read the stream again, after another writer was first."""
        self.state, self.tip, self.panel_digest = Task(self.task), NOTHING, ""
        for record, event in read_stream(self.writer.store, self.stream, self.writer.origin):
            objection = self.state.objection(event)
            if objection is not None:
                raise BadData(
                    f"{self.stream} v{record.version}: {objection}",
                    hint="causebook verify says what is wrong with the ledger",
                )
            self._fold(event, (record.version, record.digest))

    def batch(self) -> Batch:
        """An empty transaction, whose records of this task build on the state that is known here."""
        batch = self.writer.batch()
        batch.after(self.stream, self.tip)
        return batch

    def add(self, batch: Batch, event: Event) -> Written:
        """Put `event` next on the stream. Raises `Misuse` where the order of a task's events forbids it."""
        objection = self.state.objection(event)
        if objection is not None:
            raise Misuse(f"task {self.task}: {objection}", hint=f"causebook log {self.task}")
        written = batch.add(self.stream, event)
        self._fold(event, written.tip)
        return written

    def save(self, batch: Batch) -> list[Written]:
        """Commit; where that fails, the state is what is stored."""
        try:
            return batch.commit()
        except BaseException:
            self.reload()
            raise

    def follow(self, batch: Batch) -> None:
        """Add what is due after a decision, a halt or a resolution, up to where the attempt rests."""
        state = self.state
        while True:
            if state.stage in ("decided_halt", "decided_escalate") and state.decided is not None:
                self.add(batch, _panel_halt(state.decided, state.decided_digest))
            elif state.stage in ("halted", "passed"):
                self.add(batch, self._closing())
            elif state.stage == "finishing":
                self.add(batch, TaskCompleted(attempt=state.attempt))
            else:
                return

    def _closing(self) -> AttemptClosed:
        heads = [
            Head(stream=ballot.stream, version=ballot.version, digest=ballot.digest)
            for ballot in self.state.ballots
        ]
        version, digest = self.tip
        heads.append(Head(stream=self.stream, version=version, digest=digest))
        return AttemptClosed(
            attempt=self.state.attempt, outcome=self.state.outcome(), heads=tuple(heads)
        )

    def _fold(self, event: Event, tip: Tip) -> None:
        self.state.apply(event, tip[1])
        self.tip = tip
        if isinstance(event, PanelConvened):
            self.panel_digest = tip[1]


def _panel_halt(decision: PanelDecided, digest: str | None) -> TaskHalted:
    raw: RawHaltType
    if decision.action == "escalate":
        raw = "escalated"
    else:
        errors = any(ballot.error for ballot in decision.ballots) or not decision.ballots
        raw = "validator_error" if errors else "blocked"
    return TaskHalted(
        attempt=decision.attempt,
        phase=decision.phase,
        raw_halt_type=raw,
        halt_type=CANONICAL[raw],
        reason=halt_reason(decision),
        decided=digest,
    )


@dataclass
class Attempt:
    """One attempt at a task that is open."""

    log: TaskLog
    number: int
    spec: str | None = None

    def dispatch_coder(self, coder: str, *, brief: str | None = None) -> None:
        """Record that a coder was sent to work, with its orders as evidence."""
        satchel = Satchel(self.log.task)
        commitment = None if brief is None else satchel.commit(text_bytes(brief))
        batch = self.log.batch()
        batch.evidence.extend(satchel.rows)
        event = CoderDispatched(attempt=self.number, coder=coder, brief=commitment)
        self.log.add(batch, event)
        self.log.save(batch)

    def halt(self, raw_halt_type: RawHaltType, reason: str) -> None:
        """Record a halt of the engine's own, which closes the attempt.

        Raises `Misuse` for a type outside the closed vocabulary, or one that only a panel writes.
        """
        if raw_halt_type not in CANONICAL or raw_halt_type in PANEL_HALTS:
            ours = ", ".join(sorted(set(CANONICAL) - PANEL_HALTS))
            raise Misuse(
                f"halt type: expected one of an engine's, found {shorten(raw_halt_type)}",
                hint=f"there are {ours}",
            )
        phase = self.log.state.phases[-1] if self.log.state.phases else None
        batch = self.log.batch()
        self.log.add(
            batch,
            TaskHalted(
                attempt=self.number,
                phase=phase,
                raw_halt_type=raw_halt_type,
                halt_type=CANONICAL[raw_halt_type],
                reason=reason,
                decided=None,
            ),
        )
        self.log.follow(batch)
        self.log.save(batch)

    def convene(
        self,
        phase: Phase,
        policy: Policy,
        judges: Sequence[Judge],
        *,
        brief: str | None = None,
        base: str | None = None,
        root: str | None = None,
        workspace: WorkspaceFacts | None = None,
    ) -> Panel:
        """Convene a panel and hold its runner's lock until it has decided.

        `brief` is what every judge is told after its criteria; without one, the task and its spec. `root`
        is the absolute path that reads are relative to. Raises `Busy`, naming who, where another process
        judges this attempt.
        """
        if not 1 <= len(judges) <= JUDGES_MAX:
            raise Misuse(f"judges: expected 1 to {JUDGES_MAX}, found {len(judges)}")
        for judge in judges:
            judge.check()
        log = self.log
        told = brief if brief is not None else brief_text(log.task, self.spec, None, None)
        satchel = Satchel(log.task)
        runner = Runner(
            id=secrets.token_hex(16), host=socket.gethostname() or "unknown", process=os.getpid()
        )
        lock = log.writer.store.try_lock(runner.id)
        if lock is None:
            raise Busy("a fresh runner's lock is taken", hint="try again")
        try:
            batch = log.batch()
            commitment = satchel.commit(text_bytes(told))
            batch.evidence.extend(satchel.rows)
            convened = PanelConvened(
                attempt=self.number,
                phase=phase,
                policy=policy,
                judges=tuple(judge.mandate() for judge in judges),
                brief=commitment,
                base=base,
                workspace=workspace,
                root=root,
                runner=runner,
            )
            log.add(batch, convened)
            log.save(batch)
        except VersionConflict:
            lock.release()
            raise taken(log) from None
        except BaseException:
            lock.release()
            raise
        return Panel(log, convened, {judge.id: judge for judge in judges}, told, lock)


def taken(log: TaskLog) -> Busy:
    """The error that another process judges this task, naming it."""
    panel = log.state.panel
    if log.state.stage == "judging" and panel is not None:
        return Busy(
            f"task {log.task}, attempt {panel.attempt}, {panel.phase}: judged by process "
            f"{panel.runner.process} on {panel.runner.host}",
            hint="wait for it to decide; if that process is gone, the next judge takes over",
        )
    return Busy(
        f"task {log.task}: another process changed it meanwhile",
        hint=f"causebook why {log.task}",
    )


@dataclass
class Panel:
    """A panel that sits. Its judges may be heard side by side, each seat in one thread."""

    log: TaskLog
    convened: PanelConvened
    judges: dict[str, Judge]
    brief: str
    lock: RunnerLock
    seats: dict[str, Seat] = field(default_factory=dict)
    _given_up: bool = False
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def open(self, judge: str) -> Seat:
        """Open the evaluation of one judge. Raises `Misuse` for one that was not convened."""
        if judge not in self.judges:
            raise Misuse(f"judge {shorten(judge)} was not convened", hint=", ".join(self.judges))
        seat = Seat.open(self, self.judges[judge])
        self.seats[judge] = seat
        return seat

    def decide(self) -> PanelDecided:
        """Decide once every judge has; record the decision and what follows from it.

        Raises `Misuse` naming a judge that has not decided.
        """
        ballots = []
        for judge in self.judges:
            seat = self.seats.get(judge)
            if seat is None or seat.closing is None:
                raise Misuse(f"judge {judge} has not decided", hint="hear it to the end first")
            ballots.append(_ballot(judge, seat.closing))
        batch = self.log.batch()
        event = _decide(self.log, batch, self.convened, ballots)
        self.log.save(batch)
        self.lock.release()
        return event

    def interrupt(self) -> None:
        """Close what is open, as interrupted, and decide: the runner is told to stop (rule 10).

        Where the panel has decided already, that stands.
        """
        self._give_up()
        _close(self.log, self.convened.runner)
        self.lock.release()

    def leave(self) -> None:
        """Leave the panel as it is stored, to the next writer that takes over (rule 10)."""
        self._give_up()
        self.lock.release()

    def commit(self, batch: Batch) -> list[Written]:
        """Store what one of its judges did, unless the panel was given up meanwhile. Raises `Abandoned`.

        One thread at a time: a store has one writer anyway, and waits for it less well than a lock does.
        """
        with self._guard:
            if self._given_up:
                raise Abandoned
            return batch.commit()

    def _give_up(self) -> None:
        with self._guard:
            self._given_up = True


@dataclass
class Seat:
    """One judge being heard. `closing` is the record that closed its evaluation, once there is one."""

    panel: Panel
    stream: str
    evaluation: Evaluation
    messages: list[dict[str, object]]
    tip: Tip
    closing: Written | None = None
    written: list[Written] = field(default_factory=list)
    _opening: list[Event] = field(default_factory=list)
    _answer: ReadResult | None = None
    _underway: bool = False

    @classmethod
    def open(cls, panel: Panel, judge: Judge) -> Self:
        """Append `EvaluationOpened`."""
        log, convened = panel.log, panel.convened
        satchel = Satchel(log.task)
        system = system_text(judge.id, convened.phase, judge.criteria)
        brief = convened.brief
        prompt = (satchel.commit(text_bytes(system)), *(() if brief is None else (brief,)))
        opened = opening(log.task, convened, judge.mandate(), tuple(judge.criteria), prompt)
        stream = evaluation_stream(log.task, convened.attempt, convened.phase, judge.id)
        batch = log.writer.batch()
        batch.evidence.extend(satchel.rows)
        opening_record = batch.add(stream, opened, anchor=log.panel_digest)
        messages = [system_message(system), user_message(panel.brief)]
        panel.commit(batch)
        return cls(panel, stream, Evaluation(opened), messages, opening_record.tip)

    def next_request(self) -> Request | None:
        """What the model is to be asked now; None once the judge has decided or failed.

        Raises `Misuse` after a turn that was begun and not stored: what the judge was shown and what the
        record says of it would part. `Panel.interrupt` closes such an evaluation.
        """
        self._require_whole()
        if self.evaluation.closed is not None:
            return None
        if not self._opening:
            self._opening = open_turn(self.evaluation)
        messages = list(self.messages)
        if self.evaluation.withdrawn:
            messages.append(user_message(VERDICT_ONLY_INSTRUCTION))
        return Request(
            model=self.evaluation.opened.model,
            messages=tuple(messages),
            tools=tuple(definition(name) for name in self.evaluation.offered),
            tool_choice=SUBMIT_VERDICT if self.evaluation.withdrawn else None,
        )

    def respond(
        self, response: Response, *, failures: Sequence[tuple[ModelFault, bool]] = ()
    ) -> Iterator[Read]:
        """Hear one response: yields each read to be run, to be answered with `answer` before the next.

        When it is exhausted, the whole turn and its evidence are stored, in one transaction. `failures` are
        the tries before it: (fault, whether it declined tool_choice). Raises `Misuse` where the model was
        not asked as `next_request` said (rules 2 and 9).
        """
        sent = self._require_asked(failures)
        if response.tool_choice_sent != sent:
            raise Misuse(
                f"{self.stream}: expected a response with tool_choice_sent={sent}, found "
                f"{response.tool_choice_sent}",
                hint="send request.tool_choice where it is set, and say so: Response(tool_choice_sent=True)",
            )
        self._underway = True
        turn = self.evaluation.turn
        satchel = Satchel(self.panel.log.task)
        tries = self._tries(failures, satchel)
        required = SUBMIT_VERDICT if self.evaluation.withdrawn else None
        responded = admit_response(
            response,
            turn=turn,
            try_number=len(tries) + 1,
            required=required,
            commit=satchel.commit,
        )
        heard = hear(self.evaluation, responded)
        texts: dict[int, str] = {}
        try:
            place, read = next(heard)
            while True:
                self._answer = None
                yield read
                result = self._answer
                if result is None:
                    raise ValueError(f"the read of {read.target!r} was not answered")
                texts[place] = result.text
                place, read = heard.send(
                    answer(
                        read,
                        turn=turn,
                        call=place,
                        result=satchel.commit(text_bytes(result.text)),
                        lines=result.lines,
                        cut=result.cut,
                        error=result.error,
                        blob=result.blob,
                    )
                )
        except StopIteration as stop:
            events: list[Event] = stop.value
        self.messages.append(assistant_message(turn, response))
        offered = self.evaluation.offered
        self.messages.extend(answers(turn, events, texts, offered))
        self._save([*self._opening, *tries, *events], satchel)

    def answer(self, result: ReadResult) -> None:
        """Answer the read that `respond` yielded last."""
        self._answer = result

    def fail(self, failures: Sequence[tuple[ModelFault, bool]]) -> None:
        """The provider failed for good: record its tries, which closes the evaluation (rule 8).

        Raises `Misuse` where there is no try, or the last is to be asked again without tool_choice (rule 9).
        """
        self._require_asked(failures)
        if not failures or failures[-1][1]:
            raise Misuse(
                f"{self.stream}: expected the tries that failed, found "
                + ("one to be asked again without tool_choice" if failures else "none"),
                hint="fail() takes (fault, whether it declined tool_choice) for each try, in order",
            )
        self._underway = True
        satchel = Satchel(self.panel.log.task)
        tries = self._tries(failures, satchel)
        self._save([*self._opening, *fail(self.evaluation, tries)], satchel)

    def _require_asked(self, failures: Sequence[tuple[ModelFault, bool]]) -> bool:
        """Whether tool_choice was sent with the last try, of tries that keep to rule 9."""
        self._require_whole()
        if not self._opening:
            raise Misuse("no request is open", hint="call next_request() first")
        withdrawn = self.evaluation.withdrawn
        declined = [fault for fault, declined in failures if declined]
        if len(declined) > withdrawn or any(f.status not in (None, 400, 422) for f in declined):
            raise Misuse(
                f"{self.stream}: expected tool_choice declined at most once, where it was sent, with "
                "status 400 or 422",
                hint="failures are (fault, whether it declined tool_choice) for each try, in order",
            )
        return withdrawn and not declined

    def _require_whole(self) -> None:
        if self._underway:
            raise Misuse(
                f"{self.stream}: turn {self.evaluation.turn} was begun and not stored",
                hint="panel.interrupt() closes this evaluation as interrupted; what is stored stays",
            )

    def _tries(
        self, failures: Sequence[tuple[ModelFault, bool]], satchel: Satchel
    ) -> list[ModelCallFailed | ToolChoiceDeclined]:
        return [
            admit_fault(
                fault,
                turn=self.evaluation.turn,
                try_number=number,
                declined=declined,
                commit=satchel.commit,
            )
            for number, (fault, declined) in enumerate(failures, 1)
        ]

    def _save(self, events: Sequence[Event], satchel: Satchel) -> None:
        batch = self.panel.log.writer.batch()
        batch.after(self.stream, self.tip)
        batch.evidence.extend(satchel.rows)
        for event in events:
            batch.add(self.stream, event)
        written = self.panel.commit(batch)
        self.tip = written[-1].tip
        self._underway = False
        self._opening = []
        if self.evaluation.closed is not None:
            self.closing = written[-1]
        self.written = written


class Abandoned(Exception):
    """The panel was given up while this seat's turn was under way; the turn is not stored."""


def answers(
    turn: int, events: Sequence[Event], read_texts: dict[int, str], offered: Sequence[str]
) -> list[dict[str, object]]:
    """The answers to the calls of a turn, in order, as messages. Pure; replay builds them the same way."""
    messages = []
    for event in events:
        match event:
            case ReadAnswered():
                text = read_texts[event.call]
            case RepeatReadHit():
                text = pointer_text(event)
            case ToolRefused():
                text = refusal_text(event, offered)
            case VerdictRejected():
                text = rejection_text(event)
            case _:
                continue
        messages.append(tool_message(turn, event.call, text))
    return messages


def opening(
    task: str,
    convened: PanelConvened,
    mandate: Mandate,
    criteria: tuple[str, ...] | None,
    prompt: tuple[str, ...] | None,
) -> EvaluationOpened:
    """The event that opens the evaluation of one judge convened."""
    return EvaluationOpened(
        task=task,
        attempt=convened.attempt,
        phase=convened.phase,
        judge=mandate.judge,
        law=LAW,
        max_tool_turns=mandate.max_tool_turns,
        max_stall_turns=STALL_TURNS_MAX,
        declared=mandate.tools,
        active=tuple(
            Granted(name=name, defaults=READ_TOOLS[name].defaults())
            for name in active(mandate.tools, convened.phase)
        ),
        criteria=criteria,
        model=mandate.model,
        prompt_version=PROMPT_VERSION,
        prompt=prompt,
        root=convened.root,
        workspace=convened.workspace,
    )


def _ballot(judge: str, closing: Written) -> Ballot:
    event = closing.event
    if not isinstance(event, VerdictGiven | EvaluationFailed):
        raise ValueError(f"{event.kind()} does not close an evaluation")
    return Ballot(
        judge=judge,
        severity=event.severity,
        error=isinstance(event, EvaluationFailed),
        stream=closing.stream,
        version=closing.version,
        digest=closing.digest,
    )


def _decide(
    log: TaskLog, batch: Batch, convened: PanelConvened, ballots: Sequence[Ballot]
) -> PanelDecided:
    event = decided(convened.attempt, convened.phase, convened.policy, ballots)
    log.add(batch, event)
    log.follow(batch)
    return event


def _close_and_decide(log: TaskLog, batch: Batch) -> PanelDecided:
    """Rule 10: close every evaluation of the panel that sits, opening the missing ones; then decide."""
    convened = log.state.panel
    if convened is None or log.state.stage != "judging":
        raise ValueError("no panel sits")
    ballots = []
    for mandate in convened.judges:
        stream = evaluation_stream(log.task, convened.attempt, convened.phase, mandate.judge)
        entries = read_stream(log.writer.store, stream, log.writer.origin)
        if entries:
            record, last = entries[-1]
            batch.after(stream, (record.version, record.digest))
            if isinstance(last, VerdictGiven | EvaluationFailed):
                ballots.append(
                    _ballot(mandate.judge, Written(stream, record.version, last, record.digest))
                )
                continue
            opened = entries[0][1]
            if not isinstance(opened, EvaluationOpened):
                raise BadData(f"{stream} v1: expected EvaluationOpened, found {opened.kind()}")
            evaluation = Evaluation(opened)
            for _, event in entries[1:]:
                evaluation.apply(event)
        else:
            opened = opening(log.task, convened, mandate, None, None)
            batch.add(stream, opened, anchor=log.panel_digest)
            evaluation = Evaluation(opened)
        for event in interrupt(evaluation):
            closing = batch.add(stream, event)
        ballots.append(_ballot(mandate.judge, closing))
    return _decide(log, batch, convened, ballots)


def take_over(log: TaskLog) -> bool:
    """Close the panel of a runner that is gone (rule 10); True where that was done.

    Raises `Busy`, naming the runner, where it lives.
    """
    panel = log.state.panel
    if log.state.stage != "judging" or panel is None:
        return False
    lock = log.writer.store.try_lock(panel.runner.id)
    if lock is None:
        raise taken(log)
    try:
        closed = _close(log, panel.runner)
    finally:
        lock.release()
    if not closed and log.state.stage == "judging":
        raise taken(log)
    return closed


def _close(log: TaskLog, runner: Runner) -> bool:
    """Close the panel of `runner`, whose lock is ours; True where it still sat.

    It may have decided between our reading and its end, and another panel may sit by now: what is stored
    counts, and the lock is that of one runner alone.
    """
    log.reload()
    panel = log.state.panel
    if log.state.stage != "judging" or panel is None or panel.runner.id != runner.id:
        return False
    batch = log.batch()
    _close_and_decide(log, batch)
    log.save(batch)
    return True


def resolve(
    log: TaskLog,
    decision: Literal["proceed", "halt", "reject"],
    *,
    name: str,
    meaning: str,
    comment: str = "",
) -> ResolutionRecorded:
    """Record a person's resolution of the escalation that waits, signed by the authority key.

    Raises `Misuse` where none waits: blockers and errors are resolved by nobody.
    """
    state = log.state
    if state.stage != "waiting" or state.decided is None:
        raise Misuse(
            f"task {log.task}: only an escalation can be resolved, and none is waiting",
            hint=f"causebook why {log.task} shows where it stands; a blocker or an error needs a new attempt",
        )
    event = ResolutionRecorded(
        attempt=state.attempt,
        phase=state.decided.phase,
        decision=decision,
        name=name,
        meaning=meaning,
        comment=comment,
        decided=cast(str, state.decided_digest),
    )
    batch = log.batch()
    log.add(batch, event)
    log.follow(batch)
    log.save(batch)
    return event
