"""Lawful ledgers for the tests of projections: scripted judges under the domain's own law, fake signatures.

    book = Book()
    task = book.task("T-1")
    task.attempt()
    task.panel("post_execute", "unanimous", {"security": [[read("a.py")], [verdict("pass")]]})
    facts = book.facts("T-1")

A judge's script is a list of turns: a list of calls, a text (prose and no call), `FAULT` (the provider fails
for good), `DECLINED` before the turn it belongs to (the provider refuses tool_choice). A script that ends
before the judge is closed leaves the evaluation open. Times count up by a millisecond; every digest is
the same in every run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from causebook.adapters.store.port import Row, Store
from causebook.domain.evaluation import (
    Evaluation,
    answer,
    fail,
    hear,
    interrupt,
    open_turn,
)
from causebook.domain.events import (
    AttemptClosed,
    AttemptStarted,
    Ballot,
    Call,
    CoderDispatched,
    EvaluationFailed,
    EvaluationOpened,
    Event,
    Granted,
    Head,
    LedgerFounded,
    Mandate,
    ModelCallFailed,
    ModelResponded,
    PanelConvened,
    PanelDecided,
    Phase,
    Policy,
    RawHaltType,
    ResolutionRecorded,
    Runner,
    TaskCompleted,
    TaskHalted,
    TaskOpened,
    ToolChoiceDeclined,
)
from causebook.domain.quorum import CANONICAL, decided, halt_reason
from causebook.domain.record import NO_PREVIOUS, write, written_time
from causebook.domain.streams import evaluation_stream, evaluations_prefix, task_stream
from causebook.domain.task import Task
from causebook.domain.tools import READ_TOOLS, active
from causebook.projections.facts import TaskFacts, read_stream
from tests.memory_store import MemoryStore

ENGINE = "e" * 64
AUTHORITY = "a" * 64
TOOLS = ("read_file", "read_file_lines", "list_files")
FAULT: Literal["FAULT"] = "FAULT"
DECLINED: Literal["DECLINED"] = "DECLINED"

ToolUse = tuple[str, Any]
Script = Sequence[Sequence[ToolUse] | str]


def read(path: str) -> ToolUse:
    """A read of a whole file of 40 lines; a name that begins with `missing` is answered with an error."""
    return "read_file", {"path": path}


def lines(path: str, start: int, end: int) -> ToolUse:
    """A read of some lines."""
    return "read_file_lines", {"path": path, "start": start, "end": end}


def verdict(severity: str, justification: str = "as seen") -> ToolUse:
    """A `submit_verdict`."""
    return "submit_verdict", {"severity": severity, "justification": justification}


@dataclass
class Book:
    """A ledger in a store."""

    store: Store = field(default_factory=MemoryStore)
    now: datetime = datetime(2026, 11, 30, 15, 36, tzinfo=UTC)
    ends: dict[str, tuple[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        founded = LedgerFounded(
            format=1, nonce="0" * 64, root_key="AAAA", custody="together", continues=None
        )
        raw = self.record("ledger", founded, NO_PREVIOUS)
        self.store.append([Row("ledger", 1, "LedgerFounded", raw)], [], ledger_version=0)

    def record(self, stream: str, event: Event, begins_from: str, keyid: str = ENGINE) -> bytes:
        """The next record of `stream`; `begins_from` is its `previous` where it is the first."""
        version, previous = self.ends.get(stream, (0, begins_from))
        self.now += timedelta(milliseconds=1)
        raw, digest = write(
            event.kind(),
            event.fields(),
            at=written_time(self.now),
            ledger="audit.example.com/team",
            previous=previous,
            stream=stream,
            version=version + 1,
            keyid=keyid,
            sign=lambda _: bytes(64),
        )
        self.ends[stream] = (version + 1, digest)
        return raw

    def write(
        self, stream: str, events: Iterable[Event], begins_from: str = "", keyid: str = ENGINE
    ) -> str:
        """Append `events` to `stream` in one transaction; the digest of the last record."""
        rows = []
        for event in events:
            raw = self.record(stream, event, begins_from, keyid)
            rows.append(Row(stream, self.ends[stream][0], event.kind(), raw))
        self.store.append(rows, [], ledger_version=1)
        return self.ends[stream][1]

    def task(self, task: str) -> TaskBook:
        """Open a task."""
        book = TaskBook(self, task, Task(task))
        book.say(TaskOpened(task=task, spec=None))
        return book

    def facts(self, task: str) -> TaskFacts:
        """The facts of a task, as a projection gets them."""

        def entries(stream: str) -> Any:
            return read_stream(stream, [row.record for row in self.store.stream(stream)])

        names = self.store.streams(evaluations_prefix(task))
        return TaskFacts(task, entries(task_stream(task)), {name: entries(name) for name in names})


@dataclass
class TaskBook:
    """One task of a `Book`. Every event is put before the law of a task first."""

    book: Book
    task: str
    law: Task
    evaluations: dict[str, Evaluation] = field(default_factory=dict)

    def say(self, event: Event, keyid: str = ENGINE) -> None:
        """Append to the task's stream what may come next."""
        objection = self.law.objection(event)
        assert objection is None, objection
        begins_from = self.book.ends["ledger"][1]
        self.law.apply(event, self.book.write(task_stream(self.task), [event], begins_from, keyid))

    def attempt(self, *, rejudges: int | None = None, dispatches: int = 0) -> None:
        """Start the next attempt."""
        self.say(AttemptStarted(attempt=self.law.attempt + 1, rejudges=rejudges))
        for _ in range(dispatches):
            self.say(CoderDispatched(attempt=self.law.attempt, coder="coder", brief=None))

    def panel(
        self,
        phase: Phase,
        policy: Policy,
        scripts: Mapping[str, Script],
        *,
        budget: int = 20,
        tools: Sequence[str] = TOOLS,
    ) -> None:
        """Convene, hear every judge, decide, and write what follows from the decision."""
        self.convene(phase, policy, scripts, budget=budget, tools=tools)
        for judge, script in scripts.items():
            self.hear(judge, script)
        self.decide()

    def convene(
        self,
        phase: Phase,
        policy: Policy,
        judges: Iterable[str],
        *,
        budget: int = 20,
        tools: Sequence[str] = TOOLS,
    ) -> None:
        """Convene a panel, its judges unheard."""
        mandates = tuple(
            Mandate(
                judge=judge,
                model="script",
                criteria_digest="c" * 64,
                tools=tuple(tools),
                max_tool_turns=budget,
            )
            for judge in judges
        )
        self.say(
            PanelConvened(
                attempt=self.law.attempt,
                phase=phase,
                policy=policy,
                judges=mandates,
                brief=None,
                base=None,
                workspace=None,
                root="/src",
                runner=Runner(id="1" * 32, host="host.example.com", process=7),
            )
        )
        self.evaluations = {}

    def hear(self, judge: str, script: Script) -> None:
        """Let a judge go through its script."""
        evaluation = self.open(judge)
        declined = 0
        for step in script:
            if step == DECLINED:
                declined = 1
                continue
            events = open_turn(evaluation)
            turn = evaluation.turn
            if step == FAULT:
                tries = [_failed(turn, number) for number in (1, 2, 3)]
                events += fail(evaluation, tries)
            else:
                events += _declined(turn) if declined else []
                events += _heard(evaluation, step, tries=declined, asked=evaluation.withdrawn)
                declined = 0
            self.book.write(self._stream(judge), events)

    def open(self, judge: str, *, ran: bool = True) -> Evaluation:
        """Open the evaluation of a judge; `ran`: false for one that was never to run."""
        panel = self.law.panel
        assert panel is not None
        mandate = next(m for m in panel.judges if m.judge == judge)
        opened = EvaluationOpened(
            task=self.task,
            attempt=panel.attempt,
            phase=panel.phase,
            judge=judge,
            law="law/1",
            max_tool_turns=mandate.max_tool_turns,
            max_stall_turns=3,
            declared=mandate.tools,
            active=tuple(
                Granted(name=name, defaults=READ_TOOLS[name].defaults())
                for name in active(mandate.tools, panel.phase)
            ),
            criteria=("Judge it.",) if ran else None,
            model=mandate.model,
            prompt_version="prompt/1",
            prompt=("b" * 64, "d" * 64) if ran else None,
            root="/src",
            workspace=None,
        )
        convened = self.book.ends[task_stream(self.task)][1]
        self.book.write(self._stream(judge), [opened], convened)
        self.evaluations[judge] = Evaluation(opened)
        return self.evaluations[judge]

    def take_over(self) -> None:
        """Close what a gone runner left open (rule 10), and decide."""
        assert self.law.panel is not None
        for mandate in self.law.panel.judges:
            evaluation = self.evaluations.get(mandate.judge) or self.open(mandate.judge, ran=False)
            if evaluation.closed is None:
                self.book.write(self._stream(mandate.judge), interrupt(evaluation))
        self.decide()

    def decide(self) -> None:
        """Decide the panel, and write what follows."""
        panel = self.law.panel
        assert panel is not None
        ballots = []
        for mandate in panel.judges:
            closed = self.evaluations[mandate.judge].closed
            assert closed is not None, f"{mandate.judge} is open"
            version, last = self.book.ends[self._stream(mandate.judge)]
            ballots.append(
                Ballot(
                    judge=mandate.judge,
                    severity=closed.severity,
                    error=isinstance(closed, EvaluationFailed),
                    stream=self._stream(mandate.judge),
                    version=version,
                    digest=last,
                )
            )
        decision = decided(panel.attempt, panel.phase, panel.policy, ballots)
        self.say(decision)
        if decision.action in ("halt", "escalate"):
            self._halt(decision)
        elif decision.phase == "post_execute":
            self._close()

    def resolve(self, decision: Literal["proceed", "halt", "reject"]) -> None:
        """A person answers the escalation."""
        assert self.law.decided is not None
        assert self.law.decided_digest is not None
        self.say(
            ResolutionRecorded(
                attempt=self.law.attempt,
                phase=self.law.decided.phase,
                decision=decision,
                name="Ada Example",
                meaning="approval",
                comment="read and understood",
                decided=self.law.decided_digest,
            ),
            AUTHORITY,
        )
        if self.law.stage in ("halted", "passed"):
            self._close()

    def engine_halt(self, raw: RawHaltType, phase: Phase | None = None) -> None:
        """An engine halts the task."""
        self.say(
            TaskHalted(
                attempt=self.law.attempt,
                phase=phase,
                raw_halt_type=raw,
                halt_type=CANONICAL[raw],
                reason="The engine says why.",
                decided=None,
            )
        )
        self._close()

    def _halt(self, decision: PanelDecided) -> None:
        raw: RawHaltType = "escalated"
        if decision.action == "halt":
            errors = any(ballot.error for ballot in decision.ballots)
            raw = "validator_error" if errors else "blocked"
        self.say(
            TaskHalted(
                attempt=decision.attempt,
                phase=decision.phase,
                raw_halt_type=raw,
                halt_type=CANONICAL[raw],
                reason=halt_reason(decision),
                decided=self.law.decided_digest,
            )
        )
        if decision.action == "halt":
            self._close()

    def _close(self) -> None:
        prefix = f"{evaluations_prefix(self.task)}{self.law.attempt}/"
        heads = tuple(
            Head(stream=name, version=version, digest=last)
            for name, (version, last) in sorted(self.book.ends.items())
            if name.startswith(prefix) or name == task_stream(self.task)
        )
        outcome: Any = self.law.outcome()
        self.say(AttemptClosed(attempt=self.law.attempt, outcome=outcome, heads=heads))
        if self.law.stage == "finishing":
            self.say(TaskCompleted(attempt=self.law.attempt))

    def _stream(self, judge: str) -> str:
        assert self.law.panel is not None
        return evaluation_stream(self.task, self.law.attempt, self.law.panel.phase, judge)


