"""The law of a panel: what follows from its ballots, in integers (design section 4).

In this order:

1. no ballots: halt, `validator_error`
2. any ballot that is an error: halt, `validator_error`
3. any blocker: halt, `blocked`
4. else the policy, on the count of `pass`; a warn withholds approval: `unanimous` needs all, `majority` more
   than half, `quorum` at least 67/100 of all, `any` one. Met without a warn: proceed. Met with a warn: log,
   which proceeds and is noted. Not met: escalate.

No policy and no person overrides a blocker or an error. A judge that errored counts in `blocker` and stands
in `blocker_validators`; it has no list and no count of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .events import (
    Action,
    Ballot,
    Counts,
    HaltType,
    Outcome,
    PanelDecided,
    Phase,
    Policy,
    RawHaltType,
    TaskHalted,
)

QUORUM_PERCENT: Final = 67

CANONICAL: Final[dict[RawHaltType, HaltType]] = {
    "escalated": "escalate",
    "blocked": "blocker",
    "constraint": "blocker",
    "wf3": "blocker",
    "max_iterations": "blocker",
    "recovery_exhausted": "blocker",
    "recovery_stalled": "blocker",
    "head_not_moved": "blocker",
    "no_file_operations": "blocker",
    "validator_error": "validator_error",
    "execution_error": "environment_error",
    "environment_error": "environment_error",
    "turn_budget_exhausted": "environment_error",
    "internal_error": "internal_error",
}
"""Raw halt type to canonical. The vocabulary is closed."""

PANEL_HALTS: Final = frozenset({"escalated", "blocked", "validator_error"})
"""The raw halt types that a panel writes; the others come from engines."""


@dataclass(frozen=True)
class Decision:
    """What a panel's ballots come to. `raw_halt_type` is None where the task goes on."""

    action: Action
    raw_halt_type: RawHaltType | None
    counts: Counts
    required: int
    blocker_validators: tuple[str, ...]


def required_passes(policy: Policy, total: int) -> int:
    """How many of `total` ballots must be `pass` for the policy to be met."""
    match policy:
        case "unanimous":
            return total
        case "majority":
            return total // 2 + 1
        case "quorum":
            return -(-QUORUM_PERCENT * total // 100)
        case "any":
            return 1


def decide(policy: Policy, ballots: Sequence[Ballot]) -> Decision:
    """The decision of `policy` over `ballots`, by the numbered order above."""
    severities = [ballot.severity for ballot in ballots]
    fell = {severity: severities.count(severity) for severity in ("pass", "warn", "blocker")}
    counts = Counts.model_validate({**fell, "total": len(ballots)})
    blockers = tuple(ballot.judge for ballot in ballots if ballot.severity == "blocker")
    required = required_passes(policy, len(ballots))

    action: Action
    raw: RawHaltType | None
    if not ballots or any(ballot.error for ballot in ballots):
        action, raw = "halt", "validator_error"
    elif counts.blocker:
        action, raw = "halt", "blocked"
    elif counts.pass_ < required:
        action, raw = "escalate", "escalated"
    else:
        action, raw = ("log" if counts.warn else "proceed"), None
    return Decision(action, raw, counts, required, blockers)


def decided(attempt: int, phase: Phase, policy: Policy, ballots: Sequence[Ballot]) -> PanelDecided:
    """The event that a panel decided."""
    decision = decide(policy, ballots)
    return PanelDecided(
        attempt=attempt,
        phase=phase,
        policy=policy,
        action=decision.action,
        counts=decision.counts,
        required=decision.required,
        blocker_validators=decision.blocker_validators,
        ballots=tuple(ballots),
    )


def outcome(ballots: Sequence[Ballot], engine_halt: HaltType | None) -> Outcome:
    """An attempt's outcome: from the ballots of all its panels, or from an engine's own halt."""
    if engine_halt is not None:
        return "blocked" if engine_halt == "blocker" else "error"
    if any(ballot.error for ballot in ballots):
        return "error"
    severities = {ballot.severity for ballot in ballots}
    if "blocker" in severities:
        return "blocked"
    return "warned" if "warn" in severities else "passed"


def halt_reason(decided: PanelDecided) -> str:
    """One or two sentences for a person: why this panel did not let the task go on."""
    errors = [b.judge for b in decided.ballots if b.error]
    blockers = [b.judge for b in decided.ballots if b.severity == "blocker" and not b.error]
    if errors:
        plural = "each of which" if len(errors) > 1 else "which"
        return f"{_listed(errors)} gave no verdict, {plural} is an error and counts as a blocker."
    if blockers:
        return f"{_listed(blockers)} found a blocker."
    if not decided.ballots:
        return "No judge was heard, which is an error."
    counts = decided.counts
    return (
        f"{decided.policy} needs {decided.required} of {counts.total} to pass, and "
        f"{counts.pass_} did: a person decides."
    )


def panel_halt(decision: PanelDecided, digest: str | None) -> TaskHalted:
    """The halt that a panel's decision comes to; `digest` is that of its record.

    Raises `ValueError` where it lets the task go on.
    """
    raw = decide(decision.policy, decision.ballots).raw_halt_type
    if raw is None:
        raise ValueError("the panel let the task go on")
    return TaskHalted(
        attempt=decision.attempt,
        phase=decision.phase,
        raw_halt_type=raw,
        halt_type=CANONICAL[raw],
        reason=halt_reason(decision),
        decided=digest,
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
