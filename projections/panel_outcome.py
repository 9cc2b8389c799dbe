"""What a panel was convened to do and what it decided: one row for each (task, attempt, phase).

The key is `<task>/<attempt>/<phase>`. `state` is `open` until the panel decided; the runner, which holds the
panel's lock while it lives, is named either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..domain.canonical import encode
from .course import Panel, course
from .facts import TaskFacts
from .halt_payload import policy_decision, resolution

NAME: Final = "panel_outcome"
VERSION: Final = 1


def rows(facts: TaskFacts) -> Mapping[str, bytes]:
    """`<task>/<attempt>/<phase>` to outcome."""
    return {
        f"{facts.task}/{panel.convened.event.attempt}/{panel.convened.event.phase}": encode(
            panel_outcome(facts.task, panel)
        )
        for attempt in course(facts).attempts
        for panel in attempt.panels
    }


def panel_outcome(task: str, panel: Panel) -> dict[str, Any]:
    """One panel: policy, judges, runner, and once it decided action, counts and ballots."""
    convened = panel.convened.event
    decided = None if panel.decided is None else panel.decided
    return {
        "task": task,
        "attempt": convened.attempt,
        "phase": convened.phase,
        "state": "open" if decided is None else "decided",
        "policy": convened.policy,
        "policy_decision": None if decided is None else policy_decision(decided.event),
        "blocker_validators": [] if decided is None else list(decided.event.blocker_validators),
        "judges": [
            {
                "judge": mandate.judge,
                "model": mandate.model,
                "max_tool_turns": mandate.max_tool_turns,
                "tools": list(mandate.tools),
            }
            for mandate in convened.judges
        ],
        "ballots": []
        if decided is None
        else [ballot.model_dump() for ballot in decided.event.ballots],
        "runner": convened.runner.model_dump(),
        "convened": {"at": panel.convened.record.at, "digest": panel.convened.record.digest},
        "decided": None
        if decided is None
        else {"at": decided.record.at, "digest": decided.record.digest},
        "resolution": resolution(panel),
    }
