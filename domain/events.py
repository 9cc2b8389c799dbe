"""What happened: every event there is, and no other.

An event is a past-tense fact: frozen, closed (`extra="forbid"`), without floats, with integers that every
JSON reader keeps exact. Its class name is its `type` in the record. Once released a type never changes;
a changed one is a new type (`TurnCharged/2`). Where it is stored, who may sign it and how it is written are
in `STREAMS`, `domain/keyring.py` and `domain/record.py`.

A digest here is 64 lower-case hex digits of a SHA-256. A *commitment* is the digest of a 32-byte random
salt followed by the bytes; salt and bytes lie beside the log and can be erased (`domain/evidence.py`).
Texts that hold what a model wrote are kept only within the limits of `domain/limits.py`; past them stands
`Withheld`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from .canonical import INTEGER_MAX

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Commitment = Digest
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
"""A task's or a judge's name: it becomes part of stream names, so nothing else is let in."""
Text = Annotated[str, StringConstraints(max_length=16_384)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Natural = Annotated[int, Field(ge=0, le=INTEGER_MAX)]
Positive = Annotated[int, Field(ge=1, le=INTEGER_MAX)]
PublicKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{1,400}={0,2}$")]
"""Base64 of a DER SubjectPublicKeyInfo."""
SignatureText = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{85}[AQgw]==$")]
"""Base64 of 64 bytes, in its one spelling: the last digit carries two bits."""
GitId = Annotated[str, StringConstraints(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]

Phase = Literal["pre_execute", "post_execute"]
Severity = Literal["pass", "warn", "blocker"]
Policy = Literal["unanimous", "majority", "quorum", "any"]
Action = Literal["proceed", "log", "escalate", "halt"]
Role = Literal["root", "engine", "authority", "log", "witness", "exporter"]
HaltType = Literal["escalate", "blocker", "validator_error", "environment_error", "internal_error"]
RawHaltType = Literal[
    "escalated",
    "blocked",
    "constraint",
    "wf3",
    "max_iterations",
    "recovery_exhausted",
    "recovery_stalled",
    "head_not_moved",
    "no_file_operations",
    "validator_error",
    "execution_error",
    "environment_error",
    "turn_budget_exhausted",
    "internal_error",
]
Outcome = Literal["passed", "warned", "blocked", "error"]
WithdrawalReason = Literal["none_granted", "narration", "stall", "budget"]
FailureCause = Literal["no_verdict", "provider_fault", "interrupted"]
RefusalReason = Literal[
    "not_offered",
    "withdrawn",
    "over_limit",
    "not_unicode",
    "arguments_not_json",
    "arguments_not_object",
    "arguments_duplicate_keys",
    "arguments_unfit",
]
RejectionReason = Literal[
    "over_limit",
    "not_unicode",
    "arguments_not_json",
    "arguments_not_object",
    "arguments_duplicate_keys",
    "severity",
    "justification",
    "conflicting",
]
IgnoredReason = Literal["beside_verdict", "over_limit"]
MatchRule = Literal["exact", "contained"]
ChargeReason = Literal["verdict", "fresh_read", "refused", "invalid_verdict", "narration"]


def _certain(value: bool) -> bool:
    if not value:
        raise ValueError("expected true")
    return value


Certainly = Annotated[bool, AfterValidator(_certain)]
"""True and nothing else; a `Literal` would take 1 for it."""


class Fact(BaseModel):
    """A frozen, closed, strict value: what events are made of."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, ser_json_inf_nan="constants"
    )

    def fields(self) -> Mapping[str, Any]:
        """Its fields by the names they are written under; a fact in a field is left a fact.

        Canonical JSON of them is that of `Event.data`, without a copy of each value, on the path of every
        append.
        """
        return self.__dict__


T = TypeVar("T")
# JSON has lists and a frozen fact holds tuples: only this outermost step is not strict.
Many = Annotated[tuple[T, ...], Field(strict=False)]


class Event(Fact):
    """Something that happened. The class name is the record's `type`."""

    @classmethod
    def kind(cls) -> str:
        """The record's `type`."""
        return cls.__name__

    def data(self) -> dict[str, Any]:
        """The record's `data`: every field, nulls included, in Python's own types."""
        document: dict[str, Any] = self.__pydantic_serializer__.to_python(self)
        return document


# ── the stream `ledger` ──────────────────────────────────────────────────────────────────────────────


