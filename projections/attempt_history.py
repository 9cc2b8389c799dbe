"""Every attempt at a task: what was judged, what it came to, who halted it, what a person decided.

One row for each task, its attempts in order. `outcome` is null while an attempt is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..domain.canonical import encode
from ..domain.events import TaskHalted
from .course import Attempt, Panel, course
from .facts import Entry, TaskFacts
from .halt_payload import policy_decision, resolution

NAME: Final = "attempt_history"
VERSION: Final = 1


def rows(facts: TaskFacts) -> Mapping[str, bytes]:
    """Task id to history."""
    return {facts.task: encode(attempt_history(facts))} if facts.own else {}


def attempt_history(facts: TaskFacts) -> dict[str, Any]:
    """The attempts of a task. Raises `BadData` where its stream cannot be folded."""
    told = course(facts)
    return {
        "task": facts.task,
        "status": told.status,
        "coder_dispatches": told.coder_dispatches,
        "attempts": [_attempt(attempt) for attempt in told.attempts],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    started, closed = attempt.started, attempt.closed
    return {
        "attempt": started.event.attempt,
        "rejudges": started.event.rejudges,
        "started": started.record.at,
        "closed": None if closed is None else closed.record.at,
        "outcome": None if closed is None else closed.event.outcome,
        "completed": attempt.completed is not None,
        "coder_dispatches": attempt.coder_dispatches,
        "panels": [_panel(panel) for panel in attempt.panels],
        "engine_halt": _halt(attempt.engine_halt),
    }


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "phase": panel.convened.event.phase,
        "policy_decision": None if panel.decided is None else policy_decision(panel.decided.event),
        "halt": _halt(panel.halted),
        "resolution": resolution(panel),
    }


def _halt(halted: Entry[TaskHalted] | None) -> dict[str, Any] | None:
    if halted is None:
        return None
    event = halted.event
    return {
        "halt_type": event.halt_type,
        "raw_halt_type": event.raw_halt_type,
        "phase": event.phase,
        "reason": event.reason,
        "at": halted.record.at,
    }
