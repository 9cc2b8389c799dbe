"""Every task in one line: how it stands, where it is, and when it was last heard of.

One row for each task. `judges` is how many the newest panel has; `at` is the latest time that the newest
record of any of its streams claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..domain.canonical import encode
from .course import course
from .facts import TaskFacts

NAME: Final = "tasks"
VERSION: Final = 1


def rows(facts: TaskFacts) -> Mapping[str, bytes]:
    """Task id to its line."""
    return {facts.task: encode(task_line(facts))} if facts.own else {}


def task_line(facts: TaskFacts) -> dict[str, Any]:
    """The line of a task that has a record. Raises `BadData` where its stream cannot be folded."""
    told = course(facts)
    panel = None if told.panel is None else told.panel.convened.event
    halt = None if told.halt is None else told.halt.event
    newest = [entries[-1].record.at for entries in (facts.own, *facts.evaluations.values())]
    return {
        "task": facts.task,
        "status": told.status,
        "halt_type": None if halt is None else halt.halt_type,
        "attempt": None if told.attempt is None else told.attempt.started.event.attempt,
        "phase": (halt and halt.phase) or (None if panel is None else panel.phase),
        "judges": 0 if panel is None else len(panel.judges),
        "at": max(newest),
    }