class LedgerFounded(Event):
    """The ledger begins. `custody` says whether the root key was made beside the engine's key.

    `continues`: the note of the last checkpoint of the ledger that this one goes on from, under another
    origin, because sealed records of that one were lost; null where it goes on from none.
    """

    format: Annotated[int, Field(ge=1, le=1)]  # no Literal: that takes true for 1
    nonce: Digest
    root_key: PublicKey
    custody: Literal["together", "apart"]
    continues: Text | None


class KeyEnrolled(Event):
    """Root lets a key sign for a role, from the next record on.

    `possession` is the new key's own signature over the enrolment (`domain/keyring.py`), so that nobody is
    enrolled who does not hold the key; `rotates` and `handover` are the key replaced and its signature.
    """

    role: Role
    name: Name
    public_key: PublicKey
    possession: SignatureText
    rotates: Digest | None
    handover: SignatureText | None


class KeyRetired(Event):
    """Root ends a key. Trust in it ends at `size`: that of `checkpoint`, a note signed by a log key."""

    keyid: Digest
    compromised: bool
    reason: Text
    size: Natural
    checkpoint: Text


class ErasedStream(Fact):
    """Evidence of one stream, up to and including a version."""

    stream: Name
    version: Positive


class EvidenceErased(Event):
    """A named person erased a task's evidence: bytes and salts are gone, commitments stay."""

    task: Id
    name: Name
    reason: Text
    count: Natural
    streams: Annotated[Many[ErasedStream], Field(max_length=128)]


# ── the streams `task/<task>` ────────────────────────────────────────────────────────────────────────


class TaskOpened(Event):
    """A task comes under judgement. `spec`: commitment to what it asks for."""

    task: Id
    spec: Commitment | None


class AttemptStarted(Event):
    """The n-th try. `rejudges`: the attempt whose question is put again, where that is so."""

    attempt: Positive
    rejudges: Positive | None


class CoderDispatched(Event):
    """An engine sent a coder to work. Counted, never inferred. `brief`: commitment to its orders."""

    attempt: Positive
    coder: Name
    brief: Commitment | None


class Runner(Fact):
    """The process that runs a panel, and the name of the lock it holds while it lives."""

    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    host: Name
    process: Natural


class Mandate(Fact):
    """What one judge was convened to do.

    `criteria_digest` is over the canonical JSON list of the criteria, which `EvaluationOpened` holds.
    """

    judge: Id
    model: Name
    criteria_digest: Digest
    tools: Annotated[Many[Name], Field(max_length=16)]
    max_tool_turns: Annotated[int, Field(ge=1, le=200)]


class WorkspaceFacts(Fact):
    """The working tree judged. `tree` is the digest of its files where it is dirty or not in git."""

    commit: GitId | None
    tree: Digest | None
    dirty: bool


class PanelConvened(Event):
    """Judges are convened on one (task, attempt, phase) under one policy. `brief`: what all are told."""

    attempt: Positive
    phase: Phase
    policy: Policy
    judges: Annotated[Many[Mandate], Field(min_length=1, max_length=32)]
    brief: Commitment | None
    base: GitId | None
    workspace: WorkspaceFacts | None
    root: Text | None
    runner: Runner


class Counts(Fact):
    """How the ballots fell. A judge that errored is in `blocker`: it has no count of its own."""

    pass_: Annotated[int, Field(ge=0, le=32)] = Field(alias="pass")
    warn: Annotated[int, Field(ge=0, le=32)]
    blocker: Annotated[int, Field(ge=0, le=32)]
    total: Annotated[int, Field(ge=0, le=32)]

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        serialize_by_alias=True,
    )

    def fields(self) -> Mapping[str, Any]:
        """As `Fact.fields`: `pass` is no name in Python."""
        return {"pass" if name == "pass_" else name: n for name, n in self.__dict__.items()}


class Ballot(Fact):
    """One judge's verdict, and the record that closed its evaluation."""

    judge: Id
    severity: Severity
    error: bool
    stream: Name
    version: Positive
    digest: Digest


class PanelDecided(Event):
    """The policy met the ballots. `required` passes were needed; no policy overrides a blocker."""

    attempt: Positive
    phase: Phase
    policy: Policy
    action: Action
    counts: Counts
    required: Annotated[int, Field(ge=0, le=32)]
    blocker_validators: Annotated[Many[Id], Field(max_length=32)]
    ballots: Annotated[Many[Ballot], Field(max_length=32)]


