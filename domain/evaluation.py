"""The law of an evaluation, `law/1`: one judge's bounded tool loop, and how it must end.

Pure: no IO, no clock, no randomness. `Evaluation` is a fold over events; the functions below decide which
events follow from a state and an answer, and fold them in as they say them. Live judging, the check of a
stored record and replay all run this same code; only where the answers come from differs.

    evaluation = Evaluation(opened)                       # an EvaluationOpened
    while evaluation.closed is None:
        opening = open_turn(evaluation)                   # rules 1, 2
        turn = hear(evaluation, responded)                # rules 3 to 7; responded: a ModelResponded
        read = next(turn)                                 # each fresh read, to be run ...
        read = turn.send(answered)                        # ... and its answer handed in
                                                          # StopIteration.value: the turn's events

The rules, by number (sources: ADR 045 and ADR 050 of the engine whose decisions these are):

 1. Before each turn: withdrawn = turns_used >= N-1 or stall >= S or narrated or no read tool is active. The
    reason recorded is the first that holds of none_granted, narration, stall, budget.
 2. Withdrawn: submit_verdict is the only tool offered, required through tool_choice, and the message list
    ends with the verdict-only instruction. Not withdrawn: the active read tools and submit_verdict are
    offered, and tool_choice is left unset.
 3. A response with exactly one distinct valid submit_verdict closes the evaluation with that verdict, on any
    turn. A justification of nothing but space, tab, CR and LF is blank, and is none. Other calls beside it
    are recorded as ignored and are not run. Two valid ones that differ are both invalid.
 4. A withdrawn turn without a valid verdict closes the evaluation at once: error, blocker, no_verdict. No
    second chance, and no verdict is ever read out of prose. What was called is still recorded.
 5. Otherwise each call, in order, known by its place, is an invalid submit_verdict (progress), refused and
    never run (progress), a repeat read answered with a pointer and never run (no progress), or a fresh read:
    run, answered, remembered, even where the tool failed (progress).
 6. No calls at all, prose or nothing: narration (progress). It happens once before rule 4.
 7. Any progress: charged, turns_used + 1, stall = 0. Only repeats: spared, turns_used unchanged, stall + 1.
    A closing turn is charged too, but for one closed by rule 8 or 10: there no response came.
 8. The provider failing for good closes the evaluation: error, blocker, provider_fault. Retries change
    neither count.
 9. A provider that refuses tool_choice is asked again without it; that is recorded, and what it then answers
    counts.
10. An evaluation whose runner is gone is closed by whoever takes over the runner's lock: error, blocker,
    interrupted.

It follows, and tests hold it: turns_used <= N; stall <= S; a spared turn never closes; every opened
evaluation closes exactly once; it takes 1 turn where N = 1, else at most S(N-2)+2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, ParamSpec, Protocol, TypeVar

from .canonical import encode, escaped_bytes
from .conversation import (
    PROMPT_VERSION,
    VERDICT_ONLY_INSTRUCTION,
    MessageDigest,
    pointer_text,
    refusal_text,
    rejection_text,
)
from .events import (
    CallIgnored,
    ChargeReason,
    EvaluationFailed,
    EvaluationOpened,
    Event,
    Examined,
    FailureCause,
    Granted,
    Mandate,
    Messages,
    ModelCallFailed,
    ModelResponded,
    Narrated,
    PanelConvened,
    ReadAnswered,
    RepeatReadHit,
    ToolRefused,
    ToolsWithdrawn,
    TurnCharged,
    TurnOpened,
    TurnSpared,
    VerdictGiven,
    VerdictRejected,
    WithdrawalReason,
)
from .limits import CRITERIA_BYTES_MAX, STALL_TURNS_MAX
from .reads import Read, ReadMemory
from .submissions import Refusal, Rejection, Verdict, read_call, read_verdict
from .tools import READ_TOOLS, SUBMIT_VERDICT, active, definitions_digest

LAW: Final = "law/1"
_REASONS: Final[tuple[ChargeReason, ...]] = (
    "verdict",
    "fresh_read",
    "refused",
    "invalid_verdict",
    "narration",
)


E = TypeVar("E", bound=Event)
P = ParamSpec("P")


class Make(Protocol):
    """How an event that the law decides on comes about, from its class and its fields.

    Live it is built and validated (`built`). Where a record is checked, it is the event that stands there
    next, if that is of this class and has these fields (`domain/rederivation.py`).
    """

    def __call__(self, kind: Callable[P, E], /, *args: P.args, **fields: P.kwargs) -> E: ...


def built(kind: Callable[P, E], /, *args: P.args, **fields: P.kwargs) -> E:
    """A new event, validated."""
    return kind(*args, **fields)


class Look(NamedTuple):
    """One thing the judge looked at. `disposition`: `answered`, `failed` or `repeat`."""

    turn: int
    tool: str
    target: str
    disposition: str


@dataclass
class Evaluation:
    """The state of one evaluation: a fold over its events.

    `turn` is the newest turn opened, 0 before the first. `withdrawn` is what rule 1 said of it. `reads` is
    filled by `hear`, which has the normalised read at hand; `apply` alone gives all the rest. `make` is how
    the functions below come by each event they decide on, in the order in which they are recorded.
    """

    opened: EvaluationOpened
    make: Make = built
    turn: int = 0
    turns_used: int = 0
    stall: int = 0
    narrated: bool = False
    withdrawn: bool = False
    closed: VerdictGiven | EvaluationFailed | None = None
    examined: list[Look] = field(default_factory=list)
    reads: ReadMemory = field(init=False)
    messages: MessageDigest = field(init=False)
    tools: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.reads = ReadMemory(root=self.opened.root)
        self.messages = MessageDigest(self.opened.prompt or ())
        self.tools = tuple(granted.name for granted in self.opened.active)

    @property
    def offered(self) -> tuple[str, ...]:
        """The tools offered in this turn (rule 2)."""
        return (SUBMIT_VERDICT,) if self.withdrawn else (*self.tools, SUBMIT_VERDICT)

    def apply(self, event: Event) -> None:
        """Fold one event in. What it may be is not asked here: the deciding functions are the law."""
        match event:  # the frequent ones first
            case TurnOpened():
                self.turn = event.turn
            case ModelResponded():
                self.messages.add_commitment(event.content)
            case ReadAnswered():
                self.messages.add_commitment(event.result)
                disposition = "failed" if event.error else "answered"
                self.examined.append(Look(event.turn, event.tool, event.target, disposition))
            case TurnCharged():
                self.turns_used, self.stall = event.turns_used, 0
            case VerdictGiven() | EvaluationFailed():
                self.closed = event
            case ToolsWithdrawn():
                self.withdrawn = True
            case RepeatReadHit():
                self.messages.add_text(pointer_text(event))
                self.examined.append(Look(event.turn, event.tool, event.target, "repeat"))
            case ToolRefused():
                self.messages.add_text(refusal_text(event, self.offered))
            case VerdictRejected():
                self.messages.add_text(rejection_text(event))
            case Narrated():
                self.narrated = True
            case TurnSpared():
                self.stall = event.stall


def withdrawal(evaluation: Evaluation) -> WithdrawalReason | None:
    """Rule 1: why the next turn has no read tools, or None where it has."""
    opened = evaluation.opened
    if not evaluation.tools:
        return "none_granted"
    if evaluation.narrated:
        return "narration"
    if evaluation.stall >= opened.max_stall_turns:
        return "stall"
    if evaluation.turns_used >= opened.max_tool_turns - 1:
        return "budget"
    return None


def open_turn(evaluation: Evaluation) -> list[Event]:
    """Rules 1 and 2: the events that open the next turn, folded in.

    Raises `ValueError` where the evaluation is closed.
    """
    if evaluation.closed is not None:
        raise ValueError("the evaluation is closed")
    turn, make = evaluation.turn + 1, evaluation.make
    events: list[Event] = []
    reason = withdrawal(evaluation)
    if reason is not None:
        events.append(
            make(
                ToolsWithdrawn,
                turn=turn,
                reason=reason,
                withdrawn=evaluation.tools,
                turns_used=evaluation.turns_used,
                stall=evaluation.stall,
            )
        )
        evaluation.apply(events[0])
    withdrawn = evaluation.withdrawn
    offered = evaluation.offered
    count, digest = evaluation.messages.digest(VERDICT_ONLY_INSTRUCTION if withdrawn else None)
    opened = make(
        TurnOpened,
        turn=turn,
        offered=offered,
        definitions=definitions_digest(offered),
        tool_choice=SUBMIT_VERDICT if withdrawn else None,
        messages=Messages(count=count, digest=digest),
    )
    evaluation.apply(opened)
    return [*events, opened]


Turn = Generator[tuple[int, Read], ReadAnswered, list[Event]]
"""A turn being heard: yields (place of the call, read) for each fresh read, takes its `ReadAnswered`."""


def hear(evaluation: Evaluation, responded: ModelResponded) -> Turn:
    """Rules 3 to 7: what follows from a response. Yields each fresh read to be run, in order.

    Answers, as the generator's value, every event from `responded` to the end of the turn, folded in.
    """
    turn, make = responded.turn, evaluation.make
    events: list[Event] = []

    def say(event: Event) -> None:
        evaluation.apply(event)
        events.append(event)

    say(responded)
    submissions = {
        place: read_verdict(call)
        for place, call in enumerate(responded.calls)
        if call.name == SUBMIT_VERDICT
    }
    valid = {place: v for place, v in submissions.items() if isinstance(v, Verdict)}
    distinct = set(valid.values())
    beyond = responded.calls_total - len(responded.calls)

    if len(distinct) == 1:  # rule 3
        chosen = min(valid)
        for place in range(len(responded.calls)):
            if place != chosen:
                say(make(CallIgnored, turn=turn, call=place, count=1, reason="beside_verdict"))
        if beyond:
            say(_beyond(make, responded, beyond))
        say(_charge(evaluation, turn, {"verdict"}))
        verdict = valid[chosen]
        say(
            make(
                VerdictGiven,
                turn=turn,
                call=chosen,
                severity=verdict.severity,
                justification=verdict.justification,
            )
        )
        return events

    progress: set[ChargeReason] = set()
    for place, call in enumerate(responded.calls):  # rule 5
        if place in submissions:
            rejection = submissions[place]
            if isinstance(rejection, Verdict):
                rejection = Rejection("conflicting", "another verdict in this turn differs")
            say(
                make(
                    VerdictRejected,
                    turn=turn,
                    call=place,
                    reason=rejection.reason,
                    detail=rejection.detail,
                )
            )
            progress.add("invalid_verdict")
            continue
        read = read_call(call, evaluation.tools, evaluation.withdrawn, evaluation.reads)
        if isinstance(read, Refusal):
            say(make(ToolRefused, turn=turn, call=place, reason=read.reason, detail=read.detail))
            progress.add("refused")
        elif (repeat := evaluation.reads.repeat_of(read)) is not None:
            say(
                make(
                    RepeatReadHit,
                    turn=turn,
                    call=place,
                    tool=read.tool,
                    target=read.target,
                    key=read.key,
                    first_turn=repeat.first_turn,
                    match=repeat.match,
                )
            )
        else:
            answered = yield place, read
            evaluation.reads.remember(read, turn=turn, lines=answered.lines, error=answered.error)
            say(answered)
            progress.add("fresh_read")
    if beyond:
        say(_beyond(make, responded, beyond))
    if not responded.calls:  # rule 6
        say(make(Narrated, turn=turn, text_bytes=responded.text_bytes))
        progress.add("narration")

    if not progress:  # rule 7; a withdrawn turn always makes progress, so it is never spared
        stall = evaluation.stall + 1
        limit = evaluation.opened.max_stall_turns
        say(make(TurnSpared, turn=turn, stall=stall, max_stall_turns=limit))
        return events
    say(_charge(evaluation, turn, progress))
    if evaluation.withdrawn:  # rule 4
        say(_failed(evaluation, turn, "no_verdict", "Asked for a verdict, the judge gave none."))
    return events


def fail(evaluation: Evaluation, failures: Sequence[Event]) -> list[Event]:
    """Rule 8: the provider failed for good in this turn. `failures`: its tries, as events."""
    for event in failures:
        evaluation.apply(event)
    last = failures[-1] if failures else None
    why = "The model gave no answer."
    if isinstance(last, ModelCallFailed):
        status = "" if last.status is None else f", status {last.status}"
        why = f"The model gave no answer: {last.error}{status}, at try {last.try_number}."
    closing = _failed(evaluation, evaluation.turn, "provider_fault", why)
    evaluation.apply(closing)
    return [*failures, closing]


def interrupt(evaluation: Evaluation) -> list[Event]:
    """Rule 10: the runner is gone. Raises `ValueError` where the evaluation is closed."""
    if evaluation.closed is not None:
        raise ValueError("the evaluation is closed")
    why = "The runner was gone before the judge decided."
    closing = _failed(evaluation, None, "interrupted", why)
    evaluation.apply(closing)
    return [closing]


def answer(
    read: Read,
    *,
    turn: int,
    call: int,
    result: str,
    lines: tuple[int, int] | None,
    cut: bool,
    error: bool,
    blob: str | None,
    make: Make = built,
) -> ReadAnswered:
    """The event that a fresh read was run; `result` is the commitment to what it answered."""
    return make(
        ReadAnswered,
        turn=turn,
        call=call,
        tool=read.tool,
        target=read.target,
        key=read.key,
        result=result,
        lines=lines,
        cut=cut,
        error=error,
        blob=blob,
    )


def opening(
    task: str,
    convened: PanelConvened,
    mandate: Mandate,
    criteria: tuple[str, ...] | None,
    prompt: tuple[str, ...] | None,
) -> EvaluationOpened:
    """The event that opens the evaluation of one judge convened; all but the last two follow from that.

    `criteria` and `prompt` are None for a judge that never ran (rule 10).
    """
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


def examined_digest(looks: Sequence[Look]) -> str:
    """SHA-256, hex, of canonical JSON `[[turn, tool, target, disposition], …]`."""
    listed = [[look.turn, look.tool, look.target, look.disposition] for look in looks]
    return hashlib.sha256(encode(listed)).hexdigest()


def grants_fault(opened: EvaluationOpened) -> str | None:
    """Why an evaluation cannot have opened so under this law, or None: its tools, or its criteria."""
    for name in opened.declared:
        if name not in READ_TOOLS:
            return f"declared: {name} is no read tool of {LAW}"
    if len(set(opened.declared)) != len(opened.declared):
        return "declared: expected each tool once"
    expected = active(opened.declared, opened.phase)
    if tuple(granted.name for granted in opened.active) != expected:
        return f"active: expected {expected}, the declared tools that exist in {opened.phase}"
    for granted in opened.active:
        if granted.defaults != READ_TOOLS[granted.name].defaults():
            return f"active: {granted.name} has other defaults than in {LAW}"
    criteria = opened.criteria or ()
    if opened.criteria == () or sum(escaped_bytes(c) or 0 for c in criteria) > CRITERIA_BYTES_MAX:
        return f"criteria: expected some, of at most {CRITERIA_BYTES_MAX} bytes in all"
    return None


def _charge(evaluation: Evaluation, turn: int, reasons: set[ChargeReason]) -> TurnCharged:
    return evaluation.make(
        TurnCharged,
        turn=turn,
        reasons=tuple(r for r in _REASONS if r in reasons),
        turns_used=evaluation.turns_used + 1,
        max_tool_turns=evaluation.opened.max_tool_turns,
    )


def _beyond(make: Make, responded: ModelResponded, count: int) -> CallIgnored:
    place = len(responded.calls)
    return make(CallIgnored, turn=responded.turn, call=place, count=count, reason="over_limit")


def _failed(
    evaluation: Evaluation, turn: int | None, cause: FailureCause, why: str
) -> EvaluationFailed:
    looks = evaluation.examined
    return evaluation.make(
        EvaluationFailed,
        turn=turn,
        error=True,
        severity="blocker",
        cause=cause,
        justification=why,
        examined=Examined(count=len(looks), digest=examined_digest(looks)),
    )