def _failed(turn: int, number: int) -> ModelCallFailed:
    return ModelCallFailed(
        turn=turn, try_number=number, error="server", status=503, retry_after_ms=None, detail=None
    )


def _declined(turn: int) -> list[Event]:
    return [
        ToolChoiceDeclined(
            turn=turn,
            try_number=1,
            error="bad_request",
            status=400,
            retry_after_ms=None,
            detail=None,
        )
    ]


def _heard(
    evaluation: Evaluation, step: Sequence[ToolUse] | str, *, tries: int, asked: bool
) -> list[Event]:
    uses = [] if isinstance(step, str) else step
    calls = tuple(
        Call(
            id=f"c{place}",
            name=name,
            arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
            was_object=False,
        )
        for place, (name, arguments) in enumerate(uses)
    )
    honoured = any(name == "submit_verdict" for name, _ in uses)
    responded = ModelResponded(
        turn=evaluation.turn,
        try_number=tries + 1,
        model="script",
        content="f" * 64,
        text_bytes=len(step) if isinstance(step, str) else 0,
        calls=calls,
        calls_total=len(calls),
        prompt_tokens=100,
        completion_tokens=10,
        milliseconds=5,
        tool_choice_sent=asked and not tries,
        tool_choice_honoured=honoured if asked else None,
        client="script",
        client_version="1",
    )
    turn = hear(evaluation, responded)
    try:
        place, wanted = next(turn)
        while True:
            failed = str(wanted.arguments.get("path", "")).startswith("missing")
            first, last = wanted.arguments.get("start", 1), wanted.arguments.get("end", 40)
            answered = answer(
                wanted,
                turn=evaluation.turn,
                call=place,
                result="9" * 64,
                lines=None if failed or wanted.tool == "list_files" else (first, last),
                cut=False,
                error=failed,
                blob=None,
            )
            place, wanted = turn.send(answered)
    except StopIteration as stop:
        events: list[Event] = stop.value
        return events


def example(book: Book, task: str = "T-104") -> TaskBook:
    """The example of the documentation: four judges, of whom one gives no verdict."""
    opened = book.task(task)
    opened.attempt()
    opened.panel(
        "post_execute",
        "unanimous",
        {
            "conventions": [[read("src/app.py")], [read("docs/guide.md")], [verdict("pass")]],
            "testing": [
                [read("src/app.py")],
                [read("missing_test.py")],
                [("list_files", {})],
                [verdict("warn", "nothing tests the empty list")],
            ],
            "security": [
                [read("src/app.py")],
                [read("src/auth.py")],
                [read("./src/auth.py")],
                [read("src/app.py")],
                [lines("src/app.py", 3, 9)],
                [verdict("blocker", "the token is logged")],
            ],
            "architecture": [[read("src/app.py")], "I would say it is fine.", "Fine, as I said."],
        },
    )
    return opened