class TaskHalted(Event):
    """The engine must not proceed. `decided`: digest of the `PanelDecided` record, null for an engine's."""

    attempt: Positive
    phase: Phase | None
    raw_halt_type: RawHaltType
    halt_type: HaltType
    reason: Text
    decided: Digest | None


class ResolutionRecorded(Event):
    """A person answers one escalation, once. `decided` is the digest of the record answered."""

    attempt: Positive
    phase: Phase
    decision: Literal["proceed", "halt", "reject"]
    name: Name
    meaning: Name
    comment: Text
    decided: Digest


class Head(Fact):
    """How long a stream was, and the digest of its last record."""

    stream: Name
    version: Positive
    digest: Digest


class AttemptClosed(Event):
    """An attempt is over. `heads`: every evaluation of it and the task stream up to the record before."""

    attempt: Positive
    outcome: Outcome
    heads: Annotated[Many[Head], Field(max_length=65)]


class TaskCompleted(Event):
    """The task may go on its way."""

    attempt: Positive


# ── the streams `evaluation/<task>/<attempt>/<phase>/<judge>` ────────────────────────────────────────


class Granted(Fact):
    """A read tool that is active, with the values its omitted arguments take."""

    name: Name
    defaults: dict[str, str | int]


class EvaluationOpened(Event):
    """A judge begins its bounded loop under a law.

    `declared` are the tools it was given, `active` those that exist in this phase. `prompt`: commitments to
    the messages it begins with, in order. `criteria` and `prompt` are null only where the judge never ran:
    its runner was gone before it opened (rule 10).
    """

    task: Id
    attempt: Positive
    phase: Phase
    judge: Id
    law: Literal["law/1"]
    max_tool_turns: Annotated[int, Field(ge=1, le=200)]
    max_stall_turns: Literal[3]
    declared: Annotated[Many[Name], Field(max_length=16)]
    active: Annotated[Many[Granted], Field(max_length=16)]
    criteria: Annotated[Many[Text], Field(max_length=256)] | None
    model: Name
    prompt_version: Name
    prompt: Annotated[Many[Commitment], Field(max_length=16)] | None
    root: Text | None
    workspace: WorkspaceFacts | None


class Messages(Fact):
    """The message list sent: how many, and the digest of their digests in order."""

    count: Natural
    digest: Digest


class TurnOpened(Event):
    """A model is about to be asked. `offered`: the tools, `definitions` the digest of what was said of them.

    `tool_choice`: the tool that is required, or null where it is left unset.
    """

    turn: Positive
    offered: Annotated[Many[Name], Field(max_length=17)]
    definitions: Digest
    tool_choice: Literal["submit_verdict"] | None
    messages: Messages


class ToolsWithdrawn(Event):
    """From this turn on the judge has `submit_verdict` alone."""

    turn: Positive
    reason: WithdrawalReason
    withdrawn: Annotated[Many[Name], Field(max_length=16)]
    turns_used: Natural
    stall: Natural


class ModelCallFailed(Event):
    """One try of the turn's model call brought no answer. `detail`: the provider's words, as evidence."""

    turn: Positive
    try_number: Positive
    error: Name
    status: Natural | None
    retry_after_ms: Natural | None
    detail: Commitment | None


class ToolChoiceDeclined(Event):
    """The provider refused `tool_choice`; it is asked again without it (rule 9)."""

    turn: Positive
    try_number: Positive
    error: Name
    status: Natural | None
    retry_after_ms: Natural | None
    detail: Commitment | None


class Withheld(Fact):
    """In place of a text that is over a limit or not Unicode: its length in bytes and its commitment."""

    length: Natural
    commitment: Commitment
    why: Literal["over_limit", "not_unicode"]


class Call(Fact):
    """One tool call as the model wrote it. Its number is its place in the turn; `id` is only data.

    `was_object`: an object stood where argument text belongs, and was written as canonical JSON.
    """

    id: Text | Withheld | None
    name: Text | Withheld
    arguments: Text | Withheld
    was_object: bool


class ModelResponded(Event):
    """The model answered. `content` commits to all of it; `calls` are the first 64 of `calls_total`.

    `tool_choice_honoured` is null where nothing was required. `text_bytes`: how long its prose is.
    """

    turn: Positive
    try_number: Positive
    model: Annotated[str, StringConstraints(max_length=512)]
    content: Commitment
    text_bytes: Natural
    calls: Annotated[Many[Call], Field(max_length=64)]
    calls_total: Natural
    prompt_tokens: Natural | None
    completion_tokens: Natural | None
    milliseconds: Natural
    tool_choice_sent: bool
    tool_choice_honoured: bool | None
    client: Annotated[str, StringConstraints(max_length=512)]
    client_version: Annotated[str, StringConstraints(max_length=512)]


