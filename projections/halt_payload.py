"""Why a task halted, or how it stands: the payload an engine gets, and a person reads first.

One row for each task; `halt_payload.schema.json` beside this file is its JSON Schema. The payload is about
one decision: that of the newest panel of the newest attempt, or of an engine's halt after it.

- `halt_type`, `raw_halt_type`, `final_decision` and `reason` are there exactly while `status` is `blocked`.
- `phase` is that of the halt where it names one, else that of the newest panel.
- `validator_results` holds the judges that closed, in the order they were convened. While a panel sits it
  grows; a judge still at work is not in it, since there is no verdict to show and none to make up.
- `resolution` is the person's answer to this panel. Those to earlier panels are in the attempt's history.
- `evidence` is the smallest set of events that carries the decision:
    - an engine's halt: its `TaskHalted`, which rests on nobody's verdict;
    - else `PanelDecided`, with the closing records of the ballots that were enough for it: the errors where
      any erred, else the blockers where there were any, else all, because that nobody erred and nobody
      found a blocker rests on every ballot;
    - and the `ResolutionRecorded` that answers it.
  `TaskHalted` of a panel is not in it: it follows from `PanelDecided`. The ballots are taken as that
  record names them. Before a decision the set is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..domain.canonical import encode
from ..domain.events import EvaluationFailed, Event, PanelDecided
from ..domain.streams import evaluation_stream
from .account import account, examined
from .course import Course, Panel, course
from .facts import Entry, TaskFacts

NAME: Final = "halt_payload"
VERSION: Final = 1


def rows(facts: TaskFacts) -> Mapping[str, bytes]:
    """Task id to payload."""
    return {facts.task: encode(halt_payload(facts))} if facts.own else {}


def halt_payload(facts: TaskFacts) -> dict[str, Any]:
    """The payload of a task. Raises `BadData` where a stream of it cannot be folded."""
    told = course(facts)
    halt = None if told.halt is None else told.halt.event
    panel = told.panel
    results = [] if panel is None else _validator_results(facts, panel)
    decided = None if panel is None or panel.decided is None else panel.decided.event
    if decided is not None:
        blockers = list(decided.blocker_validators)
    else:
        blockers = [result["judge"] for result in results if result["severity"] == "blocker"]
    halt_type = None if halt is None else halt.halt_type
    return {
        "task_id": facts.task,
        "status": told.status,
        "halt_type": halt_type,
        "raw_halt_type": None if halt is None else halt.raw_halt_type,
        "final_decision": halt_type,
        "reason": None if halt is None else halt.reason,
        "attempt": None if told.attempt is None else told.attempt.started.event.attempt,
        "phase": (halt and halt.phase) or (None if panel is None else panel.convened.event.phase),
        "blocker_validators": blockers,
        "validator_results": results,
        "policy_decision": None if decided is None else policy_decision(decided),
        "attempts": {
            "total": len(told.attempts),
            "coder_dispatches": told.coder_dispatches,
            "history": [
                {"attempt": a.closed.event.attempt, "outcome": a.closed.event.outcome}
                for a in told.attempts
                if a.closed is not None
            ],
        },
        "resolution": None if panel is None else resolution(panel),
        "evidence": _evidence(told),
    }


def policy_decision(decided: PanelDecided) -> dict[str, Any]:
    """A panel's policy, what it came to, the counts, and how many passes it needed."""
    return {
        "policy": decided.policy,
        "action": decided.action,
        **decided.counts.model_dump(by_alias=True),
        "required": decided.required,
    }


def resolution(panel: Panel) -> dict[str, Any] | None:
    """What a person decided of a panel: their printed name, the meaning of the signature, and when."""
    if panel.resolution is None:
        return None
    record, event = panel.resolution.record, panel.resolution.event
    return {
        "decision": event.decision,
        "name": event.name,
        "meaning": event.meaning,
        "comment": event.comment,
        "at": record.at,
        "keyid": record.keyid,
        "decided": event.decided,
    }


def _validator_results(facts: TaskFacts, panel: Panel) -> list[dict[str, Any]]:
    results = []
    convened = panel.convened.event
    for mandate in convened.judges:
        stream = evaluation_stream(facts.task, convened.attempt, convened.phase, mandate.judge)
        entries = facts.evaluations.get(stream)
        if not entries:
            continue
        summed = account(entries)
        if summed.closing is None:
            continue
        closing = summed.closing.event
        results.append(
            {
                "judge": mandate.judge,
                "severity": closing.severity,
                "error": isinstance(closing, EvaluationFailed),
                "justification": closing.justification,
                "examined": examined(summed.state),
                "evaluation": stream,
                "turns_used": summed.state.turns_used,
                "turns": summed.state.turn,
                "model": summed.model,
            }
        )
    return results


def _evidence(told: Course) -> list[dict[str, Any]]:
    attempt, panel = told.attempt, told.panel
    if attempt is not None and attempt.engine_halt is not None:
        return [_reference(attempt.engine_halt)]
    if panel is None or panel.decided is None:
        return []
    ballots = panel.decided.event.ballots
    enough = (
        [ballot for ballot in ballots if ballot.error]
        or [ballot for ballot in ballots if ballot.severity == "blocker"]
        or ballots
    )
    return [
        _reference(panel.decided),
        *({"stream": b.stream, "version": b.version, "digest": b.digest} for b in enough),
        *([] if panel.resolution is None else [_reference(panel.resolution)]),
    ]


def _reference(entry: Entry[Event]) -> dict[str, Any]:
    record = entry.record
    return {"stream": record.stream, "version": record.version, "digest": record.digest}
