"""The life of a task: which event may follow which (design section 4). An order not named here is refused.

    TaskOpened
      AttemptStarted                              the first, or after the last attempt was closed
        CoderDispatched                           any number, while no panel sits
        PanelConvened                             pre_execute once, post_execute once, never back
        PanelDecided                              ends the panel
          proceed, log at pre_execute             the attempt goes on
          proceed, log at post_execute            AttemptClosed, TaskCompleted
          halt                                    TaskHalted, AttemptClosed
          escalate                                TaskHalted, and the attempt waits for a person
            ResolutionRecorded proceed            as proceed above
            ResolutionRecorded halt, reject       AttemptClosed
        TaskHalted by an engine                   after AttemptStarted, CoderDispatched, or a panel that
                                                  let the task go on; then AttemptClosed
      TaskCompleted                               nothing follows

`Task` is a fold over the events of one task stream. `Task.objection` answers why an event may not follow, and
is asked both before an append and by whoever checks a record. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from .events import (
    AttemptClosed,
    AttemptStarted,
    Ballot,
    CoderDispatched,
    Event,
    HaltType,
    Outcome,
    PanelConvened,
    PanelDecided,
    Phase,
    ResolutionRecorded,
    TaskCompleted,
    TaskHalted,
    TaskOpened,
)
from .quorum import CANONICAL, PANEL_HALTS, decided, outcome, panel_halt
from .streams import shorten
from .tools import READ_TOOLS

Stage = Literal[
    "unopened",
    "between",  # no attempt is open
    "working",  # an attempt is open and no panel sits
    "judging",  # a panel sits
    "decided_halt",  # a panel halted the task; TaskHalted is due
    "decided_escalate",
    "waiting",  # escalated: a person is to resolve it
    "passed",  # post_execute went well; AttemptClosed and TaskCompleted are due, or an engine's halt
    "halted",  # AttemptClosed is due
    "finishing",  # TaskCompleted is due
    "completed",
]
Status = Literal["open", "blocked", "completed"]

_DUE: Final[dict[Stage, str]] = {
    "decided_halt": "TaskHalted",
    "decided_escalate": "TaskHalted",
    "halted": "AttemptClosed",
    "passed": "AttemptClosed",
    "finishing": "TaskCompleted",
}


@dataclass
class Task:
    """The state of one task, changed by `apply` alone. `decided_digest`: of the record of `decided`."""

    task: str
    stage: Stage = "unopened"
    status: Status = "open"
    attempt: int = 0
    panel: PanelConvened | None = None
    decided: PanelDecided | None = None
    decided_digest: str | None = None
    halted: TaskHalted | None = None
    resolution: ResolutionRecorded | None = None
    phases: list[Phase] = field(default_factory=list)
    ballots: list[Ballot] = field(default_factory=list)
    engine_halt: HaltType | None = None
    coder_dispatches: int = 0
    outcomes: list[tuple[int, Outcome]] = field(default_factory=list)

    @property
    def due(self) -> str | None:
        """The type of the event that is stored in one go with the newest, or None where all is said."""
        return _DUE.get(self.stage)

    def objection(self, event: Event) -> str | None:
        """Why `event` may not come next, or None. Digests and heads are for whoever has the records."""
        if isinstance(event, TaskOpened):
            if self.stage != "unopened":
                return "the task is open already"
            return None if event.task == self.task else f"the stream is that of {self.task}"
        if self.stage == "unopened":
            return "the task is not open"
        if isinstance(event, AttemptStarted):
            return self._start_objection(event)
        attempt = getattr(event, "attempt", None)
        if attempt != self.attempt or self.stage in ("between", "completed"):
            return f"attempt {attempt} is not open"
        match event:
            case CoderDispatched():
                return None if self.stage == "working" else self._not_now("CoderDispatched")
            case PanelConvened():
                return self._convene_objection(event)
            case PanelDecided():
                return self._decide_objection(event)
            case TaskHalted():
                return self._halt_objection(event)
            case ResolutionRecorded():
                return self._resolution_objection(event)
            case AttemptClosed():
                return self._close_objection(event)
            case TaskCompleted():
                return None if self.stage == "finishing" else self._not_now("TaskCompleted")
        return f"{event.kind()} has no place in a task's stream"

    def apply(self, event: Event, digest: str) -> None:
        """Fold one event in; `digest` is that of its record."""
        match event:
            case TaskOpened():
                self.stage = "between"
            case AttemptStarted():
                self.stage, self.status, self.attempt = "working", "open", event.attempt
                self.panel = self.decided = self.decided_digest = None
                self.halted = self.resolution = self.engine_halt = None
                self.phases, self.ballots = [], []
            case CoderDispatched():
                self.coder_dispatches += 1
            case PanelConvened():
                self.stage, self.panel = "judging", event
                self.phases.append(event.phase)
            case PanelDecided():
                self.decided, self.decided_digest = event, digest
                self.ballots.extend(event.ballots)
                if event.action == "halt":
                    self.stage = "decided_halt"
                elif event.action == "escalate":
                    self.stage = "decided_escalate"
                else:
                    self._go_on(event.phase)
            case TaskHalted():
                self.halted, self.status = event, "blocked"
                if event.raw_halt_type == "escalated":
                    self.stage = "waiting"
                else:
                    self.stage = "halted"
                    if event.decided is None:
                        self.engine_halt = event.halt_type
            case ResolutionRecorded():
                self.resolution = event
                if event.decision == "proceed":
                    self.status, self.halted = "open", None
                    self._go_on(event.phase)
                else:
                    self.stage = "halted"
            case AttemptClosed():
                self.outcomes.append((event.attempt, event.outcome))
                self.stage = "finishing" if self.stage == "passed" else "between"
            case TaskCompleted():
                self.stage, self.status = "completed", "completed"

    def outcome(self) -> Outcome:
        """The outcome of the attempt that is open, from its ballots or its engine's halt."""
        return outcome(self.ballots, self.engine_halt)

    def _go_on(self, phase: Phase) -> None:
        self.stage = "working" if phase == "pre_execute" else "passed"

    def _not_now(self, kind: str) -> str:
        doing = {
            "working": "no panel sits",
            "judging": "a panel sits",
            "decided_halt": "the panel halted the task and TaskHalted is due",
            "decided_escalate": "the panel escalated and TaskHalted is due",
            "waiting": "the attempt waits for a person's resolution",
            "passed": "post_execute let the task go on and AttemptClosed is due",
            "halted": "the task is halted and AttemptClosed is due",
            "finishing": "TaskCompleted is due",
        }.get(self.stage, self.stage)
        return f"{kind} has no place here: {doing}"

    def _start_objection(self, event: AttemptStarted) -> str | None:
        if self.stage == "completed":
            return "the task is completed"
        if self.stage != "between":
            return f"attempt {self.attempt} is still open"
        if event.attempt != self.attempt + 1:
            return f"attempt: expected {self.attempt + 1}, found {event.attempt}"
        if event.rejudges is not None and event.rejudges >= event.attempt:
            return "rejudges: expected an earlier attempt"
        return None

    def _convene_objection(self, event: PanelConvened) -> str | None:
        if self.stage != "working":
            return self._not_now("PanelConvened")
        if event.phase in self.phases:
            return f"{event.phase} was judged in this attempt already"
        if "post_execute" in self.phases:
            return "pre_execute never comes after post_execute"
        names = [mandate.judge for mandate in event.judges]
        if len(set(names)) != len(names):
            return "two judges of one id"
        unknown = {name for mandate in event.judges for name in mandate.tools} - READ_TOOLS.keys()
        return f"no read tool of ours: {shorten(min(unknown))}" if unknown else None

    def _decide_objection(self, event: PanelDecided) -> str | None:
        if self.stage != "judging" or self.panel is None:
            return self._not_now("PanelDecided")
        if event.phase != self.panel.phase or event.policy != self.panel.policy:
            return "phase and policy: expected those the panel was convened with"
        convened = [mandate.judge for mandate in self.panel.judges]
        if [ballot.judge for ballot in event.ballots] != convened:
            return f"ballots: expected one of each judge convened, in order: {', '.join(convened)}"
        if any(ballot.error and ballot.severity != "blocker" for ballot in event.ballots):
            return "a judge that errored counts as a blocker"
        expected = decided(event.attempt, event.phase, event.policy, event.ballots)
        if expected != event:
            return f"the ballots come to {expected.action}, found {event.action} or other counts"
        return None

    def _halt_objection(self, event: TaskHalted) -> str | None:
        if event.halt_type != CANONICAL[event.raw_halt_type]:
            return f"{event.raw_halt_type} is {CANONICAL[event.raw_halt_type]}"
        if self.stage in ("decided_halt", "decided_escalate") and self.decided is not None:
            if event.decided != self.decided_digest or event.phase != self.decided.phase:
                return "a panel's halt names the record that decided it"
            expected = panel_halt(self.decided, self.decided_digest)
            if event.raw_halt_type != expected.raw_halt_type:
                return f"raw halt type: the panel's ballots make it {expected.raw_halt_type}"
            if event.reason != expected.reason:
                return "reason: not the one that follows from the ballots"
            return None
        if self.stage not in ("working", "passed"):
            return self._not_now("TaskHalted")
        if event.decided is not None or event.raw_halt_type in PANEL_HALTS:
            return f"{event.raw_halt_type} is written by a panel, and none decided so"
        return None

    def _resolution_objection(self, event: ResolutionRecorded) -> str | None:
        if self.stage != "waiting" or self.decided is None:
            return "only an escalation can be resolved, and none is waiting"
        if event.decided != self.decided_digest or event.phase != self.decided.phase:
            return "a resolution names the very record it answers"
        return None

    def _close_objection(self, event: AttemptClosed) -> str | None:
        if self.stage not in ("halted", "passed"):
            return self._not_now("AttemptClosed")
        if event.outcome != self.outcome():
            return f"outcome: expected {self.outcome()}, found {event.outcome}"
        return None