CallNumber = Annotated[int, Field(ge=0, le=64)]
"""The place of a call in its turn, from 0."""


class ReadAnswered(Event):
    """A fresh read was run. `lines`: first and last line answered, or null where that is not known."""

    turn: Positive
    call: CallNumber
    tool: Name
    target: Text
    key: Digest
    result: Commitment
    lines: Annotated[tuple[Positive, Positive], Field(strict=False)] | None
    cut: bool
    error: bool
    blob: GitId | None


class RepeatReadHit(Event):
    """A read was answered already, in `first_turn`: the judge got a pointer there, and nothing was run."""

    turn: Positive
    call: CallNumber
    tool: Name
    target: Text
    key: Digest
    first_turn: Positive
    match: MatchRule


class ToolRefused(Event):
    """A call that was not run. `detail`: what does not fit, in fixed words."""

    turn: Positive
    call: CallNumber
    reason: RefusalReason
    detail: Text


class VerdictRejected(Event):
    """A `submit_verdict` that is not a verdict."""

    turn: Positive
    call: CallNumber
    reason: RejectionReason
    detail: Text


class CallIgnored(Event):
    """`count` calls from number `call` on were not looked at."""

    turn: Positive
    call: CallNumber
    count: Positive
    reason: IgnoredReason


class Narrated(Event):
    """The model called nothing: prose, or silence."""

    turn: Positive
    text_bytes: Natural


class TurnCharged(Event):
    """The turn made progress, or closed the evaluation: it counts."""

    turn: Positive
    reasons: Annotated[Many[ChargeReason], Field(min_length=1, max_length=5)]
    turns_used: Positive
    max_tool_turns: Positive


class TurnSpared(Event):
    """The turn was repeats alone: it is free, and one step nearer to the stall limit."""

    turn: Positive
    stall: Positive
    max_stall_turns: Positive


class VerdictGiven(Event):
    """The judge decided."""

    turn: Positive
    call: CallNumber
    severity: Severity
    justification: Text


class Examined(Fact):
    """How many entries the list of what the judge looked at has, and its digest."""

    count: Natural
    digest: Digest


class EvaluationFailed(Event):
    """The judge did not decide: an error, which counts as a blocker. `turn` is null where none was open."""

    turn: Positive | None
    error: Certainly
    severity: Literal["blocker"]
    cause: FailureCause
    justification: Text
    examined: Examined


LEDGER_EVENTS: Final = (LedgerFounded, KeyEnrolled, KeyRetired, EvidenceErased)
TASK_EVENTS: Final = (
    TaskOpened,
    AttemptStarted,
    CoderDispatched,
    PanelConvened,
    PanelDecided,
    TaskHalted,
    ResolutionRecorded,
    AttemptClosed,
    TaskCompleted,
)
EVALUATION_EVENTS: Final = (
    EvaluationOpened,
    TurnOpened,
    ToolsWithdrawn,
    ModelCallFailed,
    ToolChoiceDeclined,
    ModelResponded,
    ReadAnswered,
    RepeatReadHit,
    ToolRefused,
    VerdictRejected,
    CallIgnored,
    Narrated,
    TurnCharged,
    TurnSpared,
    VerdictGiven,
    EvaluationFailed,
)

STREAMS: Final[dict[str, frozenset[str]]] = {
    "ledger": frozenset(e.kind() for e in LEDGER_EVENTS),
    "task": frozenset(e.kind() for e in TASK_EVENTS),
    "evaluation": frozenset(e.kind() for e in EVALUATION_EVENTS),
}
"""Which types stand on which kind of stream: the first part of its name."""

EVENTS: Final[dict[str, type[Event]]] = {
    e.kind(): e for e in (*LEDGER_EVENTS, *TASK_EVENTS, *EVALUATION_EVENTS)
}
"""The closed union: type to class. A stored type outside it is refused before anything is built."""


def event_from(kind: str, data: Any) -> Event:
    """The event of type `kind` with `data`.

    Raises `ValueError` for a type outside the union, or data that does not fit it.
    """
    model = EVENTS.get(kind)
    if model is None:
        raise ValueError("a type outside the closed union of events")
    # What model_validate does, without its options: every record passes here.
    event: Event = model.__pydantic_validator__.validate_python(data)
    return event
